import Quire
import QuireTestSupport
import Testing

/// Delete rules where they meet: with each other, with themselves, and with rules about counts.
@MainActor @Suite struct DeleteRuleTests {
    private static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Firm", FixtureModels.attribute("name", .string),
            FixtureModels.toMany("teams", "Team", "firm", .cascade),
            FixtureModels.toMany("visitors", "Guest", "firm", .noAction)),
        FixtureModels.entity(
            "Team", FixtureModels.attribute("name", .string),
            FixtureModels.toOne("firm", "Firm", "teams"),
            FixtureModels.toOne("rival", "Team", "rival", .cascade),
            FixtureModels.toMany("members", "Member", "team", .deny),
            FixtureModels.toMany("rooms", "Room", "teams") {
                $0.isOptional = false
                $0.minimumCount = 1
            }),
        FixtureModels.entity("Member", FixtureModels.toOne("team", "Team", "members")),
        FixtureModels.entity("Guest", FixtureModels.toOne("firm", "Firm", "visitors")),
        FixtureModels.entity("Room", FixtureModels.toMany("teams", "Team", "rooms")),
    ])

    let stack: TestStack
    let context: ManagedObjectContext
    let firm: ManagedObject
    let team: ManagedObject
    let room: ManagedObject

    init() throws {
        stack = try TestStack(Self.model)
        let context = stack.nestedContext()
        context.undoManager = UndoManager()
        firm = try context.insertObject(entityName: "Firm")
        team = try context.insertObject(entityName: "Team")
        room = try context.insertObject(entityName: "Room")
        firm.add(team, to: "teams")
        team.add(room, to: "rooms")
        try stack.save(context)
        self.context = context
    }

    private func new(_ entity: String) throws -> ManagedObject {
        try context.insertObject(entityName: entity)
    }

    @Test func whatACascadeTakesAlongMayDeny() throws {
        let member = try new("Member")
        team.add(member, to: "members")
        try stack.save(context)
        context.delete(firm)
        #expect(team.isDeleted)
        let error = try #require(#expect(throws: QuireError.self) { try context.save() })
        #expect(error.code == .deleteDenied)
        let denial = try #require(error.underlying as? DeletionDenial)
        #expect(denial.objectID == team.objectID && denial.relationship == "members")
        #expect(denial.blockingObjectIDs == [member.objectID])
        context.undo()
        #expect(!firm.isDeleted && !team.isDeleted)
        #expect(firm.objects("teams") == [team] && team.objects("members") == [member])
        #expect(team.objects("rooms") == [room] && room.objects("teams") == [team])
        #expect(!context.hasChanges)
    }

    @Test func everyDenialIsListed() throws {
        let second = try new("Team")
        firm.add(second, to: "teams")
        second.add(room, to: "rooms")
        for team in [team, second] {
            for _ in 0..<5 { team.add(try new("Member"), to: "members") }
        }
        try stack.save(context)
        context.delete(firm)
        let error = try #require(#expect(throws: QuireError.self) { try context.save() })
        #expect(error.failures.count == 2)
        #expect(error.failures.allSatisfy { $0.subject.relatedObjects.count == 5 })
        #expect(error.failures.allSatisfy { $0.message.contains("and 2 more") })
    }

    @Test func cascadesInACircleEnd() throws {
        let rival = try new("Team")
        rival.add(room, to: "rooms")
        team["rival"] = rival
        try stack.save(context)
        context.delete(rival)
        #expect(team.isDeleted && rival.isDeleted)
        #expect(firm.objects("teams").isEmpty)
        try stack.save(context)
        context.undo()
        #expect(team.object("rival") === rival && rival.object("rival") === team)
        #expect(firm.objects("teams") == [team])
        #expect(Set(room.objects("teams")) == [team, rival])
        try stack.save(context)
        #expect(try stack.mainContext().count(for: FetchRequest("Team")) == 2)
    }

    @Test func noActionLeavesTheOtherSideAlone() throws {
        let guest = try new("Guest")
        firm.add(guest, to: "visitors")
        try stack.save(context)
        context.delete(firm)
        #expect(!guest.hasChanges)
        #expect(context.deletedObjects.count == 2)
    }

    @Test func aDeletionMayBreakARuleAboutCounts() throws {
        context.delete(room)
        #expect(team.objects("rooms").isEmpty)
        let error = try #require(#expect(throws: QuireError.self) { try context.save() })
        #expect(error.code == .validation)
        #expect(error.subject.object == team.objectID.uriRepresentation)
        #expect(error.subject.property == "rooms")
        #expect(error.subject.rule == .required)
        team.add(try new("Room"), to: "rooms")
        try stack.save(context)
        #expect(try stack.mainContext().count(for: FetchRequest("Room")) == 1)
    }
}
