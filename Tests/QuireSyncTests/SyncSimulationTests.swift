import Foundation
import Quire
import QuireSQLite
import QuireTestSupport
import Testing

@testable import QuireSync

/// Machines that edit, save, synchronize and are opened anew in random order, with clocks that are years off, through folders whose
/// files come late, in any order, cut off, or not at all for a while.
///
/// At the end everything is carried, and then
/// - all have the same records and the same rows, and so has a machine that joins only now;
/// - going through all rows finds nothing that is not in the records, and another round sends no changes;
/// - no unique value is there twice, and nothing lacks what it requires;
/// - every text that was saved is there, or was overwritten or deleted by somebody who saw it, or was listed as a conflict;
/// - when time passes, what was deleted is forgotten everywhere.
@MainActor @Suite struct SyncSimulationTests {
    private static let model = SyncTests.model
    /// That of the next version of the program.
    private static let newModel = SyncTests.makeModel(isNew: true)

    @MainActor private struct Simulation {
        var sites: SyncSites
        var random: SeededRandom
        var steps: [String] = []
        var edits = Edits()
        private var backups: [Int: String] = [:]
        /// The number of machines.
        private let maximum: Int
        /// Whether stores are copied.
        private let copiesStores: Bool
        /// The password of the folder, if its files are encrypted.
        let password: String?

        init(_ seed: SeededRandom) throws {
            random = seed
            password = Bool.random(using: &random) ? "any" : nil
            let isLarge = Int.random(in: 0..<8, using: &random) == 0
            maximum = isLarge ? 8 : 5
            copiesStores = Bool.random(using: &random)
            sites = try SyncSites(
                Int.random(in: isLarge ? 4...8 : 2...4, using: &random), model: model,
                // Some write snapshots while files are on their way, others never make good what got lost by that.
                segmentsBeforeSnapshot: [1, 4, 64].shuffled(using: &random))
        }

        mutating func run() async throws {
            try await sites.begin(password: password)
            for _ in 0..<Int.random(in: 20...50, using: &random) { try await step() }
            if Bool.random(using: &random) {
                try await passMonths()
                for _ in 0..<Int.random(in: 5...15, using: &random) { try await step() }
            }
            sites.folder.failOnce(after: nil)
            try await exchange()
            // At last all programs are updated.
            for site in sites.sites where !Self.isNew(site) { try site.reopen(model: newModel) }
            try await exchange()
            try await editAtLast()
        }

        /// Exchanges everything, and notes what has lost: a later edit by one who has seen the value that was kept settles that.
        private mutating func exchange(except away: Set<Int> = []) async throws {
            try await sites.exchange(except: away)
            for site in sites.sites { try await edits.note(site.sync.conflicts()) }
        }

        /// Local changes affect other rows as merged changes do, even before they are sent.
        private mutating func editAtLast() async throws {
            for site in sites.sites {
                site.context.refreshAllObjects()
                for _ in 0..<3 { try edit(site) }
                try site.context.save()
                #expect(try await site.sync.checkInvariants() == [])
                try site.expectRowsOfReference("before the last exchange")
            }
            try await exchange()
        }

        private static func isNew(_ site: SyncSite) -> Bool { site.model.entities.count == 8 }

        /// Months in which some machines are away, and the others forget what was deleted.
        private mutating func passMonths() async throws {
            sites.folder.failOnce(after: nil)
            try await exchange()
            var away: Set<Int> = []
            for site in sites.sites where Int.random(in: 0..<3, using: &random) == 0 {
                away.insert(site.machine)
                // A machine that was retired by mistake comes back like one that was silent.
                if Bool.random(using: &random), let other = sites.sites.first,
                    let peer = try await site.sync.status()?.peer
                {
                    do {
                        try await other.sync.retire(peer)
                    } catch let error as QuireError
                        where error.code == .notFound || error.code == .invalidValue
                    {
                        // It has not written anything, or is the one.
                    }
                }
            }
            steps.append("months pass, away: \(away.sorted())")
            for _ in 0..<5 {
                sites.clock.advance(days: 31)
                for site in sites.sites where Bool.random(using: &random) {
                    site.context.refreshAllObjects()
                    try edit(site)
                    try site.context.save()
                    if away.contains(site.machine), Bool.random(using: &random) {
                        try await site.sync.synchronize()
                    }
                }
                try await exchange(except: away)
            }
        }

