import Foundation
import Quire
import QuireSQLite
import QuireSync

/// The first round of a replica with a folder, in a process of its own.
struct FirstSync {
    static let name = "first-sync"

    enum Work: String {
        /// The store makes the shared document: all of its objects are captured and handed over.
        case sending
        /// A new store joins it: all objects are merged.
        case merging
    }

    var work: Work
    var count: Int
    var store: String
    var folder: String

    init(_ work: Work, count: Int, store: String, folder: String) {
        self.work = work
        self.count = count
        self.store = store
        self.folder = folder
    }

    init?(arguments: [String]) {
        guard arguments.count == 4, let work = Work(rawValue: arguments[0]),
            let count = Int(arguments[1])
        else { return nil }
        self.init(work, count: count, store: arguments[2], folder: arguments[3])
    }

    /// The figures.
    struct Usage {
        var seconds: Double
        var megabytes: Double
    }

    /// Does the work in a process of its own.
    func measure() throws -> Usage {
        let output = try OwnProcess.run(
            Self.name, [work.rawValue, "\(count)", store, folder])
        let figures = output.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
        guard figures.count == 2 else {
            throw BenchmarkFailure("The process of \(work.rawValue) said “\(output)”.")
        }
        return Usage(seconds: figures[0], megabytes: figures[1] / 1_024)
    }

    /// Does the work in this process, and prints the seconds and the peak in kilobytes.
    func run() async throws {
        let opened =
            work == .merging
            ? try SQLiteStore.create(at: store, model: Library.model)
            : try SQLiteStore.open(at: store)
        let coordinator = PersistentStoreCoordinator(store: opened)
        let stopwatch = Stopwatch()
        stopwatch.start()
        let sync = try SyncContainer(
            coordinator: coordinator,
            transport: FolderTransport(folder: folder, creates: work == .sending))
        switch work {
        case .sending: try await sync.create(named: "Library")
        case .merging: try await sync.join()
        }
        let result = try await sync.synchronize()
        stopwatch.stop()
        let objects = try Library.count(in: coordinator)
        try coordinator.close()
        guard objects == count, result.problems.isEmpty,
            work == .merging || result.sentCount > 0
        else {
            throw BenchmarkFailure(
                "\(objects) of \(count) objects were there after \(work.rawValue): \(result)")
        }
        print((stopwatch.median ?? 0) / 1_000, try OwnProcess.peakKilobytes())
    }
}

/// The synchronized model: books of four attributes and an author, one for a hundred books.
enum Library {
    static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "author")
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("pages", .integer64)
            Attribute("price", .double)
            Attribute("published", .date)
            ToOne("author", "Author", inverse: "books")
        }
    }

    static let booksOfAuthor = 100

    /// Sets the values of a new book.
    static func fill(_ book: ManagedObject, _ number: Int) {
        book["title"] = NoteValues.title(number)
        book["pages"] = Int64(100 + number &* 37 % 900)
        book["price"] = Double(number % 200) * 0.25
        book["published"] = Date(
            timeIntervalSinceReferenceDate: NoteValues.created(number &* 611_953 % 1_000_000))
    }

    /// Makes a store with a number of objects, authors among them.
    static func make(at path: String, count: Int) throws {
        let coordinator = PersistentStoreCoordinator(
            store: try SQLiteStore.create(at: path, model: model))
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var author: ManagedObject?
            for number in 0..<count {
                if number % (booksOfAuthor + 1) == 0 {
                    author = try context.insertObject(entityName: "Author")
                    author?["name"] = "Author \(number / (booksOfAuthor + 1))"
                } else {
                    let book = try context.insertObject(entityName: "Book")
                    fill(book, number)
                    book["author"] = author
                }
            }
            try context.save()
        }
        try coordinator.close()
    }

    /// The number of objects of a store.
    static func count(in coordinator: PersistentStoreCoordinator) throws -> Int {
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            try ["Author", "Book"].reduce(0) { try $0 + context.count(for: FetchRequest($1)) }
        }
    }
}
