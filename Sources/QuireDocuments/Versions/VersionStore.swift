import Foundation
import Logging
import Quire
import QuireRescue
internal import QuireSQLite
import Synchronization

/// The versions of a document, in the package's folder `Versions`.
///
/// A version is a folder with a manifest, and links to files of external data and additional content, which never change.
/// Its database is cut into blocks of one page each, and blocks that no version has yet are written to a new block file. A
/// version thus takes as much space as has changed since the previous ones.
///
/// Invariants
/// ==========
///
/// - A version exists once its folder has its final name. Its content, and all blocks that it needs, are on disk before.
/// - The content of a version never changes, and no block that a version needs is removed. A reader of a version claims its
///   folder meanwhile, and a claimed version is not removed.
/// - Only the owner of the package's lock writes, one operation at a time.
/// - Folders with temporary names are leftovers of interrupted operations. Unneeded block files do no harm: the next version
///   may need them, and the next removal of a version collects them.
/// - Damage to a version affects neither the document nor other versions.
/// - In a protected document manifests are sealed files, and blocks are sealed pages, whose nonces are derived from the pages so
///   that equal pages are equal blocks. All of them use the keys of the document.
final class VersionStore: Sendable {
    static let manifestName = "Manifest"
    static let externalDataName = "ExternalData"
    static let contentName = "AdditionalContent"
    static let resolvedName = "Resolved"

    let layout: DocumentPackageLayout
    /// The keys of the document; `nil` if it is not protected.
    let protection: StoreProtection?
    /// Held while writing.
    let writing = NSLock()
    /// Held from deciding that a version is due until it is kept, so that the next decision takes it into account.
    let decidingAfterSave = NSLock()
    private let hasSaved = Atomic(false)

    init(layout: DocumentPackageLayout, protection: StoreProtection?) {
        self.layout = layout
        self.protection = protection
    }

    /// The versions of a package that is not open.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if it is protected and locked, or errors of reading the
    ///   keybag.
    convenience init(ofPackageAt layout: DocumentPackageLayout) throws {
        try DocumentPackage.checkIsPackage(layout)
        self.init(layout: layout, protection: try StoreProtection.find(forStoreAt: layout.store))
    }

    /// The description of a version to keep.
    struct Description {
        var name: String?
        var reason = DocumentVersion.Reason.requested
        var origin: DocumentVersion.Origin?
    }

    /// Records that a save is about to begin.
    ///
    /// - Returns: Whether it is the first save.
    func willSave() -> Bool { !hasSaved.exchange(true, ordering: .relaxed) }

    // MARK: - Keeping

    /// Keeps the content of a package, usually the one with these versions, as of its last save.
    ///
    /// - Parameters:
    ///   - source: The package. It can be read and saved meanwhile.
    ///   - method: How its files are copied.
    ///   - onlyIfNew: Whether to keep nothing if the last version has the same content.
    ///   - keepingDamage: Whether to keep damaged content too, without missing files.
    ///   - progress: Counts the bytes of the database.
    /// - Returns: The version; with `onlyIfNew`, the last one if it has the same content.
    func keep(
        _ source: DocumentPackage, _ description: Description, by method: FileSystem.CopyMethod,
        onlyIfNew: Bool, keepingDamage: Bool = true, progress: Progress?
    ) throws -> DocumentVersion {
        writing.lock()
        defer { writing.unlock() }
        try makeFolders()
        // A save may remove files that the copied database refers to before they are linked; then everything is repeated.
        var attempts = 5
        while true {
            let date = Date()
            let id = Self.id(for: date)
            let scratch = FileSystem.temporarySibling(of: layout.version(id), for: "new")
            do {
                return try building(id, in: scratch) {
                    var manifest = VersionManifest(
                        date: date, name: description.name, reason: description.reason,
                        origin: description.origin, storeUUID: source.store.identity.uuid)
                    try fill(
                        scratch, &manifest, from: source, by: method,
                        keepingDamage: keepingDamage, progress: progress)
                    if onlyIfNew, let last = try lastVersion(),
                        manifest.hasSameContent(as: last.1)
                    {
                        return version(last.0, last.1)
                    }
                    try publish(scratch, &manifest, as: id)
                    return version(id, manifest)
                }
            } catch let error as QuireError where error.code == .notFound {
                attempts -= 1
                if attempts == 0 {
                    let problems = try source.missingFiles()
                    throw problems.isEmpty ? error : source.damaged(problems)
                }
            } catch let error as QuireError where error.code == .cancelled {
                throw QuireError(
                    .cancelled, "Keeping a version of “\(layout.path)” was cancelled.",
                    file: layout.path)
            }
        }
    }

