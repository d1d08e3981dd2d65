import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireAtomicStores

/// What XML stores look like, and what they do with damaged and foreign files.
@Suite struct XMLStoreTests {
    @Test @MainActor func writesWhatCoreDataWrites() throws {
        let folder = try TemporaryFolder()
        let store = try XMLStore.create(at: folder.path("a.xml"), model: FixtureModels.library)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Tom & <Jerry> \\ \u{1}"
        author["born"] = 1775
        try context.save()
        let book = try context.insertObject(entityName: "Book")
        book["title"] = ""
        book["price"] = Decimal(string: "9.99")!
        book["author"] = author
        try context.save()
        let text = try String(contentsOfFile: folder.path("a.xml"), encoding: .utf8)
        let objects = try #require(text.range(of: "    <object"))
        #expect(
            text[objects.lowerBound...] == """
                    <object type="AUTHOR" id="z102">
                        <attribute name="name" type="string">Tom \\u2600 \\u3c00Jerry\\u3e00 \\\\ \\u0100</attribute>
                        <attribute name="born" type="int16">1775</attribute>
                        <relationship name="books" type="0/0" destination="BOOK" idrefs="z103"></relationship>
                    </object>
                    <object type="BOOK" id="z103">
                        <attribute name="title" type="string"></attribute>
                        <attribute name="price" type="decimal">9.99</attribute>
                        <relationship name="author" type="0/1" destination="AUTHOR" idrefs="z102"></relationship>
                        <relationship name="cover" type="0/1" destination="COVER"></relationship>
                        <relationship name="shelf" type="0/1" destination="SHELF"></relationship>
                        <relationship name="prequels" type="0/0" destination="BOOK"></relationship>
                        <relationship name="sequels" type="0/0" destination="BOOK"></relationship>
                        <relationship name="tags" type="0/0" destination="TAG"></relationship>
                    </object>
                </database>
                """)
        #expect(
            text.hasPrefix(
                """
                <?xml version="1.0" standalone="yes"?>
                <!DOCTYPE database SYSTEM "file:///System/Library/DTDs/CoreData.dtd">

                <database>
                    <databaseInfo>
                        <version>134481920</version>
                        <UUID>\(store.identity.uuid)</UUID>
                        <nextObjectID>103</nextObjectID>
                        <metadata>
                            <plist version="1.0">
                                <dict>
                                    <key>NSPersistenceFrameworkVersion</key>

                """))
        try store.close()
        let again = try XMLStore.open(at: folder.path("a.xml"))
        #expect(again.layout.model == FixtureModels.library)
        let row = try #require(try again.rows(matching: FetchSpecification("Author")).first)
        let slot = try #require(row.entity.slot(named: "name"))
        #expect(try row.value(at: slot) == "Tom & <Jerry> \\ \u{1}")
    }

    @Test(arguments: [
        "", "a", "\\", "\\u3c00", "\\\\u", "<&>", "a\r\nb", "\u{0}\u{1F}\u{7F}", "\u{FFFE}\u{FFFF}",
        "\u{1F600}é", "ends with \\", "]]>", "\t\n ",
    ])
    func textsComeBack(text: String) throws {
        var written = XMLStoreText()
        written.writeEscaped(text)
        let bytes = Data("<a>".utf8) + Data(written.bytes) + Data("</a>".utf8)
        let parser = try XMLStoreParser(bytes, path: "t")
        _ = try parser.next()
        #expect(XMLStoreText.unescaped(try parser.textOfElement()) == text)
    }

    @Test func namesThatDifferInCaseOnlyAreRefused() throws {
        let folder = try TemporaryFolder()
        let model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "A", FixtureModels.attribute("name", .string),
                FixtureModels.attribute("Name", .string))
        ])
        let error = #expect(throws: QuireError.self) {
            try XMLStore.create(at: folder.path("a.xml"), model: model)
        }
        #expect(error?.code == .unsupported)
        #expect(!FileManager.default.fileExists(atPath: folder.path("a.xml")))
    }

    @Test(arguments: [
        "<?xml version='1.0'?><!DOCTYPE d [<!ENTITY a 'aa'>]><database/>",
        "<database><databaseInfo><UUID>&a;</UUID></databaseInfo></database>",
        "<database>", "", "<other/>", "<database><object/></database>",
        "<database><databaseInfo><UUID>A</UUID></databaseInfo><object type='A' id='z1'/></database>",
    ])
    func foreignTextsAreRefused(text: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.xml")
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        let error = #expect(throws: QuireError.self) {
            try XMLStore.open(at: path, model: FixtureModels.library)
        }
        #expect([.invalidFormat, .incompatibleModel].contains(error?.code))
    }

    @Test func deepNestingIsRefused() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.xml")
        let text =
            "<database><databaseInfo><metadata><plist>"
            + String(repeating: "<array>", count: 100_000)
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        let error = #expect(throws: QuireError.self) { try XMLStore.metadata(at: path) }
        #expect(error?.code == .invalidFormat)
    }

    // MARK: - Stores as they are found

    private static let foundModel = ManagedObjectModel {
        Entity("Thing") {
            Attribute("name", .string).optional()
            ToMany("parts", "Thing", inverse: "whole")
            ToOne("whole", "Thing", inverse: "parts").optional()
        }
    }

    private static func info(next: Int) -> String {
        """
        <databaseInfo><version>134481920</version><UUID>6EA1A6BB-1111-2222-3333-444455556666</UUID>
        <nextObjectID>\(next)</nextObjectID>
        <metadata><plist version="1.0"><dict><key>note</key><string>n</string></dict></plist></metadata>
        </databaseInfo>
        """
    }

    private func object(_ name: String, id: Int?, whole: Int? = nil) -> String {
        """
        <object type="THING"\(id.map { " id=\"z\($0)\"" } ?? "")>
        <attribute name="name" type="string">\(name)</attribute>
        \(whole.map { "<relationship name=\"whole\" type=\"0/1\" destination=\"THING\" idrefs=\"z\($0)\"></relationship>" } ?? "")
        </object>
        """
    }

    private func write(_ parts: String..., to path: String) throws {
        let text =
            "<?xml version=\"1.0\"?>\n<database>\n\(parts.joined(separator: "\n"))\n</database>"
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    private func names(_ store: XMLStore) throws -> [Int64: String] {
        var result: [Int64: String] = [:]
        for row in try store.rows(matching: FetchSpecification("Thing")) {
            let slot = try #require(row.entity.slot(named: "name"))
            guard case .string(let name) = try row.value(at: slot) else { continue }
            result[row.objectID.primaryKey] = name
        }
        return result
    }

    @Test func objectsMayPrecedeWhatTheStoreSaysOfItself() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.xml")
        try write(
            object("first", id: 102), object("second", id: 103, whole: 102), Self.info(next: 104),
            object("third", id: 104, whole: 102), to: path)
        #expect(try XMLStore.metadata(at: path)["note"] == "n")
        #expect(try XMLStore.inferredModel(at: path).entities.map(\.name) == ["THING"])
        let store = try XMLStore.open(at: path, model: Self.foundModel)
        #expect(try names(store) == [102: "first", 103: "second", 104: "third"])
        try store.setMetadata("yes", forKey: "seen")
        try store.close()
        let again = try XMLStore.open(at: path, model: Self.foundModel)
        #expect(try names(again) == [102: "first", 103: "second", 104: "third"])
        #expect(try again.metadata().storeUUID == "6EA1A6BB-1111-2222-3333-444455556666")
        #expect(try again.metadata()["note"] == "n")
    }

    @Test func objectsWithoutAnIdentifierGetOne() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.xml")
        try write(
            Self.info(next: 104), object("none", id: nil), object("given", id: 107),
            object("nor this", id: nil, whole: 107), to: path)
        #expect(try XMLStore.inferredModel(at: path).entities.map(\.name) == ["THING"])
        let expected: [Int64: String] = [107: "given", 108: "none", 109: "nor this"]
        let store = try XMLStore.open(at: path, model: Self.foundModel)
        #expect(try names(store) == expected)
        // The same each time, and for good once the store is saved.
        #expect(try names(XMLStore.open(at: path, model: Self.foundModel)) == expected)
        let entity = try #require(store.layout.entity(named: "Thing"))
        let id = try store.reserveObjectIDs(for: entity, count: 1, durably: true)[0]
        #expect(id.primaryKey == 110)
        try store.setMetadata("yes", forKey: "seen")
        try store.close()
        #expect(try names(XMLStore.open(at: path, model: Self.foundModel)) == expected)
    }

    @Test func objectsWithIdentifiersOfAnotherFormAreRefused() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.xml")
        for id in ["x1", "z0", "z-3", "z"] {
            try write(
                Self.info(next: 104), "<object type=\"THING\" id=\"\(id)\"></object>", to: path)
            let error = #expect(throws: QuireError.self) {
                try XMLStore.open(at: path, model: Self.foundModel)
            }
            #expect(error?.code == .invalidFormat)
        }
    }
}
