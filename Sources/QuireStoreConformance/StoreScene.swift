import Foundation
import Quire
internal import QuireStore

/// The fixture of a check: a store, contexts over it, and a list of failures. Used by one thread.
final class StoreScene {
    private let conformance: StoreConformance
    private(set) var failures: [String] = []
    private var opened: (any PersistentStore)?
    private var contexts: QueueConfinedContext?

    init(conformance: StoreConformance) { self.conformance = conformance }

    // MARK: - The store

    /// The store.
    var store: any PersistentStore {
        guard let opened else { preconditionFailure("The scene's store is not open.") }
        return opened
    }

    @discardableResult
    func open(_ model: ManagedObjectModel) throws -> any PersistentStore {
        let store = try conformance.make(model)
        opened = store
        return store
    }

    /// Closes the store and opens it again.
    func reopen(isReadOnly: Bool = false) throws {
        guard let reopen = conformance.reopen else { return }
        let closed = store
        try closed.close()
        contexts = nil
        opened = try reopen(closed, isReadOnly)
    }

    func close() throws {
        try opened?.close()
        opened = nil
        contexts = nil
    }

    /// Whether the store can be opened again with what it held.
    var reopens: Bool { conformance.reopen != nil && store.capabilities.contains(.reopening) }

    /// Runs checks, and runs them again with the store opened again, if it can be.
    func checkAlsoReopened(_ checks: () throws -> Void) throws {
        try checks()
        if !reopens { return }
        try reopen()
        try checks()
    }

    func entity(_ name: String) throws -> ResolvedEntity {
        try store.layout.requireEntity(named: name)
    }

    // MARK: - Contexts

    /// A new context over the store, which has read nothing.
    func newContext() -> QueueConfinedContext {
        QueueConfinedContext(coordinator: PersistentStoreCoordinator(store: store))
    }

    /// Runs a closure in a context that checks share.
    func perform<Value: Sendable>(
        _ body: @Sendable (ManagedObjectContext) throws -> Value
    ) throws -> Value {
        let context = contexts ?? newContext()
        contexts = context
        return try context.performAndWait { try body($0) }
    }

    /// Runs a closure in a new context.
    func afresh<Value: Sendable>(
        _ body: @Sendable (ManagedObjectContext) throws -> Value
    ) throws -> Value {
        try newContext().performAndWait { try body($0) }
    }

    // MARK: - Failures

    func fail(_ sentence: String) { failures.append(sentence) }

    /// Notes a failure unless a condition holds.
    func expect(_ condition: Bool, _ sentence: @autoclosure () -> String) {
        if !condition { fail(sentence()) }
    }

    /// Notes a failure unless two values are equal.
    func expect<Value: Equatable>(
        _ found: Value, is expected: Value, _ what: @autoclosure () -> String
    ) {
        if found != expected { fail("\(what()) is \(found) and should be \(expected).") }
    }

    /// Notes a failure unless a closure throws an error with one of some codes.
    func expectError(
        _ codes: QuireError.Code..., when what: String, _ body: () throws -> Void
    ) {
        let wanted = codes.map { "“\($0.rawValue)”" }.joined(separator: " or ")
        do {
            try body()
            fail("When \(what), there is no error; one with code \(wanted) should be thrown.")
        } catch let error as QuireError {
            if !codes.contains(error.code) {
                fail(
                    "When \(what), the error has code “\(error.code.rawValue)” (\(error.message)); it should be \(wanted)."
                )
            }
        } catch {
            fail(
                "When \(what), the error is \(error); it should be a QuireError with code \(wanted)."
            )
        }
    }
}

extension StoreScene {
    /// Saves objects of an entity, each with values by key, and gives their identifiers.
    @discardableResult
    func insert(_ entity: String, _ rows: [[String: AttributeValue]]) throws -> [ManagedObjectID] {
        try perform { context in
            let objects = try rows.map { row in
                let object = try context.insertObject(entityName: entity)
                for (key, value) in row { object[key] = value }
                return object
            }
            try context.save()
            return objects.map(\.objectID)
        }
    }

    /// The values under a key of a request's objects, in its order, read by a new context.
    func read(_ request: FetchSpecification, _ key: String) throws -> [AttributeValue] {
        try afresh { context in
            try context.fetch(FetchRequest<ManagedObject>(request)).map {
                $0[key, as: AttributeValue.self]
            }
        }
    }

    /// The values under a key of all objects of an entity, sorted by their text, read by a new context.
    func all(_ entity: String, _ key: String) throws -> [String] {
        try read(FetchSpecification(entity), key).map { "\($0)" }.sorted()
    }

    /// The number of objects of an entity.
    func count(_ entity: String) throws -> Int {
        try store.count(matching: FetchSpecification(entity))
    }

    /// A change of one object's values, as the store has it now.
    func change(
        _ id: ManagedObjectID, version: UInt32? = nil, _ values: [String: AttributeValue]
    ) throws -> ObjectChange {
        guard let row = try store.row(for: id) else {
            throw QuireError(.notFound, "\(id) is not there.")
        }
        var change = ObjectChange(
            objectID: id, entity: row.entity, version: version ?? row.version,
            values: ContiguousArray(repeating: .null, count: row.entity.slots.count),
            changedSlots: SlotMask())
        for (key, value) in values {
            guard case .attribute(let slot)? = row.entity.properties[key] else { continue }
            change.values[slot] = value
            change.changedSlots.insert(slot)
        }
        return change
    }

