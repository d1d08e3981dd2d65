import Foundation

@testable import Quire

/// Four works with what belongs to them, about which predicates ask. Their keys are 1 to 4.
///
/// | | title | subtitle | year | pages | rating | price | read | added | author | publisher | tags |
/// |-|-|-|-|-|-|-|-|-|-|-|-|
/// | 1 | Emma | | 1815 | 474 | 4.5 | 9.99 | yes | day 0 | Austen | Murray | classic, love |
/// | 2 | Persuasion | A Novel | 1817 | 249 | 4 | 7.50 | no | day 1 | Austen | Murray | classic |
/// | 3 | Ångström's light | (empty) | 1868 | | | | | day -1 | Ångström | | |
/// | 4 | zoë | | -50 | 0 | -1.5 | 0 | no | | | Self | love, Red |
///
/// The tags weigh 1 (classic), 2 (love) and nothing (Red). Day 0 is the first of January 2001. Austen is Ångström's mentor, and
/// Persuasion the sequel of Emma. Emma also has a UUID, a link, a digest, a size of 2 by 3 and a note.
struct QueryLibrary {
    let works: [TestSubject]

    init() throws {
        func object(
            _ entity: String, _ key: Int64, _ values: [String: AttributeValue]
        ) throws -> TestSubject { try QueryFixture.object(entity, key, values) }
        func day(_ number: Double) -> AttributeValue {
            .date(Date(timeIntervalSinceReferenceDate: number * 86_400))
        }
        let emma = try object(
            "Novel", 1,
            [
                "title": "Emma", "year": 1815, "pages": 474, "rating": 4.5,
                "price": .decimal(Decimal(string: "9.99") ?? 0), "isRead": true, "added": day(0),
                "code": .uuid(UUID(uuidString: "00000000-0000-0000-0000-000000000001") ?? UUID()),
                "link": .uri(URL(string: "https://example.org/emma") ?? URL(fileURLWithPath: "/")),
                "digest": .binary(Data([1, 2])),
                "size": .composite(["width": 2.0, "height": 3.0]),
            ])
        let persuasion = try object(
            "Novel", 2,
            [
                "title": "Persuasion", "subtitle": "A Novel", "year": 1817, "pages": 249,
                "rating": 4.0, "price": .decimal(Decimal(string: "7.5") ?? 0), "isRead": false,
                "added": day(1),
            ])
        let light = try object(
            "Work", 3,
            ["title": "Ångström's light", "subtitle": "", "year": 1868, "added": day(-1)])
        let zoe = try object(
            "Work", 4,
            [
                "title": "zoë", "year": -50, "pages": 0, "rating": -1.5, "price": .decimal(0),
                "isRead": false,
            ])
        works = [emma, persuasion, light, zoe]

        let austen = try object("Author", 1, ["name": "Jane Austen", "born": 1775])
        let angstrom = try object("Author", 2, ["name": "Anders Ångström", "born": 1814])
        austen.toMany = ["works": [emma, persuasion], "pupils": [angstrom]]
        angstrom.toMany = ["works": [light]]
        angstrom.toOne = ["mentor": austen]
        let murray = try object("Publisher", 1, ["name": "John Murray", "city": "London"])
        murray.toMany = ["works": [emma, persuasion]]
        let selfPublisher = try object("Publisher", 2, ["name": "Self"])
        selfPublisher.toMany = ["works": [zoe]]
        let classic = try object("Tag", 1, ["name": "classic", "weight": 1.0])
        classic.toMany = ["works": [emma, persuasion]]
        let love = try object("Tag", 2, ["name": "love", "weight": 2.0])
        love.toMany = ["works": [emma, zoe]]
        let red = try object("Tag", 3, ["name": "Red"])
        red.toMany = ["works": [zoe]]

        emma.toOne = ["author": austen, "publisher": murray]
        emma.toMany = [
            "tags": [classic, love], "sequels": [persuasion],
            "notes": [try object("Note", 1, ["text": "dear reader"])],
        ]
        persuasion.toOne = ["author": austen, "publisher": murray]
        persuasion.toMany = ["tags": [classic], "prequels": [emma]]
        light.toOne = ["author": angstrom]
        zoe.toOne = ["publisher": selfPublisher]
        zoe.toMany = ["tags": [love, red]]
    }

    /// The keys of the works that satisfy a condition, as a text such as “1 2”.
    func keys(where isSatisfied: (TestSubject) throws -> Bool) rethrows -> String {
        try works.filter(isSatisfied).map { "\($0.objectID.primaryKey)" }.joined(separator: " ")
    }
}
