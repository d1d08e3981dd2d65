import Foundation
import Quire
import QuireTestSupport
import Testing

/// Random edits, saves, merges, rollbacks, undo and discarded children on three levels of contexts, with another
/// context over the same store; compared after every step with plain values.
///
/// One level at a time is worked in until it is saved or given up, so that the plain values are those of the level
/// and of what lies above it; what others do in between is the business of the steps that merge.
@MainActor @Suite struct RandomContextsTests {
    /// The graph as plain values, by identifier.
    struct Reference: Equatable {
        struct Book: Equatable {
            var title: String
            var author: ManagedObjectID?
            var tags: Set<ManagedObjectID> = []
        }

        var books: [ManagedObjectID: Book] = [:]
        var authors: Set<ManagedObjectID> = []
        var tags: Set<ManagedObjectID> = []
        var shelves: [ManagedObjectID: [ManagedObjectID]] = [:]

        mutating func remove(book: ManagedObjectID) {
            books[book] = nil
            for shelf in shelves.keys { shelves[shelf]?.removeAll { $0 == book } }
        }
    }

    @MainActor final class Run {
        let stack: TestStack
        /// From the topmost to the lowest. The middle one is on a private queue in some runs.
        let top: ManagedObjectContext
        let middle: ConfinedContext
        var low: ManagedObjectContext
        let other: ManagedObjectContext
        /// What the levels' contexts see, and the store.
        var stored = Reference()
        var seenByTop = Reference()
        var seenByMiddle = Reference()
        var seenByLow = Reference()
        var random: SeededRandom
        /// Objects held, so that merges find them.
        var held: [ManagedObject] = []

        init(seed: UInt64) throws {
            stack = try TestStack()
            top = stack.mainContext()
            middle =
                seed.isMultiple(of: 2)
                ? PrivateQueueContext(parent: top) : MainQueueContext(.mainQueue(parent: top))
            low = .mainQueue(parent: middle)
            other = stack.mainContext()
            random = SeededRandom(seed: seed)
        }

        func pick(_ ids: some Collection<ManagedObjectID>) -> ManagedObjectID? {
            ids.sorted { $0.uriRepresentation < $1.uriRepresentation }
                .randomElement(using: &random)
        }

        /// One random edit in a context, and in the plain values of what it sees.
        func edit(_ context: ManagedObjectContext, _ state: inout Reference) throws {
            func object(_ id: ManagedObjectID) -> ManagedObject { context.object(with: id) }
            func new(_ entity: String) throws -> ManagedObject {
                let object = try context.insertObject(entityName: entity)
                // So that plain values need not follow identifiers.
                try context.obtainPermanentIDs(for: [object])
                return object
            }
            switch Int.random(in: 0..<12, using: &random) {
            case 0, 1:
                let book = try new("Book")
                book["title"] = "new"
                state.books[book.objectID] = .init(title: "new")
            case 2:
                let author = try new("Author")
                author["name"] = "name"
                state.authors.insert(author.objectID)
            case 3: state.tags.insert(try new("Tag").objectID)
            case 4: state.shelves[try new("Shelf").objectID] = []
            case 5:
                guard let book = pick(state.books.keys) else { return }
                let title = "title \(Int.random(in: 0..<1000, using: &random))"
                object(book)["title"] = .string(title)
                state.books[book]?.title = title
            case 6, 7:
                guard let book = pick(state.books.keys) else { return }
                let author = Bool.random(using: &random) ? pick(state.authors) : nil
                object(book).setObject(author.map(object), forKey: "author")
                state.books[book]?.author = author
            case 8:
                guard let book = pick(state.books.keys), let tag = pick(state.tags) else { return }
                if state.books[book]?.tags.contains(tag) == true {
                    object(tag).remove(object(book), from: "books")
                    state.books[book]?.tags.remove(tag)
                } else {
                    object(book).add(object(tag), to: "tags")
                    state.books[book]?.tags.insert(tag)
                }
            case 9:
                guard let book = pick(state.books.keys), let shelf = pick(state.shelves.keys) else {
                    return
                }
                for shelf in state.shelves.keys { state.shelves[shelf]?.removeAll { $0 == book } }
                let index = Int.random(in: 0...(state.shelves[shelf]?.count ?? 0), using: &random)
                state.shelves[shelf]?.insert(book, at: index)
                object(shelf).insert(object(book), into: "books", at: index)
            case 10:
                guard let book = pick(state.books.keys) else { return }
                context.delete(object(book))
                state.remove(book: book)
            default:
                if Bool.random(using: &random), let author = pick(state.authors) {
                    context.delete(object(author))
                    state.authors.remove(author)
                    for (book, values) in state.books where values.author == author {
                        state.remove(book: book)
                    }
                } else if let tag = pick(state.tags) {
                    context.delete(object(tag))
                    state.tags.remove(tag)
                    for book in state.books.keys { state.books[book]?.tags.remove(tag) }
                }
            }
        }

