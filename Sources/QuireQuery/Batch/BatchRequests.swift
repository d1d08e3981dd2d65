public import QuireModel
package import QuireSystem

/// Inserts objects straight into the store: many of them, without making any of them in a context.
///
/// The rows are dictionaries of values by the names of attributes, of elements of composites (`place.lat`), or of
/// to-one relationships, whose values are identifiers. What a row does not name has its default value. Values are
/// taken as ``ManagedObject`` takes them and must keep the rules of the model for attributes and required
/// relationships; validation predicates and the rules of classes are not asked, nor is how many objects
/// a to-many relationship leads to that no row names. Derived attributes are the store's own.
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
/// A relationship whose other side leads to one object as well cannot be set. A row that has values which must be
/// unique and are in the store already is dealt with as the merge policy of the context says; see
/// ``ManagedObjectContext/execute(_:)-(BatchInsertRequest)``.
public struct BatchInsertRequest {
    /// Fills in one row, which is empty; returns `true` when there are no more, and what it has filled in then is
    /// not inserted.
    public typealias DictionaryHandler = (_ row: inout [String: AttributeValue]) throws -> Bool

    /// The entity of the new objects.
    public let entityName: String
    /// What the request gives back.
    public var resultType = BatchResultType.statusOnly
    /// The rows, if they were given as a list.
    public let objectsToInsert: [[String: AttributeValue]]?
    /// What makes the rows, if they were not.
    public let dictionaryHandler: DictionaryHandler?

    /// Inserts rows.
    public init(entityName: String, objects: [[String: AttributeValue]]) {
        self.entityName = entityName
        objectsToInsert = objects
        dictionaryHandler = nil
    }

    /// Inserts the rows that a closure makes, one after the other, of which one at a time is in memory.
    ///
    /// The closure is called while the store's transaction is open. It must not save to the same store; that stops
    /// the program with a sentence. If it throws nothing is inserted.
    public init(entityName: String, dictionaryHandler: @escaping DictionaryHandler) {
        self.entityName = entityName
        objectsToInsert = nil
        self.dictionaryHandler = dictionaryHandler
    }

    /// Calls a closure with each row, in order.
    ///
    /// - Throws: What the closure or the ``dictionaryHandler`` throws.
    public func forEachRow(_ body: ([String: AttributeValue]) throws -> Void) throws {
        for row in objectsToInsert ?? [] { try body(row) }
        guard let dictionaryHandler else { return }
        var row: [String: AttributeValue] = [:]
        while try !dictionaryHandler(&row) {
            try body(row)
            row.removeAll(keepingCapacity: true)
        }
    }
}

/// What a batch request gives back beside the number of objects.
public enum BatchResultType: Sendable, Hashable, CaseIterable {
    /// Nothing: that no error was thrown says it all.
    case statusOnly
    /// The number of objects.
    case count
    /// The identifiers of the objects, which can be merged into contexts.
    case objectIDs
}

// MARK: - Updates

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
        _ expression: QueryExpression, for slot: ResolvedEntity.Slot
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
        _ expression: QueryExpression, for slot: ResolvedEntity.Slot, _ reason: String
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

// MARK: - Deletions

/// Deletes objects straight in the store, without reading any of them, by the delete rules of the model:
///
/// - objects that a cascade relationship leads to are deleted too, and so on from these,
/// - others lose their reference, and if they must have it, or too few are left, the request fails,
/// - as long as a deny relationship leads to an object that is not deleted, the request fails.
///
/// ```swift
/// var old = FetchRequest("Book")
/// old.predicate = try QueryPredicate(format: "year < %d", 1800)
/// var request = BatchDeleteRequest(fetchRequest: old)
/// request.resultType = .objectIDs
/// let result = try context.execute(request)
/// ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [library])
/// ```
///
/// References of relationships without an inverse, and those that the rule "no action" leaves, stay as they do when
/// an object is deleted in a context.
public struct BatchDeleteRequest: Sendable, Hashable {
    /// Which objects are deleted.
    package enum Selection: Sendable, Hashable {
        case request(FetchRequest)
        case objectIDs([ManagedObjectID])
    }

    package let selection: Selection
    /// What the request gives back.
    public var resultType = BatchResultType.statusOnly

    /// Deletes the objects that a request finds, in its order, within its limit and offset. Unsaved changes do not
    /// count.
    public init(fetchRequest: FetchRequest) { selection = .request(fetchRequest) }

    /// Deletes objects of any entities. Those that are gone already do not count.
    public init(objectIDs: [ManagedObjectID]) { selection = .objectIDs(objectIDs) }

    /// The request that finds the objects, if they were not given by their identifiers.
    public var fetchRequest: FetchRequest? {
        if case .request(let request) = selection { request } else { nil }
    }

    /// The identifiers of the objects, if they were given so.
    public var objectIDs: [ManagedObjectID]? {
        if case .objectIDs(let objectIDs) = selection { objectIDs } else { nil }
    }
}

// MARK: - Results

/// What a batch request did.
public struct BatchResult: Sendable, Hashable {
    /// How many objects it inserted, updated or deleted: of a deletion, those that were taken along by cascade too;
    /// of an insertion, also the stored objects that took over values. What merely lost a reference does not count.
    public let count: Int
    /// The identifiers of the objects, if the request asked for them by ``BatchResultType/objectIDs``; else empty.
    ///
    /// Objects that lost a reference to a deleted one are among ``ObjectIDChanges/updated``, those whose derived attributes
    /// came out otherwise among ``ObjectIDChanges/refreshed``. Hand it to
    /// ``ManagedObjectContext/mergeChanges(fromRemoteContextSave:into:)``.
    public let changes: ObjectIDChanges

    /// Describes what was done.
    public init(count: Int, changes: ObjectIDChanges = ObjectIDChanges()) {
        self.count = count
        self.changes = changes
    }
}

/// What a batch insertion does about a row whose values must be unique and are those of a stored object already.
public enum UpsertPolicy: Sendable, Hashable, CaseIterable {
    /// It fails.
    case refuse
    /// The row is left out.
    case skip
    /// The stored object gets the row's values where it has none.
    case fill
    /// The stored object gets the values that the row names.
    case update
    /// The stored object gets all attributes of a new object, and the relationships that the row names.
    case replace

    /// The error of a row whose unique values a stored object has that is not of the row's entity: it has no place for what
    /// only the row's entity has, and would not be found as one.
    package static func entityError(
        _ entity: ResolvedEntity, holder: ManagedObjectID, file: String?
    ) -> QuireError {
        QuireError(
            .constraintConflict,
            "\(holder.shortDescription) has values of the row that must be unique, and is no “\(entity.name)”, so it cannot "
                + "take the row over; change the row, or delete the object before.",
            subject: .init(
                entity: entity.name, object: holder.uriRepresentation, file: file))
    }
}
