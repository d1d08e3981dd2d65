import Foundation

/// Finds the programs that are built for tests, which lie beside these.
public enum TestProgram {
    /// A folder with programs to test instead, `QUIRE_PROGRAMS`: optimized ones, by `make test-optimized`.
    public static let folder = ProcessInfo.processInfo.environment["QUIRE_PROGRAMS"]

    /// The path of a program.
    public static func path(named name: String) throws -> String {
        let folders = [
            folder.map { URL(fileURLWithPath: $0) },
            Bundle.main.executableURL?.deletingLastPathComponent(),
            URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent(),
        ]
        for folder in folders {
            guard let url = folder?.appendingPathComponent(name),
                FileManager.default.isExecutableFile(atPath: url.path)
            else { continue }
            return url.path
        }
        throw Missing(name: name)
    }

    private struct Missing: Error, CustomStringConvertible {
        var name: String

        var description: String { "\(name) is not beside the tests." }
    }
}
