import Foundation
import QuireTestSupport
import Synchronization
import Testing

@testable import Quire
@testable import QuireRescue

/// Recovery of protected stores: the result is sealed as the damaged store is, and nothing is written in clear.
@Suite @MainActor struct ProtectedRecoveryTests {
    private let folder: TemporaryFolder
    private let path: String
    private let new: String
    /// Texts that every library has, and the beginning of its external data.
    nonisolated private static let canaries = [
        Data("Author 1".utf8), Data("Book 1".utf8), Data(repeating: 80, count: 64),
    ]

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("a.sqlite")
        new = folder.path("b.sqlite")
    }

    /// The names of the files that have one of the texts in clear.
    nonisolated private static func filesInClear(in folder: String) -> [String] {
        (FileManager.default.enumerator(atPath: folder)?.allObjects as? [String] ?? []).filter {
            guard let bytes = FileManager.default.contents(atPath: folder + "/" + $0) else {
                return false
            }
            return canaries.contains { bytes.range(of: $0) != nil }
        }
    }

    private func error(_ body: () throws -> some Any) -> QuireError? {
        do { _ = try body() } catch { return error as? QuireError }
        return nil
    }

    /// A store of its own, whose domain is not that of other tests.
    private func makeStore(
        _ protection: FileProtection, journal: SQLiteStoreOptions.Journal = .automatic
    ) throws -> ProtectionDomain {
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        var options = SQLiteStoreOptions()
        options.fileProtection = protection
        options.journal = journal
        options.protectionSlots = [NewSlot(.keyFile(try KeyFile.read(folder.path("key"))))]
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        for index in 1...200 {
            try context.insertObject(entityName: "Author")["name"] = "Author \(index)"
        }
        let cover = try context.insertObject(entityName: "Cover")
        cover["image"] = Data(repeating: 80, count: 150_000)
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Book 1"
        book["year"] = 1999
        book["cover"] = cover
        try context.save()
        let domain = try #require(store.protection?.domain)
        try store.close()
        return domain
    }

    /// What a thread finds that looks at a folder until it is told to stop.
    private final class FolderWatch: Sendable {
        private let state = Mutex((isDone: false, found: Set<String>()))
        private let end = DispatchSemaphore(value: 0)

        init(_ folder: String) {
            Thread { [self] in
                repeat {
                    let found = ProtectedRecoveryTests.filesInClear(in: folder)
                    state.withLock { $0.found.formUnion(found) }
                } while !state.withLock { $0.isDone }
                end.signal()
            }.start()
        }

        func stop() -> Set<String> {
            state.withLock { $0.isDone = true }
            end.wait()
            return state.withLock { $0.found }
        }
    }

    /// The folder is looked at all the while, because temporary files are gone afterwards.
    @Test(arguments: [FileProtection.complete, .completeUnlessOpen])
    func nothingIsWrittenInClear(protection: FileProtection) throws {
        try Damage.makeLibrary(at: path, protection: protection)
        var random = SeededRandom(seed: 5)
        try Damage.overwrite(path, pages: [1, 9, 20], with: &random)
        #expect(Self.filesInClear(in: folder.path) == [])
        let watch = FolderWatch(folder.path)
        let recovery = Result { try StoreRecovery.recover(path, to: new) }
        #expect(watch.stop() == [])
        let report = try recovery.get()
        #expect(report.objects["Book", default: 0] > 300)
        #expect(Self.filesInClear(in: folder.path) == [])
        let names = try FileSystem.names(in: folder.path)
        #expect(
            names.sorted() == [
                ".a_SUPPORT", ".b_SUPPORT", "a.sqlite", "a.sqlite.keybag", "b.sqlite",
                "b.sqlite.keybag",
            ])
    }

    @Test(arguments: [SQLiteStoreOptions.Journal.writeAheadLog, .rollback])
    func theKeyOfTheDamagedStoreOpensTheNewOne(
        journal: SQLiteStoreOptions.Journal
    ) async throws {
        let domain = try makeStore(.complete, journal: journal)
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        // One bit of the last page.
        bytes[bytes.count - 1000] ^= 1
        try bytes.write(to: URL(fileURLWithPath: path))
        _ = try StoreRecovery.recover(path, to: new)
        await domain.lock(after: .zero)
        #expect(error { try SQLiteStore.open(at: new) }?.code == .protectedDataUnavailable)
        let own = try ProtectionDomain.domain(of: new + ".keybag")
        try await own.unlock(keyFile: folder.path("key"))
        let store = try SQLiteStore.open(at: new)
        #expect(try store.count(matching: FetchSpecification("Author")) >= 150)
        #expect(store.protection?.fileProtection == .complete)
        try store.close()
    }

    @Test func aLockedStoreIsNotRecovered() async throws {
        let domain = try makeStore(.complete)
        await domain.lock(after: .zero)
        #expect(
            error { try StoreRecovery.recover(path, to: new) }?.code == .protectedDataUnavailable)
        #expect(!FileSystem.exists(new))
        #expect(!FileSystem.exists(new + ".keybag"))
    }

    /// A page that does not open because of that is not taken for a damaged one.
    @Test func aStoreThatIsLockedWhileItIsReadIsNotTakenForDamaged() async throws {
        let domain = try makeStore(.complete)
        let protection = try #require(try StoreProtection.find(forStoreAt: path))
        var salvage = try StoreSalvage(
            path: path, includesFreedRows: false, cipher: protection.cipher)
        await domain.lock(after: .zero)
        #expect(error { try salvage.survey(model: nil) }?.code == .protectedDataUnavailable)
    }

    @Test func withoutItsKeybagNothingIsFound() throws {
        let domain = try makeStore(.complete)
        let keybag = try Data(contentsOf: URL(fileURLWithPath: path + ".keybag"))
        try keybag.prefix(100).write(to: URL(fileURLWithPath: path + ".keybag"))
        let damaged = error { try StoreRecovery.recover(path, to: new) }
        #expect(damaged?.code == .invalidFormat)
        #expect(damaged?.message.contains("keybag") == true)
        try FileSystem.removeFile(path + ".keybag")
        let missing = error { try StoreRecovery.recover(path, to: new) }
        #expect(missing?.code == .invalidFormat)
        #expect(missing?.message.contains("its keybag “\(path).keybag” is missing") == true)
        #expect(!FileSystem.exists(new))
        withExtendedLifetime(domain) {}
    }

    /// Pages are bound to their places: a page in the place of another is a lost page.
    @Test func exchangedPagesAreLost() throws {
        try Damage.makeLibrary(at: path, protection: .complete)
        let rows = try Damage.placedRows(path).filter { $0.table == "ZBOOK" }
        // Leaves: rows without long values.
        let pages = Set(rows.filter { $0.pages.count == 1 }.flatMap(\.pages)).sorted()
        let (one, two) = (try #require(pages.first), try #require(pages.last))
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        for offset in 0..<4096 {
            bytes.swapAt((one - 1) * 4096 + offset, (two - 1) * 4096 + offset)
        }
        try bytes.write(to: URL(fileURLWithPath: path))
        let report = try StoreRecovery.recover(path, to: new)
        #expect(report.lostPages == 2)
        let intact = Set(rows.filter { $0.pages.isDisjoint(with: [one, two]) }.map(\.key))
        let found = try Damage.query(new, "SELECT Z_PK FROM ZBOOK").compactMap { Int64($0[0]) }
        #expect(Set(found).isSuperset(of: intact))
        #expect(found.count < 400)
    }

    @Test func theBackupOfARepairHasItsKeybag() async throws {
        let domain = try makeStore(.complete)
        try Damage.query(path, "UPDATE Z_PRIMARYKEY SET Z_MAX = 0")
        let backup = try #require(try StoreRepair.repair(path).backup)
        await domain.lock(after: .zero)
        let own = try ProtectionDomain.domain(of: backup + ".keybag")
        try await own.unlock(keyFile: folder.path("key"))
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        options.externalDataOwner = path
        let store = try SQLiteStore.open(at: backup, options: options)
        #expect(try store.count(matching: FetchSpecification("Author")) == 200)
        try store.close()
        #expect(Self.filesInClear(in: folder.path) == [])
    }
}
