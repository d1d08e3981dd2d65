public import QuireModel
internal import QuireSystem

/// Bulk-inserts objects directly into the store, without materializing them in a context.
///
/// The rows are dictionaries of values keyed by the names of attributes, elements of composites (`place.lat`), or to-one
/// relationships, whose values are identifiers. Missing keys get the default value. Values are converted as in
/// ``ManagedObject`` and must satisfy the model's rules for attributes and required relationships; not checked are
/// validation predicates, class validation, and the counts of to-many relationships that no row names. Derived attributes
/// are computed by the store.
///
/// ```swift
/// var request = BatchInsertRequest(entityName: "Book") { row in
///     guard let line = lines.next() else { return true }      // Done: this row is not inserted.
///     row["title"] = .string(line.title)
///     row["year"] = .integer(line.year)
///     return false
/// }
/// request.resultType = .objectIDs
/// let result = try context.execute(request)
/// ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [library])
/// ```
///
/// A one-to-one relationship cannot be set. A row with the unique values of a stored object updates that object; see
/// ``ManagedObjectContext/execute(_:)-(BatchInsertRequest)``.
public struct BatchInsertRequest {
    /// The author of the request, for persistent history.
    package var origin = TransactionOrigin()
    /// Fills in one empty row; returns `true` at the end, and the row passed then is not inserted.
    public typealias DictionaryHandler = (_ row: inout [String: AttributeValue]) throws -> Bool

    /// The entity of the new objects.
    public let entityName: String
    /// The kind of result.
    public var resultType = BatchResultType.statusOnly
    /// Whether the request fails (`constraintConflict`) if a row has the unique values of a stored object, instead of updating
    /// that object according to the context's merge policy.
    public var failsOnConstraintConflict = false
    /// The rows, if they were given as a list.
    public let objectsToInsert: [[String: AttributeValue]]?
    /// Generates the rows, if they were not given.
    public let dictionaryHandler: DictionaryHandler?
    /// Makes a generator of the rows each time they are needed, if they were given in another form.
    private let makeHandler: (() -> DictionaryHandler)?

    /// Inserts rows.
    public init(entityName: String, objects: [[String: AttributeValue]]) {
        self.entityName = entityName
        objectsToInsert = objects
        dictionaryHandler = nil
        makeHandler = nil
    }

    /// Inserts rows that are converted one at a time while the request is executed.
    package init(entityName: String, makeHandler: @escaping () -> DictionaryHandler) {
        self.entityName = entityName
        objectsToInsert = nil
        dictionaryHandler = nil
        self.makeHandler = makeHandler
    }

    /// Inserts rows generated one at a time by a closure; one row at a time is in memory.
    ///
    /// The closure is called inside the store's transaction. It must not save to the same store, which traps. If it throws,
    /// nothing is inserted.
    public init(entityName: String, dictionaryHandler: @escaping DictionaryHandler) {
        self.entityName = entityName
        objectsToInsert = nil
        self.dictionaryHandler = dictionaryHandler
        makeHandler = nil
    }

    /// Calls a closure with each row, in order.
    ///
    /// - Throws: Errors of the closure or the ``dictionaryHandler``.
    public func forEachRow(_ body: ([String: AttributeValue]) throws -> Void) throws {
        for row in objectsToInsert ?? [] { try body(row) }
        guard let dictionaryHandler = dictionaryHandler ?? makeHandler?() else { return }
        var row: [String: AttributeValue] = [:]
        while try !dictionaryHandler(&row) {
            try body(row)
            row.removeAll(keepingCapacity: true)
        }
    }
}

/// The result of a batch request besides the number of objects.
public enum BatchResultType: Sendable, Hashable, CaseIterable {
    /// Success only; failures are thrown.
    case statusOnly
    /// The number of objects.
    case count
    /// The identifiers of the objects, which can be merged into contexts.
    case objectIDs
}

// MARK: - Updates

