import Foundation
import Quire
import QuireSQLite
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Shared folders and replicas do not grow for ever: deleted objects are forgotten, many files become a few, and those that nobody
/// needs are removed.
@MainActor @Suite struct SyncCompactionTests {
    /// Months in which machines save and exchange, except for some.
    private func passMonths(
        _ count: Int, _ sites: SyncSites, except away: Set<Int> = []
    ) async throws {
        for _ in 0..<count {
            sites.clock.advance(days: 31)
            try await sites.exchange(except: away)
        }
    }

    /// The number of objects that a machine has records of, deleted ones too.
    private func recordCount(_ site: SyncSite) throws -> Int {
        let store = try site.store
        return try store.read {
            Int(try $0.integer("SELECT count(*) FROM QUIRE_SYNC_OBJECT") ?? 0)
        }
    }

    private func names(_ site: SyncSite) throws -> [String] {
        site.context.refreshAllObjects()
        return try site.objects("Author").compactMap { $0["name", as: String.self] }.sorted()
    }

    /// Machines with three authors, of which the first one has deleted one.
    private func makeSites(
        _ count: Int, segmentsBeforeSnapshot: Int = 6
    ) async throws -> SyncSites {
        let sites = try SyncSites(
            count, model: SyncTests.model, segmentsBeforeSnapshot: [segmentsBeforeSnapshot])
        for name in ["Austen", "Brontë", "Carroll"] {
            try sites.sites[0].context.insertObject(entityName: "Author")["name"] = name
        }
        try sites.sites[0].context.save()
        try await sites.begin()
        return sites
    }

