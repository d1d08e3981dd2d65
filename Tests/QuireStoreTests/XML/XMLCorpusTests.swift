import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Real XML stores: read, edited, saved and read again.
@Suite(.corpus) struct XMLCorpusTests {
    static let files = Corpus.files { $0.hasSuffix(".paw") || $0.hasSuffix("/xcmapping.xml") }
        .filter { (try? Data(contentsOf: $0).prefix(8)) != Data("CoreData".utf8) }

    @Test func thereAreStores() {
        #expect(Self.files.count >= 11)
    }

    @Test(arguments: files) func comesBackAsItWas(file: URL) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store.xml")
        try FileManager.default.copyItem(atPath: file.path, toPath: path)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        let model = try XMLStore.inferredModel(at: path)
        let before = try dump(path)
        let store = try XMLStore.open(at: path, model: model)
        #expect(
            try store.metadata().entityVersionHashes
                == XMLStore.metadata(at: path).entityVersionHashes)
        try store.setMetadata("yes", forKey: "seen")
        #expect(try dump(path) == before)
        // An edit, and another that takes it back.
        let entity = try #require(store.layout.entities.first { !$0.isAbstract })
        let id = try store.reserveObjectIDs(for: entity, count: 1, durably: true)[0]
        var changes = ChangeSet()
        changes.inserted = [
            ObjectChange(
                objectID: id, entity: entity, version: 0, values: entity.defaultValues,
                changedSlots: SlotMask(first: entity.slots.count))
        ]
        try store.save(changes)
        #expect(try dump(path) != before)
        try store.close()
        let again = try XMLStore.open(at: path, model: model)
        #expect(try again.row(for: id) != nil)
        changes = ChangeSet()
        changes.deleted = [ObjectDeletion(objectID: id, version: 1)]
        try again.save(changes)
        #expect(try dump(path) == before)
        #expect(try again.metadata()["seen"] == "yes")
        #expect(try XMLStore.carriedModel(at: path) == nil)
    }

    /// The objects as the file has them; what is in no order sorted.
    private func dump(_ path: String) throws -> [String] {
        let reader = try XMLStoreReader(
            try Data(contentsOf: URL(fileURLWithPath: path)), path: path)
        _ = try reader.head()
        var lines: [String] = []
        try reader.forEachObject { object in
            var parts = object.attributes.map { name, type, text in
                "\(name):\(type)=\(text.filter { !$0.isNewline })"
            }
            for relation in object.relationships where !relation.keys.isEmpty {
                parts.append("\(relation.name)=\(relation.keys)")
            }
            lines.append("z\(object.key) \(object.type) \(parts.sorted().joined(separator: " "))")
        }
        return lines
    }
}
