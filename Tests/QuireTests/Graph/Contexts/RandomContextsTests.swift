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
    @MainActor final class Run {
        let stack: TestStack
        /// From the topmost to the lowest. The middle one is on a private queue in some runs.
        let top: ManagedObjectContext
        let middle: QueueConfinedContext
        var low: ManagedObjectContext
        let other: ManagedObjectContext
        /// What the levels' contexts see, and the store.
        var stored = LibraryGraph()
        var seenByTop = LibraryGraph()
        var seenByMiddle = LibraryGraph()
        var seenByLow = LibraryGraph()
        var random: SeededRandom
        /// Objects held, so that merges find them.
        var held: [ManagedObject] = []
        /// Results held whose relationships' contents were read ahead, and nobody has asked for yet.
        var readAhead: [FetchedObjects<ManagedObject>] = []

        init(seed: UInt64) throws {
            stack = try TestStack()
            top = stack.mainContext()
            middle =
                seed.isMultiple(of: 2)
                ? QueueConfinedContext(parent: top) : QueueConfinedContext(.mainQueue(parent: top))
            low = .mainQueue(parent: middle)
            other = stack.mainContext()
            random = SeededRandom(seed: seed)
        }

        func editMiddle() throws {
            let state = try middle.performAndWait { context in
                var state = seenByMiddle
                try state.edit(context, &random)
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
            case 0..<7: try seenByLow.edit(low, &random)
            case 7, 8: try saveLow()
            case 9:
                try saveLow()
                try saveMiddle()
            case 10:
                low.rollback()
                seenByLow = seenByMiddle
            case 11:
                // Discarded, with what is unsaved in it.
                (held, readAhead) = ([], [])
                low = .mainQueue(parent: middle)
                seenByLow = seenByMiddle
            case 12:
                // The parents are edited while the child has nothing unsaved, and the child told.
                try saveLow()
                try editMiddle()
                try saveMiddle()
                try seenByTop.edit(top, &random)
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
                for _ in 0..<3 { try stored.edit(other, &random) }
                var changes = other.changes
                // Of another process's save the rows are known, and an author's is not written with a book.
                let unwritten = other.updatedObjects.filter {
                    $0.resolvedEntity.name == "Author" && $0.changedValues()["name"] == nil
                }.map(\.objectID)
                try other.save()
                if Bool.random(using: &random) {
                    changes.updated.removeAll { unwritten.contains($0) }
                }
                (seenByTop, seenByMiddle, seenByLow) = (stored, stored, stored)
                ManagedObjectContext.mergeChanges(
                    fromRemoteContextSave: changes,
                    into: [QueueConfinedContext(top), middle, QueueConfinedContext(low)])
                #expect(!top.hasChanges)
                #expect(!low.hasChanges)
            case 14:
                try saveLow()
                try saveMiddle()
                try saveTop()
                let fresh = stack.mainContext()
                try stored.expect(in: fresh)
            default:
                low.refreshAllObjects()
            }
        }

        /// Reads contents of relationships ahead in the lowest and the topmost context; some of them are then asked for after
        /// other steps.
        func readContentsAhead() throws {
            (held, readAhead) = ([], [])
            for context in [low, top] {
                if !context.hasChanges { context.refreshAllObjects() }
                for (entity, relationship) in [
                    ("Author", "books"), ("Tag", "books"), ("Shelf", "books"), ("Book", "tags"),
                ] {
                    var request = FetchRequest(entity)
                    request.relationshipKeyPathsForPrefetching = [relationship]
                    readAhead.append(try context.fetch(request))
                }
            }
        }

        func compare() throws {
            held = try seenByLow.expect(in: low)
            let expected = seenByMiddle
            try middle.performAndWait { _ = try expected.expect(in: $0) }
            try seenByTop.expect(in: top)
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

    @Test(arguments: SeededRandom.seeds(60))
    func contentsThatWereReadAheadEqualTheReference(seed: UInt64) throws {
        let run = try Run(seed: seed)
        for _ in 0..<20 {
            try run.step()
            try run.readContentsAhead()
            try run.step()
            if Bool.random(using: &run.random) { try run.step() }
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
