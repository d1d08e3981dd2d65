public import Foundation
import Logging
public import Quire
internal import QuireSQLite
internal import QuireStore

/// New bytes for a file of additional content.
public enum AdditionalContentSource: Sendable {
    /// The bytes as data.
    case data(Data)
    /// The bytes of a file on disk, by its path.
    case file(String)
    /// The bytes of a file handle until its end.
    case handle(FileHandle)
}

extension DocumentPackage {
    /// Changes files of additional content of a package that is not open as a document, in one save: all or nothing.
    ///
    /// Only bytes passed as data are held in memory.
    ///
    /// - Parameters:
    ///   - added: New files, and new bytes for existing files, by their paths.
    ///   - removed: The paths of files to remove.
    /// - Throws: ``QuireError`` with code `readOnly`, `notFound` if a file to remove or to copy does not exist,
    ///   `invalidValue` if a path cannot be used, `outOfSpace`, or errors of reading and writing. Then nothing has changed.
    public func changeAdditionalContent(
        adding added: [String: AdditionalContentSource] = [:], removing removed: [String] = []
    ) throws {
        try checkMayWrite()
        let live = try liveGeneration()
        var names = AdditionalContentNames(try content.files(in: live).map(\.path))
        var changes = AdditionalContentChanges()
        for path in removed {
            let name = names.name(for: path)
            guard names.contains(name) else { throw QuireError.noContent(path, in: layout.path) }
            names.remove(name)
            changes.files[name] = .removal
        }
        for path in added.keys.sorted() {
            guard let source = added[path] else { continue }
            let name = names.name(for: path)
            try AdditionalContent.check(name, names)
            names.insert(name)
            changes.files[name] =
                switch source {
                case .data(let data): .data(data)
                case .file(let file):
                    .file(try SpooledFile(copying: FileSystem.absolute(file), to: self))
                case .handle(let handle): .file(try spool(handle, for: path))
                }
        }
        if changes.isEmpty { return }
        let generation = try writeContent(changes, after: live)
        var save = ChangeSet()
        save.records = [AdditionalContentStore.recordKey: generation.map(String.init)]
        do {
            try store.save(save)
        } catch {
            // If it is unknown whether it was saved, the next owner of the package determines it.
            if let generation, !error.leavesCommitOpen { content.discard(generation) }
            throw error
        }
        tidy(generation: generation)
    }

    private func spool(_ handle: FileHandle, for path: String) throws -> SpooledFile {
        try SpooledFile(in: self) { file in
            while true {
                let piece: Data
                do {
                    piece = try handle.read(upToCount: 1 << 20) ?? Data()
                } catch {
                    throw FileSystem.failure("read the contents of", path, thrown: error)
                }
                if piece.isEmpty { return }
                try piece.withUnsafeBytes { try file.write($0) }
            }
        }
    }

    /// A file of additional content to read from, at its start, as of the last save; `nil` if it does not exist. Its bytes do not
    /// change, regardless of later saves.
    public func additionalContentHandle(at path: String) throws -> FileHandle? {
        try additionalContentFile(at: path)?.openedInClear().fileHandle()
    }