        func editMiddle() throws {
            let state = try middle.performAndWait { context in
                var state = seenByMiddle
                try edit(context, &state)
                return state
            }
            seenByMiddle = state
        }

        /// The saves of one level and what the one above sees then.
        func saveLow() throws {
            try low.save()
            seenByMiddle = seenByLow
        }

        func saveMiddle() throws {
            try middle.performAndWait { try $0.save() }
            seenByTop = seenByMiddle
        }

        func saveTop() throws {
            try top.save()
            stored = seenByTop
        }

        func step() throws {
            switch Int.random(in: 0..<16, using: &random) {
            case 0..<7: try edit(low, &seenByLow)
            case 7, 8: try saveLow()
            case 9:
                try saveLow()
                try saveMiddle()
            case 10:
                low.rollback()
                seenByLow = seenByMiddle
            case 11:
                // Discarded, with what is unsaved in it.
                held = []
                low = .mainQueue(parent: middle)
                seenByLow = seenByMiddle
            case 12:
                // The parents are edited while the child has nothing unsaved, and the child told.
                try saveLow()
                try editMiddle()
                try saveMiddle()
                try edit(top, &seenByTop)
                seenByMiddle = seenByTop
                seenByLow = seenByTop
                let changes = top.changes
                middle.performAndWait { $0.mergeChanges(from: changes) }
                low.mergeChanges(from: changes)
                middle.performAndWait { $0.refreshAllObjects() }
                low.refreshAllObjects()
            case 13:
                // Everything is saved, and another context changes the store.
                try saveLow()
                try saveMiddle()
                try saveTop()
                other.refreshAllObjects()
                for _ in 0..<3 { try edit(other, &stored) }
                let changes = other.changes
                try other.save()
                (seenByTop, seenByMiddle, seenByLow) = (stored, stored, stored)
                ManagedObjectContext.mergeChanges(
                    fromRemoteContextSave: changes,
                    into: [MainQueueContext(top), middle, MainQueueContext(low)])
                #expect(!top.hasChanges)
                #expect(!low.hasChanges)
            case 14:
                try saveLow()
                try saveMiddle()
                try saveTop()
                let fresh = stack.mainContext()
                try compare(fresh, stored)
            default:
                low.refreshAllObjects()
            }
        }

        /// What a context's objects say, as plain values; both sides of relationships are compared.
        func compare(_ context: ManagedObjectContext, _ expected: Reference) throws {
            var seen = Reference()
            var all: [ManagedObject] = []
            for book in try context.fetch(FetchRequest("Book")) {
                all.append(book)
                seen.books[book.objectID] = .init(
                    title: book.string("title") ?? "", author: book.object("author")?.objectID,
                    tags: Set(book.objectIDs("tags")))
            }
            for author in try context.fetch(FetchRequest("Author")) {
                all.append(author)
                seen.authors.insert(author.objectID)
                let books = expected.books.filter { $0.value.author == author.objectID }
                #expect(Set(author.objectIDs("books")) == Set(books.keys))
            }
            for tag in try context.fetch(FetchRequest("Tag")) {
                all.append(tag)
                seen.tags.insert(tag.objectID)
                let books = expected.books.filter { $0.value.tags.contains(tag.objectID) }
                #expect(Set(tag.objectIDs("books")) == Set(books.keys))
            }
            for shelf in try context.fetch(FetchRequest("Shelf")) {
                all.append(shelf)
                seen.shelves[shelf.objectID] = shelf.objectIDs("books")
                for book in shelf.objects("books") { #expect(book.object("shelf") === shelf) }
            }
            #expect(seen == expected)
            #expect(try context.count(for: FetchRequest("Book")) == expected.books.count)
            if context === low { held = all }
        }

        func compare() throws {
            try compare(low, seenByLow)
            let expected = seenByMiddle
            try middle.performAndWait { try compare($0, expected) }
            try compare(top, seenByTop)
        }
    }

    /// Seeds are arguments, so that a failure names its own: `QUIRE_SEED` set to it repeats the run first.
    @Test(arguments: SeededRandom.seeds(60))
    func threeLevelsEqualTheReference(seed: UInt64) throws {
        let run = try Run(seed: seed)
        for _ in 0..<40 {
            try run.step()
            try run.compare()
        }
    }
}

extension ManagedObjectContext {
    /// What a save would tell.
    fileprivate var changes: ObjectIDChanges {
        ObjectIDChanges(
            inserted: insertedObjects.map(\.objectID), updated: updatedObjects.map(\.objectID),
            deleted: deletedObjects.map(\.objectID))
    }
}
