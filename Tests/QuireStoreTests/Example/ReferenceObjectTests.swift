import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// A catalogue whose objects have names instead of numbers: countries by their codes, cities by texts of their own.
private final class CatalogStore: IncrementalStore, @unchecked Sendable {
    override class var storeType: StoreType { StoreType(rawValue: "Catalog") }

    private struct Row {
        var version: UInt32 = 1
        var values: [String: AttributeValue] = [:]
        /// The names of to-one destinations.
        var links: [String: String] = [:]
    }

    private let lock = NSLock()
    private var rows: [String: [String: Row]] = [
        "Country": ["DE": Row(values: ["name": "Germany"]), "FR": Row(values: ["name": "France"])],
        "City": ["lyon": Row(values: ["name": "Lyon", "size": 5], links: ["country": "FR"])],
    ]

    /// A store with a path has the same UUID whenever it is opened.
    override func loadMetadata() throws -> StoreMetadata {
        StoreMetadata(
            storeUUID: path ?? UUID().uuidString, type: Self.storeType, model: layout.model)
    }

    func id(_ entity: String, _ name: String) throws -> ManagedObjectID {
        newObjectID(for: try layout.requireEntity(named: entity), referenceObject: name)
    }

    private func name(of id: ManagedObjectID) -> String {
        referenceObject(for: id) as? String ?? ""
    }

    override func execute(_ request: FetchSpecification) throws -> [ManagedObjectID] {
        try lock.withLock { rows[request.entityName] ?? [:] }.keys.sorted()
            .map { try id(request.entityName, $0) }
    }

    override func newValues(forObjectWith id: ManagedObjectID) throws -> IncrementalStoreNode? {
        guard let row = lock.withLock({ rows[id.entityName]?[name(of: id)] }) else { return nil }
        var node = IncrementalStoreNode(objectID: id, version: row.version, values: row.values)
        for (key, name) in row.links {
            node.values[key] = .objectID(try self.id("Country", name))
        }
        return node
    }

    override func newValue(
        forRelationship relationship: ResolvedEntity.Relationship, forObjectWith id: ManagedObjectID
    ) throws -> [ManagedObjectID] {
        try lock.withLock { rows["City"] ?? [:] }
            .filter { $0.value.links["country"] == name(of: id) }
            .keys.sorted().map { try self.id("City", $0) }
    }

    override func obtainPermanentIDs(for entity: ResolvedEntity, count: Int) throws -> [Int64] {
        (0..<count).map { _ in
            primaryKey(of: newObjectID(for: entity, referenceObject: UUID().uuidString))
        }
    }

    override func save(_ save: IncrementalStoreSave) throws {
        lock.withLock {
            for object in save.inserted + save.updated {
                var row = Row(version: object.node.version)
                for (key, value) in object.node.values {
                    if case .objectID(let target) = value {
                        row.links[key] = name(of: target)
                    } else {
                        row.values[key] = value
                    }
                }
                rows[object.entity.name, default: [:]][name(of: object.node.objectID)] = row
            }
            for id in save.deleted { rows[id.entityName]?[name(of: id)] = nil }
        }
    }
}

/// A catalogue that deletes by itself.
private final class DeletingStore: IncrementalStore, @unchecked Sendable {
    override class var storeType: StoreType { StoreType(rawValue: "Deleting") }

    override func loadMetadata() throws -> StoreMetadata {
        StoreMetadata(storeUUID: UUID().uuidString, values: [:])
    }

    override func execute(_ request: FetchSpecification) throws -> [ManagedObjectID] { [] }

    override func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        BatchResult(count: 42)
    }
}

@MainActor @Suite struct ReferenceObjectTests {
    private static let model = ManagedObjectModel {
        Entity("Country") {
            Attribute("name", .string)
            ToMany("cities", "City", inverse: "country").deleteRule(.cascade)
        }
        Entity("City") {
            Attribute("name", .string)
            Attribute("size", .integer64).default(1)
            ToOne("country", "Country", inverse: "cities")
            Unique("name")
        }
        Entity("Capital", inherits: "City") { Attribute("since", .date) }
    }

    private let store: CatalogStore
    private let context: ManagedObjectContext

    init() throws {
        store = try CatalogStore(at: nil, model: Self.model)
        context = .mainQueue(coordinator: PersistentStoreCoordinator(store: store))
    }

