import Foundation
import QuireProtection
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// SQLite stores outside of documents that are protected.
struct ProtectedStoreTests {
    private let folder: TemporaryFolder
    private let path: String
    private let domain: ProtectionDomain
    private static let canary = "CANARY-91c2"

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("books.sqlite")
        try Data(repeating: 7, count: 32).write(to: URL(fileURLWithPath: folder.path("key")))
        chmod(folder.path("key"), 0o600)
        domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
    }

    private func options(
        _ protection: FileProtection? = .complete,
        _ journal: SQLiteStoreOptions.Journal = .automatic
    ) -> SQLiteStoreOptions {
        var options = SQLiteStoreOptions()
        options.fileProtection = protection
        options.protectionDomain = domain
        options.journal = journal
        return options
    }

    @MainActor private func add(_ names: [String], to store: SQLiteStore) throws {
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        for name in names {
            let author = try context.insertObject(entityName: "Author")
            author["name"] = Self.canary + name
        }
        try context.save()
    }

    private func count(_ store: SQLiteStore) throws -> Int {
        try store.count(matching: FetchSpecification("Author"))
    }

    private func requireNoCanary(sourceLocation: SourceLocation = #_sourceLocation) throws {
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
            guard let bytes = FileManager.default.contents(atPath: folder.path(name)) else {
                continue
            }
            #expect(
                bytes.range(of: Data(Self.canary.utf8)) == nil, "\(name)",
                sourceLocation: sourceLocation)
        }
    }

    private func code(_ body: () throws -> some Any) -> QuireError.Code? {
        do { _ = try body() } catch { return (error as? QuireError)?.code }
        return nil
    }

    @Test func creationContinuesWithTheKeybagOfAKilledProcess() throws {
        var options = SQLiteStoreOptions()
        options.fileProtection = .complete
        options.protectionSlots = [NewSlot(.keyFile(Data(repeating: 9, count: 32)))]
        try SQLiteStore.create(at: path, model: FixtureModels.library, options: options).close()
        try Data().write(to: URL(fileURLWithPath: path))
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options)
        #expect(try count(store) == 0)
        try store.close()
        #expect(try SQLiteStore.fileProtection(at: path) == .complete)
    }

    @Test func creationByTwoThreadsOpensOneStore() throws {
        let layout = try FixtureModels.library.layout()
        for number in 0..<8 {
            let path = folder.path("\(number).sqlite")
            let results = Lock<[String]>([])
            DispatchQueue.concurrentPerform(iterations: 2) { _ in
                do {
                    let store = try SQLiteStore.openOrCreate(
                        at: path, layout: layout, options: options()
                    ) { try SQLiteStore.open(at: path) }
                    let uuid = store.identity.uuid
                    try store.close()
                    results.withLock { $0.append(uuid) }
                } catch {
                    results.withLock { $0.append("\(error)") }
                }
            }
            let found = results.withLock { $0 }
            // Seen once, on a loaded machine: the thread that opens the new store cannot decrypt a page.
            withKnownIssue(isIntermittent: true) {
                #expect(found.count == 2 && Set(found).count == 1, "\(found)")
            } when: {
                found.contains { $0.contains("a page cannot be decrypted") }
            }
            let store = try SQLiteStore.open(at: path)
            #expect(try count(store) == 0)
            try store.close()
        }
    }

    @MainActor @Test(arguments: [SQLiteStoreOptions.Journal.writeAheadLog, .rollback])
    func compactedStoreIsSealed(_ journal: SQLiteStoreOptions.Journal) throws {
        func size() throws -> Int64 { try #require(try FileSystem.information(at: path)).size }
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options(.complete, journal))
        try add((0..<1000).map(String.init), to: store)
        let request = FetchRequest(
            "Author", predicate: try QueryPredicate(format: "NOT name ENDSWITH '7'"))
        _ = try store.delete(BatchDeleteRequest(fetchRequest: request))
        try store.compact()
        try requireNoCanary()
        let compact = try size()
        #expect(try store.spaceUse()?.free == 0)
        try store.close()
        try requireNoCanary()
        #expect(try size() == compact)
        let reopened = try SQLiteStore.open(at: path, options: options(nil, journal))
        #expect(try count(reopened) == 100)
        #expect(try reopened.integrityProblems() == [])
        try reopened.close()
    }

    @MainActor @Test(arguments: [SQLiteStoreOptions.Journal.writeAheadLog, .rollback])
    func aStoreIsReadAndWrittenWhileItsDomainIsUnlocked(
        _ journal: SQLiteStoreOptions.Journal
    ) async throws {
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options(.complete, journal))
        try add((0..<500).map(String.init), to: store)
        try requireNoCanary()
        #expect(try count(store) == 500)
        try store.close()
        try requireNoCanary()
        #expect(try SQLiteStore.fileProtection(at: path) == .complete)
        // What it has is enough to open it.
        let again = try SQLiteStore.open(at: path)
        #expect(try count(again) == 500)
        await domain.lock(after: .zero)
        #expect(code { try count(again) } == .protectedDataUnavailable)
        #expect(code { try add(["more"], to: again) } == .protectedDataUnavailable)
        #expect(code { try SQLiteStore.open(at: path) } == .protectedDataUnavailable)
        #expect(code { try SQLiteStore.metadata(at: path) } == .protectedDataUnavailable)
        #expect(try SQLiteStore.fileProtection(at: path) == .complete)
        try? again.close()
        try await domain.unlock(keyFile: folder.path("key"))
        let unlocked = try SQLiteStore.open(at: path)
        #expect(try count(unlocked) == 500)
        try unlocked.close()
    }

    /// How many descriptors of this process the log is open by. (SQLite keeps some of the database until nobody locks it.)
    private var openCount: Int {
        get throws {
            let descriptors = "/proc/self/fd"
            return try FileManager.default.contentsOfDirectory(atPath: descriptors).count {
                (try? FileManager.default.destinationOfSymbolicLink(
                    atPath: "\(descriptors)/\($0)")) == path + "-wal"
            }
        }
    }

    @MainActor @Test(arguments: [FileProtection.complete, .completeUnlessOpen])
    func lockingReleasesWhatIsCachedOfClassComplete(_ protection: FileProtection) async throws {
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options(protection))
        try add((0..<50).map(String.init), to: store)
        let coordinator = PersistentStoreCoordinator(store: store)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let author = try #require(try context.fetch(FetchRequest("Author")).first)
        context.refresh(author, mergeChanges: false)
        _ = author["name"]
        let (before, rows) = (try openCount, coordinator.rowCache.count)
        #expect(before > 1 && rows > 0)
        await domain.lock(after: .zero)
        #expect(coordinator.rowCache.count == (protection == .complete ? 0 : rows))
        #expect(try openCount == (protection == .complete ? 1 : before))
        try await domain.unlock(keyFile: folder.path("key"))
        context.refresh(author, mergeChanges: false)
        #expect("\(author["name", as: AttributeValue.self])".contains(Self.canary))
        try coordinator.close()
    }

    /// Values that cannot be read cannot be compared, nor restored by undo.
    @MainActor @Test func aFaultCannotBeChangedWhileItsDomainIsLocked() async throws {
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options(.complete))
        try add(["a"], to: store)
        let coordinator = PersistentStoreCoordinator(store: store)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let author = try #require(try context.fetch(FetchRequest("Author")).first)
        let name = author["name"] as? String
        context.refresh(author, mergeChanges: false)
        await domain.lock(after: .zero)
        author["name"] = "b"
        #expect(context.lastFaultError?.code == .protectedDataUnavailable)
        #expect(code { try author.setValue("b", forKey: "name") } == .protectedDataUnavailable)
        #expect(code { try author.setValue([], forKey: "books") } == .protectedDataUnavailable)
        #expect(!context.hasChanges && !author.hasChanges)
        try await domain.unlock(keyFile: folder.path("key"))
        try context.save()
        #expect(author["name"] as? String == name)
        author["name"] = "b"
        try context.save()
        try coordinator.close()
    }

    /// The other end of a relationship, too, is changed only if it can be read, and else stays a fault.
    @MainActor @Test func theOtherEndStaysAFaultWhileItsDomainIsLocked() async throws {
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options(.complete))
        let coordinator = PersistentStoreCoordinator(store: store)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        func new(_ entity: String, _ key: String) throws -> ManagedObject {
            let object = try context.insertObject(entityName: entity)
            object[key] = "a"
            return object
        }
        let (book, other) = (try new("Book", "title"), try new("Book", "title"))
        let (author, second) = (try new("Author", "name"), try new("Author", "name"))
        let (cover, spare) = (
            try context.insertObject(entityName: "Cover"),
            try context.insertObject(entityName: "Cover")
        )
        book["author"] = author
        other["author"] = author
        book["cover"] = cover
        try context.save()
        for fault in [author, second, cover, other] { context.refresh(fault, mergeChanges: false) }
        await domain.lock(after: .zero)
        // They have been tried, and could not be read.
        for fault in [author, second, cover, other] { _ = fault.value(at: 0) }

        func isRefused(_ body: () throws -> Void) -> Bool {
            code(body) == .protectedDataUnavailable
        }
        #expect(isRefused { try book.setValue(nil, forKey: "cover") })
        #expect(isRefused { try book.setValue(spare, forKey: "cover") })
        #expect(isRefused { try book.setValue(second, forKey: "author") })
        #expect(isRefused { try spare.setValue(other, forKey: "book") })
        #expect(!context.hasChanges && book.object("cover") === cover)
        // What is left to a fault are the differences of a to-many relationship.
        book["author"] = nil
        #expect(book.hasChanges)
        #expect(author.isFault)

        try await domain.unlock(keyFile: folder.path("key"))
        #expect(author["name"] as? String == "a")
        #expect(author.objects("books") == [other])
        book["cover"] = spare
        #expect(cover.object("book") == nil && spare.object("book") === book)
        book["author"] = second
        try context.save()
        #expect(second.objects("books") == [book])
        try coordinator.close()
    }

    @Test func aKeyFileOfItsOwnOpensAStore() async throws {
        var options = SQLiteStoreOptions()
        options.fileProtection = .complete
        options.protectionSlots = [
            NewSlot(.keyFile(Data(repeating: 7, count: 32)))
        ]
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options)
        let domain = try #require(store.protection?.domain)
        try store.close()
        await domain.lock(after: .zero)
        #expect(code { try SQLiteStore.open(at: path) } == .protectedDataUnavailable)
        let same = try ProtectionDomain.domain(of: path + ".keybag")
        try await same.unlock(keyFile: folder.path("key"))
        try SQLiteStore.open(at: path).close()
    }

    @Test func nothingIsMadeWithLessProtectionThanWasAskedFor() throws {
        var options = SQLiteStoreOptions()
        options.fileProtection = .complete
        #expect(
            code {
                try SQLiteStore.create(at: path, model: FixtureModels.library, options: options)
            }
                == .protectionUnavailable)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
                == ["key", "me.keybag"])
        try SQLiteStore.create(at: path, model: FixtureModels.library).close()
        #expect(try SQLiteStore.fileProtection(at: path) == .none)
        #expect(code { try SQLiteStore.open(at: path, options: options) } == .protectionUnavailable)
        #expect(
            code {
                try SQLiteStore.create(
                    at: "/dev/null/protected", model: FixtureModels.library, options: options)
            } == .protectionUnavailable)
    }

    @MainActor @Test func copiesAreSealedAndOpenWithTheSameKeys() async throws {
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options())
        try add(["one", "two"], to: store)
        let copy = folder.path("copy.sqlite")
        try store.writeDurableCopy(to: copy)
        try store.close()
        try requireNoCanary()
        let opened = try SQLiteStore.open(at: copy)
        #expect(try count(opened) == 2)
        try opened.close()
        try SQLiteStore.replace(at: path, withStoreAt: copy)
        #expect(try count(SQLiteStore.open(at: path)) == 2)
        try requireNoCanary()
    }

    @MainActor @Test func readersLeaveNoTraceAlsoWhereALogIsUnmerged() throws {
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options())
        try add(["one"], to: store)
        let killed = folder.path("killed.sqlite")
        for suffix in ["", "-wal", ".keybag"] {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: killed + suffix)
        }
        try store.close()
        let before = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let reader = try SQLiteStore.open(at: killed, options: options)
        #expect(try count(reader) == 1)
        try reader.close()
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == before)
    }

    @MainActor @Test func checkAndRepairWorkWhileUnlocked() throws {
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options())
        try add(["one"], to: store)
        try store.executeOnWriter("UPDATE Z_PRIMARYKEY SET Z_MAX = 0")
        try store.close()
        let report = try StoreRepair.repair(path)
        #expect(report.after.problems.isEmpty)
        #expect(!report.actions.isEmpty)
        try requireNoCanary()
        #expect(try count(SQLiteStore.open(at: path)) == 1)
    }

    @MainActor @Test func destroyRemovesTheKeybagToo() throws {
        try SQLiteStore.create(at: path, model: FixtureModels.library, options: options()).close()
        try SQLiteStore.destroy(at: path)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
                == ["key", "me.keybag"])
    }
}

