import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireAtomicStores

/// The binary format, with the real file there is.
@Suite struct BinaryStoreTests {
    static let files = Corpus.files { $0.hasSuffix(".paw") }
        .filter { (try? Data(contentsOf: $0).prefix(8)) == Data("CoreData".utf8) }

    @Test(.corpus, arguments: files) func realStoresComeBackAsTheyWere(file: URL) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store")
        try FileManager.default.copyItem(atPath: file.path, toPath: path)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        let model = try BinaryStore.inferredModel(at: path)
        let before = try dump(path)
        #expect(!before.isEmpty)
        let store = try BinaryStore.open(at: path, model: model)
        try store.setMetadata("yes", forKey: "seen")
        #expect(try dump(path) == before)
        let entity = try #require(store.layout.entities.first { !$0.isAbstract })
        let id = try store.reserveObjectIDs(for: entity, count: 1, durably: true)[0]
        var changes = ChangeSet()
        changes.inserted = [
            ObjectChange(
                objectID: id, entity: entity, version: 0, values: entity.defaultValues,
                changedSlots: SlotMask(first: entity.slots.count))
        ]
        try store.save(changes)
        try store.close()
        let again = try BinaryStore.open(at: path, model: model)
        #expect(try again.row(for: id) != nil)
        changes = ChangeSet()
        changes.deleted = [ObjectDeletion(objectID: id, version: 1)]
        try again.save(changes)
        #expect(try dump(path) == before)
        let metadata = try BinaryStore.metadata(at: path)
        #expect(metadata["seen"] == "yes")
        #expect(metadata.storeType == .binary)
        #expect(!metadata.entityVersionHashes.isEmpty)
    }

    /// The places of values, settled with the model that the program's XML stores tell of.
    @Test(.corpus) func valuesHaveTheirPlaces() throws {
        let file = try #require(Self.files.first)
        let reader = try BinaryStoreReader(Data(contentsOf: file), path: file.path)
        var domain: BinaryStoreReader.Node?
        try reader.forEachNode { if $0.entity == "LMEnvironmentDomain" { domain = $0 } }
        let model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "LMEnvironmentDomain", FixtureModels.attribute("uuid", .string),
                FixtureModels.attribute("name", .string),
                FixtureModels.attribute("order", .integer64),
                FixtureModels.toMany("environments", "LMEnvironmentDomain", nil),
                FixtureModels.toMany("variables", "LMEnvironmentDomain", nil))
        ])
        let plan = BinaryStorePlan(try model.layout().entities[0])
        #expect(plan.places.map { $0?.name } == ["name", "order", "uuid", nil, nil])
        let values = try #require(domain).values
        #expect(values.count == 5)
        #expect(values[0] == .string("Default Group"))
        #expect(values[1] == .integer(0))
        #expect(values[2] == .string("0fd2201d-1571-4f5b-b46e-f223a39c6a51"))
    }

    private func dump(_ path: String) throws -> [String] {
        var lines: [String] = []
        try BinaryStoreReader(Data(contentsOf: URL(fileURLWithPath: path)), path: path).forEachNode
        {
            node in
            let related = node.related.map { "\($0.name)=\($0.keys)" }.sorted()
            lines.append("\(node.key) \(node.entity) \(node.values) \(related)")
        }
        return lines.sorted()
    }
}
