internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// The values that a batch update computes.
extension FetchScope {
    /// The value of a checked expression for the object that the scope begins at.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if SQL cannot say it.
    func batchValue(_ expression: QueryExpression) throws -> SQLFragment {
        do {
            return try operand(expression).computable
        } catch is UntranslatableExpression {
            throw QuireError(
                .unsupported,
                "“\(expression)” cannot be computed by a batch update, because SQL cannot say it.",
                subject: .init(entity: start.entity.name))
        }
    }
}