/// XML and binary stores that are protected.
struct ProtectedAtomicStoreTests {
    private let folder: TemporaryFolder
    private let domain: ProtectionDomain
    private static let canary = "CANARY-77aa"

    init() throws {
        folder = try TemporaryFolder()
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
    }

    private func code(_ body: () throws -> some Any) -> QuireError.Code? {
        do { _ = try body() } catch { return (error as? QuireError)?.code }
        return nil
    }

    @MainActor @Test(arguments: [StoreType.xml, .binary, .sqlite])
    func aValueWithoutExternalStorageIsSealedWhileItIsSpooled(_ type: StoreType) async throws {
        var description = PersistentStoreDescription(path: folder.path("films"), type: type)
        description.fileProtection = .complete
        description.protectionDomain = domain
        let coordinator = try PersistentStoreCoordinator(
            managedObjectModel: ManagedObjectModel {
                Entity("Film") { Attribute("video", .binary) }
            })
        try coordinator.addPersistentStore(description)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let film = try context.insertObject(entityName: "Film")
        let video = Data(Self.canary.utf8) + Data(count: 300_000)
        try video.write(to: URL(fileURLWithPath: folder.path("video")))
        let value = try await coordinator.makeExternalData(
            contentsOf: folder.path("video"), forEntity: "Film")
        #expect(value.url == nil)
        let spooled = try Data(contentsOf: URL(fileURLWithPath: try #require(value.path)))
        #expect(spooled.range(of: Data(Self.canary.utf8)) == nil)
        try film.setExternalData(value, forKey: "video")
        try context.save()
        #expect(film["video", as: Data.self] == video)
        try coordinator.close()
    }

    @MainActor @Test(arguments: [StoreType.xml, .binary, .sqlite])
    func aStoreIsNotReplacedByOneWithOtherKeys(_ type: StoreType) throws {
        func make(_ name: String, _ protection: FileProtection) throws -> StoreFile {
            var description = PersistentStoreDescription(path: folder.path(name), type: type)
            description.fileProtection = protection
            description.protectionDomain = domain
            let coordinator = try PersistentStoreCoordinator(
                managedObjectModel: FixtureModels.library)
            try coordinator.addPersistentStore(description)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            try context.insertObject(entityName: "Author")["name"] = Self.canary
            try context.save()
            try coordinator.close()
            return try StoreFile(at: folder.path(name))
        }
        let (plain, sealed) = try (make("plain", .none), make("sealed", .complete))
        let before = try Data(contentsOf: URL(fileURLWithPath: plain.path))
        #expect(code { try plain.replace(with: sealed) } == .protectionUnavailable)
        #expect(try Data(contentsOf: URL(fileURLWithPath: plain.path)) == before)
        #expect(
            code { try sealed.replace(with: make("other", .complete)) } == .protectionUnavailable)
    }

    /// A cell of the table of ``FileProtection``, for a kind of store.
    struct Cell: CustomTestStringConvertible {
        enum State: CaseIterable { case beforeFirstUnlock, unlocked, lockedAgain }

        var type: StoreType
        var protection: FileProtection
        var state: State

        var testDescription: String { "\(type.rawValue), \(protection.rawValue), \(state)" }

        static let all = [StoreType.sqlite, .xml, .binary].flatMap { type in
            [
                FileProtection.none, .complete, .completeUnlessOpen,
                .completeUntilFirstUserAuthentication,
            ].flatMap { protection in
                State.allCases.map { Cell(type: type, protection: protection, state: $0) }
            }
        }
    }

    /// Whether stores are created, opened, and used while open.
    @MainActor @Test(arguments: Cell.all)
    func whatCanBeDoneIsAsTheTableOfClassesSays(_ cell: Cell) async throws {
        let (none, untilFirst) = (
            FileProtection.none, FileProtection.completeUntilFirstUserAuthentication
        )
        let isOpenable =
            cell.protection == none || cell.state == .unlocked
            || (cell.state == .lockedAgain && cell.protection == untilFirst)
        let goesOn = isOpenable || cell.protection == .completeUnlessOpen
        func open(
            _ name: String, _ domain: ProtectionDomain
        ) throws -> (coordinator: PersistentStoreCoordinator, context: ManagedObjectContext) {
            var description = PersistentStoreDescription(path: folder.path(name), type: cell.type)
            description.fileProtection = cell.protection
            description.protectionDomain = domain
            let coordinator = try PersistentStoreCoordinator(
                managedObjectModel: FixtureModels.library)
            try coordinator.addPersistentStore(description)
            return (coordinator, .mainQueue(coordinator: coordinator))
        }
        func use(_ context: ManagedObjectContext) throws {
            try context.insertObject(entityName: "Author")["name"] = Self.canary
            try context.save()
            context.reset()
            #expect(
                try context.fetch(FetchRequest("Author")).first?["name", as: AttributeValue.self]
                    == .string(Self.canary))
        }
        let (kept, context) = try open("kept", domain)
        try use(context)
        try open("other", domain).coordinator.close()
        var person = domain
        switch cell.state {
        case .unlocked: break
        case .lockedAgain: await domain.lock(after: .zero)
        case .beforeFirstUnlock:
            try FileSystem.copyFile(folder.path("me.keybag"), to: folder.path("copy.keybag"))
            person = try ProtectionDomain.domain(of: folder.path("copy.keybag"))
            #expect(!person.wasUnlockedOnce)
        }
        let unavailable = QuireError.Code.protectedDataUnavailable
        let creating = code {
            let (coordinator, context) = try open("new", person)
            try use(context)
            try coordinator.close()
        }
        #expect(creating == (goesOn ? nil : unavailable))
        if cell.protection != none,
            let bytes = FileManager.default.contents(atPath: folder.path("new"))
        {
            #expect(bytes.range(of: Data(Self.canary.utf8)) == nil)
        }
        if cell.state != .beforeFirstUnlock {
            let opening = code { try open("other", person).coordinator.close() }
            #expect(opening == (isOpenable ? nil : unavailable))
            #expect(code { try use(context) } == (goesOn ? nil : unavailable))
        }
        try kept.close()
    }

