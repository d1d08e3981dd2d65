import Foundation
import Quire
import QuireSQLite
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Folders that have lost files, and replicas that are made anew.
@MainActor @Suite struct SyncRepairTests {
    /// Two machines that have saved and deleted, with conflicts, relationships and large values.
    private func makeSites(machines: Int = 2) async throws -> SyncSites {
        let sites = try SyncSites(machines, model: SyncTests.model, segmentsBeforeSnapshot: [4])
        try await sites.begin()
        for (number, site) in sites.sites.enumerated() {
            for step in 0..<6 {
                let author = try site.context.insertObject(entityName: "Author")
                author["name"] = "Author \(number) \(step)"
                let book = try site.context.insertObject(entityName: "Book")
                book["author"] = author
                book["cover"] = Data(repeating: UInt8(step), count: 200_000)
                let chapter = try site.context.insertObject(entityName: "Chapter")
                chapter["book"] = book
                if step == 3 { site.context.delete(try #require(try site.objects("Tag").first)) }
                try site.context.insertObject(entityName: "Tag")["name"] = "Tag \(step)"
                try site.context.save()
                try await site.sync.synchronize()
            }
        }
        try await sites.exchange()
        return sites
    }

    private func expectSame(_ sites: SyncSites) throws {
        let rows = try sites.sites[0].rows()
        for site in sites.sites.dropFirst() { #expect(try site.rows() == rows) }
    }

    // MARK: - The folder

    @Test func filesThatWereLostOrDamagedAreThereAgain() async throws {
        var sites = try await makeSites()
        let files = sites.folder.files(on: 0)
        for (number, path) in files.keys.sorted().enumerated()
        where path.hasPrefix("log/") || path.hasPrefix("base/") {
            let damaged = number % 2 == 0 ? nil : files[path].map { $0.prefix($0.count / 2) }
            for machine in 0..<2 { sites.folder.damage(path, on: machine, damaged) }
        }
        try await sites.sites[0].sync.repair()
        let late = try sites.addSite()
        try await late.sync.join()
        let result = try await late.sync.synchronize()
        #expect(result.problems.isEmpty)
        try expectSame(sites)
        #expect(try late.objects("Author").count == 12)
        try sites.close()
    }

    /// Another program has written to the store without its history.
    @Test func rowsThatDifferFromWhatWasMergedAreSent() async throws {
        let sites = try await makeSites()
        let site = sites.sites[0]
        let path = site.path
        try site.close()
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute("UPDATE ZAUTHOR SET ZBORN = 1800")
        connection.close()
        try site.reopen()
        await site.sync.leaveRowsUnchecked()
        try await site.sync.synchronize()
        #expect(try sites.sites[1].objects("Author").allSatisfy { $0["born"] == nil })
        #expect(try await site.sync.checkInvariants().count == 12)
        try await site.sync.repair()
        try await sites.exchange()
        sites.sites[1].context.refreshAllObjects()
        #expect(
            try sites.sites[1].objects("Author").allSatisfy {
                $0["born", as: Int16.self] == 1800
            })
        try expectSame(sites)
        try sites.close()
    }

    // MARK: - The replica

    @Test func aReplicaThatIsMadeAnewIsTheSame() async throws {
        let sites = try await makeSites()
        let site = sites.sites[1]
        let rows = try site.rows()
        let identifiers = try site.objects("Author").map(\.objectID.bits).sorted()
        let state = try await site.sync.stateDescription()
        let peer = try await site.sync.status()?.peer
        let result = try await site.sync.rebuildFromSyncedContent()
        #expect(result.changes.isEmpty)
        #expect(try site.rows() == rows)
        #expect(try site.objects("Author").map(\.objectID.bits).sorted() == identifiers)
        #expect(try await site.sync.stateDescription() == state)
        #expect(try await site.sync.status()?.peer != peer)
        try site.objects("Author").first?["name"] = "after"
        try site.context.save()
        try await sites.exchange()
        try expectSame(sites)
        #expect(
            try sites.sites[0].objects("Author").contains { $0["name", as: String.self] == "after" }
        )
        try sites.close()
    }

    @Test func whatWasNotSentIsSentBeforeAReplicaIsMadeAnew() async throws {
        let sites = try await makeSites()
        let site = sites.sites[1]
        try site.context.insertObject(entityName: "Author")["name"] = "new"
        try site.context.save()
        try await site.sync.rebuildFromSyncedContent()
        #expect(try site.objects("Author").count == 13)
        try await sites.exchange()
        try expectSame(sites)
        try sites.close()
    }

    @Test func aReplicaIsNotMadeAnewFromAFolderThatLacksFiles() async throws {
        let sites = try await makeSites()
        let site = sites.sites[1]
        // In a segment that no snapshot has.
        try site.objects("Author").first?["born"] = Int16(1775)
        try site.context.save()
        try await site.sync.synchronize()
        let rows = try site.rows()
        for path in sites.folder.files(on: 1).keys where path.hasPrefix("log/") {
            sites.folder.damage(path, on: 1, nil)
        }
        let error = await #expect(throws: QuireError.self) {
            try await site.sync.rebuildFromSyncedContent()
        }
        #expect(error?.code == .invalidState)
        #expect(try site.rows() == rows)
        for path in sites.folder.files(on: 1).keys where path.hasPrefix("base/") {
            sites.folder.damage(path, on: 1, nil)
        }
        let result = try await site.sync.rebuildFromSyncedContent(discardsMissing: true)
        #expect(result.changes.deleted.count > 12)
        #expect(try site.objects("Author").isEmpty)
        try sites.close()
    }

