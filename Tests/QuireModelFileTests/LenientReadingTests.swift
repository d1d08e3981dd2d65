import Foundation
import QuireRescue
import QuireSystem
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireModelFiles

/// What Apple's tools take is taken here, with a remark on what is odd about it.
@Suite struct LenientReadingTests {
    private func write(_ data: Data, to name: String, in folder: TemporaryFolder) throws -> String {
        let path = folder.path(name)
        try data.write(to: URL(fileURLWithPath: path))
        return path
    }

    private func expect(_ remarks: [String], _ expected: [String]) {
        #expect(remarks.count == expected.count, "\(remarks)")
        for text in expected {
            #expect(remarks.contains { $0.contains(text) }, "“\(text)” is not in \(remarks)")
        }
    }

    @Test(arguments: OddArchive.allCases, [false, true])
    func oddArchivesAreReadAndSurviveWriting(odd: OddArchive, inStore: Bool) throws {
        let folder = try TemporaryFolder()
        let path = try write(odd.data(inStore: inStore), to: "Odd.mom", in: folder)
        let (model, remarks) = try ManagedObjectModel.reading(contentsOf: path)
        expect(remarks, odd.remarks)
        try model.validate()
        #expect(model.entities.map(\.name) == ["Animal", "Dog", "Person"])
        #expect(model.entities[0].properties.map(\.name) == ["count", "name", "weight"])
        #expect(model.entities[1].properties.map(\.name) == ["owner"])
        let layout = try model.layout()
        #expect(layout.entity(named: "Dog")?.slot(named: "name") != nil)

        let compiled = try write(model.compiledModel().data, to: "Again.mom", in: folder)
        let again = try ManagedObjectModel(contentsOf: compiled)
        #expect(again == model)
        #expect(again.entityVersionHashes() == model.entityVersionHashes())
        let cache = try #require(model.modelCache)
        #expect(try ManagedObjectModel(modelCache: cache, name: "cache") == model)
        let text = try ManagedObjectModel(modelXML: model.modelXML(), name: "XML")
        #expect(text.asCompiled == model.asCompiled)
        #expect(text.entityVersionHashes() == model.entityVersionHashes())
        #expect(text.modelXML() == model.modelXML())
    }

    @Test func oddValuesAreThoseThatAreMeant() throws {
        func model(_ odd: OddArchive) throws -> ManagedObjectModel {
            try ManagedObjectModel(compiledModel: odd.data(inStore: false), name: "odd")
        }
        let truth = try model(.truthForNumbers).entities[0].attributes
        #expect(truth.map(\.defaultValue) == [0, .null, 1.0])
        let owner = try #require(try model(.orderedToOne).entities[1].relationships.first)
        #expect(owner.isOrdered && !owner.isToMany)
        let indexes = try model(.selfInIndexes).entities[0]
        #expect(indexes.indexes.first?.elements.map(\.propertyName) == ["name", "self"])
        #expect(indexes.compoundIndexes == [["count", "self"]])
        let foreign = try model(.indexOfAnotherEntity).entities[0]
        #expect(foreign.indexes.first?.elements.map(\.propertyName) == ["name", "owner"])
        #expect(foreign.compoundIndexes == [["count", "owner"]])
        #expect(try model(.uniquenessByProperty).entities[0].uniquenessConstraints == [["name"]])
        let text: [String: PropertyListValue] = [
            "EnumType": true, "enum": ["puppy", "dog"],
            "deep": ["list": ["puppy", "dog"], "number": -3], "half": 0.5, "text": "a < b",
            "date": .date(Date(timeIntervalSinceReferenceDate: 5)),
            "data": .data(Data([1, 2])), "uuid": .string(try #require(OddArchive.uuid).uuidString),
        ]
        #expect(try model(.userInfo).entities[0].attributes[1].userInfo == text)
        #expect(try model(.hugeCount).entities[2].relationships.first?.maximumCount == 0)
        #expect(
            try model(.unknownDeleteRule).entities[1].relationships.first?.deleteRule == .nullify)
    }

    // MARK: - Stores

