import Foundation
import Logging

/// Where the library's log goes: nowhere, because what matters is told in the command's own sentence, unless
/// `QUIRE_LOG` names a level (`debug`, `info`, …); then to standard error.
enum LogOutput {
    /// Sets the log up. To be called once.
    static func begin() {
        let name = ProcessInfo.processInfo.environment["QUIRE_LOG"] ?? ""
        guard let level = Logger.Level(rawValue: name) else {
            LoggingSystem.bootstrap { _ in SwiftLogNoOpLogHandler() }
            return
        }
        LoggingSystem.bootstrap { label in
            var handler = StreamLogHandler(label: label, stream: EscapedStandardError())
            handler.logLevel = level
            return handler
        }
    }
}

/// Standard error, for texts with names in them that a terminal must not obey; see ``Output/escaped(_:)``.
private struct EscapedStandardError: TextOutputStream, Sendable {
    mutating func write(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data(Output.escaped(text).utf8))
    }
}
