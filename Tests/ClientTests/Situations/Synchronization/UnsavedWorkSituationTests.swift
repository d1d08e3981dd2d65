import Foundation
import Quire
import QuireSync
import Testing

/// People edit while changes of others are merged into their store.
@MainActor @Suite struct UnsavedWorkSituationTests {
    private static let model = ManagedObjectModel {
        Entity("List") {
            Attribute("name", .string)
            Attribute("note", .string)
            ToMany("tasks", "Task", inverse: "list").deleteRule(.cascade)
        }
        Entity("Task") {
            Attribute("name", .string)
            Attribute("note", .string)
            Attribute("done", .boolean)
            ToOne("list", "List", inverse: "tasks").required()
        }
        Entity("Tag") {
            Attribute("name", .string)
            Attribute("color", .string)
            Unique("name")
        }
        Entity("Room") {
            Attribute("name", .string)
            ToMany("guests", "Guest", inverse: "room").deleteRule(.deny)
        }
        Entity("Guest") {
            Attribute("name", .string)
            ToOne("room", "Room", inverse: "guests")
        }
        Entity("Team") {
            Attribute("name", .string)
            Attribute("note", .string)
            ToMany("members", "Member", inverse: "team").count(atLeast: 1, atMost: 3)
        }
        Entity("Member") {
            Attribute("name", .string)
            ToOne("team", "Team", inverse: "members")
        }
    }

    private func withTwo(
        _ program: @MainActor (_ here: Replica, _ there: Replica) async throws -> Void
    ) async throws {
        try await withReplicas(
            2, Self.model,
            start: {
                let list = try $0.insert("List", "home")
                try $0.insert("Task", "milk", ["list": list])
                try $0.insert("Room", "1")
                let members = try ["a", "b"].map { [replica = $0] in
                    try replica.insert("Member", $0)
                }
                try $0.insert("Team", "t", ["members": Set(members)])
            }
        ) { replicas, _ in try await program(replicas[0], replicas[1]) }
    }

