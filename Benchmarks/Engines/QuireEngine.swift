import Foundation
import Quire
import QuireSQLite

/// Quire: objects by entity and slot, in a private-queue context over a SQLite store.
///
/// Every measured task has a context of its own, so none finds objects that an earlier one has read.
final class QuireEngine: Engine {
    static let kind = EngineKind.quire

    let coordinator: PersistentStoreCoordinator
    private let slots: NoteSlots

    private init(store: SQLiteStore) throws {
        coordinator = PersistentStoreCoordinator(store: store)
        slots = try NoteSlots(coordinator.layout)
    }

    static func create(at path: String) throws -> QuireEngine {
        try create(at: path, options: SQLiteStoreOptions())
    }

    static func create(at path: String, options: SQLiteStoreOptions) throws -> QuireEngine {
        try QuireEngine(
            store: SQLiteStore.create(at: path, model: NoteModel.model, options: options))
    }

    /// Opens a document without being told its model, as documents are.
    static func open(at path: String) throws -> QuireEngine {
        try QuireEngine(store: SQLiteStore.open(at: path))
    }

    func close() throws { try coordinator.close() }

    func insert(_ dataset: Dataset, withTags: Bool, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        let slots = slots
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            let folders = try (0..<dataset.folderCount).map {
                let folder = try context.insertObject(entityName: "Folder")
                folder["name"] = Dataset.folderName($0)
                return folder
            }
            let tags = try (0..<(withTags ? Dataset.tagCount : 0)).map {
                let tag = try context.insertObject(entityName: "Tag")
                tag["name"] = Dataset.tagName($0)
                return tag
            }
            for number in 0..<dataset.count {
                let values = dataset[number]
                let note = try context.insertObject(slots.entity)
                try slots.set(values, of: note)
                try note.setObject(folders[values.folder], through: slots.folder)
                if withTags {
                    try note.add(tags[values.tags.0], through: slots.tags)
                    try note.add(tags[values.tags.1], through: slots.tags)
                }
            }
            try context.save()
        }
        stopwatch.stop()
    }

    func insertAsBatch(_ dataset: Dataset, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        var number = 0
        let request = BatchInsertRequest(entityName: "Note") { row in
            if number == dataset.count { return true }
            let values = dataset[number]
            number += 1
            row["title"] = .string(values.title)
            row["body"] = .string(values.body)
            row["created"] = .date(Date(timeIntervalSinceReferenceDate: values.created))
            row["rating"] = .integer(values.rating)
            row["flag"] = .boolean(values.flag)
            row["price"] = .double(values.price)
            row["uuid"] = .uuid(values.uuid)
            return false
        }
        try execute { try $0.execute(request) }
        stopwatch.stop()
    }

    func changeAsBatch(before: Double, price: Double, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        let request = BatchUpdateRequest(
            entityName: "Note", predicate: Self.predicate(before: before),
            propertiesToUpdate: [
                "flag": .constant(.boolean(true)), "price": .constant(.double(price)),
            ])
        try execute { try $0.execute(request) }
        stopwatch.stop()
    }

    func deleteAsBatch(before: Double, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        let request = try BatchDeleteRequest(
            fetchRequest: FetchRequest("Note", predicate: Self.predicate(before: before)))
        try execute { try $0.execute(request) }
        stopwatch.stop()
    }

    private static func predicate(before: Double) -> QueryPredicate {
        .comparison(
            QueryComparison(
                .key("created"), .less,
                .constant(.date(Date(timeIntervalSinceReferenceDate: before)))))
    }

    private func execute(_ body: (ManagedObjectContext) throws -> BatchResult) throws {
        _ = try QueueConfinedContext(coordinator: coordinator).performAndWait { try body($0) }
    }

    func insertInParts(_ dataset: Dataset, of size: Int) throws {
        let slots = slots
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            for number in 0..<dataset.count {
                try slots.set(dataset[number], of: context.insertObject(slots.entity))
                if (number + 1) % size == 0 || number + 1 == dataset.count {
                    try context.save()
                    context.reset()
                }
            }
        }
    }

    func readEverything(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        return try read(FetchRequest("Note"), ordered: false)
    }

    func readRatings(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let rating = slots.rating
        return try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var sum = Checksum()
            for note in try context.fetch(FetchRequest("Note")) {
                sum.count += 1
                sum.ratings &+= note.integer(at: rating) ?? 0
            }
            return sum
        }
    }

    func summarizeFolders(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        return try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var request = FetchRequest("Note")
            request.propertiesToGroupBy = ["folder"]
            request.propertiesToFetch = [
                "folder", ExpressionDescription("notes", .function(.count, [.evaluatedObject])),
                ExpressionDescription("ratings", .function(.sum, [.key("rating")])),
                ExpressionDescription(
                    "price", .function(.average, [.key("price")]), resultType: .double),
            ]
            var sum = Checksum()
            for row in try context.fetchDictionaries(request) {
                sum.related += 1
                if case .integer(let count) = row["notes"] { sum.count += Int(count) }
                if case .integer(let ratings) = row["ratings"] { sum.ratings &+= ratings }
                if case .double(let price) = row["price"] { sum.prices += price.rounded() }
            }
            return sum
        }
    }

    func find(titles: [String], _ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let slots = slots
        return try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var sum = Checksum()
            for title in titles {
                for note in try context.fetch(Self.request(title: title)) {
                    slots.add(note, to: &sum)
                }
            }
            return sum
        }
    }

    func readFirst(_ count: Int, _ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        var request = FetchRequest("Note", sortOrderings: [SortOrdering("created")])
        request.fetchLimit = count
        return try read(request, ordered: true)
    }

    func change(every step: Int, _ stopwatch: Stopwatch) throws {
        let slots = slots
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            let all = try context.fetch(FetchRequest("Note"))
            let notes = stride(from: 0, to: all.count, by: step).map { all[$0] }
            stopwatch.start()
            for note in notes {
                let rating = note.integer(at: slots.rating) ?? 0
                let flag = note.boolean(at: slots.flag) ?? false
                try note.setValue(.integer(rating + 1), at: slots.rating)
                try note.setValue(.boolean(!flag), at: slots.flag)
            }
            try context.save()
            stopwatch.stop()
        }
    }

    func changeOneByOne(titles: [String], _ stopwatch: Stopwatch) throws {
        let rating = slots.rating
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            for title in titles {
                guard let note = try context.fetch(Self.request(title: title)).first else {
                    throw BenchmarkFailure("There is no note “\(title)”.")
                }
                stopwatch.start()
                try note.setValue(.integer((note.integer(at: rating) ?? 0) + 1), at: rating)
                try context.save()
                stopwatch.stop()
            }
        }
    }

    func readWithFolders(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let slots = slots
        return try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var sum = Checksum()
            var request = FetchRequest("Note")
            request.relationshipKeyPathsForPrefetching = ["folder"]
            for note in try context.fetch(request) {
                slots.add(note, to: &sum)
                if let folder = note.object("folder") {
                    sum.addRelated(nameBytes: folder.string(at: slots.folderName)?.utf8.count ?? 0)
                }
            }
            return sum
        }
    }

    func readFolderByFolder(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let slots = slots
        return try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var sum = Checksum()
            for folder in try context.fetch(FetchRequest("Folder")) {
                for note in folder.objects("notes") { slots.add(note, to: &sum) }
            }
            return sum
        }
    }

    func readTags(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let slots = slots
        return try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var sum = Checksum()
            var request = FetchRequest("Note")
            request.relationshipKeyPathsForPrefetching = ["tags"]
            for note in try context.fetch(request) {
                sum.count += 1
                for tag in note.objects("tags") {
                    sum.addRelated(nameBytes: tag.string(at: slots.tagName)?.utf8.count ?? 0)
                }
            }
            return sum
        }
    }

    func delete(every step: Int, _ stopwatch: Stopwatch) throws {
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            let all = try context.fetch(FetchRequest("Note"))
            let notes = stride(from: 0, to: all.count, by: step).map { all[$0] }
            stopwatch.start()
            for note in notes { context.delete(note) }
            try context.save()
            stopwatch.stop()
        }
    }

    static func request(title: String) -> FetchRequest<ManagedObject> {
        FetchRequest(
            "Note",
            predicate: .comparison(
                QueryComparison(.key("title"), .equal, .constant(.string(title)))))
    }

    private func read(_ request: FetchRequest<ManagedObject>, ordered: Bool) throws -> Checksum {
        let slots = slots
        return try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var sum = Checksum()
            for note in try context.fetch(request) { slots.add(note, to: &sum, ordered: ordered) }
            return sum
        }
    }
}

