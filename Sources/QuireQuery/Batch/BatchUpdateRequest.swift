package import QuireModel
internal import QuireSystem

/// Sets attributes of all objects that satisfy a condition, straight in the store, without reading any of them.
///
/// ```swift
/// var request = BatchUpdateRequest(entityName: "Book")
/// request.predicate = try QueryPredicate(format: "author.name == %@", "Jane Austen")
/// request.propertiesToUpdate = ["shelfmark": .constant("AUS"), "sortTitle": .key("title")]
/// try context.execute(request)
/// ```
///
/// A value is a constant or is computed from what the object is before the request. It must fit the attribute and
/// keep the model's rules for it; validation predicates and the rules of classes are not asked. Relationships,
/// derived and transient attributes cannot be set. Versions of the objects go up by one.
public struct BatchUpdateRequest: Sendable, Hashable {
    /// The entity whose objects are updated.
    public var entityName: String
    /// The condition they satisfy; `nil` for none.
    public var predicate: QueryPredicate?
    /// Whether objects of sub-entities are updated too.
    public var includesSubentities = true
    /// The new values by the names of attributes, or of elements of composites: `place.lat`.
    public var propertiesToUpdate: [String: QueryExpression] = [:]
    /// What the request gives back.
    public var resultType = BatchResultType.statusOnly

    /// Updates the objects of an entity; set the ``propertiesToUpdate`` afterwards.
    public init(
        entityName: String, predicate: QueryPredicate? = nil,
        propertiesToUpdate: [String: QueryExpression] = [:]
    ) {
        self.entityName = entityName
        self.predicate = predicate
        self.propertiesToUpdate = propertiesToUpdate
    }
}

extension PredicateResolver {
    /// Checks an expression as the new value of an attribute, and brings it into the form that stores compile.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidQuery`, `invalidValue` or `unsupported`.
    package mutating func batchValue(
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
    package var objects: FetchRequest {
        var request = FetchRequest(entityName, predicate: predicate)
        request.includesSubentities = includesSubentities
        return request
    }
}
