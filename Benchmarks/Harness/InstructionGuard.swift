import Foundation

/// How many instructions some tasks take, compared with a list of before. Times differ from run to run; these hardly do, so
/// that a task which has become a twentieth slower is noticed.
struct InstructionGuard {
    /// The list of before.
    var path: String

    /// How much more than before a task may take.
    static let maximumGrowth = 0.05

    /// Counts, and writes the list anew.
    func renew(in folder: String, progress: (String) -> Void) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try (encoder.encode(measure(in: folder, progress: progress)) + Data("\n".utf8))
            .write(to: URL(fileURLWithPath: path))
    }

    /// Counts, prints what has changed, and fails if a task takes too many.
    func check(in folder: String, progress: (String) -> Void) throws {
        let before = try JSONDecoder().decode(
            [String: Int].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
        let now = try measure(in: folder, progress: progress)
        var missed: [String] = []
        for task in InstructionTask.Work.allCases {
            let id = task.rawValue
            guard let old = before[id], let new = now[id] else {
                missed.append("\(id), which \(path) does not have")
                continue
            }
            let growth = Double(new) / Double(old) - 1
            print(
                "\(id): \(new) instructions, \(String(format: "%+.1f", growth * 100)) % of \(old)")
            if growth > Self.maximumGrowth { missed.append(id) }
        }
        if !missed.isEmpty {
            throw BenchmarkFailure(
                """
                More instructions than before: \(missed.joined(separator: ", ")). If there is a reason, \
                `make guard ARGUMENTS=--renew` writes \(path) anew; say why in the commit.
                """)
        }
    }

    /// The instructions of each task.
    private func measure(in folder: String, progress: (String) -> Void) throws -> [String: Int] {
        // valgrind gives up on debug information that is newer than itself.
        let program = "\(folder)/Benchmarks"
        _ = try OwnProcess.output(of: "strip", ["--strip-debug", "-o", program, OwnProcess.path])
        var counts: [String: Int] = [:]
        for work in InstructionTask.Work.allCases {
            progress("instructions of \(work.rawValue)")
            // What the process needs to begin and to end is the same in both.
            let (few, many) = (2, 10)
            let difference =
                try InstructionTask(work: work, rounds: many).count(of: program)
                - InstructionTask(work: work, rounds: few).count(of: program)
            counts[work.rawValue] = difference / (many - few)
        }
        return counts
    }
}
