internal import Dispatch
internal import QuireStore

/// Access to a context from any queue, on the context's own queue.
///
/// A context can only be reached within the closures of ``perform(schedule:_:)`` and ``performAndWait(_:)``. Pass identifiers
/// and values in and out, never objects; the compiler rejects objects.
///
/// ```swift
/// let titles = try await background.perform { context in
///     try context.fetch(FetchRequest("Book")).map { $0["title", as: String.self] ?? "" }
/// }
/// ```
///
/// Waiting and deadlocks
/// =====================
///
/// A context waits for its parent whenever it reads or saves; a parent never waits for a child, it only notifies it. Waiting
/// always goes up the tree, so contexts cannot deadlock each other. Your code may wait (``performAndWait(_:)``) for any context
/// from any queue that no other such call waits for: also a parent's queue for a child, whose requests to that parent are then
/// executed at once, in place of the waiting queue. Two queues that wait for each other by other means deadlock: semaphores,
/// groups, `DispatchQueue.sync`.
public final class QueueConfinedContext: Sendable {
    /// When ``perform(schedule:_:)`` runs its closure.
    public enum ScheduledTaskType: Sendable {
        /// Runs at once if the caller is on the context's queue already, else enqueues.
        case immediate
        /// Enqueues behind the blocks pending on the queue.
        case enqueued
    }

    let marker: QueueMarker
    let coordinator: PersistentStoreCoordinator
    let saveObservers: SaveObservers
    let children: ContextChildren
    let pinnedGeneration: PinnedGeneration
    let changeBroadcast: Broadcast<ObjectIDChanges>
    let saveBroadcast: Broadcast<ObjectIDChanges>
    /// The entities with unsaved changes that derived values depend on.
    let dirtyDerivationSources: DirtyDerivationSources?
    /// The buffered saves of the children of a document's context.
    let writeBehindBuffer: WriteBehindBuffer
    /// Unchecked because it is only used on the queue, which the functions here see to.
    fileprivate nonisolated(unsafe) let context: ManagedObjectContext
    private let confinement: Confinement

    /// Creates a context on a private queue that saves to a coordinator's stores.
    public convenience init(coordinator: PersistentStoreCoordinator) {
        self.init(source: coordinator, parent: nil, coordinator: coordinator)
    }

    /// Creates a context on a private queue that reads from another context, including its unsaved changes, and saves to it.
    /// Unsaved changes of a released child never reach its parent.
    public convenience init(parent: QueueConfinedContext) {
        self.init(source: parent, parent: parent, coordinator: parent.coordinator)
    }

    /// Creates a context on a private queue that reads from a main-queue context, including its unsaved changes, and saves to
    /// it.
    ///
    /// - Precondition: The parent is for the main queue.
    @MainActor
    public convenience init(parent: ManagedObjectContext) {
        self.init(parent: QueueConfinedContext(parent))
    }

    /// Gives other queues access to a main-queue context.
    ///
    /// ```swift
    /// let library = QueueConfinedContext(container.viewContext)
    /// Task.detached {
    ///     let count = try await library.perform { try $0.count(for: FetchRequest("Book")) }
    /// }
    /// ```
    ///
    /// Waiting for it from another queue needs a running main queue: it deadlocks if the program blocks its main thread.
    ///
    /// - Precondition: The context is for the main queue.
    @MainActor
    public convenience init(_ context: ManagedObjectContext) {
        precondition(
            context.concurrencyType == .mainQueue,
            "The context has its own queue; use its QueueConfinedContext.")
        self.init(confining: context)
    }

    private convenience init(
        source: any ObjectSource, parent: QueueConfinedContext?,
        coordinator: PersistentStoreCoordinator
    ) {
        self.init(
            confining: ManagedObjectContext(
                concurrencyType: .privateQueue, source: source, parent: parent,
                coordinator: coordinator,
                queueMarker: QueueMarker(label: "quire.context")))
    }

