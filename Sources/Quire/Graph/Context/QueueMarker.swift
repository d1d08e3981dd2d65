internal import Dispatch
internal import Foundation
internal import Synchronization

/// Detects whether code runs on a context's queue.
///
/// The thread that runs a private queue's block has the mark of the queue. The main queue has its mark itself, because it runs
/// other blocks than ours, and need not be on the main thread on Linux; on a private queue that would cost another thread's time
/// when the queue ends.
///
/// Code that a queue waits for has exclusive access to that queue, too: while the main queue waits in a `performAndWait` of a
/// child, the child may use its main-queue parent without waiting for the main queue. So each queue has a list of the queues
/// that wait for its running block.
final class QueueMarker: @unchecked Sendable {
    private static let key = DispatchSpecificKey<QueueMarker>()

    /// The mark of the queue that the code runs on.
    private static var current: QueueMarker? { DispatchQueue.getSpecific(key: key) ?? ofThread }

    private static let threadKey: pthread_key_t = {
        var key = pthread_key_t()
        let code = pthread_key_create(&key, nil)
        precondition(code == 0, "The program has too many thread-specific keys.")
        return key
    }()

    /// The mark of the queue of ours whose block this thread runs; of the innermost, if it runs several.
    private static var ofThread: QueueMarker? {
        pthread_getspecific(threadKey).map {
            Unmanaged<QueueMarker>.fromOpaque($0).takeUnretainedValue()
        }
    }

    /// The queue. Blocks of contexts come to it by ``sync(_:)`` and ``async(_:)``, or they would not have the mark.
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
    static let main: QueueMarker = {
        let marker = QueueMarker(.main)
        marker.queue.setSpecific(key: key, value: marker)
        return marker
    }()

    private init(_ queue: DispatchQueue) { self.queue = queue }

    /// Makes a private queue.
    convenience init(label: String) { self.init(DispatchQueue(label: label)) }

    /// Whether the code runs on the queue, or the queue waits for it.
    var isCurrent: Bool {
        if Self.ofThread === self { return true }
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
            run {
                waiting = callers
                let outer = begin()
                body()
                end(outer)
                waiting = []
            }
        }
    }

    /// Runs a closure on the queue later.
    func async(_ body: @escaping @Sendable () -> Void) {
        queue.async { self.run(body) }
    }

    /// Runs a block of the queue with its mark on the thread.
    private func run(_ block: () -> Void) {
        let outer = pthread_getspecific(Self.threadKey)
        pthread_setspecific(Self.threadKey, Unmanaged.passUnretained(self).toOpaque())
        block()
        pthread_setspecific(Self.threadKey, outer)
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
