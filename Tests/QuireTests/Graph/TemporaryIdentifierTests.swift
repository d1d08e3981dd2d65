import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Temporary identifiers that a program uses after their objects were saved.
@MainActor @Suite struct TemporaryIdentifierTests {
    enum Kind: CaseIterable, Sendable { case sqlite, inMemory }

    /// Keeps the stores' folder.
    private let stack: TestStack

    init() throws { stack = try TestStack() }

    private func coordinator(_ kind: Kind) throws -> PersistentStoreCoordinator {
        switch kind {
        case .sqlite: return stack.coordinator
        case .inMemory:
            let container = try PersistentContainer(
                managedObjectModel: FixtureModels.library,
                persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
            return container.persistentStoreCoordinator
        }
    }

    private func context(
        _ arrangement: ContextArrangement, _ coordinator: PersistentStoreCoordinator
    ) -> ManagedObjectContext {
        if arrangement == .direct { return .mainQueue(coordinator: coordinator) }
        let parent = QueueConfinedContext(coordinator: coordinator)
        parent.performAndWait { $0.isWriteBehindParent = arrangement == .inDocument }
        return .mainQueue(parent: parent)
    }

    private func book(
        _ title: String, _ author: ManagedObject?, in context: ManagedObjectContext
    ) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        book["author"] = author
        return book
    }

    private func request(_ predicate: QueryPredicate) -> FetchRequest<ManagedObject> {
        FetchRequest("Book", predicate: predicate, sortOrderings: [SortOrdering("title")])
    }

    // MARK: Predicates

    @Test(arguments: Kind.allCases, ContextArrangement.allCases)
    func predicateOnUnsavedObjectFindsTheSameAfterTheSave(
        kind: Kind, arrangement: ContextArrangement
    ) throws {
        let coordinator = try coordinator(kind)
        let context = context(arrangement, coordinator)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        let emma = try book("Emma", author, in: context)
        _ = try book("other", nil, in: context)
        let predicates = try [
            QueryPredicate(format: "author == %@", author),
            QueryPredicate(format: "author == %@", author.objectID),
            QueryPredicate(format: "author IN %@", [author]),
            QueryPredicate(format: "SELF == %@", emma),
            QueryPredicate(format: "SELF IN %@", [emma.objectID]),
            QueryPredicate(format: "author.books CONTAINS %@", emma),
            QueryPredicate(
                format: "SUBQUERY(author.books, $b, $b == %@).@count == 1", emma.objectID),
        ]
        func check(_ note: Comment, _ context: ManagedObjectContext, _ emma: ManagedObject) throws {
            for predicate in predicates {
                let found = try context.fetch(request(predicate)) as [ManagedObject]
                #expect(found == [emma], "\(note): \(predicate)")
                #expect(try context.count(for: request(predicate)) == 1, "\(note): \(predicate)")
                #expect(try predicate.evaluate(with: emma), "\(note): \(predicate)")
            }
        }
        try check("unsaved", context, emma)
        try context.save()
        try check("saved", context, emma)
        // In memory, with changes that every object is tested for.
        emma["title"] = "Emma 2"
        author["name"] = "B"
        try check("edited", context, emma)
        try context.parent?.performWithoutObjectsAndWait { try $0.save() }
        try check("saved to the store", context, emma)
        try context.save()
        try context.parent?.performWithoutObjectsAndWait { try $0.save() }
        let other = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try check("elsewhere", other, other.object(with: emma.objectID))
    }

    @Test func predicateOnUnsavedObjectSurvivesAFailedSave() throws {
        let context = stack.mainContext()
        let author = try context.insertObject(entityName: "Author")
        let emma = try book("Emma", author, in: context)
        let predicate = try QueryPredicate(format: "author == %@", author)
        #expect(throws: QuireError.self) { try context.save() }
        #expect(try predicate.evaluate(with: emma))
        author["name"] = "A"
        let rival = stack.mainContext()
        try rival.insertObject(entityName: "Tag")["name"] = "t"
        try rival.save()
        let tag = try context.insertObject(entityName: "Tag")
        tag["name"] = "t"
        // The store refuses it after the identifiers were given.
        #expect(throws: QuireError.self) { try context.save() }
        #expect(try predicate.evaluate(with: emma))
        #expect(try context.count(for: request(predicate)) == 1)
        context.delete(tag)
        try context.save()
        #expect(try predicate.evaluate(with: emma))
        #expect(try context.count(for: request(predicate)) == 1)
    }

