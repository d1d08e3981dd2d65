public import Foundation
import Logging
public import Quire
internal import QuireSQLite
import Synchronization

/// An open document package: the folder, its lock, its store and its additional content.
///
/// It has no contexts, undo or autosave; ``ManagedDocument`` adds those. It may be used from any thread.
///
/// Invariants
/// ==========
///
/// - An existing package is complete: it was built beside its path, synchronized and renamed.
/// - Only the owner of ``DocumentPackageLayout/lock`` writes. Readers take no lock and leave no trace.
/// - A document changes only with the commit of the store's transaction. Files that it refers to are on disk before; files that are
///   no longer referenced are removed afterwards. So after any interruption the package has the state of the last commit, and
///   leftovers that the next owner of the lock removes.
/// - The metadata file is derived from the store. Nothing depends on it.
public final class DocumentPackage: Sendable {
    /// The paths of the package.
    public let layout: DocumentPackageLayout
    /// The store.
    public let store: SQLiteStore
    /// Whether it was opened for reading only.
    public var isReadOnly: Bool { lock == nil }

    let content: AdditionalContentStore
    /// The versions of the document.
    let versionStore: VersionStore
    /// The package folder, wherever it is moved to; `nil` if it could not be opened, which then nothing can follow.
    let folder: OpenFile?
    /// The store's file as it was when it was opened.
    let storeFile: FileInformation?
    let lock: DocumentLock?
    /// The archive that the document is in, if it is in one.
    private let archived: ArchivedDocument?
    /// Whether the package had not been closed when it was opened: an owner was killed or, for a reader, may still have it open.
    let wasInterrupted: Bool
    /// Whether the lock was handed over to another object.
    private let hasSuccessor = Atomic(false)
    static let logger = Logger(label: "quire.document")

    init(
        layout: DocumentPackageLayout, store: SQLiteStore, lock: DocumentLock?,
        versionStore: VersionStore? = nil, folder: OpenFile? = nil, wasInterrupted: Bool = false,
        archived: ArchivedDocument? = nil
    ) {
        self.layout = layout
        self.store = store
        self.lock = lock
        self.archived = archived
        self.wasInterrupted = wasInterrupted
        self.versionStore =
            versionStore ?? VersionStore(layout: layout, protection: store.protection)
        content = AdditionalContentStore(
            layout: layout, classKey: store.protection?.classKey)
        // Without the folder the package is assumed to be at its path.
        self.folder = folder ?? (try? OpenFile.open(layout.path, for: .folder))
        storeFile = (try? FileSystem.information(at: layout.store)) ?? nil
    }

    // MARK: Opening

    /// Creates a package with an empty store, and opens it for writing.
    ///
    /// The package is created completely or not at all.
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path exists.
    public static func create(
        at path: String, model: ManagedObjectModel, options: SQLiteStoreOptions = .init()
    ) throws -> DocumentPackage {
        try create(at: path, model: model, options: options) { _, _ in nil }
    }

    /// Creates a package like ``create(at:model:options:)-(String,_,_)``, and lets a closure fill its store before the package gets its
    /// name. If the closure throws, there is no package.
    package static func create(
        at path: String, model: ManagedObjectModel, options: SQLiteStoreOptions = .init(),
        filling body: (SQLiteStore) throws -> Void
    ) throws -> DocumentPackage {
        try create(at: path, model: model, options: options) { store, _ in
            try body(store)
            return nil
        }
    }

    /// Creates a package with the objects, the model and the protection of a store; see
    /// ``StoreFile/convert(to:type:model:allowsRemoval:fileProtection:protectionDomain:progress:)-(String,_,_,_,_,_,_)``.
    ///
    /// The package is created completely or not at all.
    ///
    /// - Parameters:
    ///   - path: The package to create.
    ///   - file: The store, which is not changed.
    ///   - model: The model; `nil` for the one that the store contains, or else one inferred from its file.
    ///   - progress: Called with the progress, which can be cancelled.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path exists, or the errors of that method.
    public static func create(
        at path: String, from file: StoreFile, model: ManagedObjectModel? = nil,
        progress: ((Progress) -> Void)? = nil
    ) throws {
        try build(at: path) { layout in
            try file.convert(to: layout.store, type: .sqlite, model: model, progress: progress)
            let store = try SQLiteStore.open(at: layout.store)
            defer { try? store.close() }
            // The store of a document refers to its additional content.
            try bringContent(from: nil, to: layout, store)
            try metadata(of: store, generation: nil).write(to: layout)
        }
    }

