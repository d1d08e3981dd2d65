import Foundation
import Quire
import QuireModel
import QuireSQLite
import QuireStore
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Values that were set on several machines without knowledge of each other, under each policy.
@MainActor @Suite struct SyncPolicyTests {
    /// A model with policies, or the same without.
    static func model(_ policies: Bool = true) -> ManagedObjectModel {
        func policy(_ policy: SyncPolicy) -> [String: PropertyListValue] {
            policies ? [AttributeDescription.syncPolicyKey: .string(policy.rawValue)] : [:]
        }
        return ManagedObjectModel {
            Entity("Book") {
                Attribute("title", .string)
                Attribute("copies", .integer32).default(0).userInfo(policy(.counter))
                Attribute("sold", .integer64).userInfo(policy(.counter))
                Attribute("balance", .decimal).userInfo(policy(.counter))
                Attribute("weight", .double).default(0.5).userInfo(policy(.counter))
                Attribute("lastPage", .integer32).userInfo(policy(.maximum))
                Attribute("lastRead", .date).userInfo(policy(.maximum))
                Attribute("lowestPrice", .decimal).userInfo(policy(.minimum))
                Attribute("isRead", .boolean).userInfo(policy(.maximum))
                Attribute("notes", .string).userInfo(policy(.text))
            }
            Entity("Day") {
                Attribute("name", .string)
                Attribute("visits", .integer16).default(0).userInfo(policy(.counter))
            }.userInfo(["syncIdentity": "name"])
        }
    }

    /// Machines with one book.
    private func sites(_ count: Int, _ values: [String: Any] = [:]) async throws -> SyncSites {
        let sites = try SyncSites(count, model: Self.model())
        let book = try sites.sites[0].context.insertObject(entityName: "Book")
        for (key, value) in values { book[key] = value }
        try sites.sites[0].context.save()
        try await sites.begin()
        return sites
    }

    /// Sets the same attribute on each machine, without knowledge of the others.
    private func set(_ key: String, _ values: [Any?], in sites: SyncSites) async throws {
        for (site, value) in zip(sites.sites, values) {
            try site.book[key] = value
            try site.context.save()
            try await site.sync.synchronize()
        }
        try await sites.exchange()
        try await sites.expectSame()
    }

    private func expectNoConflicts(_ sites: SyncSites) async throws {
        for site in sites.sites {
            let conflicts = try await site.sync.conflicts()
            #expect(conflicts.isEmpty, "\(site.machine): \(conflicts)")
        }
    }

    // MARK: - Conflicts

    /// The numbers do not depend on the order in which a dictionary is gone through.
    @Test(arguments: [false, true])
    func conflictsAreNumberedInTheOrderOfTheirProperties(deletes: Bool) async throws {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"]
        let model = ManagedObjectModel {
            Entity("Book") { for name in names { Attribute(name, .string) } }
        }
        let sites = try SyncSites(2, model: model)
        _ = try sites.sites[0].context.insertObject(entityName: "Book")
        try sites.sites[0].context.save()
        try await sites.begin()
        for site in sites.sites {
            if deletes && site.machine == 1 {
                site.context.delete(try site.book)
            } else {
                for name in names { try site.book[name] = "\(site.machine)" }
            }
            try site.context.save()
            try await site.sync.synchronize()
        }
        try await sites.exchange()
        for site in sites.sites {
            let conflicts = try await site.sync.conflicts().sorted { $0.number < $1.number }
            #expect(conflicts.map(\.propertyName) == names, "\(site.machine)")
        }
        try sites.close()
    }

    // MARK: - Counters

    @Test func whatTwoMachinesCountIsAddedUp() async throws {
        let sites = try await sites(2, ["copies": 5])
        try await set("copies", [6, 7], in: sites)
        #expect(try sites.values("copies") == [.integer(8), .integer(8)])
        try await set("copies", [4, 8], in: sites)
        #expect(try sites.values("copies") == [.integer(4), .integer(4)])
        try await expectNoConflicts(sites)
        try sites.close()
    }

