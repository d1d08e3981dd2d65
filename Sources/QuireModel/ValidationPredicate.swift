/// A condition that an attribute's value must satisfy, beyond its range and form.
///
/// ```swift
/// year.validationPredicates = [
///     ValidationPredicate("modulus(SELF, 2) == 0 OR SELF > 1900", message: "must be even before 1900")
/// ]
/// ```
public struct ValidationPredicate: Sendable, Hashable {
    /// The condition in the predicate format language. `SELF` is the value, and `length` or `SELF.length` the
    /// length of a text in UTF-16 code units; other keys are properties of the object.
    public var format: String
    /// What an error says of a value that does not satisfy it; it follows the attribute's name.
    public var message: String?

    /// Makes a condition.
    public init(_ format: String, message: String? = nil) {
        self.format = format
        self.message = message
    }
}

/// Model files have no place for such conditions but the free keys and values of an attribute.
extension [ValidationPredicate] {
    private static var predicateKey: String { "quire.validationPredicate" }
    private static var messageKey: String { "quire.validationMessage" }

    private static func key(_ base: String, _ index: Int) -> String {
        index == 0 ? base : "\(base).\(index + 1)"
    }

    /// The entries that say the same in a model file.
    package var userInfoEntries: [String: String] {
        var entries: [String: String] = [:]
        for (index, predicate) in enumerated() {
            entries[Self.key(Self.predicateKey, index)] = predicate.format
            if let message = predicate.message {
                entries[Self.key(Self.messageKey, index)] = message
            }
        }
        return entries
    }

    /// Takes the conditions out of the entries of a model file.
    package init(takingFrom userInfo: inout [String: String]) {
        self.init()
        while let format = userInfo.removeValue(forKey: Self.key(Self.predicateKey, count)) {
            let message = userInfo.removeValue(forKey: Self.key(Self.messageKey, count))
            append(ValidationPredicate(format, message: message))
        }
    }
}