    private func deleteAusten(_ site: SyncSite) throws {
        let austen = try #require(
            try site.objects("Author").first { $0["name", as: String.self] == "Austen" })
        site.context.delete(austen)
        try site.context.save()
    }

    // MARK: - Forgetting

    @Test func whatIsDeletedIsForgottenWhenAllKnow() async throws {
        let sites = try await makeSites(3)
        try deleteAusten(sites.sites[0])
        try await passMonths(1, sites)
        #expect(try sites.sites.map(recordCount) == [3, 3, 3])
        try await passMonths(3, sites)
        #expect(try sites.sites.map(recordCount) == [2, 2, 2])
        // Nothing is sent any more only to say what has been merged.
        let files = sites.folder.files(on: 0).count
        try await passMonths(3, sites)
        #expect(sites.folder.files(on: 0).count == files)
        try sites.close()
    }

    /// They name objects that are forgotten.
    @Test func filesThatAreReadAgainChangeNothing() async throws {
        let sites = try await makeSites(2, segmentsBeforeSnapshot: 1_000)
        let austen = try sites.sites[1].objects("Author")
            .first { $0["name", as: String.self] == "Austen" }
        austen?["born"] = Int16(1775)
        try sites.sites[1].context.save()
        try await sites.exchange()
        try deleteAusten(sites.sites[0])
        try await passMonths(4, sites)
        #expect(try sites.sites.map(recordCount) == [2, 2])
        // Another deletion is forgotten, and with it what files have been merged.
        for name in ["Brontë", "Carroll"] {
            let author = try #require(
                try sites.sites[0].objects("Author")
                    .first { $0["name", as: String.self] == name })
            sites.sites[0].context.delete(author)
            try sites.sites[0].context.save()
            try await passMonths(4, sites)
        }
        for site in sites.sites {
            #expect(try recordCount(site) == 0)
            #expect(try await site.sync.conflicts().isEmpty)
        }
        try sites.close()
    }

    @Test func nothingIsForgottenWhileAMachineIsAway() async throws {
        let sites = try await makeSites(3)
        // It is known by a file of its own.
        try sites.sites[2].context.insertObject(entityName: "Tag")["name"] = "novel"
        try sites.sites[2].context.save()
        try await sites.exchange()
        try deleteAusten(sites.sites[0])
        try await passMonths(2, sites, except: [2])
        #expect(try recordCount(sites.sites[0]) == 4)
        try await passMonths(3, sites)
        #expect(try sites.sites.map(recordCount) == [3, 3, 3])
        try sites.close()
    }

    /// Its segments with the deletion are gone, and so is the record in the snapshot.
    @Test func aMachineThatWasAwayForMonthsBringsNothingBack() async throws {
        let sites = try await makeSites(3)
        let (first, away) = (sites.sites[0], sites.sites[2])
        try away.objects("Author").first { $0["name", as: String.self] == "Brontë" }?["born"] =
            Int16(1816)
        try away.context.save()
        try await sites.exchange()
        try deleteAusten(first)
        for month in 1...8 {
            try first.context.insertObject(entityName: "Tag")["name"] = "Tag \(month)"
            try first.context.save()
            try await passMonths(1, sites, except: [2])
        }
        #expect(try recordCount(first) == 2 + 8)
        try await first.sync.repair()
        let austen = try away.objects("Author").first { $0["name", as: String.self] == "Austen" }
        // In two files, which it reads again when it has become another replica.
        austen?["born"] = Int16(1774)
        try away.context.save()
        try await away.sync.synchronize()
        austen?["born"] = Int16(1775)
        try away.context.insertObject(entityName: "Author")["name"] = "Dickens"
        try away.context.save()
        try await sites.exchange()
        for site in sites.sites { #expect(try names(site) == ["Brontë", "Carroll", "Dickens"]) }
        // What was changed there is not lost.
        let conflicts = try await away.sync.conflicts()
        #expect(conflicts.map(\.lost) == [.integer(1775)])
        #expect(conflicts.map(\.entityName) == ["Author"])
        let conflict = try #require(conflicts.first)
        let error = await #expect(throws: QuireError.self) { try await away.sync.choose(conflict) }
        #expect(error?.code == .notFound)
        try await away.sync.dismiss(conflict)
        try sites.close()
    }

    @Test func anObjectThatWasChosenBackIsWholeOnAMachineThatHasForgottenIt() async throws {
        let sites = try await makeSites(2)
        let (first, second) = (sites.sites[0], sites.sites[1])
        try deleteAusten(first)
        let austen = try second.objects("Author")
            .first { $0["name", as: String.self] == "Austen" }
        austen?["born"] = Int16(1775)
        try second.context.save()
        try await passMonths(1, sites)
        // On the first machine nobody wants it back.
        for conflict in try await first.sync.conflicts() {
            try await first.sync.dismiss(conflict)
        }
        try await passMonths(4, sites)
        #expect(try recordCount(first) == 2)
        try await second.sync.choose(try #require(try await second.sync.conflicts().first))
        try await sites.exchange()
        for site in sites.sites { #expect(try names(site) == ["Austen", "Brontë", "Carroll"]) }
        #expect(try sites.sites[0].rows() == sites.sites[1].rows())
        try sites.close()
    }

    @Test func aRetiredMachineIsNotWaitedForAndComesBackAsAnother() async throws {
        let sites = try await makeSites(3)
        let (first, away) = (sites.sites[0], sites.sites[2])
        try away.context.insertObject(entityName: "Tag")["name"] = "novel"
        try away.context.save()
        try await sites.exchange()
        let peer = try #require(try await away.sync.status()?.peer)
        try await first.sync.retire(peer)
        #expect(
            try await first.sync.status()?.peers.filter(\.isRetired).map(\.id) == [peer])
        try deleteAusten(first)
        try await passMonths(2, sites, except: [2])
        #expect(try recordCount(first) == 3)
        try away.context.insertObject(entityName: "Author")["name"] = "Dickens"
        try away.context.save()
        try await sites.exchange()
        #expect(try await away.sync.status()?.peer != peer)
        for site in sites.sites { #expect(try names(site) == ["Brontë", "Carroll", "Dickens"]) }
        // Itself, and one that nobody knows, cannot be retired.
        let own = try #require(try await first.sync.status()?.peer)
        for (id, code) in [(own, QuireError.Code.invalidValue), (SyncIdentifier(), .notFound)] {
            let error = await #expect(throws: QuireError.self) { try await first.sync.retire(id) }
            #expect(error?.code == code)
        }
        try sites.close()
    }

    @Test func aMachineThatLeavesSaysSo() async throws {
        let sites = try await makeSites(3)
        let (first, second, leaving) = (sites.sites[0], sites.sites[1], sites.sites[2])
        let peer = try #require(try await leaving.sync.status()?.peer)
        try await leaving.sync.removeSyncMetadata()
        try await sites.exchange(except: [2])
        sites.folder.carryAll()
        try await sites.exchange(except: [2])
        for site in [first, second] {
            let peers = try await site.sync.status()?.peers ?? []
            #expect(peers.filter(\.isRetired).map(\.id) == [peer])
        }
        #expect(try names(leaving).count == 3)
        try sites.close()
    }

    // MARK: - Files

    /// Another machine, which has not got it yet, would never have what is in it.
    @Test func aFileThatHasNotBeenMergedIsNotRemoved() async throws {
        let sites = try SyncSites(
            2, model: SyncTests.model, segmentsBeforeSnapshot: [1, 64])
        try await sites.begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        try second.context.insertObject(entityName: "Author")["name"] = "Austen"
        try second.context.save()
        try await second.sync.synchronize()
        let known = sites.folder.files(on: 0)
        let (path, data) = try #require(
            sites.folder.files(on: 1).first { $0.key.hasPrefix("log/") && known[$0.key] == nil })
        sites.folder.damage(path, on: 0, data.prefix(data.count / 2))
        for number in 0..<4 {
            try first.context.insertObject(entityName: "Tag")["name"] = "Tag \(number)"
            try first.context.save()
            try await first.sync.synchronize()
        }
        let files = sites.folder.files(on: 0)
        #expect(files.keys.contains { $0.hasPrefix("base/") })
        #expect(files[path] != nil)
        try await sites.exchange()
        #expect(try names(first) == ["Austen"])
        try sites.close()
    }

    @Test func largeSegmentsBecomeASnapshotBeforeTheyAreMany() async throws {
        let sites = try SyncSites(1, model: SyncTests.model)
        try await sites.begin()
        let site = sites.sites[0]
        let book = try site.context.insertObject(entityName: "Book")
        for number in 0..<70 {
            // Not compressible.
            var random = SeededRandom(seed: UInt64(number))
            book["cover"] = Data(
                (0..<90_000).map { _ in UInt8.random(in: 0...255, using: &random) })
            try site.context.save()
            try await site.sync.synchronize()
        }
        try await site.sync.synchronize()
        let files = sites.folder.files(on: 0)
        #expect(files.keys.contains { $0.hasPrefix("base/") })
        #expect(files.reduce(0) { $0 + $1.value.count } < 6 << 20)
        try sites.close()
    }

    /// A writer that fails leaves parts of a snapshot, which the next one of the same replica removes.
    @Test func whatIsSavedWhileASnapshotIsWrittenIsSentBetweenItsParts() async throws {
        var sites = try SyncSites(1, model: Self.textModel)
        let site = sites.sites[0]
        for number in 0...SyncReplica.snapshotPartSize.records {
            try site.context.insertObject(entityName: "Note")["text"] = "Note \(number)"
        }
        try site.context.save()
        try await sites.begin()
        let created = Lock([String]())
        let sync = try site.container(sites) { call in
            guard case .creating(let file) = call else { return }
            created.withLock { $0.append(file.folder.path) }
            if created.withLock({ $0.count }) > 1 { return }
            try site.context.insertObject(entityName: "Note")["text"] = "Last"
            try site.context.save()
        }
        let result = try await sync.repair()
        #expect(created.withLock { $0 } == ["base", "log", "base"])
        #expect(result.sentCount == 1)
        // The segment stays, and the snapshot takes the place of the others.
        let segments = sites.folder.files(on: 0).keys.filter { $0.hasPrefix("log/") }
        #expect(segments.count == 1)
        let late = try sites.addSite()
        try await late.sync.join()
        try await late.sync.synchronize()
        #expect(try late.objects("Note").count == SyncReplica.snapshotPartSize.records + 2)
        try sites.close()
    }

    @Test func withoutBinaryAttributesNoBlobsAreLookedFor() async throws {
        let sites = try SyncSites(1, model: Self.textModel)
        let site = sites.sites[0]
        try site.context.insertObject(entityName: "Note")["text"] = "One"
        try site.context.save()
        try await sites.begin()
        let listed = Lock(Set<String>())
        let sync = try site.container(sites) { call in
            if case .listing(let folder) = call { _ = listed.withLock { $0.insert(folder.path) } }
        }
        try await sync.repair()
        #expect(listed.withLock { $0 } == ["log", "base"])
        try sites.close()
    }

    /// A model whose values are never in files of their own.
    private static let textModel = ManagedObjectModel {
        Entity("Note") { Attribute("text", .string) }
    }

    @Test func anUnfinishedSnapshotIsRemoved() async throws {
        let sites = try SyncSites(1, model: SyncTests.model, segmentsBeforeSnapshot: [2])
        try await sites.begin()
        let site = sites.sites[0]
        for number in 0..<250 {
            try site.context.insertObject(entityName: "Book")["cover"] = Data(
                repeating: UInt8(number), count: 90_000)
            if number % 80 == 0 { try site.context.save() }
        }
        try site.context.save()
        var failures = 0
        for calls in 0..<30 {
            sites.folder.failOnce(after: calls)
            do {
                try await site.sync.synchronize()
            } catch let error as QuireError where error.code == .storeUnavailable {
                failures += 1
            }
            if Set(snapshots(sites).map(\.sequence)).count > 0 { break }
        }
        #expect(failures > 0 && Set(snapshots(sites).map(\.sequence)).count == 1)
        sites.folder.failOnce(after: nil)
        for number in 0..<4 {
            try site.context.insertObject(entityName: "Author")["name"] = "Author \(number)"
            try site.context.save()
            try await site.sync.synchronize()
        }
        let names = snapshots(sites)
        #expect(Set(names.map(\.sequence)).count == 1)
        #expect(names.count == names.first?.part?.count)
        try sites.close()
    }

    private func snapshots(_ sites: SyncSites) -> [SyncSegmentName] {
        sites.folder.files(on: 0).keys.filter { $0.hasPrefix("base/") }
            .compactMap { SyncSegmentName(String($0.dropFirst("base/".count))) }
    }

    // MARK: - Blobs

    private func blobs(_ sites: SyncSites) -> [String] {
        sites.folder.files(on: 0).keys.filter { $0.hasPrefix("blob/") }
    }

    @Test func blobsThatNoObjectHasAreRemovedAfterAMonth() async throws {
        let sites = try SyncSites(2, model: SyncTests.model)
        try await sites.begin()
        let book = try sites.sites[0].context.insertObject(entityName: "Book")
        func save(_ byte: UInt8) async throws {
            book["cover"] = Data(repeating: byte, count: 300_000)
            try sites.sites[0].context.save()
            try await sites.exchange()
        }
        for byte in 1...4 { try await save(UInt8(byte)) }
        // Writes a snapshot.
        try await sites.sites[0].sync.repair()
        #expect(blobs(sites).count == 4)
        sites.clock.advance(days: 31)
        for byte in 5...6 { try await save(UInt8(byte)) }
        try await sites.sites[0].sync.repair()
        // Those that had been replaced by then, but for the one that has been replaced since.
        #expect(blobs(sites).count == 3)
        sites.clock.advance(days: 31)
        try await sites.sites[0].sync.repair()
        #expect(blobs(sites).count == 1)
        #expect(
            try sites.sites[1].objects("Book").first?["cover", as: Data.self]
                == Data(repeating: 6, count: 300_000))
        try sites.close()
    }

    @Test func aBlobThatAnObjectGetsAgainWhileASnapshotIsWrittenIsKept() async throws {
        let sites = try SyncSites(1, model: SyncTests.model)
        try await sites.begin()
        let site = sites.sites[0]
        let book = try site.context.insertObject(entityName: "Book")
        func save(_ byte: UInt8) throws {
            book["cover"] = Data(repeating: byte, count: 300_000)
            try site.context.save()
        }
        for byte in 1...2 {
            try save(UInt8(byte))
            try await site.sync.synchronize()
        }
        try await site.sync.repair()
        // The first one has been in use by nobody for longer than it is kept.
        sites.clock.advance(days: 31)
        let isSaved = Lock(false)
        let sync = try site.container(sites) { call in
            guard case .creating(let file) = call, file.folder.path == "base",
                !isSaved.withLock({ $0 })
            else { return }
            isSaved.withLock { $0 = true }
            try save(1)
        }
        #expect(try await sync.repair().sentCount == 1)
        #expect(blobs(sites).count == 2)
        try sites.close()
    }

    @Test func aBlobThatIsMissingInTheFolderIsCreatedAgain() async throws {
        var sites = try SyncSites(1, model: SyncTests.model, segmentsBeforeSnapshot: [2])
        try await sites.begin()
        let site = sites.sites[0]
        let book = try site.context.insertObject(entityName: "Book")
        book["cover"] = Data(repeating: 7, count: 300_000)
        try site.context.save()
        try await site.sync.synchronize()
        let path = try #require(blobs(sites).first)
        sites.folder.damage(path, on: 0, nil)
        try await site.sync.repair()
        #expect(blobs(sites) == [path])
        try await sites.addSite().sync.join()
        try await sites.exchange()
        #expect(
            try sites.sites[1].objects("Book").first?["cover", as: Data.self]?.count == 300_000)
        try sites.close()
    }
}
