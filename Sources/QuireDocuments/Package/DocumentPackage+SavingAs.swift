import Foundation
import Quire
internal import QuireSQLite
internal import QuireStore

/// The changes of a document since its package was saved.
struct UnsavedChanges: Sendable {
    var objects = ChangeSet()
    var content = AdditionalContentChanges()
    /// The known names of all files of additional content, including these changes.
    var contentNames = AdditionalContentNames([])

    var isEmpty: Bool { objects.isEmpty && content.isEmpty }
}

/// The destination of saving as another package.
struct SaveDestination: Sendable {
    var path: String
    /// Whether an existing document is replaced.
    var replaces: Bool
    /// Whether a damaged document is copied as it is.
    var keepsDamage = false
    var progress: Progress?
}

extension DocumentPackage {
    /// The time of the last write to the store; `nil` if it is unknown.
    var modificationDate: Date? { Self.modificationDate(of: layout) }

    /// The time of the last write to the store of a package; `nil` if it is unknown.
    static func modificationDate(of layout: DocumentPackageLayout) -> Date? {
        let files = ["", "-wal"].compactMap {
            (try? FileSystem.information(at: layout.store + $0)) ?? nil
        }
        // Opening creates the write-ahead log, and saving writes to it.
        return files.filter { $0.size > 0 }.map(\.modificationTime).max()
            .map { Date(timeIntervalSince1970: TimeInterval($0)) }
    }
}

// Saving as another package: a copy of the last save is written beside the destination, unsaved changes are added to it in one
// transaction, and then it gets its final name. The package itself is only read.
//
// If another program has deleted or replaced the package, the copy is written from the open store and the unsaved changes. Files
// that were deleted with the package are reported after the copy has been created.

extension DocumentPackage {
    /// Writes a copy that includes unsaved changes.
    ///
    /// - Throws: As ``writeCopy(to:replacing:keepingDamage:waiting:progress:)``; also with code `notFound` after the copy was created.
    func writeCopy(to destination: SaveDestination, with unsaved: UnsavedChanges) throws {
        try checkOutside(destination.path)
        if destination.replaces { try checkReplaceable(destination.path) }
        var lost: [MissingFile] = []
        try Self.build(
            at: destination.path, replacing: destination.replaces,
            permissionsOf: folderInformation()
        ) { lost = try fill($0, with: unsaved, for: destination).lost }
        if !lost.isEmpty { throw incomplete(destination.path, without: lost) }
    }

    /// Writes such a copy and opens it, to replace this package. No other process can have opened it before.
    ///
    /// - Returns: The package, whose store continues this one's, the objects whose derived values have changed, and the error that
    ///   lists files which could not be copied.
    func saveAs(
        _ destination: SaveDestination, with unsaved: UnsavedChanges
    ) throws -> (package: DocumentPackage, derived: [ManagedObjectID], incomplete: QuireError?) {
        try checkOutside(destination.path)
        if destination.replaces { try checkReplaceable(destination.path) }
        var filled: (derived: [ManagedObjectID], lost: [MissingFile]) = ([], [])
        let lock = try Self.build(
            at: destination.path, replacing: destination.replaces, locking: true,
            permissionsOf: folderInformation()
        ) { filled = try fill($0, with: unsaved, for: destination) }
        let layout = DocumentPackageLayout(path: destination.path)
        do {
            let store = try SQLiteStore.open(
                at: layout.store, continuing: store, options: writingOptions)
            let package = DocumentPackage(layout: layout, store: store, lock: lock)
            try lock?.add(generation: package.liveGeneration())
            return (
                package, filled.derived,
                filled.lost.isEmpty ? nil : incomplete(destination.path, without: filled.lost)
            )
        } catch {
            if !destination.replaces { Self.removeUnused(layout.path) }
            throw error
        }
    }

    /// Removes a new package that cannot be used. Its name is freed even if no more files can be opened.
    static func removeUnused(_ path: String) {
        let temporary = FileSystem.temporarySibling(of: path, for: "new")
        guard (try? FileSystem.renameWithoutReplacing(path, to: temporary)) != nil else { return }
        try? FileSystem.removeTree(temporary)
    }

    /// Whether the package is still at its path: not moved, deleted or replaced.
    var isInPlace: Bool { folder.map { Self.isFound($0, at: layout.path) } ?? true }

    /// The present path of the package; `nil` if it was deleted.
    var presentPath: String? {
        guard let folder else { return layout.path }
        // Linux reports the current path of an open folder.
        guard let path = folder.presentPath, Self.isFound(folder, at: path) else { return nil }
        return path
    }

    private static func isFound(_ folder: OpenFile, at path: String) -> Bool {
        guard let found = (try? FileSystem.information(at: path)) ?? nil,
            let own = try? folder.information()
        else { return false }
        return found.isSameFile(as: own)
    }

