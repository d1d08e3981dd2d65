import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// A store that Core Data made, with its own triggers of a derived attribute.
@MainActor @Suite struct AppleDerivedStoreTests {
    private static let path =
        "stores/alemar11+CoreDataPlus/Tests/Resources/SampleModel2/Fixtures/SampleModel2_V1.sqlite"

    private static let model = ManagedObjectModel {
        Entity("Writer") { Attribute("age", .integer16) }.abstract()
        Entity("Author", inherits: "Writer") {
            Attribute("alias", .string)
            Attribute("siteURL", .uri)
            ToMany("books", "Book", inverse: "author")
            Unique("alias")
        }
        Entity("Book") {
            Attribute("uniqueID", .uuid)
            Attribute("title", .string)
            Attribute("price", .decimal)
            Attribute("cover", .transformable)
            Attribute("publishedAt", .date)
            Attribute("pagesCount", .integer64).derived("pages.@count")
            ToOne("author", "Author", inverse: "books")
            ToMany("pages", "Page", inverse: "book").deleteRule(.cascade)
            Unique("uniqueID")
        }
        Entity("GraphicNovel", inherits: "Book") { Attribute("isBlackAndWhite", .boolean) }
        Entity("Page") {
            Attribute("number", .integer32)
            Attribute("isBookmarked", .boolean)
            Attribute("content", .transformable)
            ToOne("book", "Book", inverse: "pages")
        }
        Entity("Feedback") {
            Attribute("bookID", .uuid)
            Attribute("authorAlias", .string)
            Attribute("comment", .string)
            Attribute("rating", .double)
        }
    }

    @Test(.corpus) func coreDataTriggersKeepTheirColumnsRight() throws {
        let corpus = try #require(Corpus.folder)
        let folder = try TemporaryFolder()
        let copy = folder.path("copy.sqlite")
        try FileManager.default.copyItem(
            atPath: corpus.appendingPathComponent(Self.path).path, toPath: copy)
        let triggers = { (store: SQLiteStore) throws -> [String] in
            try store.read { connection in
                try connection.withStatement(
                    "SELECT sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name"
                ) { statement in
                    var found: [String] = []
                    while try statement.step() { found.append(statement.text(0)) }
                    return found
                }
            }
        }
        let store = try SQLiteStore.open(at: copy, model: Self.model)
        defer { try? store.close() }
        // What this framework writes for the attribute is what Core Data wrote.
        #expect(
            try triggers(store)
                == SQLDerivedTriggers(schema: store.schema).parts.map(\.sql).sorted {
                    $0.split(separator: " ")[2] < $1.split(separator: " ")[2]
                })
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let books = try context.fetch(FetchRequest("Book"))
        let first = try #require(books.first { !$0.objects("pages").isEmpty })
        let second = try #require(books.first { $0 !== first })
        let page = try #require(first.objects("pages").first)
        page["book"] = second
        let new = try context.insertObject(entityName: "Page")
        new["book"] = second
        let book = try context.insertObject(entityName: "GraphicNovel")
        try context.insertObject(entityName: "Page")["book"] = book
        if let last = books.last, last !== first, last !== second { context.delete(last) }
        func check() throws {
            for book in try context.fetch(FetchRequest("Book")) {
                #expect(book["pagesCount", as: Int64.self] == Int64(book.objects("pages").count))
            }
        }
        try check()
        try context.save()
        try check()
        let wrong = try store.read {
            try $0.integer(
                "SELECT count(*) FROM ZBOOK b WHERE ZPAGESCOUNT IS NOT (SELECT count(*) FROM ZPAGE WHERE ZBOOK = b.Z_PK)"
            )
        }
        #expect(wrong == 0)
        #expect(try store.integrityProblems() == [])
    }

    /// One transaction of 5,468 changes, made by a test of Core Data's.
    @Test(.corpus) func aSaveContinuesTheHistoryThatCoreDataBegan() throws {
        let corpus = try #require(Corpus.folder)
        let folder = try TemporaryFolder()
        let copy = folder.path("copy.sqlite")
        try FileManager.default.copyItem(
            atPath: corpus.appendingPathComponent(Self.path).path, toPath: copy)
        let store = try SQLiteStore.open(at: copy, model: Self.model)
        defer { try? store.close() }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let old = try context.execute(.fetchHistory(after: nil)).transactions
        #expect(old.map(\.number) == [1])
        #expect(old.map(\.bundleID) == ["com.apple.dt.xctest.tool"])
        #expect(old.map(\.processName) == ["xctest"])
        #expect(old.map(\.author) == [nil])
        #expect(old[0].changes.count == 5468)
        #expect(old[0].changes.allSatisfy { $0.kind == .insert && $0.updatedProperties == nil })
        let counts = Dictionary(grouping: old[0].changes, by: \.objectID.entityName)
            .mapValues(\.count)
        #expect(
            counts == ["Book": 51, "GraphicNovel": 1, "Feedback": 444, "Page": 4970, "Author": 2])

        context.transactionAuthor = "Quire"
        let feedback = try #require(try context.fetch(FetchRequest("Feedback")).first)
        feedback["comment"] = "changed"
        feedback["rating"] = 1.0
        let novel = try #require(try context.fetch(FetchRequest("GraphicNovel")).first)
        novel["title"] = "changed"
        let page = try #require(try context.fetch(FetchRequest("Page")).first)
        context.delete(page)
        try context.save()
        let new = try context.execute(.fetchHistory(after: old[0])).transactions
        #expect(new.map(\.number) == [2])
        #expect(new.map(\.author) == ["Quire"])
        let changed = Dictionary(
            uniqueKeysWithValues: new[0].changes.map { ($0.objectID.entityName, $0) })
        #expect(changed["Feedback"]?.updatedProperties == ["comment", "rating"])
        #expect(changed["GraphicNovel"]?.kind == .update)
        #expect(changed["GraphicNovel"]?.updatedProperties == ["title"])
        #expect(changed["Page"]?.kind == .delete)
        #expect(
            new[0].changes.map(\.number).sorted()
                == Array(5469..<5469 + Int64(new[0].changes.count)))
        // As Core Data numbers rows: one more than the greatest of the table, which Z_PRIMARYKEY has.
        let rows = try store.read { connection in
            try [
                "SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_NAME = 'CHANGE'",
                "SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_NAME = 'TRANSACTION'",
                "SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_NAME = 'TRANSACTIONSTRING'",
                "SELECT count(*) FROM ACHANGE WHERE Z_ENT = 16001 AND Z_OPT IS NULL",
                "SELECT ZAUTHOR IS NULL AND Z_ENT = 16002 FROM ATRANSACTION WHERE Z_PK = 2",
            ].map { try connection.integer($0) }
        }
        let count = Int64(5468 + new[0].changes.count)
        #expect(rows == [count, 2, 4, count, 1])
        // To-one relationships, none, then attributes by name: authorAlias, bookID, comment, rating.
        let mask = try store.read {
            try $0.integer(
                "SELECT hex(ZCOLUMNS) FROM ACHANGE WHERE ZENTITY = 3 AND ZTRANSACTIONID = 2")
        }
        #expect(mask == 30)
    }
}
