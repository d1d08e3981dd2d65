import CSQLite

/// What this program is to do in a process of its own, which prints its figures; see ``OwnProcess``.
enum OwnTask {
    case memory(MemoryTask)
    case instructions(InstructionTask)
    case threeTiers(ThreeTiers)
    case firstSync(FirstSync)
    case command(Command)
    case readers(ReadersBesideSaves)

    /// The option that what to do follows, for the benchmark's own use.
    static let argument = "--own-task"

    /// - Parameter arguments: What follows the option.
    init(_ arguments: [String]) throws {
        let (name, rest) = (arguments.first, Array(arguments.dropFirst()))
        if name == MemoryTask.name, let task = MemoryTask(arguments: rest) {
            self = .memory(task)
        } else if name == InstructionTask.name, let task = InstructionTask(arguments: rest) {
            self = .instructions(task)
        } else if name == ThreeTiers.name, let task = ThreeTiers(arguments: rest) {
            self = .threeTiers(task)
        } else if name == FirstSync.name, let task = FirstSync(arguments: rest) {
            self = .firstSync(task)
        } else if name == ReadersBesideSaves.name,
            let task = ReadersBesideSaves(arguments: rest)
        {
            self = .readers(task)
        } else if name == Command.taskName, let program = rest.first {
            self = .command(Command(program, Array(rest.dropFirst())))
        } else {
            throw BenchmarkFailure("\(Self.argument) is for the benchmark's own use.")
        }
    }

    /// Configures SQLite, which all engines share, before its first use: without memory statistics, which take a lock at each
    /// allocation and which no engine reads.
    static func configureSQLite(for task: OwnTask?) throws {
        if case .readers = task {
            sqlite3_initialize()
        } else if quire_sqlite3_config_int(SQLITE_CONFIG_MEMSTATUS, 0) != SQLITE_OK {
            throw BenchmarkFailure("SQLite was used before it was configured.")
        }
    }

    /// - Parameter folder: A folder to work in.
    @MainActor
    func run(in folder: String) async throws {
        switch self {
        case .memory(let task): try task.run()
        case .threeTiers(let task): try task.run()
        case .firstSync(let task): try await task.run()
        case .command(let task): try task.run()
        case .readers(let task): try task.run()
        case .instructions(let task): try await task.run(in: folder)
        }
    }
}
