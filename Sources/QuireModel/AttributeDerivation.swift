internal import QuireSystem

/// The parsed ``AttributeDescription/derivationExpression`` of a derived attribute.
///
/// | expression | value |
/// |---|---|
/// | `books.@count` | the number of objects in a to-many relationship |
/// | `books.@sum.price`, `books.price.@sum` | the sum of a numeric attribute of the related objects; null counts as 0 |
/// | `author.name` | an attribute of a to-one relationship's destination |
/// | `name` | another attribute of the object |
/// | `canonical:(name)` | a text folded for case and diacritics; also of `author.name` |
/// | `uppercase:(name)`, `lowercase:(name)` | a text in upper or lower case; also of `author.name` |
/// | `now()` | the time of the object's last save |
///
/// The colon can be omitted. The source attribute must not be derived itself.
public struct AttributeDerivation: Sendable, Hashable {
    /// A transformation of a text.
    public enum TextFunction: String, Sendable, Hashable, CaseIterable {
        /// Folds case and diacritics.
        case canonical
        /// Upper case.
        case uppercase
        /// Lower case.
        case lowercase
    }

    /// The kinds of derivation. Keys are property names, beginning at the object.
    public enum Form: Sendable, Hashable {
        /// The number of objects in a to-many relationship.
        case count(relationship: String)
        /// The sum of an attribute of the objects in a to-many relationship.
        case sum(relationship: String, attribute: String)
        /// The value at the end of a path.
        case copy([String])
        /// A function of the text at the end of a path.
        case text(TextFunction, [String])
        /// The time of the save.
        case now
    }

    /// The parsed expression.
    public let form: Form

    /// Parses an expression.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` and a message listing the valid forms.
    public init(_ expression: String) throws {
        guard let form = Self.form(of: expression.filter { !$0.isWhitespace }) else {
            throw QuireError(
                .invalidModel,
                "“\(expression)” is not a derivation; an attribute can be derived from “toMany.@count”, “toMany.@sum.attribute”, "
                    + "“toOne.attribute”, “attribute”, “canonical:(attribute)”, “uppercase:(attribute)”, "
                    + "“lowercase:(attribute)” or “now()”.")
        }
        self.form = form
    }

    private static func form(of text: String) -> Form? {
        if text.hasSuffix(")") {
            guard let bracket = text.firstIndex(of: "(") else { return nil }
            var name = text[..<bracket]
            if name.hasSuffix(":") { name = name.dropLast() }
            let argument = text[text.index(after: bracket)...].dropLast()
            if name == "now" { return argument.isEmpty ? .now : nil }
            guard let function = TextFunction(rawValue: String(name)),
                let keys = keys(of: argument)
            else { return nil }
            return .text(function, keys)
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard let position = parts.firstIndex(where: { $0.hasPrefix("@") }) else {
            return keys(of: text[...]).map { .copy($0) }
        }
        let before = parts[..<position]
        let after = parts[(position + 1)...]
        guard before.allSatisfy(isKey), after.allSatisfy(isKey), let relationship = before.first
        else { return nil }
        let rest = before.dropFirst()
        switch parts[position] {
        case "@count" where rest.isEmpty && after.isEmpty:
            return .count(relationship: String(relationship))
        case "@sum" where rest.isEmpty != after.isEmpty:
            return .sum(
                relationship: String(relationship),
                attribute: (rest + after).joined(separator: "."))
        default: return nil
        }
    }

    private static func keys(of text: Substring) -> [String]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        return parts.allSatisfy(isKey) ? parts.map(String.init) : nil
    }

    private static func isKey(_ text: Substring) -> Bool {
        ModelNames.objection(toName: String(text)) == nil
    }
}
