import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// What SQLite means to do for typical requests, as `EXPLAIN QUERY PLAN` says.
@Suite struct IndexUseTests {
    /// A store with a fetch index on titles, on years and on names of authors.
    private static func makeStore(in folder: TemporaryFolder) throws -> SQLiteStore {
        var model = QueryFixture.model
        for index in model.entities.indices {
            switch model.entities[index].name {
            case "Work":
                model.entities[index].indexes = [
                    FetchIndexDescription(
                        name: "byTitle", elements: [.init(propertyName: "title")]),
                    FetchIndexDescription(name: "byYear", elements: [.init(propertyName: "year")]),
                ]
            case "Author":
                model.entities[index].indexes = [
                    FetchIndexDescription(name: "byName", elements: [.init(propertyName: "name")])
                ]
            default: break
            }
        }
        return try SQLiteStore.create(at: folder.path("store"), model: model)
    }

    static let plans: [(format: String, sort: String?, plan: String)] = [
        ("title == 'x'", nil, "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"),
        ("title == nil", nil, "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"),
        ("title IN {'a', 'b'}", nil, "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"),
        (
            "title BEGINSWITH 'x'", nil,
            "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE>? AND ZTITLE<?)"
        ),
        ("title LIKE 'x*'", nil, "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE>? AND ZTITLE<?)"),
        ("title < 'x'", "title", "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE<?)"),
        ("year BETWEEN {1, 2}", nil, "SEARCH t0 USING INDEX Z_Work_byYear (ZYEAR>? AND ZYEAR<?)"),
        ("title == 'x' AND NOT pages == 3", nil, "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"),
        ("title == 'x' OR year == 3", nil, "MULTI-INDEX OR"),
        (
            "title == 'x' AND ANY tags.weight > 1", nil,
            "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"
        ),
        ("author == 'Author/p1'", nil, "SEARCH t0 USING INDEX ZWORK_ZAUTHOR_INDEX (ZAUTHOR=?)"),
        (
            "publisher IN {'Publisher/p1', 'Publisher/p2'}", nil,
            "SEARCH t0 USING INDEX ZWORK_ZPUBLISHER_INDEX (ZPUBLISHER=?)"
        ),
        ("author == nil", nil, "SEARCH t0 USING INDEX ZWORK_ZAUTHOR_INDEX (ZAUTHOR=?)"),
        ("author.name == 'x'", nil, "SEARCH t1 USING COVERING INDEX Z_Author_byName (ZNAME=?)"),
        ("SELF == 'Work/p1'", nil, "SEARCH t0 USING INTEGER PRIMARY KEY (rowid=?)"),
        ("SELF IN {'Work/p1', 'Work/p2'}", nil, "SEARCH t0 USING INTEGER PRIMARY KEY (rowid=?)"),
        ("ANY tags == 'Tag/p1'", nil, "SEARCH t0 USING INTEGER PRIMARY KEY (rowid=?)"),
        ("ANY tags.name == 'x'", nil, "SEARCH t0 USING INTEGER PRIMARY KEY (rowid=?)"),
        ("notes CONTAINS 'Note/p1'", nil, "SEARCH t0 USING INTEGER PRIMARY KEY (rowid=?)"),
        ("TRUEPREDICATE", "title", "SCAN t0 USING INDEX Z_Work_byTitle"),
        (
            "title BEGINSWITH 'a'", "title",
            "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE>? AND ZTITLE<?)"
        ),
        ("TRUEPREDICATE", nil, "SCAN t0"),
        (
            "author.name BEGINSWITH 'x'", nil,
            "SEARCH t1 USING COVERING INDEX Z_Author_byName (ZNAME>? AND ZNAME<?)"
        ),
        ("author.mentor.name == 'x'", nil, "SEARCH t2 USING INTEGER PRIMARY KEY (rowid=?)"),
        (
            "author.name == 'x' AND title == 'y'", nil,
            "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"
        ),
        (
            "tags.@count > 2", nil,
            "SEARCH t1 USING COVERING INDEX Z_5WORKS_Z_6WORKS_INDEX (Z_6WORKS=?)"
        ),
        ("notes.@count == 0 AND year == 3", nil, "SEARCH t0 USING INDEX Z_Work_byYear (ZYEAR=?)"),
        (
            "author.works.@count > 3", nil,
            "SEARCH t1 USING COVERING INDEX ZWORK_ZAUTHOR_INDEX (ZAUTHOR=?)"
        ),
        (
            "author.works.@max.year > 1800", nil,
            "SEARCH t1 USING INDEX ZWORK_ZAUTHOR_INDEX (ZAUTHOR=?)"
        ),
        (
            "SUBQUERY(notes, $n, $n.text == 'x').@count > 0", nil,
            "SEARCH t1 USING INDEX ZNOTE_Z6NOTES_INDEX (Z6NOTES=?)"
        ),
        (
            "SUBQUERY(author.works, $w, $w.title == title AND $w != SELF).@count > 0", nil,
            "SEARCH t1 USING INDEX Z_Work_byTitle (ZTITLE=?)"
        ),
        (
            "ANY SUBQUERY(tags, $t, $t.weight > 1).name == 'x'", nil,
            "SEARCH t1 USING COVERING INDEX Z_5WORKS_Z_6WORKS_INDEX (Z_6WORKS=?)"
        ),
        ("year == 1800 + 15", nil, "SEARCH t0 USING INDEX Z_Work_byYear (ZYEAR=?)"),
        ("noindex:(title) == 'x'", nil, "SCAN t0"),
        (
            "title == 'x' AND pages * 2 > year", nil,
            "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"
        ),
        (
            "title == 'x' AND (tags.name UNION {'a'}).@count > 1", nil,
            "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"
        ),
        (
            "title == TERNARY(1 == 1, 'x', 'y')", nil,
            "SEARCH t0 USING INDEX Z_Work_byTitle (ZTITLE=?)"
        ),
    ]

    @Test func indexesAreUsed() throws {
        let folder = try TemporaryFolder()
        let store = try Self.makeStore(in: folder)
        defer { try? store.close() }
        let connection = try SQLiteConnection(path: folder.path("store"), mode: .reading)
        defer { connection.close() }
        try SQLiteFunctions.register(on: connection)
        for expected in Self.plans {
            var request = FetchSpecification(
                "Work", predicate: try QueryPredicate(format: expected.format))
            if let sort = expected.sort { request.sortOrderings = [SortOrdering(sort)] }
            let query = try ResolvedQuery(request, in: store.layout, store: store.identity)
            let statement = try FetchStatement(
                query, selecting: .columns("t0.*"), schema: store.schema, store: store.identity)
            var steps: [String] = []
            try connection.withStatement("EXPLAIN QUERY PLAN \(statement.sql)") { plan in
                try plan.bind(statement.bindings)
                while try plan.step() { steps.append(plan.text(3)) }
            }
            #expect(steps.contains(expected.plan), "\(expected.format): \(statement.sql)\n\(steps)")
            if expected.sort != nil {
                #expect(!steps.contains { $0.contains("TEMP B-TREE") }, "\(steps)")
            }
        }
    }
}
