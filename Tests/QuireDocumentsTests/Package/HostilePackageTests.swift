import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments
@testable import QuireSQLite

/// What stands in the place of an entry of a package.
enum HostileKind: String, CaseIterable, Sendable {
    /// A symbolic link to what was there, which lies outside now: everything would work if it were followed.
    case linkToOriginal
    case linkToVictim, linkToFolder, linkToDevice, danglingLink, fifo, socket, device

    /// What errors call it.
    var name: String {
        switch self {
        case .linkToOriginal, .linkToVictim, .linkToFolder, .linkToDevice, .danglingLink:
            "a symbolic link"
        case .fifo: "a FIFO"
        case .socket: "a socket"
        case .device: "a device"
        }
    }
}

/// An entry of a package.
enum HostileEntry: String, CaseIterable, Sendable {
    case metadata = "DocumentMetadata.plist"
    case thumbnail = "Thumbnail.png"
    case lock = ".lock"
    case storeFolder = "StoreContent"
    case store = "StoreContent/persistentStore"
    case log = "StoreContent/persistentStore-wal"
    case logIndex = "StoreContent/persistentStore-shm"
    case journal = "StoreContent/persistentStore-journal"
    case support = "StoreContent/.persistentStore_SUPPORT"
    case externalData = "StoreContent/.persistentStore_SUPPORT/_EXTERNAL_DATA"
    case externalFile = "StoreContent/.persistentStore_SUPPORT/_EXTERNAL_DATA/*"
    case content = "AdditionalContent"
    case generation = "AdditionalContent/*"
    case contentFolder = "AdditionalContent/*/deep"
    case contentFile = "AdditionalContent/*/deep/b"
    case draftFiles = "DraftFiles"
    case versions = "Versions"
    case blocks = "Versions/Blocks"
    case pack = "Versions/Blocks/*"
    case version = "Versions/2*"
    case manifest = "Versions/2*/Manifest"
    case versionFiles = "Versions/2*/ExternalData"
    case versionFile = "Versions/2*/ExternalData/*"
    case versionContent = "Versions/2*/AdditionalContent"
    case versionContentFile = "Versions/2*/AdditionalContent/a"

    /// Whether a package with something else in its place is not opened.
    var preventsOpening: Bool {
        switch self {
        case .metadata, .thumbnail, .lock, .storeFolder, .store, .log, .logIndex, .journal,
            .support, .externalData, .content, .draftFiles, .versions, .blocks:
            true
        default: false
        }
    }
}

/// A package is input: nothing outside of it is read, created or changed through it, and nothing in it is waited for.
@Suite struct HostilePackageTests {
    let folder: TemporaryFolder
    static let secret = Data("what is outside is nobody's business".utf8)

    init() throws { folder = try TemporaryFolder() }

    private var outside: String { folder.path("outside") }

    /// A package that has everything. Tests copy it.
    @MainActor private static let original = Task { @MainActor in
        let folder = try TemporaryFolder()
        let path = folder.path("Original.quire")
        try await ManagedDocument.make(
            at: path, notes: ["first": -1, "picture": 200_000],
            files: ["a": Data([1]), "deep/b": Data([2])])
        let package = try DocumentPackage.open(at: path)
        try package.keepVersion()
        try FileSystem.writeNewFile(Data([0x89]), at: path + "/Thumbnail.png")
        try package.close()
        return folder
    }

    private func makePackage() async throws -> String {
        let path = folder.path("Original.quire")
        let original = try await Self.original.value
        try FileSystem.copyTree(original.path("Original.quire"), to: path)
        return path
    }

