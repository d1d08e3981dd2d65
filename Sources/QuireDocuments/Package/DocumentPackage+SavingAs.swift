import Foundation
import Quire

/// What a document has beyond what its package was saved with.
struct UnsavedChanges: Sendable {
    var objects = ChangeSet()
    var content = AdditionalContentChanges()

    var isEmpty: Bool { objects.isEmpty && content.isEmpty }
}

/// Where a document is to be written to.
struct SaveDestination: Sendable {
    var path: String
    /// Whether a document that is there is replaced.
    var replaces: Bool
    /// Whether a damaged document is copied with its damage.
    var keepsDamage = false
}

extension DocumentPackage {
    /// When the store was written last; `nil` if that cannot be told.
    var modificationDate: Date? {
        let times = ["", "-wal"].compactMap {
            ((try? FileSystem.information(at: layout.store + $0)) ?? nil)?.modificationTime
        }
        return times.max().map { Date(timeIntervalSince1970: TimeInterval($0)) }
    }
}

// Saving elsewhere than to the package itself: a copy of the last save is made beside the destination, what is unsaved is
// added to it in one transaction, and then it gets its name. The package itself is only read.

extension DocumentPackage {
    /// Writes a copy that has what is unsaved too.
    func writeCopy(to destination: SaveDestination, with unsaved: UnsavedChanges) throws {
        try checkOutside(destination.path)
        if destination.replaces { try checkReplaceable(destination.path) }
        try Self.build(
            at: destination.path, replacing: destination.replaces,
            permissionsOf: folderInformation()
        ) { try fill($0, with: unsaved, keepingDamage: destination.keepsDamage) }
    }

    /// Writes such a copy and opens it, to go on with it in the place of this package. Nobody else can have opened it
    /// before.
    ///
    /// - Returns: The package, whose store continues this one's, and the objects whose derived values are new.
    func saveAs(
        _ destination: SaveDestination, with unsaved: UnsavedChanges
    ) throws -> (package: DocumentPackage, derived: [ManagedObjectID]) {
        try checkOutside(destination.path)
        if destination.replaces { try checkReplaceable(destination.path) }
        var derived: [ManagedObjectID] = []
        let lock = try Self.build(
            at: destination.path, replacing: destination.replaces, locking: true,
            permissionsOf: folderInformation()
        ) { derived = try fill($0, with: unsaved, keepingDamage: destination.keepsDamage) }
        let layout = DocumentPackageLayout(path: destination.path)
        do {
            let store = try SQLiteStore.open(
                at: layout.store, continuing: store, options: writingOptions)
            return (DocumentPackage(layout: layout, store: store, lock: lock), derived)
        } catch {
            if !destination.replaces { Self.takeBack(layout.path) }
            throw error
        }
    }

    /// Removes a new package that cannot be gone on with. Its name is free even if no file can be opened any more.
    static func takeBack(_ path: String) {
        let temporary = FileSystem.temporarySibling(of: path, for: "new")
        guard (try? FileSystem.renameWithoutReplacing(path, to: temporary)) != nil else { return }
        try? FileSystem.removeTree(temporary)
    }

    /// Whether the package is found under its path, and not moved, deleted, or another in its place.
    var isInPlace: Bool { folder.map { Self.isFound($0, at: layout.path) } ?? true }

    /// Where the package is now, wherever it was moved to; `nil` if it was deleted.
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
        if store.isAloneWithFile { try store.close() }
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

    @discardableResult
    private func fill(
        _ target: DocumentPackageLayout, with unsaved: UnsavedChanges, keepingDamage: Bool
    ) throws -> [ManagedObjectID] {
        try fill(target, by: .copying, keepingDamage: keepingDamage)
        if try unsaved.isEmpty && !store.hasDraft() && place() == .here { return [] }
        let copy = try SQLiteStore.open(
            at: target.store, continuing: store, options: writingOptions)
        do {
            let content = AdditionalContentStore(layout: target)
            let named = try content.generation(in: copy.records())
            let old = named.flatMap {
                FileSystem.exists(target.additionalContent(generation: $0)) ? $0 : nil
            }
            var (changes, new) = (unsaved.objects, old)
            // What it stands for is written now.
            changes.records[SQLiteStore.draftRecordKey] = .some(nil)
            if !unsaved.content.isEmpty {
                new = try content.write(unsaved.content, after: old)
            }
            if new != named {
                changes.records[AdditionalContentStore.recordKey] = .some(new.map(String.init))
            }
            let derived = try copy.save(changes)
            try DocumentPackage(layout: target, store: copy, lock: nil).writeMetadata(
                generation: new)
            content.collectGarbage(except: new)
            try copy.close()
            return derived
        } catch {
            try? copy.close()
            throw error
        }
    }
}