    @Test func nullIsNothingCounted() async throws {
        let sites = try await sites(3)
        #expect(try sites.values("sold") == [.null, .null, .null])
        try await set("sold", [1, 1, 1], in: sites)
        #expect(try sites.values("sold") == [.integer(3), .integer(3), .integer(3)])
        try await set("sold", [nil], in: sites)
        #expect(try sites.values("sold") == [.integer(0), .integer(0), .integer(0)])
        try await set("sold", [2], in: sites)
        #expect(try sites.values("sold") == [.integer(2), .integer(2), .integer(2)])
        try await expectNoConflicts(sites)
        try sites.close()
    }

    /// Capturing commits the row with the value that the policy gives it, before the merging that fails.
    @Test func failedMergeReportsWhatWasCaptured() async throws {
        let sites = try await sites(1, ["sold": 3])
        let site = sites.sites[0]
        try site.book["sold"] = nil
        try site.context.save()
        let reported = Lock<[ObjectIDChanges]>([])
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.didImportChangesNotification,
            object: site.context.persistentStoreCoordinator, queue: nil
        ) { notification in
            let changes = notification.objectIDChanges
            reported.withLock { $0 += [changes].compactMap { $0 } }
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        let unknown = SyncConflict(
            number: 99, objectID: nil, entityName: "Book", propertyName: "sold", kind: .value,
            lost: .null, kept: .null, date: Date())
        await #expect(throws: QuireError.self) { try await site.sync.choose(unknown) }
        #expect(try reported.withLock { $0 }.flatMap(\.updated) == [site.book.objectID])
        #expect(try site.value("sold") == .integer(0))
        try await site.sync.synchronize()
        #expect(reported.withLock(\.count) == 1)
        try sites.close()
    }

    @Test func decimalsAreCountedExactly() async throws {
        let sites = try await sites(2, ["balance": Decimal(string: "0.1") as Any])
        try await set(
            "balance", [Decimal(string: "0.3"), Decimal(string: "-100000000.02")], in: sites)
        let sum = try #require(Decimal(string: "-99999999.82"))
        #expect(try sites.values("balance") == [.decimal(sum), .decimal(sum)])
        // With more digits than a row keeps.
        try await set(
            "balance", [Decimal(string: "123456789012.34"), Decimal(string: "-99999999.8199")],
            in: sites)
        let values = try sites.values("balance")
        #expect(values[0] == values[1])
        try await set("weight", [0.75, 2.5], in: sites)
        #expect(try sites.values("weight") == [.double(2.75), .double(2.75)])
        try sites.close()
    }

    @Test func aSumThatIsOutOfRangeIsShownAsTheLimit() async throws {
        let sites = try await sites(2, ["copies": Int32.max - 1])
        try await set("copies", [Int32.max, Int32.max], in: sites)
        let limit = AttributeValue.integer(Int64(Int32.max))
        #expect(try sites.values("copies") == [limit, limit])
        try await set("copies", [Int32.max - 2], in: sites)
        let less = AttributeValue.integer(Int64(Int32.max) - 2)
        #expect(try sites.values("copies") == [less, less])
        for _ in 0..<2 { try await set("sold", [Int64.max, Int64.max], in: sites) }
        #expect(try sites.values("sold") == [.integer(.max), .integer(.max)])
        try await set("sold", [Int64.min, Int64.min], in: sites)
        #expect(try sites.values("sold") == [.integer(.min), .integer(.min)])
        try await set("sold", [3], in: sites)
        #expect(try sites.values("sold") == [.integer(3), .integer(3)])
        try await set("weight", [Double.greatestFiniteMagnitude, 1e308], in: sites)
        try await set("weight", [0.1, 0.2], in: sites)
        try sites.close()
    }

