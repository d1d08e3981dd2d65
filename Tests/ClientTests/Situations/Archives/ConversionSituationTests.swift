import Foundation
import Quire
import Testing

/// The objects of a program move to a store of another type, and back.
@MainActor @Suite struct ConversionSituationTests {
    /// The moves of a store: there, and on from there.
    struct Journey: Sendable, CustomTestStringConvertible {
        var types: [SituationStore]
        var testDescription: String { types.map(\.rawValue).joined(separator: " → ") }

        static let all: [Journey] = SituationStore.files.flatMap { first in
            SituationStore.files.flatMap { second in
                SituationStore.files.map { Journey(types: [first, second, $0]) }
            }
        }
        /// Conversions to another type and back.
        static let returns = all.filter {
            $0.types[0] == $0.types[2] && $0.types[0] != $0.types[1]
        }
    }

    /// Opens a new store, fills it, moves it along a journey by `migratePersistentStore`, and looks at it after each move.
    private func travel(
        _ journey: Journey, _ model: ManagedObjectModel,
        fill: (ManagedObjectContext) throws -> Void, look: (ManagedObjectContext) throws -> Void
    ) async throws {
        try await withProgramFolder { folder in
            let start = try #require(journey.types.first)
            let container = try await start.container(model, in: folder, named: "0")
            let coordinator = container.persistentStoreCoordinator
            try fill(container.viewContext)
            try container.viewContext.save()
            try look(container.viewContext)
            for (step, type) in journey.types.enumerated().dropFirst() {
                var description = PersistentStoreDescription(
                    url: folder.appendingPathComponent("\(step).\(type.rawValue.lowercased())"))
                description.type = StoreType(rawValue: type.rawValue)
                let store = try #require(coordinator.persistentStores.first)
                try coordinator.migratePersistentStore(store, to: description)
                container.viewContext.reset()
                try look(container.viewContext)
            }
            try container.close()
            // At the next start nothing but the file is left.
            let last = try #require(journey.types.last)
            let again = try await last.container(
                model, in: folder, named: "\(journey.types.count - 1)")
            try look(again.viewContext)
            try again.close()
        }
    }

    // MARK: - Values

