public import Foundation
public import Quire

extension DocumentLibrary {
    /// A document of a library, as of when it was examined.
    public struct Entry: Sendable, Identifiable {
        /// The package folder.
        public var path: String
        /// The name: that of the package without its extension.
        public var name: String
        /// The store's UUID, which identifies the document; `nil` if the package's metadata does not contain it.
        public var uuid: String?
        /// The document's metadata, without the thumbnail; see ``thumbnailPath``.
        public var metadata: LibraryMetadata
        /// When the store was last written to.
        public var modified: Date?
        /// The size of the package's files in bytes; a file that versions share counts once.
        public var size: Int64
        /// The thumbnail's file, if any.
        public var thumbnailPath: String?
        /// The owner that has it open for writing, if any.
        public var owner: DocumentOwner?
        /// The protection class stated in its keybag, which is not verified with a key.
        public var fileProtection = FileProtection.none
        /// The reason why it cannot be opened, as far as that is visible without opening it.
        public var error: QuireError?

        /// The path.
        public var id: String { path }
        /// The title to show.
        public var title: String { metadata.title ?? name }
        /// When it was created.
        public var created: Date? { metadata.created }
        /// The number of objects.
        public var objectCount: Int { metadata.objectCounts.values.reduce(0, +) }
    }
}

extension DocumentLibrary.Entry: Hashable {
    /// Whether all values are equal.
    public static func == (left: Self, right: Self) -> Bool {
        FileName(left.path) == FileName(right.path) && left.uuid == right.uuid
            && left.metadata == right.metadata
            && left.modified == right.modified && left.size == right.size
            && left.thumbnailPath == right.thumbnailPath && left.owner == right.owner
            && left.fileProtection == right.fileProtection
            && left.error?.message == right.error?.message
    }

    /// By the path.
    public func hash(into hasher: inout Hasher) { hasher.combine(FileName(path)) }
}

extension DocumentLibrary.Entry {
    /// Examines a package without opening the store or other SQLite files: closing them would release the POSIX locks that this
    /// process holds on them.
    init(lookingAt path: String) {
        let layout = DocumentPackageLayout(path: path)
        self.init(
            path: layout.path, name: DocumentLibrary.name(of: path),
            metadata: LibraryMetadata(readingFrom: layout), size: 0)
        uuid = DocumentMetadata.storeUUID(of: layout)
        owner = (try? DocumentLock.owner(of: layout)) ?? nil
        let thumbnail = FileSystem.path(layout.path, LibraryMetadata.thumbnailName)
        let picture = (try? FileSystem.information(at: thumbnail, beneath: layout.path)) ?? nil
        if picture?.kind == .regular { thumbnailPath = thumbnail }
        do {
            try DocumentPackage.checkIsPackage(layout)
            try DocumentMetadata.checkFormat(of: layout)
            fileProtection = try DocumentPackage.fileProtection(at: layout.path)
            let files = try FileSystem.contentsOfTree(layout.path)
            size = FileInformation.totalSize(of: files.map(\.information))
            let store = "StoreContent/persistentStore"
            // Opening creates the write-ahead log, and saving writes to it.
            let written = files.filter {
                $0.path == store || $0.path == store + "-wal" && $0.information.size > 0
            }
            modified = written.map(\.information.modificationNanoseconds).max()
                .map { Date(timeIntervalSince1970: Double($0) / 1e9) }
            if files.first(where: { $0.path == store })?.information.size == 0,
                !files.contains(where: { $0.path == store + "-wal" && $0.information.size > 0 })
            {
                throw QuireError(
                    .invalidFormat,
                    "The store of “\(layout.path)” is empty; restore it from a backup.",
                    file: layout.store)
            }
        } catch {
            self.error = QuireError(wrapping: error, path: layout.path)
        }
    }
}

// MARK: - Status of a package

/// The status of a document.
public struct PackageStatus: Sendable {
    /// The package folder.
    public var path: String
    /// The owner that has it open for writing, if any. Readers are not known.
    public var owner: DocumentOwner?
    /// Whether the owner has unsaved changes; `nil` if there is no owner, or it cannot be asked.
    public var ownerHasUnsavedChanges: Bool?
    /// The class of protection.
    public var fileProtection: FileProtection
    /// Whether it is protected and cannot be read by this process now.
    public var isLocked: Bool
    /// Whether objects that could not be saved are kept as a draft in the store; `nil` if it is locked.
    public var hasDraft: Bool?
    /// When it was last saved.
    public var lastSaved: Date?
    /// The generation of additional content; `nil` if there is none or the document is locked.
    public var generation: Int?
    /// The number of versions.
    public var versionCount: Int
    /// The paths of leftovers of interrupted saves; while it is open for writing, also files that its owner is about to use or
    /// remove. `nil` if it is locked.
    public var leftovers: [String]?
}

extension DocumentPackage {
    /// Determines the status of a document, which is opened for reading only. If it is locked, only the values that are available
    /// without a key are set.
    ///
    /// Do not call it on the main queue.
    ///
    /// - Throws: As ``open(at:model:readOnly:options:migrating:waiting:)-(String,_,_,_,_,_)``, except `protectedDataUnavailable`.
    public static func status(at path: String) throws -> PackageStatus {
        let layout = DocumentPackageLayout(path: path)
        let owner = try owner(at: path)
        let isElsewhere = owner != nil && owner?.isThisProcess == false
        let package: DocumentPackage?
        do { package = try open(at: path, readOnly: true) } catch let error as QuireError
            where error.code == .protectedDataUnavailable
        {
            package = nil
        }
        defer { try? package?.close() }
        return PackageStatus(
            path: layout.path, owner: owner,
            ownerHasUnsavedChanges: isElsewhere ? ownerHasUnsavedChanges(at: path) : nil,
            fileProtection: try fileProtection(at: path), isLocked: package == nil,
            hasDraft: try package.map { try $0.store.draft() != nil },
            lastSaved: modificationDate(of: layout), generation: try package?.liveGeneration(),
            versionCount: try VersionStore(layout: layout, protection: nil).ids().count,
            leftovers: try package?.leftovers())
    }
}
