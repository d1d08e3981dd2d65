import Foundation
import Quire
internal import QuireSQLite
internal import QuireStore

/// The changes of a document since its package was saved.
struct UnsavedChanges: Sendable {
    var objects = ChangeSet()
    var content = AdditionalContentChanges()
    /// The names of all files of additional content, these changes included, as far as they are known.
    var contentNames = AdditionalContentNames([])

    var isEmpty: Bool { objects.isEmpty && content.isEmpty }
}

/// The destination of saving as another package.
struct SaveDestination: Sendable {
    var path: String
    /// Whether a document that is there is replaced.
    var replaces: Bool
    /// Whether a damaged document is copied with its damage.
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
        // Opening makes the log, and saving writes to it.
        return files.filter { $0.size > 0 }.map(\.modificationTime).max()
            .map { Date(timeIntervalSince1970: TimeInterval($0)) }
    }
}

// Saving elsewhere than to the package itself: a copy of the last save is made beside the destination, unsaved changes are
// added to it in one transaction, and then it gets its name. The package itself is only read.
//
// If others have deleted the package, or put another one in its place, the copy is made all the same, of the open store and
// of the unsaved changes. Its files are gone: those that the copy lacks are reported when it is there.

extension DocumentPackage {
    /// Writes a copy that includes unsaved changes.
    ///
    /// - Throws: As ``writeCopy(to:replacing:keepingDamage:waiting:progress:)``; also with code `notFound` after the copy was made.
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

    /// Writes such a copy and opens it, to be used instead of this package. No one else can have opened it
    /// before.
    ///
    /// - Returns: The package, whose store continues this one's, the objects whose derived values are new, and the error
    ///   that names files which could not be copied.
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
            return (
                DocumentPackage(layout: layout, store: store, lock: lock), filled.derived,
                filled.lost.isEmpty ? nil : incomplete(destination.path, without: filled.lost)
            )
        } catch {
            if !destination.replaces { Self.removeUnused(layout.path) }
            throw error
        }
    }

    /// Removes a new package that cannot be used. Its name is free even if no file can be opened any more.
    static func removeUnused(_ path: String) {
        let temporary = FileSystem.temporarySibling(of: path, for: "new")
        guard (try? FileSystem.renameWithoutReplacing(path, to: temporary)) != nil else { return }
        try? FileSystem.removeTree(temporary)
    }

    /// Whether the package is found under its path, and not moved, deleted, or another in its place.
    var isInPlace: Bool { folder.map { Self.isFound($0, at: layout.path) } ?? true }

    /// The present path of the package; `nil` if it was deleted.
    var presentPath: String? {
        guard let folder else { return layout.path }
        // Linux knows the path of a folder that is open.
        guard let path = folder.presentPath, Self.isFound(folder, at: path) else { return nil }
        return path
    }

    private static func isFound(_ folder: OpenFile, at path: String) -> Bool {
        guard let found = (try? FileSystem.information(at: path)) ?? nil,
            let own = try? folder.information()
        else { return false }
        return found.isSameFile(as: own)
    }

    /// Goes on with the package where it is now, after its folder was moved. This object is then to be closed; if it
    /// fails, it is as it was.
    func moved(to path: String) throws -> DocumentPackage {
        let layout = DocumentPackageLayout(path: path)
        let unreferenced = store.supersede()
        // Where it could not be opened twice; what is deleted just then cannot be read any more.
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
    /// - Parameter isLost: Whether the copy may lack files that others have removed with this package.
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
            // Its changes are written now.
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
                    // Files whose names are unknown, because they were not read.
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

/// A file that a copy lacks because others have removed it together with the package.
enum MissingFile: Sendable, Equatable {
    /// A file of external data, by its name.
    case externalData(String)
    /// A file of additional content, by its path; `nil` for all that there were.
    case additionalContent(String?)
}

extension DocumentPackage {
    /// Finishes a copy of the last save that was made while others may have removed the package.
    ///
    /// - Returns: The files that it lacks.
    func finishIfLost(_ target: DocumentPackageLayout) throws -> [MissingFile] {
        if location() == .here { return [] }
        return try add(UnsavedChanges(), to: target, isLost: true).lost
    }

    /// The error of a copy that was made, but lacks files.
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
            return QuireError(.notFound, name, subject: .init(file: path))
        }
        let most = 10
        let named = failures.prefix(most).map(\.message).joined(separator: ", ")
        let more = failures.count > most ? " and \(failures.count - most) more" : ""
        return QuireError(
            .notFound,
            "“\(layout.path)” was moved, deleted or replaced by another program while it was open. “\(path)” contains all "
                + "objects and values, but not these files, which were lost with it: \(named)\(more); restore them from a "
                + "backup.", subject: .init(file: path), failures: failures)
    }
}
