/// What this program is to do in a process of its own, which prints its figures; see ``OwnProcess``.
enum OwnTask {
    case memory(MemoryTask)
    case instructions(InstructionTask)
    case threeTiers(ThreeTiers)
    case firstSync(FirstSync)
    case command(Command)

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
        } else if name == Command.taskName, let program = rest.first {
            self = .command(Command(program, Array(rest.dropFirst())))
        } else {
            throw BenchmarkFailure("\(Self.argument) is for the benchmark's own use.")
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
        case .instructions(let task): try await task.run(in: folder)
        }
    }
}
