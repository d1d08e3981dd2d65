import Crypto
import Foundation
import Quire
import QuireModel
import QuireRescue
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Folders with damaged files, and with forged ones whose digests fit: nothing traps, no round fails, and the files of others are
/// merged.
@MainActor @Suite struct SyncHostileFolderTests {
    /// A value of each type, each policy, and each kind of relationship.
    nonisolated static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "author").deleteRule(.cascade)
            ToOne("profile", "Profile", inverse: "author").deleteRule(.cascade)
        }
        Entity("Profile") {
            Attribute("text", .string)
            ToOne("author", "Author", inverse: "profile")
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("cover", .binary).externalStorage()
            ToOne("author", "Author", inverse: "books")
            ToMany("tags", "Tag", inverse: "books")
            ToMany("chapters", "Chapter", inverse: "book").ordered().deleteRule(.cascade)
        }
        Entity("Chapter") {
            Attribute("title", .string)
            ToOne("book", "Book", inverse: "chapters").required()
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "tags")
            Unique("name")
        }
        Entity("Value") {
            Attribute("small", .integer16).required().default(1)
            Attribute("large", .integer64).userInfo(policy(.maximum))
            Attribute("count", .integer32).default(0).userInfo(policy(.counter))
            Attribute("sum", .decimal).userInfo(policy(.counter))
            Attribute("weight", .double).userInfo(policy(.counter))
            Attribute("price", .decimal).userInfo(policy(.minimum))
            Attribute("ratio", .float)
            Attribute("isRead", .boolean).userInfo(policy(.maximum))
            Attribute("date", .date).userInfo(policy(.maximum))
            Attribute("text", .string).userInfo(policy(.text))
            Attribute("uuid", .uuid)
            Attribute("uri", .uri)
            Attribute("data", .binary)
        }
    }

    nonisolated private static func policy(_ policy: SyncPolicy) -> [String: PropertyListValue] {
        [AttributeDescription.syncPolicyKey: .string(policy.rawValue)]
    }

    nonisolated private static let names =
        model.entities.flatMap { entity in entity.properties.map(\.name) } + ["nothing", ""]
    nonisolated private static let entities = model.entities.map(\.name) + ["Nobody", ""]

    /// Seeds of a random test: few of them, unless everything is tried.
    nonisolated private static func seeds(_ count: UInt64, _ few: Int) -> [UInt64] {
        let seeds = (0..<count).map { SeededRandom.baseSeed &+ $0 }
        return SeededRandom.sample(of: seeds, few, for: "hostile folder")
    }

    nonisolated private static let integers: [Int64] = [0, 1, -1, .min, .max]
    nonisolated private static let counts: [Int64] = [
        0, 1, 2, 3, 4, 1 << 60, (1 << 60) - 1, (1 << 60) - 2,
    ]
    nonisolated private static let doubles: [Double] = [
        .nan, .infinity, -.infinity, 0, -0.0, 1e10, -1e12, 1e300, -1e300, .leastNonzeroMagnitude,
    ]
    nonisolated private static let decimals: [String] = [
        "1.5", "", "NaN", "nan", "-0", "1e127", "1e400", "1e-400", "1e9999999999", "-", ".", "1e",
        String(repeating: "9", count: 250), String(repeating: "9", count: 9_000),
        "0." + String(repeating: "0", count: 200) + "1",
    ]
    nonisolated private static let texts: [String] = [
        "", "\0", "e\u{301}", "\u{FFFF}", "Tag 0 1", "m", "zz",
        String(repeating: "z", count: 4_096), String(repeating: "x", count: 70_000),
    ]
    nonisolated private static let addresses: [String] = [
        "", " ", "https://example.org/", "a:b", "%", "//\u{0}",
    ]

    /// Machines with some objects, and a snapshot and segments in their folders.
    private func makeSites(
        password: String? = nil, seed: UInt64 = 1
    ) async throws -> SyncSites {
        let sites = try SyncSites(2, model: Self.model, segmentsBeforeSnapshot: [4])
        try await sites.begin(password: password)
        for (number, site) in sites.sites.enumerated() {
            for step in 0..<5 {
                let author = try site.context.insertObject(entityName: "Author")
                author["name"] = "Author \(number) \(step)"
                let profile = try site.context.insertObject(entityName: "Profile")
                profile["text"] = "Profile \(number) \(step)"
                author["profile"] = profile
                let book = try site.context.insertObject(entityName: "Book")
                book["title"] = "Book \(number) \(step)"
                book["author"] = author
                if step == 0 {
                    book["cover"] = Data(repeating: UInt8(number), count: 150_000)
                }
                for _ in 0..<2 {
                    try site.context.insertObject(entityName: "Chapter")["book"] = book
                }
                let tag = try site.context.insertObject(entityName: "Tag")
                tag["name"] = "Tag \(number) \(step)"
                try tag.mutableSetValue(forKey: "books").add(book)
                let value = try site.context.insertObject(entityName: "Value")
                value["count"] = step
                value["text"] = "text \(number) \(step)"
                if step == 3, let chapter = try site.objects("Chapter").first {
                    site.context.delete(chapter)
                }
                try site.context.save()
                try await site.sync.synchronize()
            }
        }
        try await sites.exchange()
        return sites
    }

    private func insertBook(_ title: String, on site: SyncSite) async throws {
        try site.context.insertObject(entityName: "Book")["title"] = title
        try site.context.save()
        try await site.sync.synchronize()
    }

    private func titles(on site: SyncSite) throws -> [String] {
        try site.objects("Book").compactMap { $0["title", as: String.self] }
    }

    // MARK: - Damage

    /// Changes, cuts off, lengthens or replaces bytes.
    private func damaged(_ bytes: Data, _ random: inout SeededRandom) -> Data {
        var bytes = Array(bytes)
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let place = Int.random(in: 0...bytes.count, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0 where place < bytes.count:
                bytes[place] ^= 1 << Int.random(in: 0..<8, using: &random)
            case 1 where place < bytes.count:
                bytes[place] = [0, 127, 128, 255].randomElement(using: &random)!
            case 2: bytes.removeSubrange(place...)
            case 3: bytes.insert(contentsOf: [UInt8](repeating: 255, count: 9) + [1], at: place)
            default: bytes.insert(.random(in: 0...255, using: &random), at: place)
            }
        }
        return Data(bytes)
    }

    @Test(.timeLimit(.minutes(10)), arguments: seeds(60, 2))
    func damagedFilesAreMadeGoodByWholeOnes(_ seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let password = Bool.random(using: &random) ? "any" : nil
        var sites = try await makeSites(password: password)
        let late = try sites.addSite()
        try await late.sync.join(password: password)
        let files = sites.folder.files(on: late.machine)
        for (path, bytes) in files.sorted(by: { $0.key < $1.key })
        where Int.random(in: 0..<3, using: &random) > 0 {
            let other = files.values.randomElement(using: &random) ?? bytes
            sites.folder.damage(
                path, on: late.machine,
                Int.random(in: 0..<5, using: &random) == 0 ? other : damaged(bytes, &random))
        }
        do {
            try await late.sync.synchronize()
            _ = try await late.sync.status()
        } catch let error as QuireError
            where error.code == .unsupported || error.code == .syncedContentReplaced
        {
            // The damaged description happens to be one of a later version, or of another document.
        }
        let transport = CarriedTransport(folder: sites.folder, machine: late.machine)
        do {
            _ = try await SyncContainer.model(in: transport, password: password)
        } catch is QuireError {
            // The description or the model is damaged.
        }
        for (path, bytes) in files { sites.folder.damage(path, on: late.machine, bytes) }
        #expect(try await late.sync.synchronize().problems.isEmpty, "seed \(seed)")
        try await sites.exchange()
        #expect(try late.rows() == sites.sites[0].rows(), "seed \(seed)")
        try sites.close()
    }

    /// Before anything of the document is known.
    @Test(.timeLimit(.minutes(10)), arguments: seeds(30, 2))
    func aDamagedDescriptionOrModelIsAnError(_ seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let password = Bool.random(using: &random) ? "any" : nil
        let sites = try SyncSites(1, model: Self.model)
        try await sites.begin(password: password)
        let files = sites.folder.files(on: 0).sorted { $0.key < $1.key }
        let transport = CarriedTransport(folder: sites.folder, machine: 0)
        for _ in 0..<40 {
            for (path, bytes) in files {
                sites.folder.damage(
                    path, on: 0, Bool.random(using: &random) ? damaged(bytes, &random) : bytes)
            }
            do {
                _ = try await SyncContainer.isEncrypted(in: transport)
                _ = try await SyncContainer.model(in: transport, password: password)
            } catch is QuireError {}
        }
        try sites.close()
    }

    @Test func aDescriptionOfManyLevelsIsAnError() async throws {
        let folder = CarriedFolder(machines: 1)
        let transport = CarriedTransport(folder: folder, machine: 0)
        for text in ["[", "{\"format\":", "{\"keybag\":["] {
            let data = Data(String(repeating: text, count: 65_000 / text.utf8.count).utf8)
            folder.damage("container.json", on: 0, data)
            let error = await #expect(throws: QuireError.self) {
                try await SyncContainer.isEncrypted(in: transport)
            }
            #expect(error?.code == .invalidFormat)
        }
    }

    // MARK: - Lies

    /// The bytes of a file with another content, with a digest that fits.
    nonisolated private static func resealed(_ content: [UInt8]) -> [UInt8] {
        content + Array(SHA256.hash(data: content))
    }

    /// The bytes of a segment whose records are not compressed, so that what is changed in them is read.
    nonisolated private static func uncompressed(_ segment: SyncSegment) -> [UInt8] {
        let empty = SyncSegment(
            container: segment.container, peer: segment.peer, sequence: segment.sequence,
            time: segment.time, model: segment.model, seen: segment.seen,
            forgotten: segment.forgotten, retired: segment.retired, records: [],
            part: segment.part, snapshot: segment.snapshot)
        // Behind it are: that it is not compressed, its size, and three empty tables.
        var writer = SyncByteWriter()
        writer.raw(empty.encoded().dropLast(32 + 5))
        let block = SyncRecordBlock.encode(segment.records)
        writer.byte(0)
        writer.unsigned(UInt64(block.count))
        writer.raw(block)
        return writer.bytes
    }

    /// A file of the folder: a name and bytes.
    private typealias File = (file: SyncFileName, bytes: Data)

    nonisolated private static func file(
        _ bytes: [UInt8], _ peer: SyncIdentifier, _ sequence: Int64, _ part: SyncSnapshotPart?
    ) throws -> File {
        let name = SyncSegmentName(peer: peer, sequence: sequence, part: part, encoded: bytes)
        let folder = part == nil ? SyncSegment.folder : SyncSnapshotPart.folder
        return (try #require(folder.entry(name.fileName)), Data(bytes))
    }

    nonisolated private static func file(_ segment: SyncSegment) throws -> File {
        try file(segment.encoded(), segment.peer, segment.sequence, segment.part)
    }

    /// Puts a file into a machine's folder, encrypted if the document is.
    private func put(_ file: File, _ site: SyncSite) async throws {
        guard let cipher = try await site.sync.replica.cipher() else {
            return site.folder.damage(file.file.path, on: site.machine, file.bytes)
        }
        site.folder.damage(
            try cipher.encryptedFile(file.file).path, on: site.machine,
            try cipher.seal(file.bytes, as: file.file))
    }

    /// The segments and files of snapshots in a machine's folder.
    private func segments(_ site: SyncSite) async throws -> [SyncSegment] {
        var transport: any SyncTransport = CarriedTransport(
            folder: site.folder, machine: site.machine)
        if let cipher = try await site.sync.replica.cipher() {
            transport = EncryptedTransport(carrier: transport, cipher: cipher)
        }
        var found: [SyncSegment] = []
        for folder in [SyncSegment.folder, SyncSnapshotPart.folder] {
            for text in try await transport.fileNames(in: folder).sorted() {
                guard let name = SyncSegmentName(text), let file = folder.entry(text),
                    let bytes = try await transport.contents(of: file, maximumSize: .max)
                else { continue }
                found.append(try SyncSegment(Array(bytes), name: name))
            }
        }
        return found
    }

    /// The parts of hostile files.
    private struct Ingredients {
        var random: SeededRandom
        let segments: [SyncSegment]
        let peers: [SyncIdentifier]
        var objects: [SyncIdentifier]

        mutating func pick<Element>(_ elements: [Element]) -> Element {
            elements[Int.random(in: 0..<elements.count, using: &random)]
        }

        mutating func chance(_ count: Int) -> Bool {
            Int.random(in: 0..<count, using: &random) == 0
        }

        mutating func time() -> UInt64 {
            let known: UInt64 = pick(segments).time
            let any = UInt64.random(in: 0...SyncClock.maximum, using: &random)
            return pick([0, 1, SyncClock.maximum, SyncClock.maximum - 1, known, any])
        }

        mutating func number() -> Int64 {
            let any = Int64.random(in: 1..<(1 << 61), using: &random)
            return pick([1, 2, 3, (1 << 61) - 1, any])
        }

        mutating func identifier() -> SyncIdentifier {
            let (high, low) = (random.next(), random.next())
            switch random.next() % 3 {
            case 0: return SyncIdentifier(high: 0, low: 0)
            case 1: return SyncIdentifier(high: .max, low: .max)
            default: return SyncIdentifier(high: high, low: low)
            }
        }

        mutating func peer() -> SyncIdentifier { chance(4) ? identifier() : pick(peers) }
        mutating func object() -> SyncIdentifier { chance(5) ? identifier() : pick(objects) }

        mutating func vector() -> SyncVector {
            var vector = SyncVector()
            for _ in 0..<pick([0, 1, 2, 5]) {
                let start: Int64 = pick([0, 1, 2, 5, (1 << 61) - 2])
                let count: Int64 = pick([1, 2, (1 << 61) - start])
                vector.insert(peer(), start..<(start + count))
            }
            return vector
        }

        mutating func value() -> SyncValue {
            switch Int.random(in: 0..<14, using: &random) {
            case 0: return .null
            case 1: return .integer(pick(SyncHostileFolderTests.integers))
            case 2: return .double(pick(SyncHostileFolderTests.doubles))
            case 3: return .boolean(chance(2))
            case 4: return .decimal(pick(SyncHostileFolderTests.decimals))
            case 5: return .string(pick(SyncHostileFolderTests.texts))
            case 6: return .date(pick(SyncHostileFolderTests.doubles))
            case 7:
                let size = Int.random(in: 0...120_000, using: &random)
                return .binary(Data(repeating: 3, count: size))
            case 8:
                let byte = UInt8.random(in: 0...1, using: &random)
                let size: Int64 = chance(2) ? .max : 150_000
                return .blob(SyncBlob(digest: Data(repeating: byte, count: 32), size: size))
            case 9: return .uuid(UUID())
            case 10: return .uri(pick(SyncHostileFolderTests.addresses))
            case 11: return .reference(object())
            case 12:
                let version = SyncVersion(time: time(), peer: peer(), sequence: number())
                return .ancestor(.string("text"), version)
            default: return .unknown(tag: 200, Data([1]))
            }
        }

        mutating func key() -> SyncKey {
            let name = pick(SyncHostileFolderTests.names)
            switch Int.random(in: 0..<9, using: &random) {
            case 0...1: return .existence
            case 2: return .member(name, object())
            case 3: return .position(name, object())
            case 4: return .counter(name, peer())
            case 5: return .base(name)
            default: return .property(name)
            }
        }

        mutating func record() -> SyncRecord {
            let old = pick(pick(segments.filter { !$0.records.isEmpty }).records)
            let id = chance(3) ? object() : old.id
            var entries = chance(2) ? old.entries : [:]
            for _ in 0..<pick([1, 2, 10]) {
                let key = key()
                let value =
                    key == .existence
                    ? SyncValue.integer(pick(SyncHostileFolderTests.counts))
                    : value()
                entries[key] = SyncEntry(
                    value: value,
                    version: SyncVersion(time: time(), peer: peer(), sequence: number()))
            }
            return SyncRecord(
                id: id, entity: chance(3) ? pick(SyncHostileFolderTests.entities) : old.entity,
                entries: entries)
        }

        mutating func description() -> SyncPeer {
            SyncPeer(
                id: peer(), sequence: number(), time: time(), seen: vector(), forgotten: vector(),
                isRetired: chance(3))
        }

        /// A segment, or a snapshot.
        ///
        /// - Parameter forgets: Whether it may claim that deletions are forgotten, which deletes what it has not.
        mutating func segment(forgets: Bool) -> SyncSegment {
            let base = pick(segments)
            let isSnapshot = chance(3)
            let header = SyncSnapshotHeader(
                after: chance(2) ? nil : object(), through: chance(2) ? nil : object(),
                peers: (0..<pick([0, 1, 20])).map { _ in description() })
            return SyncSegment(
                container: base.container, peer: peer(), sequence: number(), time: time(),
                model: base.model, seen: vector(), forgotten: forgets ? vector() : SyncVector(),
                retired: Set((0..<pick([0, 0, 1, 3])).map { _ in peer() }),
                records: (0..<pick([0, 1, 5, 20])).map { _ in record() },
                part: isSnapshot ? SyncSnapshotPart(index: 0, count: pick([1, 1, 2])) : nil,
                snapshot: isSnapshot ? header : nil)
        }

        /// A file that was changed, with a digest that fits.
        mutating func changedFile() throws -> File {
            let base = pick(segments)
            var bytes = SyncHostileFolderTests.uncompressed(base)
            for _ in 0..<pick([1, 2, 5]) {
                // Behind the identifiers, which the name has too.
                let place = Int.random(in: 42..<bytes.count, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0: bytes[place] ^= 1 << Int.random(in: 0..<8, using: &random)
                case 1: bytes[place] = pick([0, 1, 127, 128, 255])
                case 2: bytes.insert(contentsOf: [UInt8](repeating: 255, count: 8) + [1], at: place)
                case 3: bytes.removeSubrange(place..<min(place + 9, bytes.count))
                default: bytes.removeSubrange(place...)
                }
                if bytes.count < 60 { break }
            }
            return try SyncHostileFolderTests.file(
                SyncHostileFolderTests.resealed(bytes), base.peer, base.sequence, base.part)
        }
    }

    @Test(.timeLimit(.minutes(10)), arguments: seeds(90, 3))
    func filesThatLieStopNothing(_ seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let sites = try await makeSites(password: Bool.random(using: &random) ? "any" : nil)
        let (first, second) = (sites.sites[0], sites.sites[1])
        let segments = try await segments(second)
        var peers: [SyncIdentifier] = []
        for site in sites.sites { peers.append(try #require(try await site.sync.status()?.peer)) }
        var ingredients = Ingredients(
            random: random, segments: segments, peers: peers,
            objects: Array(Set(segments.flatMap { $0.records.map(\.id) })).sorted())
        let forgets = seed % 3 == 0
        for step in 0..<4 {
            let comment: Comment = "seed \(seed), step \(step)"
            do {
                for _ in 0..<3 {
                    try await put(try ingredients.changedFile(), second)
                    try await put(
                        try Self.file(ingredients.segment(forgets: forgets)), second)
                }
                try await insertBook("honest \(step)", on: first)
                sites.folder.carryAll()
                try await second.sync.synchronize()
                if !forgets {
                    #expect(try titles(on: second).contains("honest \(step)"), comment)
                }
                _ = try await second.sync.status()
                _ = try await second.sync.conflicts()
                // What is saved there is sent, and is read by others.
                second.context.refreshAllObjects()
                for book in try second.objects("Book") { book["title"] = "changed \(step)" }
                if let author = try second.objects("Author").first {
                    second.context.delete(author)
                }
                try await insertBook("own \(step)", on: second)
                try await sites.exchange()
                if !forgets { #expect(try titles(on: first).contains("own \(step)"), comment) }
            } catch {
                Issue.record(error, comment)
                return
            }
        }
        do {
            try await second.sync.repair()
            try await sites.exchange()
            for site in sites.sites {
                let rows = try site.rows()
                try site.reopen()
                #expect(try site.rows() == rows, "seed \(seed)")
                // A malformed file may name a large value that never arrives.
                let missing = try site.store.read { try $0.missingSynchronizedValues() }
                let report = try StoreCheck.run(try site.store)
                #expect(
                    report.problems.map(\.message) == [missing].compactMap(\.self), "seed \(seed)")
            }
        } catch {
            Issue.record(error, "seed \(seed)")
        }
        try sites.close()
    }

    // MARK: - Single lies

    private func lie(
        _ site: SyncSite, sequence: Int64 = 1, time: UInt64 = 1, seen: SyncVector = SyncVector(),
        forgotten: SyncVector = SyncVector(), retired: Set<SyncIdentifier> = [],
        records: [SyncRecord] = [], snapshot: SyncSnapshotHeader? = nil,
        part: SyncSnapshotPart? = nil, peer: SyncIdentifier = SyncIdentifier()
    ) async throws -> SyncSegment {
        SyncSegment(
            container: try #require(try await site.sync.status()?.container), peer: peer,
            sequence: sequence, time: time, model: "any", seen: seen, forgotten: forgotten,
            retired: retired, records: records,
            part: snapshot == nil ? nil : part ?? SyncSnapshotPart(index: 0, count: 1),
            snapshot: snapshot)
    }

    private func records(_ site: SyncSite, _ entity: String) async throws -> [SyncRecord] {
        try await site.sync.onQueue { replica in
            try replica.reading([]) { tables in
                try tables.identifiers(after: nil, through: nil)
                    .compactMap { try tables.object($0)?.record }
                    .filter { $0.entity == entity && $0.isAlive }
            }
        }
    }

    private func expectSame(_ sites: SyncSites) async throws {
        try await sites.expectSame()
        for site in sites.sites {
            #expect(try StoreCheck.run(try site.store).problems.map(\.message) == [])
        }
    }

    /// Whoever can write files can give a value the last time of all. It wins, the clocks go on, and all agree.
    @Test(arguments: [UInt64.min, .max])
    func aValueFromTheEndOfTimeStopsNothing(_ word: UInt64) async throws {
        let sites = try await makeSites()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let peer = SyncIdentifier(high: word, low: word)
        let version = SyncVersion(time: SyncClock.maximum, peer: peer, sequence: 1)
        let records = try await records(second, "Book").map { record in
            SyncRecord(
                id: record.id, entity: record.entity,
                entries: [.property("title"): .init(value: .string("lie"), version: version)])
        }
        try await put(
            try Self.file(
                try await lie(second, time: SyncClock.maximum, records: records, peer: peer)),
            second)
        try await sites.exchange()
        for site in sites.sites {
            for book in try site.objects("Book") { book["title"] = "by \(site.machine)" }
            for value in try site.objects("Value") { value["text"] = "by \(site.machine)" }
            try await insertBook("new of \(site.machine)", on: site)
        }
        try await sites.exchange()
        try await expectSame(sites)
        let titles = try titles(on: first)
        #expect(titles.contains("new of 0") && titles.contains("new of 1"))
        #expect(titles.contains("lie"))
        #expect(try await second.sync.synchronize().problems.isEmpty)
        try sites.close()
    }

    @Test(arguments: [0, 1] as [Int64])
    func objectsWithTheGreatestCountAreDeletedAtMost(_ less: Int64) async throws {
        let sites = try await makeSites()
        let second = sites.sites[1]
        let count = SyncRecord.maximumExistenceCount - less
        let peer = SyncIdentifier()
        let records = try await records(second, "Book").map { record in
            var record = record
            record.set(
                .existence, .integer(count), SyncVersion(time: 1, peer: peer, sequence: 1))
            return record
        }
        try await put(try Self.file(try await lie(second, records: records, peer: peer)), second)
        try await sites.exchange()
        #expect(try second.objects("Book").isEmpty == (less == 0))
        for book in try second.objects("Book") { second.context.delete(book) }
        try second.context.save()
        try await insertBook("new", on: second)
        try await sites.exchange()
        try await expectSame(sites)
        #expect(try titles(on: sites.sites[0]) == ["new"])
        try sites.close()
    }

    /// An object of one entity becomes one of another: it has one row, of that.
    @Test func anObjectThatIsSaidToBeOfAnotherEntityHasOneRow() async throws {
        let sites = try await makeSites()
        let second = sites.sites[1]
        let counts = try ["Author", "Book"].map { try second.objects($0).count }
        let book = try #require(try await records(second, "Book").first)
        let peer = SyncIdentifier()
        let entries: [SyncKey: SyncEntry] = [
            .property("name"): .init(
                value: .string("lie"), version: SyncVersion(time: 1, peer: peer, sequence: 1))
        ]
        let record = SyncRecord(id: book.id, entity: "Author", entries: entries)
        try await put(try Self.file(try await lie(second, records: [record], peer: peer)), second)
        try await sites.exchange()
        try await expectSame(sites)
        for site in sites.sites {
            try site.reopen()
            #expect(try site.objects("Author").count == counts[0] + 1)
            #expect(try site.objects("Book").count == counts[1] - 1)
        }
        for author in try second.objects("Author") { author["name"] = "changed" }
        try second.context.save()
        try await sites.exchange()
        try await expectSame(sites)
        try sites.close()
    }

    /// The number of segments that are said to have been merged by many peers is greater than the greatest integer.
    @Test func countsOfSegmentsDoNotOverflow() async throws {
        let sites = try await makeSites()
        let second = sites.sites[1]
        var seen = SyncVector()
        for number in 0..<9 {
            seen.insert(SyncIdentifier(high: 1, low: UInt64(number)), 1..<(1 << 61))
        }
        let header = SyncSnapshotHeader(after: nil, through: nil, peers: [])
        try await put(
            try Self.file(try await lie(second, seen: seen, snapshot: header)), second)
        try await sites.exchange()
        let status = try #require(try await second.sync.status())
        #expect(status.peers.contains { $0.unseenCount == .max })
        try await insertBook("new", on: sites.sites[0])
        try await sites.exchange()
        #expect(try titles(on: second).contains("new"))
        try sites.close()
    }

    /// Of another peer, with its number, or with other bytes for its part.
    @Test func otherFilesOfTheNumberOfASnapshotDoNotStopIt() async throws {
        var sites = try await makeSites()
        try await sites.sites[0].sync.repair()
        let snapshot = try #require(
            try await segments(sites.sites[0]).last { $0.part != nil })
        let late = try sites.addSite()
        try await late.sync.join()
        let header = SyncSnapshotHeader(after: nil, through: nil, peers: [])
        let other = try await lie(
            late, sequence: snapshot.sequence, snapshot: header,
            part: SyncSnapshotPart(index: 1, count: 7))
        try await put(try Self.file(other), late)
        var damaged = try Self.file(snapshot)
        damaged.file = try #require(
            SyncSnapshotPart.folder.entry(
                SyncSegmentName(
                    peer: snapshot.peer, sequence: snapshot.sequence, part: snapshot.part,
                    encoded: [UInt8](repeating: 0, count: 32)
                ).fileName))
        try await put(damaged, late)
        #expect(try await late.sync.synchronize().problems.count == 1)
        #expect(try late.rows() == sites.sites[0].rows())
        #expect(try await late.sync.status()?.peers.allSatisfy { $0.missingCount == 0 } == true)
        try sites.close()
    }

    /// A snapshot that claims everything deletes what it has not: whoever can write files can do that. It does no more.
    @Test func aSnapshotThatForgetsEverythingOnlyDeletes() async throws {
        let sites = try await makeSites()
        let second = sites.sites[1]
        var all = SyncVector()
        for peer in try #require(try await second.sync.status()).peers {
            all.insert(peer.id, 0..<(1 << 61))
        }
        let header = SyncSnapshotHeader(after: nil, through: nil, peers: [])
        try await put(
            try Self.file(
                try await lie(second, seen: all, forgotten: all, snapshot: header)), second)
        try await sites.exchange()
        for entity in ["Author", "Book"] { #expect(try second.objects(entity).isEmpty) }
        try await insertBook("new", on: second)
        try await sites.exchange()
        // The lie names the old identifiers; each replica takes another.
        #expect(try titles(on: second) == ["new"])
        #expect(try titles(on: sites.sites[0]) == ["new"])
        try sites.close()
    }

    // MARK: - Size

    /// Files that are small, or not too large, and would take gigabytes or hours.
    @Test(.timeLimit(.minutes(10)), arguments: Bomb.allCases)
    func aFileThatWouldTakeTooMuchIsNotRead(_ bomb: Bomb) async throws {
        let sites = try SyncSites(1, model: Self.model)
        try await sites.begin()
        let site = sites.sites[0]
        let container = try #require(try await site.sync.status()?.container)
        let peer = SyncIdentifier()
        let content = bomb.content(container, peer)
        #expect(content.count < 40 << 20)
        let part = bomb.isSnapshot ? SyncSnapshotPart(index: 0, count: 1) : nil
        try await put(try Self.file(Self.resealed(content), peer, 1, part), site)
        try site.context.insertObject(entityName: "Book")["title"] = "own"
        try site.context.save()
        let start = ContinuousClock.now
        let result = try await site.sync.synchronize()
        // It would be hours; a busy machine takes half a minute to refuse it.
        #expect(ContinuousClock.now - start < .seconds(120))
        #expect(result.problems.map(\.error.code) == [.invalidFormat])
        #expect(result.sentCount == 1)
        try sites.close()
    }

    enum Bomb: CaseIterable {
        case descendingRanges, manyRanges, manyEntries, manyPeers, manyRetired
        case countOfPeers, countOfRetired, countOfRecords, countOfNames
        case decompressedSize, claimedSize

        var isSnapshot: Bool { self == .manyPeers || self == .countOfPeers }

        func content(_ container: SyncIdentifier, _ peer: SyncIdentifier) -> [UInt8] {
            var writer = SyncByteWriter()
            writer.raw("QUIRESYN".utf8)
            writer.byte(1)
            writer.byte(isSnapshot ? 2 : 1)
            writer.identifier(container)
            writer.identifier(peer)
            for number in [1, 1] as [UInt64] { writer.unsigned(number) }
            if isSnapshot { for number in [0, 1] as [UInt64] { writer.unsigned(number) } }
            writer.text("model")
            ranges(&writer)
            writer.unsigned(0)
            switch self {
            case .manyRetired:
                writer.unsigned(1 << 20)
                for number in 0..<UInt64(1 << 20) {
                    writer.identifier(SyncIdentifier(high: 1, low: number))
                }
            case .countOfRetired: writer.unsigned(1 << 40)
            default: writer.unsigned(0)
            }
            if isSnapshot {
                writer.unsigned(0)
                writer.unsigned(0)
                writer.unsigned(self == .manyPeers ? 1 << 20 : 1 << 40)
                for number in 0..<UInt64(1 << 20) where self == .manyPeers {
                    writer.identifier(SyncIdentifier(high: 1, low: number))
                    writer.raw([1, 1, 0, 0, 0])
                }
            }
            records(&writer)
            return writer.bytes
        }

        private func ranges(_ writer: inout SyncByteWriter) {
            let count: UInt64 = 3 << 20
            guard self == .descendingRanges || self == .manyRanges else {
                return writer.unsigned(0)
            }
            writer.unsigned(1)
            writer.identifier(SyncIdentifier(high: 1, low: 1))
            writer.unsigned(count)
            for number in 0..<count {
                writer.unsigned(2 * (self == .manyRanges ? number : count - number))
                writer.unsigned(1)
            }
        }

        private func records(_ writer: inout SyncByteWriter) {
            var block = SyncByteWriter()
            switch self {
            case .countOfNames: block.unsigned(1 << 40)
            case .countOfRecords: block.raw([0, 0] + [255, 255, 255, 255, 15])
            case .manyEntries:
                block.unsigned(1)
                block.text("a")
                block.unsigned(1)
                block.identifier(SyncIdentifier(high: 1, low: 1))
                block.unsigned(1)
                block.identifier(SyncIdentifier(high: 1, low: 1))
                block.unsigned(0)
                let count: UInt64 = 2_200_000
                block.unsigned(count)
                for number in 0..<count {
                    block.raw([2, 0])
                    block.identifier(SyncIdentifier(high: 1, low: number))
                    block.raw([0, 0, 0, 0, 0])
                }
            case .decompressedSize: block.raw([UInt8](repeating: 0, count: 60 << 20))
            default: block.raw([0, 0, 0])
            }
            var data = Data(block.bytes)
            switch self {
            case .manyEntries, .decompressedSize:
                data = RawDeflate.compressed(data) ?? Data()
                writer.byte(1)
                writer.unsigned(self == .manyEntries ? UInt64(block.bytes.count) : 1_000)
            case .claimedSize:
                writer.byte(1)
                writer.unsigned(1 << 62)
            default:
                writer.byte(0)
                writer.unsigned(UInt64(data.count))
            }
            writer.raw(data)
        }
    }

    /// The size of compressed files says nothing about that of their records.
    @Test func largeRecordsOfSmallFilesAreMergedInBoundedTransactions() async throws {
        let sites = try SyncSites(1, model: Self.model)
        try await sites.begin()
        let site = sites.sites[0]
        let text = String(repeating: "x", count: 20 << 20)
        let peer = SyncIdentifier()
        for number in 1...5 {
            let version = SyncVersion(time: 1, peer: peer, sequence: Int64(number))
            let record = SyncRecord(
                id: SyncIdentifier(), entity: "Book",
                entries: [
                    .existence: .init(value: .integer(1), version: version),
                    .property("title"): .init(value: .string(text), version: version),
                ])
            let segment = try await lie(
                site, sequence: Int64(number), records: [record], peer: peer)
            let file = try Self.file(segment)
            #expect(file.bytes.count < 1 << 20)
            try await put(file, site)
        }
        let last = try site.store.lastHistoryTransactionNumber() ?? 0
        #expect(try await site.sync.synchronize().receivedCount == 5)
        #expect(try site.store.lastHistoryTransactionNumber() ?? 0 == last + 2)
        try sites.close()
    }
}
