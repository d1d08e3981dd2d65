import Quire
import QuireDocuments

/// One of the tasks whose instructions are counted, done some times in a process that does nothing else.
struct InstructionTask {
    static let name = "instructions"

    enum Work: String, CaseIterable {
        case insert = "W1"
        case read = "W2"
        case change = "W5"
        case open = "W9"
        case documentSave = "document save"
    }

    var work: Work
    var rounds: Int

    private static let objectCount = 1_000

    init(work: Work, rounds: Int) {
        self.work = work
        self.rounds = rounds
    }

    init?(arguments: [String]) {
        guard arguments.count == 2, let work = Work(rawValue: arguments[0]),
            let rounds = Int(arguments[1])
        else { return nil }
        self.init(work: work, rounds: rounds)
    }

    /// Does the work in this process.
    @MainActor
    func run(in folder: String) async throws {
        if work == .documentSave { return try await saveDocument(at: "\(folder)/guard.quire") }
        let dataset = Dataset(count: Self.objectCount)
        let stopwatch = Stopwatch()
        if work == .insert {
            for round in 0..<rounds {
                let document = try QuireEngine.create(at: "\(folder)/guard-\(round).sqlite")
                try document.insert(dataset, withTags: false, stopwatch)
                try document.close()
            }
            return
        }
        let path = "\(folder)/guard.sqlite"
        var document = try QuireEngine.create(at: path)
        try document.insert(dataset, withTags: false, stopwatch)
        for _ in 0..<rounds {
            switch work {
            case .read: _ = try document.readEverything(stopwatch)
            case .change: try document.change(every: 10, stopwatch)
            case .open:
                try document.close()
                document = try QuireEngine.open(at: path)
                _ = try document.readFirst(50, stopwatch)
            case .insert, .documentSave: break
            }
        }
        try document.close()
    }

    @MainActor
    private func saveDocument(at path: String) async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: NoteModel.model)
        let context = document.managedObjectContext
        let notes = try (0..<Self.objectCount).map { number in
            let note = try context.insertObject(entityName: "Note")
            note["title"] = "Note \(number)"
            return note
        }
        try await document.save()
        for round in 0..<rounds {
            for note in notes { note["rating"] = Int64(round) }
            try await document.save()
        }
        try await document.close()
    }

    /// Does the work in a process of its own, and counts its instructions.
    func count(of program: String) throws -> Int {
        let text = try OwnProcess.output(
            of: "valgrind",
            [
                "--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1", program,
                OwnTask.argument, Self.name, work.rawValue, "\(rounds)",
            ])
        guard let line = text.split(separator: "\n").last(where: { $0.contains("Collected :") }),
            let count = line.split(separator: " ").last.flatMap({ Int($0) })
        else { throw BenchmarkFailure("valgrind has not counted \(work.rawValue):\n\(text)") }
        return count
    }
}