    /// The path of an entry, whose stars stand for the only name that fits.
    private func resolve(_ entry: HostileEntry, in package: String) throws -> String {
        try entry.rawValue.split(separator: "/").reduce(package) { folder, part in
            guard let star = part.firstIndex(of: "*") else {
                return FileSystem.path(folder, String(part))
            }
            let name = try FileSystem.names(in: folder).first { $0.hasPrefix(part[..<star]) }
            return FileSystem.path(folder, try #require(name))
        }
    }

    /// Puts something in the place of an entry.
    ///
    /// - Returns: Whether it could be made.
    private func plant(_ kind: HostileKind, at path: String) throws -> Bool {
        try FileSystem.makeFolder(outside + "/folder", withIntermediates: true)
        try FileSystem.writeNewFile(Self.secret, at: outside + "/victim")
        try FileSystem.writeNewFile(Self.secret, at: outside + "/folder/victim")
        let aside = outside + "/original"
        if FileSystem.exists(path) {
            try FileSystem.rename(path, to: aside)
        } else {
            try FileSystem.writeNewFile(Self.secret, at: aside)
        }
        switch kind {
        case .linkToOriginal: try FileSystem.makeSymbolicLink(path, to: aside)
        case .linkToVictim: try FileSystem.makeSymbolicLink(path, to: outside + "/victim")
        case .linkToFolder: try FileSystem.makeSymbolicLink(path, to: outside + "/folder")
        case .linkToDevice: try FileSystem.makeSymbolicLink(path, to: "/dev/zero")
        case .danglingLink: try FileSystem.makeSymbolicLink(path, to: outside + "/created")
        case .fifo: try #require(mkfifo(path, 0o666) == 0)
        case .socket:
            try #require(mknod(path, S_IFSOCK | 0o666, 0) == 0)
        case .device:
            // The number of /dev/zero.
            if mknod(path, S_IFCHR | 0o666, dev_t(1 << 8 | 5)) != 0 {
                FileHandle.standardError.write(Data("SKIPPED: devices need root\n".utf8))
                return false
            }
        }
        return true
    }

    @Test func aLockThatIsAFileOfTheUsersTooIsNotOverwritten() async throws {
        let path = try await makePackage()
        let victim = folder.path("victim")
        try FileSystem.writeNewFile(Self.secret, at: victim)
        try FileSystem.link(victim, to: path + "/.lock")
        let error = #expect(throws: QuireError.self) { try DocumentPackage.open(at: path) }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("remove “.lock”") == true)
        #expect(try FileSystem.contents(of: victim) == Self.secret)
        #expect(FileSystem.exists(path + "/.lock"))
        // Readers take no lock.
        try DocumentPackage.open(at: path, readOnly: true).close()
        try FileSystem.removeFile(path + "/.lock")
        try DocumentPackage.open(at: path).close()
        #expect(try FileSystem.contents(of: victim) == Self.secret)
    }

    /// The metadata file is made anew from the store if it cannot be read. The limit allows for the time in which the test waits
    /// for a thread, as in `PropertyListReadingTests`.
    @Test(.timeLimit(.minutes(10)), arguments: BinaryPropertyLists.hostile)
    func hostileMetadataIsNoObstacle(_ list: BinaryPropertyLists.Hostile) async throws {
        let path = try await makePackage()
        try list.inDictionary.write(to: URL(fileURLWithPath: path + "/DocumentMetadata.plist"))
        let layout = DocumentPackageLayout(path: path)
        #expect(DocumentMetadata.storeUUID(of: layout) == nil)
        #expect(LibraryMetadata(readingFrom: layout) == LibraryMetadata())
        let archive = folder.path("a.zip")
        var entries: [HandmadeArchive.Entry] = []
        for (name, information) in try FileSystem.contentsOfTree(path)
        where information.kind == .regular && !name.hasPrefix("Versions") {
            entries.append(
                .init(path: name, data: try FileSystem.contents(of: path + "/" + name)))
        }
        try HandmadeArchive(entries).withManifest().zip().write(
            to: URL(fileURLWithPath: archive))
        do {
            try DocumentPackage.extract(archive, to: folder.path("Copy.quire"))
        } catch {
            #expect((error as? QuireError)?.code == .invalidFormat, "\(error)")
        }
        let package = try DocumentPackage.open(at: path)
        #expect(DocumentMetadata.storeUUID(of: layout) == package.store.identity.uuid)
        try package.close()
    }

    /// What is done with a package. It may fail with an error of the framework, but not otherwise.
    private static let operations:
        [(name: String, body: @Sendable (_ path: String, _ output: String) throws -> [Data])] = [
            (
                "read",
                { path, _ in
                    let package = try DocumentPackage.open(at: path, readOnly: true)
                    defer { try? package.close() }
                    var read: [Data] = []
                    for file in try package.store.externalFiles() {
                        let name = FileSystem.name(of: file.path)
                        if let data = try? package.store.externalData.data(named: name) {
                            read.append(data)
                        }
                    }
                    for file in (try? package.additionalContent()) ?? [] {
                        if let data = try package.additionalContent(at: file.path) {
                            read.append(data)
                        }
                    }
                    for path in ["a", "deep/b"] {
                        if let data = try? package.additionalContent(at: path) { read.append(data) }
                    }
                    return read
                }
            ),
            (
                "save",
                { path, _ in
                    let package = try DocumentPackage.open(at: path)
                    defer { try? package.close() }
                    try? package.changeAdditionalContent(adding: ["new": .data(Data([3]))])
                    var save = ChangeSet()
                    save.records = ["test": "saved"]
                    try package.store.save(save)
                    try LibraryMetadata(title: "t", thumbnail: Data([1])).write(to: package.layout)
                    return []
                }
            ),
            (
                "check",
                { path, _ in
                    let package = try DocumentPackage.open(at: path, readOnly: true)
                    defer { try? package.close() }
                    let problems = try package.check()
                    #expect(!problems.isEmpty, "all is well")
                    let report = try StoreCheck.run(package.store)
                    return (problems.map(\.message) + report.problems.map(\.message)).map {
                        Data($0.utf8)
                    }
                }
            ),
            (
                "copy",
                { path, output in
                    let package = try DocumentPackage.open(at: path, readOnly: true)
                    defer { try? package.close() }
                    try package.writeCopy(to: output + "/Copy.quire")
                    return []
                }
            ),
            (
                "export",
                { path, output in
                    let package = try DocumentPackage.open(at: path, readOnly: true)
                    defer { try? package.close() }
                    try package.export(to: output + "/Copy.zip")
                    try DocumentPackage.extract(output + "/Copy.zip", to: output + "/Copy.quire")
                    return []
                }
            ),
            (
                "versions",
                { path, output in
                    _ = try DocumentPackage.versions(at: path)
                    let package = try DocumentPackage.open(at: path)
                    defer { try? package.close() }
                    _ = try? package.keepVersion()
                    for version in try package.versions() {
                        guard let checkout = try? package.checkOut(version.id) else { continue }
                        try FileSystem.copyTree(
                            checkout.path, to: output + "/" + version.id)
                        checkout.close()
                    }
                    for version in try package.versions().dropLast() {
                        try? package.deleteVersion(version.id)
                    }
                    if let oldest = try package.versions().last {
                        try? package.replaceContent(withVersion: oldest.id).close()
                    }
                    return []
                }
            ),
            (
                "look",
                { path, output in
                    let entry = DocumentLibrary.Entry(lookingAt: path)
                    if let thumbnail = entry.thumbnailPath {
                        #expect(
                            try FileSystem.informationWithoutFollowing(at: thumbnail)?.kind
                                == .regular)
                    }
                    _ = try? DocumentPackage.owner(at: path)
                    _ = try? DocumentPackage.conflictingCopies(ofPackageAt: path)
                    _ = try DocumentPackage.status(at: path)
                    return [Data("\(entry)".utf8)]
                }
            ),
            (
                "rescue",
                { path, output in
                    _ = try? DocumentPackage.recover(path, to: output + "/Recovered.quire")
                    _ = try? StoreRecovery.recover(
                        path + "/StoreContent/persistentStore", to: output + "/recovered")
                    var options = StoreRepair.Options()
                    options.keepsBackup = false
                    _ = try DocumentPackage.repair(at: path, options: options)
                    return []
                }
            ),
        ]

