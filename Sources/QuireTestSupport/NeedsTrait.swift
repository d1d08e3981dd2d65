public import Testing

/// The one way to skip tests: the run reports them as skipped, with `SKIPPED` and the reason. A test that returns early
/// instead counts as passed.
extension Trait where Self == ConditionTrait {
    /// Skips a test or a suite where something that it needs is not there.
    ///
    /// - Parameters:
    ///   - isThere: Whether it is.
    ///   - reason: What is missing, as a clause.
    public static func needs(
        _ isThere: @autoclosure @escaping @Sendable () throws -> Bool, or reason: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) -> Self {
        .enabled(
            if: try isThere(), Comment(rawValue: "SKIPPED: \(reason)"),
            sourceLocation: sourceLocation)
    }

    /// Skips a test or a suite that reads the corpus where there is none.
    public static var corpus: Self {
        .needs(Corpus.folder != nil, or: "there is no shared/corpus beside the checkout")
    }

    /// Skips a test or a suite of what is in clear where tests protect what they make.
    public static var inClear: Self {
        .needs(
            !TestProtection.isOn, or: "documents are protected, and the test needs them in clear")
    }
}