    @MainActor @Test(arguments: [StoreType.xml, .binary])
    func theFileIsSealedAsAWhole(_ type: StoreType) async throws {
        let path = folder.path("authors.store")
        var description = PersistentStoreDescription(path: path, type: type)
        description.fileProtection = .complete
        description.protectionDomain = domain
        func open() throws -> (PersistentStoreCoordinator, ManagedObjectContext) {
            let coordinator = try PersistentStoreCoordinator(
                managedObjectModel: FixtureModels.library)
            try coordinator.addPersistentStore(description)
            return (coordinator, .mainQueue(coordinator: coordinator))
        }
        let (coordinator, context) = try open()
        for name in ["one", "two"] {
            try context.insertObject(entityName: "Author")["name"] = Self.canary + name
            try context.save()
            let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            #expect(bytes.range(of: Data(Self.canary.utf8)) == nil)
        }
        try coordinator.close()
        #expect(try StoreFile(at: path).type == type)
        // A copy of another type is protected as well.
        let copy = folder.path("copy.sqlite")
        try StoreFile(at: path).convert(to: copy, type: .sqlite)
        #expect(try SQLiteStore.fileProtection(at: copy) == .complete)
        #expect(try SQLiteStore.open(at: copy).count(matching: FetchSpecification("Author")) == 2)
        let (held, reader) = try open()
        #expect(try reader.fetch(FetchRequest("Author")).count == 2)
        await domain.lock(after: .zero)
        #expect(code(open) == .protectedDataUnavailable)
        // Its objects are in memory.
        #expect(code { try reader.fetch(FetchRequest("Author")) } == .protectedDataUnavailable)
        try await domain.unlock(keyFile: folder.path("key"))
        #expect(try reader.fetch(FetchRequest("Author")).count == 2)
        try held.close()
        let (again, other) = try open()
        #expect(try other.fetch(FetchRequest("Author")).count == 2)
        try again.close()
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: URL(fileURLWithPath: path))
        #expect(code(open) == .invalidFormat)
        description.type = .inMemory
        #expect(code(open) == .protectionUnavailable)
    }
}