    /// Calls a closure with the bytes of a file of additional content, as of the last save, block by block.
    ///
    /// - Returns: Whether there is such a file.
    package func readAdditionalContent(
        at path: String, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws -> Bool {
        guard let file = try additionalContentFile(at: path) else { return false }
        try file.forEachBlock(body)
        return true
    }

    /// A file of additional content, open for reading, as of the last save.
    func additionalContentFile(at path: String) throws -> ContentFile? {
        try withLiveGeneration {
            try content.file(at: content.name(for: path, in: $0), in: $0)
        }
    }

    /// Paths and sources for all files in a folder on disk, to be added. Paths of different files that would be equal as strings are
    /// escaped in a way that ``changeAdditionalContent(adding:removing:)`` understands.
    ///
    /// - Parameters:
    ///   - folder: The folder on disk.
    ///   - path: The destination folder in the additional content; empty for none.
    public static func additionalContent(
        ofFolder folder: String, at path: String
    ) throws -> [String: AdditionalContentSource] {
        var sources: [String: AdditionalContentSource] = [:]
        for file in try AdditionalContentFiles.files(
            inFolder: FileSystem.absolute(folder), at: path)
        {
            sources[file.path] = .file(file.source)
        }
        return sources
    }
}

// MARK: - Replacing all content

extension DocumentPackage {
    /// Replaces the content of this package with that of another one as of its last save: rows, external data and additional
    /// content, all or nothing.
    ///
    /// The document keeps its path, its UUID, its versions and its lock, which is not released meanwhile. Readers see the old or the
    /// new content, never a mix. The commit of one transaction replaces the content; a power loss before it leaves the old content,
    /// and after it the new one.
    ///
    /// ```swift
    /// let replaced = try package.replaceContent(with: other)
    /// // Create contexts with replaced.store, then:
    /// try package.close()          // Keeps the lock, which replaced has taken over.
    /// replaced.removeReplacedContent()
    /// ```
    ///
    /// The store object of this package may have outdated rows, statements and identifiers in its caches. So it no longer saves, and
    /// is replaced with a new package with a newly opened store. This one can still read, and finds the files that its rows refer to,
    /// until the new one's ``removeReplacedContent()`` is called.
    ///
    /// No save may run meanwhile. Do not call it on the main queue.
    ///
    /// - Parameters:
    ///   - other: The package with the content. It can be read and saved meanwhile.
    ///   - migration: How to migrate content with another version of the model; `nil` not to migrate it. The other package is not
    ///     changed.
    ///   - progress: Cancelling it leaves everything as it was.
    /// - Returns: The package to use from now on. It owns the lock.
    /// - Complexity: O(*n*) in the size of the content.
    /// - Throws: ``QuireError`` with code `readOnly`, `incompatibleModel`, `outOfSpace`, `locked`, `cancelled`, `notFound`,
    ///   or errors of reading and writing; then the content is unchanged. With code `storeUnavailable`, if the disk failed,
    ///   or the store could not be opened after its content had been replaced, or with `outOfSpace`, if the last pages could
    ///   not be synchronized: close the package; the next opening finds the old or the new content.
    public func replaceContent(
        with other: DocumentPackage, migrating migration: StoreMigrationOptions? = nil,
        progress: Progress? = nil
    ) throws -> DocumentPackage {
        try replaceContent(migrating: migration, progress: progress) { staging, progress in
            if StoreProtection.hasKeys(store.protection, of: other.store.protection) {
                try other.fill(staging, by: .copying, progress: progress)
            } else {
                try store.protection?.writeKeybag(forStoreAt: staging.store)
                try other.fill(staging, protectedBy: store.protection, withoutDraft: true)
            }
        }
    }

    /// Replaces the content of this package with the files that a body puts into a new folder.
    ///
    /// - Parameter fill: Fills a folder that has the layout of a package, with files that may be moved away from there, and
    ///   counts them in a separate progress.
    func replaceContent(
        migrating migration: StoreMigrationOptions?, progress: Progress?,
        by fill: (DocumentPackageLayout, Progress?) throws -> Void
    ) throws -> DocumentPackage {
        try checkMayWrite()
        // The files, and then the pages of the database.
        progress?.totalUnitCount = 2
        progress?.completedUnitCount = 0
        func part() -> Progress? {
            progress.map { Progress(totalUnitCount: 1, parent: $0, pendingUnitCount: 1) }
        }
        let staging = DocumentPackageLayout(
            path: FileSystem.temporarySibling(of: layout.storeFolder, for: "replacement"))
        defer { try? FileSystem.removeTree(staging.path, beneath: layout.path) }
        let staged = StagedContent(staging: staging, package: self)
        do {
            try FileSystem.building(layout.path, as: staging.path) {
                try TerminationCleanup.making(folder: staging.path, beneath: layout.path) {
                    try FileSystem.makeFolder(staging.storeFolder)
                    try fill(staging, part())
                }
                try checkCancelled(progress)
                try staged.moveIn(migrating: migration)
                try checkCancelled(progress)
                // Everything else has been moved out of it.
                try TerminationCleanup.removing(staging.path, beneath: layout.path) {
                    try store.replaceContent(withDatabaseAt: staging.store, progress: part())
                }
            }
        } catch {
            // If it is unknown which content is current, the next owner of the package determines it.
            if !error.leavesCommitOpen { staged.moveOut() }
            throw error
        }
        do {
            return try succeeding(by: openStoreAgain(), generation: staged.generation)
        } catch {
            throw QuireError(
                .storeUnavailable,
                "The content of “\(layout.path)” has been replaced, but the new content cannot be opened: \(error); close "
                    + "the document and open it again.",
                file: layout.path, underlying: error)
        }
    }

