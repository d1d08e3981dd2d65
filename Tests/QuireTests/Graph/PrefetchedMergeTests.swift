import QuireTestSupport
import Testing

@testable import Quire

/// Contents of relationships that a fetch has read ahead, after a merge.
@MainActor @Suite struct PrefetchedMergeTests {
    @Test(arguments: [false, true], [false, true])
    func contentsReadAheadAreThoseOfTheStoreAfterAMerge(namesOwners: Bool, isTouched: Bool) throws {
        let stack = try TestStack()
        try stack.fill(books: 20, authors: 2)
        let (reader, writer) = (stack.mainContext(), stack.mainContext())
        var request = FetchRequest("Author")
        request.relationshipKeyPathsForPrefetching = ["books"]
        let results = try reader.fetch(request)
        let authors = Array(results)
        if isTouched { #expect(authors[0].objects("books").count == 10) }
        let others = try writer.fetch(FetchRequest("Author"))
        let book = others[0].objects("books")[0]
        book["author"] = others[1]
        try writer.save()
        // Another process's save names the rows that were written; a context's, also the owners.
        let owners = namesOwners ? others.map(\.objectID) : []
        reader.mergeChanges(from: ObjectIDChanges(updated: [book.objectID] + owners))
        #expect(authors.map { $0.objects("books").count } == [9, 11])
        #expect(authors[1].objects("books").contains(reader.object(with: book.objectID)))
        withExtendedLifetime(results) {}
    }
}
