import Foundation
import Quire
import QuireDocuments
import Testing

/// Undo of relationship changes, and relationships in documents.
@MainActor @Suite struct UndoneSituationTests {
    /// A document of a board.
    private final class BoardDocument: ManagedDocument {
        override var managedObjectModel: ManagedObjectModel? { UndoneSituationTests.model }
    }

    private static let model = ManagedObjectModel {
        Entity("Board") {
            Attribute("name", .string)
            ToMany("columns", "Column", inverse: "board").ordered().deleteRule(.cascade)
            ToMany("members", "Member", inverse: "boards")
        }
        Entity("Column") {
            Attribute("name", .string)
            ToOne("board", "Board", inverse: "columns").required()
            ToMany("cards", "Card", inverse: "column").ordered().deleteRule(.cascade)
        }
        Entity("Card") {
            Attribute("name", .string)
            ToOne("column", "Column", inverse: "cards").required()
            ToMany("people", "Member", inverse: "cards").ordered()
            ToOne("blocks", "Card", inverse: "blockedBy")
            ToOne("blockedBy", "Card", inverse: "blocks")
        }
        Entity("Member") {
            Attribute("name", .string)
            ToMany("boards", "Board", inverse: "members")
            ToMany("cards", "Card", inverse: "people").ordered()
        }
    }

    private func fill(_ context: ManagedObjectContext) throws {
        let members = try ["m", "n"].map { try context.insertNamed("Member", $0) }
        let board = try context.insertNamed("Board", "b", ["members": Set(members)])
        for name in ["x", "y"] {
            let column = try context.insertNamed("Column", name)
            board.add(column, to: "columns")
            column["cards"] = try ["1", "2", "3"].map {
                try context.insertNamed("Card", name + $0, ["people": members])
            }
        }
        (try context.findNamed("Card", "x1"))["blocks"] = try context.findNamed("Card", "y1")
    }

    private func text(_ context: ManagedObjectContext) throws -> String {
        var parts: [String] = []
        for board in try context.fetch(FetchRequest<ManagedObject>("Board")) {
            parts.append("\(board.memberNames("columns"))/\(board.memberNames("members"))")
        }
        for (entity, keys) in [
            ("Column", ["cards"]), ("Card", ["people"]), ("Member", ["cards", "boards"]),
        ] {
            let request = FetchRequest<ManagedObject>(entity, sortOrderings: [SortOrdering("name")])
            for object in try context.fetch(request) {
                parts.append(
                    "\(object["name"] as? String ?? "-"):"
                        + keys.map { object.memberNames($0) }.joined(separator: "/"))
                if entity == "Card" {
                    parts.append(
                        "(\(object.destinationName("column") ?? "-") \(object.destinationName("blocks") ?? "-") "
                            + "\(object.destinationName("blockedBy") ?? "-"))")
                }
            }
        }
        return parts.joined(separator: " ")
    }

    nonisolated static let edits: [String] = [
        "drag a card", "drag to the place of another", "replace cards", "swap columns",
        "delete a column",
        "delete a member", "steal a block", "clear people", "new column with old cards",
        "merge columns",
    ]

