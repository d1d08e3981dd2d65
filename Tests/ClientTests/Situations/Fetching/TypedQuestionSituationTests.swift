import Foundation
import Quire
import QuireMacros
import Testing

enum Genre: String, Codable { case novel, poem, essay }

enum ShelfHeight: Int16, Codable { case low = 1, high = 7 }

@Composite struct Measure {
    var width: Double?
    var unit: String?
}

@Entity class Work: ManagedObject {
    @Attribute var title: String
    @Attribute var genre: Genre?
    @Attribute(default: ShelfHeight.low) var shelf: ShelfHeight
    @Attribute var pages: Int?
    @Attribute var price: Decimal?
    @Attribute var code: UUID?
    @Attribute var added: Date?
    @Attribute var measure: Measure?
    @Relationship(inverse: \Poet.works) var poet: Poet?
    @Relationship(inverse: \Stamp.works) var stamps: Set<Stamp>
}

@Entity final class Anthology: Work {
    @Attribute var editor: String?
}

@Entity final class Poet: ManagedObject {
    @Attribute var name: String
    @Attribute var born: Int?
    @Attribute(derived: "works.@count") var count: Int
    @Relationship var works: Set<Work>
}

@Entity final class Stamp: ManagedObject {
    @Attribute var name: String
    @Relationship var works: [Work]
}

/// `#Predicate` and `SortDescriptor` over classes, as SwiftData's users write them.
@MainActor @Suite struct TypedQuestionSituationTests {
    private static let codes = (0..<4).map { _ in UUID() }

