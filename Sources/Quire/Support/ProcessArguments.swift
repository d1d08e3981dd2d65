import CLinux
import Foundation

/// How this process was started, also where `/proc` is not mounted.
package enum ProcessArguments {
    /// The arguments, the program's name first; empty if the system does not tell.
    ///
    /// `CommandLine.arguments` reads `/proc/self/cmdline`, and is empty if that is not there.
    package static var all: [String] {
        var count: Int32 = 0
        guard let values = quire_arguments(&count) else { return CommandLine.arguments }
        return (0..<Int(count)).compactMap { values[$0].map { String(cString: $0) } }
    }

    /// The path of the program's file, without symbolic links; `nil` if the system does not tell.
    package static var programPath: String? {
        if let path = realPath("/proc/self/exe") { return path }
        return quire_program_path().flatMap { realPath(String(cString: $0)) }
    }

    private static func realPath(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
