import Foundation
import Quire
import QuireSync
import Testing

/// Undo of what was synchronized already: it is a change like any other, which the other machine gets.
@MainActor @Suite struct UndoAndSyncSituationTests {
    /// Two machines with a list each, and an undo manager on the first.
    @MainActor private final class Machines {
        let containers: [PersistentContainer]
        private let syncs: [SyncContainer]

        init(in folder: URL) async throws {
            var containers: [PersistentContainer] = []
            var syncs: [SyncContainer] = []
            for name in ["a", "b"] {
                let container = try await SituationStore.sqlite.container(
                    UndoSituation.model, in: folder, named: name)
                containers.append(container)
                syncs.append(
                    try SyncContainer(
                        coordinator: container.persistentStoreCoordinator,
                        transport: FolderTransport(
                            folder: folder.appendingPathComponent("shared").path, creates: true)))
            }
            (self.containers, self.syncs) = (containers, syncs)
            try await syncs[0].create(named: "List")
            try await syncs[1].join()
            containers[0].viewContext.undoManager = UndoManager()
        }

        func exchange() async throws {
            for _ in 0..<2 { for sync in syncs { _ = try await sync.synchronize() } }
            for container in containers { container.viewContext.refreshAllObjects() }
        }
    }

    private func withMachines(
        _ program:
            @MainActor (Machines, ManagedObjectContext, ManagedObjectContext) async throws ->
            Void
    ) async throws {
        try await withProgramFolder { folder in
            try FileManager.default.createDirectory(
                at: folder.appendingPathComponent("shared"), withIntermediateDirectories: true)
            let machines = try await Machines(in: folder)
            let contexts = machines.containers.map(\.viewContext)
            try await program(machines, contexts[0], contexts[1])
            for container in machines.containers { try container.close() }
        }
    }

    /// A folder with its notes is deleted and synchronized, and the deletion undone. The other machine has all of it again.
    /// satoren/y_ex pull request 252 (undo in a shared document).
    @Test func anUndoneDeletionComesBackOnTheOtherMachine() async throws {
        try await withMachines { machines, here, there in
            let folder = try UndoSituation.named("Folder", "Home", in: here)
            let tag = try UndoSituation.named("Tag", "red", in: here)
            for text in ["a", "b"] {
                let note = try UndoSituation.note(text, in: here, folder: folder)
                note["tags"] = Set([tag])
                note["lines"] = try ["1", "2"].map { number in
                    let line = try here.insertObject(entityName: "Line")
                    line["text"] = text + number
                    return line
                }
            }
            try here.save()
            try await machines.exchange()
            #expect(try UndoSituation.texts(there) == ["a", "b"])
            here.delete(folder)
            try here.save()
            try await machines.exchange()
            #expect(try UndoSituation.texts(there).isEmpty)
            here.undo()
            try here.save()
            try await machines.exchange()
            for context in [here, there] {
                let read = try #require(try context.fetch(FetchRequest("Folder")).first)
                #expect(read.labels("notes") == ["a", "b"])
                for note in read["notes"] as? Set<ManagedObject> ?? [] {
                    #expect(note.labels("tags") == ["red"])
                    #expect(note.labels("lines") == ["1", "2"].map { (note.label ?? "") + $0 })
                }
            }
        }
    }

    /// A change is undone after the other machine has changed another property of the object and added to its folder.
    /// satoren/y_ex pull request 252; realm/realm-swift issue 1572.
    @Test func anUndoneChangeLeavesTheOtherMachinesChanges() async throws {
        try await withMachines { machines, here, there in
            let folder = try UndoSituation.named("Folder", "Home", in: here)
            let note = try UndoSituation.note("one", in: here, folder: folder)
            try here.save()
            note["text"] = "two"
            _ = try UndoSituation.note("mine", in: here, folder: folder)
            try here.save()
            try await machines.exchange()
            let theirs = try #require(
                try there.fetch(
                    FetchRequest<ManagedObject>(
                        "Note", predicate: QueryPredicate(format: "text == %@", "two"))
                ).first)
            theirs["pages"] = 9
            _ = try UndoSituation.note(
                "theirs", in: there, folder: theirs["folder"] as? ManagedObject)
            try there.save()
            try await machines.exchange()
            here.undo()
            #expect(note.label == "one" && note["pages"] as? Int == 9)
            try here.save()
            try await machines.exchange()
            for context in [here, there] {
                #expect(try UndoSituation.texts(context) == ["one", "theirs"])
                let read = try #require(try context.fetch(FetchRequest("Folder")).first)
                #expect(read.labels("notes") == ["one", "theirs"])
            }
            #expect(theirs.label == "one" && theirs["pages"] as? Int == 9)
        }
    }
}
