import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct SQLiteStoreRoundTripTests {
    @Test func everyAttributeTypeComesBackEqual() throws {
        let test = try SQLiteTestStore()
        var cases: [[String: AttributeValue]] = [
            [:],
            [
                "int16": .integer(Int64(Int16.min)), "int32": .integer(Int64(Int32.max)),
                "int64": .integer(.min), "decimal": .decimal(try #require(Decimal(string: "0.1"))),
                "double": .double(.greatestFiniteMagnitude), "float": .double(-0.5),
                "string": .string(""), "boolean": .boolean(false),
                "date": .date(Date(timeIntervalSinceReferenceDate: 0)), "binary": .binary(Data()),
                "uuid": .uuid(UUID()),
                "uri": .uri(try #require(URL(string: "https://x.org/a?b=c#d"))),
                "transformable": .binary(Data([0])), "picture": .binary(Data()),
                "place.lat": .double(47.25), "place.lon": .double(-8.5),
            ],
            [
                "int16": .integer(0), "int32": .integer(-1), "int64": .integer(.max),
                "decimal": .decimal(try #require(Decimal(string: "-123456789012.345"))),
                "double": .double(.leastNonzeroMagnitude), "float": .double(0),
                "string": .string(
                    "a\u{0}b “Żółć” 🇵🇱 e\u{301} é \u{FFFD} \u{1F468}\u{200D}\u{1F469}"),
                "boolean": .boolean(true),
                "date": .date(Date(timeIntervalSinceReferenceDate: -63_114_076_800.125)),
                "binary": .binary(Data((0..<70_000).map { UInt8(truncatingIfNeeded: $0) })),
                "uuid": .uuid(UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))),
                "uri": .uri(try #require(URL(string: "x-coredata://A/B/p1"))),
                "transformable": .binary(Data("bplist00".utf8)),
                "picture": .binary(Data(repeating: 7, count: 102_400)),
            ],
            [
                "decimal": .decimal(Decimal(Int64.max)), "double": .double(3),
                "date": .date(Date(timeIntervalSinceReferenceDate: 1_000_000)),
                "picture": .binary(Data(repeating: 9, count: 102_401)),
            ],
        ]
        // Core Data keeps what is not a number as the text NaN.
        cases.append(["decimal": .decimal(.nan)])
        let ids = try test.reserve("Everything", cases.count)
        try test.save(inserted: zip(ids, cases).map { try test.insertion($0, $1) })
        for _ in 0..<2 {
            for (id, values) in zip(ids, cases) {
                let row = try #require(try test.store.row(for: id))
                #expect(row.version == 1)
                for slot in row.entity.slots {
                    let value = try row.value(at: slot.index)
                    let expected = slot.isStored ? values[slot.name] ?? .null : .null
                    #expect(value == expected, "\(slot.name) of \(id.shortDescription)")
                }
            }
            try test.reopen()
        }
    }

    @Test func largeBinaryValuesAreKeptInFilesAndRemovedWhenUnreferenced() throws {
        let test = try SQLiteTestStore()
        let external = test.folder.path(".test_SUPPORT/_EXTERNAL_DATA")
        let id = try test.reserve("Everything")[0]
        try test.save(inserted: [
            try test.insertion(id, ["picture": .binary(Data(repeating: 1, count: 200_000))])
        ])
        let first = try FileManager.default.contentsOfDirectory(atPath: external)
        #expect(first.count == 1)
        let old = try #require(try test.store.row(for: id))
        try test.save(updated: [
            try test.update(id, ["picture": .binary(Data(repeating: 2, count: 150_000))])
        ])
        // What was read before can still be read.
        let slot = try test.slot("picture", old.entity)
        #expect(try old.value(at: slot) == .binary(Data(repeating: 1, count: 200_000)))
        #expect(try FileManager.default.contentsOfDirectory(atPath: external).count == 2)
        let digests = try test.query("SELECT Z_BYTES, hex(Z_SHA256) FROM QUIRE_EXTERNAL_DATA")
        #expect(digests.map { $0[0] } == ["150000"])
        #expect(digests[0][1].count == 64)
        try test.reopen()
        let second = try FileManager.default.contentsOfDirectory(atPath: external)
        #expect(second.count == 1 && second != first)
        #expect(try test.value(id, "picture") == .binary(Data(repeating: 2, count: 150_000)))
        try test.save(deleted: [ObjectDeletion(objectID: id, version: 2)])
        try test.store.close()
        #expect(try FileManager.default.contentsOfDirectory(atPath: external).isEmpty)
    }

    @Test func missingExternalFileIsAnErrorThatNamesIt() throws {
        let test = try SQLiteTestStore()
        let id = try test.reserve("Everything")[0]
        try test.save(inserted: [
            try test.insertion(id, ["picture": .binary(Data(count: 200_000))])
        ])
        try FileManager.default.removeItem(atPath: test.folder.path(".test_SUPPORT"))
        let error = #expect(throws: QuireError.self) { try test.value(id, "picture") }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("_EXTERNAL_DATA") == true)
    }

    /// One value that cannot be read keeps no other from being found.
    @Test func missingExternalFileIsFoundAsAValueThatCannotBeRead() throws {
        let test = try SQLiteTestStore()
        let ids = try test.reserve("Everything", 2)
        let files = test.folder.path(".test_SUPPORT/_EXTERNAL_DATA")
        try test.save(inserted: [
            try test.insertion(
                ids[0], ["int32": 1, "picture": .binary(Data(repeating: 1, count: 200_000))])
        ])
        let lost = try FileManager.default.contentsOfDirectory(atPath: files)
        let kept = Data(repeating: 2, count: 200_000)
        try test.save(inserted: [
            try test.insertion(ids[1], ["int32": 2, "picture": .binary(kept)])
        ])
        for name in lost { try FileManager.default.removeItem(atPath: "\(files)/\(name)") }
        var request = FetchRequest("Everything")
        #expect(try test.store.rows(matching: request.specification).count == 2)
        request.sortOrderings = [SortOrdering("int32")]
        request.propertiesToFetch = ["int32", "picture"]
        let found = try test.store.dictionaries(matching: request.specification)
        #expect(found.map { $0["int32"] } == [1, 2])
        #expect(found.last?["picture"] == .binary(kept))
        guard case .external(let data)? = found.first?["picture"] else {
            Issue.record("\(String(describing: found.first))")
            return
        }
        let error = #expect(throws: QuireError.self) { try data.data() }
        #expect(error?.code == .invalidFormat)
    }

    @Test func inheritanceKeepsEachEntitysOwnColumns() throws {
        let test = try SQLiteTestStore()
        let person = try test.reserve("Person")[0]
        let company = try test.reserve("Company")[0]
        #expect(person.primaryKey == 1 && company.primaryKey == 2)
        try test.save(inserted: [
            try test.insertion(person, ["name": "Ada", "note": "first"]),
            try test.insertion(company, ["name": "Acme", "note": .integer(12)]),
        ])
        try test.reopen()
        let rows = try test.store.rows(matching: FetchSpecification("party"))
        #expect(rows.map(\.entity.name) == ["Person", "Company"])
        #expect(try test.value(person, "note") == "first")
        #expect(try test.value(company, "note") == .integer(12))
        #expect(try test.store.count(matching: FetchSpecification("Person")) == 1)
        var exact = FetchRequest("party")
        exact.includesSubentities = false
        #expect(try test.store.count(matching: exact.specification) == 0)
        // The same key under another entity's name is nobody.
        let wrong = ManagedObjectID(
            entityNumber: company.entityNumber, primaryKey: 1, store: test.store.identity)
        #expect(try test.store.row(for: wrong) == nil)
    }

    @Test func limitAndOffsetCutTheResult() throws {
        let test = try SQLiteTestStore()
        let ids = try test.reserve("Room", 5)
        try test.save(inserted: ids.map { try test.insertion($0) })
        var request = FetchRequest("Room")
        request.fetchLimit = 2
        request.fetchOffset = 1
        #expect(
            try test.store.rows(matching: request.specification).map(\.objectID) == [
                ids[1], ids[2],
            ])
        #expect(try test.store.count(matching: request.specification) == 2)
        request.fetchLimit = 0
        #expect(try test.store.count(matching: request.specification) == 4)
    }

    @Test func rowsForManyIdentifiersComeInBatches() throws {
        let test = try SQLiteTestStore()
        let ids = try test.reserve("Room", 1200)
        try test.save(inserted: ids.map { try test.insertion($0) })
        let asked = ids.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        let missing = ManagedObjectID(
            entityNumber: ids[0].entityNumber, primaryKey: 9999, store: test.store.identity)
        let rows = try test.store.rows(for: asked + [missing])
        #expect(Set(rows.map(\.objectID)) == Set(asked))
        #expect(rows.count == asked.count)
    }
}
