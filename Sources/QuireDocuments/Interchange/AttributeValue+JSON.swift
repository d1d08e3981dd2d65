package import Quire

extension AttributeValue {
    /// Reads a JSON value as an attribute's: numbers for numeric attributes, truth values for booleans, and for
    /// all others texts in the form that `quire` prints; null is no value. A number is an integer if it is whole, as
    /// 1.0 and 1e3 are.
    ///
    /// - Throws: `QuireError` with code `invalidValue`.
    package init(_ node: JSONNode, as attribute: AttributeDescription) throws {
        switch (node.content, attribute.type) {
        case (.null, _): self = .null
        case (.string(let text), _): self = try AttributeValue(parsing: text, as: attribute.type)
        case (.boolean(let value), .boolean): self = .boolean(value)
        case (.number(let digits), .integer16), (.number(let digits), .integer32),
            (.number(let digits), .integer64), (.number(let digits), .decimal),
            (.number(let digits), .double), (.number(let digits), .float),
            (.number(let digits), .boolean):
            self = try AttributeValue(parsingNumber: digits, as: attribute.type)
        default:
            throw QuireError(
                .invalidValue, "This is \(node.kind), which is no value of “\(attribute.name)”.",
                subject: .init(property: attribute.name))
        }
    }
}