    /// A store as Core Data makes one, with an archive in its `Z_MODELCACHE`.
    private func makeStore(_ odd: OddArchive, in folder: TemporaryFolder) throws -> String {
        let path = folder.path("store.sqlite")
        let usual = try ManagedObjectModel(
            compiledModel: OddArchive.usual.data(inStore: true), name: "usual")
        try SQLiteStore.create(at: path, model: usual).close()
        let cache = try #require(RawDeflate.compressed(odd.data(inStore: true)))
        let connection = try SQLiteConnection(path: path, mode: .writing)
        defer { connection.close() }
        try connection.execute("DROP TABLE \(SQLiteTables.model)")
        try connection.withStatement("UPDATE Z_MODELCACHE SET Z_CONTENT = ?") {
            try $0.bind(cache, at: 1)
            _ = try $0.step()
        }
        return path
    }

    @Test func anEmptyModelTableIsAsGoodAsNone() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store.sqlite")
        let model = try ManagedObjectModel(
            compiledModel: OddArchive.usual.data(inStore: false), name: "usual")
        try SQLiteStore.create(at: path, model: model).close()
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute("DELETE FROM \(SQLiteTables.model)")
        connection.close()
        let store = try SQLiteStore.open(at: path)
        #expect(store.layout.model.entities.map(\.name) == model.entities.map(\.name))
        try store.close()
    }

    private func blobs(_ path: String) throws -> [Data] {
        let connection = try SQLiteConnection(path: path, mode: .reading)
        defer { connection.close() }
        return try ["SELECT Z_CONTENT FROM Z_MODELCACHE", "SELECT Z_PLIST FROM Z_METADATA"].map {
            try connection.withStatement($0) {
                _ = try $0.step()
                return $0.data(0)
            }
        }
    }

    @MainActor private func insertDog(_ path: String) throws {
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let dog = try context.insertObject(entityName: "Dog")
        let person = try context.insertObject(entityName: "Person")
        dog["name"] = "Rex"
        dog["owner"] = person
        try context.save()
        #expect(try store.count(matching: FetchSpecification("Animal")) == 1)
        #expect(try store.integrityProblems().isEmpty)
    }

    @Test(arguments: OddArchive.allCases)
    @MainActor func storesThatCarryOddModelsAreEditedAndKeepThem(odd: OddArchive) throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(odd, in: folder)
        let before = try blobs(path)
        try insertDog(path)
        #expect(try blobs(path) == before)
    }

    @Test @MainActor func aStoreWhoseMetadataIsEmptyIsEdited() throws {
        let folder = try TemporaryFolder()
        for value in ["x''", "NULL"] {
            let path = try makeStore(.usual, in: folder)
            let connection = try SQLiteConnection(path: path, mode: .writing)
            try connection.execute("UPDATE Z_METADATA SET Z_PLIST = \(value)")
            connection.close()
            try insertDog(path)
            #expect(try blobs(path)[1] == Data())
            let store = try SQLiteStore.open(at: path)
            #expect(try store.metadata().values == [:])
            let report = try StoreCheck.run(on: store)
            #expect(report.isWhole, "\(report.problems)")
            #expect(
                report.notes.contains {
                    $0.message.contains("property list in Z_METADATA is empty")
                })
            try store.setMetadata("yes", forKey: "seen")
            #expect(try store.metadata()["seen"] == "yes")
            try store.close()
            try FileManager.default.removeItem(atPath: path)
            for suffix in ["-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: path + suffix)
            }
        }
    }

    @Test func anIndexOfTheObjectItselfIsOneOfItsPrimaryKey() throws {
        let folder = try TemporaryFolder()
        let model = try ManagedObjectModel(
            compiledModel: OddArchive.selfInIndexes.data(inStore: false), name: "odd")
        let store = try SQLiteStore.create(at: folder.path("a.sqlite"), model: model)
        defer { try? store.close() }
        let statements = try store.read { connection in
            try connection.withStatement("SELECT sql FROM sqlite_schema WHERE type = 'index'") {
                var found: [String] = []
                while try $0.step() { found.append($0.text(0)) }
                return found
            }
        }
        #expect(
            statements.contains {
                $0.hasSuffix("(ZNAME COLLATE BINARY ASC, Z_PK COLLATE BINARY ASC)")
            }, "\(statements)")
    }

    /// Core Data makes it if the entities share a table.
    @Test @MainActor func anIndexOfAnotherEntitysPropertyStaysInTheStore() throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(.indexOfAnotherEntity, in: folder)
        let sql =
            "CREATE INDEX Z_Animal_byName ON ZANIMAL (ZNAME COLLATE BINARY ASC, ZOWNER COLLATE BINARY ASC)"
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute("DROP INDEX Z_Animal_byName")
        try connection.execute(sql)
        connection.close()
        try insertDog(path)
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        let found = try store.read { connection in
            try connection.withStatement(
                "SELECT sql FROM sqlite_schema WHERE name = 'Z_Animal_byName'"
            ) { try $0.step() ? $0.text(0) : "" }
        }
        #expect(found == sql)
    }

    private static let withLeftOutParts: [OddArchive] = [
        .indexWithoutName, .indexOfUnknownKind, .indexOfMissingProperty, .unknownDerivation,
    ]

    /// What a store may have for what `withLeftOutParts` have.
    private static let leftOutParts = [
        "Z_Animal_byName":
            "CREATE INDEX Z_Animal_byName ON ZANIMAL (ZNAME COLLATE BINARY ASC, ZWEIGHT COLLATE BINARY ASC)",
        "Z_DA_ZANIMAL_Animal_weight_SOURCE_INSERT":
            "CREATE TRIGGER Z_DA_ZANIMAL_Animal_weight_SOURCE_INSERT AFTER INSERT ON ZANIMAL BEGIN SELECT 1; END",
    ]

    /// Gives a store of `withLeftOutParts` the parts.
    private func addLeftOutPart(_ odd: OddArchive, to path: String) throws {
        let connection = try SQLiteConnection(path: path, mode: .writing)
        defer { connection.close() }
        try connection.execute("DROP INDEX IF EXISTS Z_Animal_byName")
        for (name, sql) in Self.leftOutParts
        where name.hasPrefix("Z_DA_") == (odd == .unknownDerivation) {
            try connection.execute(sql)
        }
        if odd == .unknownDerivation {
            try connection.execute(
                "CREATE INDEX Z_Animal_byName ON ZANIMAL (ZNAME COLLATE BINARY ASC)")
        }
    }

    private func leftOutPart(_ odd: OddArchive, _ path: String) throws -> String? {
        let connection = try SQLiteConnection(path: path, mode: .reading)
        defer { connection.close() }
        let kind = odd == .unknownDerivation ? "trigger" : "index"
        return try connection.withStatement(
            "SELECT sql FROM sqlite_schema WHERE type = ? AND name LIKE 'Z\\_%Animal\\_%' ESCAPE '\\'"
        ) {
            try $0.bind(kind, at: 1)
            return try $0.step() ? $0.text(0) : nil
        }
    }

    @Test(arguments: withLeftOutParts)
    @MainActor func whatIsLeftOutOfTheModelStaysInTheStore(odd: OddArchive) throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(odd, in: folder)
        try addLeftOutPart(odd, to: path)
        let sql = try #require(try leftOutPart(odd, path))
        #expect(Self.leftOutParts.values.contains(sql))
        let before = try schema(path)
        try insertDog(path)
        #expect(try leftOutPart(odd, path) == sql)
        #expect(try schema(path) == before)
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        let report = try StoreCheck.run(on: store)
        #expect(!report.notes.contains { $0.message.contains("drops it") }, "\(report.notes)")
    }

    /// The statements that made all there is in a store.
    private func schema(_ path: String) throws -> [String] {
        let connection = try SQLiteConnection(path: path, mode: .reading)
        defer { connection.close() }
        return try connection.withStatement(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name"
        ) {
            var found: [String] = []
            while try $0.step() { found.append($0.text(0)) }
            return found
        }
    }

    /// Once from the model that Quire's stores carry, once from `Z_MODELCACHE`.
    @Test(arguments: withLeftOutParts, [true, false])
    @MainActor func itStaysWhenTheCarriedModelIsWrittenAnew(
        odd: OddArchive, carriesModel: Bool
    ) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("own.sqlite")
        var model = try ManagedObjectModel(
            compiledModel: odd.data(inStore: false), name: "odd")
        try SQLiteStore.create(at: path, model: model).close()
        try addLeftOutPart(odd, to: path)
        let sql = try #require(try leftOutPart(odd, path))

        let cache = try blobs(path)[0]
        model.entities[1].indexes.append(
            FetchIndexDescription(name: "byCount", elements: [.init(propertyName: "count")]))
        try SQLiteStore.open(at: path, model: model).close()
        #expect(try blobs(path)[0] != cache)
        #expect(try leftOutPart(odd, path) == sql)

        if !carriesModel {
            let connection = try SQLiteConnection(path: path, mode: .writing)
            try connection.execute("DROP TABLE \(SQLiteTables.model)")
            connection.close()
        }
        let before = try schema(path)
        try insertDog(path)
        #expect(try schema(path) == before)
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        #expect(store.layout.model.entities.allSatisfy { $0.userInfo.isEmpty })
    }

    // MARK: - Xcode's XML

    @Test(arguments: [
        (
            "<entity name=\"A\" colour=\"red\"/>",
            "line 3: Element “entity” has the attribute “colour”"
        ),
        ("<thing/>", "line 3: Element “model” contains the element “thing”"),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"String\" optional=\"maybe\"/></entity>",
            "optional=“maybe”"
        ),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"Integer 16\" defaultValueString=\"99999\"/></entity>",
            "defaultValueString of attribute “x” of entity “A”"
        ),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"Integer 16\" defaultValueString=\"NO\"/></entity>",
            "“NO”"
        ),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"Float\" defaultValueString=\"YES\"/></entity>",
            "“YES”"
        ),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"Date\" minDateTimeInterval=\"now\"/></entity>",
            "minDateTimeInterval=“now”"
        ),
        (
            "<entity name=\"A\"><relationship name=\"r\" destinationEntity=\"A\" maxCount=\"1\" deletionRule=\"Burn\"/></entity>",
            "deletionRule=“Burn”"
        ),
        (
            "<entity name=\"A\"><relationship name=\"r\" destinationEntity=\"A\" toMany=\"YES\" maxCount=\"many\"/></entity>",
            "maxCount=“many”"
        ),
        (
            "<entity name=\"A\"><relationship name=\"r\" destinationEntity=\"A\" maxCount=\"1\" ordered=\"YES\"/></entity>",
            "“A.r” is ordered"
        ),
        ("<entity name=\"A\"><fetchedProperty name=\"f\"/></entity>", "has no fetch request"),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"String\"/><fetchIndex name=\"i\"><fetchIndexElement property=\"x\" type=\"Binary\" order=\"up\"/></fetchIndex></entity>",
            "order=“up”"
        ),
        (
            "<entity name=\"A\"><fetchIndex name=\"i\"><fetchIndexElement property=\"gone\" type=\"Binary\" order=\"ascending\"/></fetchIndex></entity>",
            "names “gone”"
        ),
        (
            "<entity name=\"A\"><compoundIndexes><compoundIndex><index value=\"gone\"/></compoundIndex></compoundIndexes></entity>",
            "names “gone”"
        ),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"Integer 16\" minValueString=\"1\" defaultValueString=\"0\"/></entity>",
            "is out of its range"
        ),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"String\" regularExpressionString=\"a(\"/></entity>",
            "is malformed"
        ),
        (
            "<entity name=\"A\"/><fetchRequest name=\"all\" entity=\"Gone\"/>",
            "entity “Gone”, which does not exist"
        ),
        (
            "<entity name=\"A\"/><configuration name=\"C\"><memberEntity name=\"Gone\"/></configuration>",
            "entity “Gone”, which does not exist"
        ),
        ("<entity name=\"A\"/>text", "Text between elements"),
    ])
    func oddXMLIsReadWithARemark(content: String, remark: String) throws {
        let folder = try TemporaryFolder()
        let text = "<?xml version=\"1.0\"?>\n<model>\n\(content)\n</model>\n"
        let path = try write(Data(text.utf8), to: "contents", in: folder)
        let (model, remarks) = try ManagedObjectModel.reading(contentsOf: path)
        expect(remarks, [remark])
        try model.validate()
        let again = try ManagedObjectModel(modelXML: model.modelXML(), name: "again")
        #expect(again == model)
        #expect(again.entityVersionHashes() == model.entityVersionHashes())
    }

    @Test func indexesMayNameTheObjectItselfInXML() throws {
        let text = """
            <model><entity name="A"><attribute name="x" attributeType="String"/>
            <fetchIndex name="i"><fetchIndexElement property="x" type="Binary" order="ascending"/>
            <fetchIndexElement property="self" type="Binary" order="ascending"/></fetchIndex></entity></model>
            """
        let model = try ManagedObjectModel(modelXML: Data(text.utf8), name: "m")
        try model.validate()
        #expect(model.entities[0].indexes[0].elements.map(\.propertyName) == ["x", "self"])
    }

    // MARK: - Xcode 3

    /// An entity with an attribute and a relationship, as Xcode 3 and mapping models keep them.
    private func legacyModel(
        attribute: [(String, ArchiveValue)], relationship: [(String, ArchiveValue)],
        entity: (inout KeyedArchiveWriter) -> [(String, ArchiveValue)]
    ) -> Data {
        var writer = KeyedArchiveWriter()
        typealias Entry = ArchiveValue.Entry
        func dictionary(_ pairs: [(String, ArchiveValue)]) -> ArchiveValue {
            var keys: [(key: ArchiveValue, value: ArchiveValue)] = []
            for (key, value) in pairs { keys.append((writer.add(key), value)) }
            return writer.add(dictionary: keys)
        }
        func stereotypes(_ values: [(String, ArchiveValue)]) -> ArchiveValue {
            let slots = values.map {
                ($0.0, writer.add(["XDUMLAttribute", "NSObject"], [Entry("_default", $0.1)]))
            }
            let stereotype = writer.add(
                ["XDUMLStereotype", "NSObject"],
                [Entry("XDBucketForOwnedAttributesstorage", dictionary(slots))])
            return dictionary([("values", stereotype)])
        }
        let thing = writer.reserve()
        let count = writer.add(
            ["XDPMAttribute", "NSObject"],
            [
                Entry("_name", writer.add("count")),
                Entry(
                    "XDBucketForStereotypesstorage",
                    stereotypes([("XD_PAttK_attributeType", .integer(200))] + attribute)),
            ])
        let next = writer.add(
            ["XDPMRelationship", "NSObject"],
            [
                Entry("_name", writer.add("next")),
                Entry(
                    "XDBucketForStereotypesstorage",
                    stereotypes([("XD_PRK_destination", thing)] + relationship)),
            ])
        let values = entity(&writer)
        writer.define(
            thing, as: ["XDPMEntity", "NSObject"],
            [
                Entry("_name", writer.add("Thing")),
                Entry(
                    "XDBucketForOwnedAttributesstorage",
                    dictionary([("count", count), ("next", next)])),
                Entry("XDBucketForStereotypesstorage", stereotypes(values)),
            ])
        let package = writer.add(
            ["XDUMLPackage", "NSObject"],
            [Entry("XDBucketForClassesstorage", dictionary([("Thing", thing)]))])
        let root = writer.add(
            ["XDPMModel", "NSObject"], [Entry("_xd_rootPackage", package)])
        return writer.data(top: [Entry("root", root)])
    }

    @Test func oddModelsOfXcode3AreReadWithRemarks() throws {
        let folder = try TemporaryFolder()
        let data = legacyModel(
            attribute: [("XD_PAttK_defaultValueAsString", .string("NO"))],
            relationship: [
                ("XD_PRK_deleteRule", .integer(9)), ("XD_PRK_ordered", .boolean(true)),
                ("XD_PRK_minCount", .integer(.max)),
            ]
        ) { writer in
            let (count, gone) = (writer.add("count"), writer.add("gone"))
            let indexes = [writer.add(array: [count]), writer.add(array: [gone])]
            let values = writer.add(array: [count])
            let info = writer.add(dictionary: [(writer.add("list"), values)])
            return [
                ("XDPMCompoundIndexes", writer.add(array: indexes)), ("XD_PSK_userInfo", info),
            ]
        }
        let path = try write(data, to: "elements", in: folder)
        let (model, remarks) = try ManagedObjectModel.reading(contentsOf: path)
        expect(
            remarks,
            [
                "“NO”", "“Thing.next” has an unknown delete rule, 9", "“Thing.next” is ordered",
                "“Thing.next” has the count", "names “gone”",
            ])
        try model.validate()
        #expect(model.entities[0].attributes[0].defaultValue == 0)
        #expect(model.entities[0].compoundIndexes == [["count"]])
        #expect(try ManagedObjectModel(archivedModel: data, name: "mapping") == model)
        let again = try ManagedObjectModel(modelXML: model.modelXML(), name: "again")
        #expect(again.entityVersionHashes() == model.entityVersionHashes())
        #expect(again == model)
    }
}
