import Foundation
import Quire
import Testing

/// Undo of moves, exchanges, trees and lists, saved and unsaved, with changes by others in between.
@MainActor @Suite struct UndoRelationshipsSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Person") {
            Attribute("name", .string)
            ToOne("spouse", "Person", inverse: "spouse")
            ToOne("parent", "Person", inverse: "children")
            ToMany("children", "Person", inverse: "parent").ordered().deleteRule(.cascade)
            ToOne("bookmark", "Person")
        }
        Entity("Team") {
            Attribute("name", .string)
            ToMany("players", "Player", inverse: "team").ordered().count(atMost: 3)
        }
        Entity("Player") {
            Attribute("name", .string)
            ToOne("team", "Team", inverse: "players").required()
        }
    }

    private func name(_ object: ManagedObject?, _ key: String) -> String? {
        (object?[key] as? ManagedObject)?["name"] as? String
    }

    private func names(_ object: ManagedObject, _ key: String) -> [String] {
        (object[key] as? [ManagedObject] ?? []).map { $0["name"] as? String ?? "nil" }
    }

    /// A one-to-one relationship is set to somebody who has a partner already: three objects change, and come back.
    /// adobe/data pull request 23 (undo of a transaction that touches several records).
    @Test(arguments: SituationStore.allCases, [false, true])
    func aStolenPartnerIsGivenBack(store: SituationStore, isSaved: Bool) async throws {
        try await withUndo(store, Self.model) { container, context, _ in
            let people = try ["a", "b", "c", "d"].map {
                try UndoSituation.named("Person", $0, in: context)
            }
            people[0]["spouse"] = people[1]
            people[2]["spouse"] = people[3]
            try context.save()
            people[0]["spouse"] = people[2]
            people[1]["spouse"] = people[1]
            if isSaved { try context.save() }
            for _ in 0..<2 {
                context.undo()
                #expect(people.map { name($0, "spouse") } == ["b", "a", "d", "c"])
                #expect(context.hasChanges == isSaved)
                if isSaved { try context.save() }
                context.redo()
                #expect(people.map { name($0, "spouse") } == ["c", "b", "a", nil])
                if isSaved { try context.save() }
            }
            context.undo()
            try context.save()
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            #expect(
                try people.map { name(try other.existingObject(with: $0.objectID), "spouse") }
                    == ["b", "a", "d", "c"])
        }
    }

    /// A subtree is moved by drag and drop, its root deleted, and everything undone and redone, each with a save.
    /// baserow/baserow issue 1004; bardsoftware/ganttproject issue 2163 (undo of a project tree in a database).
    @Test(arguments: SituationStore.allCases, [false, true])
    func aTreeComesBackWithItsOrder(store: SituationStore, isSaved: Bool) async throws {
        try await withUndo(store, Self.model) { container, context, _ in
            var nodes: [String: ManagedObject] = [:]
            for text in ["root", "a", "b", "c", "a1", "a2", "b1"] {
                nodes[text] = try UndoSituation.named("Person", text, in: context)
            }
            @MainActor func node(_ text: String) throws -> ManagedObject {
                try #require(nodes[text])
            }
            for (parent, children) in [
                ("root", ["a", "b", "c"]), ("a", ["a1", "a2"]), ("b", ["b1"]),
            ] { try node(parent)["children"] = children.compactMap { nodes[$0] } }
            try node("c")["bookmark"] = node("a1")
            try context.save()
            @MainActor func outline(_ object: ManagedObject) -> String {
                let children = (object["children"] as? [ManagedObject] ?? []).map(outline)
                let name = object["name"] as? String ?? "nil"
                return children.isEmpty ? name : "\(name)(\(children.joined(separator: " ")))"
            }
            @MainActor func step() throws {
                if isSaved { try context.save() } else { context.processPendingChanges() }
            }
            let root = try node("root")
            var outlines = [outline(root)]
            try node("b").insert(node("a"), into: "children", at: 0)
            try step()
            outlines.append(outline(root))
            root.insert(try node("a2"), into: "children", at: 1)
            context.delete(try node("b"))
            try step()
            outlines.append(outline(root))
            root["children"] = Array((root["children"] as? [ManagedObject] ?? []).reversed())
            try step()
            outlines.append(outline(root))
            #expect(
                outlines == [
                    "root(a(a1 a2) b(b1) c)", "root(b(a(a1 a2) b1) c)", "root(a2 c)", "root(c a2)",
                ])
            for index in (0..<3).reversed() {
                context.undo()
                #expect(outline(root) == outlines[index])
                try step()
            }
            #expect(name(nodes["c"], "bookmark") == "a1" || isSaved)
            for index in 1...3 {
                context.redo()
                #expect(outline(root) == outlines[index])
                try step()
            }
            context.undo()
            context.undo()
            try context.save()
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            #expect(outline(try other.existingObject(with: root.objectID)) == outlines[1])
        }
    }

    /// A player changes the team within ordered lists; others add to both teams and reorder them before it is undone.
    /// realm/realm-swift issue 1572; satoren/y_ex pull request 252.
    @Test(arguments: SituationStore.files, [false, true])
    func aMoveBetweenListsIsUndoneAmongOthersChanges(
        store: SituationStore, isSaved: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            context.mergePolicy = .mergeByPropertyObjectTrump
            context.undoManager = UndoManager()
            let teams = try ["Red", "Blue"].map {
                try UndoSituation.named("Team", $0, in: context)
            }
            for (team, players) in zip(teams, [["r1", "r2"], ["b1", "b2"]]) {
                team["players"] = try players.map {
                    try UndoSituation.named("Player", $0, in: context)
                }
            }
            try context.save()
            let moved = try #require((teams[0]["players"] as? [ManagedObject])?.first)
            teams[1].insert(moved, into: "players", at: 1)
            if isSaved { try context.save() } else { context.processPendingChanges() }
            #expect(names(teams[0], "players") == ["r2"])
            #expect(names(teams[1], "players") == ["b1", "r1", "b2"])
            let ids = teams.map(\.objectID)
            try await container.performBackgroundTask { other in
                let red = other.object(with: ids[0])
                let new = try other.insertObject(entityName: "Player")
                new["name"] = "r3"
                red.add(new, to: "players")
                try other.save()
            }
            context.undo()
            #expect(Set(names(teams[0], "players")) == ["r1", "r2", "r3"])
            #expect(names(teams[0], "players").firstIndex(of: "r1") == 0)
            #expect(names(teams[1], "players") == ["b1", "b2"])
            #expect(name(moved, "team") == "Red")
            try context.save()
            context.redo()
            #expect(names(teams[1], "players") == ["b1", "r1", "b2"])
            try context.save()
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            #expect(
                names(try other.existingObject(with: ids[1]), "players") == ["b1", "r1", "b2"])
        }
    }

    /// Deletions and moves that validation refuses (a required team, too many players) are undone one by one.
    /// RestKit/RestKit issue 198; nocodb/nocodb issue 5880.
    @Test(arguments: SituationStore.allCases)
    func refusedRelationshipsAreUndone(store: SituationStore) async throws {
        try await withUndo(store, Self.model) { container, context, _ in
            let teams = try ["Red", "Blue"].map {
                try UndoSituation.named("Team", $0, in: context)
            }
            let players = try (1...4).map {
                try UndoSituation.named("Player", "\($0)", in: context)
            }
            teams[0]["players"] = Array(players[..<3])
            teams[1]["players"] = [players[3]]
            try context.save()
            context.delete(teams[1])
            #expect(throws: QuireError.self) { try context.save() }
            teams[0].add(players[3], to: "players")
            #expect(throws: QuireError.self) { try context.save() }
            #expect(names(teams[0], "players") == ["1", "2", "3", "4"])
            context.undo()
            #expect(players[3]["team"] == nil)
            #expect(throws: QuireError.self) { try context.save() }
            context.undo()
            #expect(name(players[3], "team") == "Blue" && !context.hasChanges)
            try context.save()
            context.redo()
            context.redo()
            #expect(throws: QuireError.self) { try context.save() }
            context.delete(players[0])
            try context.save()
            #expect(try UndoSituation.stored(container, "Team", "name") == ["Red"])
            for _ in 0..<3 { context.undo() }
            try context.save()
            #expect(try UndoSituation.stored(container, "Team", "name") == ["Blue", "Red"])
            #expect(names(teams[0], "players") == ["1", "2", "3"])
        }
    }

    /// Rows are deleted and changed by batch requests between a change and its undo.
    /// Apple's documentation of `NSBatchDeleteRequest`: changes are not reflected in memory, and must be merged.
    @Test(arguments: [false, true])
    func undoAfterBatchRequests(isMerged: Bool) async throws {
        try await withSituation(.sqlite, UndoSituation.model) { container in
            let context = container.viewContext
            context.mergePolicy = .mergeByPropertyObjectTrump
            context.undoManager = UndoManager()
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let notes = try ["gone", "kept"].map {
                try UndoSituation.note($0, in: context, folder: folder)
            }
            try context.save()
            for note in notes {
                note["text"] = (note.label ?? "") + " 2"
                note["folder"] = nil
            }
            try context.save()
            var request = try BatchDeleteRequest(
                fetchRequest: FetchRequest(
                    "Note", predicate: QueryPredicate(format: "text BEGINSWITH %@", "gone")))
            request.resultType = .objectIDs
            let result = try context.execute(request)
            if isMerged {
                ManagedObjectContext.mergeChanges(
                    fromRemoteContextSave: result.changes, into: [context])
            } else {
                context.refreshAllObjects()
            }
            context.undo()
            #expect(notes[1].label == "kept" && folder.labels("notes") == ["kept"])
            try context.save()
            #expect(try UndoSituation.stored(container) == ["kept"])
            context.redo()
            #expect(notes[1].label == "kept 2")
            try context.save()
            #expect(try UndoSituation.stored(container) == ["kept 2"])
        }
    }

    /// A background context with an undo manager: each block is a step, a group may span blocks.
    /// Apple's documentation of `NSManagedObjectContext.undoManager`; MagicalRecord issue 251.
    @Test(arguments: SituationStore.allCases)
    func blocksOfABackgroundContextAreSteps(store: SituationStore) async throws {
        try await withSituation(store, UndoSituation.model) { container in
            let background = container.newBackgroundContext()
            try await background.perform { context in
                context.undoManager = UndoManager()
                let note = try context.insertObject(entityName: "Note")
                note["text"] = "one"
                try context.save()
            }
            for text in ["two", "three"] {
                try await background.perform { context in
                    let note = try context.fetch(FetchRequest<ManagedObject>("Note")).first
                    note?["text"] = text
                }
            }
            await background.perform { $0.undoManager?.beginUndoGrouping() }
            for text in ["four", "five"] {
                try await background.perform { context in
                    try context.insertObject(entityName: "Note")["text"] = text
                    try context.save()
                }
            }
            await background.perform { $0.undoManager?.endUndoGrouping() }
            let counts = try await background.perform { context in
                var counts = [context.undoManager?.undoCount ?? -1]
                for _ in 0..<3 {
                    context.undo()
                    try context.save()
                    counts.append(try context.count(for: FetchRequest<ManagedObject>("Note")))
                }
                return counts
            }
            #expect(counts == [4, 1, 1, 1])
            #expect(try UndoSituation.stored(container) == ["one"])
        }
    }
}