    /// Opens the package at its current path, after its folder was moved. Close this object then; if opening fails, it is
    /// unchanged.
    func moved(to path: String) throws -> DocumentPackage {
        let layout = DocumentPackageLayout(path: path)
        let unreferenced = store.supersede()
        // For file systems on which it cannot be opened twice; a package deleted at this moment can no longer be read.
        if store.hasExclusiveAccess { try store.close() }
        let new = try SQLiteStore.open(
            at: layout.store, continuing: store, options: store.storeOptions)
        new.willClean(unreferenced)
        return succeeding(at: layout, by: new)
    }

    private var writingOptions: SQLiteStoreOptions {
        var options = store.storeOptions
        options.isReadOnly = false
        return options
    }

    private func fill(
        _ target: DocumentPackageLayout, with unsaved: UnsavedChanges,
        for destination: SaveDestination
    ) throws -> (derived: [ManagedObjectID], lost: [MissingFile]) {
        try fill(
            target, by: .copying, keepingDamage: destination.keepsDamage,
            progress: destination.progress)
        let isLost = location() != .here
        if try unsaved.isEmpty && !store.hasDraft() && !isLost { return ([], []) }
        return try add(unsaved, to: target, isLost: isLost)
    }

    /// Adds unsaved changes to a copy of the last save.
    ///
    /// - Parameter isLost: Whether the copy may lack files that were removed with this package.
    private func add(
        _ unsaved: UnsavedChanges, to target: DocumentPackageLayout, isLost: Bool
    ) throws -> (derived: [ManagedObjectID], lost: [MissingFile]) {
        let copy = try SQLiteStore.open(
            at: target.store, continuing: store, options: writingOptions)
        do {
            let content = AdditionalContentStore(
                layout: target, classKey: copy.protection?.classKey)
            let named = try content.generation(in: copy.records())
            let old = named.flatMap {
                FileSystem.exists(target.additionalContent(generation: $0)) ? $0 : nil
            }
            var (changes, new) = (unsaved.objects, old)
            // The draft's changes are written now.
            changes.records[SQLiteStore.draftRecordKey] = .some(nil)
            if !unsaved.content.isEmpty {
                new = try content.write(unsaved.content, after: old, copy.records())
            }
            if new != named {
                changes.records.merge(
                    AdditionalContentStore.records(ofGeneration: new, after: unsaved.content)
                ) { $1 }
            }
            let derived = try copy.save(changes)
            try DocumentPackage(layout: target, store: copy, lock: nil).writeMetadata(
                generation: new)
            content.collectGarbage(except: new)
            var lost: [MissingFile] = []
            if isLost {
                lost = try copy.externalFiles().filter { !FileSystem.exists($0.path) }
                    .map { .externalData(FileSystem.name(of: $0.path)) }
                if unsaved.content.rewriting == nil {
                    let present = Set(try content.files(in: new).map(\.path))
                    let missing = unsaved.contentNames.sorted.filter { !present.contains($0) }
                    lost += missing.map { .additionalContent($0.text) }
                    // Files with unknown names, because they were not read.
                    if named != nil && old == nil && unsaved.content.isEmpty && missing.isEmpty {
                        lost.append(.additionalContent(nil))
                    }
                }
            }
            try copy.close()
            return (derived, lost)
        } catch {
            try? copy.close()
            throw error
        }
    }
}

// MARK: - Deleted packages

/// A file missing from a copy, because it was removed together with the package.
enum MissingFile: Sendable, Equatable {
    /// A file of external data, by its name.
    case externalData(String)
    /// A file of additional content, by its path; `nil` for all of them.
    case additionalContent(String?)
}

extension DocumentPackage {
    /// Finishes a copy of the last save during which the package may have been removed.
    ///
    /// - Returns: The missing files.
    func finishIfLost(_ target: DocumentPackageLayout) throws -> [MissingFile] {
        if location() == .here { return [] }
        return try add(UnsavedChanges(), to: target, isLost: true).lost
    }

    /// The error of a copy that was created without some files.
    func incomplete(_ path: String, without lost: [MissingFile]) -> QuireError {
        let failures = lost.map { file in
            let (name, path) =
                switch file {
                case .externalData(let name):
                    ("the external data “\(name)”", FileSystem.path(layout.externalData, name))
                case .additionalContent(let name?):
                    ("the additional content “\(name)”", name)
                case .additionalContent(nil):
                    ("the additional content", layout.additionalContent)
                }
            return QuireError(.notFound, name, file: path)
        }
        let most = 10
        let named = failures.prefix(most).map(\.message).joined(separator: ", ")
        let more = failures.count > most ? " and \(failures.count - most) more" : ""
        return QuireError(
            .notFound,
            "“\(layout.path)” was moved, deleted or replaced by another program while it was open. “\(path)” contains all "
                + "objects and values, but not these files, which were lost with it: \(named)\(more); restore them from a "
                + "backup.",
            file: path, failures: failures)
    }
}