    /// Ensembles issue 156: a save during a merge cancels it; what was being edited is lost or blocks all merges.
    @Test func unsavedValuesStayWhenOthersAreMerged() async throws {
        try await withTwo { here, there in
            let task = try here.object("Task", "milk")
            task["note"] = "unsaved"
            try there.edit {
                let task = try $0.object("Task", "milk")
                (task["note"], task["done"]) = ("theirs", true)
            }
            try await settle([there, here])
            #expect(task["note"] as? String == "unsaved")
            #expect(task["done"] as? Bool == true)
            try here.context.save()
            try await settle([here, there])
            #expect(
                try there.rows().contains("Task milk done=true list→home note=unsaved"))
            try await expectSame([here, there])
        }
    }

    /// The object that is being edited, or a task of it, is deleted elsewhere.
    @Test(arguments: ["edited", "inserted", "deleted"])
    func unsavedWorkOnAnObjectThatOthersDelete(kind: String) async throws {
        try await withTwo { here, there in
            let list = try here.object("List", "home")
            switch kind {
            case "edited": list["note"] = "unsaved"
            case "inserted": try here.insert("Task", "eggs", ["list": list])
            default: here.context.delete(list)
            }
            try there.edit { try $0.delete("List", "home") }
            try await settle([there, here])
            do {
                try here.context.save()
            } catch let error as QuireError {
                // A task needs a list.
                #expect(kind == "inserted", "\(error)")
                here.context.rollback()
            }
            #expect(!here.context.hasChanges)
            try await settle([here, there])
            #expect(try here.names("List") == [])
            #expect(try here.names("Task") == [])
            try await expectSame([here, there])
        }
    }

    /// An unsaved deletion, against an edit and a new member of the other side: the deny rule was checked when the room was empty.
    @Test func anUnsavedDeletionAgainstAnInsertionOfOthers() async throws {
        try await withTwo { here, there in
            here.context.delete(try here.object("Room", "1"))
            here.context.delete(try here.object("Task", "milk"))
            try there.edit {
                try $0.insert("Guest", "g", ["room": $0.object("Room", "1")])
                try $0.object("Task", "milk")["note"] = "theirs"
            }
            try await settle([there, here])
            do {
                try here.context.save()
            } catch let error as QuireError {
                #expect([.deleteDenied, .mergeConflict].contains(error.code), "\(error)")
                here.context.rollback()
            }
            try await settle([here, there])
            // Either the room is gone and the guest has none, or both are as the others have them.
            let hasRoom = try !here.names("Room").isEmpty
            #expect(
                try here.rows().filter { $0.hasPrefix("Guest") || $0.hasPrefix("Room") }
                    == (hasRoom ? ["Guest g room→1", "Room 1 guests{g}"] : ["Guest g"]))
            try await expectSame([here, there])
        }
    }

    /// A tag that is unsaved here has been inserted there: the save is in conflict, or merged by the policy of the context.
    @Test(arguments: [true, false])
    func anUnsavedObjectWithAUniqueValueThatOthersInsert(hasPolicy: Bool) async throws {
        try await withTwo { here, there in
            if hasPolicy { here.context.mergePolicy = .mergeByPropertyObjectTrump }
            try here.insert("Tag", "urgent", ["color": "red"])
            try there.edit { try $0.insert("Tag", "urgent", ["color": "blue"]) }
            try await settle([there, here])
            if hasPolicy {
                try here.context.save()
            } else {
                let error = #expect(throws: QuireError.self) { try here.context.save() }
                #expect(error?.code == .constraintConflict)
                here.context.rollback()
            }
            try await settle([here, there])
            #expect(
                try there.rows().filter { $0.hasPrefix("Tag") } == [
                    "Tag urgent color=\(hasPolicy ? "red" : "blue")"
                ])
            #expect(try await there.sync.conflicts().isEmpty)
            try await expectSame([here, there])
        }
    }

    /// Undo takes back what was done here, not what others have done meanwhile. Stack Overflow: “NSUndoManager and iCloud Core Data”.
    @Test func undoAfterAMergeKeepsWhatOthersDid() async throws {
        try await withTwo { here, there in
            here.context.undoManager = UndoManager()
            try here.edit { try $0.object("Task", "milk")["note"] = "mine" }
            try there.edit {
                try $0.object("Task", "milk")["done"] = true
                try $0.insert("Task", "eggs", ["list": $0.object("List", "home")])
            }
            try await settle([here, there])
            here.context.undo()
            try here.context.save()
            try await settle([here, there])
            #expect(
                try there.rows().filter { $0.hasPrefix("Task") } == [
                    "Task eggs list→home", "Task milk done=true list→home",
                ])
            here.context.redo()
            try here.context.save()
            try await settle([here, there])
            #expect(try there.object("Task", "milk")["note"] as? String == "mine")
            try await expectSame([here, there])
        }
    }

    /// An insertion is undone after another has added to it; a deletion is undone after another has edited what was deleted.
    @Test func undoOfAnInsertionAndOfADeletionAfterAMerge() async throws {
        try await withTwo { here, there in
            here.context.undoManager = UndoManager()
            try here.edit { try $0.insert("List", "work") }
            try await settle([here, there])
            try there.edit { try $0.insert("Task", "mail", ["list": $0.object("List", "work")]) }
            try await settle([there, here])
            // The other's task needs its list: it is not deleted with it unasked.
            here.context.undo()
            let error = #expect(throws: QuireError.self) { try here.context.save() }
            #expect(error?.code == .validation)
            here.context.redo()
            try here.context.save()
            try await settle([here, there])
            #expect(
                try there.rows().filter { $0.hasPrefix("List") } == [
                    "List home tasks{milk}", "List work tasks{mail}",
                ])
            try await expectSame([here, there])
            try here.edit { try $0.delete("List", "work") }

            try here.edit { try $0.delete("List", "home") }
            try there.edit { try $0.object("Task", "milk")["note"] = "theirs" }
            try await settle([here, there])
            #expect(try there.names("List") == [])
            here.context.undo()
            try here.context.save()
            try await settle([here, there])
            #expect(try there.names("List") == ["home"])
            #expect(try there.names("Task") == ["milk"])
            try await expectSame([here, there])
        }
    }

    /// Each removes a member, and no one is left, or each adds two, and there are too many: both are valid by themselves. What was
    /// merged can be edited and saved, and mended. CloudKit requires that all relationships are optional for this reason.
    @Test(arguments: [true, false])
    func mergedDataThatBreaksARuleCanBeEdited(isTooFew: Bool) async throws {
        try await withTwo { here, there in
            for (replica, name) in [(here, "a"), (there, "b")] {
                try replica.edit {
                    let (team, member) = (
                        try $0.object("Team", "t"), try $0.object("Member", name)
                    )
                    if isTooFew {
                        team.remove(member, from: "members")
                    } else {
                        try $0.insert("Member", name + name, ["team": team])
                    }
                }
            }
            try await settle([here, there])
            let members = isTooFew ? [] : ["a", "aa", "b", "bb"]
            func names(_ team: ManagedObject) -> [String] {
                (team["members"] as? Set<ManagedObject> ?? [])
                    .compactMap { $0["name"] as? String }.sorted()
            }
            #expect(names(try there.object("Team", "t")) == members)
            try here.edit { try $0.object("Team", "t")["note"] = "edited" }
            try there.edit {
                let team = try $0.object("Team", "t")
                team["members"] = Set([try $0.object("Member", "a")])
            }
            try await settle([here, there])
            #expect(names(try here.object("Team", "t")) == ["a"])
            #expect(try there.object("Team", "t")["note"] as? String == "edited")
            try await expectSame([here, there])
        }
    }
}