        private mutating func step() async throws {
            let number = Int.random(in: 0..<sites.sites.count, using: &random)
            let site = sites.sites[number]
            switch Int.random(in: 0..<22, using: &random) {
            case 0..<10:
                // Merged changes of the last rounds are seen.
                site.context.refreshAllObjects()
                for _ in 0..<Int.random(in: 1...4, using: &random) { try edit(site) }
                try site.context.save()
            case 10..<14:
                steps.append("\(number): synchronize")
                if Int.random(in: 0..<4, using: &random) == 0 {
                    sites.folder.failOnce(
                        after: Int.random(in: 0..<8, using: &random),
                        Bool.random(using: &random) ? .outOfSpace : .storeUnavailable)
                }
                do {
                    try await site.sync.synchronize()
                    try await edits.note(site.sync.conflicts())
                } catch let error as QuireError
                    where error.code == .storeUnavailable || error.code == .outOfSpace
                {
                    steps.append("\(number): the folder cannot be used")
                }
                sites.folder.failOnce(after: nil)
            case 14..<18:
                steps.append("carry")
                sites.folder.carrySome(&random)
            case 18:
                let years = Double(Int.random(in: -2...2, using: &random))
                steps.append("\(number): reopen, clock \(years) years off")
                site.clockOffset = years * 31_557_600
                try site.reopen()
            case 19 where copiesStores: try await copy(site)
            case 21 where Bool.random(using: &random):
                steps.append("\(number): purge the history")
                _ = try site.store.execute(.deleteHistory(before: .distantFuture))
            case 20 where !Self.isNew(site):
                steps.append("\(number): update")
                try site.reopen(model: newModel)
            default:
                guard sites.sites.count < maximum else { return }
                steps.append("another machine joins")
                try await sites.addSite().sync.join(password: password)
            }
        }

        /// Copies a store to another machine, or restores an older copy of one that has sent everything.
        private mutating func copy(_ site: SyncSite) async throws {
            if let backup = backups[site.machine] {
                steps.append("\(site.machine): restore")
                do {
                    try await site.sync.synchronize()
                } catch let error as QuireError where error.code == .storeUnavailable {
                    // Nothing of the shared document has arrived: what was saved would be lost.
                    return
                }
                try await edits.note(site.sync.conflicts())
                try site.restore(backup, inPlace: Bool.random(using: &random))
                backups[site.machine] = nil
            } else if Bool.random(using: &random) || sites.sites.count >= maximum {
                steps.append("\(site.machine): back up")
                let path = sites.temporary.path("\(site.machine).backup")
                try site.copy(to: path)
                backups[site.machine] = path
            } else {
                steps.append("\(site.machine): copy to another machine")
                try sites.clone(site)
            }
        }

        private mutating func any(_ entity: String, _ site: SyncSite) throws -> ManagedObject? {
            try site.objects(entity).sorted { $0.objectID.bits < $1.objectID.bits }
                .randomElement(using: &random)
        }

