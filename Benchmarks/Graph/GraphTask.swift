import Quire
import QuireSQLite

/// Something that contexts do for a program, beside another way to come to the same, or the same among fewer
/// objects. Only Quire does it; the ratio shows what it costs.
struct GraphTask: Sendable {
    var id: String
    var title: String
    /// What it is compared with.
    var otherTitle: String
    /// The most it may take, as a multiple of the other's time.
    var must: Double
    /// The most it may take, in milliseconds.
    var maximumMilliseconds: Double?
    /// How many notes there must be for it.
    var minimumCount = 0
    /// How many rounds to run on a document of `count` notes, before options change it.
    var rounds: @Sendable (_ count: Int) -> Int = { $0 >= 100_000 ? 5 : 11 }
    /// Runs one round of both.
    var run: @Sendable (GraphSite, _ measured: Stopwatch, _ other: Stopwatch) throws -> Void

    static let all =
        savingToParents + [savingThroughParents] + merging + undoing + fetching + typedAccess
        + followingResults
}

/// The document that graph tasks work on.
struct GraphSite {
    let coordinator: PersistentStoreCoordinator
    /// Of the same document, with a class bound to its notes.
    let typedCoordinator: PersistentStoreCoordinator
    let slots: NoteSlots
    let count: Int

    /// Does something in a context of its own, with all notes in memory.
    func withNotes<Result>(
        of coordinator: PersistentStoreCoordinator? = nil,
        _ body: (ManagedObjectContext, [ManagedObject]) throws -> sending Result
    ) throws -> sending Result {
        try QueueConfinedContext(coordinator: coordinator ?? self.coordinator).performAndWait {
            try body($0, Array($0.fetch(FetchRequest("Note"))))
        }
    }

    /// Of all numbers of notes, so many, from all over the document.
    func numbers(_ wanted: Int) -> [Int] {
        let wanted = min(wanted, count)
        return (0..<wanted).map { $0 * count / wanted }
    }

    func raiseRating(of note: ManagedObject) throws {
        try note.setValue(
            .integer((note.integer(at: slots.rating) ?? 0) + 1), at: slots.rating)
    }

    func ratings(of notes: [ManagedObject]) -> Int64 {
        notes.reduce(0) { $0 + ($1.integer(at: slots.rating) ?? 0) }
    }
}

extension Run {
    /// Measures what contexts do, with one size of document.
    func measureGraph(count: Int, progress: (String) -> Void) throws -> [Comparison] {
        let path = "\(folder)/graph-\(count).sqlite"
        let document = try QuireEngine.create(at: path)
        try document.insert(Dataset(count: count), withTags: true, Stopwatch())
        var storeOptions = SQLiteStoreOptions()
        storeOptions.objectClasses = [TypedNote.self]
        let typed = PersistentStoreCoordinator(
            store: try SQLiteStore.open(at: path, options: storeOptions))
        let site = GraphSite(
            coordinator: document.coordinator, typedCoordinator: typed,
            slots: try NoteSlots(document.coordinator.layout), count: count)
        let tasks = options.graphTasks.filter { count >= $0.minimumCount }
        let results = try tasks.map { task in
            progress("\(task.id), \(count) notes")
            return try measure(task, at: site)
        }
        try typed.close()
        try document.close()
        return results
    }

    private func measure(_ task: GraphTask, at site: GraphSite) throws -> Comparison {
        let (measured, other) = (Stopwatch(), Stopwatch())
        let warmUps = 1
        let rounds = max(3, Int(Double(task.rounds(site.count)) * options.effort))
        for round in 0..<warmUps + rounds {
            if round == warmUps {
                measured.removeSamples()
                other.removeSamples()
            }
            try task.run(site, measured, other)
        }
        guard let one = measured.median, let two = other.median else {
            throw BenchmarkFailure("\(task.id) has measured nothing.")
        }
        return Comparison(
            task.id, task.title, count: site.count, unit: "ms", quire: one,
            others: [.init(name: task.otherTitle, value: two)], ratio: task.must,
            most: task.maximumMilliseconds)
    }
}
