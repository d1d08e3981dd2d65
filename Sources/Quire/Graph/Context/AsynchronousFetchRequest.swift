public import Foundation

/// A request whose reading happens on another thread than the context's queue.
///
/// ```swift
/// let request = AsynchronousFetchRequest(fetchRequest: FetchRequest("Book")) { result in
///     if case .objects(let books)? = result.finalResult { show(books) }
/// }
/// let progress = context.execute(request).progress
/// …
/// progress.cancel()
/// ```
public struct AsynchronousFetchRequest {
    /// What to find.
    public var fetchRequest: FetchRequest
    /// How many objects there may be, for the progress; 0 if nobody knows.
    public var estimatedResultCount = 0
    /// Called once on the context's queue, with the result or the error.
    public var completion: (AsynchronousFetchResult) -> Void

    /// Makes a request.
    public init(
        fetchRequest: FetchRequest, completion: @escaping (AsynchronousFetchResult) -> Void
    ) {
        self.fetchRequest = fetchRequest
        self.completion = completion
    }
}

/// What becomes of an ``AsynchronousFetchRequest``. Used on the context's queue.
public final class AsynchronousFetchResult {
    /// How far the reading is, in rows: indeterminate if nobody knows how many there are. It changes on the context's
    /// queue. Cancelling it, from any thread, interrupts the database; the error has the code `cancelled`.
    public let progress: Progress
    /// What was found, when the request is finished.
    public internal(set) var finalResult: FetchResult?
    /// Why nothing was found, when the request has failed.
    public internal(set) var operationError: QuireError?

    init(progress: Progress) { self.progress = progress }

    /// Cancels the request.
    public func cancel() { progress.cancel() }
}
