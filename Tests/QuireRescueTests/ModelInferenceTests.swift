import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireRescue

@Suite struct ModelInferenceTests {
    private func openInferred(_ path: String) throws -> SQLiteStore {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        options.infersModel = true
        return try SQLiteStore.open(at: path, options: options)
    }

    @Test @MainActor func tablesTellEntitiesAndRelationships() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 100)
        try Damage.dropModels(path)
        let model = try SQLiteStore.inferredModel(at: path)
        let layout = try model.layout()
        #expect(
            layout.entities.map(\.name) == (try FixtureModels.library.layout()).entities.map(\.name)
        )
        let book = try #require(layout.entity(named: "Book"))
        #expect(book.relationship(named: "author")?.description.destinationEntityName == "Author")
        #expect(book.relationship(named: "tags")?.description.inverseName == "books")
        #expect(book.relationship(named: "sequels")?.description.inverseName == "prequels")
        #expect(book.description.attributes.first { $0.name == "title" }?.type == .string)
        #expect(book.description.attributes.first { $0.name == "price" }?.type == .decimal)
        let shelf = try #require(layout.entity(named: "Shelf"))
        #expect(shelf.relationship(named: "book_shelf")?.isOrdered == true)
        let person = try #require(layout.entity(named: "Person"))
        #expect(
            person.relationship(named: "manager")?.description.destinationEntityName == "Manager")
        #expect(layout.entity(named: "Manager")?.superentityNumber != nil)
        #expect(layout.entity(named: "Playlist")?.relationship(named: "songs")?.isOrdered == true)
        let cover = try #require(layout.entity(named: "Cover"))
        #expect(cover.slots.first { $0.name == "image" }?.isExternalCapable == true)
    }

    @Test func modelIsInferredForReadingOnly() throws {
        let stack = try TestStack()
        try stack.coordinator.close()
        try Damage.dropModels(stack.path)
        var options = SQLiteStoreOptions()
        options.infersModel = true
        #expect(throws: QuireError.self) {
            try SQLiteStore.open(at: stack.path, options: options)
        }
        options.isReadOnly = true
        let store = try SQLiteStore.open(at: stack.path, options: options)
        #expect(store.hasInferredModel)
        try store.close()
    }

    @Test func reservedNamesStayInCapitals() throws {
        let model = ManagedObjectModel(entities: [
            FixtureModels.entity("Item", FixtureModels.attribute("kind", .string))
        ])
        let stack = try TestStack(model)
        try stack.coordinator.close()
        try Damage.dropModels(stack.path)
        try Damage.query(stack.path, "ALTER TABLE ZITEM ADD COLUMN ZDESCRIPTION VARCHAR")
        try Damage.query(
            stack.path, "INSERT INTO ZITEM (Z_PK, Z_ENT, Z_OPT, ZDESCRIPTION) VALUES (1, 1, 1, 'x')"
        )
        let store = try openInferred(stack.path)
        defer { try? store.close() }
        let entity = try #require(store.layout.entity(named: "Item"))
        let slot = try #require(entity.slots.first { $0.name == "DESCRIPTION" })
        let rows = try store.rows(matching: FetchSpecification("Item"))
        #expect(try rows[0].value(at: slot.index) == "x")
    }

    @Test(.corpus) func damageTakesEveryStoreOfTheCorpus() {
        #expect(Damage.corpus.count >= 32)
        #expect(Damage.corpus.count { $0.modelURL != nil } >= 25)
    }

    /// The same values as with the model, where that is known; and all rows where it is not.
    @Test(.corpus, arguments: Damage.corpus)
    func corpusStoresReadWithoutTheirModels(file: Damage.CorpusFile) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.copy(file.url, to: path)
        try Damage.settle(path)
        try Damage.dropModels(path)
        let inferred = try openInferred(path)
        defer { try? inferred.close() }
        var count = 0
        for entity in inferred.layout.entities {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            for row in try inferred.rows(matching: request.specification) {
                for slot in entity.slots { _ = try row.value(at: slot.index) }
                count += 1
            }
        }
        // In some stores of the corpus there are rows of other entities, which are nobody's.
        let rows = try inferred.schema.tables.reduce(0) { sum, table in
            let root = inferred.schema.entity(number: table.rootNumber)
            let numbers = StorageClassCheck.list(root.subtreeStoreNumbers)
            return try sum
                + (Int(
                    Damage.query(
                        path, "SELECT count(*) FROM \(table.name) WHERE Z_ENT IN \(numbers)")[0][0])
                    ?? 0)
        }
        #expect(count == rows)
        // Comparing the largest value by value takes its time.
        let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
        guard let modelURL = file.modelURL, isTorture || rows < 2000 else { return }
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let known = try SQLiteStore.open(
            at: path, model: ManagedObjectModel(contentsOf: modelURL.path), options: options)
        defer { try? known.close() }
        #expect(known.layout.entities.count == inferred.layout.entities.count)
        for entity in known.layout.entities {
            try compare(entity, known, inferred)
        }
    }

    private func compare(
        _ entity: ResolvedEntity, _ known: SQLiteStore, _ inferred: SQLiteStore
    ) throws {
        // A renamed entity may have its old name in the books.
        let other = inferred.layout.entity(number: entity.number)
        var request = FetchRequest(entity.name)
        request.includesSubentities = false
        let rows = try known.rows(matching: request.specification)
        request.entityName = other.name
        let others = try inferred.rows(matching: request.specification)
        #expect(rows.map(\.objectID.primaryKey) == others.map(\.objectID.primaryKey))
        let columns = inferred.schema.entity(other).columns
        var differences: [String] = []
        for slot in entity.slots {
            guard let column = known.schema.entity(entity).columns[slot.index] else { continue }
            let position = columns.firstIndex { $0?.name == column.name }
            for (row, second) in zip(rows, others) {
                let value = try row.value(at: slot.index)
                let found = try position.map { try second.value(at: $0) } ?? .null
                if plain(value) != plain(found) {
                    differences.append(
                        "\(row.objectID.shortDescription).\(slot.name): \(value) \(found)")
                }
            }
        }
        #expect(differences.isEmpty, "\(differences.prefix(3))")
    }

    /// A value without what only a model can tell.
    private func plain(_ value: AttributeValue) -> AttributeValue {
        switch value {
        case .boolean(let truth): .integer(truth ? 1 : 0)
        case .objectID(let id): .integer(id.primaryKey)
        case .uri(let url): .string(url.absoluteString)
        case .uuid(let uuid): .binary(withUnsafeBytes(of: uuid.uuid) { Data($0) })
        default: value
        }
    }
}