    /// Creates a package at a URL; see ``create(at:model:options:)-(String,_,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or the errors of that method.
    public static func create(
        at url: URL, model: ManagedObjectModel, options: SQLiteStoreOptions = .init()
    ) throws -> DocumentPackage {
        try create(at: FileSystem.path(of: url), model: model, options: options)
    }

    /// Creates a package like ``create(at:model:options:)-(String,_,_)``, with the objects and additional content of a template.
    static func create(
        at path: String, model: ManagedObjectModel, options: SQLiteStoreOptions,
        template: DocumentTemplate?
    ) throws -> DocumentPackage {
        try create(at: path, model: model, options: options) { try template?.fill($0, in: $1) }
    }

    /// - Parameter fill: Fills the store, and returns the generation of additional content; `nil` if there is none.
    private static func create(
        at path: String, model: ManagedObjectModel, options: SQLiteStoreOptions,
        fill: (SQLiteStore, DocumentPackageLayout) throws -> Int?
    ) throws -> DocumentPackage {
        // Retained, so that an unlocked domain is still unlocked when the store is opened.
        var protection: StoreProtection?
        defer { withExtendedLifetime(protection) {} }
        let lock = try build(at: path, locking: true) { layout in
            let store = try SQLiteStore.create(at: layout.store, model: model, options: options)
            protection = store.protection
            let generation = try fill(store, layout)
            try metadata(of: store, generation: generation).write(to: layout)
            try store.close()
        }
        let layout = DocumentPackageLayout(path: path)
        var options = options
        options.isReadOnly = false
        options.isOnlyWriter = true
        do {
            // Passed again, because the file does not contain the classes bound to it.
            return try open(layout, model, options, nil, lock, false)
        } catch {
            removeUnused(layout.path)
            throw error
        }
    }

    /// Opens the package at a URL; see ``open(at:model:readOnly:options:migrating:waiting:)-(String,_,_,_,_,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or the errors of that method.
    public static func open(
        at url: URL, model: ManagedObjectModel? = nil, readOnly: Bool = false,
        options: SQLiteStoreOptions = .init(), migrating migration: StoreMigrationOptions? = nil,
        waiting: LockWait? = nil
    ) throws -> DocumentPackage {
        try open(
            at: FileSystem.path(of: url), model: model, readOnly: readOnly, options: options,
            migrating: migration, waiting: waiting)
    }

    /// Opens a package, or, for reading only, the document in an archive.
    ///
    /// A zip file created by Quire is not unpacked, whatever its size, and the data read is verified against its manifest. Other
    /// archives, of all formats that can be extracted, are unpacked to a private folder until the document is closed.
    ///
    /// - Parameters:
    ///   - path: The package folder, or with `readOnly` also an archive.
    ///   - model: The model; `nil` for the one stored in the store.
    ///   - readOnly: Whether to open it for reading only, which leaves no trace and is possible while another process writes it.
    ///   - options: The options of the store.
    ///   - migration: How to migrate a store with another version of the model; `nil` not to migrate it. Additional content and external
    ///     data are kept, and a draft is migrated with the objects. The state before is kept as a version, unless
    ///     ``StoreMigrationOptions/keepsVersion`` is false.
    ///   - waiting: How to wait while another owner has it open for writing, which blocks the thread; `nil` to fail at once.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if it is not a package, `unsupported` if it was created by
    ///   a newer version, `locked` if another owner has it open for writing, `readOnly` if it is an archive that is to be written, or
    ///   errors of the store.
    public static func open(
        at path: String, model: ManagedObjectModel? = nil, readOnly: Bool = false,
        options: SQLiteStoreOptions = .init(), migrating migration: StoreMigrationOptions? = nil,
        waiting: LockWait? = nil
    ) throws -> DocumentPackage {
        let layout = DocumentPackageLayout(path: path)
        if ArchivedDocument.isArchive(layout.path) {
            guard readOnly else {
                throw QuireError(
                    .readOnly,
                    "“\(layout.path)” is an archive and cannot be changed; open it for reading only, or extract it first.",
                    file: layout.path)
            }
            return try open(
                archive: layout.path, model: model, options: options, migrating: migration)
        }
        if !readOnly { try finishInterruptedExchange(at: layout.path) }
        try checkIsPackage(layout)
        try DocumentMetadata.checkFormat(of: layout)
        var options = options
        options.isReadOnly = readOnly
        // A document opened for reading only records no history either: edits are saved to a copy.
        options.isOnlyWriter = true
        if readOnly {
            let isOpen = FileSystem.exists(layout.lock) || layout.hasLog
            let store = try openStore(layout, model, options, migration)
            return DocumentPackage(
                layout: layout, store: store, lock: nil, wasInterrupted: isOpen)
        }
        let lock = try DocumentLock.acquire(for: layout, waiting: waiting)
        let wasInterrupted = lock.wasLeft || layout.hasLog
        if let model, let migration {
            try keepVersion(of: layout, beforeMigratingTo: model, options, migration)
        }
        return try open(layout, model, options, migration, lock, wasInterrupted)
    }

