import CLinux
package import Dispatch
import Foundation

/// Clean-up before a signal ends the process: removes files that are being built, and sockets.
///
/// The process ends as by the signal alone. A process that is killed removes nothing; its leftovers are found by
/// ``TemporarySibling/removeAbandoned(in:)``.
package enum TerminationCleanup {
    private struct Actions {
        var next = 0
        var byNumber: [Int: @Sendable () -> Void] = [:]
    }

    private static let actions = Lock(Actions())
    /// Held by critical sections, and forever by the clean-up.
    private static let lock = NSLock()

    /// Registers an action to run when a signal ends the process.
    ///
    /// - Returns: The token for ``remove(_:)``.
    package static func add(_ action: @escaping @Sendable () -> Void) -> Int {
        actions.withLock {
            $0.next += 1
            $0.byNumber[$0.next] = action
            return $0.next
        }
    }

    package static func remove(_ number: Int) { actions.withLock { $0.byNumber[number] = nil } }

    /// Runs a body that the clean-up waits for. If the process is already terminating, this does not return.
    package static func uninterrupted<Result>(_ body: () throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body()
    }

    /// Runs a body. If a signal ends the process meanwhile, a file or folder that the body needs is removed.
    ///
    /// When this has returned, it is removed no more. Until then, it and the files in it get final names only in
    /// ``uninterrupted(_:)``.
    package static func removing<Result>(
        _ path: String, beneath root: String, _ body: () throws -> Result
    ) throws -> Result {
        let number = add { TemporarySibling.removeWhileWritten(path, beneath: root) }
        // The caller must not use what is being removed.
        defer { uninterrupted { remove(number) } }
        return try body()
    }

    /// Makes a folder, and runs a body that fills it, as ``removing(_:beneath:_:)``.
    package static func making<Result>(
        folder path: String, beneath root: String, _ body: () throws -> Result
    ) throws -> Result {
        try removing(path, beneath: root) {
            try uninterrupted { try FileSystem.makeFolder(path, beneath: root) }
            return try body()
        }
    }

    private struct Handler {
        let queue: DispatchQueue
        let body: @Sendable () -> Void
    }

    private static let handlers = Lock<[Int32: Handler]>([:])
    private static let signals = DispatchQueue(label: "quire.signals")

    /// Installs a handler for a signal that would end the process, replacing an earlier handler. A signal that is ignored, as
    /// under `nohup`, stays ignored.
    ///
    /// Handlers stay installed as long as the process lives.
    package static func handle(
        _ signalNumber: Int32, on queue: DispatchQueue, _ body: @escaping @Sendable () -> Void
    ) {
        handlers.withLock { handlers in
            let isHandled = handlers[signalNumber] != nil
            // A dispatch source does not replace the signal's default action, which ends the process.
            let former = isHandled ? nil : signal(signalNumber, SIG_IGN)
            // SIG_IGN is not a function but the number 1.
            if !isHandled, unsafeBitCast(former, to: Int.self) == 1 { return }
            handlers[signalNumber] = Handler(queue: queue, body: body)
            if isHandled { return }
            let source = DispatchSource.makeSignalSource(signal: signalNumber, queue: signals)
            // The handler retains the source; there is no other reference.
            source.setEventHandler {
                withExtendedLifetime(source) {
                    guard let handler = Self.handlers.withLock({ $0[signalNumber] }) else { return }
                    handler.queue.async(execute: handler.body)
                }
            }
            source.resume()
        }
    }

    /// Runs the registered actions, and ends the process by the signal.
    package static func end(by signalNumber: Int32) -> Never {
        // Never unlocked: nothing gets its final name any more, and errors due to removed files are not reported.
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
