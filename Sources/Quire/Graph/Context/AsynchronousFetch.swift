internal import Dispatch
public import Foundation
internal import QuireStore

/// A request that is read on a thread other than the context's queue.
///
/// ```swift
/// let request = AsynchronousFetchRequest(fetchRequest: Book.fetchRequest()) { result in
///     if let books = result.finalResult { show(books) }
/// }
/// let progress = context.execute(request).progress
/// …
/// progress.cancel()
/// ```
public struct AsynchronousFetchRequest<Object: ManagedObject> {
    /// The request to execute.
    public var fetchRequest: FetchRequest<Object>
    /// The expected number of objects, for the progress; 0 if unknown.
    public var estimatedResultCount = 0
    /// Called once on the context's queue, with the result or the error.
    public var completion: (AsynchronousFetchResult<Object>) -> Void

    /// Creates a request.
    public init(
        fetchRequest: FetchRequest<Object>,
        completion: @escaping (AsynchronousFetchResult<Object>) -> Void
    ) {
        self.fetchRequest = fetchRequest
        self.completion = completion
    }
}

/// The result of an ``AsynchronousFetchRequest``. Used on the context's queue.
public final class AsynchronousFetchResult<Object: ManagedObject> {
    /// The progress in rows: indeterminate if their number is unknown. It changes on the context's queue. Cancelling it, from
    /// any thread, interrupts the database; the error has the code `cancelled`.
    public let progress: Progress
    /// The fetched objects, if the request succeeded.
    public internal(set) var finalResult: FetchedObjects<Object>?
    /// The error, if the request failed.
    public internal(set) var operationError: QuireError?

    init(progress: Progress) { self.progress = progress }

    /// Cancels the request.
    public func cancel() { progress.cancel() }
}

// MARK: - Fetching

extension ManagedObjectContext {
    /// Executes a request on another thread and calls its completion on the context's queue.
    ///
    /// The result is as of the completion: unsaved changes made in the meantime are included. An invalid request also fails
    /// through its completion.
    ///
    /// Call it on the context's queue. The context is retained until the completion has been called.
    ///
    /// - Complexity: O(*n*) on the context's queue only in unsaved changes; relationships are prefetched there, too.
    @discardableResult
    public func execute<Object>(
        _ request: AsynchronousFetchRequest<Object>
    ) -> AsynchronousFetchResult<Object> {
        checkQueue()
        let progress = Progress(totalUnitCount: Int64(request.estimatedResultCount))
        let result = AsynchronousFetchResult<Object>(progress: progress)
        let end = OnQueue((context: self, result: result, request: request))
        let marker = queueMarker
        do {
            let fetch = try BackgroundFetch(request.fetchRequest, context: self) { rows in
                marker.async { end.value?.result.progress.completedUnitCount = Int64(rows) }
            }
            let monitor = fetch.monitor
            progress.cancellationHandler = { monitor.cancel() }
            let (reading, box) = (fetch.reading, OnQueue(fetch))
            DispatchQueue.global(qos: .userInitiated).async {
                let payload = Result { try reading() }
                marker.async {
                    guard let (context, result, request) = end.take(), let fetch = box.take() else {
                        return
                    }
                    // Its handler is called on another thread, and may not have been yet.
                    if result.progress.isCancelled { monitor.cancel() }
                    result.end(Result { try fetch.finish(try payload.get()) })
                    request.completion(result)
                    context.processPendingChanges()
                }
            }
        } catch {
            let failure = OnQueue(error)
            marker.async {
                guard let (context, result, request) = end.take(), let error = failure.take() else {
                    return
                }
                result.end(.failure(error))
                request.completion(result)
                context.processPendingChanges()
            }
        }
        return result
    }

    /// Fetches objects on another thread while the caller waits without blocking.
    ///
    /// The result is as of the end: unsaved changes made in the meantime are included. Cancelling the task, or the progress if
    /// one is passed, interrupts the database.
    ///
    /// ```swift
    /// let books = try await container.viewContext.fetchAsynchronously(Book.fetchRequest())
    /// ```
    ///
    /// Call it on the main actor, for a main-queue context.
    ///
    /// - Throws: As ``fetch(_:)->FetchedObjects<Object>``, and with code `cancelled`.
    @MainActor
    public func fetchAsynchronously<Object>(
        _ request: FetchRequest<Object>, progress: Progress? = nil
    ) async throws -> FetchedObjects<Object> {
        let reported = OnQueue(progress)
        let fetch = try BackgroundFetch(request, context: self) { rows in
            DispatchQueue.main.async { reported.value??.completedUnitCount = Int64(rows) }
        }
        let (reading, monitor) = (fetch.reading, fetch.monitor)
        progress?.cancellationHandler = { monitor.cancel() }
        // Under a lock: the thread sanitizer does not see that resuming a continuation before its task awaits it orders the
        // reads before the code that follows.
        let found = Lock<Result<BackgroundRows, any Error>?>(nil)
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                DispatchQueue.global(qos: .userInitiated).async {
                    let payload = Result { try reading() }
                    found.withLock { $0 = payload }
                    continuation.resume()
                }
            }
        } onCancel: {
            monitor.cancel()
        }
        if progress?.isCancelled == true { monitor.cancel() }
        guard let payload = found.withLock({ $0 }) else {
            preconditionFailure("A continuation was resumed before the request was read.")
        }
        let result = try fetch.finish(payload.get())
        progress?.end(count: result.count)
        return result
    }

    /// Carries a value through another thread that only the context's queue uses and releases, by taking it out.
    private final class OnQueue<Value>: @unchecked Sendable {
        private(set) var value: Value?

        init(_ value: Value) { self.value = value }

        func take() -> Value? {
            defer { value = nil }
            return value
        }
    }
}

