/// A document of notes kept by one of the libraries that are compared.
///
/// Each measured method prepares what is not to be measured, and runs the stopwatch around the rest. Freeing
/// what it has read is part of the work. Every engine uses write-ahead logging with `synchronous` = FULL:
/// a save that has returned survives a power failure.
protocol Engine: AnyObject {
    static var kind: EngineKind { get }

    /// Makes an empty document with tables and indexes.
    static func create(at path: String) throws -> Self

    /// Opens a document.
    static func open(at path: String) throws -> Self

    /// Closes the document; nothing else is called afterwards.
    func close() throws

    /// Puts folders and notes into an empty document in one durable save; tags too if asked for.
    func insert(_ dataset: Dataset, withTags: Bool, _ stopwatch: Stopwatch) throws

    /// Puts notes into an empty document, and saves and forgets them part by part.
    func insertInParts(_ dataset: Dataset, of size: Int) throws

    /// Reads every attribute of every note.
    func readEverything(_ stopwatch: Stopwatch) throws -> Checksum

    /// Reads the rating of every note, whose objects are at hand afterwards where the library has objects.
    func readRatings(_ stopwatch: Stopwatch) throws -> Checksum

    /// Has the database count the notes of each folder, add up their ratings and average their prices.
    func summarizeFolders(_ stopwatch: Stopwatch) throws -> Checksum

    /// Finds notes by their titles, one fetch each, and reads every attribute.
    func find(titles: [String], _ stopwatch: Stopwatch) throws -> Checksum

    /// Reads every attribute of the first notes by date.
    func readFirst(_ count: Int, _ stopwatch: Stopwatch) throws -> Checksum

    /// Changes rating and flag of every `step`th note that has been read before, and saves once.
    func change(every step: Int, _ stopwatch: Stopwatch) throws

    /// Reads every attribute of every note, and the name of its folder.
    func readWithFolders(_ stopwatch: Stopwatch) throws -> Checksum

    /// Reads every attribute of the notes of each folder, folder by folder.
    func readFolderByFolder(_ stopwatch: Stopwatch) throws -> Checksum

    /// Reads the names of the tags of every note.
    func readTags(_ stopwatch: Stopwatch) throws -> Checksum

    /// Deletes every `step`th note that has been read before, and saves once.
    func delete(every step: Int, _ stopwatch: Stopwatch) throws

    /// Puts the notes into an empty document, none of them an object, in one durable save.
    func insertAsBatch(_ dataset: Dataset, _ stopwatch: Stopwatch) throws

    /// Sets flag and price of all notes from before a date, of which none has been read, in one durable save.
    func changeAsBatch(before: Double, price: Double, _ stopwatch: Stopwatch) throws

    /// Deletes all notes from before a date, of which none has been read, in one durable save.
    func deleteAsBatch(before: Double, _ stopwatch: Stopwatch) throws

    /// Changes the rating of one note after another, which have been read before, and saves each.
    func changeOneByOne(titles: [String], _ stopwatch: Stopwatch) throws
}

/// The libraries that are compared.
enum EngineKind: String, CaseIterable, Codable, Sendable {
    case plain = "c"
    case grdb
    case quire

    /// The heading of its column.
    var title: String {
        switch self {
        case .plain: "C API"
        case .grdb: "GRDB"
        case .quire: "Quire"
        }
    }

    var type: any Engine.Type {
        switch self {
        case .plain: PlainEngine.self
        case .grdb: GRDBEngine.self
        case .quire: QuireEngine.self
        }
    }
}

/// What went wrong in a benchmark, in a sentence.
struct BenchmarkFailure: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }
}
