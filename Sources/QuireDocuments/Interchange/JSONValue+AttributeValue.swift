package import Quire

extension JSONValue {
    /// The value of an attribute: dates in ISO 8601, bytes in base64, decimals, UUIDs, URIs and identifiers as texts.
    package init(_ value: AttributeValue, as type: AttributeType) {
        switch value {
        case .null: self = .null
        case .integer(let integer): self = .integer(integer)
        case .double(let double): self = .double(AttributeValue.shortest(double, as: type))
        case .boolean(let boolean): self = .boolean(boolean)
        case .decimal(let decimal): self = .string(AttributeValue.text(ofCompacted: decimal))
        case .string(let string): self = .string(string)
        case .date(let date): self = .string(AttributeValue.text(ofDate: date))
        case .binary, .external, .uuid, .uri: self.init(value.text(as: type))
        case .objectID(let id): self = .string(id.uriRepresentation)
        case .composite(let elements):
            self = .object(elements.mapValues { JSONValue($0, as: type) })
        }
    }

    /// The member of an object that a property is written as.
    ///
    /// A property that is itself called `id` or `entity` is written as `property.id`, `property.entity`, so that `id` always is the
    /// object's identifier. (No property has a dot in its name.)
    package static func key(ofProperty name: String) -> String {
        name == "id" || name == "entity" ? "property.\(name)" : name
    }
}