    /// Opens a package for writing, whose lock the caller has.
    private static func open(
        _ layout: DocumentPackageLayout, _ model: ManagedObjectModel?,
        _ options: SQLiteStoreOptions, _ migration: StoreMigrationOptions?, _ lock: DocumentLock?,
        _ wasInterrupted: Bool
    ) throws -> DocumentPackage {
        let store = try openStore(layout, model, options, migration)
        let package = DocumentPackage(
            layout: layout, store: store, lock: lock, wasInterrupted: wasInterrupted)
        do {
            package.removeLeftovers()
            try package.tidy(generation: package.liveGeneration())
        } catch {
            try? store.close()
            throw error
        }
        TemporarySibling.removeAbandoned(in: FileSystem.folder(of: layout.path))
        return package
    }

    static func openStore(
        _ layout: DocumentPackageLayout, _ model: ManagedObjectModel?,
        _ options: SQLiteStoreOptions, _ migration: StoreMigrationOptions?
    ) throws -> SQLiteStore {
        guard let model, let migration else {
            return try SQLiteStore.open(at: layout.store, model: model, options: options)
        }
        return try SQLiteStore.open(
            at: layout.store, model: model, options: options, migrating: migration.migratingDraft)
    }

    /// Keeps a version, with the old model, of a package that is about to be migrated, whose lock the caller has.
    private static func keepVersion(
        of layout: DocumentPackageLayout, beforeMigratingTo model: ManagedObjectModel,
        _ options: SQLiteStoreOptions, _ migration: StoreMigrationOptions
    ) throws {
        guard migration.keepsVersion else { return }
        let steps = try SQLiteStore.steps(at: layout.store, to: model, migration)
        guard let old = steps.first?.source else { return }
        // If the migration is not possible, no version is kept.
        try SQLiteStore.checkRemovals(at: layout.store, by: steps, migration, options)
        var options = options
        options.isReadOnly = true
        let store = try SQLiteStore.open(at: layout.store, model: old, options: options)
        defer { try? store.close() }
        let package = DocumentPackage(layout: layout, store: store, lock: nil)
        _ = try package.versionStore.keep(
            package, .init(reason: .beforeMigrating), by: .linking, onlyIfNew: true, progress: nil)
    }

    /// Closes the package, after waiting for versions that are being kept or removed. Closing twice does nothing.
    public func close() throws {
        defer {
            if let lock, !hasSuccessor.load(ordering: .acquiring) {
                versionStore.writing.withLock { lock.release() }
            }
        }
        // If another package has replaced this one, its files must not be removed.
        if !isInPlace { store.supersede() }
        try store.close()
        archived?.close()
    }

    /// Whether it is in an archive.
    var isArchived: Bool { archived != nil }

    /// The package that copies of a document in an archive are named after; `nil` if it is not in one.
    var archiveSibling: String? { archived?.sibling }

    /// Hands the lock over to a package with the same content and a store that was opened since.
    func succeeding(by store: SQLiteStore, generation: Int?) -> DocumentPackage {
        let successor = DocumentPackage(
            layout: layout, store: store, lock: lock, versionStore: versionStore,
            folder: isInPlace ? folder : nil)
        hasSuccessor.store(true, ordering: .releasing)
        lock?.add(generation: generation)
        successor.bringMetadataUpToDate(generation: generation)
        return successor
    }

    /// Takes the lock back from a successor that is not used after all, and closes that.
    func resume(insteadOf successor: DocumentPackage) {
        hasSuccessor.store(false, ordering: .releasing)
        successor.hasSuccessor.store(true, ordering: .releasing)
        try? successor.close()
    }

