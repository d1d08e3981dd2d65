internal import Dispatch
public import Foundation

extension ManagedObjectContext {
    /// Carries out a request on another thread and calls its completion on the context's queue.
    ///
    /// What the request finds is as of then: unsaved changes that are made in the meantime count. A request that makes
    /// no sense fails like one that cannot be read: by its completion.
    ///
    /// Call it on the context's queue. The context lives on until the completion has been called.
    ///
    /// - Complexity: O(*n*) on the context's queue only in unsaved changes; relationships that are read ahead are read
    ///   there, too.
    @discardableResult
    public func execute(_ request: AsynchronousFetchRequest) -> AsynchronousFetchResult {
        checkQueue()
        let progress = Progress(totalUnitCount: Int64(request.estimatedResultCount))
        let result = AsynchronousFetchResult(progress: progress)
        let end = OnQueue((context: self, result: result, request: request))
        let queue = queueMarker.queue
        do {
            let fetch = try BackgroundFetch(request.fetchRequest, context: self) { rows in
                queue.async { end.value?.result.progress.completedUnitCount = Int64(rows) }
            }
            let monitor = fetch.monitor
            progress.cancellationHandler = { monitor.cancel() }
            let (reading, box) = (fetch.reading, OnQueue(fetch))
            DispatchQueue.global(qos: .userInitiated).async {
                let payload = Result { try reading() }
                queue.async {
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
            queue.async {
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

    /// The objects that a request finds, read on another thread while the caller waits without blocking.
    ///
    /// What the request finds is as of the end: unsaved changes that are made in the meantime count. Cancelling the
    /// task, or the progress if one is given, interrupts the database.
    ///
    /// ```swift
    /// let books = try await container.viewContext.fetchAsynchronously(FetchRequest("Book"))
    /// ```
    ///
    /// Call it on the main actor, of a main-queue context.
    ///
    /// - Throws: As ``fetch(_:)-(FetchRequest)``, and with code `cancelled`.
    @MainActor
    public func fetchAsynchronously(
        _ request: FetchRequest, progress: Progress? = nil
    ) async throws -> FetchedObjects {
        var request = request
        request.resultType = .objects
        guard
            case .objects(let objects) = try await executeAsynchronously(
                request, progress: progress)
        else { preconditionFailure("A request for objects gave something else.") }
        return objects
    }

    /// What a request finds, as its ``FetchRequest/resultType`` says; see ``fetchAsynchronously(_:progress:)``.
    @MainActor
    public func executeAsynchronously(
        _ request: FetchRequest, progress: Progress? = nil
    ) async throws -> FetchResult {
        let reported = OnQueue(progress)
        let fetch = try BackgroundFetch(request, context: self) { rows in
            DispatchQueue.main.async { reported.value??.completedUnitCount = Int64(rows) }
        }
        let (reading, monitor) = (fetch.reading, fetch.monitor)
        progress?.cancellationHandler = { monitor.cancel() }
        // Under a lock: the thread sanitizer does not see that a continuation which is resumed before its task waits for it
        // orders what was read before what follows.
        let found = Lock<Result<BackgroundFetch.Payload, any Error>?>(nil)
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

    /// Takes something through another thread that only the context's queue touches, and releases, which it does by
    /// taking it out.
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
    fileprivate func end(_ result: Result<FetchResult, any Error>) {
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

extension FetchResult {
    /// How many rows there are.
    fileprivate var count: Int {
        switch self {
        case .objects(let objects): objects.count
        case .objectIDs(let ids): ids.count
        case .dictionaries(let dictionaries): dictionaries.count
        case .count: 1
        }
    }
}