    @Test(arguments: ContextArrangement.allCases)
    func controllerOnUnsavedObjectFollowsChangesAfterTheSave(
        arrangement: ContextArrangement
    ) throws {
        let context = context(arrangement, stack.coordinator)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        let emma = try book("Emma", author, in: context)
        let temporary = emma.objectID
        let list = FetchedResultsController(
            fetchRequest: request(try QueryPredicate(format: "author == %@", author)),
            managedObjectContext: context)
        try list.performFetch()
        #expect(list.fetchedObjects?.count == 1)
        try stack.save(context)
        emma["title"] = "renamed"
        let second = try book("second", author, in: context)
        context.processPendingChanges()
        #expect(list.fetchedObjects.map(Array.init) == [emma, second])
        #expect(list.indexPath(for: temporary) == list.indexPath(for: emma.objectID))
        #expect(list.indexPath(for: temporary) != nil)
        try stack.save(context)
        second["author"] = nil
        context.processPendingChanges()
        #expect(list.fetchedObjects.map(Array.init) == [emma])
    }

    @Test func controllerOnObjectOfAnotherContextFollowsItsSave() throws {
        let (context, other) = (stack.mainContext(), stack.mainContext())
        let author = try other.insertObject(entityName: "Author")
        author["name"] = "A"
        _ = try book("Emma", author, in: other)
        let list = FetchedResultsController(
            fetchRequest: request(try QueryPredicate(format: "author == %@", author)),
            managedObjectContext: context)
        try list.performFetch()
        #expect(list.fetchedObjects?.isEmpty == true)
        context.automaticallyMergesChangesFromParent = false
        let changes = other.pendingObjectIDChanges
        try other.save()
        // The notification may name the objects by their temporary identifiers.
        context.mergeChanges(from: changes)
        #expect(list.fetchedObjects?.count == 1)
    }

    // MARK: Requests, rows and texts

    @Test(arguments: Kind.allCases)
    func batchRequestsTakeTemporaryIdentifiersAfterTheSave(kind: Kind) throws {
        let context = context(.direct, try coordinator(kind))
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        let emma = try book("Emma", author, in: context)
        let (authorID, bookID) = (author.objectID, emma.objectID)
        let ofAuthor = try QueryPredicate(format: "author == %@", authorID)
        var update = BatchUpdateRequest(entityName: "Book", propertiesToUpdate: ["year": 1815])
        update.predicate = ofAuthor
        let delete = BatchDeleteRequest(objectIDs: [bookID])
        let row: [String: AttributeValue] = [
            "title": .string("row"), "author": .objectID(authorID),
        ]
        try context.save()
        let insert = BatchInsertRequest(entityName: "Book", objects: [row])
        #expect(try context.execute(insert).count == 1)
        #expect(try context.count(for: request(ofAuthor)) == 2)
        #expect(try context.execute(update).count == 2)
        #expect(try context.execute(delete).count == 1)
        #expect(try context.count(for: request(ofAuthor)) == 1)
        var specification = FetchSpecification("Book")
        specification.predicate = ofAuthor
        #expect(try context.execute(BatchDeleteRequest(fetchRequest: specification)).count == 1)
    }

    @Test func uriOfATemporaryIdentifierFindsTheSavedObject() throws {
        let context = stack.mainContext()
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        let (temporary, uri) = (author.objectID, author.objectID.uriRepresentation)
        let unsaved = #expect(throws: QuireError.self) { try stack.coordinator.objectID(for: uri) }
        #expect(unsaved?.code == .notFound)
        #expect(throws: QuireError.self) { try JSONEncoder().encode([temporary]) }
        try context.save()
        #expect(try stack.coordinator.objectID(for: uri) == author.objectID)
        let condition = try QueryPredicate(format: "SELF == %@", uri)
        #expect(try context.fetch(FetchRequest("Author", predicate: condition)) == [author])
        let data = try JSONEncoder().encode([temporary])
        let decoder = JSONDecoder()
        decoder.userInfo[.persistentStoreCoordinator] = stack.coordinator
        #expect(try decoder.decode([ManagedObjectID].self, from: data) == [author.objectID])
        // Another process's means nothing here.
        let foreign = uri.prefix(while: { $0 != "-" })
        for text in ["\(foreign)-G0000000", "\(foreign)", "\(foreign)-", "\(foreign)-\(foreign)"] {
            #expect(throws: QuireError.self) { try stack.coordinator.objectID(for: text) }
        }
    }
}
