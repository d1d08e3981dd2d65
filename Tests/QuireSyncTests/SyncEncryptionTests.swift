import Crypto
import Foundation
import Quire
import QuireProtection
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// A shared document whose files are encrypted: who cannot read them, and what damage does.
@MainActor @Suite struct SyncEncryptionTests {
    private static let password = "correct horse"

    private func begin(_ count: Int = 2) async throws -> SyncSites {
        let sites = try SyncSites(count, model: SyncTests.model)
        try await sites.begin(password: Self.password)
        return sites
    }

    private func code(_ body: () async throws -> some Any) async -> QuireError.Code? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? QuireError)?.code
        }
    }

    private func insert(_ name: String, on site: SyncSite) throws {
        try site.context.insertObject(entityName: "Author")["name"] = name
        try site.context.save()
    }

    private func authors(on site: SyncSite) throws -> [String] {
        try site.objects("Author").compactMap { $0["name", as: String.self] }.sorted()
    }

    /// The segments that a machine's folder has, in clear, in order, and the files that carry them.
    private func segments(
        _ sites: SyncSites, on machine: Int
    ) async throws -> [(name: String, place: String)] {
        let cipher = try #require(try await sites.sites[machine].sync.replica.cipher())
        let transport = EncryptedTransport(
            carrier: CarriedTransport(folder: sites.folder, machine: machine), cipher: cipher)
        return try await transport.fileNames(in: SyncSegment.folder).sorted().map {
            let file = try #require(SyncSegment.folder.entry($0))
            return (file.path, try cipher.encryptedFile(file).path)
        }
    }

    // MARK: - Use

    @Test func thePasswordIsNeededOnceOnEachMachine() async throws {
        var sites = try await begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        try insert("Austen", on: first)
        try first.reopen()
        try second.reopen()
        try await sites.exchange()
        #expect(try authors(on: second) == ["Austen"])
        #expect(try first.rows() == second.rows())
        #expect(try await second.sync.status()?.isEncrypted == true)
        // Also not to join again.
        try await second.sync.join()
        let third = try sites.addSite()
        let transport = CarriedTransport(folder: sites.folder, machine: third.machine)
        #expect(try await SyncContainer.isEncrypted(in: transport))
        let model = try await SyncContainer.model(in: transport, password: Self.password)
        #expect(model.entities.contains { $0.name == "Author" })
        try await third.sync.join(password: Self.password)
        try await sites.exchange()
        #expect(try authors(on: third) == ["Austen"])
        // Nothing in clear is left behind, and nothing of the key.
        try await third.sync.removeSyncMetadata()
        #expect(try await third.sync.replica.cipher() == nil)
        #expect(await code { try await third.sync.join() } == .protectedDataUnavailable)
        try sites.close()
    }

    @Test func nothingInTheFolderCanBeRead() async throws {
        let sites = try SyncSites(2, model: SyncTests.model)
        let first = sites.sites[0]
        let cover = Data("a cover that can be seen".utf8 + [UInt8](repeating: 7, count: 300_000))
        let book = try first.context.insertObject(entityName: "Book")
        book["title"] = "Northanger Abbey"
        book["cover"] = cover
        try insert("Austen", on: first)
        try await sites.begin(password: Self.password)
        try insert("George Eliot", on: sites.sites[1])
        try await sites.exchange()
        var peers: [SyncIdentifier] = []
        for site in sites.sites { peers.append(try #require(try await site.sync.status()?.peer)) }
        let digest = Data(SHA256.hash(data: cover))
        // None is so short that random bytes may have it.
        let secrets =
            [
                "Library", "Northanger", "Austen", "George Eliot", "Author", "chapter", "title",
                "QUIRESYN", "a cover", await first.sync.replica.modelDigest,
            ].map { Data($0.utf8) } + peers.flatMap { [$0.bytes, Data($0.description.utf8)] }
            + [digest, Data(digest.hexadecimal.utf8), Data(repeating: 7, count: 16)]
        let files = sites.folder.files(on: 0)
        // The description, the model, two segments and the cover.
        #expect(files.count == 5)
        for (path, bytes) in files {
            #expect(
                path == "container.json" || path.wholeMatch(of: /[a-z2-7]{26}\/[a-z2-7]+/) != nil)
            for secret in secrets {
                #expect(bytes.range(of: secret) == nil, "\(path)")
            }
        }
        #expect(try sites.sites[1].objects("Book").first?["cover"] as? Data == cover)
        try sites.close()
    }

    /// Snapshots, and their parts, are files like others.
    @Test func snapshotsAreEncrypted() async throws {
        var sites = try SyncSites(2, model: SyncTests.model, segmentsBeforeSnapshot: [4])
        try await sites.begin(password: Self.password)
        for number in 0..<10 {
            try insert("Author \(number)", on: sites.sites[0])
            try await sites.sites[0].sync.synchronize()
        }
        #expect(try await segments(sites, on: 0).count <= 5)
        try await sites.addSite().sync.join(password: Self.password)
        try await sites.exchange()
        #expect(try authors(on: sites.sites[2]).count == 10)
        #expect(try sites.sites[2].rows() == sites.sites[0].rows())
        try sites.close()
    }

    @Test(.timeLimit(.minutes(10))) func storesAreSynchronizedByThemselves() async throws {
        let folder = try TemporaryFolder()
        try FileSystem.makeFolder(folder.path("shared"))
        var options = SyncOptions(contentName: "Library", folder: folder.path("shared"))
        options.password = Self.password
        var coordinators: [PersistentStoreCoordinator] = []
        for number in 1...2 {
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
            var description = PersistentStoreDescription(path: folder.path("\(number).sqlite"))
            description.syncOptions = options
            try coordinator.addPersistentStore(description)
            coordinators.append(coordinator)
        }
        let first = ManagedObjectContext.mainQueue(coordinator: coordinators[0])
        let second = ManagedObjectContext.mainQueue(coordinator: coordinators[1])
        let (imports, consumer) = AsyncStream<Void>.makeStream()
        nonisolated(unsafe) let token = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.didImportChangesNotification,
            object: coordinators[1], queue: nil
        ) { _ in consumer.yield() }
        defer { NotificationCenter.default.removeObserver(token) }
        try first.insertObject(entityName: "Author")["name"] = "Austen"
        try first.save()
        for await _ in imports where try second.count(for: FetchRequest("Author")) == 1 { break }
        let transport = try FolderTransport(folder: folder.path("shared/Library.quiresync"))
        #expect(try await SyncContainer.isEncrypted(in: transport))
        for coordinator in coordinators { try coordinator.close() }
    }

    /// A round does not go on in clear because the store leaves an encrypted document meanwhile.
    @Test func leavingWaitsForTheRound() async throws {
        let folder = try TemporaryFolder()
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
        var description = PersistentStoreDescription(path: folder.path("1.sqlite"))
        description.tracksHistory = true
        try coordinator.addPersistentStore(description)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let carrier = HeldTransport(
            carrier: try FolderTransport(folder: folder.path("shared"), creates: true))
        let sync = try SyncContainer(
            coordinator: coordinator, store: SyncContainer.store(of: coordinator),
            transport: carrier, passwordCost: .least)
        try await sync.create(named: "Library", password: Self.password)
        // The large value is sent first.
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Northanger Abbey"
        book["cover"] = Data(repeating: 7, count: 300_000)
        try context.save()
        await carrier.hold()
        let round = Task { try await sync.synchronize() }
        await carrier.reached()
        let leaving = Task { try await sync.removeSyncMetadata() }
        for _ in 0..<100 { await Task.yield() }
        await carrier.goOn()
        #expect(try await round.value.sentCount == 1)
        try await leaving.value
        #expect(try await sync.status() == nil)
        for entry in try FileSystem.contentsOfTree(folder.path("shared")) {
            #expect(entry.path.hasSuffix("container.json") || !entry.path.contains("."))
        }
        try coordinator.close()
    }

    // MARK: - Protected stores

    @Test func protectedStoreIsNotSentToAFolderInClear() async throws {
        let folder = try TemporaryFolder()
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        let domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
        func coordinator(_ name: String) throws -> PersistentStoreCoordinator {
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
            var description = PersistentStoreDescription(path: folder.path(name))
            description.tracksHistory = true
            description.fileProtection = .complete
            description.protectionDomain = domain
            try coordinator.addPersistentStore(description)
            return coordinator
        }
        func transport(_ name: String) throws -> FolderTransport {
            try FolderTransport(folder: folder.path(name), creates: true)
        }
        let first = try coordinator("1.sqlite")
        let refusing = try SyncContainer(coordinator: first, transport: transport("clear"))
        #expect(
            await code { try await refusing.create(named: "Library") } == .protectionUnavailable)
        #expect(try FileSystem.names(in: folder.path("clear")).isEmpty)
        let allowing = try SyncContainer(
            coordinator: first, transport: transport("clear"), allowsUnencryptedFolder: true)
        try await allowing.create(named: "Library")
        try await allowing.synchronize()
        #expect(await code { try await refusing.synchronize() } == .protectionUnavailable)
        let second = try coordinator("2.sqlite")
        let joining = try SyncContainer(coordinator: second, transport: transport("clear"))
        #expect(await code { try await joining.join() } == .protectionUnavailable)
        #expect(try await joining.status() == nil)
        let encrypted = try SyncContainer(
            coordinator: second, store: SyncContainer.store(of: second),
            transport: transport("encrypted"), passwordCost: .least)
        try await encrypted.create(named: "Library", password: Self.password)
        try await encrypted.synchronize()
        try first.close()
        try second.close()
    }

    // MARK: - Passwords

    @Test func onlyThePasswordOpensTheDocument() async throws {
        var sites = try await begin(1)
        let second = try sites.addSite()
        let transport = CarriedTransport(folder: sites.folder, machine: 1)
        for (password, expected) in [
            ("wrong", QuireError.Code.wrongKey), ("", .wrongKey), (nil, .protectedDataUnavailable),
        ] {
            #expect(await code { try await second.sync.join(password: password) } == expected)
            #expect(
                await code { try await SyncContainer.model(in: transport, password: password) }
                    == expected)
        }
        #expect(try await second.sync.status() == nil)
        #expect(await code { try await second.sync.synchronize() } == .invalidState)
        try sites.close()
    }

    @Test func aWrongPasswordIsTriedOnceInTheBackground() async throws {
        let folder = try TemporaryFolder()
        try FileSystem.makeFolder(folder.path("shared"))
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
        var description = PersistentStoreDescription(path: folder.path("1.sqlite"))
        description.tracksHistory = true
        try coordinator.addPersistentStore(description)
        let store = try SyncContainer.store(of: coordinator)
        let transport = try FolderTransport(
            folder: folder.path("shared/Library.quiresync"), creates: true)
        let (encrypted, _) = try SyncContainerDescription.encrypted(
            container: SyncIdentifier(), .init(name: "Library", model: ""),
            password: Self.password, cost: .least)
        try await transport.create(SyncContainer.descriptionFile, encrypted.encoded())
        for (password, isRefused) in [(nil, false), ("wrong", true), (Self.password, false)] {
            let options = SyncOptions(
                contentName: "Library", folder: folder.path("shared"), password: password)
            let session = SyncSession(options, store: store, coordinator: coordinator)
            await session.round()
            #expect(session.isStopped == isRefused)
            #expect((session.container != nil) == (password == Self.password))
        }
        try coordinator.close()
    }

    /// That it was removed is said with the key only.
    @Test func aCarrierCannotMakeAReplicaLeave() async throws {
        let sites = try await begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let container = try #require(try await second.sync.status()?.container)
        let description = sites.folder.files(on: 1)["container.json"]
        sites.folder.damage("container.json", on: 1, nil)
        sites.folder.damage("removed/\(container)", on: 1, Data())
        #expect(await code { try await second.sync.synchronize() } == .storeUnavailable)
        #expect(try await second.sync.status() != nil)
        sites.folder.damage("removed/\(container)", on: 1, nil)
        sites.folder.damage("container.json", on: 1, description)
        try await second.sync.synchronize()

        try await first.sync.removeSyncedContent()
        #expect(try await first.sync.status() == nil)
        sites.folder.carryAll()
        #expect(await code { try await second.sync.synchronize() } == .syncedContentRemoved)
        #expect(try await second.sync.status() == nil)
        #expect(
            await code {
                try await first.sync.joinOrCreate(named: "Library", password: Self.password)
            } == .syncedContentRemoved)
        try sites.close()
    }

    @Test func aDocumentInClearIsNotJoinedWithAPassword() async throws {
        var sites = try SyncSites(1, model: SyncTests.model)
        #expect(
            await code { try await sites.sites[0].sync.create(named: "L", password: "") }
                == .invalidValue)
        #expect(sites.folder.files(on: 0).isEmpty)
        try await sites.begin()
        let second = try sites.addSite()
        #expect(
            await code { try await second.sync.join(password: Self.password) }
                == .protectionUnavailable)
        #expect(try await second.sync.status() == nil)
        try await second.sync.join()
        // A replica of it does not become one of an encrypted document by a password.
        #expect(
            await code {
                try await second.sync.joinOrCreate(named: "Library", password: Self.password)
            } == .protectionUnavailable)
        #expect(try await second.sync.status()?.isEncrypted == false)
        try sites.close()
    }

    /// Programs that know format 1 only ask for these members, and then for the format.
    @Test func theDescriptionIsOneOfALaterFormatForOlderPrograms() async throws {
        let sites = try await begin(1)
        let json = try #require(sites.folder.files(on: 0)["container.json"])
        let members = try #require(
            try JSONSerialization.jsonObject(with: json) as? [String: Any])
        #expect(members["format"] as? Int == 2)
        #expect(members["name"] as? String == "")
        #expect(members["model"] as? String == "")
        #expect(
            Set(members.keys) == ["container", "format", "keybag", "model", "name", "sealed"])
        try sites.close()
    }

    // MARK: - Damage

    /// One bit is another one, everywhere in the file. Machines that have joined go on.
    @Test func aDamagedDescriptionStopsNoReplica() async throws {
        var sites = try await begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let third = try sites.addSite()
        let whole = try #require(sites.folder.files(on: 1)["container.json"])
        var names: [String] = []
        let format = try #require(whole.range(of: Data("\"format\" : 2".utf8))).upperBound - 1
        for index in [format] + Array(stride(from: 0, to: whole.count, by: 13)) {
            var damaged = whole
            damaged[index] ^= 1 << (index % 7)
            names.append("Author \(index)")
            try insert(names[names.count - 1], on: first)
            try await first.sync.synchronize()
            sites.folder.carryAll()
            sites.folder.damage("container.json", on: 1, damaged)
            sites.folder.damage("container.json", on: 2, damaged)
            let result = try await second.sync.synchronize()
            let problems = result.problems
            #expect(result.receivedCount >= 1)
            // Some bits of base 64 do not count.
            #expect(problems.map(\.fileName) == ["container.json"] || problems.isEmpty)
            #expect(problems.allSatisfy { $0.error.code == .invalidFormat })
            try await second.sync.joinOrCreate(named: "Library", password: nil)
            #expect(try await second.sync.replica.cipher() != nil)
            if index % 3 == 0 {
                let found = await code { try await third.sync.join(password: Self.password) }
                #expect(
                    found == nil
                        || [.invalidFormat, .wrongKey, .unsupported, .protectionUnavailable]
                            .contains(found)
                )
                if found == nil { try await third.sync.removeSyncMetadata() }
                #expect(try await third.sync.status() == nil)
            }
            sites.folder.damage("container.json", on: 1, whole)
            sites.folder.damage("container.json", on: 2, whole)
        }
        try await third.sync.join(password: Self.password)
        try await sites.exchange()
        for site in sites.sites { #expect(try authors(on: site) == names.sorted()) }
        try sites.close()
    }

    /// In the place of the description is one of a document that is not encrypted, as somebody could write it who has no key.
    @Test func nothingIsSentInClearWhateverTheDescriptionSays() async throws {
        let sites = try await begin()
        let second = sites.sites[1]
        let container = try #require(try await second.sync.status()?.container)
        for id in [container, SyncIdentifier()] {
            let plain = SyncContainerDescription(
                container: id, name: "Library", model: await second.sync.replica.modelDigest)
            sites.folder.damage("container.json", on: 1, try plain.encoded())
            try insert("Austen", on: second)
            let before = sites.folder.files(on: 1).count
            if id == container {
                let result = try await second.sync.synchronize()
                #expect(result.problems.map(\.error.code) == [.invalidFormat])
                #expect(result.sentCount == 1)
                #expect(sites.folder.files(on: 1).count == before + 1)
            } else {
                #expect(
                    await code { try await second.sync.synchronize() } == .syncedContentReplaced)
                #expect(sites.folder.files(on: 1).count == before)
            }
            for (_, bytes) in sites.folder.files(on: 1) {
                #expect(bytes.range(of: Data("Austen".utf8)) == nil)
            }
        }
        try sites.close()
    }

    @Test func aReplicaInClearDoesNotGoOnWithAnEncryptedDocument() async throws {
        let sites = try SyncSites(1, model: SyncTests.model)
        try await sites.begin()
        let site = sites.sites[0]
        let container = try #require(try await site.sync.status()?.container)
        let (encrypted, _) = try SyncContainerDescription.encrypted(
            container: container, .init(name: "Library", model: ""), password: "any", cost: .least)
        sites.folder.damage("container.json", on: 0, try encrypted.encoded())
        #expect(await code { try await site.sync.synchronize() } == .protectedDataUnavailable)
        #expect(
            await code { try await site.sync.join(password: "any") } == .protectedDataUnavailable)
        try sites.close()
    }

    @Test func damagedFilesStopNothingElse() async throws {
        let sites = try await begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        for name in ["one", "two", "three"] {
            try insert(name, on: first)
            try await first.sync.synchronize()
        }
        sites.folder.carryAll()
        let segments = try await segments(sites, on: 1)
        #expect(segments.count == 3)
        let files = sites.folder.files(on: 1)
        let (one, two) = (
            try #require(files[segments[0].place]), try #require(files[segments[1].place])
        )
        var flipped = two
        flipped[two.count / 2] ^= 1
        var otherVersion = two
        otherVersion[0] ^= 2
        // A bit is another one, it is cut off, it is the first one by its name.
        for (bytes, expected) in [
            (flipped, QuireError.Code.invalidFormat), (two.dropLast(), .invalidFormat),
            (Data(), .invalidFormat), (one, .invalidFormat), (otherVersion, .unsupported),
        ] {
            sites.folder.damage(segments[1].place, on: 1, bytes)
            let problems = try await second.sync.synchronize().problems
            #expect(problems.map(\.fileName) == [segments[1].name])
            #expect(problems.map(\.error.code) == [expected])
            // The file can be found in the folder.
            #expect(problems.allSatisfy { $0.error.message.contains(segments[1].place) })
            #expect(try authors(on: second) == ["one", "three"])
        }
        // Its name is another one: it is not there.
        sites.folder.damage(segments[1].place, on: 1, nil)
        sites.folder.damage(segments[1].place + "a", on: 1, two)
        #expect(try await second.sync.synchronize().problems.isEmpty)
        #expect(try authors(on: second) == ["one", "three"])
        sites.folder.damage(segments[1].place + "a", on: 1, nil)
        sites.folder.damage(segments[1].place, on: 1, two)
        #expect(try await second.sync.synchronize().problems.isEmpty)
        #expect(try authors(on: second) == ["one", "three", "two"])
        #expect(try first.rows() == second.rows())
        try sites.close()
    }

    @Test func aDamagedLargeValueArrivesWhenItIsWhole() async throws {
        let sites = try await begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let cover = Data(repeating: 7, count: 300_000)
        let book = try first.context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        book["cover"] = cover
        try first.context.save()
        try await first.sync.synchronize()
        sites.folder.carryAll()
        let (place, whole) = try #require(
            sites.folder.files(on: 1).first { $0.value.count > cover.count })
        var damaged = whole
        damaged[100_000] ^= 16
        sites.folder.damage(place, on: 1, damaged)
        let result = try await second.sync.synchronize()
        #expect(result.problems.allSatisfy { $0.error.code == .invalidFormat })
        #expect(!result.problems.isEmpty)
        #expect(result.missingFileCount == 1)
        let copy = try #require(try second.objects("Book").first)
        #expect(copy["title"] as? String == "Emma")
        sites.folder.damage(place, on: 1, whole)
        #expect(try await second.sync.synchronize().missingFileCount == 0)
        #expect(copy["cover"] as? Data == cover)
        #expect(try first.rows() == second.rows())
        try sites.close()
    }

    /// All files of another encrypted document are copied into the folder: under their names, and in the place of own ones.
    @Test func filesOfAnotherDocumentAreNotMerged() async throws {
        let sites = try await begin()
        let others = try await begin(1)
        for (sites, name) in [(sites, "own"), (others, "other")] {
            try insert(name, on: sites.sites[0])
            try await sites.sites[0].sync.synchronize()
        }
        sites.folder.carryAll()
        let own = try #require(try await segments(sites, on: 1).first)
        let other = try #require(try await segments(others, on: 0).first)
        let otherFiles = others.folder.files(on: 0)
        for (path, bytes) in otherFiles where path != "container.json" {
            sites.folder.damage(path, on: 1, bytes)
        }
        let bytes = try #require(otherFiles[other.place])
        let folder = try #require(SyncFileName(own.place)).folder.path
        sites.folder.damage(
            "\(folder)/\(other.place.split(separator: "/")[1])", on: 1, bytes)
        let whole = try #require(sites.folder.files(on: 1)[own.place])
        sites.folder.damage(own.place, on: 1, bytes)
        let problems = try await sites.sites[1].sync.synchronize().problems
        #expect(problems.map(\.fileName) == [own.name])
        #expect(problems.map(\.error.code) == [.invalidFormat])
        sites.folder.damage(own.place, on: 1, whole)
        try await sites.sites[1].sync.synchronize()
        #expect(try authors(on: sites.sites[1]) == ["own"])
        // The other document's description is an error, before anything is sent.
        sites.folder.damage("container.json", on: 1, otherFiles["container.json"])
        #expect(
            await code { try await sites.sites[1].sync.synchronize() } == .syncedContentReplaced)
        #expect(
            await code { try await sites.sites[1].sync.join(password: Self.password) }
                == .invalidState)
        try sites.close()
        try others.close()
    }

    /// Two machines that both make the document end with the one that the carrier keeps.
    @Test func aDocumentThatWasReplacedIsJoinedByItsPassword() async throws {
        let sites = try SyncSites(2, model: SyncTests.model)
        for (number, site) in sites.sites.enumerated() {
            try insert("Author \(number)", on: site)
            try await site.sync.joinOrCreate(named: "Library", password: Self.password)
            try await site.sync.synchronize()
        }
        let kept = sites.folder.files(on: 0)["container.json"]
        sites.folder.damage("container.json", on: 1, kept)
        #expect(
            await code {
                try await sites.sites[1].sync.joinOrCreate(named: "Library", password: "wrong")
            } == .wrongKey)
        try await sites.sites[1].sync.joinOrCreate(named: "Library", password: Self.password)
        try await sites.exchange()
        for site in sites.sites { #expect(try authors(on: site) == ["Author 0", "Author 1"]) }
        #expect(try sites.sites[0].rows() == sites.sites[1].rows())
        try sites.close()
    }
}

/// A transport whose next call that creates a file can be held.
private actor HeldTransport: SyncTransport {
    private let carrier: FolderTransport
    private var holds = false
    private var held: CheckedContinuation<Void, Never>?
    private var waiting: CheckedContinuation<Void, Never>?

    init(carrier: FolderTransport) { self.carrier = carrier }

    func hold() { holds = true }

    /// Waits until a call is held.
    func reached() async {
        if held == nil { await withCheckedContinuation { waiting = $0 } }
    }

    func goOn() {
        holds = false
        held?.resume()
        held = nil
    }

    func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool {
        if holds {
            await withCheckedContinuation {
                held = $0
                waiting?.resume()
                waiting = nil
            }
        }
        return try await carrier.create(file, contents)
    }

    func fileNames(in folder: SyncFileName) async throws -> [String] {
        try await carrier.fileNames(in: folder)
    }

    func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data? {
        try await carrier.contents(of: file, maximumSize: maximumSize)
    }

    func remove(_ file: SyncFileName) async throws { try await carrier.remove(file) }

    nonisolated var changes: AsyncStream<Void> { carrier.changes }
}
