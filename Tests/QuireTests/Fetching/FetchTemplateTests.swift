import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Requests that models carry under a name.
@MainActor @Suite struct FetchTemplateTests {
    private static let model: ManagedObjectModel = {
        var model = FixtureModels.library
        var template = FetchRequestTemplate(name: "booksBy", entityName: "Book")
        template.predicateFormat = "author.name == $NAME AND year IN $YEARS"
        template.fetchLimit = 5
        var all = FetchRequestTemplate(name: "everyTitle", entityName: "Book")
        all.resultType = "2"
        all.predicateFormat = "SUBQUERY(tags, $t, $t.name == $TAG).@count > 0"
        model.fetchRequestTemplates = [template, all]
        return model
    }()

    @Test func valuesTakeThePlaceOfVariables() throws {
        let request = try Self.model.fetchRequestFromTemplate(
            withName: "booksBy", substitutionVariables: ["NAME": "a1", "YEARS": [7, 28]])
        #expect(request.fetchLimit == 5)
        #expect(request.sortOrderings.isEmpty)
        let stack = try TestStack(Self.model)
        try stack.fill(books: 10, authors: 3)
        #expect(
            try stack.mainContext().fetch(FetchRequest<ManagedObject>(request)).map {
                $0["title", as: String.self]
            } == ["b1", "b4"])
    }

    @Test func settingsAreTheRequests() throws {
        let template = FetchTemplate("some", of: "Book", where: "year > 0")
            .sorted(by: "author.name", ascending: false).sorted(by: "title").limit(2).offset(1)
            .batchSize(20).prefetching("author", "tags.books").returnsDistinctResults()
            .includesSubentities(false)
        var model = FixtureModels.library
        model.fetchRequestTemplates = [template.request]
        for request in [
            try model.fetchRequestFromTemplate(withName: "some"),
            try #require(try model.fetchRequestTemplate(forName: "some")),
        ] {
            #expect(
                request.sortOrderings == [
                    SortOrdering("author.name", ascending: false), SortOrdering("title"),
                ])
            #expect(request.fetchLimit == 2)
            #expect(request.fetchOffset == 1)
            #expect(request.fetchBatchSize == 20)
            #expect(request.relationshipKeyPathsForPrefetching == ["author", "tags.books"])
            #expect(request.returnsDistinctResults)
            #expect(!request.includesSubentities)
        }
        let stack = try TestStack(model)
        try stack.fill(books: 6, authors: 3)
        let request = try model.fetchRequestFromTemplate(withName: "some")
        #expect(
            try stack.mainContext().fetch(FetchRequest<ManagedObject>(request)).map {
                $0["title", as: String.self]
            } == ["b5", "b1"])
    }

    @Test func variablesOfSubqueriesAreNotTheTemplates() throws {
        let template = Self.model.fetchRequestTemplates[1]
        #expect(try template.variables == ["TAG"])
        #expect(try Self.model.fetchRequestTemplates[0].variables == ["NAME", "YEARS"])
        #expect(
            try template.request(substitutionVariables: ["TAG": "t"]).resultType == .dictionaries)
    }

    @Test func templatesComeWithTheirVariables() throws {
        let request = try #require(try Self.model.fetchRequestTemplate(forName: "booksBy"))
        #expect(request.predicate?.format == "author.name == $NAME AND year IN $YEARS")
        #expect(try Self.model.fetchRequestTemplate(forName: "none") == nil)
    }

    @Test(arguments: [
        ("booksBy", ["NAME"], "needs a value for $YEARS"),
        ("booksBy", ["NAME", "YEARS", "NMAE"], "has no variable $NMAE; did you mean “$NAME”?"),
        ("bookBy", ["NAME"], "did you mean “booksBy”?"),
    ])
    func mistakesAreNamed(_ name: String, _ variables: [String], _ part: String) throws {
        let values = Dictionary(uniqueKeysWithValues: variables.map { ($0, "x") })
        #expect {
            try Self.model.fetchRequestFromTemplate(withName: name, substitutionVariables: values)
        } throws: {
            ($0 as? QuireError)?.message.contains(part) == true
        }
    }
}
