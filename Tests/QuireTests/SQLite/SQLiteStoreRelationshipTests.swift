import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct SQLiteStoreRelationshipTests {
    @Test func toOneToAPolymorphicEntityKeepsTheTargetsEntity() throws {
        let test = try SQLiteTestStore()
        let person = try test.reserve("Person")[0]
        let company = try test.reserve("Company")[0]
        let letters = try test.reserve("Letter", 2)
        try test.save(inserted: [
            try test.insertion(
                person, toMany: [try test.members(person, "letters", added: [letters[0]])]),
            try test.insertion(
                company, toMany: [try test.members(company, "letters", added: [letters[1]])]),
            try test.insertion(letters[0], ["sender": .objectID(person)]),
            try test.insertion(letters[1], ["sender": .objectID(company)]),
        ])
        #expect(try test.value(letters[0], "sender") == .objectID(person))
        #expect(try test.value(letters[1], "sender") == .objectID(company))
        let destination = try test.entity("party").number
        let stored = try test.query(
            "SELECT ZSENDER, Z\(destination)_SENDER, Z_FOK_SENDER FROM ZLETTER")
        #expect(
            stored == [
                ["1", "\(person.entityNumber)", "2048"], ["2", "\(company.entityNumber)", "2048"],
            ])
        try test.save(updated: [
            try test.update(letters[0], ["sender": .null]),
            try test.update(
                person, toMany: [try test.members(person, "letters", removed: [letters[0]])]),
        ])
        let cleared = try test.query(
            "SELECT ZSENDER, Z\(destination)_SENDER, Z_FOK_SENDER FROM ZLETTER")
        #expect(cleared[0] == ["NULL", "NULL", "NULL"])
        #expect(try test.related(person, "letters") == [])
        #expect(try test.related(letters[1], "sender") == [company])
        // An object that only lost a member of an unordered relationship, or whose end was cut, is not written.
        #expect(try test.store.row(for: person)?.version == 1)
        #expect(try test.store.row(for: letters[0])?.version == 2)
    }

    @Test func oneToOneHasAColumnOnBothSides() throws {
        let test = try SQLiteTestStore()
        let people = try test.reserve("Person", 2)
        let desk = try test.reserve("Desk")[0]
        try test.save(inserted: [
            try test.insertion(
                people[0], ["spouse": .objectID(people[1]), "desk": .objectID(desk)]),
            try test.insertion(people[1], ["spouse": .objectID(people[0])]),
            try test.insertion(desk, ["person": .objectID(people[0])]),
        ])
        #expect(try test.value(people[0], "spouse") == .objectID(people[1]))
        #expect(try test.value(people[1], "spouse") == .objectID(people[0]))
        #expect(try test.value(desk, "person") == .objectID(people[0]))
        #expect(try test.value(people[0], "desk") == .objectID(desk))
    }

    @Test func orderOfOneToManyIsKeptWithFewWrites() throws {
        let test = try SQLiteTestStore()
        let person = try test.reserve("Person")[0]
        var letters = try test.reserve("Letter", 4)
        try test.save(
            inserted: [
                try test.insertion(
                    person,
                    toMany: [try test.members(person, "letters", added: letters, order: letters)])
            ] + letters.map { try test.insertion($0, ["sender": .objectID(person)]) })
        func keys() throws -> [[String]] {
            try test.query("SELECT Z_PK, Z_FOK_SENDER FROM ZLETTER ORDER BY Z_FOK_SENDER")
        }
        #expect(try keys() == [["1", "2048"], ["2", "3072"], ["3", "4096"], ["4", "5120"]])
        #expect(try test.related(person, "letters") == letters)

        letters = [letters[3], letters[0], letters[1], letters[2]]
        try test.save(updated: [
            try test.update(person, toMany: [try test.members(person, "letters", order: letters)])
        ])
        #expect(try keys() == [["4", "1024"], ["1", "2048"], ["2", "3072"], ["3", "4096"]])
        #expect(try test.store.row(for: person)?.version == 2)

        let more = try test.reserve("Letter", 2)
        try test.save(
            inserted: more.map { try test.insertion($0, ["sender": .objectID(person)]) },
            updated: [
                try test.update(
                    person, version: 2, toMany: [try test.members(person, "letters", added: more)])
            ])
        #expect(try keys().suffix(2) == [["5", "5120"], ["6", "6144"]])
        #expect(try test.store.row(for: person)?.version == 2)

        // A reference that is written again with the value it has keeps its place.
        try test.save(updated: [try test.update(letters[1], ["sender": .objectID(person)])])
        #expect(try keys()[1] == ["1", "2048"])
    }

    @Test func manyToManyHasOneRowPerPairAndOrders() throws {
        let test = try SQLiteTestStore()
        let person = try test.reserve("Person")[0]
        let company = try test.reserve("Company")[0]
        let tags = try test.reserve("Tag", 3)
        try test.save(inserted: [
            try test.insertion(
                person, toMany: [try test.members(person, "tags", added: [tags[0], tags[1]])]),
            try test.insertion(
                company, toMany: [try test.members(company, "tags", added: [tags[0]])]),
            try test.insertion(
                tags[0],
                toMany: [
                    try test.members(
                        tags[0], "parties", added: [person, company], order: [company, person])
                ]),
            try test.insertion(
                tags[1], toMany: [try test.members(tags[1], "parties", added: [person])]),
            try test.insertion(tags[2]),
        ])
        #expect(try test.related(person, "tags") == [tags[0], tags[1]])
        #expect(try test.related(tags[0], "parties") == [company, person])
        #expect(try test.related(tags[2], "parties") == [])
        try test.save(updated: [
            try test.update(person, toMany: [try test.members(person, "tags", removed: [tags[0]])]),
            try test.update(
                tags[0], toMany: [try test.members(tags[0], "parties", removed: [person])]),
        ])
        #expect(try test.related(tags[0], "parties") == [company])
        try test.save(deleted: [ObjectDeletion(objectID: company, version: 1)])
        #expect(try test.related(tags[0], "parties") == [])
        let join = try #require(test.store.schema.joinTables.first { $0.firstOrderColumn != nil })
        #expect(try test.query("SELECT count(*) FROM \(join.name)") == [["1"]])
    }

    @Test func manyToManyOfAnEntityWithItselfIsOrderedOnBothSides() throws {
        let test = try SQLiteTestStore()
        let tags = try test.reserve("Tag", 3)
        try test.save(inserted: [
            try test.insertion(
                tags[0],
                toMany: [try test.members(tags[0], "related", added: [tags[2], tags[1]])]),
            try test.insertion(
                tags[1], toMany: [try test.members(tags[1], "relatedBy", added: [tags[0]])]),
            try test.insertion(
                tags[2],
                toMany: [
                    try test.members(tags[2], "related", added: [tags[1]]),
                    try test.members(tags[2], "relatedBy", added: [tags[0]]),
                ]),
        ])
        // tags[1].relatedBy gained tags[2] as well; its side comes in a change of its own.
        try test.save(updated: [
            try test.update(
                tags[1],
                toMany: [
                    try test.members(
                        tags[1], "relatedBy", added: [tags[2]], order: [tags[2], tags[0]])
                ])
        ])
        #expect(try test.related(tags[0], "related") == [tags[2], tags[1]])
        #expect(try test.related(tags[1], "relatedBy") == [tags[2], tags[0]])
        #expect(try test.related(tags[2], "relatedBy") == [tags[0]])
    }

    @Test func reflexiveRelationshipReadsFromBothEnds() throws {
        let test = try SQLiteTestStore()
        let people = try test.reserve("Person", 3)
        try test.save(inserted: [
            try test.insertion(
                people[0],
                toMany: [try test.members(people[0], "friends", added: [people[1], people[2]])]),
            try test.insertion(
                people[1], toMany: [try test.members(people[1], "friends", added: [people[0]])]),
            try test.insertion(
                people[2], toMany: [try test.members(people[2], "friends", added: [people[0]])]),
        ])
        #expect(try test.related(people[0], "friends") == [people[1], people[2]])
        #expect(try test.related(people[1], "friends") == [people[0]])
        try test.save(deleted: [ObjectDeletion(objectID: people[0], version: nil)])
        #expect(try test.related(people[1], "friends") == [])
        let join = try #require(test.store.schema.joinTables.first { $0.isReflexive })
        #expect(join.secondColumn == "REFLEXIVE")
        #expect(try test.query("SELECT count(*) FROM \(join.name)") == [["0"]])
    }

    @Test func toManyWithoutInverseLivesInTheDestinationsTable() throws {
        let test = try SQLiteTestStore()
        let company = try test.reserve("Company")[0]
        let rooms = try test.reserve("Room", 3)
        try test.save(
            inserted: [
                try test.insertion(
                    company, toMany: [try test.members(company, "rooms", added: rooms)])
            ] + rooms.map { try test.insertion($0) })
        #expect(try test.related(company, "rooms") == rooms)
        let number = company.entityNumber
        let columns = "Z\(number)ROOMS, Z_FOK_\(number)ROOMS"
        #expect(
            try test.query("SELECT \(columns) FROM ZROOM")
                == [["1", "2048"], ["1", "3072"], ["1", "4096"]])
        try test.save(updated: [
            try test.update(
                company, toMany: [try test.members(company, "rooms", removed: [rooms[1]])])
        ])
        #expect(try test.related(company, "rooms") == [rooms[0], rooms[2]])
        #expect(try test.query("SELECT \(columns) FROM ZROOM")[1] == ["NULL", "NULL"])
        try test.save(deleted: [ObjectDeletion(objectID: company, version: 1)])
        #expect(try test.query("SELECT \(columns) FROM ZROOM")[0] == ["NULL", "NULL"])
    }
}
