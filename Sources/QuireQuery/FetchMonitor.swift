package import QuireSystem
import Synchronization

/// Watches a request that runs on another thread: counts the rows that it has read, and can stop it.
package final class FetchMonitor: Sendable {
    private let cancelled = Atomic(false)
    private let report: @Sendable (_ rows: Int) -> Void

    /// After how many rows a report is made.
    package static let interval = 256

    /// Watches a request.
    ///
    /// - Parameter report: Called now and then, on the request's thread, with the number of rows read.
    package init(report: @escaping @Sendable (_ rows: Int) -> Void) { self.report = report }

    /// Whether the request has been stopped; whoever carries it out asks now and then.
    package var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    /// Stops the request, now or when it begins.
    package func cancel() { cancelled.store(true, ordering: .relaxed) }

    /// Throws if the request has been stopped.
    package func check() throws {
        if isCancelled { throw Self.cancelledError }
    }

    /// Called with the number of rows read so far, from 1.
    package func didRead(rows: Int) { if rows % Self.interval == 0 { report(rows) } }

    package static var cancelledError: QuireError {
        QuireError(.cancelled, "The request was cancelled.")
    }
}

/// A request's monitor, which is no part of what it asks for: requests that differ in nothing else are equal.
package struct FetchWatch: Sendable, Hashable {
    package var monitor: FetchMonitor?

    package static func == (left: Self, right: Self) -> Bool { true }

    package func hash(into hasher: inout Hasher) {}
}
