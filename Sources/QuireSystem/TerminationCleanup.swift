import CLinux
package import Dispatch
import Foundation

/// What this process has to remove before a signal ends it: files that it is building, and sockets.
///
/// The process ends as the signal alone would have ended it. A process that is killed removes nothing; what it leaves is
/// found by ``TemporarySibling/removeAbandoned(in:)``.
package enum TerminationCleanup {
    private struct Actions {
        var next = 0
        var byNumber: [Int: @Sendable () -> Void] = [:]
    }

    private static let actions = Lock(Actions())
    /// Held by what must not be interrupted half way, and for ever by the clean-up.
    private static let lock = NSLock()

    /// Adds something to do when a signal ends the process.
    ///
    /// - Returns: The number to give to ``remove(_:)``.
    package static func add(_ action: @escaping @Sendable () -> Void) -> Int {
        actions.withLock {
            $0.next += 1
            $0.byNumber[$0.next] = action
            return $0.next
        }
    }

    package static func remove(_ number: Int) { actions.withLock { $0.byNumber[number] = nil } }

    /// Runs a body that the clean-up waits for. If the process is ending already, this does not return.
    package static func uninterrupted<Result>(_ body: () throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body()
    }

    private struct Handler {
        let queue: DispatchQueue
        let body: @Sendable () -> Void
    }

    private static let handlers = Lock<[Int32: Handler]>([:])
    private static let signals = DispatchQueue(label: "quire.signals")

    /// Has a body run when a signal arrives that would end the process, instead of one that was given before. A signal that is
    /// ignored, as under `nohup`, stays ignored.
    ///
    /// It stays so as long as the process lives.
    package static func handle(
        _ signalNumber: Int32, on queue: DispatchQueue, _ body: @escaping @Sendable () -> Void
    ) {
        handlers.withLock { handlers in
            let isHandled = handlers[signalNumber] != nil
            // A dispatch source does not replace the signal's default action, which is to end the process.
            let former = isHandled ? nil : signal(signalNumber, SIG_IGN)
            // SIG_IGN is not a function but the number 1.
            if !isHandled, unsafeBitCast(former, to: Int.self) == 1 { return }
            handlers[signalNumber] = Handler(queue: queue, body: body)
            if isHandled { return }
            let source = DispatchSource.makeSignalSource(signal: signalNumber, queue: signals)
            // The handler holds the source, which nothing else does.
            source.setEventHandler {
                withExtendedLifetime(source) {
                    guard let handler = Self.handlers.withLock({ $0[signalNumber] }) else { return }
                    handler.queue.async(execute: handler.body)
                }
            }
            source.resume()
        }
    }

    /// Removes what is to be removed, and ends the process by the signal.
    package static func end(by signalNumber: Int32) -> Never {
        // Never unlocked: nothing gets its final name any more, and what fails because its files are gone is not reported.
        lock.lock()
        for action in actions.withLock({ $0.byNumber.values }) { action() }
        signal(signalNumber, SIG_DFL)
        // The dispatch source has it blocked.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, signalNumber)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(signalNumber)
        _exit(128 + signalNumber)
    }
}
