/// One or more stores with their coordinator and contexts: the entry point.
///
/// ```swift
/// let container = try PersistentContainer(
///     managedObjectModel: model,
///     persistentStoreDescriptions: [PersistentStoreDescription(path: "library.sqlite")])
/// let book = try container.viewContext.insertObject(entityName: "Book")
/// book["title"] = "Emma"
/// try container.viewContext.save()
/// ```
public final class PersistentContainer: Sendable {
    /// The coordinator of the container's stores.
    public let persistentStoreCoordinator: PersistentStoreCoordinator
    /// The context for the main queue. It saves to the store, and Swift's Observation follows its objects; see
    /// ``ManagedObjectContext/isObservable``.
    @MainActor public let viewContext: ManagedObjectContext

    /// Creates a container for an open store.
    @MainActor
    public convenience init(store: any PersistentStore) {
        self.init(PersistentStoreCoordinator(store: store))
    }

    /// Creates a container and opens its stores; creates those that do not exist.
    ///
    /// Opening reads little of a SQLite store, and all of an in-memory format's file. If one cannot be opened the others are
    /// closed again.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`, and the errors of
    ///   ``PersistentStoreCoordinator/addPersistentStore(_:)`` for a store.
    @MainActor
    public convenience init(
        managedObjectModel model: ManagedObjectModel,
        persistentStoreDescriptions descriptions: [PersistentStoreDescription]
    ) throws {
        try self.init(
            PersistentStoreCoordinator(
                managedObjectModel: model, persistentStoreDescriptions: descriptions))
    }

    /// Creates a container and opens its stores on another thread, so that the main queue does not wait for large ones.
    ///
    /// - Throws: As ``init(managedObjectModel:persistentStoreDescriptions:)``.
    public static func loading(
        managedObjectModel model: ManagedObjectModel,
        persistentStoreDescriptions descriptions: [PersistentStoreDescription]
    ) async throws -> PersistentContainer {
        let coordinator = try await Task.detached {
            try PersistentStoreCoordinator(
                managedObjectModel: model, persistentStoreDescriptions: descriptions)
        }.value
        return await PersistentContainer(coordinator)
    }

    @MainActor
    private init(_ coordinator: PersistentStoreCoordinator) {
        persistentStoreCoordinator = coordinator
        viewContext = .mainQueue(coordinator: coordinator)
        viewContext.isObservable = true
    }

    /// The saves of contexts to the stores; see ``PersistentStoreCoordinator/saves``.
    public var saves: AsyncStream<ObjectIDChanges> { persistentStoreCoordinator.saves }

    /// Creates a private-queue context that saves to the stores.
    public func newBackgroundContext() -> PrivateQueueContext {
        PrivateQueueContext(coordinator: persistentStoreCoordinator)
    }

    /// Runs a closure in a new private-queue context. A closure that does not throw needs no `try`.
    ///
    /// ``viewContext`` merges its saves at the next turn of the main queue if it
    /// ``ManagedObjectContext/automaticallyMergesChangesFromParent``.
    public func performBackgroundTask<Result, Failure>(
        _ body: sending @escaping (ManagedObjectContext) throws(Failure) -> sending Result
    ) async throws(Failure) -> sending Result {
        try await newBackgroundContext().perform(body)
    }

    /// Closes the stores. The container's contexts must not be used afterwards.
    public func close() throws { try persistentStoreCoordinator.close() }
}
