import Dispatch
import Glibc
import Quire

/// What Ctrl-C, SIGTERM and SIGHUP do: files that are being built are removed, and the command ends by the signal.
enum Interruption {
    /// Begins to handle the signals. To be called once, before anything is done.
    static func begin() {
        // Not the main queue, which waits while a command works.
        let queue = DispatchQueue(label: "quire.interruption")
        for number in [SIGINT, SIGTERM, SIGHUP] {
            TerminationCleanup.handle(number, on: queue) { TerminationCleanup.end(by: number) }
        }
    }
}
