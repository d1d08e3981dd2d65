import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// The option that says how long to wait for others who have the document open for writing.
struct WaitOption: ParsableArguments {
    @Option(
        name: .customLong("wait"),
        help: ArgumentHelp(
            "How long to wait for others who have it open for writing; 0 fails at once.",
            valueName: "SECONDS"))
    var seconds = 5.0

    func validate() throws {
        guard seconds >= 0, seconds <= 1e6 else {
            throw ValidationError("--wait takes a number of seconds, from 0 on.")
        }
    }

    var timeout: Duration { .milliseconds(Int64(seconds * 1000)) }

    /// How to wait for a package, saying so on standard error.
    func lockWait(for path: String) -> LockWait {
        LockWait(timeout: timeout) { owner in
            report("“\(path)” is open for writing\(owner.phrase)")
        }
    }

    /// How to wait for a bare store, saying so on standard error.
    func fileLockWait(for path: String) -> FileLockWait {
        FileLockWait(timeout: timeout) { holder in
            report("“\(path)” is locked\(holder?.phrase ?? " by another process")")
        }
    }

    private func report(_ sentence: String) {
        Output.report("\(sentence); waiting up to \(String(format: "%g", seconds)) s.")
    }
}
