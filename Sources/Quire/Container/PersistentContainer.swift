/// A store with its coordinator and contexts, ready for use: the place to start.
///
/// ```swift
/// let store = try SQLiteStore.create(at: "library.sqlite", model: model)
/// let container = PersistentContainer(store: store)
/// let book = try container.viewContext.insertObject(entityName: "Book")
/// book["title"] = "Emma"
/// try container.viewContext.save()
/// ```
public final class PersistentContainer: Sendable {
    /// The coordinator of the container's store.
    public let persistentStoreCoordinator: PersistentStoreCoordinator
    /// The context for the main queue. It saves to the store, and Swift's Observation follows its objects; see
    /// ``ManagedObjectContext/isObservable``.
    @MainActor public let viewContext: ManagedObjectContext

    /// Makes a container around an open store.
    @MainActor
    public init(store: any PersistentStore) {
        persistentStoreCoordinator = PersistentStoreCoordinator(store: store)
        viewContext = .mainQueue(coordinator: persistentStoreCoordinator)
        viewContext.isObservable = true
    }

    /// What contexts save to the store; see ``PersistentStoreCoordinator/saves``.
    public var saves: AsyncStream<ObjectIDChanges> { persistentStoreCoordinator.saves }

    /// Makes a context on a queue of its own that saves to the store.
    public func newBackgroundContext() -> PrivateQueueContext {
        PrivateQueueContext(coordinator: persistentStoreCoordinator)
    }

    /// Runs a closure in a new context on a queue of its own. A closure that does not throw needs no `try`.
    ///
    /// What it saves, ``viewContext`` sees at the next turn of the main queue if it
    /// ``ManagedObjectContext/automaticallyMergesChangesFromParent``.
    public func performBackgroundTask<Result, Failure>(
        _ body: sending @escaping (ManagedObjectContext) throws(Failure) -> sending Result
    ) async throws(Failure) -> sending Result {
        try await newBackgroundContext().perform(body)
    }

    /// Closes the store. The container's contexts must not be used afterwards.
    public func close() throws { try persistentStoreCoordinator.close() }
}