    /// Removes files that only the replaced content needs. Call it when the replaced content is no longer read; until then it
    /// only uses space.
    public func removeReplacedContent() {
        do {
            tidy(generation: try liveGeneration())
        } catch {
            // Without the number of the current generation, all of them would be removed.
            Self.logger.warning(
                "Could not remove the replaced content of “\(layout.path)”: \(error)")
        }
    }

    private func openStoreAgain() throws -> SQLiteStore {
        do {
            return try store.openAgain()
        } catch let error as QuireError where error.code == .locked {
            // Without shared memory, one connection has exclusive access to the file.
            try store.close()
            return try store.openAgain()
        }
    }

    func checkMayWrite() throws {
        if isReadOnly { throw QuireError.readOnly(layout.path) }
    }

    private func checkCancelled(_ progress: Progress?) throws {
        try progress?.checkCancelled(
            "Replacing the content of “\(layout.path)” was cancelled; nothing was changed.",
            file: layout.path)
    }
}

/// Content that is being moved into a package: first in a separate folder, then beside the current content, where nothing refers to
/// it until the store's transaction. Until then no current content is replaced or removed.
private final class StagedContent {
    private let staging: DocumentPackageLayout
    private let package: DocumentPackage
    /// The generation that its additional content has in the package.
    private(set) var generation: Int?
    /// External data files that did not exist before.
    private var added: [String] = []

    init(staging: DocumentPackageLayout, package: DocumentPackage) {
        self.staging = staging
        self.package = package
    }

    /// Prepares the store, and makes everything it refers to durable at its final path.
    func moveIn(migrating migration: StoreMigrationOptions?) throws {
        let root = package.layout.path
        if FileSystem.exists(staging.additionalContent, beneath: root),
            let name = try FileSystem.names(in: staging.additionalContent, beneath: root).first
        {
            generation = try package.content.adopt(
                FileSystem.path(staging.additionalContent, name))
        }
        let files = try package.store.prepareReplacement(
            at: staging.store,
            records: [AdditionalContentStore.recordKey: generation.map(String.init)]
        ) { path, model, options in
            guard var migration else {
                return try SQLiteStore.open(at: path, model: model, options: options)
            }
            // The migrated store is a copy already.
            migration.copyPath = nil
            return try SQLiteStore.open(
                at: path, model: model, options: options, migrating: migration.migratingDraft)
        }
        if files.isEmpty { return }
        let folder = package.layout.externalData
        try FileSystem.makeFolder(folder, beneath: root, withIntermediates: true)
        for name in files {
            let file = FileSystem.path(staging.externalData, name)
            let target = FileSystem.path(folder, name)
            // An existing file has the same bytes: otherwise the store would have chosen another name.
            if try FileSystem.information(at: target, beneath: root) != nil { continue }
            try OpenFile.open(file, beneath: root, for: .reading).synchronize()
            try FileSystem.renameWithoutReplacing(file, to: target, beneath: root)
            added.append(target)
        }
        try FileSystem.synchronizeFolder(folder, beneath: root)
        let support = FileSystem.folder(of: folder)
        try FileSystem.synchronizeFolder(support, beneath: root)
        try FileSystem.synchronizeFolder(containing: support, beneath: root)
    }

