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
    try OwnTask.configureSQLite(for: options.ownTask)
    let run = try Run(options: options)
    defer { run.removeFolder() }
    if let task = options.ownTask { return try await task.run(in: run.folder) }
    if let instructions = options.instructionGuard {
        return options.renews
            ? try instructions.renew(in: run.folder, progress: report)
            : try instructions.check(in: run.folder, progress: report)
    }
    let results: Report
    if let saved = options.shown {
        results = saved
    } else {
        results = try await run.measure(progress: report)
    }
    if let path = options.saved { try results.json().write(to: URL(fileURLWithPath: path)) }
    let judgement = Judgement(results)
    switch options.format {
    case .json: print(String(decoding: try results.json(), as: UTF8.self), terminator: "")
    case .markdown: print(results.markdown)
    case .tables:
        print(results.tables)
        print(judgement.text)
    }
    if let earlier = options.earlier, options.format != .json {
        print("\n" + results.changes(since: earlier))
    }
    try judgement.requireTargets()
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