/// Updates attributes of all objects that satisfy a condition, directly in the store, without fetching them.
///
/// ```swift
/// var request = BatchUpdateRequest(entityName: "Book")
/// request.predicate = try QueryPredicate(format: "author.name == %@", "Jane Austen")
/// request.propertiesToUpdate = ["shelfmark": "AUS", "sortTitle": QueryExpression.key("title")]
/// try context.execute(request)
/// ```
///
/// A value is a constant or is computed from the object's state before the request. It must have the type of the attribute and
/// satisfy the model's rules for it; validation predicates and class validation are not run. Relationships, derived and transient
/// attributes cannot be set. The objects' versions are incremented.
public struct BatchUpdateRequest: Sendable, Hashable {
    /// The author of the request, for persistent history.
    package var origin = TransactionOrigin()
    /// The entity whose objects are updated.
    public var entityName: String
    /// The condition; `nil` for all objects.
    public var predicate: QueryPredicate?
    /// Whether objects of sub-entities are updated too.
    public var includesSubentities = true
    /// The new values; public as `propertiesToUpdate`, which a higher layer converts from values of any type.
    package var expressions: [String: QueryExpression]
    /// The types of values that no attribute can have, by key. Executing the request reports them.
    package var unusableTypes: [String: String] = [:]
    /// The kind of result.
    public var resultType = BatchResultType.statusOnly

    /// Updates the objects of an entity; set the `propertiesToUpdate` now or afterwards.
    public init(
        entityName: String, predicate: QueryPredicate? = nil,
        propertiesToUpdate: [String: QueryExpression] = [:]
    ) {
        self.entityName = entityName
        self.predicate = predicate
        expressions = propertiesToUpdate
    }
}

extension PredicateResolver {
    /// Checks an expression as an attribute's new value, and converts it to the form that stores compile.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidQuery`, `invalidValue` or `unsupported`.
    package mutating func batchValue(
        _ expression: QueryExpression, for slot: ResolvedEntity.Slot
    ) throws -> QueryExpression {
        if case .constant = expression { return expression }
        let side = try side(expression)
        guard !side.isSeveral, side.type?.kind != .object else {
            throw refused(expression, for: slot, "is not a single attribute value")
        }
        if side.type?.isExternalCapable == true {
            throw refused(expression, for: slot, "may be stored in external files")
        }
        let needed = ValueKind(of: slot.index, in: entity)
        if let kind = side.type?.kind, kind != needed {
            throw QuireError(
                .invalidValue,
                "“\(entity.name).\(slot.name)” must be \(needed.noun), but “\(expression)” is \(kind.noun).",
                entity: entity.name, property: slot.name)
        }
        return side.expression
    }

    private func refused(
        _ expression: QueryExpression, for slot: ResolvedEntity.Slot, _ reason: String
    ) -> QuireError {
        QuireError(
            .unsupported,
            "A batch update cannot set “\(entity.name).\(slot.name)” to “\(expression)”, which \(reason).",
            entity: entity.name, property: slot.name)
    }
}

extension ResolvedEntity.Slot {
    /// A value that a batch update has computed: converted to the slot's type, without loss, and validated.
    package func checked(
        computed value: AttributeValue, in entity: ResolvedEntity,
        of objectID: @autoclosure () -> ManagedObjectID
    ) throws -> AttributeValue {
        do {
            guard let typed = typed(value), try coerce(typed, in: entity) == typed else {
                throw QuireError(
                    .invalidValue,
                    "“\(entity.name).\(name)” cannot be set to the computed value "
                        + "\(PredicatePrinter.text(of: value)), which is not of its type.",
                    entity: entity.name, property: name)
            }
            try attribute?.validate(typed, entity: entity.name)
            return typed
        } catch var error as QuireError {
            error.message += " The object is \(objectID().shortDescription)."
            error.subject.object = objectID().uriRepresentation
            throw error
        }
    }

    private func typed(_ value: AttributeValue) -> AttributeValue? {
        if case .decimal = value, storage == .decimal { return value }
        let stored = value.stored
        guard !stored.isNull, let type = ResultColumnType(self) else { return .null }
        let typed = type.value(of: stored)
        guard ValueOrder.compare(typed.stored, stored) == 0 else { return nil }
        return typed
    }
}

