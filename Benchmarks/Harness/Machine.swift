import CSQLite
import Foundation

/// Facts about the machine, for judging the figures.
enum Machine {
    static var summary: String {
        let gibibytes = Double(ProcessInfo.processInfo.physicalMemory) / 1_073_741_824
        return "\(processor)\(ProcessInfo.processInfo.activeProcessorCount) cores, "
            + String(format: "%.0f GiB", gibibytes)
    }

    /// The name of the processor, and a comma, if Linux knows it.
    private static var processor: String {
        let text = try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)
        let line = text?.split(separator: "\n").first { $0.hasPrefix("model name") }
        guard let name = line?.split(separator: ":", maxSplits: 1).last else { return "" }
        return name.trimmingCharacters(in: .whitespaces) + ", "
    }

    /// The versions of the compiler and the libraries.
    static var versions: String {
        var versions = ["SQLite \(String(cString: sqlite3_libversion()))", "GRDB 7.10.0"]
        let compiler = try? OwnProcess.output(of: "swift", ["--version"])
        if let line = compiler?.split(separator: "\n").first {
            versions.insert(
                String(line.prefix { $0 != "(" }.trimmingCharacters(in: .whitespaces)), at: 0)
        }
        return versions.joined(separator: ", ")
    }

    /// The load average of the last minute.
    static var load: Double {
        let text = try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8)
        return text?.split(separator: " ").first.flatMap { Double($0) } ?? 0
    }
}