    /// Values at the limits of their types, with their attributes.
    private static let values: [(key: String, value: AttributeValue)] = {
        var values: [(String, AttributeValue)] = []
        values += [Int64.min, .max, 0, -1, 1 << 53 + 1, -(1 << 53) - 1].map {
            ("integer64", .integer($0))
        }
        values += [Int64(Int32.min), Int64(Int32.max)].map { ("integer32", .integer($0)) }
        values += [-32_768, 32_767].map { ("integer16", .integer($0)) }
        values += [
            0.1, 1 / 3, .greatestFiniteMagnitude, .leastNonzeroMagnitude, -.pi, .infinity,
            -.infinity, 1e15, 123_456_789.123_456_79,
        ].map { ("double", .double($0)) }
        values += [0.1 as Float, .greatestFiniteMagnitude, .leastNonzeroMagnitude, .infinity].map {
            ("float", .double(Double($0)))
        }
        values += [0, 0.001, -978_307_200, 63_113_904_000, -63_113_904_000, 253_392_451_199.5].map {
            ("date", .date(Date(timeIntervalSinceReferenceDate: $0)))
        }
        values += [
            "", " ", "\n", "\r\n", "a\rb", "\t x \t", "\u{0}", "a\u{0}b", "\u{1}\u{1F}\u{7F}",
            "\u{FEFF}", "\u{FFFF}\u{FFFE}", "\u{85}\u{2028}", "😀👨‍👩‍👧", "e\u{301}",
            "]]>&amp;<b attribute=\"1\">", "null", "\u{10FFFF}", "%25",
            String(repeating: "ü€😀", count: 20_000),
        ].map { ("text", .string($0)) }
        values += [Data(), Data([0]), Data(0...255), Data(repeating: 7, count: 300_000)].flatMap {
            [("data", .binary($0)), ("file", .binary($0)), ("object", .binary($0))]
        }
        values += [
            "file:///a%20b/%C3%BC", "mailto:a@b.c", "urn:isbn:0", "relative/path?q=%2F#f",
            "http://h/?a=1&b=2",
        ].compactMap { URL(string: $0) }.map { ("uri", .uri($0)) }
        values += [
            "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        ].compactMap { UUID(uuidString: $0) }.map { ("uuid", .uuid($0)) }
        values += [("flag", .boolean(false)), ("flag", .boolean(true))]
        values += ["0", "0.1", "-0.000000000000001", "123456789012345", "1e60"].compactMap {
            Decimal(string: $0)
        }.map { ("decimal", .decimal($0)) }
        return values
    }()

    private static let types: [(String, AttributeType)] = [
        ("integer64", .integer64), ("integer32", .integer32), ("integer16", .integer16),
        ("double", .double), ("float", .float), ("date", .date), ("text", .string),
        ("data", .binary),
        ("object", .transformable), ("uri", .uri), ("uuid", .uuid), ("flag", .boolean),
        ("decimal", .decimal),
    ]

    // Exports lost what the other format cannot write as it is: large integers came back rounded, infinities as null, empty values as
    // missing ones, and texts with control characters made the file unreadable.
    // sqlitebrowser/sqlitebrowser#2175, #244, #1323, markddrake/YADAMU---Yet-Another-DAta-Migration-Utility#69
    @Test(arguments: Journey.returns)
    func valuesAtTheLimitsOfTheirTypesArriveInEveryType(_ journey: Journey) async throws {
        let model = ManagedObjectModel {
            Entity("Value") {
                Attribute("number", .integer32)
                Attribute("file", .binary).externalStorage()
                for (key, type) in Self.types { Attribute(key, type) }
            }
        }
        try await travel(journey, model) { context in
            for (number, (key, value)) in Self.values.enumerated() {
                let object = try context.insertObject(entityName: "Value")
                object["number"] = number
                try object.setValue(value, forKey: key)
            }
        } look: { context in
            let objects = try context.fetch(
                FetchRequest<ManagedObject>("Value", sortOrderings: [SortOrdering("number")]))
            #expect(objects.count == Self.values.count)
            for (object, (key, value)) in zip(objects, Self.values) {
                let found = object[key, as: AttributeValue.self]
                #expect(found == value, "\(key)")
                if case .string(let text) = value {
                    // Equal texts may have different bytes.
                    let foundText = try #require(object[key] as? String)
                    #expect(Array(foundText.unicodeScalars) == Array(text.unicodeScalars))
                }
                for (other, _) in Self.types where other != key {
                    #expect(object[other] == nil, "\(other) beside \(key)")
                }
            }
        }
    }

    // A store that had moved to another type had lost the order of its ordered relationships, or had default values where there were none.
    // Apple, Core Data Programming Guide: persistent store types; lhunath/UbiquityStoreManager#25, lionheart/openradar-mirror#3907
    @Test(arguments: Journey.returns)
    func aGraphArrivesWithItsOrderAndItsMissingValues(_ journey: Journey) async throws {
        let model = ManagedObjectModel {
            Composite("Place") {
                Attribute("street", .string)
                Attribute("number", .integer16)
            }
            Entity("Node") {
                Attribute("name", .string)
                Attribute("size", .integer32).default(7)
                Attribute("hint", .string).default("none")
                ToOne("parent", "Folder", inverse: "children")
                ToMany("tags", "Tag", inverse: "nodes")
            }.abstract()
            Entity("Folder", inherits: "Node") {
                Attribute("place", composite: "Place")
                Attribute("count", .integer64).derived("children.@count")
                ToMany("children", "Node", inverse: "parent").ordered().deleteRule(.cascade)
            }
            Entity("File", inherits: "Node") { Attribute("data", .binary).externalStorage() }
            Entity("Tag") {
                Attribute("name", .string)
                ToMany("nodes", "Node", inverse: "tags").ordered()
            }
        }
        let data = Data((0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 13) })
        try await travel(journey, model) { context in
            func add(_ entity: String, _ name: String) throws -> ManagedObject {
                let object = try context.insertObject(entityName: entity)
                object["name"] = name
                return object
            }
            let top = try add("Folder", "top")
            var children = try ["c", "a", "b"].map { try add("File", $0) }
            children.insert(try add("Folder", "empty"), at: 1)
            children[0]["data"] = data
            children[2]["data"] = Data()
            children[2]["size"] = Int?.none
            children[2]["hint"] = ""
            children[3]["hint"] = String?.none
            try top.setValue(children, forKey: "children")
            try top.setValue(
                AttributeValue.composite(["street": "", "number": .null]), forKey: "place")
            let (red, blue) = (try add("Tag", "red"), try add("Tag", "blue"))
            try red.setValue([children[3], top, children[0]], forKey: "nodes")
            try blue.setValue([children[0], children[3]], forKey: "nodes")
        } look: { context in
            func all(_ entity: String) throws -> [String: ManagedObject] {
                Dictionary(
                    try context.fetch(FetchRequest<ManagedObject>(entity)).map {
                        ($0["name"] as? String ?? "", $0)
                    }, uniquingKeysWith: { first, _ in first })
            }
            func names(_ object: ManagedObject?, _ key: String) -> [String?]? {
                (object?[key] as? [ManagedObject])?.map { $0["name"] as? String }
            }
            let nodes = try all("Node")
            #expect(nodes.keys.sorted() == ["a", "b", "c", "empty", "top"])
            let top = try #require(nodes["top"])
            #expect(names(top, "children") == ["c", "empty", "a", "b"])
            #expect(top["count"] as? Int == 4)
            #expect(
                top["place", as: AttributeValue.self]
                    == .composite(["street": "", "number": .null]))
            let (a, b, c) = (
                try #require(nodes["a"]), try #require(nodes["b"]), try #require(nodes["c"])
            )
            #expect(nodes["empty"]?["count"] as? Int == 0)
            #expect(c["data"] as? Data == data)
            #expect(a["data"] as? Data == Data())
            #expect(b["data"] as? Data == nil)
            #expect(a["size"] as? Int == nil && b["size"] as? Int == 7)
            #expect(a["hint"] as? String == "")
            #expect(b["hint"] as? String == nil)
            #expect(c["hint"] as? String == "none")
            let tags = try all("Tag")
            #expect(names(tags["red"], "nodes") == ["b", "top", "c"])
            #expect(names(tags["blue"], "nodes") == ["c", "b"])
        }
    }

    // Money lost its last digits on the way through a format whose numbers are binary.
    // nerdtypething.blogspot.com “Core Data: Custom Migration (Part 1)”
    @Test(arguments: [[SituationStore.xml, .binary, .xml], [.binary, .xml, .binary]])
    func allDigitsOfDecimalsStayOutsideSQLite(_ types: [SituationStore]) async throws {
        let texts = [
            "12345678901234567890123456789012345678", "-0.12345678901234567890123456789012345678",
            "99999999999999999999999999999999999999e89", "0.1", "1e-120", "-1", "1e127",
        ]
        let model = ManagedObjectModel {
            Entity("Price") {
                Attribute("text", .string)
                Attribute("amount", .decimal)
            }
        }
        try await travel(Journey(types: types), model) { context in
            for text in texts {
                let object = try context.insertObject(entityName: "Price")
                object["text"] = text
                object["amount"] = Decimal(string: text)
            }
        } look: { context in
            let prices = try context.fetch(FetchRequest<ManagedObject>("Price"))
            #expect(prices.count == texts.count)
            for price in prices {
                let text = try #require(price["text"] as? String)
                #expect(price["amount"] as? Decimal == Decimal(string: text), "\(text)")
            }
        }
    }
}