    // MARK: - Removing the shared document

    @Test func aDocumentThatIsRemovedStaysOnEachMachine() async throws {
        let sites = try await makeSites()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let transport = CarriedTransport(folder: sites.folder, machine: 0)
        try await SyncContainer.removeSyncedContent(in: transport)
        sites.folder.carryAll()
        #expect(sites.folder.files(on: 1).keys.allSatisfy { $0.hasPrefix("removed/") })
        for site in [first, second] {
            let count = try site.objects("Author").count
            let error = await #expect(throws: QuireError.self) {
                try await site.sync.synchronize()
            }
            #expect(error?.code == .syncedContentRemoved)
            #expect(try await site.sync.status() == nil)
            #expect(try site.objects("Author").count == count)
        }
        let error = await #expect(throws: QuireError.self) {
            try await first.sync.joinOrCreate(named: "Library", identifier: nil)
        }
        #expect(error?.code == .syncedContentRemoved)
        // On purpose.
        try await first.sync.create(named: "Library")
        sites.folder.carryAll()
        try await second.sync.join()
        try await sites.exchange()
        #expect(try first.objects("Author").count == second.objects("Author").count)
        try sites.close()
    }

    /// Before the files of either had arrived at the other.
    @Test func ofTwoMachinesThatMakeTheDocumentOneJoinsTheOther() async throws {
        let sites = try SyncSites(2, model: SyncTests.model)
        for site in sites.sites {
            try site.context.insertObject(entityName: "Author")["name"] = "\(site.machine)"
            try site.context.save()
            try await site.sync.create(named: "Library")
            try await site.sync.synchronize()
        }
        // The carrier keeps one of the two descriptions.
        let kept = sites.folder.files(on: 0)["container.json"]
        sites.folder.damage("container.json", on: 1, kept)
        sites.folder.carryAll()
        try await sites.sites[1].sync.joinOrCreate(named: "Library")
        try await sites.exchange()
        for site in sites.sites {
            #expect(try site.objects("Author").count == 2)
            // What was sent as part of the other document is gone.
            #expect(try await site.sync.synchronize().problems.isEmpty)
        }
        try expectSame(sites)
        try sites.close()
    }

    @Test func aFolderThatIsEmptyIsNotOneThatWasRemoved() async throws {
        let sites = try await makeSites()
        let site = sites.sites[0]
        for path in sites.folder.files(on: 0).keys { sites.folder.damage(path, on: 0, nil) }
        let error = await #expect(throws: QuireError.self) { try await site.sync.synchronize() }
        #expect(error?.code == .storeUnavailable)
        #expect(try await site.sync.status() != nil)
        try sites.close()
    }

    @Test func anotherDocumentInTheFolderChangesNothing() async throws {
        let sites = try await makeSites()
        let others = try SyncSites(1, model: SyncTests.model)
        try await others.begin()
        let site = sites.sites[0]
        let rows = try site.rows()
        sites.folder.damage("container.json", on: 0, others.folder.files(on: 0)["container.json"])
        let error = await #expect(throws: QuireError.self) { try await site.sync.synchronize() }
        #expect(error?.code == .syncedContentReplaced)
        #expect(try site.rows() == rows)
        #expect(try await site.sync.status() != nil)
        try sites.close()
        try others.close()
    }
}
