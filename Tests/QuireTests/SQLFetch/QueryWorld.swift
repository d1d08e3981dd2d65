import Foundation
import QuireTestSupport

@testable import Quire

/// Random objects, the same in a SQLite store and in memory.
struct QueryWorld {
    let store: SQLiteStore
    let folder: TemporaryFolder
    /// The objects by the names of their root entities.
    private(set) var subjects: [String: [TestSubject]] = [:]

    static let texts: [AttributeValue] = [
        .null, "", "a", "A", "abc", "ABC", "aBc", "ábc", "a\u{301}bc", "ÁBC", "Straße", "STRASSE",
        "ΣΑΣ",
        "σας", "σασ", "x*y", "a?b", "10%", "a_b", "\\", "a\0b", "a\0B", "😀", "😀a", "\u{FFFF}",
        "\u{10FFFF}",
        "がぎ", "かき", "line\nbreak", "İ", "ı", "I", "i", "O'Hara", "\"q\"", "Ångström", "angstrom",
        "한글", "하",
    ]
    static let doubles: [AttributeValue] =
        [.null]
        + [
            0, -0.0, 1.5, 3, 1e300, Double.infinity, -Double.infinity, Double.nan, 0.1, 0x1p53,
            -2.25, 0x1p-1060,
        ]
        .map { AttributeValue.double($0) }
    static let integers: [AttributeValue] = [
        .null, 0, 1, -1, 3, 1815, .integer(.max), .integer(.min), .integer(9_007_199_254_740_993),
    ]
    static let smallIntegers: [AttributeValue] = [.null, 0, 1, -1, 3, 1815, 32767]
    static let decimals: [AttributeValue] = [
        .null, .decimal(0), .decimal(3), .decimal(Decimal(string: "0.1") ?? 0),
        .decimal(Decimal(string: "-1.50") ?? 0), .decimal(Decimal(12_345_678_901_234_567)),
        .decimal(Decimal(string: "123456.789") ?? 0),
        .decimal(Decimal(sign: .plus, exponent: 20, significand: 7)),
    ]
    static let booleans: [AttributeValue] = [.null, true, false]
    static let dates: [AttributeValue] =
        [.null]
        + [0, -86_400, 0.25, 700_000_000.123456].map {
            .date(Date(timeIntervalSinceReferenceDate: $0))
        }
    static let uuids: [AttributeValue] =
        [.null]
        + [
            "00000000-0000-0000-0000-000000000000", "5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70",
            "FFFFFFFF-0000-0000-0000-000000000000",
        ].compactMap { UUID(uuidString: $0) }.map { .uuid($0) }
    static let links: [AttributeValue] =
        [.null]
        + [
            "https://example.org/", "https://example.org/a%20b", "file:///x",
            "HTTPS://EXAMPLE.org/",
        ]
        .compactMap { URL(string: $0) }.map { .uri($0) }
    static let bytes: [AttributeValue] = [
        .null, .binary(Data()), .binary(Data([0])), .binary(Data([0, 1])), .binary(Data([255])),
        .binary(Data("abc".utf8)),
    ]

    /// The values that an attribute may have.
    static func pool(_ attribute: AttributeDescription, at name: String) -> [AttributeValue] {
        switch attribute.type {
        case .integer16, .integer32: smallIntegers
        case .integer64: integers
        case .double, .float: doubles
        case .decimal: decimals
        case .boolean: booleans
        case .string: texts
        case .date: dates
        case .uuid: uuids
        case .uri: links
        case .binary: bytes
        default: [.null]
        }
    }

    init(_ random: inout SeededRandom) throws {
        folder = try TemporaryFolder()
        store = try SQLiteStore.create(at: folder.path("store"), model: QueryFixture.model)
        for (entity, count) in [
            ("Author", 8), ("Laureate", 4), ("Publisher", 5), ("Tag", 7), ("Note", 30),
            ("Work", 25), ("Novel", 25),
        ] {
            try insert(entity, count, &random)
        }
        relate(&random)
        try store.save(changes())
    }

    private mutating func insert(
        _ name: String, _ count: Int, _ random: inout SeededRandom
    ) throws {
        let entity = try store.layout.requireEntity(named: name)
        let root = store.layout.entity(number: entity.rootNumber).name
        for id in try store.reserveObjectIDs(for: entity, count: count, durably: false) {
            let subject = TestSubject(id, entity, [:])
            for slot in entity.slots {
                guard let attribute = slot.attribute else { continue }
                let value =
                    Self.pool(attribute, at: slot.name).randomElement(using: &random) ?? .null
                let keys = slot.name.split(separator: ".").map(String.init)
                if keys.count == 1 {
                    subject.values[slot.name] = value
                } else if case .composite(var elements)? = subject.values[keys[0]] {
                    elements[keys[1]] = value
                    subject.values[keys[0]] = .composite(elements)
                } else {
                    subject.values[keys[0]] = .composite([keys[1]: value])
                }
            }
            subjects[root, default: []].append(subject)
        }
    }

    /// Sets both sides of relationships at random; each may be empty.
    private func relate(_ random: inout SeededRandom) {
        func one(_ entity: String) -> TestSubject? {
            Int.random(in: 0..<4, using: &random) == 0
                ? nil : subjects[entity]?.randomElement(using: &random)
        }
        func set(_ subject: TestSubject, _ key: String, _ target: TestSubject?, _ inverse: String?)
        {
            guard let target else { return }
            subject.toOne[key] = target
            if let inverse { target.toMany[inverse, default: []].append(subject) }
        }
        for work in subjects["Work"] ?? [] {
            set(work, "author", one("Author"), "works")
            set(work, "publisher", one("Publisher"), "works")
            for (key, inverse, entity) in [
                ("tags", "works", "Tag"), ("sequels", "prequels", "Work"),
            ] {
                for target in (subjects[entity] ?? [])
                where Int.random(in: 0..<5, using: &random) == 0 {
                    if entity == "Work", Int.random(in: 0..<8, using: &random) > 0 { continue }
                    work.toMany[key, default: []].append(target)
                    target.toMany[inverse, default: []].append(work)
                }
            }
        }
        for author in subjects["Author"] ?? [] { set(author, "mentor", one("Author"), "pupils") }
        for note in subjects["Note"] ?? [] {
            set(note, "by", one("Author"), nil)
            one("Work")?.toMany["notes", default: []].append(note)
        }
    }

    private func changes() -> ChangeSet {
        var changes = ChangeSet()
        for subject in subjects.values.joined() {
            let entity = subject.resolvedEntity
            var values = ContiguousArray<AttributeValue>()
            var mask = SlotMask()
            for slot in entity.slots {
                mask.insert(slot.index)
                if slot.attribute == nil {
                    values.append(subject.toOne[slot.name].map { .objectID($0.objectID) } ?? .null)
                    continue
                }
                let keys = slot.name.split(separator: ".").map(String.init)
                var value = subject.values[keys[0]] ?? .null
                if keys.count > 1, case .composite(let elements) = value {
                    value = elements[keys[1]] ?? .null
                }
                values.append(slot.isStored ? value : .null)
            }
            let toMany = entity.toManyRelationships.compactMap { index -> ToManyChange? in
                let targets = subject.toMany[entity.relationships[index].name] ?? []
                guard !targets.isEmpty else { return nil }
                return ToManyChange(
                    relationshipIndex: index, added: targets.map(\.objectID), removed: [])
            }
            changes.inserted.append(
                ObjectChange(
                    objectID: subject.objectID, entity: entity, version: 0, values: values,
                    changedSlots: mask, toManyChanges: toMany))
        }
        return changes
    }
}