        private mutating func edit(_ site: SyncSite) throws {
            let context = site.context
            let value = Int.random(in: 0..<1000, using: &random)
            let step = Int.random(in: 0..<(Self.isNew(site) ? 22 : 20), using: &random)
            steps.append("\(site.machine): edit \(step), \(value)")
            switch step {
            case 0, 1:
                let book = try context.insertObject(entityName: "Book")
                book["title"] = edits.next(after: nil)
                book["author"] = try any("Author", site)
            case 2: try context.insertObject(entityName: "Author")["name"] = "Author \(value)"
            case 3:
                let name = "Name \(value % 5)"
                if try site.hasName(name) { return }
                let entity = value % 3 == 0 ? "Place" : "Tag"
                try context.insertObject(entityName: entity)["name"] = name
            case 4, 5:
                guard let book = try any("Book", site) else { return }
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    let chapter = try context.insertObject(entityName: "Chapter")
                    chapter["title"] = "Chapter \(value)"
                    chapter["book"] = book
                }
            case 6:
                guard let book = try any("Book", site) else { return }
                book["chapters"] = book["chapters", as: [ManagedObject].self]
                    .shuffled(using: &random)
            case 7:
                guard let author = try any("Author", site) else { return }
                // A new one, or one that another author may have.
                let other = value % 2 == 0 ? try any("Profile", site) : nil
                let profile = try other ?? context.insertObject(entityName: "Profile")
                profile["text"] = "Profile \(value)"
                author["profile"] = profile
            case 8: try any("Book", site)?["author"] = try any("Author", site)
            case 9: try any("Book", site)?["author"] = nil
            case 10:
                guard let book = try any("Book", site), let tag = try any("Tag", site) else {
                    return
                }
                let tags = try book.mutableSetValue(forKey: Self.isNew(site) ? "labels" : "tags")
                if tags.contains(tag) { tags.remove(tag) } else { tags.add(tag) }
            case 11:
                guard let book = try any("Book", site) else { return }
                book["title"] = edits.next(after: book["title", as: String.self])
            case 12:
                try any("Author", site)?[Self.isNew(site) ? "birthYear" : "born"] = Int16(value)
            case 13:
                // Given up, and perhaps taken by another at once.
                guard let named = try any("Named", site), let name = named["name", as: String.self],
                    try !site.hasName("Name \(value % 7)")
                else { return }
                named["name"] = "Name \(value % 7)"
                if value % 3 == 0 { return }
                try context.save()
                let entity = value % 2 == 0 ? "Place" : "Tag"
                try context.insertObject(entityName: entity)["name"] = name
                if value % 3 == 1 { context.delete(named) }
            case 14: try any("Author", site)?["partner"] = try any("Author", site)
            case 15: try any("Author", site)?["partner"] = nil
            case 16:
                guard let book = try any("Book", site) else { return }
                book["reads"] = (book["reads", as: Int32.self] ?? 0) + Int32(value % 5) - 1
            case 17:
                guard let book = try any("Book", site) else { return }
                var lines = (book["notes", as: String.self] ?? "").split(separator: "\n")
                let place = Int.random(in: 0...lines.count, using: &random)
                if value % 3 == 0, place < lines.count {
                    lines.remove(at: place)
                } else {
                    lines.insert("line \(value)", at: place)
                }
                book["notes"] = lines.joined(separator: "\n")
            case 18:
                // In the row, or in a file.
                try any("Book", site)?["cover"] = Data(
                    repeating: UInt8(value % 200), count: value % 2 == 0 ? 1000 : 100_000)
            case 20: try any("Book", site)?["pages"] = Int32(value)
            case 21:
                let award = try context.insertObject(entityName: "Award")
                award["name"] = "Award \(value)"
                award["author"] = try any("Author", site)
            default:
                let entities = ["Author", "Book", "Chapter", "Named", "Profile"]
                guard let entity = entities.randomElement(using: &random),
                    let object = try any(entity, site)
                else { return }
                let books =
                    entity == "Author"
                    ? Array(object["books", as: Set<ManagedObject>.self])
                    : entity == "Book" ? [object] : []
                for book in books { edits.deleted.insert(book["title", as: String.self] ?? "") }
                context.delete(object)
            }
        }
    }

    /// The titles that were given, each of them once: a tree for each book, in which a title's children overwrote it.
    private struct Edits {
        private var parents: [String: String?] = [:]
        /// Titles of books that were deleted by somebody who saw them.
        var deleted: Set<String> = []
        private var listed: Set<String> = []

        mutating func next(after title: String?) -> String {
            let new = "Title \(parents.count)"
            parents[new] = .some(title)
            return new
        }

        mutating func note(_ conflicts: [SyncConflict]) {
            for conflict in conflicts {
                if case .string(let title) = conflict.lost { listed.insert(title) }
            }
        }

        /// Titles that got lost: not in the records of books that exist, neither overwritten, nor deleted, nor listed.
        func lost(kept: Set<String>) -> [String] {
            let overwritten = Set(parents.values.compactMap { $0 })
            return parents.keys.filter {
                !kept.contains($0) && !overwritten.contains($0) && !deleted.contains($0)
                    && !listed.contains($0)
            }.sorted()
        }
    }

    /// Checks that everything is the same everywhere.
    private func check(_ simulation: inout Simulation, _ comment: Comment) async throws {
        let sites = simulation.sites.sites
        let state = try await sites[0].sync.stateDescription()
        let rows = try sites[0].rows()
        #expect(try simulation.edits.lost(kept: sites[0].livingTitles()) == [], comment)
        let late = try simulation.sites.addSite(model: Self.newModel)
        try await late.sync.join(password: simulation.password)
        try await late.sync.synchronize()
        for site in simulation.sites.sites {
            let ownState = try await site.sync.stateDescription()
            #expect(ownState == state, comment)
            let ownRows = try site.rows()
            #expect(rows.difference(to: ownRows).isEmpty, comment)
            try site.expectRowsOfReference(comment)
            // Nothing in the rows that is not in the records.
            try site.store.scanAgain()
            let files = simulation.sites.folder.files(on: site.machine)
            try await site.sync.synchronize()
            let new = simulation.sites.folder.files(on: site.machine)
                .filter { $0.key.hasPrefix("log/") && files[$0.key] == nil }
            #expect(try new.allSatisfy { try Self.recordCount($0.key, $0.value) == 0 }, comment)
            let names = try site.objects("Named").map { $0["name", as: String.self] }
            #expect(Set(names).count == names.count, comment)
            #expect(
                try site.objects("Chapter").allSatisfy {
                    $0["book", as: ManagedObject.self] != nil
                }, comment)
        }
        try await checkForgetting(simulation.sites, rows, comment)
        try simulation.sites.close()
    }

    private func checkForgetting(
        _ sites: SyncSites, _ rows: String, _ comment: Comment
    ) async throws {
        for site in sites.sites where site.clockOffset != 0 {
            site.clockOffset = 0
            try site.reopen()
        }
        // Identifiers that machines do not have any more are silent after ninety days.
        for _ in 0..<8 {
            sites.clock.advance(days: 31)
            try await sites.exchange()
        }
        for site in sites.sites {
            #expect(try site.forgettableCount() == 0, comment)
            let ownRows = try site.rows()
            #expect(rows.difference(to: ownRows).isEmpty, comment)
        }
    }

    private static func recordCount(_ path: String, _ bytes: Data) throws -> Int {
        let name = try #require(SyncSegmentName(String(path.dropFirst("log/".count))))
        return try SyncSegment(Array(bytes), name: name).records.count
    }

    @Test(arguments: SeededRandom.sample(of: SeededRandom.seeds(300), 20, for: "synchronization"))
    func machinesAgreeWhateverHappens(_ seed: UInt64) async throws {
        var simulation = try Simulation(SeededRandom(seed: seed))
        do {
            try await simulation.run()
        } catch {
            Issue.record(error, "seed \(seed): \(simulation.steps.suffix(12))")
            return
        }
        try await check(&simulation, "seed \(seed)")
    }
}

