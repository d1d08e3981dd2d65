/// The values that a batch update computes. This is the one place that says which expressions can be computed.
extension FetchScope {
    /// The value of an expression for the object that the scope begins at.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidQuery` or `unsupported`.
    func batchValue(_ expression: QueryExpression) throws -> SQLFragment {
        let entity = start.entity
        switch expression {
        case .constant(let value): return "\(bind: value)"
        case .keyPath(let keys):
            let path = try QueryKeyPath(keys, from: entity, in: context.query.layout)
            guard !path.isToMany, let slot = path.slot, slot.isStored, !slot.isExternalCapable
            else {
                throw QuireError(
                    .unsupported,
                    "“\(path.text)” of \(entity.name) cannot be the new value of an attribute: it must lead to one "
                        + "attribute that the store keeps in a column.",
                    subject: .init(entity: entity.name, property: path.text))
            }
            var place = start
            for step in path.steps { place = try follow(step, from: place) }
            return try value(of: slot.index, at: place)
        default:
            throw QuireError(
                .unsupported, "“\(expression)” cannot be computed by a batch update.",
                subject: .init(entity: entity.name))
        }
    }
}
