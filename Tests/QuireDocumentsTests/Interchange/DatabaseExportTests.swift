import Foundation
import Quire
import QuireSQLite
import QuireStore
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Plain SQLite databases.
@Suite @MainActor struct DatabaseExportTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path("out.sqlite") }

    init() throws { folder = try TemporaryFolder() }

    private func export(_ store: any PersistentStore, to name: String = "out.sqlite") throws {
        try DatabaseExport(store: store, destination: folder.path(name)).run()
    }

    /// The rows of a query as text, with `NULL` and blobs in hexadecimal.
    private func rows(_ sql: String) throws -> [String] {
        let connection = try SQLiteConnection(path: path, mode: .reading)
        defer { connection.close() }
        return try connection.rows(sql) { row in
            (0..<row.columnCount).map { row.isNull($0) ? "NULL" : row.text($0) }
                .joined(separator: "|")
        }
    }

    // MARK: - Content

    @Test(arguments: ExportedGraph.Kind.allCases)
    func exportHasEveryValueAndRelationship(kind: ExportedGraph.Kind) throws {
        let graph = try ExportedGraph.make(kind, in: folder)
        try export(graph.store)
        #expect(try rows("PRAGMA foreign_key_check") == [])
        #expect(try rows("PRAGMA integrity_check") == ["ok"])
        #expect(try rows("PRAGMA journal_mode") == ["delete"])
        #expect(try rows("PRAGMA application_id") == ["0"])
        #expect(try rows("PRAGMA user_version") == ["0"])
        #expect(
            try FileSystem.names(in: folder.path).filter { $0.contains("out") } == ["out.sqlite"])

        #expect(
            try rows("SELECT entity, name, rank, country, meter, rank_2 FROM Person ORDER BY name")
                == [
                    "Author|Jane|3|GB|NULL|NULL", "Translator|Luis|NULL|ES|NULL|first",
                    "Person|Nobody|NULL|NULL|NULL|NULL", "Poet|Ovid|1|NULL|hexameter|NULL",
                ])
        #expect(try rows("SELECT entity, name, rank FROM Author ORDER BY name").count == 2)
        #expect(try rows("SELECT name, meter, country FROM Poet") == ["Ovid|hexameter|NULL"])
        #expect(try rows("SELECT name, rank, country FROM Translator") == ["Luis|first|ES"])

        #expect(
            try rows(
                """
                SELECT b.title, p.name, "place.latitude", chapterCount, c.id IS NOT NULL
                FROM Book b LEFT JOIN Person p ON b.author = p.id LEFT JOIN Cover c ON c.book = b.id ORDER BY b.id
                """) == ["Emma|Jane|51.5|3|1", "Ars|Ovid|NULL|0|0", "Empty|NULL|NULL|0|0"])
        #expect(
            try rows(#"SELECT "place.name" FROM Book WHERE title = 'Emma'"#) == [ExportedGraph.text]
        )
        #expect(try rows("SELECT count(*) FROM Book b JOIN Cover c ON b.cover = c.id") == ["1"])
        #expect(
            try rows(
                #"SELECT title, "book.position" FROM Chapter ORDER BY book, "book.position""#)
                == ["loose|NULL", "three|0", "one|1", "two|2"])
        #expect(
            try rows(
                """
                SELECT b.title, t.name FROM Book_tags JOIN Book b ON Book = b.id JOIN Tag t ON Tag = t.id
                ORDER BY b.id, t.id
                """) == ["Emma|a", "Emma|b", "Ars|b"])
        #expect(
            try rows(
                "SELECT b.title, s.title FROM Book_similar j JOIN Book b ON j.Book = b.id JOIN Book s ON similar = s.id ORDER BY b.id"
            ) == ["Emma|Ars", "Ars|Emma"])
        // In the order of the books' shelves, and of the shelves' books.
        #expect(
            try rows(
                """
                SELECT title, "Book.position", "Shelf.position", Shelf = (SELECT min(id) FROM Shelf)
                FROM Book_shelves JOIN Book ON Book = id ORDER BY title, "Book.position"
                """) == ["Emma|0|0|0", "Emma|1|1|1", "Empty|0|0|1"])
    }

    @Test(arguments: ExportedGraph.Kind.allCases)
    func valuesKeepTheirLimits(kind: ExportedGraph.Kind) throws {
        try export(try ExportedGraph.make(kind, in: folder).store)
        let columns = ExportedGraph.types.filter { ![.double, .float].contains($0) }.map {
            "quote(\(ExportedGraph.name(of: $0)))"
        }
        .joined(separator: ", ")
        let values = try rows("SELECT \(columns) FROM Everything ORDER BY id")
        let quoted = ExportedGraph.text.replacing("'", with: "''")
        #expect(
            values == [
                Array(repeating: "NULL", count: 11).joined(separator: "|"),
                "32767|2147483647|9223372036854775807|'1234.5'|'\(quoted)'|1|'2001-01-01T00:02:03.25Z'|X'00FF0A0D22'|'\(ExportedGraph.uuid)'|'https://example.org/%C3%A9?a=b,c'|X'7472616E73666F726D6564'",
                "-32768|-2147483648|-9223372036854775808|'-0.001'|''|0|'0000-12-30T00:00:00Z'|X''|NULL|'urn:x'|NULL",
            ])
        let connection = try SQLiteConnection(path: path, mode: .reading)
        defer { connection.close() }
        let numbers = try connection.rows(
            "SELECT doubleValue, floatValue FROM Everything WHERE stringValue IS NOT NULL ORDER BY id"
        ) { [$0.double(0), $0.double(1)] }
        #expect(
            numbers == [
                [.greatestFiniteMagnitude, 0.1], [-.infinity, -3.4028235e38],
            ])
        let external = try connection.rows("SELECT external FROM Everything ORDER BY id") {
            $0.data(0)
        }
        let pictures = try connection.rows(
            "SELECT title, picture, thumbnail FROM Chapter WHERE thumbnail IS NOT NULL ORDER BY id"
        ) { [Data($0.text(0).utf8), $0.data(1), $0.data(2)] }
        #expect(
            pictures == [
                [Data("one".utf8), ExportedGraph.large, Data([1, 2])],
                [Data("two".utf8), Data(), ExportedGraph.large],
            ])
        #expect(external == [Data(), ExportedGraph.large, Data([7])])
        #expect(
            try rows("SELECT name FROM pragma_table_info('Everything')").contains("unsaved")
                == false)
    }

    @Test func namesThatSQLiteDoesNotTellApartAreUnique() throws {
        try export(try ExportedGraph.make(.sqlite, in: folder).store)
        #expect(
            try rows(#"SELECT "property.id", "select", "group", "Group_2" FROM "Order""#)
                == ["x|*|1|2"])
        #expect(try rows("SELECT rowid FROM _sqlite_things") == ["r"])
        #expect(
            try rows(#"SELECT count(*) FROM "select" UNION ALL SELECT count("maß") FROM "Größe""#)
                == ["0", "0"])
        #expect(
            try rows(
                "SELECT count(*) FROM pragma_table_list WHERE strict = 0 AND type = 'table' AND name NOT LIKE 'sqlite_%'"
            ) == ["0"])
    }

    @Test func rowsHaveThePrimaryKeysOfTheirObjects() throws {
        let graph = try ExportedGraph.make(.sqlite, in: folder)
        try export(graph.store)
        let context = ManagedObjectContext.mainQueue(coordinator: graph.coordinator)
        for person in try context.fetch(FetchRequest("Person")) {
            let id = person.objectID.primaryKey
            #expect(
                try rows("SELECT entity || '/p' || id FROM Person WHERE id = \(id)")
                    == [person.objectID.shortDescription])
        }
    }

    @Test(arguments: ExportedGraph.Kind.allCases)
    func emptyStoreHasEmptyTables(kind: ExportedGraph.Kind) throws {
        try export(kind.create(ExportedGraph.model, in: folder))
        #expect(
            try rows("SELECT count(*) FROM Book UNION ALL SELECT count(*) FROM Poet") == ["0", "0"])
        #expect(try rows("PRAGMA integrity_check") == ["ok"])
    }

    @Test func danglingReferencesAreLeftOut() throws {
        let graph = try ExportedGraph.make(.sqlite, in: folder)
        let store = try #require(graph.store as? SQLiteStore)
        try store.withWriter { writer in
            try writer.connection.execute("DELETE FROM ZPERSON WHERE ZNAME = 'Jane'")
            try writer.connection.execute("DELETE FROM ZTAG WHERE ZNAME = 'b'")
            try writer.connection.execute("DELETE FROM ZCHAPTER WHERE ZTITLE = 'one'")
        }
        try export(store)
        #expect(try rows("PRAGMA foreign_key_check") == [])
        #expect(
            try rows("SELECT title, author IS NULL FROM Book ORDER BY id") == [
                "Emma|1", "Ars|0", "Empty|1",
            ])
        #expect(try rows("SELECT count(*) FROM Book_tags") == ["1"])
        #expect(
            try rows(#"SELECT title, "book.position" FROM Chapter WHERE book ORDER BY 2"#)
                == ["three|0", "two|1"])
    }

    // MARK: - Files

    @Test(arguments: ExportedGraph.Kind.allCases)
    func twoExportsAreEqualByteByByte(kind: ExportedGraph.Kind) throws {
        let graph = try ExportedGraph.make(kind, in: folder)
        try export(graph.store, to: "1")
        try export(graph.store, to: "2")
        // Another store of the same objects.
        try export(try ExportedGraph.make(kind, in: folder).store, to: "3")
        let bytes = try ["1", "2", "3"].map { try FileSystem.contents(of: folder.path($0)) }
        #expect(bytes[0] == bytes[1])
        #expect(bytes[0] == bytes[2])
    }

    @Test func generationIsExportedAsOfItsCommit() throws {
        let graph = try ExportedGraph.make(.sqlite, in: folder)
        let pinned = try graph.store.pinned()
        defer { try? pinned.close() }
        try export(graph.store, to: "before")
        let context = ManagedObjectContext.mainQueue(coordinator: graph.coordinator)
        for book in try context.fetch(FetchRequest("Book")) { context.delete(book) }
        try context.save()
        try export(pinned, to: "pinned")
        #expect(
            try FileSystem.contents(of: folder.path("pinned"))
                == FileSystem.contents(of: folder.path("before")))
    }

    @Test func shellReadsTheDatabase() throws {
        let shell = "/usr/bin/sqlite3"
        guard FileSystem.exists(shell) else { return }
        try export(try ExportedGraph.make(.sqlite, in: folder).store)
        let outcome = try ChildProcess.runAndWait(
            shell, ["-readonly", path, "SELECT title FROM Book ORDER BY id"])
        #expect(outcome.status == 0)
        #expect(outcome.output == "Emma\nArs\nEmpty\n")
    }

    @Test func existingFileIsKeptUnlessReplaced() throws {
        let store = try ExportedGraph.make(.inMemory, in: folder).store
        try FileSystem.writeNewFile(Data("mine".utf8), at: path)
        #expect(failure { try export(store) }?.code == .alreadyExists)
        #expect(try FileSystem.contents(of: path) == Data("mine".utf8))
        // A journal would be rolled back into the new database.
        try FileSystem.writeNewFile(Data(), at: path + "-journal")
        let replacement = DatabaseExport(store: store, destination: path, replacesExisting: true)
        #expect(failure { try replacement.run() }?.subject.file == path + "-journal")
        try FileSystem.removeFile(path + "-journal")
        try replacement.run()
        #expect(try rows("SELECT count(*) FROM Book") == ["3"])
    }

    @Test func storeIsNotReplacedByItsExport() throws {
        let graph = try ExportedGraph.make(.xml, in: folder)
        let own = try #require(graph.store.path)
        let export = DatabaseExport(store: graph.store, destination: own, replacesExisting: true)
        #expect(failure { try export.run() }?.code == .invalidValue)
    }

    @Test func cancelledExportLeavesNothing() throws {
        let store = try ExportedGraph.make(.sqlite, in: folder).store
        let before = try FileSystem.names(in: folder.path).sorted()
        let progress = Progress(totalUnitCount: 0)
        progress.cancel()
        let export = DatabaseExport(store: store, destination: path, progress: progress)
        #expect(failure { try export.run() }?.code == .cancelled)
        #expect(try FileSystem.names(in: folder.path).sorted() == before)
    }

    @Test func progressCountsObjects() throws {
        let store = try ExportedGraph.make(.sqlite, in: folder).store
        let progress = Progress(totalUnitCount: 0)
        try DatabaseExport(store: store, destination: path, progress: progress).run()
        #expect(progress.totalUnitCount == 21)
        #expect(progress.completedUnitCount == 21)
    }

    @Test func valueThatDiffersFromItsDigestIsNotExported() throws {
        let graph = try ExportedGraph.make(.sqlite, in: folder)
        let store = try #require(graph.store as? SQLiteStore)
        let file = try #require(try store.externalFiles().first)
        var bytes = ExportedGraph.large
        bytes[200_000] ^= 1
        try AtomicFileReplace.replace(file.path, with: bytes)
        #expect(failure { try export(store) }?.code == .invalidFormat)
        #expect(!FileSystem.exists(path))
    }
}
