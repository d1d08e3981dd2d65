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

extension PredicateResolver {
    /// Checks an expression as the new value of an attribute, and brings it into the form that stores compile.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidQuery`, `invalidValue` or `unsupported`.
    mutating func batchValue(
        _ expression: QueryExpression, for slot: EntityLayout.Slot
    ) throws -> QueryExpression {
        if case .constant = expression { return expression }
        let side = try side(expression)
        guard !side.isSeveral, side.type?.kind != .object else {
            throw refused(expression, for: slot, "is no single value of an attribute")
        }
        if side.type?.isExternalCapable == true {
            throw refused(expression, for: slot, "may be kept in files")
        }
        let needed = ValueKind(of: slot.index, in: entity)
        if let kind = side.type?.kind, kind != needed {
            throw QuireError(
                .invalidValue,
                "“\(entity.name).\(slot.name)” takes \(needed.noun), and “\(expression)” is \(kind.noun).",
                subject: .init(entity: entity.name, property: slot.name))
        }
        return side.expression
    }

    private func refused(
        _ expression: QueryExpression, for slot: EntityLayout.Slot, _ reason: String
    ) -> QuireError {
        QuireError(
            .unsupported,
            "A batch update cannot set “\(entity.name).\(slot.name)” to “\(expression)”, which \(reason).",
            subject: .init(entity: entity.name, property: slot.name))
    }
}

extension BatchUpdateRequest {
    /// Finds the objects to update.
    var objects: FetchRequest {
        var request = FetchRequest(entityName, predicate: predicate)
        request.includesSubentities = includesSubentities
        return request
    }
}