extension SyncSite {
    fileprivate func hasName(_ name: String) throws -> Bool {
        try objects("Named").contains { $0["name", as: String.self] == name }
    }

    /// The number of deleted objects that could be forgotten: none of their values is listed as a conflict.
    fileprivate func forgettableCount() throws -> Int {
        try store.read { connection in
            Int(
                try connection.integer(
                    "SELECT count(*) FROM QUIRE_SYNC_DELETED WHERE Z_ID NOT IN (SELECT Z_ID FROM QUIRE_SYNC_CONFLICT)"
                ) ?? 0)
        }
    }

    /// The titles in the records of books that exist, whether or not they have rows.
    fileprivate func livingTitles() throws -> Set<String> {
        let store = try store
        return try store.read { connection in
            let bytes = try connection.withStatement(
                "SELECT Z_RECORD FROM QUIRE_SYNC_OBJECT WHERE Z_ROOT = 'Book'"
            ) { row in
                var found: [Data] = []
                while try row.step() { found.append(row.data(0)) }
                return found
            }
            var titles: Set<String> = []
            for data in bytes {
                var reader = SyncByteReader(Array(data)[...], file: "")
                for record in try SyncRecordBlock.decode(&reader) where record.isAlive {
                    if case .string(let title)? = record[.property("title")]?.value {
                        titles.insert(title)
                    }
                }
            }
            return titles
        }
    }
}

extension SQLiteStore {
    /// Makes the next round go through all rows.
    fileprivate func scanAgain() throws {
        try saveInOneTransaction {
            try withTransaction { connection in
                guard
                    var settings = try SyncSettings.read(from: connection, path: storePath)
                else { return }
                settings.scan = .init(entity: "", key: 0)
                try settings.write(to: connection)
            }
        }
    }
}