    /// Writes the manifest of a version, whose size counts as added.
    func write(_ manifest: inout VersionManifest, into folder: String) throws {
        let path = FileSystem.path(folder, Self.manifestName)
        let classKey = protection?.classKey
        manifest.addedSize += Int64(try manifest.data(sealedBy: classKey, path: path).count)
        try FileSystem.writeNewFile(
            try manifest.data(sealedBy: classKey, path: path), at: path, beneath: layout.path)
    }

    /// Runs a body that fills a folder for a version, which is removed at the end unless it has been published.
    private func building<Result>(
        _ id: String, in scratch: String, _ body: () throws -> Result
    ) throws -> Result {
        defer { try? FileSystem.removeTree(scratch, beneath: layout.path) }
        return try FileSystem.building(layout.version(id), as: scratch) {
            try TerminationCleanup.making(folder: scratch, beneath: layout.path, body)
        }
    }

    /// Completes a version, and gives it its final name.
    private func publish(
        _ scratch: String, _ manifest: inout VersionManifest, as id: String
    ) throws {
        let root = layout.path
        try write(&manifest, into: scratch)
        try FileSystem.synchronizeFolders(ofTree: scratch, beneath: root)
        try TerminationCleanup.uninterrupted {
            try FileSystem.renameWithoutReplacing(scratch, to: layout.version(id), beneath: root)
        }
        do {
            try FileSystem.synchronizeFolder(layout.versions, beneath: root)
        } catch {
            // It might not survive a power loss, so it is removed.
            try? FileSystem.renameWithoutReplacing(layout.version(id), to: scratch, beneath: root)
            throw error
        }
    }

    func makeFolders() throws {
        for folder in [layout.versions, layout.versionBlocks]
        where !FileSystem.exists(folder, beneath: layout.path) {
            try FileSystem.makeFolder(folder, beneath: layout.path)
            try FileSystem.synchronizeFolder(containing: folder, beneath: layout.path)
        }
    }