    /// Removes the parts that were moved into the package.
    func moveOut() {
        let root = package.layout.path
        for path in added { _ = try? FileSystem.removeFileIfPresent(path, beneath: root) }
        if let generation { package.content.discard(generation) }
    }
}

// MARK: - Location

/// The location of an open package, and whether the files there are those that are open.
enum PackageLocation: Sendable, Equatable {
    /// The package is at its path.
    case here
    /// It has another path.
    case moved(to: String)
    /// It was removed.
    case removed
    /// Another package is at its path, and either it has no other path, or the other one is a state of the same document.
    case replaced
    /// Another file is at the path of its store.
    case storeReplaced
    /// Files of the store are missing, and there is no other store.
    case storeLost
}

extension DocumentPackage {
    /// Determines the location of the package, and changes of its files by other programs.
    func location() -> PackageLocation {
        if isInPlace {
            switch store.fileReplacement {
            case nil: return .here
            case .replaced: return .storeReplaced
            case .removed, .logRemoved, .logReplaced, .indexReplaced: return .storeLost
            }
        }
        guard let present = presentPath else {
            return FileSystem.exists(layout.path) ? .replaced : .removed
        }
        // A program that synchronizes folders may keep the replaced package under another name.
        let isSameDocument = DocumentMetadata.storeUUID(of: layout) == store.identity.uuid
        return isSameDocument ? .replaced : .moved(to: present)
    }

    /// Opens the store with which another program has replaced this package's. The lock is handed over.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if it is the store of another document, or errors of opening. Then nothing has
    ///   changed.
    func succeedingByStoreInPlace(
        model: ManagedObjectModel?, migrating migration: StoreMigrationOptions?
    ) throws -> DocumentPackage {
        store.unlinkLog()
        let new = try Self.openStore(layout, model, store.storeOptions, migration)
        do {
            guard new.identity.uuid == store.identity.uuid else { throw otherDocument }
            let generation = try content.generation(in: new.records())
            return succeeding(by: new, generation: generation)
        } catch {
            try? new.close()
            throw error
        }
    }

    /// The error of another document at the path.
    var otherDocument: QuireError {
        QuireError(
            .notFound, "“\(layout.path)” was replaced with another document.", file: layout.path)
    }

    /// The error of a package that was deleted.
    var deleted: QuireError {
        QuireError(
            .notFound,
            "“\(layout.path)” was deleted by another program while it was open; save it as another document.",
            file: layout.path)
    }

    /// Writes a copy of the open store, whose files another program has removed or replaced, to its path. This object must not be used
    /// afterwards.
    ///
    /// - Returns: The package to use from now on. When this returns, it survives power loss.
    /// - Throws: ``QuireError`` with code `outOfSpace`, or errors of reading and writing.
    func restoringStore() throws -> DocumentPackage {
        try checkMayWrite()
        let root = layout.path
        try FileSystem.makeFolder(layout.storeFolder, beneath: root, withIntermediates: true)
        let temporary = FileSystem.temporarySibling(of: layout.store, for: "restored")
        try FileSystem.removeOnFailure(temporary, beneath: root) {
            try store.writePageCopy(to: temporary, protectedBy: store.protection)
            let file = try OpenFile.open(temporary, beneath: root, for: .updating)
            try file.synchronize()
            file.close()
            // An existing log would be mistaken for the copy's.
            for suffix in ["-wal", "-shm", "-journal"] {
                _ = try FileSystem.removeFileIfPresent(layout.store + suffix, beneath: root)
            }
            try FileSystem.rename(temporary, to: layout.store, beneath: root)
            try FileSystem.synchronizeFolder(layout.storeFolder, beneath: root)
            try FileSystem.synchronizeFolder(root)
        }
        let new = try SQLiteStore.open(
            at: layout.store, continuing: store, options: store.storeOptions)
        return succeeding(by: new, generation: try content.generation(in: new.records()))
    }
}

extension QuireError {
    /// A document has no file at a path of its additional content.
    package static func noContent(_ path: String, in document: String) -> QuireError {
        QuireError(.notFound, "“\(document)” has no additional content “\(path)”.", file: path)
    }
}
