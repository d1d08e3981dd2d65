import Foundation
import Quire
import Testing

/// Articles, some of which have no author, no rating and no date.
@MainActor @Suite struct MissingValueSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Article") {
            Attribute("title", .string)
            Attribute("byline", .string)
            Attribute("stars", .integer16)
            Attribute("price", .decimal)
            Attribute("isRead", .boolean)
            Attribute("published", .date)
            ToOne("writer", "Writer", inverse: "articles")
            ToMany("labels", "Label", inverse: "articles")
        }
        Entity("Writer") {
            Attribute("name", .string)
            ToOne("mentor", "Writer", inverse: "pupils")
            ToMany("pupils", "Writer", inverse: "mentor")
            ToMany("articles", "Article", inverse: "writer")
        }
        Entity("Label") {
            Attribute("name", .string)
            ToMany("articles", "Article", inverse: "labels")
        }
    }

    /// a: everything; b: another writer, who has no name; c: nothing at all; d: values like those of a, with a pupil.
    private static func fill(_ context: ManagedObjectContext) throws {
        let hill = try context.insertObject(entityName: "Writer")
        hill["name"] = "Hill"
        let nameless = try context.insertObject(entityName: "Writer")
        let pupil = try context.insertObject(entityName: "Writer")
        pupil["name"] = "Pupil"
        pupil["mentor"] = hill
        let red = try context.insertObject(entityName: "Label")
        red["name"] = "red"
        let unnamed = try context.insertObject(entityName: "Label")
        for (title, byline, stars, read, writer, labels) in [
            ("a", "Hill", 5, true, hill, [red]), ("b", "Dale", 0, false, nameless, [unnamed]),
            ("c", nil, nil, nil, nil, []), ("d", "Hill", 3, nil, pupil, [red, unnamed]),
        ] as [(String, String?, Int?, Bool?, ManagedObject?, [ManagedObject])] {
            let article = try context.insertObject(entityName: "Article")
            article["title"] = title
            article["byline"] = byline
            article["stars"] = stars
            article["price"] = stars.map { Decimal($0) / 10 }
            article["isRead"] = read
            article["published"] = stars.map { Date(timeIntervalSinceReferenceDate: Double($0)) }
            article["writer"] = writer
            article["labels"] = Set(labels)
        }
    }

    /// “Articles whose author is not Douglas Hill” lacked those without an author, in the store only: page “NSPredicate: an
    /// old API with new surprises”, douglashill.co/nspredicate-null-inequality. With it: NOT IN (Stack Overflow “Fetching objects
    /// from Core Data not in a set”), BETWEEN, texts, optional Booleans, and key paths whose relationship is missing.
    @Test(arguments: SituationCase.all)
    func missingValuesAreNotEqualAndNothingElse(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            for (format, titles) in [
                ("byline != 'Hill'", "bc"), ("NOT byline == 'Hill'", "bc"),
                ("NOT (byline IN {'Hill', 'Mount'})", "bc"), ("NOT (byline IN {})", "abcd"),
                ("byline IN {nil, 'Dale'}", "bc"), ("NOT (byline IN {nil})", "abd"),
                ("NOT byline BEGINSWITH 'H'", "bc"), ("NOT byline LIKE '*'", "c"),
                ("NOT byline MATCHES '.*'", "c"), ("NOT byline CONTAINS[cd] 'HILL'", "bc"),
                ("stars BETWEEN {0, 4}", "bd"), ("NOT stars BETWEEN {0, 4}", "ac"),
                ("stars < 4", "bd"), ("NOT stars >= 4", "bcd"), ("stars == 0", "b"),
                ("stars == nil", "c"), ("stars + 1 == nil", "c"), ("price == 0", "b"),
                ("price != 0.3", "abc"), ("isRead != YES", "bcd"), ("isRead == NO", "b"),
                ("NOT isRead == NO", "acd"), ("published == nil", "c"),
                ("published != CAST(5, 'NSDate')", "bcd"),
                ("writer.name != 'Hill'", "bcd"), ("writer.name == nil", "bc"),
                ("writer != nil AND writer.name == nil", "b"),
                ("writer.mentor.name != 'Hill'", "abc"), ("writer.mentor == nil", "abc"),
                ("NOT writer.mentor.name BEGINSWITH 'H'", "abc"),
                ("NONE labels.name == 'red'", "bc"), ("ANY labels.name != 'red'", "bd"),
                ("ALL labels.name == 'red'", "ac"), ("ANY labels.name == nil", "bd"),
                ("labels.@count == 0", "c"), ("ANY labels == nil", ""),
                ("byline == writer.name", "ac"), ("byline != writer.name", "bd"),
                ("writer.articles.@count == 0", "c"), ("NOT 'red' IN labels.name", "bc"),
            ] {
                let found = try context.texts("title", of: "Article", where: format)
                #expect(found.joined() == titles, "\(format)")
            }
        }
    }

    /// A list sorted by the key path of a relationship lost the rows whose relationship is nil, and mixed those without a value
    /// into the others: realm/realm-js#1277, realm/realm-java#5704, magicalpanda/MagicalRecord#572. Missing values come
    /// first when ascending, last when descending, and nobody disappears.
    @Test(arguments: SituationCase.all)
    func missingValuesAreSortedFirstAndKeepTheirObjects(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            for (orders, titles) in [
                ([SortOrdering("stars"), SortOrdering("title")], "cbda"),
                ([SortOrdering("stars", ascending: false), SortOrdering("title")], "adbc"),
                ([SortOrdering("writer.name"), SortOrdering("title")], "bcad"),
                ([SortOrdering("writer.name", ascending: false), SortOrdering("title")], "dabc"),
                ([SortOrdering("writer.mentor.name"), SortOrdering("title")], "abcd"),
                ([SortOrdering("isRead"), SortOrdering("title", ascending: false)], "dcba"),
                ([SortOrdering("published"), SortOrdering("title")], "cbda"),
                ([SortOrdering("labels.@count"), SortOrdering("title")], "cabd"),
                ([SortOrdering("labels.@max.name"), SortOrdering("title")], "bcad"),
                (
                    [SortOrdering("byline", options: .caseInsensitive), SortOrdering("stars")],
                    "cbda"
                ),
            ] {
                let found = try context.texts("title", of: "Article") { $0.sortOrderings = orders }
                #expect(found.joined() == titles, "\(orders.map(\.keyPath))")
                let page = try context.texts("title", of: "Article") {
                    $0.sortOrderings = orders
                    $0.fetchOffset = 1
                    $0.fetchLimit = 2
                }
                #expect(page.joined() == titles.dropFirst().prefix(2), "\(orders.map(\.keyPath))")
            }
        }
    }

    /// Two conditions on different relationships gave each object once for each pair of related objects, as the SQL had two
    /// outer joins: lionheart/openradar-mirror#5400 (“Core Data fetch returns duplicate managed objects”).
    @Test(arguments: SituationCase.all)
    func anObjectIsFoundOnceWhateverItsRelationships(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            for (format, names) in [
                ("ANY articles.title == 'a' OR ANY pupils.name == 'Pupil'", ["Hill"]),
                (
                    "ANY articles.labels.name == 'red' OR ANY articles.labels.name == nil",
                    ["nil", "Hill", "Pupil"]
                ),
                (
                    "articles.@count > 0 AND ANY articles.labels.name == 'red'",
                    ["Hill", "Pupil"]
                ),
            ] {
                #expect(
                    try context.texts("name", of: "Writer", where: format) == names, "\(format)")
                let page = try context.texts("name", of: "Writer", where: format) {
                    $0.fetchLimit = 2
                }
                #expect(page == Array(names.prefix(2)), "\(format)")
            }
        }
    }
}
