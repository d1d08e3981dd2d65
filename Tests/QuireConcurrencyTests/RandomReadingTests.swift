import QuireTestSupport
import Testing

@testable import Quire

/// Random edits, saves that succeed and fail, and reading in the middle of them, over the parent of a document's context:
/// whoever reads sees what was saved to the parent, with its own edits over it, and never a part.
@MainActor @Suite struct RandomReadingTests {
    @MainActor final class Run {
        let stack: TestStack
        let parent: QueueConfinedContext
        var child: ManagedObjectContext
        /// What the store has, what was saved to the parent, and what the child sees.
        var stored = LibraryGraph()
        var saved = LibraryGraph()
        var seen = LibraryGraph()
        var random: SeededRandom
        /// Objects that the child has read.
        var held: [ManagedObject] = []
        let comment: Comment

        init(seed: UInt64) throws {
            // Every other one has derived attributes.
            stack = try TestStack(
                seed % 2 == 0 ? FixtureModels.derivedLibrary : FixtureModels.library)
            parent = stack.documentParent()
            child = .mainQueue(parent: parent)
            random = SeededRandom(seed: seed)
            comment = "seed \(seed)"
        }

        func edit() throws { try seen.edit(child, &random) }

        func save() throws {
            try child.save()
            saved = seen
        }

        func step() throws {
            switch Int.random(in: 0..<14, using: &random) {
            case 0..<4: try edit()
            case 4: try save()
            case 5:
                child.rollback()
                seen = saved
            case 6:
                // Discarded, with what is unsaved in it.
                held = []
                child = .mainQueue(parent: parent)
                seen = saved
            case 7:
                // The parent's own objects are changed, while the child has nothing unsaved.
                try save()
                let (graph, random) = try parent.performAndWait { [saved, random] context in
                    var (saved, random) = (saved, random)
                    try saved.edit(context, &random)
                    return (saved, random)
                }
                (saved, seen, self.random) = (graph, graph, random)
                child.refreshAllObjects()
            case 8:
                // Another child.
                try save()
                let sibling = ManagedObjectContext.mainQueue(parent: parent)
                for _ in 0..<2 { try seen.edit(sibling, &random) }
                try sibling.save()
                saved = seen
                child.refreshAllObjects()
            case 9:
                // The parent's objects are in use for a while, so that children read these.
                let uses = Bool.random(using: &random)
                try parent.performAndWait { context in
                    context.retainsRegisteredObjects = uses
                    if uses {
                        _ = try context.fetch(FetchRequest("Book")).map {
                            $0["title", as: String.self]
                        }
                    }
                }
            case 10:
                let undoes = Bool.random(using: &random)
                parent.performAndWait { $0.undoManager = undoes ? UndoManager() : nil }
            default: try saveParent()
            }
        }

        /// Reads as somebody who has read nothing yet, and as the child.
        func read() throws {
            let reader = ManagedObjectContext.mainQueue(parent: parent)
            if Bool.random(using: &random) {
                try saved.expect(in: reader, comment)
            } else {
                try saved.expectRequest(in: reader, comment, &random)
            }
            if Bool.random(using: &random) { held = try seen.expect(in: child, comment) }
        }

        // MARK: Saving

        /// Where the save of the parent stops until what happens meanwhile is over.
        private enum Stop: CaseIterable, Sendable {
            case beforeWriting, afterWriting, nowhere
        }

        private func saveParent() throws {
            // Whoever reads waits while the parent's objects have the changes.
            let stop =
                parent.writeBehindBuffer.isBuffering
                ? Stop.allCases.randomElement(using: &random) ?? .nowhere : .nowhere
            let fails = stop == .beforeWriting && Bool.random(using: &random)
            let atStart = saved
            let save = HeldSave(parent) { context, stopHere in
                try context.save(evenIfUnchanged: true) { changes in
                    if stop == .beforeWriting { stopHere() }
                    if fails { throw QuireError(.outOfSpace, "full") }
                    let derived = try context.source.save(changes)
                    if stop == .afterWriting { stopHere() }
                    return derived
                }
            }
            if stop == .nowhere {
                // As it happens to come: nothing is saved to the parent, so that it is known what readers see.
                repeat {
                    try edit()
                    try read()
                } while !save.hasEnded
            } else {
                save.waitUntilStopped()
                for _ in 0..<Int.random(in: 1..<6, using: &random) {
                    if Int.random(in: 0..<3, using: &random) == 0 {
                        try self.save(during: save)
                    } else {
                        try edit()
                    }
                    try read()
                }
            }
            let hasFailed = save.end() != nil
            #expect(hasFailed == fails, comment)
            if !fails { stored = atStart }
            try stored.expect(in: stack.mainContext(), comment)
        }

        /// Saves the child. If that takes the parent's objects, it waits for the save that is held, which goes on then.
        private func save(during held: HeldSave) throws {
            try child.save(evenIfUnchanged: false) { [parent] changes in
                if !parent.writeBehindBuffer.take(changes, isNoted: true) {
                    held.goOn()
                    _ = try parent.save(changes)
                }
                return []
            }
            saved = seen
        }

        /// Saves everything, and compares what the store has.
        func finish() throws {
            try save()
            parent.performAndWait { context in
                context.retainsRegisteredObjects = false
                context.undoManager = nil
            }
            try parent.performWithoutObjectsAndWait { try $0.save() }
            stored = saved
            try stored.expect(in: stack.mainContext(), comment)
            #expect(parent.writeBehindBuffer.isBuffering)
        }
    }

    /// Seeds are arguments, so that a failure names its own: `QUIRE_SEED` set to it repeats the run first.
    @Test(.timeLimit(.minutes(10)), arguments: SeededRandom.seeds(60))
    func readersSeeWhatWasSavedToTheParent(seed: UInt64) throws {
        let run = try Run(seed: seed)
        for _ in 0..<6 { try run.edit() }
        for _ in 0..<40 {
            try run.step()
            try run.read()
        }
        try run.finish()
    }
}