extension BatchUpdateRequest {
    /// The fetch request for the objects to update.
    package var objects: FetchSpecification {
        var request = FetchSpecification(entityName, predicate: predicate)
        request.includesSubentities = includesSubentities
        return request
    }
}

// MARK: - Deletions

/// Deletes objects directly in the store, without fetching them, applying the model's delete rules:
///
/// - destinations of a cascade relationship are deleted too, recursively,
/// - nullified objects lose their reference; the request fails if it is required or violates a minimum count,
/// - the request fails if a deny relationship has a destination that is not deleted.
///
/// ```swift
/// var old = FetchSpecification("Book")
/// old.predicate = try QueryPredicate(format: "year < %d", 1800)
/// var request = BatchDeleteRequest(fetchRequest: old)
/// request.resultType = .objectIDs
/// let result = try context.execute(request)
/// ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [library])
/// ```
///
/// References of relationships without an inverse, and those with the rule "no action", remain, as when an object is deleted
/// in a context.
public struct BatchDeleteRequest: Sendable, Hashable {
    /// The author of the request, for persistent history.
    package var origin = TransactionOrigin()
    /// The objects to delete.
    package enum Selection: Sendable, Hashable {
        case request(FetchSpecification)
        case objectIDs([ManagedObjectID])
    }

    package private(set) var selection: Selection
    /// The kind of result.
    public var resultType = BatchResultType.statusOnly

    /// The request with permanent identifiers for objects that were saved since it was made.
    package func replacingTemporaryIDs() -> BatchDeleteRequest {
        guard case .objectIDs(let ids) = selection, ids.contains(where: \.isTemporaryID) else {
            return self
        }
        var request = self
        request.selection = .objectIDs(ids.map(\.current))
        return request
    }

    /// Deletes the results of a fetch request, in its order, within its limit and offset. Unsaved changes are ignored.
    public init(fetchRequest: FetchSpecification) { selection = .request(fetchRequest) }

    /// Deletes the objects of an entity that satisfy a predicate, or all of them. Unsaved changes are ignored.
    public init(entityName: String, predicate: QueryPredicate? = nil) {
        self.init(fetchRequest: FetchSpecification(entityName, predicate: predicate))
    }

    /// Deletes objects of any entities. Already deleted ones are not counted.
    public init(objectIDs: [ManagedObjectID]) { selection = .objectIDs(objectIDs) }

    /// The fetch request, if the objects were not given by identifier.
    public var fetchRequest: FetchSpecification? {
        if case .request(let request) = selection { request } else { nil }
    }

    /// The identifiers, if the objects were given so.
    public var objectIDs: [ManagedObjectID]? {
        if case .objectIDs(let objectIDs) = selection { objectIDs } else { nil }
    }
}

// MARK: - Results

/// The result of a batch request.
public struct BatchResult: Sendable, Hashable {
    /// The number of objects inserted, updated or deleted, including cascaded deletions, and stored objects updated by an
    /// upsert. Objects that merely lost a reference are not counted.
    public let count: Int
    /// The identifiers of the objects, if the request's result type is ``BatchResultType/objectIDs``; else empty.
    ///
    /// Objects that lost a reference to a deleted one are in ``ObjectIDChanges/updated``, those with changed derived
    /// attributes in ``ObjectIDChanges/refreshed``. Pass it to
    /// ``ManagedObjectContext/mergeChanges(fromRemoteContextSave:into:)-(_,[ManagedObjectContext])``.
    public let changes: ObjectIDChanges

    /// Creates a result.
    public init(count: Int, changes: ObjectIDChanges = ObjectIDChanges()) {
        self.count = count
        self.changes = changes
    }
}

// MARK: - Authors

/// The author of a transaction, for persistent history.
package struct TransactionOrigin: Sendable, Hashable {
    /// The author that the context names.
    package var author: String?
    /// The name of the context.
    package var contextName: String?

    package init(author: String? = nil, contextName: String? = nil) {
        self.author = author
        self.contextName = contextName
    }

    /// This origin, with what it lacks from another: that of a save that it includes.
    package func completed(by other: TransactionOrigin) -> TransactionOrigin {
        TransactionOrigin(
            author: author ?? other.author, contextName: contextName ?? other.contextName)
    }
}
