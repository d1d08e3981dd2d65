import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct ConstraintConflictTests {
    private static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Person", unique: [["email"], ["first", "last"]],
            FixtureModels.attribute("email", .string), FixtureModels.attribute("first", .string),
            FixtureModels.attribute("last", .string), FixtureModels.attribute("age", .integer16),
            FixtureModels.attribute("note", .string),
            FixtureModels.toMany("pets", "Pet", "owner", .cascade),
            FixtureModels.toMany("clubs", "Club", "members")),
        FixtureModels.entity("Member", parent: "Person", FixtureModels.attribute("since", .date)),
        FixtureModels.entity(
            "Guest", parent: "Person", FixtureModels.toMany("passes", "Pass", "guest")),
        FixtureModels.entity(
            "Pass", FixtureModels.attribute("name", .string),
            FixtureModels.toOne("guest", "Guest", "passes")),
        FixtureModels.entity(
            "Pet", FixtureModels.attribute("name", .string),
            FixtureModels.toOne("owner", "Person", "pets")),
        FixtureModels.entity(
            "Club", FixtureModels.attribute("name", .string),
            FixtureModels.toMany("members", "Person", "clubs")),
    ])

    private func rivals(_ kind: RivalKind, _ policy: MergePolicy = .error) throws -> Rivals {
        try Rivals(kind, policy: policy, model: Self.model)
    }

    @Test func errorListsEveryConflict() throws {
        let rivals = try rivals(.store)
        let stored = try rivals.there.insertObject(entityName: "Person")
        stored["email"] = "a@b"
        stored["first"] = "A"
        stored["last"] = "B"
        stored["age"] = 40
        try rivals.there.save()
        let first = try rivals.new("Member", ["email": "a@b"])
        let compound = try rivals.new("Person", ["first": "A", "last": "B"])
        let twins = try (0..<2).map { _ in try rivals.new("Person", ["email": "t@t"]) }
        _ = try rivals.new("Person", ["first": "A"])  // Missing values are no conflict.
        _ = try rivals.new("Person", ["first": "A"])
        let error = try #require(throws: QuireError.self) { try rivals.save() }
        #expect(error.code == .constraintConflict)
        #expect(error.failures.count == 3)
        let conflicts = error.constraintConflicts
        #expect(conflicts.count == 3)
        #expect(conflicts[0].entityName == "Person")
        let byEmail = try #require(conflicts.first { $0.constraintValues == ["a@b"] })
        #expect(byEmail.constraint == ["email"])
        #expect(byEmail.databaseObjectID == stored.objectID)
        #expect(byEmail.databaseSnapshot?["age"] == 40)
        #expect(byEmail.conflictingObjectIDs == [first.objectID])
        #expect(byEmail.conflictingSnapshots.first?["email"] == "a@b")
        let byName = try #require(conflicts.first { $0.constraint == ["first", "last"] })
        #expect(byName.conflictingObjectIDs == [compound.objectID])
        let among = try #require(conflicts.first { $0.databaseObjectID == nil })
        #expect(among.constraintValues == ["t@t"])
        #expect(Set(among.conflictingObjectIDs) == Set(twins.map(\.objectID)))
        #expect(rivals.here.insertedObjects.count == 6)
        #expect(try rivals.stack.mainContext().count(for: FetchRequest("Person")) == 1)
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func aNewObjectMeetsAStoredOne(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try rivals(kind, policy)
        let stored = try rivals.there.insertObject(entityName: "Person")
        stored["email"] = "a@b"
        stored["age"] = 40
        stored["note"] = "stored"
        let theirPet = try rivals.there.insertObject(entityName: "Pet")
        theirPet["owner"] = stored
        try rivals.there.save()
        let person = try rivals.new("Person", ["email": "a@b", "age": 41, "first": "F"])
        let pet = try rivals.new("Pet", ["name": "P"])
        pet["owner"] = person
        let club = try rivals.new("Club", ["name": "C"])
        club.add(person, to: "members")
        try rivals.save()
        let fresh = rivals.stack.mainContext()
        let people = try fresh.fetch(FetchRequest("Person"))
        #expect(people.map(\.objectID) == [stored.objectID])
        let read = try #require(people.first)
        if policy === MergePolicy.rollback {
            #expect(read["age", as: Int64.self] == 40)
            #expect(read["first", as: String.self] == nil)
            #expect(read.objectIDs("pets") == [theirPet.objectID])
            #expect(fresh.object(with: club.objectID).objectIDs("members").isEmpty)
        } else {
            #expect(
                read["age", as: Int64.self]
                    == (policy === MergePolicy.mergeByPropertyStoreTrump ? 40 : 41))
            #expect(read["first", as: String.self] == "F")
            #expect(
                read["note", as: String.self] == (policy === MergePolicy.overwrite ? nil : "stored")
            )
            #expect(Set(read.objectIDs("pets")) == [theirPet.objectID, pet.objectID])
            #expect(
                fresh.object(with: club.objectID).objectIDs("members") == [stored.objectID])
        }
        if !rivals.isNested {
            #expect(!rivals.here.hasChanges)
            #expect(!person.isInserted)
            try rivals.expectWhole(rivals.here)
        }
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func aChangedObjectMeetsAStoredOne(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try rivals(kind, policy)
        let person = try rivals.new("Person", ["email": "old", "age": 1])
        try rivals.save()
        let stored = try rivals.there.insertObject(entityName: "Person")
        stored["email"] = "a@b"
        let theirPet = try rivals.there.insertObject(entityName: "Pet")
        theirPet["owner"] = stored
        try rivals.there.save()
        person["email"] = "a@b"
        person["age"] = 2
        try rivals.save()
        let read = try #require(try rivals.stored(person))
        #expect(read["email", as: String.self] == (policy.prefersStore ? "old" : "a@b"))
        #expect(read["age", as: Int64.self] == 2)
        #expect((try rivals.stored(stored) != nil) == policy.prefersStore)
        let owner = try rivals.stored(theirPet)?.object("owner")?.objectID
        #expect(owner == (policy.prefersStore ? stored.objectID : person.objectID))
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func newObjectsAmongThemselves(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try rivals(kind, policy)
        let club = try rivals.new("Club", ["name": "C"])
        for age in 1...3 {
            let person = try rivals.new("Person", ["email": "a@b", "age": .integer(Int64(age))])
            club.add(person, to: "members")
        }
        try rivals.save()
        let people = try rivals.stack.mainContext().fetch(FetchRequest("Person"))
        #expect(people.count == 1)
        #expect(people.first?["age", as: Int64.self] == (policy.prefersStore ? 1 : 3))
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
    }

    /// A saved object and a new one get values that others have saved meanwhile.
    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func aChangedAndANewObjectMeetAStoredOne(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try rivals(kind, policy)
        let saved = try rivals.new("Person", ["email": "s@s"])
        let club = try rivals.new("Club", ["name": "C"])
        try rivals.save()
        let stored = try rivals.there.insertObject(entityName: "Person")
        stored["email"] = "a@b"
        stored.add(rivals.theirs(club), to: "clubs")
        try rivals.there.save()
        saved["email"] = "a@b"
        let new = try rivals.new("Person", ["email": "a@b"])
        let newClub = try rivals.new("Club", ["name": "N"])
        newClub.add(new, to: "members")
        try rivals.save()

        #expect(!rivals.here.hasChanges)
        try rivals.expectWhole(rivals.stack.mainContext())
        let fresh = rivals.stack.mainContext()
        let people = try fresh.fetch(FetchRequest("Person"))
        let found = try #require(people.first { $0["email", as: String.self] == "a@b" })
        if policy.prefersStore {
            #expect(people.count == 2 && found.objectID == stored.objectID)
        } else {
            #expect(people.count == 1 && found.objectID == saved.objectID)
        }
        #expect(found.objectIDs("clubs").contains(club.objectID))
        // Only rolling back loses what was related to the new one.
        #expect(
            found.objectIDs("clubs").contains(newClub.objectID)
                == (policy !== MergePolicy.rollback))
    }

    /// What refers to the one could not refer to the other.
    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func uniqueValueOfAnotherSubclassIsAnError(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try rivals(kind, policy)
        let stored = try rivals.there.insertObject(entityName: "Member")
        stored["email"] = "a@b"
        try rivals.there.save()
        let guest = try rivals.new("Guest", ["email": "a@b"])
        let pass = try rivals.new("Pass", ["name": "P"])
        pass["guest"] = guest
        let error = try #require(throws: QuireError.self) { try rivals.save() }
        #expect(error.code == .constraintConflict)
        #expect(error.constraintConflicts.map(\.databaseObjectID) == [stored.objectID])
        #expect(pass.object("guest") === guest && guest["email", as: String.self] == "a@b")
        #expect(try rivals.stack.mainContext().count(for: FetchRequest("Pass")) == 0)
        guest["email"] = "c@d"
        try rivals.save()
        #expect(try rivals.stored(pass)?.object("guest")?.objectID == guest.objectID)
        #expect(try rivals.stored(stored) != nil)
    }

    @Test(arguments: MergePolicy.resolving)
    func changedUniqueValueOfAnotherSubclassKeepsBothObjects(policy: MergePolicy) throws {
        let rivals = try rivals(.context, policy)
        let guest = try rivals.new("Guest", ["email": "old"])
        let pass = try rivals.new("Pass", ["name": "P"])
        pass["guest"] = guest
        try rivals.save()
        let stored = try rivals.there.insertObject(entityName: "Member")
        stored["email"] = "a@b"
        try rivals.there.save()
        guest["email"] = "a@b"
        if policy.prefersStore {
            try rivals.save()
            #expect(guest["email", as: String.self] == "old")
        } else {
            // The stored object would be deleted.
            let error = #expect(throws: QuireError.self) { try rivals.save() }
            #expect(error?.code == .constraintConflict)
        }
        #expect(try rivals.stored(stored) != nil && rivals.stored(guest) != nil)
        #expect(pass.object("guest") === guest)
    }

    /// A sub-entity's object can take a new one's place.
    @Test(arguments: MergePolicy.resolving)
    func uniqueValueOfASubentityIsMerged(policy: MergePolicy) throws {
        let rivals = try rivals(.context, policy)
        let stored = try rivals.there.insertObject(entityName: "Member")
        stored["email"] = "a@b"
        try rivals.there.save()
        _ = try rivals.new("Person", ["email": "a@b", "first": "F"])
        try rivals.save()
        let people = try rivals.stack.mainContext().fetch(FetchRequest("Person"))
        #expect(people.map(\.objectID) == [stored.objectID])
        try rivals.expectWhole(rivals.here)
    }

    @Test func uniqueValuesMayBeExchanged() throws {
        let rivals = try rivals(.context)
        let people = try ["a", "b", "c"].map { try rivals.new("Person", ["email": .string($0)]) }
        try rivals.save()
        for (person, email) in zip(people, ["b", "c", "a"]) { person["email"] = email }
        try rivals.save()
        #expect(
            try people.map { try rivals.stored($0)?["email", as: String.self] } == ["b", "c", "a"])
        people[0]["email"] = "d"
        _ = try rivals.new("Person", ["email": "b"])
        try rivals.save()
        try rivals.expectWhole(rivals.here)
    }

    @Test func bothKindsAreInOneError() throws {
        let rivals = try rivals(.store)
        let person = try rivals.new("Person", ["email": "a"])
        try rivals.save()
        rivals.theirs(person)["age"] = 3
        try rivals.there.save()
        person["age"] = 4
        _ = try rivals.new("Person", ["email": "a"])
        let error = try #require(throws: QuireError.self) { try rivals.save() }
        #expect(error.code == .mergeConflict)
        #expect(error.mergeConflicts.count == 1)
        #expect(error.constraintConflicts.count == 1)
        #expect(Set(error.failures.map(\.code)) == [.mergeConflict, .constraintConflict])
    }

    @Test(arguments: [MergePolicy.Kind.error, .rollback, .overwrite])
    func aSubclassChoosesAKindForEachConflict(kind: MergePolicy.Kind) throws {
        final class Chooser: MergePolicy, @unchecked Sendable {
            let kind: Kind

            init(_ kind: Kind) {
                self.kind = kind
                super.init(merge: .mergeByPropertyStoreTrump)
            }

            override func resolve(constraintConflict conflict: ConstraintConflict) throws -> Kind {
                conflict.constraintValues == ["a@b"] ? kind : .error
            }
        }
        let rivals = try rivals(.store, Chooser(kind))
        let stored = try rivals.there.insertObject(entityName: "Person")
        stored["email"] = "a@b"
        stored["age"] = 40
        try rivals.there.save()
        let person = try rivals.new("Person", ["email": "a@b", "age": 41])
        if kind == .error {
            let error = #expect(throws: QuireError.self) { try rivals.save() }
            #expect(error?.constraintConflicts.map(\.conflictingObjectIDs) == [[person.objectID]])
            #expect(rivals.here.insertedObjects == [person])
        } else {
            try rivals.save()
            #expect(
                try rivals.stored(stored)?["age", as: Int64.self] == (kind == .overwrite ? 41 : 40))
        }
    }
}