    /// Runs a body on a thread of its own; one that does not end is an issue, and is left behind.
    private func bounded<Result: Sendable>(
        _ name: String, _ body: @escaping @Sendable () -> Result
    ) throws -> Result {
        let result = Lock<Result?>(nil)
        let box = Box(result: result)
        let done = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            let value = body()
            box.result.withLock { $0 = value }
            done.signal()
        }
        try #require(done.wait(timeout: .now() + 30) == .success, "\(name) does not end")
        return try #require(box.result.withLock { $0 })
    }

    private final class Box<Result: Sendable>: Sendable {
        let result: Lock<Result?>
        init(result: consuming sending Lock<Result?>) { self.result = result }
    }

    @Test(arguments: HostileEntry.allCases, HostileKind.allCases)
    func nothingOutsideIsReadOrChangedAndNothingIsWaitedFor(
        _ entry: HostileEntry, _ kind: HostileKind
    ) async throws {
        let original = try await makePackage()
        for (name, body) in Self.operations {
            let path = folder.path("Hostile.quire")
            let output = folder.path("output")
            try FileSystem.copyTree(original, to: path)
            try FileSystem.makeFolder(output)
            let place = try resolve(entry, in: path)
            guard try plant(kind, at: place) else { return }
            let before = try contents(ofFolder: outside)
            let what = "\(name) with \(kind.rawValue) as \(entry.rawValue)"
            let (error, read) = try bounded(what) { () -> ((any Error)?, [Data]) in
                do { return (nil, try body(path, output)) } catch { return (error, []) }
            }
            #expect(try contents(ofFolder: outside) == before, "\(what)")
            #expect(error == nil || error is QuireError, "\(what): \(String(describing: error))")
            if entry.preventsOpening {
                let error = error as? QuireError
                #expect(error?.subject.file == place, "\(what): \(String(describing: error))")
                #expect(error?.code == .invalidFormat, "\(what)")
            }
            // It says what it is, and not that something is missing or damaged.
            if name == "check", !entry.rawValue.hasPrefix("Versions/2"), entry != .pack {
                let said =
                    (error as? QuireError)?.message
                    ?? read.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
                #expect(said.contains("is \(kind.name)"), "\(what): \(said)")
            }
            // What was moved aside is the document's own; the rest is not.
            if kind != .linkToOriginal {
                let written = try contents(ofFolder: output).values + read
                #expect(written.allSatisfy { $0.range(of: Self.secret) == nil }, "\(what)")
            }
            for rest in [path, output, outside] { try FileSystem.removeTree(rest) }
        }
    }

    @Test func hugeMetadataAreNotRead() async throws {
        let path = try await makePackage()
        let file = try OpenFile.open(path + "/DocumentMetadata.plist", for: .updating)
        try file.setSize(1 << 40)
        file.close()
        var usage = rusage()
        getrusage(0, &usage)  // RUSAGE_SELF
        let before = usage.ru_maxrss
        let package = try DocumentPackage.open(at: path)
        #expect(try package.additionalContent().count == 2)
        try package.close()
        getrusage(0, &usage)  // RUSAGE_SELF
        // In KiB. Other tests run beside this one.
        #expect(usage.ru_maxrss - before < 1 << 20)
        #expect(DocumentLibrary.Entry(lookingAt: path).error == nil)
    }

    @Test func foldersAboveAndThePackageItselfMayBeLinks() async throws {
        let path = try await makePackage()
        try FileSystem.makeFolder(folder.path("real"))
        try FileSystem.rename(path, to: folder.path("real/Moved.quire"))
        try FileSystem.makeSymbolicLink(folder.path("link"), to: folder.path("real"))
        try FileSystem.makeSymbolicLink(path, to: folder.path("real/Moved.quire"))
        for path in [path, folder.path("link/Moved.quire")] {
            let package = try DocumentPackage.open(at: path)
            try package.changeAdditionalContent(adding: ["new": .data(Data([3]))])
            try package.keepVersion()
            #expect(try package.check().isEmpty)
            try package.close()
            let reader = try DocumentPackage.open(at: path, readOnly: true)
            #expect(try reader.store.count(matching: FetchSpecification("Note")) == 2)
            try reader.close()
        }
    }

    // MARK: While a package is open

    /// Connections for reading are made when they are needed, long after the package was looked at; and between a look and
    /// the opening there is always time.
    @Test(arguments: [HostileEntry.storeFolder, .store], [false, true])
    func linksThatAppearAfterOpeningAreNotFollowedByTheDatabase(
        _ entry: HostileEntry, readOnly: Bool
    ) async throws {
        let path = try await makePackage()
        let package = try DocumentPackage.open(at: path, readOnly: readOnly)
        let place = try resolve(entry, in: path)
        #expect(try plant(.linkToOriginal, at: place))
        let store = package.store
        // More connections than have been made so far.
        let error = failure {
            try store.read { _ in try store.read { _ in try store.read { _ in } } }
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.subject.file == place)
        for mode in [.creating, .writing, .reading, .immutable] as [SQLiteConnection.Mode] {
            let error = failure {
                try SQLiteConnection(path: package.layout.store, mode: mode).close()
            }
            #expect(error?.code == .invalidFormat, "\(mode)")
        }
        try? package.close()
    }

    @Test(.inClear) @MainActor func unsavedFilesThatAreReplacedByLinksAreNotFollowed() async throws
    {
        let path = try await makePackage()
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        let content = document.additionalContent
        let own = Data("own".utf8)
        try FileSystem.writeNewFile(own, at: folder.path("own"))
        try await content.write(contentsOf: folder.path("own"), at: "mine")
        let spooled = try #require(
            try FileSystem.names(in: path).first(where: FileSystem.isTemporaryName))
        #expect(try plant(.linkToVictim, at: FileSystem.path(path, spooled)))
        #expect(try content.data(at: "mine") == own)
        #expect(try content.fileHandle(forReading: "mine")?.readToEnd() == own)
        #expect(try content.url(for: "mine").map { try Data(contentsOf: $0) } == own)
        try await document.save()
        #expect(try document.package.additionalContent(at: "mine") == own)
        try await document.close()
        #expect(try contents(ofFolder: outside)["victim"] == Self.secret)
        #expect(try contents(ofFolder: path).values.allSatisfy { $0 != Self.secret })
    }

    // MARK: Copies into the package

    @Test(.inClear) func copiesAreNotWrittenIntoThePackageItself() async throws {
        let path = try await makePackage()
        try FileSystem.makeSymbolicLink(folder.path("link"), to: path + "/AdditionalContent")
        let before = try contents(ofFolder: path)
        let package = try DocumentPackage.open(at: path, readOnly: true)
        for target in [
            path + "/Copy.quire", path + "/StoreContent/Copy.quire", folder.path("link/Copy.quire"),
        ] {
            #expect(failure { try package.writeCopy(to: target) }?.code == .invalidValue)
            #expect(failure { try package.export(to: target + ".zip") }?.code == .invalidValue)
        }
        try package.close()
        #expect(try contents(ofFolder: path) == before)
    }

    @Test @MainActor func documentIsNotSavedIntoItsOwnPackage() async throws {
        let path = try await makePackage()
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        try document.addNote("unsaved")
        for target in [path + "/Copy.quire", path + "/Versions/Copy.quire"] {
            #expect(
                await failure { try await document.writeCopy(to: URL(fileURLWithPath: target)) }?
                    .code == .invalidValue)
            #expect(
                await failure { try await document.save(as: URL(fileURLWithPath: target)) }?.code
                    == .invalidValue)
            #expect(
                await failure {
                    _ = try await document.duplicate(to: URL(fileURLWithPath: target))
                }?.code
                    == .invalidValue)
            #expect(!FileSystem.exists(target))
        }
        #expect(document.path == path)
        #expect(document.hasUnsavedChanges)
        try await document.close()
    }
}