    /// A value of an object as the store has it.
    func value(_ key: String, of id: ManagedObjectID) throws -> AttributeValue? {
        guard let row = try store.row(for: id) else { return nil }
        switch row.entity.properties[key] {
        case .attribute(let slot): return try row.value(at: slot)
        case .relationship(let index):
            guard let slot = row.entity.relationships[index].slot else { return nil }
            return try row.value(at: slot)
        default: return nil
        }
    }
}

// MARK: - The model

/// The models that checks use.
enum ConformanceModel {
    /// Every kind of relationship but ordered ones, and inheritance.
    static let library = ManagedObjectModel(entities: [
        entity(
            "Author", attribute("name", .string), attribute("born", .integer16),
            toMany("books", "Book", "author", .cascade)),
        entity(
            "Book", attribute("title", .string), attribute("year", .integer32),
            attribute("price", .double), attribute("published", .date),
            attribute("isOut", .boolean),
            toOne("author", "Author", "books"), toMany("tags", "Tag", "books"),
            toOne("cover", "Cover", "book", .cascade)),
        entity(
            "Tag", attribute("name", .string), toMany("books", "Book", "tags"),
            toMany("marks", "Mark", "tag", .deny)),
        entity("Mark", attribute("name", .string), toOne("tag", "Tag", "marks")),
        entity("Cover", attribute("colour", .string), toOne("book", "Book", "cover")),
        entity(
            "Person", attribute("name", .string), toOne("spouse", "Person", "spouse"),
            toOne("manager", "Manager", "reports")),
        entity("Employee", parent: "Person", attribute("salary", .integer64)),
        entity("Manager", parent: "Employee", toMany("reports", "Person", "manager")),
    ])

    /// An attribute of every type.
    static let everyType = ManagedObjectModel(entities: [
        entity(
            "Everything", attribute("int16", .integer16), attribute("int32", .integer32),
            attribute("int64", .integer64), attribute("decimal", .decimal),
            attribute("double", .double), attribute("float", .float),
            attribute("string", .string), attribute("boolean", .boolean), attribute("date", .date),
            attribute("binary", .binary), attribute("uuid", .uuid), attribute("uri", .uri),
            attribute("transformable", .transformable))
    ])

    /// Ordered relationships, one-to-many and many-to-many.
    static let ordered = ManagedObjectModel(entities: [
        entity(
            "Shelf", attribute("name", .string),
            ordered("books", "Volume", "shelf"), ordered("lists", "List", "shelves")),
        entity("Volume", attribute("title", .string), toOne("shelf", "Shelf", "books")),
        entity("List", attribute("name", .string), ordered("shelves", "Shelf", "lists")),
    ])

    /// Uniqueness constraints, of one attribute and of two.
    static let unique = ManagedObjectModel(entities: [
        unique(
            entity(
                "Account", attribute("name", .string), attribute("region", .string),
                attribute("number", .integer64), attribute("note", .string)),
            [["name"], ["region", "number"]])
    ])

    /// Derived attributes.
    static let derived = ManagedObjectModel(entities: [
        entity(
            "Order", attribute("customer", .string),
            derived("customerKey", .string, "canonical:(customer)"),
            derived("itemCount", .integer64, "items.@count"),
            derived("total", .integer64, "items.amount.@sum"), toMany("items", "Item", "order")),
        entity(
            "Item", attribute("amount", .integer64),
            derived("customer", .string, "order.customer"), toOne("order", "Order", "items")),
    ])

    // MARK: - Parts

    private static func entity(
        _ name: String, parent: String? = nil, _ properties: PropertyDescription...
    ) -> EntityDescription {
        var entity = EntityDescription(name: name)
        entity.superentityName = parent
        entity.properties = properties
        return entity
    }

    private static func unique(
        _ entity: EntityDescription, _ constraints: [[String]]
    ) -> EntityDescription {
        var entity = entity
        entity.uniquenessConstraints = constraints
        return entity
    }

    private static func attribute(_ name: String, _ type: AttributeType) -> PropertyDescription {
        .attribute(AttributeDescription(name: name, type: type))
    }

    private static func derived(
        _ name: String, _ type: AttributeType, _ expression: String
    ) -> PropertyDescription {
        .attribute(Attribute(name, type).derived(expression).description)
    }

    private static func toOne(
        _ name: String, _ destination: String, _ inverse: String, _ rule: DeleteRule = .nullify
    ) -> PropertyDescription {
        .relationship(ToOne(name, destination, inverse: inverse).deleteRule(rule).description)
    }

    private static func toMany(
        _ name: String, _ destination: String, _ inverse: String, _ rule: DeleteRule = .nullify
    ) -> PropertyDescription {
        .relationship(ToMany(name, destination, inverse: inverse).deleteRule(rule).description)
    }

    private static func ordered(
        _ name: String, _ destination: String, _ inverse: String
    ) -> PropertyDescription {
        .relationship(ToMany(name, destination, inverse: inverse).ordered().description)
    }
}