    private init(confining context: ManagedObjectContext) {
        self.context = context
        coordinator = context.persistentStoreCoordinator
        marker = context.queueMarker
        saveObservers = context.saveObservers
        children = context.children
        pinnedGeneration = context.pinnedGeneration
        changeBroadcast = context.changeBroadcast
        writeBehindBuffer = context.writeBehindBuffer
        saveBroadcast = context.saveBroadcast
        dirtyDerivationSources = context.derived?.unsaved
        confinement = Confinement(executor: QueueExecutor(marker: context.queueMarker))
    }

    deinit {
        // Objects of a main-queue context are used on the main queue, so that is where it may end.
        guard context.concurrencyType == .mainQueue, !marker.isCurrent else { return }
        nonisolated(unsafe) let context = context
        marker.async { _ = context }
    }

    /// Runs a closure on the context's queue; returns its result or rethrows its error.
    ///
    /// The user event ends with the closure. A closure that does not throw needs no `try`.
    public func perform<Result, Failure>(
        schedule: ScheduledTaskType = .immediate,
        _ body: sending @escaping (ManagedObjectContext) throws(Failure) -> sending Result
    ) async throws(Failure) -> sending Result {
        if schedule == .immediate && marker.isCurrent { return try performHere(body) }
        return try await confinement.run(context, usesObjects: true, body).get()
    }

    /// Runs a closure on the context's queue while the caller waits; returns its result or rethrows its error.
    ///
    /// May be called on the context's queue, where it runs the closure at once, within the present user event. On other queues
    /// the user event ends with the closure. A closure that does not throw needs no `try`.
    public func performAndWait<Result, Failure>(
        _ body: (ManagedObjectContext) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        if marker.isCurrent { return try performHere(body) }
        return try onQueue { context throws(Failure) in
            context.takePendingChanges()
            return try body(context)
        }
    }

    /// ``performAndWait(_:)`` for closures that do not use the context's objects: its children keep reading and saving
    /// meanwhile.
    package func performWithoutObjectsAndWait<Result, Failure>(
        _ body: (ManagedObjectContext) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        if marker.isCurrent { return try body(context) }
        return try onQueue(body)
    }

    /// ``perform(schedule:_:)`` for closures that do not use the context's objects: its children keep reading and saving
    /// meanwhile.
    package func performWithoutObjects<Result, Failure>(
        _ body: sending @escaping (ManagedObjectContext) throws(Failure) -> sending Result
    ) async throws(Failure) -> sending Result {
        try await confinement.run(context, usesObjects: false, body).get()
    }

    private func onQueue<Result, Failure>(
        _ body: (ManagedObjectContext) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        let box = ResultBox<Result, Failure>()
        marker.sync {
            do throws(Failure) {
                box.value = .success(try body(context))
            } catch {
                box.value = .failure(error)
            }
            context.processPendingChanges()
            context.resumeBufferingIfUnused()
        }
        return try box.take()
    }

    private func performHere<Result, Failure>(
        _ body: (ManagedObjectContext) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        context.takePendingChanges()
        return try body(context)
    }

    /// Hands a result out of `queue.sync`, which cannot prove that it may leave.
    private final class ResultBox<Value, Failure: Error>: @unchecked Sendable {
        // Written within queue.sync and read after it, never at the same time.
        nonisolated(unsafe) var value: Swift.Result<Value, Failure>?

        func take() throws(Failure) -> sending Value {
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

        /// Runs a closure. An error is returned: if it were thrown, optimized code would not come back to the executor of
        /// the caller of `perform`; see `ExternalData.apart`.
        func run<Value, Failure>(
            _ context: sending ManagedObjectContext, usesObjects: Bool,
            _ body: sending (ManagedObjectContext) throws(Failure) -> sending Value
        ) -> sending Result<Value, Failure> {
            let outer = context.queueMarker.begin()
            if usesObjects { context.takePendingChanges() }
            defer {
                context.processPendingChanges()
                context.resumeBufferingIfUnused()
                context.queueMarker.end(outer)
            }
            do throws(Failure) { return .success(try body(context)) } catch {
                return .failure(error)
            }
        }
    }
}

/// Runs an actor's jobs on a dispatch queue.
private final class QueueExecutor: SerialExecutor {
    private let marker: QueueMarker

