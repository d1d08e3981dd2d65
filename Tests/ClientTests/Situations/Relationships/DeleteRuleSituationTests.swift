import Foundation
import Quire
import Testing

/// A firm with departments, staff, badges and shared tags: what goes, what stays and what is refused.
@MainActor @Suite struct DeleteRuleSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Firm") {
            Attribute("name", .string)
            ToMany("departments", "Department", inverse: "firm").ordered().deleteRule(.cascade)
        }
        Entity("Department") {
            Attribute("name", .string)
            ToOne("firm", "Firm", inverse: "departments").required()
            ToMany("staff", "Person", inverse: "department").deleteRule(.deny)
            ToOne("boss", "Person", inverse: "leads").deleteRule(.nullify)
            ToMany("tags", "Tag", inverse: "departments").deleteRule(.cascade)
        }
        Entity("Person") {
            Attribute("name", .string)
            ToOne("department", "Department", inverse: "staff")
            ToOne("leads", "Department", inverse: "boss").deleteRule(.cascade)
            ToOne("badge", "Badge", inverse: "person").deleteRule(.cascade)
            ToOne("locker", "Locker", inverse: "user").deleteRule(.noAction)
        }
        Entity("Badge") {
            Attribute("name", .string)
            ToOne("person", "Person", inverse: "badge").required()
        }
        Entity("Locker") {
            Attribute("name", .string)
            ToOne("user", "Person", inverse: "locker")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("departments", "Department", inverse: "tags")
        }
    }

    /// A firm “f” with departments “x” and “y”; x has the people “a” and “b” with badges and lockers; both have tag “t”.
    private func makeFirm(in context: ManagedObjectContext) throws {
        let tag = try context.insertNamed("Tag", "t")
        let x = try context.insertNamed("Department", "x", ["tags": Set([tag])])
        let y = try context.insertNamed("Department", "y", ["tags": Set([tag])])
        _ = try context.insertNamed("Firm", "f", ["departments": [x, y]])
        for name in ["a", "b"] {
            _ = try context.insertNamed(
                "Person", name,
                [
                    "department": x, "badge": try context.insertNamed("Badge", name),
                    "locker": try context.insertNamed("Locker", name),
                ])
        }
    }

    /// A department that still has staff may not be deleted; it may be if the same save moves the staff elsewhere, deletes
    /// it, or sends it home, before or after the deletion.
    /// Source: errorhandle.ai “Core Data 1600 error while deleting object with specific delete rules”; Core Data
    /// Programming Guide, “Relationship Delete Rules”.
    @Test(arguments: SituationStore.allCases, ["move", "delete", "send home", "set", "nothing"])
    func aDenialIsDecidedByTheStateThatIsSaved(store: SituationStore, what: String) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try makeFirm(in: context)
            try context.save()
            context.reset()
            let x = try context.findNamed("Department", "x")
            let y = try context.findNamed("Department", "y")
            let people = x.objects("staff")
            if what == "move" { people.forEach { $0["department"] = y } }
            if what == "set" { y["staff"] = Set(people) }
            context.delete(x)
            if what == "delete" { people.forEach { context.delete($0) } }
            if what == "send home" { people.forEach { $0["department"] = nil } }
            if what == "nothing" {
                let error = try #require(
                    #expect(throws: QuireError.self) { try context.save() })
                #expect(error.code == .deleteDenied)
                #expect(try context.foundNames("Department") == "y")
                context.rollback()
                #expect(try context.foundNames("Department") == "xy")
                #expect(try context.findNamed("Department", "x").memberNames("staff") == "ab")
                return
            }
            try context.save()
            context.reset()
            #expect(try context.foundNames("Department") == "y")
            #expect(try context.foundNames("Person") == (what == "delete" ? "" : "ab"))
            #expect(try context.foundNames("Badge") == (what == "delete" ? "" : "ab"))
            let isMoved = what == "move" || what == "set"
            #expect(
                try context.findNamed("Department", "y").memberNames("staff")
                    == (isMoved ? "ab" : ""))
            // The tag goes with one of its departments, and y has none any more.
            #expect(try context.foundNames("Tag") == "")
            #expect(try context.findNamed("Department", "y").objects("tags").isEmpty)
            #expect(try context.findNamed("Firm", "f").memberNames("departments") == "y")
        }
    }

    /// Boss, department, employees: deleting the boss deletes the department by a cascade, which its staff denies. The
    /// boss is on the staff, too.
    /// Source: kotaeta.com/53657312 (boss, department, employee: which delete rules).
    @Test(arguments: SituationStore.allCases)
    func aCascadeIsDeniedByStaffAndAllowedWhenTheBossIsAllOfIt(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try makeFirm(in: context)
            let x = try context.findNamed("Department", "x")
            let boss = try context.findNamed("Person", "a")
            x["boss"] = boss
            try context.save()
            context.delete(boss)
            #expect(x.isDeleted)
            let error = try #require(#expect(throws: QuireError.self) { try context.save() })
            #expect(error.code == .deleteDenied)
            let denial = try #require(error.underlying as? DeletionDenial)
            #expect(denial.blockingObjectIDs == [try context.findNamed("Person", "b").objectID])
            (try context.findNamed("Person", "b"))["department"] = nil
            try context.save()
            context.reset()
            #expect(try context.foundNames("Department") == "y")
            #expect(try context.foundNames("Person") == "b")
            #expect(try context.foundNames("Badge") == "b")
            #expect(try context.findNamed("Firm", "f").memberNames("departments") == "y")
        }
    }

    /// “No action”: a locker still refers to somebody who was deleted. It can be found, read, changed and saved; a fetch
    /// and an object agree, and an unsaved change of something else changes no answer.
    /// Source: Stack Overflow 5629481 “Setting the No Action Delete Rule on [object relationship] is an advanced setting”;
    /// Pedido #2 “CoreData could not fulfill a fault for X” (caused by No Action).
    @Test(arguments: SituationStore.allCases)
    func whatNoActionLeavesBehindIsAFaultWithoutValues(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try makeFirm(in: context)
            try context.save()
            context.delete(try context.findNamed("Person", "a"))
            try context.save()
            for step in ["saved", "reset", "dirty"] {
                if step == "reset" { context.reset() }
                let locker = try context.findNamed("Locker", "a")
                if step == "dirty" { locker["name"] = "a" }
                #expect(locker.object("user") != nil && locker.destinationName("user") == nil)
                for (format, expected) in [
                    ("user == nil", ""), ("user != nil", "ab"), ("user.name == nil", "a"),
                    ("user.badge != nil", "b"), ("user.badge.name == nil", "a"),
                    ("user.leads.staff.@count == 0", "ab"),
                    ("ANY user.leads.staff.name == 'a'", ""),
                    ("user == nil OR TERNARY(user != nil, name, 'x') == 'a'", "a"),
                ] {
                    #expect(
                        try context.foundNames("Locker", format) == expected, "\(step): \(format)")
                    #expect(
                        try QueryPredicate(format: format).evaluate(with: locker)
                            == expected.contains("a"), "\(step): \(format)")
                }
            }
            let locker = try context.findNamed("Locker", "a")
            locker["name"] = "free"
            try context.save()
            locker["user"] = try context.findNamed("Person", "b")
            try context.save()
            context.reset()
            #expect(try context.findNamed("Person", "b").destinationName("locker") == "free")
            #expect(try context.findNamed("Locker", "b").object("user") == nil)
        }
    }

    /// The child’s relationship to its owner is required; the owner is deleted together with children that were never
    /// saved, and children that were moved away just before.
    /// Source: Mantle #255 “annotation: repairing missing delete propagation for to-many relationship” (ordered, cascade,
    /// inverse to-one and not optional).
    @Test(arguments: SituationStore.allCases, [false, true])
    func aCascadeTakesTheChildrenOfThisMoment(store: SituationStore, isRead: Bool) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try makeFirm(in: context)
            try context.save()
            context.reset()
            let firm = try context.findNamed("Firm", "f")
            if isRead { #expect(firm.memberNames("departments") == "xy") }
            let x = try context.findNamed("Department", "x")
            let y = try context.findNamed("Department", "y")
            let other = try context.insertNamed("Firm", "g")
            x["firm"] = other
            let new = try context.insertNamed("Department", "z", ["firm": firm])
            context.delete(firm)
            #expect(y.isDeleted && !x.isDeleted)
            #expect(new.isDeleted || new.managedObjectContext == nil)
            try context.save()
            context.reset()
            #expect(try context.foundNames("Department") == "x")
            #expect(try context.foundNames("Firm") == "g")
            #expect(try context.findNamed("Firm", "g").memberNames("departments") == "x")
        }
    }

    /// One object is replaced by another one under a cascading to-one relationship: the old one is not deleted, and is
    /// invalid because its owner is required.
    /// Source: RestKit #97 “Add optional support for deleting relationship objects on replace”; Realm #1370
    /// “addOrUpdateObject leaves orphan child objects”.
    @Test(arguments: SituationStore.allCases)
    func aReplacedChildIsAnOrphanThatTheSaveNames(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try makeFirm(in: context)
            try context.save()
            let person = try context.findNamed("Person", "a")
            let old = try #require(person.object("badge"))
            person["badge"] = try context.insertNamed("Badge", "new")
            #expect(old.object("person") == nil)
            let error = try #require(#expect(throws: QuireError.self) { try context.save() })
            #expect(error.code == .validation && error.subject.property == "person")
            #expect(error.subject.object == old.objectID.uriRepresentation)
            context.delete(old)
            #expect(person.destinationName("badge") == "new")
            try context.save()
            context.reset()
            #expect(try context.foundNames("Badge") == "bnew")
            #expect(try context.findNamed("Person", "a").destinationName("badge") == "new")
        }
    }

    /// A text box was inserted, related, and deleted before any save; its body still needs it. The save names the body,
    /// and undo brings the pair back.
    /// Source: mikeabdullah.net “Hunting down a ‘Dangling reference to an invalid object’ error”.
    @Test(arguments: SituationStore.allCases)
    func anObjectThatWasNeverSavedLeavesAnInvalidPartnerNotADanglingReference(
        store: SituationStore
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.undoManager = UndoManager()
            let person = try context.insertNamed("Person", "p")
            context.processPendingChanges()
            let badge = try context.insertNamed("Badge", "q", ["person": person])
            context.processPendingChanges()
            person["badge"] = nil
            badge["person"] = person
            person["badge"] = badge
            context.processPendingChanges()
            context.delete(person)
            #expect(badge.isDeleted || badge.managedObjectContext == nil)  // By its cascade.
            #expect(try context.foundNames("Badge") == "")
            context.undo()
            #expect(try context.foundNames("Badge") == "q")
            #expect(try context.foundNames("Badge", "person.name == 'p'") == "q")
            try context.save()

            let locker = try context.insertNamed(
                "Locker", "l", ["user": try context.findNamed("Person", "p")])
            context.processPendingChanges()
            context.delete(locker)
            #expect(try context.findNamed("Person", "p").object("locker") == nil)
            try context.save()
            context.undo()
            #expect(try context.findNamed("Person", "p").destinationName("locker") == "l")
            try context.save()
            context.reset()
            #expect(try context.foundNames("Person", "locker.name == 'l'") == "p")
        }
    }

    /// Deleting fails in the background because a batch deletion would leave objects without what they require; nothing
    /// of it is deleted then. With a cascade everything goes, in one request.
    /// Source: wire-ios-data-model #1287 (“Batch delete failed due to manadatory OTM nullify inverse”).
    @Test(arguments: SituationStore.allCases)
    func aBatchDeletionFollowsTheRulesOrDeletesNothing(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try makeFirm(in: context)
            try context.save()
            let denied = #expect(throws: QuireError.self) {
                try context.execute(BatchDeleteRequest(entityName: "Firm"))
            }
            #expect(denied?.code == .deleteDenied)
            context.reset()
            #expect(try context.foundNames("Department") == "xy")
            #expect(try context.foundNames("Tag") == "t")

            // Badges are required by nobody; people take their badges along, and leave their lockers alone.
            var request = BatchDeleteRequest(entityName: "Person")
            request.resultType = .objectIDs
            let lockers = try context.fetch(FetchRequest("Locker")) as [ManagedObject]
            #expect(lockers.allSatisfy { $0.destinationName("user") != nil })
            let result = try context.execute(request)
            #expect(result.count == 4)
            context.mergeChanges(from: result.changes)
            #expect(try context.foundNames("Badge") == "")
            #expect(lockers.allSatisfy { $0.destinationName("user") == nil })
            #expect(try context.execute(BatchDeleteRequest(entityName: "Firm")).count == 4)
            context.reset()
            for entity in ["Firm", "Department", "Tag"] {
                #expect(try context.count(for: FetchRequest(entity)) == 0)
            }
        }
    }
}
