internal import Dispatch

/// Owns the private queue of a context and lets others in.
///
/// The context itself can only be reached within the closures of ``perform(_:)`` and
/// ``performAndWait(_:)``, on its queue. Pass identifiers and values in and out, never objects; the compiler
/// refuses those.
///
/// ```swift
/// let titles = try await background.perform { context in
///     try context.fetch(FetchRequest("Book")).map { $0.string("title") ?? "" }
/// }
/// ```
public final class PrivateQueueContext: Sendable {
    private let queue: DispatchQueue
    private let marker: QueueMarker
    private let confinement: Confinement
    /// Only used on `queue`, which `perform`, `performAndWait` and `ObjectSource` see to.
    private nonisolated(unsafe) let context: ManagedObjectContext
    private let coordinator: PersistentStoreCoordinator
    let changeBroadcast: Broadcast<ObjectIDChanges>
    let saveBroadcast: Broadcast<ObjectIDChanges>

    /// Makes a context that saves to a coordinator's store.
    public init(coordinator: PersistentStoreCoordinator) {
        queue = DispatchQueue(label: "quire.context")
        marker = QueueMarker(marking: queue)
        confinement = Confinement(executor: QueueExecutor(queue: queue, marker: marker))
        self.coordinator = coordinator
        context = ManagedObjectContext(
            concurrencyType: .privateQueue, source: coordinator, parent: nil, queueMarker: marker)
        changeBroadcast = context.changeBroadcast
        saveBroadcast = context.saveBroadcast
    }

    /// Runs a closure on the context's queue and gives what it returns or throws.
    ///
    /// The user event ends when the closure does. Called on the queue itself it would wait for itself only if
    /// the closure were to wait for it; it does not, and runs after the present block.
    public func perform<Result>(
        _ body: sending @escaping (ManagedObjectContext) throws -> sending Result
    ) async throws -> sending Result {
        try await confinement.run(context, body)
    }

    /// Runs a closure on the context's queue while the caller waits, and gives what it returns or throws.
    ///
    /// May be called on the context's queue, where it runs the closure at once. Deadlocks if the context's
    /// queue waits for the caller.
    public func performAndWait<Result>(
        _ body: (ManagedObjectContext) throws -> sending Result
    ) throws -> sending Result {
        if marker.isCurrent { return try body(context) }
        let box = ResultBox<Result>()
        queue.sync {
            box.value = Swift.Result { try body(context) }
            context.processPendingChanges()
        }
        return try box.take()
    }

    /// Hands a result out of `queue.sync`, which cannot prove that it may leave.
    private final class ResultBox<Value>: @unchecked Sendable {
        // Written within queue.sync and read after it, never at the same time.
        nonisolated(unsafe) var value: Swift.Result<Value, any Error>?

        func take() throws -> sending Value {
            guard let value else {
                preconditionFailure("queue.sync returned without running its block.")
            }
            nonisolated(unsafe) let result = try value.get()
            return result
        }
    }

    /// Runs closures on the queue for async callers: the cheapest way there.
    private actor Confinement {
        private nonisolated let executor: QueueExecutor
        nonisolated var unownedExecutor: UnownedSerialExecutor {
            executor.asUnownedSerialExecutor()
        }

        init(executor: QueueExecutor) { self.executor = executor }

        func run<Result>(
            _ context: sending ManagedObjectContext,
            _ body: sending (ManagedObjectContext) throws -> sending Result
        ) throws -> sending Result {
            defer { context.processPendingChanges() }
            return try body(context)
        }
    }
}

/// Runs an actor's jobs on a dispatch queue.
private final class QueueExecutor: SerialExecutor {
    private let queue: DispatchQueue
    private let marker: QueueMarker

    init(queue: DispatchQueue, marker: QueueMarker) {
        self.queue = queue
        self.marker = marker
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    func checkIsolated() { marker.check() }
}

extension PrivateQueueContext: ObjectSource {
    var layout: ModelLayout { coordinator.layout }
    var storeIdentity: StoreIdentity { coordinator.storeIdentity }
    var temporaryIdentity: StoreIdentity { coordinator.temporaryIdentity }

    func rows(matching request: FetchRequest) throws -> RowSet {
        try performAndWait { try $0.rows(matching: request) }
    }

    func count(matching request: FetchRequest) throws -> Int {
        try performAndWait { try $0.count(for: request) }
    }

    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        try performAndWait { try $0.row(for: objectID) }
    }

    func relatedRows(
        of objectID: ManagedObjectID, through relationship: EntityLayout.Relationship
    ) throws -> RowSet {
        try performAndWait { try $0.relatedRows(of: objectID, through: relationship) }
    }

    func reserveObjectIDs(for entity: EntityLayout, count: Int) throws -> [ManagedObjectID] {
        try coordinator.reserveObjectIDs(for: entity, count: count)
    }

    func save(_ changes: ChangeSet) throws {
        try performAndWait { $0.apply(changes) }
    }
}
