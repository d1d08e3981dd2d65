import Foundation

func report(_ sentence: String) {
    FileHandle.standardError.write(Data("\(sentence)\n".utf8))
}

@MainActor
func runBenchmarks() async throws {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.contains("--help") || arguments.contains("-h") {
        print(Options.help)
        return
    }
    let options = try Options(arguments)
    let run = try Run(options: options)
    defer { run.removeFolder() }
    if let task = options.ownTask { return try await task.run(in: run.folder) }
    if let instructions = options.instructionGuard {
        return options.renews
            ? try instructions.renew(in: run.folder, progress: report)
            : try instructions.check(in: run.folder, progress: report)
    }
    var results = Report(options: options)
    for count in options.counts {
        results.workloads += try run.measure(count: count, progress: report)
        if options.measuresMemory {
            results.memory += try run.measureMemory(count: count, progress: report)
        }
        if options.measuresMainQueue, options.engines.contains(.quire) {
            report("main queue, \(count) notes")
            results.mainQueue.append(try run.measureMainQueue(count: count))
        }
        if !options.graphTasks.isEmpty, options.engines.contains(.quire) {
            results.graph += try run.measureGraph(count: count, progress: report)
        }
    }
    if options.measuresGrowth, options.engines.contains(.quire) {
        results.growth = try run.measureGrowth(progress: report)
    }
    if options.measuresDocumentSaves, options.engines.contains(.quire) {
        results.documentSaves = try await run.measureDocumentSaves(progress: report)
    }
    if options.measuresComparisons, options.engines.contains(.quire) {
        results.comparisons = try await run.measureComparisons(progress: report)
    }
    if let size = options.synchronization, options.engines.contains(.quire) {
        results.comparisons += try await run.measureSynchronization(of: size, progress: report)
    }
    let order = Dictionary(
        uniqueKeysWithValues: options.workloads.enumerated().map { ($1.id, $0) })
    results.workloads.sort { (order[$0.id] ?? 0, $0.count) < (order[$1.id] ?? 0, $1.count) }
    results.memory.sort { ($0.id, $0.count) < ($1.id, $1.count) }
    results.graph.sort { ($0.id, $0.count) < ($1.id, $1.count) }
    if options.json { try results.printJSON() } else { results.printTables() }
    if let growth = results.growth, !growth.isMet {
        throw BenchmarkFailure(
            "Inserting with a save and a reset every 10,000 takes more memory the more objects there are."
        )
    }
    if let missed = results.documentSaves.first(where: {
        !$0.reads && $0.longestTurnMilliseconds > DocumentSaveResult.boundMilliseconds
    }) {
        throw BenchmarkFailure(
            "Saving a document with \(missed.changes) changed objects keeps the main queue longer than "
                + "\(Int(DocumentSaveResult.boundMilliseconds)) ms.")
    }
}

Task {
    do {
        try await runBenchmarks()
    } catch {
        report("Benchmarks: \(error)")
        exit(1)
    }
    exit(0)
}
// valgrind does not survive that the main thread ends, which is how the main queue gets one otherwise.
while CommandLine.arguments.dropFirst().prefix(2) == [OwnTask.argument, InstructionTask.name] {
    _ = RunLoop.main.run(mode: .default, before: .distantFuture)
}
dispatchMain()
