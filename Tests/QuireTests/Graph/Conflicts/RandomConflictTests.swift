import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Two contexts edit the same small graph at random and save under every policy. After each save that succeeds
/// nothing leads to an object that is gone, both sides of every link agree, and memory is what the store has.
@MainActor @Suite struct RandomConflictTests {
    @MainActor final class Run {
        let rivals: Rivals
        var random: SeededRandom
        /// The greatest year of a book so far.
        var latestYear: Int64 = 5
        let seed: UInt64

        init(_ kind: RivalKind, _ policy: MergePolicy, seed: UInt64) throws {
            rivals = try Rivals(kind, policy: policy)
            self.seed = seed
            random = SeededRandom(seed: seed)
            for number in 0..<4 {
                _ = try rivals.new("Author", ["name": .string("author \(number)")])
                _ = try rivals.new("Book", ["title": .string("book \(number)")])
                _ = try rivals.new("Person", ["name": .string("person \(number)")])
            }
            for number in 0..<3 {
                _ = try rivals.new("Tag", ["name": .string("tag \(number)")])
                _ = try rivals.new("Playlist")
                _ = try rivals.new("Song", ["title": .string("song \(number)")])
            }
            _ = try rivals.new("Shelf", ["name": "shelf"])
            try rivals.save()
        }

        func pick(_ entity: String, _ context: ManagedObjectContext) throws -> ManagedObject? {
            let found = try context.fetch(FetchRequest(entity))
            return found.isEmpty ? nil : found[Int.random(in: 0..<found.count, using: &random)]
        }

        func edit(_ context: ManagedObjectContext) throws {
            let number = Int.random(in: 0..<5, using: &random)
            switch Int.random(in: 0..<16, using: &random) {
            case 0:
                try context.insertObject(entityName: "Author")["name"] = "new"
            case 1:
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "new \(number)"
                book["author"] = try pick("Author", context)
            case 2: try context.insertObject(entityName: "Tag")["name"] = "tag \(number)"
            case 3: try pick("Author", context)?["name"] = "name \(number)"
            case 4: try pick("Book", context)?["title"] = "title \(number)"
            case 5: try pick("Book", context)?["year"] = Int64(number)
            case 6: try pick("Tag", context)?["name"] = "tag \(number)"
            case 7:
                let author = number == 0 ? nil : try pick("Author", context)
                try pick("Book", context)?["author"] = author
            case 8:
                guard let book = try pick("Book", context), let tag = try pick("Tag", context)
                else { return }
                if book.objectIDs("tags").contains(tag.objectID) {
                    tag.remove(book, from: "books")
                } else {
                    book.add(tag, to: "tags")
                }
            case 9, 10:
                guard let list = try pick("Playlist", context), let song = try pick("Song", context)
                else { return }
                let count = list.objectIDs("songs").filter { $0 != song.objectID }.count
                list.insert(song, into: "songs", at: Int.random(in: 0...count, using: &random))
            case 11:
                let spouse = number == 0 ? nil : try pick("Person", context)
                try pick("Person", context)?["spouse"] = spouse
            case 12:
                guard let shelf = try pick("Shelf", context), let book = try pick("Book", context)
                else { return }
                let count = shelf.objectIDs("books").filter { $0 != book.objectID }.count
                shelf.insert(book, into: "books", at: Int.random(in: 0...count, using: &random))
            case 13:
                guard let tag = try pick("Tag", context) else { return }
                try pick("Shelf", context)?.add(tag, to: "favourites")
            case 14:
                let entity = ["Author", "Tag", "Playlist", "Song", "Person"][number]
                if let object = try pick(entity, context) { context.delete(object) }
            default:
                if let object = try pick("Book", context) { context.delete(object) }
            }
        }

        func round() throws {
            rivals.there.reset()
            rivals.there.mergePolicy = rivals.here.mergePolicy
            for _ in 0..<Int.random(in: 0...3, using: &random) { try edit(rivals.here) }
            for _ in 0..<Int.random(in: 1...4, using: &random) { try edit(rivals.there) }
            for _ in 0..<Int.random(in: 0...3, using: &random) { try edit(rivals.here) }
            if try save({ try self.rivals.there.save() }) {
                try rivals.expectWhole(rivals.stack.mainContext(), "seed \(seed), there")
            } else {
                rivals.there.reset()
            }
            if try save({ try self.rivals.save() }) {
                #expect(!rivals.here.hasChanges)
                try rivals.expectWhole(rivals.stack.mainContext(), "seed \(seed), stored")
            } else {
                rivals.here.rollback()
            }
            // What this side has not read again may be old; what was in conflict or saved must not be.
            try expectSavedIsFresh()
            rivals.here.parent?.performAndWait { $0.reset() }
            rivals.here.reset()
        }