extension AsynchronousFetchResult {
    fileprivate func end(_ result: Result<FetchedObjects<Object>, any Error>) {
        switch result {
        case .success(let found):
            finalResult = found
            progress.end(count: found.count)
        case .failure(let error):
            operationError =
                error as? QuireError
                ?? QuireError(.storeUnavailable, "The request failed: \(error).", underlying: error)
        }
    }
}

extension Progress {
    fileprivate func end(count: Int) {
        // A progress of nothing would never be finished.
        totalUnitCount = Int64(max(count, 1))
        completedUnitCount = totalUnitCount
    }
}

// MARK: - In the background

/// A fetch that reads on another thread. It reads rows and identifiers, which are Sendable; on the context's queue the unsaved
/// changes are overlaid, and objects are made.
///
/// Made and finished on the context's queue.
final class BackgroundFetch<Object: ManagedObject>: RowHolder {
    private let context: ManagedObjectContext
    private let request: FetchSpecification
    private let keyPaths: [QueryKeyPath]
    private let plan: PendingChangeOverlay<ManagedObjectContext>.Plan?
    /// When the reading began, as ``StaleRowTracker`` counts.
    private let serial: UInt64
    let monitor: FetchMonitor

    /// Checks a request.
    ///
    /// - Throws: As ``ManagedObjectContext/fetch(_:)->FetchedObjects<Object>``.
    init(
        _ request: FetchRequest<Object>, context: ManagedObjectContext,
        report: @escaping @Sendable (_ rows: Int) -> Void
    ) throws {
        context.checkQueue()
        self.context = context
        monitor = FetchMonitor(report: report)
        var request = try request.specification(in: context.layout)
        request.resultType = .objects
        request.monitor = monitor
        keyPaths = try context.prefetchPaths(of: request)
        plan = try Self.plan(for: request, in: context)
        self.request = request
        serial = context.staleRows.serial
        super.init()
        context.staleRows.holders.add(self)
    }

    deinit {
        context.staleRows.holders.remove(self)
        if context.queueMarker.isCurrentAtRelease { return context.answerRetainedRowsQueries() }
        nonisolated(unsafe) let context = context
        context.queueMarker.async { context.answerRetainedRowsQueries() }
    }

    /// Rows still being read belong to the reading thread.
    override var isComplete: Bool { false }

    private static func plan(
        for request: FetchSpecification, in context: ManagedObjectContext
    ) throws -> PendingChangeOverlay<ManagedObjectContext>.Plan? {
        guard context.overlayIsNeeded(for: request) else { return nil }
        let plan = try PendingChangeOverlay(of: context, for: request).plan()
        return plan.isComplete ? nil : plan
    }

    /// Reads; to be called on another thread.
    var reading: @Sendable () throws -> BackgroundRows {
        let (request, source, monitor) = (plan?.source ?? request, context.source, monitor)
        let readsIdentifiers = plan == nil && context.readsIdentifiers(request, keyPaths)
        return {
            try monitor.check()
            return readsIdentifiers
                ? .identifiers(try source.objectIDs(matching: request))
                : .rows(try source.rows(matching: request))
        }
    }

    /// Makes the result of the rows read. If a save or other changes of the context have made them insufficient, they are read
    /// again now.
    func finish(_ found: BackgroundRows) throws -> FetchedObjects<Object> {
        context.checkQueue()
        try monitor.check()
        let present = try Self.plan(for: request, in: context)
        guard serial == context.staleRows.serial, present?.source == plan?.source,
            !request.shouldRefreshRefetchedObjects
        else {
            var request = request
            request.monitor = nil
            return try context.fetch(FetchRequest(request))
        }
        switch found {
        case .rows(let found):
            let overlay = try PendingChangeOverlay(of: context, for: request)
            let rows = try present.map { try overlay.rows($0, found: found) } ?? found
            return try context.fetched(rows, request, keyPaths)
        case .identifiers(let list): return context.fetched(list.bits, request, keyPaths)
        }
    }
}

/// The result of a background read.
enum BackgroundRows: Sendable {
    case rows(RowSet)
    case identifiers(ObjectIDList)
}
