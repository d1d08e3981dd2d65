import Foundation
import Quire
import Testing

/// An app and its extension have the same store open, each with a container of its own: relationships that one changes are
/// right in the other, whether or not it had read them.
@MainActor @Suite struct OtherProgramSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Folder") {
            Attribute("name", .string)
            ToMany("notes", "Note", inverse: "folder").deleteRule(.cascade)
            ToMany("pinned", "Note", inverse: "pinnedIn").ordered()
            ToMany("tags", "Tag", inverse: "folders")
            ToMany("ranked", "Tag", inverse: "rankedIn").ordered()
            ToMany("stamps", "Stamp").ordered()
            ToOne("cover", "Note", inverse: "coverOf")
        }
        Entity("Note") {
            Attribute("name", .string)
            ToOne("folder", "Folder", inverse: "notes")
            ToOne("pinnedIn", "Folder", inverse: "pinned")
            ToOne("coverOf", "Folder", inverse: "cover")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("folders", "Folder", inverse: "tags")
            ToMany("rankedIn", "Folder", inverse: "ranked").ordered()
        }
        Entity("Stamp") { Attribute("name", .string) }
    }

    private func fill(_ context: ManagedObjectContext) throws {
        let tags = try ["t", "u"].map { try context.insertNamed("Tag", $0) }
        for name in ["x", "y"] {
            let notes = try ["1", "2", "3"].map { try context.insertNamed("Note", name + $0) }
            _ = try context.insertNamed(
                "Folder", name,
                [
                    "notes": Set(notes), "pinned": notes, "tags": Set(tags), "ranked": tags,
                    "cover": notes[0],
                    "stamps": try ["s", "r"].map { try context.insertNamed("Stamp", $0 + name) },
                ])
        }
        try context.save()
    }

    private func text(_ context: ManagedObjectContext) throws -> String {
        let orderings = [SortOrdering("name")]
        var parts = try context.fetch(
            FetchRequest<ManagedObject>("Folder", sortOrderings: orderings)
        )
        .map { folder in
            ["notes", "pinned", "tags", "ranked", "stamps"].map { folder.memberNames($0) }
                .joined(separator: " ") + " " + (folder.destinationName("cover") ?? "-")
        }
        parts += try context.fetch(FetchRequest<ManagedObject>("Note", sortOrderings: orderings))
            .map {
                note in
                ["folder", "pinnedIn", "coverOf"].map { note.destinationName($0) ?? "-" }.joined()
            }
        parts += try context.fetch(FetchRequest<ManagedObject>("Tag", sortOrderings: orderings)).map
        {
            "\($0.memberNames("folders")) \($0.memberNames("rankedIn"))"
        }
        return parts.joined(separator: "; ")
    }

    nonisolated static let edits = [
        "move", "move by set", "reorder", "tags", "tags by tag", "rank", "rank by tag", "stamps",
        "cover",
        "delete note", "delete folder", "delete tag", "batch delete", "batch insert", "new",
    ]

    private func edit(_ name: String, _ context: ManagedObjectContext) throws {
        let (x, y) = (try context.findNamed("Folder", "x"), try context.findNamed("Folder", "y"))
        let (t, u) = (try context.findNamed("Tag", "t"), try context.findNamed("Tag", "u"))
        let note = try context.findNamed("Note", "x2")
        switch name {
        case "move":
            note["folder"] = y
            note["pinnedIn"] = y
        case "move by set": y["notes"] = Set(x.objects("notes"))
        case "reorder": x.moveObject(in: "pinned", from: 0, to: 2)
        case "tags": x.remove(t, from: "tags")
        case "tags by tag": u["folders"] = Set([y])
        case "rank": x.exchangeObjects(in: "ranked", at: 0, and: 1)
        case "rank by tag": t["rankedIn"] = [y, x]
        case "stamps":
            x.moveObject(in: "stamps", from: 0, to: 1)
            y.add(try context.insertNamed("Stamp", "n"), to: "stamps")
        case "cover": y["cover"] = x.object("cover")
        case "delete note": context.delete(note)
        case "delete folder": context.delete(x)
        case "delete tag": context.delete(t)
        case "batch delete":
            try context.execute(
                BatchDeleteRequest(
                    entityName: "Note",
                    predicate: try QueryPredicate(format: "name IN {'x1', 'y3'}")))
        case "batch insert":
            try context.execute(
                BatchInsertRequest(
                    entityName: "Note",
                    objects: [
                        ["name": "n", "folder": x.objectID, "pinnedIn": y.objectID] as [String: Any]
                    ]))
        default:
            let folder = try context.insertNamed("Folder", "n", ["ranked": [u, t]])
            folder.add(try context.insertNamed("Note", "m"), to: "pinned")
            folder["cover"] = note
        }
        try context.save()
    }

    /// The app has read everything, or nothing, when the extension saves; it merges what the history tells it.
    /// Source: Apple, “Consuming relevant store changes”; avanderlee.com “Core Data and App extensions: Sharing a single
    /// database”.
    @Test(arguments: edits, [true, false])
    func relationshipsChangedByAnotherProgramAreRight(edit name: String, isRead: Bool) async throws
    {
        try await withProgramFolder { folder in
            func open() async throws -> PersistentContainer {
                try await SituationStore.sqlite.container(Self.model, in: folder) {
                    $0.tracksHistory = true
                }
            }
            let app = try await open()
            let other = try await open()
            let context = app.viewContext
            try fill(context)
            if isRead { _ = try text(context) } else { context.reset() }
            let kept = try context.fetch(FetchRequest<ManagedObject>("Folder")) as [ManagedObject]
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            try edit(name, other.viewContext)
            other.viewContext.reset()
            let expected = try text(other.viewContext)
            let history = try context.execute(.fetchHistory(after: token))
            for transaction in history.transactions {
                context.mergeChanges(from: transaction.objectIDChanges)
            }
            #expect(try text(context) == expected)
            #expect(kept.count == 2)
            // And the next change of the app starts from there.
            try context.findNamed("Note", "y2")["name"] = "y2"
            try context.findNamed("Folder", "y").add(
                try context.insertNamed("Note", "a"), to: "pinned")
            try context.save()
            let last = try text(context)
            context.reset()
            #expect(try text(context) == last)
            try other.close()
            try app.close()
        }
    }
}
