import QuireTestSupport
import Testing

@testable import Quire

/// A store for batch requests, with two contexts over it and a look at what is in it.
@MainActor final class BatchStack {
    let folder: TemporaryFolder
    let path: String
    let coordinator: PersistentStoreCoordinator
    let store: SQLiteStore
    /// Where requests are executed.
    let context: ManagedObjectContext

    convenience init(
        _ model: ManagedObjectModel = FixtureModels.library,
        options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("test.sqlite")
        self.init(
            try SQLiteStore.create(at: path, model: model, options: options), at: path, folder)
    }

    private init(_ store: SQLiteStore, at path: String, _ folder: TemporaryFolder) {
        self.store = store
        self.path = path
        self.folder = folder
        coordinator = PersistentStoreCoordinator(store: store)
        context = .mainQueue(coordinator: coordinator)
    }

    /// The same objects in another store.
    func copy() throws -> BatchStack {
        let folder = try TemporaryFolder()
        let path = folder.path("test.sqlite")
        try store.writeCopy(to: path)
        return BatchStack(try SQLiteStore.open(at: path), at: path, folder)
    }

    deinit { try? store.close() }

    /// Inserts an object into the context.
    @discardableResult
    func insert(
        _ entity: String, _ values: [String: AttributeValue] = [:],
        _ links: [String: ManagedObject] = [:]
    ) throws -> ManagedObject {
        let object = try context.insertObject(entityName: entity)
        for (key, value) in values { object[key] = value }
        for (key, other) in links {
            if object.resolvedEntity.relationship(named: key)?.isToMany == true {
                object.add(other, to: key)
            } else {
                object[key] = other
            }
        }
        return object
    }

    /// What a fresh context reads under a key of all objects of an entity, in the order of their identifiers.
    func values(_ entity: String, _ key: String) throws -> [AttributeValue] {
        try ManagedObjectContext.mainQueue(coordinator: coordinator)
            .fetch(FetchRequest(entity)).map { $0[key, as: AttributeValue.self] }
    }

    func count(_ entity: String) throws -> Int {
        try store.count(matching: FetchSpecification(entity))
    }

    /// The error that a request throws, which must leave the store as it is and whole.
    func failure(_ body: () throws -> Void) throws -> QuireError {
        let before = try StoreInspection(store).dump()
        let error = #expect(throws: QuireError.self) { try body() }
        #expect(try StoreInspection(store).dump() == before)
        try checkWhole()
        return try #require(error)
    }

    /// Checks that nothing in the store leads nowhere.
    func checkWhole(_ location: SourceLocation = #_sourceLocation) throws {
        let problems = try StoreInspection(store).problems()
        #expect(problems.isEmpty, sourceLocation: location)
    }
}