    /// Writes the files of a version to its folder and its blocks to the block store. Everything is durable except the names
    /// of the folders.
    private func fill(
        _ folder: String, _ manifest: inout VersionManifest, from source: DocumentPackage,
        by method: FileSystem.CopyMethod, keepingDamage: Bool, progress: Progress?
    ) throws {
        let database = FileSystem.path(folder, "database")
        // A replaced store is read by the connection that still has it open.
        let isInPlace = try source.isReadOnly || source.changeByOthers() == nil
        let place = isInPlace ? source.layout : source.presentLayout
        try source.store.writePageCopy(
            to: database, protectedBy: protection, byWriter: !isInPlace, progress: progress)
        var files = ResealedFiles(from: source.store.protection, to: protection)
        var options = SQLiteStoreOptions.reading()
        options.configuration = source.store.configurationName
        options.protection = protection
        let copy = try SQLiteStore.open(
            at: database, model: source.store.layout.model, options: options)
        do {
            defer { try? copy.close() }
            manifest.generation = try source.content.generation(in: copy.records())
            var problems: [String] = []
            if !keepingDamage {
                problems = try copy.integrityProblems().map(source.databaseMessage)
            }
            if !problems.isEmpty { throw source.damaged(problems) }
            let externalFiles: [SQLiteExternalFile]
            do {
                externalFiles = try copy.externalFiles()
            } catch let error as QuireError where keepingDamage && error.code == .invalidFormat {
                externalFiles = try source.store.presentExternalFiles()
            }
            for file in externalFiles {
                let name = FileSystem.name(of: file.path)
                let original = FileSystem.path(place.externalData, name)
                if keepingDamage, !FileSystem.exists(original, beneath: place.path) { continue }
                let target = FileSystem.path(folder, Self.externalDataName) + "/" + name
                let information = try addFile(
                    original, beneath: place.path, to: target, by: method, &files, &manifest)
                manifest.externalFiles[name] = .init(size: information.size, sha256: file.sha256)
                if keepingDamage { continue }
                let count = ContentFile.count(of: information, sealed: protection != nil)
                let isSound =
                    try file.size ?? count == count
                    && file.sha256.map {
                        try FileDigest.isSHA256(
                            $0, ofFileAt: target, beneath: layout.path,
                            unsealing: protection?.classKey)
                    } ?? true
                if !isSound {
                    problems.append(
                        source.externalDataMessage(name, "was changed after it was saved"))
                }
            }
            if !problems.isEmpty { throw source.damaged(problems) }
        }
        if let generation = manifest.generation {
            let live = place.additionalContent(generation: generation)
            let target = FileSystem.path(folder, Self.contentName)
            try FileSystem.makeFolder(target, beneath: layout.path)
            let content = AdditionalContentStore(layout: place, classKey: nil)
            for (path, _) in try content.files(in: generation) {
                manifest.content[path.key] = try addFile(
                    FileSystem.path(live, path.text), beneath: place.path,
                    to: FileSystem.path(target, path.text), by: method, &files, &manifest
                ).size
            }
        }
        try cut(database, into: &manifest, progress: progress)
    }

    /// Cuts the database of a version into blocks, durably, and removes it.
    func cut(
        _ database: String, into manifest: inout VersionManifest, progress: Progress?
    ) throws {
        manifest.storeSize =
            try FileSystem.information(at: database, beneath: layout.path)?.size ?? 0
        progress?.totalUnitCount = manifest.storeSize
        var cutter = try PageChunker(BlockStore(of: layout))
        manifest.nodes = try cutter.cut(
            database, pageSize: protection.map { _ in StoreProtection.pageSize },
            progress: progress)
        manifest.addedSize += try cutter.finish()
        try FileSystem.removeFile(database, beneath: layout.path)
    }

    /// Adds a file to a version.
    func addFile(
        _ path: String, beneath root: String, to target: String,
        by method: FileSystem.CopyMethod, _ files: inout ResealedFiles,
        _ manifest: inout VersionManifest
    ) throws -> FileInformation {
        try FileSystem.makeFolder(
            FileSystem.folder(of: target), beneath: layout.path, withIntermediates: true)
        let isCopy = try files.copy(
            path, beneath: root, to: target, within: layout.path, by: method)
        let file = try OpenFile.open(target, beneath: layout.path, for: .reading)
        let information = try file.information()
        if isCopy {
            try file.synchronize()
            manifest.addedSize += information.size
        }
        return information
    }

    /// The last version and its manifest; `nil` if it is damaged, so that the next one is not compared with it.
    private func lastVersion() throws -> (String, VersionManifest)? {
        guard let id = try ids().last, let manifest = try? manifest(of: id) else { return nil }
        return (id, manifest)
    }

    // MARK: - Names

    /// The name of a new version: its time, and a random suffix.
    private static func id(for date: Date) -> String {
        let milliseconds = Int64(date.timeIntervalSince1970 * 1000)
        var seconds = time_t(milliseconds / 1000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func digits(_ number: some BinaryInteger, _ count: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(count - text.count, 0)) + text
        }
        return digits(parts.tm_year + 1900, 4) + digits(parts.tm_mon + 1, 2)
            + digits(parts.tm_mday, 2) + "T" + digits(parts.tm_hour, 2) + digits(parts.tm_min, 2)
            + digits(parts.tm_sec, 2) + digits(milliseconds % 1000, 3) + "Z-"
            + UUID().uuidString.prefix(8)
    }

