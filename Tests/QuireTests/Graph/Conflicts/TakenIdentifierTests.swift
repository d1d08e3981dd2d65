import Quire
import QuireTestSupport
import Testing

/// Another process has given its rows the identifiers that are reserved here.
@MainActor @Suite struct TakenIdentifierTests {
    @Test func anIdentifierKnownFromAnothersRowIsNotGivenToANewObject() throws {
        let rivals = try Rivals(.store)
        let first = try rivals.new("Book", ["title": "first"])
        try rivals.save()
        for title in ["theirs 1", "theirs 2"] {
            let book = try rivals.there.insertObject(entityName: "Book")
            book["title"] = .string(title)
        }
        try rivals.there.save()
        let read = try rivals.here.fetch(FetchRequest("Book")).map { $0 }
        #expect(read.count == 3)
        for round in 0..<3 {
            let new = try rivals.new("Book", ["title": .string("ours \(round)")])
            first.add(new, to: "sequels")
            try rivals.save()
            #expect(!read.contains(new) && !read.map(\.objectID).contains(new.objectID))
            #expect(rivals.here.object(with: new.objectID) === new)
        }
        #expect(rivals.here.registeredObjects.count <= 6)
        #expect(
            read.map { $0.string("title") ?? "" }.sorted() == ["first", "theirs 1", "theirs 2"])
        try rivals.expectWhole(rivals.here)
    }
}