    /// Hands the lock over to a package at another path, to which this one was moved. It uses this package's open folder, because the
    /// path may have changed again.
    func succeeding(at layout: DocumentPackageLayout, by store: SQLiteStore) -> DocumentPackage {
        lock?.move(to: layout)
        hasSuccessor.store(true, ordering: .releasing)
        return DocumentPackage(layout: layout, store: store, lock: lock, folder: folder)
    }

    package static func checkIsPackage(_ layout: DocumentPackageLayout) throws {
        guard let information = try FileSystem.information(at: layout.path) else {
            throw FileSystem.failure("open", layout.path, errno: ENOENT)
        }
        if information.kind == .folder, let error = layout.foreignEntries().first { throw error }
        guard information.kind == .folder, layout.isPackage else {
            throw QuireError(
                .invalidFormat,
                "“\(layout.path)” is not a document: it is not a folder that contains StoreContent/persistentStore.",
                file: layout.path)
        }
    }

    /// Restores a package that was being replaced when the process or the machine stopped.
    private static func finishInterruptedExchange(at path: String) throws {
        let path = FileSystem.resolvingLink(path)
        // An unreadable folder is reported when the package is opened.
        guard let aside = (try? FileSystem.interruptedExchange(of: path)) ?? nil else { return }
        try FileSystem.renameWithoutReplacing(aside, to: path)
        try FileSystem.synchronizeFolder(containing: path)
    }

