import Foundation
import Quire
import QuireDocuments
import QuireSQLite

/// What a document of the crash test contains, as plain values: what is on disk is compared with this.
struct CrashContent: Equatable, Sendable {
    /// A note, by its number.
    struct Note: Equatable, Sendable {
        var title: String
        /// Determines the bytes of the payload, some of which are large enough for a file of their own.
        var payload: Payload
        var topic: Int?
    }

    /// Bytes that a seed determines.
    struct Payload: Equatable, Sendable {
        var seed: UInt64
        var size: Int

        /// The bytes: the seed, repeated.
        var data: Data {
            var data = Data(capacity: size + 8)
            withUnsafeBytes(of: seed.littleEndian) { bytes in
                while data.count < size { data.append(contentsOf: bytes) }
            }
            return data.prefix(size)
        }

        /// The payload that some bytes are, if they are one.
        init?(_ data: Data) {
            guard data.count >= 8 else { return nil }
            seed = data.withUnsafeBytes {
                UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self))
            }
            size = data.count
            guard self.data == data else { return nil }
        }

        init(seed: UInt64, size: Int) {
            self.seed = seed
            self.size = size
        }
    }

    /// The number of saves that led here, an import counting for ``importWeight`` of them.
    var saves: Int { edits + imports * Self.importWeight }
    /// The number of saves that were no imports. An object in the document has it too.
    private var edits = 0
    /// The number of imports. What they have made, other saves leave alone.
    private var imports = 0
    private(set) var notes: [Int: Note] = [:]
    private(set) var files: [String: Payload] = [:]
    private var nextNote = 1

    private enum Change {
        case setNote(Int, Note)
        case removeNote(Int)
        case writeFile(String, Payload)
        case removeFile(String)
    }

    /// The content before the first save.
    init() {}

    /// More than the saves of any test.
    static let importWeight = 1000
    /// Imported notes have numbers from this on.
    private static let firstImported = 1_000_000

    /// The model of the document.
    static let model = ManagedObjectModel {
        Entity("Counter") { Attribute("saves", .integer64).required() }
        Entity("Topic") {
            Attribute("number", .integer64).required()
            ToMany("notes", "Note", inverse: "topic")
        }
        Entity("Note") {
            Attribute("number", .integer64).required()
            Attribute("title", .string).required()
            Attribute("payload", .binary).required().externalStorage()
            ToOne("topic", "Topic", inverse: "notes")
        }
    }

    /// The model's next version, which holds the same.
    static let nextModel = ManagedObjectModel {
        Entity("Counter") {
            Attribute("saves", .integer64).required()
            Attribute("remark", .string)
        }
        Entity("Topic") {
            Attribute("number", .integer64).required()
            Attribute("rank", .integer32).required().default(5)
            ToMany("notes", "Note", inverse: "topic")
        }
        Entity("Note") {
            Attribute("number", .integer64).required()
            Attribute("title", .string)
            Attribute("payload", .binary).required().externalStorage()
            ToOne("topic", "Topic", inverse: "notes")
        }
    }

    /// The content after a number of saves.
    init(saves: Int, seed: UInt64) {
        while edits < saves % Self.importWeight { advance(seed: seed) }
        while imports < saves / Self.importWeight { addImport(seed: seed) }
    }

    // MARK: - Making

    /// The changes of the next save.
    private func nextChanges(seed: UInt64) -> [Change] {
        var random = Generator(state: seed &+ UInt64(edits + 1) &* 0x9E37_79B9_7F4A_7C15)
        func payload(_ random: inout Generator) -> Payload {
            let isLarge = Int.random(in: 0..<3, using: &random) == 0
            return Payload(
                seed: random.next(),
                size: .random(in: isLarge ? 110_000...200_000 : 8...4000, using: &random))
        }
        var changes: [Change] = []
        var numbers = notes.keys.filter { $0 < Self.firstImported }.sorted()
        var next = nextNote
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            switch Int.random(in: 0..<4, using: &random) {
            case 0 where numbers.count > 3:
                let index = Int.random(in: numbers.indices, using: &random)
                changes.append(.removeNote(numbers.remove(at: index)))
            case 1 where !numbers.isEmpty:
                let number = numbers[Int.random(in: numbers.indices, using: &random)]
                changes.append(
                    .setNote(
                        number,
                        Note(
                            title: "changed \(edits + 1)", payload: payload(&random),
                            topic: Int.random(in: 0..<4, using: &random))))
            default:
                changes.append(
                    .setNote(
                        next,
                        Note(
                            title: "note \(next) — é", payload: payload(&random),
                            topic: Bool.random(using: &random) ? 1 : nil)))
                numbers.append(next)
                next += 1
            }
        }
        if Bool.random(using: &random) {
            changes.append(.writeFile("saves/count", Payload(seed: UInt64(edits + 1), size: 8)))
            var paths = Set(files.keys)
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                let path = "folder \(Int.random(in: 0..<3, using: &random))/file"
                if Bool.random(using: &random), paths.remove(path) != nil {
                    changes.append(.removeFile(path))
                } else {
                    changes.append(.writeFile(path, payload(&random)))
                    paths.insert(path)
                }
            }
        }
        return changes
    }

    private mutating func apply(_ changes: [Change]) {
        edits += 1
        for change in changes {
            switch change {
            case .setNote(let number, let note):
                notes[number] = note
                nextNote = max(nextNote, number + 1)
            case .removeNote(let number): notes[number] = nil
            case .writeFile(let path, let payload): files[path] = payload
            case .removeFile(let path): files[path] = nil
            }
        }
    }

    /// Advances by a save.
    mutating func advance(seed: UInt64) { apply(nextChanges(seed: seed)) }

    /// Advances by a save, and changes a document accordingly. It is not saved.
    @MainActor
    mutating func advance(seed: UInt64, in document: ManagedDocument) throws {
        let changes = nextChanges(seed: seed)
        let context = document.managedObjectContext
        var notes = try Self.objects("Note", "number", in: context)
        var topics = try Self.objects("Topic", "number", in: context)
        for change in changes {
            switch change {
            case .setNote(let number, let note):
                let object = try notes[number] ?? context.insertObject(entityName: "Note")
                notes[number] = object
                object["number"] = Int64(number)
                object["title"] = note.title
                object["payload"] = note.payload.data
                if let topic = note.topic, topics[topic] == nil {
                    topics[topic] = try context.insertObject(entityName: "Topic")
                    topics[topic]?["number"] = Int64(topic)
                }
                object["topic"] = note.topic.flatMap { topics[$0] }
            case .removeNote(let number):
                if let object = notes.removeValue(forKey: number) { context.delete(object) }
            case .writeFile(let path, let payload):
                try document.additionalContent.write(payload.data, at: path)
            case .removeFile(let path): try document.additionalContent.remove(at: path)
            }
        }
        let counter =
            try context.fetch(FetchRequest("Counter")).first
            ?? context.insertObject(entityName: "Counter")
        counter["saves"] = Int64(edits + 1)
        apply(changes)
    }

    // MARK: - Importing

    /// The notes that the next import makes, in the portions that it saves.
    private func nextImport(seed: UInt64) -> [[(number: Int, note: Note)]] {
        let first = (imports + 1) * Self.firstImported
        return (0..<4).map { portion in
            (0..<3).map { index in
                let number = first + portion * 3 + index
                let size = index == 0 ? 120_000 + portion : 500
                return (
                    number,
                    Note(
                        title: "imported \(number)",
                        payload: Payload(seed: seed &+ UInt64(number), size: size), topic: first)
                )
            }
        }
    }

    /// Advances by an import.
    mutating func addImport(seed: UInt64) {
        for (number, note) in nextImport(seed: seed).joined() { notes[number] = note }
        imports += 1
    }

    /// Puts the next import into a document's store, in one transaction.
    @MainActor
    func importNext(seed: UInt64, into document: ManagedDocument) throws {
        guard let store = document.persistentStoreCoordinator.store as? SQLiteStore else {
            throw Damage(what: "the store")
        }
        let coordinator = PersistentStoreCoordinator(store: store)
        try store.saveInOneTransaction {
            for portion in nextImport(seed: seed) {
                let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
                var topics = try Self.objects("Topic", "number", in: context)
                for (number, note) in portion {
                    if let topic = note.topic, topics[topic] == nil {
                        topics[topic] = try context.insertObject(entityName: "Topic")
                        topics[topic]?["number"] = Int64(topic)
                    }
                    let object = try context.insertObject(entityName: "Note")
                    object["number"] = Int64(number)
                    object["title"] = note.title
                    object["payload"] = note.payload.data
                    object["topic"] = note.topic.flatMap { topics[$0] }
                }
                try context.save()
            }
        }
    }

    // MARK: - Reading

    /// What a document contains. Its bytes are all read, and must be payloads.
    @MainActor
    init(of document: ManagedDocument) throws {
        let context = document.managedObjectContext
        edits = Int(try context.fetch(FetchRequest("Counter")).first?["saves", as: Int64.self] ?? 0)
        for (number, object) in try Self.objects("Note", "number", in: context) {
            guard case .binary(let data) = try object.attributeValue(forKey: "payload"),
                let payload = Payload(data)
            else { throw Damage(what: "the payload of note \(number)") }
            let topic = object.object("topic")
            notes[number] = Note(
                title: object["title", as: String.self] ?? "", payload: payload,
                topic: topic?["number", as: Int64.self].map { Int($0) })
            guard topic?.objects("notes").contains(object) ?? true else {
                throw Damage(what: "the inverse of the topic of note \(number)")
            }
        }
        imports = Set(notes.values.compactMap(\.topic)).count { $0 >= Self.firstImported }
        for path in document.additionalContent.paths {
            guard let data = try document.additionalContent.data(at: path),
                let payload = Payload(data)
            else { throw Damage(what: "the file \(path)") }
            files[path] = payload
        }
    }

    /// Whether the document's content is the same. How notes will be numbered does not count.
    static func == (left: CrashContent, right: CrashContent) -> Bool {
        left.saves == right.saves && left.notes == right.notes && left.files == right.files
    }

    private struct Damage: Error {
        var what: String
    }

    @MainActor
    private static func objects(
        _ entity: String, _ key: String, in context: ManagedObjectContext
    ) throws -> [Int: ManagedObject] {
        var objects: [Int: ManagedObject] = [:]
        for object in try context.fetch(FetchRequest(entity)) {
            objects[Int(object[key, as: Int64.self] ?? 0)] = object
        }
        return objects
    }

    private struct Generator: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            var value = state
            value ^= value >> 33
            value = value &* 0xFF51_AFD7_ED55_8CCD
            return value ^ value >> 33
        }
    }
}
