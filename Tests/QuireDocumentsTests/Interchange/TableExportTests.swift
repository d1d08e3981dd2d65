import Foundation
import Quire
import QuireSQLite
import QuireStore
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Folders of CSV files and of JSON lines.
@Suite @MainActor struct TableExportTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path("out") }

    init() throws { folder = try TemporaryFolder() }

    private func export(
        _ store: any PersistentStore, _ format: TableFormat, to name: String = "out"
    ) throws {
        try TableExport(store: store, destination: folder.path(name), format: format).run()
    }

    /// The lines of a file, with their ends.
    private func lines(_ name: String) throws -> [String] {
        let text = String(
            decoding: try FileSystem.contents(of: folder.path("out/" + name)), as: UTF8.self)
        return text.split(separator: name.hasSuffix("csv") ? "\r\n" : "\n").map(String.init)
    }

    private func description() throws -> [[String: Any]] {
        let data = try FileSystem.contents(of: folder.path("out/datapackage.json"))
        let package = try JSONSerialization.jsonObject(with: data) as? [String: Any]
        return try #require(package?["resources"] as? [[String: Any]])
    }

    // MARK: - CSV

    @Test(arguments: ExportedGraph.Kind.allCases)
    func csvHasAFileForEachEntityAndJoinTable(kind: ExportedGraph.Kind) throws {
        try export(try ExportedGraph.make(kind, in: folder).store, .csv)
        let people = try lines("Person.csv") + lines("Author.csv") + lines("Translator.csv")
        // Keys differ between kinds of stores.
        func withoutKeys(_ lines: [String]) -> [String] {
            lines.map { String($0.drop { $0 != "," }) }
        }
        #expect(
            withoutKeys(people) == [
                ",name", ",Nobody", ",name,rank,country", ",Jane,3,GB", ",name,rank,country",
                ",Luis,first,ES",
            ])
        #expect(
            withoutKeys(try lines("Poet.csv")) == [
                ",name,rank,country,meter", ",Ovid,1,,hexameter",
            ])
        #expect(try lines("Book_tags.csv").first == "Book,Tag")
        #expect(try lines("Book_tags.csv").count == 4)
        #expect(try lines("Book_similar.csv").count == 3)
        #expect(try lines("Book_shelves.csv").first == "Book,Shelf,Book.position,Shelf.position")
        #expect(
            try lines("Chapter.csv").map { $0.split(separator: ",").last } == [
                "book.position", "1", "2", "0", "loose",
            ])
        #expect(try lines("select.csv") == ["id"])
        #expect(try lines("Order.csv").first?.hasPrefix("id,property.id,select,group") == true)
        #expect(!FileSystem.exists(folder.path("out/tables.sqlite")))
    }

    @Test func csvDistinguishesEmptyTextsFromMissingValues() throws {
        try export(try ExportedGraph.make(.sqlite, in: folder).store, .csv)
        let text = ExportedGraph.text.replacing("\"", with: "\"\"")
        let content = try FileSystem.contents(of: folder.path("out/Everything.csv"))
        #expect(
            String(decoding: content, as: UTF8.self) == """
                id,integer16Value,integer32Value,integer64Value,decimalValue,doubleValue,floatValue,stringValue,booleanValue,dateValue,binaryValue,uuidValue,uriValue,transformableValue,external\r
                1,,,,,,,,,,,,,,\r
                2,32767,2147483647,9223372036854775807,1234.5,1.7976931348623157e+308,0.1,"\(text)",true,2001-01-01T00:02:03.25Z,AP8KDSI=,\(ExportedGraph.uuid),"https://example.org/%C3%A9?a=b,c",dHJhbnNmb3JtZWQ=,data/Everything/2.external\r
                3,-32768,-2147483648,-9223372036854775808,-0.001,-INF,-3.4028235e+38,"",false,0000-12-30T00:00:00Z,"",,urn:x,,Bw==\r

                """)
        #expect(
            try FileSystem.contents(of: folder.path("out/data/Everything/2.external"))
                == ExportedGraph.large)
    }

    // MARK: - JSON lines

    @Test(arguments: ExportedGraph.Kind.allCases)
    func jsonLinesHaveTheMembersOfADump(kind: ExportedGraph.Kind) throws {
        let graph = try ExportedGraph.make(kind, in: folder)
        try export(graph.store, .jsonLines)
        let context = ManagedObjectContext.mainQueue(coordinator: graph.coordinator)
        let chapters = try context.fetch(FetchRequest("Chapter")).map(\.objectID.uriRepresentation)
        let books = try lines("Book.jsonl").map {
            try #require(
                try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
        let place = books[0]["place"] as? [String: Any]
        #expect(place?["latitude"] as? Double == 51.5)
        #expect(place?["name"] as? String == ExportedGraph.text)
        #expect(books[0]["chapters"] as? [String] == [chapters[2], chapters[0], chapters[1]])
        #expect((books[0]["author"] as? String)?.contains("/Author/p") == true)
        #expect(books[2]["author"] is NSNull)
        #expect(books[2]["chapterCount"] as? Int == 0)
        #expect(books.map { ($0["shelves"] as? [String])?.count } == [2, 0, 1])
        let everything = try lines("Everything.jsonl")
        #expect(everything[1].contains(#""decimalValue": "1234.5", "doubleValue""#))
        #expect(everything[1].contains(#""external": {"bytes": 300000, "path": "data/Everything/"#))
        #expect(everything[2].contains(#""external": "Bw==", "floatValue": -3.4028235e+38"#))
        #expect(!everything[1].contains("unsaved"))
        #expect(try lines("Order.jsonl").first?.contains(#""property.id": "x""#) == true)
        #expect(try FileSystem.contents(of: folder.path("out/select.jsonl")).isEmpty)
    }

    // MARK: - Descriptions

    @Test(arguments: TableFormat.allCases)
    func descriptionNamesExistingFilesFieldsAndResources(format: TableFormat) throws {
        try export(try ExportedGraph.make(.sqlite, in: folder).store, format)
        let resources = try description()
        let names = resources.compactMap { $0["name"] as? String }
        #expect(names.count == resources.count)
        #expect(Set(names).count == names.count)
        #expect(names.contains("gr--e"))
        var targets: Set<String> = []
        for resource in resources {
            let path = try #require(resource["path"] as? String)
            #expect(FileSystem.exists(folder.path("out/" + path)), "\(path)")
            let schema = try #require(resource["schema"] as? [String: Any])
            let fields = try #require(schema["fields"] as? [[String: Any]])
                .compactMap { $0["name"] as? String }
            if format == .csv {
                #expect(try lines(path).first == fields.joined(separator: ","))
            }
            for key in schema["foreignKeys"] as? [[String: Any]] ?? [] {
                #expect(fields.contains(try #require(key["fields"] as? String)))
                let reference = try #require(key["reference"] as? [String: Any])
                let target = try #require(reference["resource"] as? String)
                #expect(names.contains(target), "\(target)")
                targets.insert(target)
            }
        }
        // An author is in one of several files.
        #expect(
            targets == (format == .csv ? ["book", "cover", "shelf", "tag"] : ["book", "cover"]))
        // With the description, and the folder of large values.
        #expect(try FileSystem.names(in: path).count == resources.count + 2)
    }

    // MARK: - Folders

    @Test(arguments: TableFormat.allCases, ExportedGraph.Kind.allCases)
    func twoExportsAreEqualByteByByte(format: TableFormat, kind: ExportedGraph.Kind) throws {
        let graph = try ExportedGraph.make(kind, in: folder)
        try export(graph.store, format, to: "1")
        try export(graph.store, format, to: "2")
        #expect(try contents(ofFolder: folder.path("1")) == contents(ofFolder: folder.path("2")))
    }

    @Test func onlyAnEarlierExportIsReplaced() throws {
        let store = try ExportedGraph.make(.inMemory, in: folder).store
        var replacement = TableExport(
            store: store, destination: path, format: .jsonLines, replacesExisting: true)
        try export(store, .csv)
        #expect(failure { try export(store, .csv) }?.code == .alreadyExists)
        let note = folder.path("out/note.txt")
        try FileSystem.writeNewFile(Data(), at: note)
        let error = failure { try replacement.run() }
        #expect(error?.code == .alreadyExists)
        #expect(error?.message.contains("note.txt") == true)
        try FileSystem.removeFile(note)
        try replacement.run()
        #expect(FileSystem.exists(folder.path("out/Book.jsonl")))
        #expect(!FileSystem.exists(folder.path("out/Book.csv")))
        #expect(try FileSystem.names(in: folder.path) == ["out"])
        // A file, and a folder of something else.
        replacement.destination = folder.path("out/Book.jsonl")
        #expect(failure { try replacement.run() }?.code == .alreadyExists)
        replacement.destination = folder.path("out/data")
        #expect(failure { try replacement.run() }?.code == .alreadyExists)
    }

    @Test(arguments: TableFormat.allCases)
    func cancelledExportLeavesNothing(format: TableFormat) throws {
        let store = try ExportedGraph.make(.inMemory, in: folder).store
        let progress = Progress(totalUnitCount: 0)
        progress.cancel()
        let export = TableExport(
            store: store, destination: path, format: format, progress: progress)
        #expect(failure { try export.run() }?.code == .cancelled)
        #expect(try FileSystem.names(in: folder.path) == [])
    }

    @Test(arguments: TableFormat.allCases)
    func progressCountsObjects(format: TableFormat) throws {
        let store = try ExportedGraph.make(.inMemory, in: folder).store
        let progress = Progress(totalUnitCount: 0)
        try TableExport(store: store, destination: path, format: format, progress: progress).run()
        #expect(progress.totalUnitCount == (format == .csv ? 42 : 21))
        #expect(progress.completedUnitCount == progress.totalUnitCount)
    }
}
