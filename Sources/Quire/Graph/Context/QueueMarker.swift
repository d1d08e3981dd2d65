internal import Dispatch
internal import Foundation
internal import Synchronization

/// Detects whether code runs on a context's queue.
///
/// Queues are marked with a DispatchSpecificKey, because the main queue need not be on the main thread on Linux.
///
/// Code that a queue waits for has exclusive access to that queue, too: while the main queue waits in a `performAndWait` of a
/// child, the child may use its main-queue parent without waiting for the main queue. So each queue has a list of the queues
/// that wait for its running block.
final class QueueMarker: @unchecked Sendable {
    /// What a queue has of its mark. The mark retains the queue, which would retain it for ever if it had the mark itself.
    private struct Reference: Sendable { weak let marker: QueueMarker? }

    private static let key = DispatchSpecificKey<Reference>()

    /// The mark of the queue that the code runs on.
    private static var current: QueueMarker? { DispatchQueue.getSpecific(key: key)?.marker }

    /// The queue.
    let queue: DispatchQueue
    /// The queues that wait for this one's running block. Only accessed on the queue, hence the unchecked conformance.
    private var waiting: [QueueMarker] = []
    /// The thread known to run a block of the queue; 0 if none. Written on the queue only. Any thread may compare it with
    /// itself: they can only be equal while that thread is on the queue.
    private let thread = Atomic<UInt>(0)

    /// Whether contexts check their queue: in debug builds, and with `QUIRE_CONCURRENCY_DEBUG=1`.
    static let isChecking: Bool = {
        #if DEBUG
            return true
        #else
            return ProcessInfo.processInfo.environment["QUIRE_CONCURRENCY_DEBUG"] == "1"
        #endif
    }()

    /// The mark of the main queue.
    static let main = QueueMarker(marking: .main)

    /// Marks a queue, which must be serial.
    init(marking queue: DispatchQueue) {
        self.queue = queue
        queue.setSpecific(key: Self.key, value: Reference(marker: self))
    }

    /// Whether the code runs on the queue, or the queue waits for it.
    var isCurrent: Bool {
        guard let current = Self.current else { return false }
        return current === self || current.waiting.contains { $0 === self }
    }

    /// Records the thread of a block that begins on the queue for ``isCurrentAtRelease``. Returns the argument for ``end(_:)``.
    func begin() -> UInt {
        thread.exchange(UInt(pthread_self()), ordering: .relaxed)
    }

    func end(_ outer: UInt) { thread.store(outer, ordering: .relaxed) }

    /// Runs a closure on the queue while the present one, and those that wait for it, wait.
    func sync(_ body: () -> Void) {
        var callers: [QueueMarker] = []
        if let current = Self.current {
            callers = current.waiting + [current]
        }
        queue.sync {
            waiting = callers
            let outer = begin()
            body()
            end(outer)
            waiting = []
        }
    }

    /// ``isCurrent`` for deinits. That takes 70 ns; this is almost free while a block passed to a context runs, or on the main
    /// queue, as long as that stays on its thread.
    @inline(__always)
    var isCurrentAtRelease: Bool {
        thread.load(ordering: .relaxed) == UInt(pthread_self()) || isCurrentNotingThread
    }

    @inline(never)
    private var isCurrentNotingThread: Bool {
        if !isCurrent { return false }
        // DispatchQueue.main is another object each time.
        if self === Self.main { _ = begin() }
        return true
    }

    /// Stops the program unless the code runs on the queue.
    ///
    /// - Parameter subject: What is used, for the message: an object, or something of a context.
    func check(_ subject: @autoclosure () -> String) {
        if !isCurrent { stop(subject()) }
    }

    /// Stops the program with a message, which a failed precondition has in debug builds only.
    @inline(never)
    private func stop(_ subject: String) -> Never {
        let isMain = self === Self.main
        let present =
            switch Self.current {
            case nil: "outside all contexts' queues"
            case let marker? where marker === Self.main: "on the main queue"
            default: "on the queue of another context"
            }
        // The main queue's thread stays on record.
        let isBusy = !isMain && thread.load(ordering: .relaxed) != 0
        fatalError(
            "\(subject) was used on the wrong queue: it belongs to "
                + "\(isMain ? "the main queue" : "a private queue"), but was used \(present), by \(Self.threadName). "
                + (isBusy ? "Its queue was running a block at that moment. " : "")
                + "Use a main-queue context on the main actor, and a private-queue context within perform."
        )
    }

    /// The present thread, by the number that debuggers give it.
    private static var threadName: String {
        if Thread.isMainThread { return "the main thread" }
        let thread = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
        return thread?.split(separator: "/").last.map { "thread \($0)" } ?? "another thread"
    }
}
