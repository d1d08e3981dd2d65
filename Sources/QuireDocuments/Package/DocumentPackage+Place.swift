import Foundation
import Quire

/// Where an open package is, and whether what is there is what is open.
enum PackagePlace: Sendable, Equatable {
    /// It is at its path.
    case here
    /// It has another path.
    case moved(to: String)
    /// It was removed.
    case removed
    /// Another package is at its path, and it has no other path, or the other one is a state of the same document.
    case replaced
    /// Another file is at the path of its store.
    case storeReplaced
    /// The store's files are not all there any more, and there is no other store.
    case storeLost
}

extension DocumentPackage {
    /// Finds out where the package is, and what others have done to it.
    func place() -> PackagePlace {
        if isInPlace {
            switch store.fileChange {
            case nil: return .here
            case .replaced: return .storeReplaced
            case .removed, .logRemoved, .logReplaced, .indexReplaced: return .storeLost
            }
        }
        guard let present = presentPath else {
            return FileSystem.exists(layout.path) ? .replaced : .removed
        }
        // A program that brings documents from elsewhere may keep what it replaces under another name.
        let isSameDocument = DocumentMetadata.storeUUID(of: layout) == store.identity.uuid
        return isSameDocument ? .replaced : .moved(to: present)
    }

    /// Opens the store that another program has put into the place of this package's. The right to write is handed over.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if it is the store of another document, or what opening throws. Then
    ///   nothing has changed.
    func succeedingByStoreInPlace(
        model: ManagedObjectModel?, migrating migration: StoreMigrationOptions?
    ) throws -> DocumentPackage {
        store.takeLogAway()
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

    /// Another document is at the path.
    var otherDocument: QuireError {
        QuireError(
            .notFound, "“\(layout.path)” is another document now.",
            subject: .init(file: layout.path))
    }

    /// The package is nowhere any more.
    var deleted: QuireError {
        QuireError(
            .notFound,
            "“\(layout.path)” was deleted by somebody else while it was open; save it as another document.",
            subject: .init(file: layout.path))
    }

    /// Puts a copy of the open store, whose files others have removed or replaced, back to its path. This object is not to be
    /// used any more.
    ///
    /// - Returns: The package to go on with. When this returns, it survives power loss.
    /// - Throws: ``QuireError`` with code `outOfSpace`, or what reading and writing throw.
    func restoringStore() throws -> DocumentPackage {
        try checkMayWrite()
        let root = layout.path
        try FileSystem.makeFolder(layout.storeFolder, beneath: root, withIntermediates: true)
        let temporary = FileSystem.temporarySibling(of: layout.store, for: "restored")
        do {
            try store.writePageCopy(to: temporary, protectedBy: store.protection)
            let file = try OpenFile.open(temporary, beneath: root, for: .updating)
            try file.synchronize()
            file.close()
            // A log that is there would be taken for the copy's.
            for suffix in ["-wal", "-shm", "-journal"] {
                _ = try FileSystem.removeFileIfPresent(layout.store + suffix, beneath: root)
            }
            try FileSystem.rename(temporary, to: layout.store, beneath: root)
            try FileSystem.synchronizeFolder(layout.storeFolder, beneath: root)
            try FileSystem.synchronizeFolder(root)
        } catch {
            _ = try? FileSystem.removeFileIfPresent(temporary, beneath: root)
            throw error
        }
        let new = try SQLiteStore.open(
            at: layout.store, continuing: store, options: store.storeOptions)
        return succeeding(by: new, generation: try content.generation(in: new.records()))
    }
}
