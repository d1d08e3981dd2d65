import Foundation
import QuireTestSupport

/// strace, which makes a call of a command fail.
enum FailingCall {
    private static let log = "calls.log"

    static let isPossible =
        (try? CommandShell().run("strace -f -qq -o /dev/null -e trace=fsync true"))?.code == 0

    /// A command one of whose calls fails: the one of that number in its thread.
    static func command(
        _ command: String, failing call: String, _ number: Int, _ error: String
    ) -> String {
        injecting("error=\(error)", Call(name: call, number: number), command)
    }

    /// A command that is killed in a call.
    static func command(_ command: String, killedIn call: Call) -> String {
        injecting("signal=KILL", call, command)
    }

    private static func injecting(_ fault: String, _ call: Call, _ command: String) -> String {
        "strace -f -qq -y -o \(log) -e trace=\(call.name) "
            + "-e inject=\(call.name):\(fault):when=\(call.number) \(command)"
    }

    /// Whether the last command made the call.
    static func happened(in shell: CommandShell) throws -> Bool {
        try String(contentsOfFile: shell.path(log), encoding: .utf8).contains("(INJECTED)")
    }

    /// A call of a command that changes files: the one of that number of its name in its thread.
    struct Call: Hashable {
        var name: String
        var number: Int
    }

    private static let names = [
        "copy_file_range", "fchmod", "fdatasync", "fsync", "ftruncate", "link", "linkat", "mkdir",
        "mkdirat", "openat2", "pwrite64", "rename", "renameat", "renameat2", "rmdir", "unlink",
        "unlinkat", "write",
    ]

    /// Runs a command, and gives its calls that change files.
    static func changing(in shell: CommandShell, _ command: String) throws -> [Call] {
        let log = shell.path("all-" + log)
        _ = try shell.output(
            "strace -f -qq -y -o \(log) -e trace=\(names.joined(separator: ",")) "
                + "bash -c '\(command.replacing("'", with: "'\\''"))'")
        var counts: [String: Int] = [:]
        var calls: Set<Call> = []
        for line in try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n") {
            guard let match = line.firstMatch(of: #/^(?<thread>\d+) +(?<name>\w+)\((?<rest>.*)/#)
            else { continue }
            counts["\(match.thread) \(match.name)", default: 0] += 1
            // Opening to read, and what is written to others than files.
            if match.name == "openat2", !match.rest.contains("O_CREAT") { continue }
            if match.name == "write",
                match.rest.contains(#/^\d+<(/dev/|pipe:|anon_inode:|socket:)|^[12]</#)
            {
                continue
            }
            let number = counts["\(match.thread) \(match.name)"] ?? 0
            calls.insert(Call(name: String(match.name), number: number))
        }
        return calls.sorted { ($0.name, $0.number) < ($1.name, $1.number) }
    }
}
