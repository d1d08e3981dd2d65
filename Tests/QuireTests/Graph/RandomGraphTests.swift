import Foundation
import Quire
import QuireTestSupport
import Testing

/// Random edits, undo, redo, saves and rollbacks, compared after every step with a graph of plain values.
@MainActor @Suite struct RandomGraphTests {
    /// The graph as plain values. Objects have numbers; an owner's order is that of `shelves`.
    struct Reference: Equatable {
        var titles: [Int: String] = [:]
        var authors: Set<Int> = []
        var authorOf: [Int: Int] = [:]
        var tags: Set<Int> = []
        var tagsOf: [Int: Set<Int>] = [:]
        var shelves: [Int: [Int]] = [:]

        mutating func removeBook(_ book: Int) {
            titles[book] = nil
            authorOf[book] = nil
            tagsOf[book] = nil
            for shelf in shelves.keys { shelves[shelf]?.removeAll { $0 == book } }
        }
    }

    @MainActor final class Run {
        let stack: TestStack
        let context: ManagedObjectContext
        var random: SeededRandom
        var objects: [Int: ManagedObject] = [:]
        var next = 0
        var state = Reference()
        var saved = Reference()
        var undoStack: [Reference] = []
        var redoStack: [Reference] = []

        init(seed: UInt64, arrangement: ContextArrangement) throws {
            stack = try TestStack()
            context = stack.context(arrangement)
            context.undoManager = UndoManager()
            random = SeededRandom(seed: seed)
        }

        func new(_ entity: String) throws -> Int {
            next += 1
            objects[next] = try context.insertObject(entityName: entity)
            return next
        }

        func object(_ number: Int) throws -> ManagedObject { try #require(objects[number]) }

        func pick(_ numbers: some Collection<Int>) -> Int? {
            numbers.sorted().randomElement(using: &random)
        }

        /// One random user event. Returns false if it did nothing.
        func edit() throws -> Bool {
            switch Int.random(in: 0..<12, using: &random) {
            case 0, 1:
                let book = try new("Book")
                let title = "title \(next)"
                try object(book)["title"] = title
                state.titles[book] = title
            case 2:
                let author = try new("Author")
                try object(author)["name"] = "name"
                state.authors.insert(author)
            case 3:
                let tag = try new("Tag")
                try object(tag)["name"] = "tag \(next)"
                state.tags.insert(tag)
            case 4:
                let shelf = try new("Shelf")
                state.shelves[shelf] = []
            case 5:
                guard let book = pick(state.titles.keys) else { return false }
                let title = "title \(Int.random(in: 0..<1000, using: &random))"
                if state.titles[book] == title { return false }
                try object(book)["title"] = title
                state.titles[book] = title
            case 6:
                guard let book = pick(state.titles.keys) else { return false }
                let author = Bool.random(using: &random) ? pick(state.authors) : nil
                if state.authorOf[book] == author { return false }
                try object(book)["author"] = author.map { try object($0) }
                state.authorOf[book] = author
            case 7:
                guard let book = pick(state.titles.keys), let tag = pick(state.tags) else {
                    return false
                }
                if state.tagsOf[book]?.contains(tag) == true {
                    try object(tag).remove(object(book), from: "books")
                    state.tagsOf[book]?.remove(tag)
                } else {
                    try object(book).add(object(tag), to: "tags")
                    state.tagsOf[book, default: []].insert(tag)
                }
            case 8:
                guard let book = pick(state.titles.keys), let shelf = pick(state.shelves.keys)
                else {
                    return false
                }
                let before = state.shelves
                for other in state.shelves.keys { state.shelves[other]?.removeAll { $0 == book } }
                let count = state.shelves[shelf]?.count ?? 0
                let index = Int.random(in: 0...count, using: &random)
                state.shelves[shelf]?.insert(book, at: index)
                if state.shelves == before { return false }
                try object(shelf).insert(object(book), into: "books", at: index)
            case 9:
                guard let book = pick(state.titles.keys) else { return false }
                try context.delete(object(book))
                state.removeBook(book)
            case 10:
                guard let author = pick(state.authors) else { return false }
                try context.delete(object(author))
                state.authors.remove(author)
                for (book, owner) in state.authorOf where owner == author { state.removeBook(book) }
            default:
                guard let tag = pick(state.tags) else { return false }
                try context.delete(object(tag))
                state.tags.remove(tag)
                for book in state.tagsOf.keys { state.tagsOf[book]?.remove(tag) }
            }
            return true
        }

        func step() throws {
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<12:
                let before = state
                if try edit() {
                    undoStack.append(before)
                    redoStack = []
                }
                context.processPendingChanges()
            case 12..<15:
                context.undo()
                if let previous = undoStack.popLast() {
                    redoStack.append(state)
                    state = previous
                }
            case 15..<17:
                context.redo()
                if let following = redoStack.popLast() {
                    undoStack.append(state)
                    state = following
                }
            case 17, 18:
                try stack.save(context)
                saved = state
                try compareStored()
            default:
                context.rollback()
                state = saved
                undoStack = []
                redoStack = []
            }
        }

        /// What the objects of the context say, as plain values.
        func seen(_ object: (Int) throws -> ManagedObject) throws -> Reference {
            var seen = Reference()
            let numbers = Dictionary(
                uniqueKeysWithValues: objects.map { ($0.value.objectID, $0.key) })
            func number(_ id: ManagedObjectID) throws -> Int { try #require(numbers[id]) }
            for book in state.titles.keys {
                let read = try object(book)
                seen.titles[book] = read["title", as: String.self]
                seen.authorOf[book] = try read.object("author").map { try number($0.objectID) }
                let tags = try Set(read.objectIDs("tags").map(number))
                if state.tagsOf[book] != nil || !tags.isEmpty { seen.tagsOf[book] = tags }
                for tag in tags {
                    #expect(try object(tag).objectIDs("books").contains(read.objectID))
                }
            }
            seen.authors = state.authors
            for author in state.authors {
                let books = try Set(object(author).objectIDs("books").map(number))
                #expect(books == Set(state.authorOf.filter { $0.value == author }.keys))
            }
            seen.tags = state.tags
            for shelf in state.shelves.keys {
                seen.shelves[shelf] = try object(shelf).objectIDs("books").map(number)
            }
            return seen
        }

        func compare() throws {
            #expect(try seen(object) == state)
            #expect(try context.count(for: FetchRequest("Book")) == state.titles.count)
            #expect(
                try Set(context.fetch(FetchRequest("Author")).map(\.objectID))
                    == Set(state.authors.map { try object($0).objectID }))
        }

        func compareStored() throws {
            let fresh = stack.mainContext()
            #expect(try seen { fresh.object(with: try object($0).objectID) } == state)
            #expect(try fresh.count(for: FetchRequest("Book")) == state.titles.count)
            #expect(try fresh.count(for: FetchRequest("Tag")) == state.tags.count)
        }
    }

    /// Seeds are arguments, so that a failure names its own: `QUIRE_SEED` set to it repeats the run first.
    @Test(
        arguments: ContextArrangement.allCases, SeededRandom.seeds(40)
    )
    func graphEqualsReference(arrangement: ContextArrangement, seed: UInt64) throws {
        let run = try Run(seed: seed, arrangement: arrangement)
        for _ in 0..<60 {
            try run.step()
            try run.compare()
        }
    }
}
