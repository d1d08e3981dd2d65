/// A task that every engine does with a document of a number of notes.
struct Workload: Sendable {
    /// Its number in the project's list of workloads.
    var id: String
    var title: String
    var must: [Comparison.Bound]
    var aim: [Comparison.Bound] = []
    /// How many rounds to run on a document of `count` notes, before options change it.
    var rounds: @Sendable (_ count: Int) -> Int
    /// Whether each round begins with a document that does not exist yet.
    var startsEmpty = false
    /// Runs one round and returns what shows that the work was done.
    var run: @Sendable (Site, Stopwatch) throws -> Checksum

    static let all = insertion + reading + relating + opening + changing + batches
}

/// One engine's place of work: its document, the data, and how often it has been here.
final class Site {
    let engine: any Engine.Type
    let dataset: Dataset
    let path: String
    /// The number of the round, the same for all engines.
    var round = 0
    /// The open document, for workloads that do not open it themselves.
    private var document: (any Engine)?

    init(engine: any Engine.Type, dataset: Dataset, path: String) {
        self.engine = engine
        self.dataset = dataset
        self.path = path
    }

    func openDocument() throws -> any Engine {
        if let document { return document }
        let opened = try engine.open(at: path)
        document = opened
        return opened
    }

    func closeDocument() throws {
        try document?.close()
        document = nil
    }
}
