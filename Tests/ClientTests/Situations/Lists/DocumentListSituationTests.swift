import Foundation
import Quire
import QuireDocuments
import QuireMacros
import Testing

/// Lists in documents: autosaving, undo beyond saves, revert, versions, imports.
@MainActor @Suite struct DocumentListSituationTests {
    /// A list of the tasks of a new document, by category and rank.
    private func document(
        _ program: @MainActor (ManagedDocument, MirroredList<ListedTask>) async throws -> Void
    ) async throws {
        try await withProgramFolder { folder in
            let document = ManagedDocument(fileURL: folder.appendingPathComponent("Tasks.quire"))
            document.autosavePolicy = .never
            try await document.create(model: .listedTasks)
            let context = document.managedObjectContext
            let project = context.addProject("Home")
            for number in 1...2 {
                context.addTask("a\(number)", "a", rank: number)
                context.addTask("b\(number)", "b", rank: number, to: project)
            }
            try await document.save()
            document.undoManager?.removeAllActions()
            let list = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category"))
            try await program(document, list)
            try await document.close(discardingChanges: true)
        }
    }

    // Rows are added while the document saves itself: they got other identifiers in the middle of an animation, and the
    // snapshot had them twice. Source: newbe.dev, “How to get a diffable snapshot from an NSFetchResultsController in iOS
    // 13?”
    @Test func autosavingWhileRowsAreAddedChangesOnlyIdentifiers() async throws {
        try await document { document, list in
            let context = document.managedObjectContext
            context.addTask("new1", "b", rank: 3)
            try list.check("one")
            async let saved: Void = document.autosave()
            context.addTask("new2", "a", rank: 0)
            try context.task("a1").title = "A1"
            try list.check("edited during the save")
            try await saved
            try list.check("saved")
            context.addTask("new3", "c")
            try await document.autosave()
            try list.check("saved again")
            #expect(list.texts == ["a: new2 A1 a2", "b: b1 b2 new1", "c: new3"])
            #expect(list.snapshot?.itemIdentifiers.contains { $0.isTemporaryID } == false)
            #expect(!document.hasUnsavedChanges)
        }
    }

    // Undo after an autosave, of a deletion whose rows the save has removed, and redo. Source: Apple, “Change Tracking and
    // Undo Operations” (Document-Based App Programming Guide for iOS).
    @Test func undoBeyondASaveIsShown() async throws {
        try await document { document, list in
            let context = document.managedObjectContext
            let before = list.texts
            context.delete(try context.project("Home"))
            try list.check("deleted")
            try await document.autosave()
            try list.check("saved")
            document.undoManager?.undo()
            try list.check("undone")
            #expect(list.texts == before)
            #expect(document.hasUnsavedChanges)
            try await document.autosave()
            try list.check("saved again")
            document.undoManager?.redo()
            try list.check("redone")
            #expect(list.texts == ["a: a1 a2"])
            document.undoManager?.undo()
            #expect(try context.project("Home").tasks.count == 2)
            try list.check("undone again")
        }
    }

    // “Revert to saved” while the list is on the screen, with insertions, deletions and texts that were typed. Source:
    // mikeabdullah.net, “Reverting NSPersistentDocuments”.
    @Test(arguments: [false, true])
    func revertingIsShown(isHeld: Bool) async throws {
        try await document { document, list in
            let context = document.managedObjectContext
            let held = isHeld ? Array(try context.fetch(ListedTask.self)) : []
            let before = list.texts
            let version = try await document.keepVersion(named: "Before")
            context.addTask("new", "c")
            try context.task("a1").title = "A1"
            try context.task("a2").category = "b"
            context.delete(try context.task("b1"))
            try await document.performBackgroundTask { background in
                background.addTask("import", "c", rank: 2)
                try background.task("b2").isDone = true
                try background.save()
            }
            try list.check("edited and imported")
            #expect(
                list.texts == ["a: A1", "b: b2! a2", "c: new import"]
                    || list.texts == ["a: A1", "b: a2 b2!", "c: new import"])
            try await document.revert()
            try list.check("reverted")
            #expect(list.texts == before)
            // The list goes on; what is saved now comes back by a version.
            context.addTask("kept", "c")
            try context.task("a1").title = "kept"
            try await document.save()
            try list.check("edited again")
            try await document.restore(version.id)
            try list.check("restored")
            #expect(list.texts == before)
            try context.task("b1").isDone = true
            try await document.save()
            try list.check("edited a third time")
            withExtendedLifetime(held) {}
        }
    }

    // A long import in the background, in parts, while the user edits the same rows and undoes that. Source:
    // AvdLee/RocketSimApp issue 814.
    @Test func anImportInPartsIsShownBesideEdits() async throws {
        try await document { document, list in
            let context = document.managedObjectContext
            try context.task("a1").isDone = true
            context.processPendingChanges()
            for part in 0..<3 {
                try await document.performBackgroundTask { background in
                    for number in 0..<20 {
                        background.addTask("i\(part).\(number)", "p\(part)", rank: number)
                    }
                    let task = try background.task("a1")
                    task.rank = 10 + part
                    task.category = "b"
                    try background.save()
                }
                try list.check("part \(part)")
                #expect(list.batchCount >= 1)
                list.forget()
                if part == 1 { try await document.autosave() }
                try list.check("part \(part), saved")
            }
            #expect(list.texts.prefix(2) == ["a: a2", "b: b1 b2 a1!"])
            #expect(list.sections.map(\.rows.count) == [1, 3, 20, 20, 20])
            document.undoManager?.undo()
            try list.check("undone")
            #expect(list.texts.prefix(2) == ["a: a2", "b: b1 b2 a1"])
        }
    }

    // The document is closed while the list is still there, and another is opened for the same file. Sources:
    // oreillymedia/flapjack pull requests 41 and 44; vokal/Vokoder issue 64.
    @Test func aListOutlivesItsDocument() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Tasks.quire")
            let document = ManagedDocument(fileURL: url)
            try await document.create(model: .listedTasks)
            document.managedObjectContext.addTask("a")
            let list = try MirroredList(
                tasks: document.managedObjectContext.tasks(SortOrdering("title")))
            let reader = try #require(list.controller.fetchedObjects)
            try await document.close()
            // There is nothing to show, and the list is told so.
            #expect(list.errors.map(\.code) == [.invalidState])
            #expect(list.controller.fetchedObjects == nil)
            #expect(list.controller.sections == nil)
            #expect(list.log == [])
            #expect(reader.count == 1)
            #expect(throws: QuireError.self) { try list.controller.performFetch() }
            let again = ManagedDocument(fileURL: url)
            try await again.open(model: .listedTasks)
            let other = try MirroredList(
                tasks: again.managedObjectContext.tasks(SortOrdering("title")))
            #expect(other.texts == ["a"])
            again.managedObjectContext.addTask("b")
            try other.check("edited")
            try await again.close()
        }
    }
}