/// The places of a note's values, looked up once.
struct NoteSlots {
    let entity: ResolvedEntity
    let title: Int
    let body: Int
    let created: Int
    let rating: Int
    let flag: Int
    let price: Int
    let uuid: Int
    let folder: ResolvedEntity.Relationship
    let tags: ResolvedEntity.Relationship
    let folderName: Int
    let tagName: Int

    init(_ layout: ResolvedModel) throws {
        let note = try layout.requireEntity(named: "Note")
        func slot(_ name: String) throws -> Int {
            guard let slot = note.slot(named: name) else {
                throw BenchmarkFailure("Note has no attribute “\(name)”.")
            }
            return slot
        }
        func relationship(_ name: String) throws -> ResolvedEntity.Relationship {
            guard let relationship = note.relationship(named: name) else {
                throw BenchmarkFailure("Note has no relationship “\(name)”.")
            }
            return relationship
        }
        entity = note
        title = try slot("title")
        body = try slot("body")
        created = try slot("created")
        rating = try slot("rating")
        flag = try slot("flag")
        price = try slot("price")
        uuid = try slot("uuid")
        folder = try relationship("folder")
        tags = try relationship("tags")
        guard let folderName = try layout.requireEntity(named: "Folder").slot(named: "name"),
            let tagName = try layout.requireEntity(named: "Tag").slot(named: "name")
        else { throw BenchmarkFailure("Folder and Tag have no names.") }
        self.folderName = folderName
        self.tagName = tagName
    }