    @Test func objectsOfOneIdentityHaveWhatBothHaveCounted() async throws {
        let sites = try SyncSites(2, model: Self.model())
        try await sites.begin()
        for (site, visits) in zip(sites.sites, [3, 4]) {
            let day = try site.context.insertObject(entityName: "Day")
            day["name"] = "2026-11-26"
            day["visits"] = visits
            try site.context.save()
        }
        try await sites.exchange()
        try await sites.expectSame()
        let day = try #require(try sites.sites[0].objects("Day").first)
        #expect(day["visits", as: Int.self] == 7)
        try await expectNoConflicts(sites)
        // A new day of the same name begins anew.
        sites.sites[0].context.delete(day)
        try sites.sites[0].context.save()
        let next = try sites.sites[0].context.insertObject(entityName: "Day")
        next["name"] = "2026-11-26"
        next["visits"] = 1
        try sites.sites[0].context.save()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try sites.sites[1].objects("Day").map { $0["visits", as: Int.self] } == [1])
        try sites.close()
    }

    @Test func undoTakesBackWhatWasCountedHereOnly() async throws {
        let sites = try await sites(2, ["copies": 5])
        let (first, second) = (sites.sites[0], sites.sites[1])
        first.context.undoManager = UndoManager()
        let book = try first.book
        book["copies"] = 6
        try first.context.save()
        try second.book["copies"] = 15
        try second.context.save()
        try await sites.exchange()
        #expect(try sites.values("copies") == [.integer(16), .integer(16)])
        for (step, expected) in [(first.context.undo, 15), (first.context.redo, 16)] {
            step()
            try first.context.save()
            try await sites.exchange()
            #expect(
                try sites.values("copies") == [
                    .integer(Int64(expected)), .integer(Int64(expected)),
                ])
        }
        try await sites.expectSame()
        try sites.close()
    }

    @Test func whatWasCountedOfADeletedObjectIsListed() async throws {
        let sites = try await sites(2, ["copies": 5])
        let (first, second) = (sites.sites[0], sites.sites[1])
        first.context.delete(try first.book)
        try first.context.save()
        try second.book["copies"] = 8
        try second.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        for site in sites.sites {
            #expect(try site.objects("Book").isEmpty)
            let conflicts = try await site.sync.conflicts()
            #expect(conflicts.map(\.kind) == [.deletion])
            #expect(conflicts.map(\.propertyName) == ["copies"])
            #expect(conflicts.map(\.lost) == [.integer(8)])
        }
        try await first.sync.choose(try #require(try await first.sync.conflicts().first))
        try await sites.exchange()
        try await sites.expectSame()
        try await set("copies", [9, 10], in: sites)
        #expect(try sites.values("copies") == [.integer(11), .integer(11)])
        try sites.close()
    }

    // MARK: - Maximum and minimum

    @Test(arguments: [false, true])
    func theGreatestAndTheLeastValueAreKept(isReversed: Bool) async throws {
        let sites = try await sites(3)
        func inOrder(_ values: [Any?]) -> [Any?] { isReversed ? values.reversed() : values }
        let dates = [3.0, 1, 2].map { Date(timeIntervalSinceReferenceDate: $0) }
        try await set("lastPage", inOrder([10, 30, 20]), in: sites)
        try await set("lastRead", inOrder(dates), in: sites)
        try await set("lowestPrice", inOrder([Decimal(3), Decimal(1), Decimal(2)]), in: sites)
        try await set("isRead", inOrder([true, false, nil]), in: sites)
        for site in sites.sites {
            #expect(try site.value("lastPage") == .integer(30))
            #expect(try site.value("lastRead") == .date(dates[0]))
            #expect(try site.value("lowestPrice") == .decimal(1))
            #expect(try site.value("isRead") == .boolean(true))
        }
        // One that knows of the greatest value may go back.
        try await set("lastPage", [5], in: sites)
        #expect(try sites.values("lastPage") == [.integer(5), .integer(5), .integer(5)])
        // Null is less than all, and is not the least value.
        try await set("lowestPrice", inOrder([nil, Decimal(4), nil]), in: sites)
        #expect(try sites.values("lowestPrice") == [.decimal(4), .decimal(4), .decimal(4)])
        try await expectNoConflicts(sites)
        try sites.close()
    }

    // MARK: - Texts

    @Test func changesOfDifferentLinesAreMerged() async throws {
        let sites = try await sites(3, ["notes": "one\ntwo\nthree\nfour\nfive"])
        try await set(
            "notes",
            [
                "ONE\ntwo\nthree\nfour\nfive", "one\ntwo\nthree\nfour\nfive\nsix",
                "one\ntwo\nfour\nfive",
            ], in: sites)
        let merged = AttributeValue.string("ONE\ntwo\nfour\nfive\nsix")
        #expect(try sites.values("notes") == [merged, merged, merged])
        try await expectNoConflicts(sites)
        try sites.close()
    }

    @Test func severalChangesOfOneSideAreMergedWithThoseOfTheOther() async throws {
        let sites = try await sites(2, ["notes": "one\ntwo\nthree\nfour\nfive"])
        let (first, second) = (sites.sites[0], sites.sites[1])
        for notes in ["ONE\ntwo\nthree\nfour\nfive", "ONE\ntwo\nTHREE\nfour\nfive"] {
            try first.book["notes"] = notes
            try first.context.save()
            try await first.sync.synchronize()
        }
        try second.book["notes"] = "one\ntwo\nthree\nfour\nFIVE"
        try second.context.save()
        try await second.sync.synchronize()
        sites.folder.carryAll()
        try await second.sync.synchronize()
        #expect(try second.value("notes") == .string("ONE\ntwo\nTHREE\nfour\nFIVE"))
        try second.book["notes"] = "ONE\ntwo\nTHREE\nfour\nFIVE\nsix"
        try second.context.save()
        try first.book["notes"] = "zero\nONE\ntwo\nTHREE\nfour\nfive"
        try first.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try first.value("notes") == .string("zero\nONE\ntwo\nTHREE\nfour\nFIVE\nsix"))
        try await expectNoConflicts(sites)
        try sites.close()
    }

    @Test(arguments: [
        // The same line, insertions at the same place, a deletion against an edit.
        ["one\nTWO\nthree", "one\n2\nthree"],
        ["one\na\ntwo\nthree", "one\nb\ntwo\nthree"],
        ["one\nthree", "one\nTWO\nthree"],
    ])
    func changesOfTheSameLinesAreAConflict(_ texts: [String]) async throws {
        let sites = try await sites(2, ["notes": "one\ntwo\nthree"])
        try await set("notes", texts, in: sites)
        for site in sites.sites {
            #expect(try site.value("notes") == .string(texts[1]))
            #expect(try await site.sync.conflicts().map(\.lost) == [.string(texts[0])])
        }
        try sites.close()
    }

    @Test func textsThatAreTooLargeAreAConflict() async throws {
        let large = String(repeating: "a line of text\n", count: 20_000)
        let sites = try await sites(2, ["notes": large])
        try await set("notes", ["first\n" + large, large + "last\n"], in: sites)
        #expect(
            try sites.values("notes") == [.string(large + "last\n"), .string(large + "last\n")])
        for site in sites.sites { #expect(try await site.sync.conflicts().count == 1) }
        try sites.close()
    }

    // MARK: - Resolvers

    @Test func aResolverDecides() async throws {
        let sites = try SyncSites(
            3, model: Self.model(),
            resolvers: [
                "Book": [
                    "title": { base, earlier, later in
                        guard case .string(let base)? = base, case .string(let earlier) = earlier,
                            case .string(let later) = later
                        else { return nil }
                        return .string("\(base)(\(earlier)|\(later))")
                    },
                    "isRead": { _, _, _ in .string("no truth value") },
                    // The later value counts, and is not a conflict.
                    "notes": { _, _, later in later },
                ]
            ])
        let book = try sites.sites[0].context.insertObject(entityName: "Book")
        book["title"] = "o"
        try sites.sites[0].context.save()
        try await sites.begin()
        try await set("title", ["a", "b"], in: sites)
        #expect(try sites.values("title") == Array(repeating: .string("o(a|b)"), count: 3))
        try await set("notes", ["one", "two"], in: sites)
        #expect(try sites.values("notes") == Array(repeating: .string("two"), count: 3))
        try await expectNoConflicts(sites)
        // Answers that differ by what is asked first come to an end.
        try await set("title", ["x", "y", "z"], in: sites)
        try await expectNoConflicts(sites)
        // One that the attribute cannot have is as none.
        try await set("isRead", [true, false], in: sites)
        #expect(try sites.values("isRead") == Array(repeating: .boolean(false), count: 3))
        for site in sites.sites {
            #expect(try await site.sync.conflicts().map(\.lost) == [.boolean(true)])
        }
        try sites.close()
    }

    // MARK: - Different models

    @Test func aMachineWithoutPoliciesHasTheSameValues() async throws {
        var sites = try await sites(
            2, ["copies": 5, "lastPage": 1, "notes": "one\ntwo\nthree\nfour"])
        let plain = try sites.addSite(model: Self.model(false))
        try await plain.sync.join()
        try await sites.exchange()
        try await sites.expectSame()
        try await set("copies", [6, 7], in: sites)
        #expect(try plain.value("copies") == .integer(8))
        // It sets the value that the others add to.
        try await set("copies", [9, 10, 20], in: sites)
        #expect(try sites.values("copies") == [.integer(23), .integer(23), .integer(23)])
        try await set("lastPage", [30, 20, 10], in: sites)
        #expect(try sites.values("lastPage") == [.integer(30), .integer(30), .integer(30)])
        try await set("notes", ["ONE\ntwo\nthree\nfour", "one\ntwo\nthree\nFOUR"], in: sites)
        #expect(try plain.value("notes") == .string("ONE\ntwo\nthree\nFOUR"))
        try await expectNoConflicts(sites)
        // Its own text has no base; that of the other one is one of both.
        try plain.book["notes"] = "ONE\ntwo\nthree\n4"
        try plain.context.save()
        try await plain.sync.synchronize()
        try await set("notes", ["1\ntwo\nthree\nFOUR"], in: sites)
        #expect(try plain.value("notes") == .string("1\ntwo\nthree\n4"))
        try await expectNoConflicts(sites)
        // What cannot be merged is a conflict for all.
        try plain.book["notes"] = "1\ntwo\nthree\nfour"
        try plain.context.save()
        try await plain.sync.synchronize()
        try await set("notes", ["1\ntwo\nthree\nvier"], in: sites)
        for site in sites.sites {
            #expect(try site.value("notes") == .string("1\ntwo\nthree\nvier"))
            #expect(
                try await site.sync.conflicts().map(\.lost)
                    == [.string("1\ntwo\nthree\nfour")])
        }
        try sites.close()
    }

    @Test func aPolicyMayComeAndGo() async throws {
        let sites = try SyncSites(2, model: Self.model(false))
        let (first, second) = (sites.sites[0], sites.sites[1])
        let book = try first.context.insertObject(entityName: "Book")
        book["copies"] = 5
        try first.context.save()
        try await sites.begin()
        for site in sites.sites { try site.reopen(model: Self.model()) }
        try await set("copies", [6, 6], in: sites)
        #expect(try sites.values("copies") == [.integer(7), .integer(7)])
        try second.reopen(model: Self.model(false))
        try await set("copies", [8, 7], in: sites)
        #expect(try sites.values("copies") == [.integer(8), .integer(8)])
        try second.book["title"] = "Emma"
        try second.context.save()
        try await sites.exchange()
        #expect(try sites.values("copies") == [.integer(8), .integer(8)])
        try sites.close()
    }

    // MARK: - Declarations

    @Test(arguments: [
        ("copies", "sum", AttributeType.integer32), ("copies", "counter", .string),
        ("title", "text", .integer64), ("data", "maximum", .binary), ("id", "minimum", .uuid),
    ])
    func aPolicyThatDoesNotFitIsAnError(_ name: String, _ policy: String, _ type: AttributeType)
        throws
    {
        let model = ManagedObjectModel {
            Entity("Book") {
                Attribute(name, type).userInfo(["syncPolicy": .string(policy)])
            }
        }
        expectError(.invalidModel, name) { try open(model) }
    }

    @Test func aCounterIsNotUnique() throws {
        let model = ManagedObjectModel {
            Entity("Book") {
                Attribute("number", .integer32).userInfo(["syncPolicy": "counter"])
                Unique("number")
            }
        }
        expectError(.invalidModel, "number") { try open(model) }
        let other = ManagedObjectModel {
            Entity("Book") {
                Attribute("number", .integer32).userInfo(["syncPolicy": "counter"])
            }.userInfo(["syncIdentity": "number"])
        }
        expectError(.invalidModel, "number") { try open(other) }
    }

    @Test func policiesInCodeOverrideThoseOfTheModel() async throws {
        let model = ManagedObjectModel {
            Entity("Item") {
                Attribute("count", .integer32).userInfo(["syncPolicy": "maximum"])
            }
            Entity("Book", inherits: "Item") { Attribute("title", .string) }
        }
        let layout = try model.layout()
        func policies(_ declared: [String: [String: SyncPolicy]]) throws -> [SyncPolicy?] {
            let policies = try SyncPolicies(layout, declared: declared)
            return ["Item", "Book"].map { name in
                layout.entity(named: name).flatMap { policies[$0]["count"] }
            }
        }
        #expect(try policies([:]) == [.maximum, .maximum])
        #expect(try policies(["Item": ["count": .counter]]) == [.counter, .counter])
        #expect(try policies(["Book": ["count": .lastWriter]]) == [.maximum, nil])
        expectError(.unknownEntity, nil) { _ = try policies(["Magazine": ["count": .counter]]) }
        expectError(.unknownKey, "title") { _ = try policies(["Item": ["title": .text]]) }
        expectError(.invalidModel, "title") { _ = try policies(["Book": ["title": .counter]]) }
    }

    private func open(_ model: ManagedObjectModel) throws {
        let sites = try SyncSites(1, model: model)
        try sites.close()
    }

    private func expectError(
        _ code: QuireError.Code, _ property: String?, _ body: () throws -> Void
    ) {
        let error = #expect(throws: QuireError.self) { try body() }
        #expect(error?.code == code)
        #expect(error?.subject.property == property)
        #expect(error?.subject.entity != nil)
    }

    // MARK: - At random

    @Test(arguments: SeededRandom.seeds(6))
    func machinesAgreeWhateverIsCarriedWhen(seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        var sites = try await sites(
            3, ["copies": 0, "notes": (0..<8).map(String.init).joined(separator: "\n")])
        let plain = try sites.addSite(model: Self.model(false))
        try await plain.sync.join()
        try await sites.exchange()
        var count: Int64 = 0
        for step in 0..<40 {
            let index = Int.random(in: 0..<sites.sites.count, using: &random)
            let site = sites.sites[index]
            let book = try site.book
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1:
                // What a machine without the policy sets may be lost, as ever.
                guard index < 3, case .integer(let copies) = try site.value("copies") else { break }
                let change = Int64.random(in: -5...5, using: &random)
                book["copies"] = copies + change
                count += change
            case 2: book["lastPage"] = Int.random(in: 0...100, using: &random)
            case 3:
                guard case .string(let notes) = try site.value("notes") else { break }
                var lines = notes.split(separator: "\n", omittingEmptySubsequences: false)
                let line = Int.random(in: 0..<lines.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: lines[line] = "\(step)"
                case 1: lines.insert("\(step)", at: line)
                default: if lines.count > 2 { lines.remove(at: line) }
                }
                book["notes"] = lines.joined(separator: "\n")
            default: break
            }
            try site.context.save()
            if Bool.random(using: &random) { try await site.sync.synchronize() }
            if Bool.random(using: &random) { sites.folder.carrySome(&random) }
        }
        try await sites.exchange()
        try await sites.expectSame()
        for site in sites.sites {
            #expect(try site.value("copies") == .integer(count), "QUIRE_SEED=\(seed)")
        }
        try sites.close()
    }
}

extension SyncSite {
    /// The only book.
    fileprivate var book: ManagedObject {
        get throws { try #require(try objects("Book").first) }
    }

    fileprivate func value(_ key: String) throws -> AttributeValue {
        let (store, id) = (try store, try book.objectID)
        return try store.read { _ in
            let row = try #require(try store.row(for: id))
            return try row.value(at: try #require(row.entity.slot(named: key)))
        }
    }
}

extension SyncSites {
    fileprivate func values(_ key: String) throws -> [AttributeValue] {
        try sites.map { try $0.value(key) }
    }
}
