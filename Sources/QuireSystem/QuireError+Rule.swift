extension QuireError {
    /// The rule that a value or a relationship breaks. The set is open: later versions may add rules.
    public struct Rule: RawRepresentable, Hashable, Sendable {
        /// The rule's stable name.
        public let rawValue: String

        /// Makes a rule from its stable name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// There must be a value or an object.
        public static let required = Rule(rawValue: "required")
        /// A number or date has a least value.
        public static let minimum = Rule(rawValue: "minimum")
        /// A number or date has a greatest value.
        public static let maximum = Rule(rawValue: "maximum")
        /// A text has a least length.
        public static let minimumLength = Rule(rawValue: "minimumLength")
        /// A text has a greatest length.
        public static let maximumLength = Rule(rawValue: "maximumLength")
        /// A text must match a regular expression.
        public static let regularExpression = Rule(rawValue: "regularExpression")
        /// A value must satisfy a predicate.
        public static let predicate = Rule(rawValue: "predicate")
        /// A relationship must lead to a number of objects at least.
        public static let minimumCount = Rule(rawValue: "minimumCount")
        /// A relationship must lead to a number of objects at most.
        public static let maximumCount = Rule(rawValue: "maximumCount")
        /// An object cannot be deleted while a relationship leads to others.
        public static let deny = Rule(rawValue: "deny")
        /// A rule of the object's class.
        public static let custom = Rule(rawValue: "custom")
    }
}