    func set(_ values: NoteValues, of note: ManagedObject) throws {
        try note.setValue(.string(values.title), at: title)
        try note.setValue(.string(values.body), at: body)
        try note.setValue(
            .date(Date(timeIntervalSinceReferenceDate: values.created)), at: created)
        try note.setValue(.integer(values.rating), at: rating)
        try note.setValue(.boolean(values.flag), at: flag)
        try note.setValue(.double(values.price), at: price)
        try note.setValue(.uuid(values.uuid), at: uuid)
    }

    @inline(__always)
    func add(_ note: ManagedObject, to sum: inout Checksum, ordered: Bool = false) {
        sum.add(
            titleBytes: note.string(at: title)?.utf8.count ?? 0,
            bodyBytes: note.string(at: body)?.utf8.count ?? 0,
            created: note.date(at: created)?.timeIntervalSinceReferenceDate ?? 0,
            rating: note.integer(at: rating) ?? 0, flag: note.boolean(at: flag) ?? false,
            price: note.double(at: price) ?? 0, uuid: note.uuid(at: uuid)?.folded ?? 0,
            ordered: ordered)
    }
}

/// The model of the documents that Quire makes: the same notes, folders and tags, with the same indexes.
enum NoteModel {
    static let model: ManagedObjectModel = {
        var note = EntityDescription(name: "Note")
        note.properties = [
            attribute("title", .string), attribute("body", .string), attribute("created", .date),
            attribute("rating", .integer64), attribute("flag", .boolean),
            attribute("price", .double), attribute("uuid", .uuid),
            .relationship(
                RelationshipDescription(name: "folder", destination: "Folder", inverse: "notes")),
            toMany("tags", "Tag", inverse: "notes"),
        ]
        note.indexes = ["title", "created"].map {
            FetchIndexDescription(name: "by\($0)", elements: [.init(propertyName: $0)])
        }
        var folder = EntityDescription(name: "Folder")
        folder.properties = [
            attribute("name", .string), toMany("notes", "Note", inverse: "folder"),
        ]
        var tag = EntityDescription(name: "Tag")
        tag.properties = [attribute("name", .string), toMany("notes", "Note", inverse: "tags")]
        return ManagedObjectModel(entities: [note, folder, tag])
    }()

    private static func attribute(_ name: String, _ type: AttributeType) -> PropertyDescription {
        .attribute(AttributeDescription(name: name, type: type))
    }

    private static func toMany(
        _ name: String, _ destination: String, inverse: String
    ) -> PropertyDescription {
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        relationship.isToMany = true
        relationship.maximumCount = 0
        return .relationship(relationship)
    }
}