    /// Builds a package beside its path, and moves it there.
    ///
    /// - Parameters:
    ///   - replacing: Whether to replace an existing package, which must not be open for writing. Files in it that are not
    ///     part of the document are kept.
    ///   - waiting: How to wait while it is open for writing.
    ///   - locking: Whether it is locked from the start, for a caller that opens it.
    ///   - original: The folder whose permissions it gets; `nil` for those of any new folder.
    ///   - whenLocked: Called when the existing package is locked, before it is replaced.
    /// - Returns: The lock, with `locking`.
    @discardableResult
    static func build(
        at path: String, replacing: Bool = false, waiting: LockWait? = nil, locking: Bool = false,
        permissionsOf original: FileInformation? = nil, whenLocked: () throws -> Void = {},
        _ body: (DocumentPackageLayout) throws -> Void
    ) throws -> DocumentLock? {
        let path = replacing ? FileSystem.resolvingLink(path) : FileSystem.absolute(path)
        try checkOutside(path)
        if !replacing, FileSystem.exists(path) {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        return try sibling.building {
            try build(
                at: path, as: sibling, replacing: replacing, waiting: waiting, locking: locking,
                permissionsOf: original, whenLocked: whenLocked, body)
        }
    }

    private static func build(
        at path: String, as sibling: TemporarySibling, replacing: Bool, waiting: LockWait?,
        locking: Bool, permissionsOf original: FileInformation?, whenLocked: () throws -> Void,
        _ body: (DocumentPackageLayout) throws -> Void
    ) throws -> DocumentLock? {
        let temporary = sibling.path
        let layout = DocumentPackageLayout(path: temporary)
        try FileSystem.makeFolder(layout.storeFolder)
        try body(layout)
        let lock = locking ? try DocumentLock.acquire(for: layout) : nil
        try sibling.setFinalPermissions(of: original)
        try FileSystem.synchronizeTree(temporary)
        let place = DocumentPackageLayout(path: path)
        if replacing, FileSystem.exists(path) {
            let replaced = try DocumentLock.acquire(for: place, waiting: waiting)
            try whenLocked()
            if try keepForeignFiles(of: place, in: layout) {
                try FileSystem.synchronizeTree(temporary)
            }
            // It has the temporary name for a while, during which other processes must not consider it abandoned.
            let claim = try OpenFile.open(path, for: .folder)
            defer { claim.close() }
            _ = try claim.claim()
            try TerminationCleanup.uninterrupted {
                try FileSystem.exchange(temporary, path)
                do {
                    try FileSystem.synchronizeFolder(containing: path)
                } catch {
                    try? FileSystem.exchange(temporary, path)
                    throw error
                }
            }
            replaced.move(to: layout)
            lock?.move(to: place)
            sibling.remove()
        } else {
            try sibling.publish()
            lock?.move(to: place)
        }
        return lock
    }

    /// Copies the files of a package that are not part of the document to its replacement, because they may be the user's.
    ///
    /// - Returns: Whether there are any.
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if there is anything but files and folders, or errors of
    ///   reading and writing.
    private static func keepForeignFiles(
        of old: DocumentPackageLayout, in new: DocumentPackageLayout
    ) throws -> Bool {
        let paths = try old.foreignFiles()
        for path in paths {
            let place = new.path + path.dropFirst(old.path.count)
            try FileSystem.makeFolder(FileSystem.folder(of: place), withIntermediates: true)
            if try FileSystem.information(at: path, beneath: old.path)?.kind == .folder {
                try FileSystem.copyTree(path, beneath: old.path, to: place, by: .linking)
            } else {
                try FileSystem.linkOrCopy(path, beneath: old.path, to: place)
            }
        }
        return !paths.isEmpty
    }

    // MARK: Saving

    /// The generation of additional content of the last save, or `nil` if there is no additional content.
    func liveGeneration() throws -> Int? { try content.generation(in: store.records()) }

    /// Updates the metadata after a save, and removes files that are no longer needed. Failures are harmless and only logged.
    func tidy(generation: Int?) {
        guard let lock, !hasSuccessor.load(ordering: .acquiring) else { return }
        bringMetadataUpToDate(generation: generation)
        lock.add(generation: generation)
        content.collectGarbage(except: generation, of: lock.ownGenerations)
    }

    private func bringMetadataUpToDate(generation: Int?) {
        do {
            try writeMetadata(generation: generation)
        } catch {
            Self.logger.warning("Could not write the metadata of “\(layout.path)”: \(error)")
        }
    }

    func writeMetadata(generation: Int?) throws {
        try Self.metadata(of: store, generation: generation).write(to: layout)
    }

    private static func metadata(of store: SQLiteStore, generation: Int?) -> DocumentMetadata {
        DocumentMetadata(
            storeUUID: store.identity.uuid, storeType: store.type.rawValue,
            additionalContentGeneration: generation)
    }

    // MARK: Additional content

    /// The paths and sizes of the files of additional content, as of the last save.
    public func additionalContent() throws -> [(path: String, size: Int64)] {
        try withLiveGeneration { try content.files(in: $0) }.map { ($0.path.text, $0.size) }
    }

    /// The bytes of a file of additional content, as of the last save, or `nil` if it does not exist.
    public func additionalContent(at path: String) throws -> Data? {
        try additionalContentFile(at: path)?.readAll()
    }

    /// Runs a body with the current generation, and again if a writer replaced it meanwhile.
    func withLiveGeneration<Result>(_ body: (Int?) throws -> Result) throws -> Result {
        var generation = try liveGeneration()
        while true {
            do {
                return try body(generation)
            } catch let error as QuireError where error.code == .notFound {
                let newer = try liveGeneration()
                if newer == generation { throw error }
                generation = newer
            }
        }
    }
}

// MARK: - Writing

extension DocumentPackage {
    /// Writes a new generation of additional content, durably. If that could not be made durable the store is opened again
    /// and checked before the next save.
    ///
    /// - Returns: Its number, or `nil` if no file is left.
    func writeContent(_ changes: AdditionalContentChanges, after live: Int?) throws -> Int? {
        do {
            let generation = try content.write(changes, after: live, store.records())
            lock?.add(generation: generation)
            return generation
        } catch {
            store.distrust(after: error)
            throw error
        }
    }
}

extension DocumentPackage {
    /// Ends all use of the package after everything has been saved. Failures are logged; the next owner of the package removes
    /// leftovers, and the write-ahead log has everything that was saved.
    package func closeSaved() { reportingFailure(of: close, layout.path) }
}

extension PersistentStore {
    /// Closes the store after everything has been saved. Failures are logged: the saved changes are on disk.
    func closeSaved() { reportingFailure(of: close, path) }
}

extension PersistentStoreCoordinator {
    /// Closes a document's own store, and those that a subclass has added, in the same way.
    func closeSaved() { reportingFailure(of: close, persistentStores.first?.path) }
}

private func reportingFailure(of close: () throws -> Void, _ path: String?) {
    do { try close() } catch {
        Logger(label: "quire.document").warning(
            "“\(path ?? "")” was closed, but its store was not closed cleanly: \(error)")
    }
}