    private static func fill(_ context: ManagedObjectContext) {
        let blake = Poet(context: context)
        blake.name = "Blake"
        blake.born = 1757
        let sappho = Poet(context: context)
        sappho.name = "Sappho"
        let red = Stamp(context: context)
        red.name = "red"
        let blue = Stamp(context: context)
        blue.name = "blue"
        for (index, (title, genre, shelf, pages, price, poet, stamps))
            in ([
                ("A", .poem, .high, 100, "9.99", blake, [red, blue]),
                ("B", .novel, .low, nil, nil, nil, []),
                ("C", nil, .high, 30, "10", sappho, [blue]),
                ("D", .essay, .low, 500, "0.5", blake, [red]),
            ] as [(String, Genre?, ShelfHeight, Int?, String?, Poet?, [Stamp])]).enumerated()
        {
            let work = title == "D" ? Anthology(context: context) : Work(context: context)
            work.title = title
            work.genre = genre
            work.shelf = shelf
            work.pages = pages
            work.price = price.flatMap { Decimal(string: $0) }
            work.code = index == 1 ? nil : codes[index]
            work.added = pages.map { Date(timeIntervalSinceReferenceDate: Double($0)) }
            if let pages {
                work.measure = Measure(width: Double(pages) / 10, unit: index == 0 ? nil : "cm")
            }
            work.poet = poet
            work.stamps = Set(stamps)
            (work as? Anthology)?.editor = "E"
        }
    }

    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(classes: [Work.self, Anthology.self, Poet.self, Stamp.self])
    }

    /// Enumerations, optionals, lists of identifiers, closures in closures, `isEmpty == false`: fatbobman.com “How to Handle Optional
    /// Values in SwiftData Predicates”, and the rules of the page “swiftdata-pro predicates” (contextqmd.com), many of which crash
    /// at run time there.
    @Test(arguments: SituationCase.all)
    func predicatesThatCompileAreAnswered(_ situation: SituationCase) async throws {
        try await situation.run(Self.model(), fill: Self.fill) { context in
            let poem: Genre? = .poem
            let genres: [Genre?] = [.poem, .essay]
            let some: [Genre] = [.poem, .essay]
            let high = ShelfHeight.high
            let shelves: Set<ShelfHeight> = [.high]
            let wanted: [UUID?] = [Self.codes[0], Self.codes[3]]
            let code: UUID? = Self.codes[2]
            let ten = Decimal(10)
            let limit: Int? = 100
            let names = ["Blake", "Nobody"]
            let early = Date(timeIntervalSinceReferenceDate: 99)
            let blake = try #require(
                try context.fetch(Poet.self, where: #Predicate { $0.name == "Blake" }).first
            ).objectID
            let none: ManagedObjectID? = nil
            let questions: [(Predicate<Work>, String)] = [
                (#Predicate { $0.genre == poem }, "A"), (#Predicate { $0.genre != poem }, "BCD"),
                (#Predicate { genres.contains($0.genre) }, "AD"),
                (#Predicate { $0.genre.flatMap { some.contains($0) } ?? false }, "AD"),
                (#Predicate { $0.genre == nil }, "C"), (#Predicate { $0.shelf == high }, "AC"),
                (#Predicate { shelves.contains($0.shelf) }, "AC"),
                (#Predicate { wanted.contains($0.code) }, "AD"),
                (#Predicate { $0.code == code }, "C"), (#Predicate { $0.code != code }, "ABD"),
                (#Predicate { ($0.pages ?? 0) < 50 }, "BC"),
                (#Predicate { ($0.pages ?? 1000) < 50 }, "C"),
                (#Predicate { $0.pages == limit }, "A"),
                (#Predicate { if let pages = $0.pages { pages > 50 } else { true } }, "ABD"),
                (#Predicate { ($0.price ?? 0) < ten }, "ABD"),
                (#Predicate { $0.price == ten }, "C"),
                (#Predicate { $0.poet?.name == "Blake" }, "AD"),
                (#Predicate { $0.poet?.name != "Blake" }, "BC"),
                (#Predicate { $0.poet == nil }, "B"),
                (#Predicate { $0.poet?.objectID == blake }, "AD"),
                (#Predicate { $0.poet?.objectID == none }, "B"),
                (#Predicate { $0.poet?.objectID != blake }, "BC"),
                (#Predicate { $0.poet.flatMap { names.contains($0.name) } == true }, "AD"),
                (#Predicate { ($0.poet?.born ?? 0) == 0 }, "BC"),
                (#Predicate { $0.poet?.born != nil }, "AD"),
                (#Predicate { $0.stamps.isEmpty }, "B"),
                (#Predicate { $0.stamps.isEmpty == false }, "ACD"),
                (#Predicate { !$0.stamps.isEmpty && $0.stamps.count < 2 }, "CD"),
                (#Predicate { $0.stamps.contains { $0.name == "red" } }, "AD"),
                (#Predicate { $0.stamps.allSatisfy { $0.name == "blue" } }, "BC"),
                (#Predicate { $0.stamps.filter { $0.name == "red" }.count == 1 }, "AD"),
                (
                    #Predicate { work in
                        work.stamps.contains { $0.works.contains { $0.title > work.title } }
                    }, "A"
                ),
                (#Predicate { ($0.added ?? early) > early }, "AD"),
                (#Predicate { $0.measure?.unit == "cm" }, "CD"),
                (#Predicate { $0.measure?.unit == nil }, "AB"),
                (#Predicate { ($0.measure?.width ?? 0) >= 10 }, "AD"),
                (#Predicate { $0.title < "C" && !($0.genre == poem) || $0.pages == 500 }, "BD"),
                (#Predicate { ($0.pages ?? 0) % 100 == 0 }, "ABD"),
                (#Predicate { ($0.poet?.works.count ?? 0) > 1 }, "AD"),
                (#Predicate { $0.poet?.works.contains { $0.title == "D" } ?? true }, "ABD"),
            ]
            for (index, (predicate, titles)) in questions.enumerated() {
                let found = try context.fetch(
                    Work.self, where: predicate, sortBy: [SortDescriptor(\.title)])
                #expect(found.map(\.title).joined() == titles, "question \(index)")
                let count = try context.count(for: Work.self, where: predicate)
                #expect(count == titles.count, "question \(index)")
            }
        }
    }

    /// Orders over optional relationships and several keys, reversed ones, of enumerations and derived counts: fatbobman.com
    /// and hackingwithswift.com “How to create a custom FetchDescriptor”.
    @Test(arguments: SituationCase.all)
    func sortDescriptorsOrderOptionalsAndRelationships(_ situation: SituationCase) async throws {
        try await situation.run(Self.model(), fill: Self.fill) { context in
            let orders: [([SortDescriptor<Work>], String)] = [
                ([SortDescriptor(\.pages)], "BCAD"),
                ([SortDescriptor(\.pages, order: .reverse)], "DACB"),
                ([SortDescriptor(\.price), SortDescriptor(\.title)], "BDAC"),
                ([SortDescriptor(\.poet?.name), SortDescriptor(\.title, order: .reverse)], "BDAC"),
                ([SortDescriptor(\.added, order: .reverse)], "DACB"),
                ([SortDescriptor(\.poet?.count), SortDescriptor(\.title)], "BCAD"),
                ([SortDescriptor(\.code?.uuidString)], ""),
            ]
            for (descriptors, titles) in orders {
                if titles.isEmpty {
                    #expect(throws: QuireError.self) {
                        try context.fetch(Work.self, sortBy: descriptors)
                    }
                } else {
                    let found = try context.fetch(Work.self, sortBy: descriptors)
                    #expect(found.map(\.title).joined() == titles)
                }
            }
            let anthologies = try context.fetch(
                Anthology.self, where: #Predicate { $0.editor == "E" && $0.poet?.name == "Blake" })
            #expect(anthologies.map(\.title) == ["D"])
            let poets = try context.fetch(
                Poet.self, where: #Predicate { $0.count > 1 }, sortBy: [SortDescriptor(\.count)])
            #expect(poets.map(\.name) == ["Blake"])
        }
    }
}