    private func cities() throws -> [String] {
        try context.fetch(FetchRequest("City", sortOrderings: [SortOrdering("name")])).compactMap {
            $0["name", as: String.self]
        }
    }

    @Test func aReferenceObjectHasOneIdentifier() throws {
        let city = try Self.model.layout().requireEntity(named: "City")
        let capital = try Self.model.layout().requireEntity(named: "Capital")
        let country = try Self.model.layout().requireEntity(named: "Country")
        func check(_ object: some Hashable & Sendable) {
            let id = store.newObjectID(for: city, referenceObject: object)
            #expect(store.newObjectID(for: city, referenceObject: object) == id)
            #expect(AnyHashable(store.referenceObject(for: id)) == AnyHashable(object))
            // An object of a sub-entity may be known as one of its superentity.
            let other = store.newObjectID(for: capital, referenceObject: object)
            #expect(store.primaryKey(of: other) == store.primaryKey(of: id))
        }
        check("text")
        check("")
        check(UUID())
        check(Data([1, 2]))
        for integer in [1, 7, 0, -1, Int.max, Int.min, 1 << 39, (1 << 39) - 1] { check(integer) }
        check(UInt64.max)
        #expect(
            store.newObjectID(for: city, referenceObject: 7)
                .uriRepresentation.hasSuffix("/City/p7"))
        #expect(
            store.referenceObject(for: store.newObjectID(for: city, referenceObject: Int16(7)))
                as? Int == 7)
        // Each hierarchy has its own.
        let other = store.newObjectID(for: country, referenceObject: "text")
        #expect(
            store.primaryKey(of: other)
                != store.primaryKey(of: store.newObjectID(for: city, referenceObject: "text")))
    }

    @Test func urisAreValidWhenTheStoreIsOpenedAgain() throws {
        let uuid = UUID().uuidString
        let layout = try Self.model.layout()
        let entity = try layout.requireEntity(named: "City")
        struct Name: Hashable, Sendable { var text: String }
        let texts = ["lyon", "", "a/b c?é%2F", "p7", "text:x", "7"]
        let others: [any Hashable & Sendable] = [
            UUID(), Data([0, 255, 62]), -5, 0, 1 << 39, UInt64.max,
        ]
        let all = texts as [any Hashable & Sendable] + others

        func uris(_ store: CatalogStore) -> [String] {
            all.map { store.newObjectID(for: entity, referenceObject: $0).uriRepresentation }
        }
        var stored: [String] = []
        var numbers: [Int64] = []
        var encoded = Data()
        do {
            let store = try CatalogStore(at: uuid, model: Self.model)
            stored = uris(store)
            numbers = all.map {
                store.primaryKey(of: store.newObjectID(for: entity, referenceObject: $0))
            }
            encoded = try JSONEncoder().encode(
                store.newObjectID(for: entity, referenceObject: "lyon"))
            // Opened twice, the same objects have equal identifiers, whichever is asked first.
            let other = try CatalogStore(at: uuid, model: Self.model)
            #expect(
                other.newObjectID(for: entity, referenceObject: "new")
                    == store.newObjectID(for: entity, referenceObject: "new"))
            let number = store.newObjectID(for: entity, referenceObject: Name(text: "x"))
            #expect(number.shortDescription == "City/p\(store.primaryKey(of: number))")
        }
        #expect(stored[0] == "x-coredata://\(uuid)/City/text:lyon")
        #expect(Set(stored).count == all.count)

        // As in another process: numbers are given anew, in another order.
        let store = try CatalogStore(at: uuid, model: Self.model)
        let coordinator = PersistentStoreCoordinator(store: store)
        _ = store.newObjectID(for: entity, referenceObject: "first")
        for (object, uri) in zip(all, stored).reversed() {
            let id = try coordinator.objectID(for: uri)
            #expect(AnyHashable(store.referenceObject(for: id)) == AnyHashable(object), "\(uri)")
            #expect(id.uriRepresentation == uri)
        }
        #expect(
            numbers
                != all.map {
                    store.primaryKey(of: store.newObjectID(for: entity, referenceObject: $0))
                })
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let decoder = JSONDecoder()
        decoder.userInfo[.persistentStoreCoordinator] = coordinator
        let id = try decoder.decode(ManagedObjectID.self, from: encoded)
        #expect(try context.existingObject(with: id)["name"] as? String == "Lyon")
        #expect(
            try context.fetch(
                FetchRequest(
                    "City", predicate: try QueryPredicate(format: "SELF == %@", stored[0]))
            ).map(\.objectID) == [id])
    }

    @Test(arguments: [
        "City/text:%zz", "City/uuid:x", "City/data:~", "City/integer:1e5", "City/colour:red",
        "City/text", "City/text:a/b", "City/p549755813888",
    ])
    func textsThatNameNoReferenceObjectAreRefused(text: String) throws {
        // The first number that stands for a text; it may stand for another one elsewhere.
        _ = try store.id("City", "lyon")
        let error = #expect(throws: QuireError.self) {
            try context.persistentStoreCoordinator.objectID(for: text)
        }
        #expect(error?.code == .invalidValue)
    }

    @Test func otherStoresHaveNoReferenceObjects() throws {
        let coordinator = PersistentStoreCoordinator(store: try InMemoryStore(model: Self.model))
        let error = #expect(throws: QuireError.self) {
            try coordinator.objectID(for: "City/text:lyon")
        }
        #expect(error?.code == .invalidValue)
    }

    @Test func objectsAreReadAndSavedByTheirReferences() throws {
        let lyon = try #require(
            try context.fetch(
                FetchRequest(
                    "City", predicate: try QueryPredicate(format: "country.name == 'France'"))
            ).first)
        #expect(store.referenceObject(for: lyon.objectID) as? String == "lyon")
        let germany = try context.existingObject(with: store.id("Country", "DE"))
        let berlin = try context.insertObject(entityName: "City")
        berlin["name"] = "Berlin"
        berlin["country"] = germany
        try context.save()
        #expect(store.referenceObject(for: berlin.objectID) is String)
        context.reset()
        #expect(try cities() == ["Berlin", "Lyon"])
        let same = try context.existingObject(with: store.id("Country", "DE"))
        #expect(same.objects("cities").map { $0["name", as: String.self] } == ["Berlin"])
    }

    @Test func batchRequestsAreSaves() throws {
        let rows: [[String: Any]] = [
            ["name": "Paris", "country": try store.id("Country", "FR")],
            ["name": "Lyon", "size": 6],
        ]
        var insert = BatchInsertRequest(entityName: "City", objects: rows)
        insert.resultType = .objectIDs
        let result = try context.execute(insert)
        #expect(result.count == 2)
        #expect(result.changes.updated == [try store.id("City", "lyon")])
        var update = BatchUpdateRequest(entityName: "City")
        update.predicate = try QueryPredicate(format: "size > 1")
        update.propertiesToUpdate = ["size": try QueryExpression(format: "size * 2")]
        #expect(try context.execute(update).count == 1)
        let lyon = try context.existingObject(with: store.id("City", "lyon"))
        #expect(lyon["size"] as? Int == 12)
        let france = FetchSpecification(
            "Country", predicate: try QueryPredicate(format: "name == 'France'"))
        #expect(try context.execute(BatchDeleteRequest(fetchRequest: france)).count == 3)
        #expect(try cities() == [])
    }

    @Test func batchRequestsMayBeTheStoresOwn() throws {
        let store = try DeletingStore(at: nil, model: Self.model)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        #expect(
            try context.execute(
                BatchDeleteRequest(fetchRequest: FetchSpecification("City"))
            ).count == 42)
        let error = #expect(throws: QuireError.self) {
            try context.execute(BatchInsertRequest(entityName: "City", objects: [["name": "x"]]))
        }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("does not accept new objects") == true)
    }

    @Test func anotherModelIsRefused() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("shelf")
        try JSONFolderStore(at: path, model: Self.model).close()
        try JSONFolderStore(at: path, model: Self.model).close()
        var changed = Self.model
        changed.entities[0].properties.append(
            .attribute(AttributeDescription(name: "more", type: .string)))
        let error = #expect(throws: QuireError.self) {
            try JSONFolderStore(at: path, model: changed)
        }
        #expect(error?.code == .incompatibleModel)
        #expect(error?.message.contains("changed entities: Country)") == true)
        #expect(error?.subject.entity == "Country")
    }
}
