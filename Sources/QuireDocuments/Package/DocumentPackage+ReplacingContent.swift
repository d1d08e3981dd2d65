public import Foundation
public import Quire

extension DocumentPackage {
    /// Makes the content of this package that of another one as of its last save: rows, external data and additional
    /// content, all or nothing.
    ///
    /// The document stays itself: it keeps its place, its UUID, its versions and the right to write, which is not given up
    /// for a moment. Whoever reads beside sees the old or the new content, never a mix. The commit of one transaction
    /// replaces the content; whatever stops the machine before leaves the old, after it the new.
    ///
    /// ```swift
    /// let replaced = try package.replaceContent(with: other)
    /// // Make contexts over replaced.store, then:
    /// try package.close()          // Keeps the lock, which replaced has taken over.
    /// replaced.removeReplacedContent()
    /// ```
    ///
    /// The store object of this package may know what is there no more: cached rows, statements, identifiers. So it does not
    /// save any more, and a new package, with a store that was opened since, comes in the place of this one. This one still
    /// reads, and finds the files that rows read before refer to, until the new one's ``removeReplacedContent()``.
    ///
    /// Nobody may save meanwhile. Not to be called on the main queue.
    ///
    /// - Parameters:
    ///   - other: The package with the content. Others may go on reading and saving it.
    ///   - migration: How the content is migrated if it is of another version of the model; `nil` if it is not to be. The
    ///     other package is left alone.
    ///   - progress: Cancelling it leaves everything as it was.
    /// - Returns: The package to use from now on. It owns the lock.
    /// - Complexity: O(*n*) in the size of the content.
    /// - Throws: ``QuireError`` with code `readOnly`, `incompatibleModel`, `outOfSpace`, `locked`, `cancelled`, `notFound`,
    ///   or what reading and writing throw; then the content is as it was. With code `storeUnavailable`, if the disk failed,
    ///   or the store could not be opened after its content had been replaced, or with `outOfSpace`, if the last pages could
    ///   not be synchronized: close the package; whoever opens it finds the old or the new content.
    public func replaceContent(
        with other: DocumentPackage, migrating migration: StoreMigrationOptions? = nil,
        progress: Progress? = nil
    ) throws -> DocumentPackage {
        try replaceContent(migrating: migration, progress: progress) {
            if StoreProtection.hasKeys(store.protection, of: other.store.protection) {
                try other.fill($0, by: .copying)
            } else {
                try store.protection?.writeKeybag(forStoreAt: $0.store)
                try other.fill($0, protectedBy: store.protection, withoutDraft: true)
            }
        }
    }

    /// Makes the content of this package what a body puts into a new folder.
    ///
    /// - Parameter fill: Fills a folder that has the layout of a package, with files that may be moved away from there.
    func replaceContent(
        migrating migration: StoreMigrationOptions?, progress: Progress?,
        by fill: (DocumentPackageLayout) throws -> Void
    ) throws -> DocumentPackage {
        try checkMayWrite()
        let staging = DocumentPackageLayout(
            path: FileSystem.temporarySibling(of: layout.storeFolder, for: "replacement"))
        defer { try? FileSystem.removeTree(staging.path, beneath: layout.path) }
        let staged = StagedContent(staging: staging, package: self)
        do {
            try FileSystem.building(layout.path, as: staging.path) {
                try FileSystem.makeFolder(staging.path, beneath: layout.path)
                try FileSystem.makeFolder(staging.storeFolder)
                try fill(staging)
                try checkCancelled(progress)
                try staged.moveIn(migrating: migration)
                try checkCancelled(progress)
                try store.replaceContent(withDatabaseAt: staging.store, progress: progress)
            }
        } catch {
            // If nobody knows which content is there, the next owner of the package finds out.
            if !error.leavesCommitOpen { staged.moveOut() }
            throw error
        }
        do {
            return try succeeding(by: openStoreAgain(), generation: staged.generation)
        } catch {
            throw QuireError(
                .storeUnavailable,
                "The content of “\(layout.path)” has been replaced, but it cannot be opened: \(error); close the document and "
                    + "open it again.", subject: .init(file: layout.path), underlying: error)
        }
    }

    /// Removes what only the replaced content needs. To be called when nothing of it is read any more; until then, or if it
    /// never is, it costs space and nothing else.
    public func removeReplacedContent() {
        tidy(generation: try? liveGeneration())
    }

    private func openStoreAgain() throws -> SQLiteStore {
        do {
            return try store.openAgain()
        } catch let error as QuireError where error.code == .locked {
            // Where there is no shared memory, one connection has the file to itself.
            try store.close()
            return try store.openAgain()
        }
    }

    func checkMayWrite() throws {
        if isReadOnly {
            throw QuireError(
                .readOnly, "“\(layout.path)” was opened for reading only and cannot be changed.",
                subject: .init(file: layout.path))
        }
    }

    private func checkCancelled(_ progress: Progress?) throws {
        if progress?.isCancelled == true {
            throw QuireError(
                .cancelled,
                "Replacing the content of “\(layout.path)” was cancelled; it is as it was.",
                subject: .init(file: layout.path))
        }
    }
}

/// Content on its way into a package: in a folder of its own first, then beside what is live, where nothing names it
/// until the store's transaction. Until then nothing that is live is replaced or removed.
private final class StagedContent {
    private let staging: DocumentPackageLayout
    private let package: DocumentPackage
    /// The generation that its additional content has in the package.
    private(set) var generation: Int?
    /// Files of external data that were not there before.
    private var added: [String] = []

    init(staging: DocumentPackageLayout, package: DocumentPackage) {
        self.staging = staging
        self.package = package
    }

    /// Makes the store ready, and everything it refers to durable in its place.
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
            // What is migrated is a copy already.
            migration.copyPath = nil
            return try SQLiteStore.open(
                at: path, model: model, options: options, migrating: migration)
        }
        if files.isEmpty { return }
        let folder = package.layout.externalData
        try FileSystem.makeFolder(folder, beneath: root, withIntermediates: true)
        for name in files {
            let file = FileSystem.path(staging.externalData, name)
            let target = FileSystem.path(folder, name)
            // One that is there has the same bytes: else the store would have given ours another name.
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

    /// Takes back what was put into its place.
    func moveOut() {
        let root = package.layout.path
        for path in added { _ = try? FileSystem.removeFileIfPresent(path, beneath: root) }
        if let generation { package.content.discard(generation) }
    }
}