    /// The time in a version's name, or `nil` if the name is not valid.
    static func date(in id: String) -> Date? {
        let bytes = Array(id.utf8)
        guard bytes.count == 28, bytes[8] == UInt8(ascii: "T"), bytes[18] == UInt8(ascii: "Z"),
            bytes[19] == UInt8(ascii: "-"),
            bytes[20...].allSatisfy({ (0x30...0x39).contains($0) || (0x41...0x46).contains($0) })
        else { return nil }
        func number(_ range: Range<Int>) -> Int32? {
            guard bytes[range].allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            return Int32(String(decoding: bytes[range], as: UTF8.self))
        }
        guard let year = number(0..<4), let month = number(4..<6), let day = number(6..<8),
            let hour = number(9..<11), let minute = number(11..<13), let second = number(13..<15),
            let fraction = number(15..<18)
        else { return nil }
        var parts = tm()
        parts.tm_year = year - 1900
        parts.tm_mon = month - 1
        parts.tm_mday = day
        parts.tm_hour = hour
        parts.tm_min = minute
        parts.tm_sec = second
        return Date(timeIntervalSince1970: Double(timegm(&parts)) + Double(fraction) / 1000)
    }
}

// MARK: - Removing

extension VersionStore {
    /// Removes versions, and blocks that are no longer needed.
    ///
    /// - Parameter skippingBusy: Whether to skip a version that is being read, rather than throw an error.
    /// - Returns: The versions that were removed.
    func remove(_ ids: [String], skippingBusy: Bool) throws -> [String] {
        writing.lock()
        defer { writing.unlock() }
        var removed: [String] = []
        for id in ids {
            guard exists(id) else { throw missing(id) }
            let root = layout.path
            let claim = try OpenFile.open(layout.version(id), beneath: root, for: .folder)
            guard try claim.claim() else {
                if skippingBusy { continue }
                throw QuireError(
                    .locked,
                    "The version “\(id)” of “\(layout.path)” is being read; try again when it is closed.",
                    file: layout.version(id))
            }
            // The version disappears atomically and durably before any of its blocks is removed.
            let temporary = FileSystem.temporarySibling(of: layout.version(id), for: "removed")
            try FileSystem.building(layout.version(id), as: temporary) {
                try FileSystem.rename(layout.version(id), to: temporary, beneath: root)
            }
            do {
                try FileSystem.synchronizeFolder(layout.versions, beneath: root)
            } catch {
                try? FileSystem.renameWithoutReplacing(
                    temporary, to: layout.version(id), beneath: root)
                throw error
            }
            removed.append(id)
            try? FileSystem.removeTree(temporary, beneath: root)
        }
        if removed.isEmpty { return [] }
        do {
            try removeBlocks()
        } catch {
            // The next removal of a version collects them.
            Logger(label: "quire.document").warning(
                "Blocks of removed versions of “\(layout.path)” could not be removed: \(error)")
        }
        return removed
    }

    /// Removes blocks that no version needs. Removes none if a manifest or node that lists needed blocks cannot be read.
    private func removeBlocks() throws {
        var blocks = try BlockStore(of: layout)
        var needed: Set<BlockDigest> = []
        for id in try ids() {
            guard let manifest = try? manifest(of: id) else { return }
            for node in BlockDigest.list(Array(manifest.nodes)) where needed.insert(node).inserted {
                // The next version may repair a damaged node.
                guard let digests = blocks.block(node) else { return }
                needed.formUnion(BlockDigest.list(digests))
            }
        }
        try blocks.removeBlocks(except: needed)
    }
}
