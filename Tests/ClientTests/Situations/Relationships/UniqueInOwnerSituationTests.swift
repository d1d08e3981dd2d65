import Foundation
import Quire
import Testing

/// Files whose names are unique in their folder: a constraint that includes a relationship.
@MainActor @Suite struct UniqueInOwnerSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Folder") {
            Attribute("name", .string)
            ToMany("files", "File", inverse: "folder").ordered().deleteRule(.cascade)
            ToMany("folders", "Folder", inverse: "parent").deleteRule(.cascade)
            ToOne("parent", "Folder", inverse: "folders")
            Unique("name", "parent")
        }
        Entity("File") {
            Attribute("name", .string)
            Attribute("text", .string)
            ToOne("folder", "Folder", inverse: "files")
            ToMany("links", "File", inverse: "linkedBy").ordered()
            ToMany("linkedBy", "File", inverse: "links")
            ToOne("original", "File", inverse: "copies")
            ToMany("copies", "File", inverse: "original")
            Unique("folder", "name")
        }
        Entity("Shelf") {
            Attribute("name", .string)
            ToMany("files", "File").ordered()
        }
    }

    private func fill(_ context: ManagedObjectContext) throws {
        let root = try context.insertNamed("Folder", "r")
        for name in ["x", "y"] {
            let folder = try context.insertNamed("Folder", name, ["parent": root])
            folder["files"] = try ["1", "2"].map {
                try context.insertNamed("File", $0, ["text": name + $0])
            }
        }
        try context.save()
    }

    private func file(_ text: String, _ context: ManagedObjectContext) throws -> ManagedObject {
        let request = FetchRequest<ManagedObject>(
            "File", predicate: try QueryPredicate(format: "text == %@", text))
        return try #require(try context.fetch(request).first)
    }

    private func texts(_ folder: String, _ context: ManagedObjectContext) throws -> [String] {
        try context.findNamed("Folder", folder).objects("files").map {
            $0["text"] as? String ?? "-"
        }
    }

    /// A file is moved into a folder that has one of its name: the save refuses it, and works after a new name, after the
    /// other’s deletion, or when both are exchanged.
    /// Source: bignerdranch/CoreDataStack #90 “Unique Constraint” (a comment: constraints with a one-to-many relationship).
    @Test(
        arguments: SituationStore.allCases,
        ["rename", "delete", "exchange", "move other", "no folder"])
    func aNameIsTakenInAFolderUntilItIsFree(store: SituationStore, way: String) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try fill(context)
            context.reset()
            let moved = try file("x1", context)
            let other = try file("y1", context)
            let x = try context.findNamed("Folder", "x")
            let y = try context.findNamed("Folder", "y")
            if way == "move other" {
                // The folder itself moves beside one of its name.
                _ = try context.insertNamed("Folder", "x", ["parent": y])
                try context.save()
                x["parent"] = y
            } else {
                y.insert(moved, into: "files", at: 0)
            }
            let error = try #require(#expect(throws: QuireError.self) { try context.save() })
            #expect(error.code == .constraintConflict)
            switch way {
            case "rename": moved["name"] = "3"
            case "delete": context.delete(other)
            case "exchange": x.insert(other, into: "files", at: 0)
            case "move other": x["parent"] = nil
            default: moved["folder"] = nil
            }
            try context.save()
            context.reset()
            let expected: [String: [[String]]] = [
                "rename": [["x2"], ["x1", "y1", "y2"]], "delete": [["x2"], ["x1", "y2"]],
                "exchange": [["y1", "x2"], ["x1", "y2"]], "no folder": [["x2"], ["y1", "y2"]],
            ]
            if let expected = expected[way] {
                #expect(try [texts("x", context), texts("y", context)] == expected)
            } else {
                #expect(try context.foundNames("Folder", "parent == nil") == "rx")
            }
            // Without a folder any number of files have one name.
            for _ in 0..<2 { _ = try context.insertNamed("File", "1") }
            try context.save()
            #expect(
                try context.count(
                    for: FetchRequest("File", predicate: QueryPredicate(format: "folder == nil")))
                    >= 2)
        }
    }

    /// A new file of a taken name replaces the stored one, with its links: links of both are kept, one-to-many relationships
    /// lead to the one that remains, and the order around it stays.
    /// Source: wire-ios #925 “duplicate users and other unique models”; quigs.blog “How to write a custom CoreData
    /// NSMergePolicy”.
    @Test(
        arguments: SituationStore.allCases,
        [
            MergePolicy.Kind.mergeByPropertyObjectTrump, .overwrite, .mergeByPropertyStoreTrump,
            .rollback,
        ])
    func whatReferredToAReplacedFileRefersToTheOneThatRemains(
        store: SituationStore, policy: MergePolicy.Kind
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try fill(context)
            let (x1, x2) = (try file("x1", context), try file("x2", context))
            let (y1, y2) = (try file("y1", context), try file("y2", context))
            x1["links"] = [y1, x2, y2]
            x2["links"] = [x1]
            y1["original"] = x1
            try context.save()
            context.reset()
            context.mergePolicy = MergePolicy(merge: policy)
            let x = try context.findNamed("Folder", "x")
            let new = try context.insertNamed("File", "1", ["text": "new", "folder": x])
            let linking = try context.insertNamed("File", "l", ["text": "l"])
            linking["links"] = [new, try file("y2", context)]
            new["links"] = [try file("y2", context), linking]
            try file("y2", context)["original"] = new
            let shelf = try context.insertNamed("Shelf", "s")
            shelf["files"] = [new, try file("x2", context)]
            try context.save()
            let isNew = policy == .mergeByPropertyObjectTrump || policy == .overwrite
            let isMerged = policy != .rollback
            for isReset in [false, true] {
                if isReset { context.reset() }
                #expect(try context.foundNames("File", "folder.name == 'x'") == "12")
                let found = try file(isNew ? "new" : "x1", context)
                #expect(try texts("x", context).count == 2)
                let links = found.objects("links").compactMap { $0["text"] as? String }
                #expect(Set(links) == (isMerged ? ["y1", "x2", "y2", "l"] : ["y1", "x2", "y2"]))
                if isNew { #expect(links.filter { $0 == "y2" || $0 == "l" } == ["y2", "l"]) }
                #expect(
                    Set(found.objects("linkedBy").compactMap { $0["text"] as? String })
                        == (isMerged ? ["x2", "l"] : ["x2"]))
                #expect(try file("y1", context).object("original") === found)
                #expect((try file("y2", context).object("original") === found) == isMerged)
                let around = try file("l", context).objects("links").compactMap {
                    $0["text"] as? String
                }
                if isNew { #expect(around == ["new", "y2"]) }
                if !isMerged { #expect(around == ["y2"]) }
                let shelf = try context.findNamed("Shelf", "s").objects("files")
                if isMerged { #expect(shelf == [found, try file("x2", context)]) }
                #expect(
                    try context.findNamed("Folder", "x").objects("files").first === found || !isNew)
            }
        }
    }

    /// A folder is deleted and made again with the same name and files of the same names, in one save.
    /// Source: realm-js #1632 “Parent Child Relationship, Delete & create child ‘bug’”.
    @Test(arguments: SituationStore.allCases)
    func aFolderIsReplacedByOneOfItsNameInOneSave(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try fill(context)
            context.undoManager = UndoManager()
            context.delete(try context.findNamed("Folder", "x"))
            let root = try context.findNamed("Folder", "r")
            let folder = try context.insertNamed("Folder", "x", ["parent": root])
            folder["files"] = try ["2", "1"].map {
                try context.insertNamed("File", $0, ["text": "n" + $0])
            }
            try context.save()
            #expect(try texts("x", context) == ["n2", "n1"])
            context.undo()
            #expect(try texts("x", context) == ["x1", "x2"])
            try context.save()
            context.reset()
            #expect(try texts("x", context) == ["x1", "x2"])
            #expect(try context.foundNames("Folder", "parent.name == 'r'") == "xy")
            #expect(try context.foundNames("File") == "1122")
        }
    }
}