    init(marker: QueueMarker) { self.marker = marker }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        marker.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    func checkIsolated() { marker.check("A managed object context") }
}

// MARK: - As the source of children

/// A context as its children's source.
///
/// Children read buffered values on their own threads, or else the context's objects on its queue; see ``WriteBehindBuffer``.
extension QueueConfinedContext: ObjectSource {
    var layout: ResolvedModel { coordinator.layout }
    var storeIdentity: StoreIdentity { coordinator.storeIdentity }
    var temporaryIdentity: StoreIdentity { coordinator.temporaryIdentity }

    func rows(matching request: FetchSpecification) throws -> RowSet {
        try read { try $0.rows(matching: request) }
    }

    func count(matching request: FetchSpecification) throws -> Int {
        try read { try $0.count(matching: request) }
    }

    func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList {
        try read { try $0.objectIDs(matching: request) }
    }

    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot? {
        try read { try $0.row(for: objectID, maximumAge: maximumAge) }
    }

    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet {
        try read { try $0.rows(for: objectIDs, maximumAge: maximumAge) }
    }

    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        try read { try $0.relatedRows(of: objectID, through: relationship) }
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        try read { try $0.relatedObjects(of: objectIDs, through: relationship) }
    }

    func forgetRows(of objectIDs: [ManagedObjectID]?) { coordinator.forgetRows(of: objectIDs) }

    func outdated(_ rows: [KnownRowVersion], by child: UInt32) -> Set<UInt64> {
        if let outdated = writeBehindBuffer.outdated(rows, by: child) { return outdated }
        return performAndWait { $0.outdated(rows, by: child) }
    }

    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool, in store: StoreIdentity?
    ) throws -> [ManagedObjectID] {
        try coordinator.reserveObjectIDs(
            for: entity, count: count, durably: durably, in: store)
    }

    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID? {
        // A buffering context has no new objects itself.
        if writeBehindBuffer.isBuffering { return coordinator.permanentID(for: temporary) }
        return performAndWait { context in
            try? context.prepareForChild()
            return context.permanentID(for: temporary)
        }
    }

    func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        try save(changes, isNoted: true) { try $0.apply(changes) }
        return []
    }

    /// Saves a child's changes.
    ///
    /// - Parameters:
    ///   - isNoted: Whether the context's change observers are notified if the values are buffered.
    ///   - apply: Applies the changes to the context's objects.
    package func save(
        _ changes: ChangeSet, isNoted: Bool, orElse apply: (ManagedObjectContext) throws -> Void
    ) throws {
        if writeBehindBuffer.take(changes, isNoted: isNoted) {
            changeBroadcast.send(changes.objectIDs)
            return
        }
        try performAndWait { context in
            try context.prepareForChild()
            try apply(context)
        }
    }

    /// Merges the pending saves of other contexts, if the context merges automatically.
    func mergePendingSaves() {
        let isUpToDate = writeBehindBuffer.withState { state in
            state.isBuffering && state.parentSaveMerger?.isEmpty != false
        }
        if isUpToDate { return }
        performWithoutObjectsAndWait { $0.mergePendingSaves() }
    }

    /// The number of reads that a concurrent save may invalidate before a child waits for the next save to end.
    private static var maximumTryCount: Int { 4 }

    private func read<Result>(
        _ body: (any ObjectReader) throws -> sending Result
    ) throws -> sending Result {
        for _ in 0..<Self.maximumTryCount {
            guard let view = writeBehindBuffer.view else { break }
            do {
                let result = try body(view.reader)
                if writeBehindBuffer.isCurrent(view) { return result }
            } catch {
                // Reads of a store that has been replaced fail.
                if writeBehindBuffer.isCurrent(view) { throw error }
            }
        }
        return try performWithoutObjectsAndWait { context in
            if let view = writeBehindBuffer.view { return try body(view.reader) }
            try context.prepareForChild()
            return try body(context)
        }
    }
}