    private func edit(_ name: String, _ context: ManagedObjectContext) throws {
        let x = try context.findNamed("Column", "x")
        let y = try context.findNamed("Column", "y")
        let board = try context.findNamed("Board", "b")
        let member = try context.findNamed("Member", "m")
        switch name {
        case "drag a card": y.insert(try context.findNamed("Card", "x2"), into: "cards", at: 1)
        case "drag to the place of another":
            let card = try context.findNamed("Card", "x3")
            let other = try context.findNamed("Card", "y1")
            y.replaceObject(in: "cards", at: 0, with: card)
            x.add(other, to: "cards")
        case "replace cards":
            let old = x.objects("cards")
            x["cards"] = [old[2], try context.insertNamed("Card", "new"), old[0]]
            context.delete(old[1])
        case "swap columns": board.exchangeObjects(in: "columns", at: 0, and: 1)
        case "delete a column": context.delete(x)
        case "delete a member": context.delete(member)
        case "steal a block":
            (try context.findNamed("Card", "y2"))["blocks"] = try context.findNamed("Card", "y1")
            (try context.findNamed("Card", "x1"))["blocks"] = try context.findNamed("Card", "x1")
        case "clear people":
            for card in x.objects("cards") { card["people"] = nil }
            member.moveObject(in: "cards", from: 0, to: 2)
            board["members"] = nil
        case "new column with old cards":
            let new = try context.insertNamed("Column", "z")
            new["cards"] = y.objects("cards").reversed() + x.objects("cards")
            board.insert(new, into: "columns", at: 0)
        default:
            for card in y.objects("cards") { x.insert(card, into: "cards", at: 1) }
            context.delete(y)
        }
    }

    /// Whatever a user does to a board is undone and redone as a whole, on both sides and in each order: unsaved, saved
    /// between, and after all objects were released.
    /// Source: cocoaconvert.net “Core Data: Rough Riding” (undo); mikeabdullah.net “Core Data and the wonderful world of undo
    /// management”.
    @Test(arguments: edits, ["unsaved", "saved", "saved after", "refreshed"])
    func anEditOfABoardIsUndoneAndRedoneAsAWhole(edit name: String, state: String) async throws {
        for store in SituationStore.allCases {
            try await withSituation(store, Self.model) { container in
                let context = container.viewContext
                try fill(context)
                if state != "unsaved" { try context.save() }
                context.processPendingChanges()
                context.undoManager = UndoManager()
                let before = try text(context)
                try edit(name, context)
                context.processPendingChanges()
                let after = try text(context)
                #expect(before != after)
                if state == "saved after" || state == "refreshed" { try context.save() }
                if state == "refreshed" { context.refreshAllObjects() }
                for round in 0..<2 {
                    context.undo()
                    #expect(try text(context) == before, "\(store) undo \(round)")
                    if state == "refreshed" {
                        try context.save()
                        context.refreshAllObjects()
                        #expect(try text(context) == before, "\(store) undo, saved \(round)")
                    }
                    context.redo()
                    #expect(try text(context) == after, "\(store) redo \(round)")
                }
                context.undo()
                try context.save()
                context.reset()
                #expect(try text(context) == before, "\(store)")
            }
        }
    }

    /// A document’s board is edited, autosaved, edited again and reverted, and opened again: relationships are those of the
    /// last save. A background context edits the same board.
    /// Source: Apple documentation, UIManagedDocument.
    @Test(arguments: edits)
    func aDocumentKeepsTheBoardOfItsLastSave(edit name: String) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Board.kanban")
            let document = BoardDocument(fileURL: url)
            try await document.create()
            try fill(document.managedObjectContext)
            try await document.save()
            let saved = try text(document.managedObjectContext)
            try edit(name, document.managedObjectContext)
            let edited = try text(document.managedObjectContext)
            try await document.revert()
            #expect(try text(document.managedObjectContext) == saved)
            try edit(name, document.managedObjectContext)
            #expect(try text(document.managedObjectContext) == edited)
            try await document.autosave()
            document.managedObjectContext.refreshAllObjects()
            #expect(try text(document.managedObjectContext) == edited)
            try await document.performBackgroundTask { background in
                let board = try background.findNamed("Board", "b")
                board.add(try background.insertNamed("Column", "w"), to: "columns")
                try background.save()
            }
            let columns = try document.managedObjectContext.findNamed("Board", "b").memberNames(
                "columns")
            #expect(columns.hasSuffix("w") && columns.count > 1)
            let last = try text(document.managedObjectContext)
            try await document.close()

            let again = BoardDocument(fileURL: url)
            try await again.open()
            #expect(try text(again.managedObjectContext) == last)
            try await again.close()
        }
    }
}
