public import QuireModel

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
