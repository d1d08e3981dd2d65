import Foundation

/// What the command line asks for.
struct Options {
    enum Format { case tables, json, markdown }

    var counts = [1_000, 10_000, 100_000]
    var engines = EngineKind.allCases
    var workloads = Workload.all
    /// How many of a workload's usual rounds to run.
    var effort = 1.0
    /// The format of the output.
    var format = Format.tables
    /// The file that keeps the run.
    var saved: String?
    /// An earlier run to compare with.
    var earlier: Report?
    /// A saved run, which is shown instead of measuring.
    var shown: Report?
    /// Where the documents are made. Not `/tmp`, which may be in memory, where syncing costs nothing.
    var folder = "/var/tmp"
    var measuresMemory = true
    var measuresMainQueue = true
    /// Whether to measure the main queue while documents are saved.
    var measuresDocumentSaves = true
    /// What contexts do, which only Quire has.
    var graphTasks = GraphTask.all
    /// Whether to measure that memory does not grow with the number of inserts.
    var measuresGrowth = true
    /// Whether to measure what is compared one by one.
    var measuresComparisons = true
    /// The size of synchronization; `nil` for none.
    var synchronization: SynchronizationSize? = SynchronizationSize()
    /// Compares instruction counts with a file instead of measuring.
    var instructionGuard: InstructionGuard?
    /// Whether to write that file anew.
    var renews = false
    /// Set in the processes that do one thing.
    var ownTask: OwnTask?

    static let help = """
        Compares Quire with SQLite's C API and with GRDB, interleaved in one run.

        USAGE: Benchmarks [options]

          --quick                1,000 and 10,000 objects, fewer rounds, little synchronization, no growth of memory
          --counts 1000,10000    how many notes the documents have (1000,10000,100000)
          --workloads W1,W2      which workloads (\(Workload.all.map(\.id).joined(separator: ","))), or none
          --engines c,quire      which engines (\(EngineKind.allCases.map(\.rawValue).joined(separator: ",")))
          --effort 2             twice the usual rounds (1)
          --folder PATH          where to make documents (/var/tmp); it should be on a disk
          --no-memory            do not measure peak memory
          --no-main-queue        do not measure the main queue's part of a save
          --no-documents         do not measure the main queue while documents are saved
          --graph C1,U2          which tasks of contexts (\(GraphTask.all.map(\.id).joined(separator: ","))), or none
          --no-growth            do not measure that memory stays the same however many objects are inserted
          --no-comparisons       no readers beside saves, large documents, orders, imports, archives
          --no-sync              do not measure synchronization
          --save FILE            write the run to a file
          --against FILE         list the rows that have changed by more than 5 % since a saved run of this machine
          --show FILE            show a saved run instead of measuring
          --json                 print JSON instead of tables, as --save writes it
          --markdown             print one table for a README instead: times, memory and ratios
          --guard FILE           only compare counts of instructions with those in a file; needs valgrind
          --renew                write that file anew

        Exits with code 1 if a row misses what it must reach and is not among the known misses
        (Benchmarks/Harness/KnownMisses.swift). --quick and an --effort below 1 have too few rounds to fail for that.
        """

    init(_ arguments: [String]) throws {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            func value() throws -> String {
                guard let value = rest.popFirst() else {
                    throw BenchmarkFailure("\(argument) needs a value. Try --help.")
                }
                return value
            }
            func list() throws -> [String] {
                try value().split(separator: ",").map(String.init)
            }
            switch argument {
            case "--quick":
                counts = [1_000, 10_000]
                effort = 0.5
                measuresGrowth = false
                measuresDocumentSaves = false
                measuresComparisons = false
                if synchronization != nil { synchronization = .quick }
            case "--counts":
                counts = try list().map {
                    guard let count = Int($0), count >= 100 else {
                        throw BenchmarkFailure("“\($0)” is not a number of notes from 100.")
                    }
                    return count
                }
            case "--workloads":
                workloads = try list().filter { $0 != "none" }.map { id in
                    guard let workload = Workload.all.first(where: { $0.id == id }) else {
                        throw BenchmarkFailure("There is no workload “\(id)”. Try --help.")
                    }
                    return workload
                }
            case "--engines":
                engines = try list().map {
                    guard let kind = EngineKind(rawValue: $0) else {
                        throw BenchmarkFailure("There is no engine “\($0)”. Try --help.")
                    }
                    return kind
                }
            case "--effort":
                guard let number = Double(try value()), number > 0 else {
                    throw BenchmarkFailure("--effort needs a positive number.")
                }
                effort = number
            case "--folder": folder = try value()
            case "--no-memory": measuresMemory = false
            case "--no-main-queue": measuresMainQueue = false
            case "--no-documents": measuresDocumentSaves = false
            case "--graph":
                graphTasks = try list().filter { $0 != "none" }.map { id in
                    guard let task = GraphTask.all.first(where: { $0.id == id }) else {
                        throw BenchmarkFailure("There is no task “\(id)”. Try --help.")
                    }
                    return task
                }
            case "--no-growth": measuresGrowth = false
            case "--no-comparisons": measuresComparisons = false
            case "--no-sync": synchronization = nil
            case "--save":
                let path = try value()
                let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
                guard FileManager.default.isWritableFile(atPath: folder) else {
                    throw BenchmarkFailure(
                        "“\(path)” cannot be written: “\(folder)” is not writable.")
                }
                saved = path
            case "--against": earlier = try Report(contentsOf: value())
            case "--show": shown = try Report(contentsOf: value())
            case "--json": format = .json
            case "--markdown": format = .markdown
            case "--guard": instructionGuard = InstructionGuard(path: try value())
            case "--renew": renews = true
            case OwnTask.argument:
                ownTask = try OwnTask(Array(rest))
                rest = []
            default: throw BenchmarkFailure("“\(argument)” is not an option. Try --help.")
            }
        }
        try Report.requireUnique(
            counts.flatMap { count in
                (workloads.map(\.id) + graphTasks.map(\.id)).map {
                    "\($0) at \(Report.grouped(count))"
                }
            })
    }
}