        /// Whether a save succeeded; the failures that conflicts may lead to are none.
        private func save(_ body: () throws -> Void) throws -> Bool {
            do {
                try body()
                return true
            } catch let error as QuireError
                where [.validation, .deleteDenied, .mergeConflict, .constraintConflict].contains(
                    error.code)
            {
                if rivals.here.mergePolicy !== MergePolicy.error, !rivals.isNested {
                    #expect(error.code != .mergeConflict, "seed \(seed): \(error)")
                    #expect(error.code != .constraintConflict, "seed \(seed): \(error)")
                }
                return false
            }
        }

        /// Objects whose version here is the stored one have the stored values.
        private func expectSavedIsFresh() throws {
            if rivals.isNested { return }
            let fresh = rivals.stack.mainContext()
            for entity in ["Author", "Book", "Tag", "Person", "Song", "Playlist", "Shelf"] {
                for stored in try fresh.fetch(FetchRequest(entity)) {
                    guard let object = rivals.here.registeredObject(for: stored.objectID),
                        try rivals.stack.coordinator.store.row(for: stored.objectID)?.version
                            == object.version
                    else { continue }
                    for slot in stored.resolvedEntity.slots {
                        #expect(
                            stored.value(at: slot.index) == object.value(at: slot.index),
                            "seed \(seed): \(object).\(slot.name)")
                    }
                }
            }
        }
    }

    @Test(
        arguments: [MergePolicy.error] + MergePolicy.resolving,
        SeededRandom.seeds(24)
    )
    func twoContextsKeepTheGraphWhole(policy: MergePolicy, seed: UInt64) throws {
        let kind = RivalKind.allCases[Int(seed % 3)]
        let run = try Run(kind, policy, seed: seed)
        for _ in 0..<10 { try run.round() }
    }

    /// Contexts that have read everything before others save, and resolve, see what is stored.
    @Test(
        arguments: MergePolicy.resolving, SeededRandom.seeds(24)
    )
    func resolvedMemoryEqualsTheStore(policy: MergePolicy, seed: UInt64) throws {
        let run = try Run(seed % 2 == 0 ? .context : .store, policy, seed: seed)
        var held: [ManagedObject] = []
        for _ in 0..<10 {
            held = try ["Author", "Book", "Tag", "Person", "Song", "Playlist", "Shelf"].flatMap {
                try run.rivals.here.fetch(FetchRequest($0)).map { $0 }
            }
            for object in held {
                for name in object.resolvedEntity.relationships where name.isToMany {
                    _ = object.objectIDs(name.name)
                }
            }
            try run.conflictOverALink()
        }
        #expect(!held.isEmpty)
    }
}

extension RandomConflictTests.Run {
    /// Random edits on both sides, and one link in conflict for certain: then everything is read again.
    func conflictOverALink() throws {
        guard let book = try pick("Book", rivals.here) else { return }
        let known = book.object("author")?.objectID
        rivals.there.reset()
        rivals.there.mergePolicy = rivals.here.mergePolicy
        for _ in 0..<3 { try edit(rivals.there) }
        let theirs = rivals.theirs(book)
        let others = try rivals.there.fetch(FetchRequest("Author")).filter {
            $0 != theirs.object("author") && $0.objectID != known
        }
        guard !theirs.isDeleted, let author = others.first else { return rivals.there.reset() }
        theirs["author"] = author
        for _ in 0..<3 { try edit(rivals.here) }
        // A value that it never had: otherwise it may not be in conflict.
        latestYear += Int64.random(in: 1..<1000, using: &random)
        book["year"] = latestYear
        do {
            try rivals.there.save()
        } catch {
            return rivals.there.reset()
        }
        guard !book.isDeleted, book.managedObjectContext != nil else { return }
        do {
            try rivals.save()
            try rivals.expectWhole(rivals.here, "seed \(seed)")
        } catch let error as QuireError {
            #expect(
                [.validation, .deleteDenied].contains(error.code), "seed \(seed): \(error)")
            rivals.here.reset()
        }
    }
}
