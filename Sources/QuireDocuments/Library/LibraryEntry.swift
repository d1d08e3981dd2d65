public import Foundation
public import Quire

extension DocumentLibrary {
    /// A document of a library, as it was when it was looked at.
    public struct Entry: Sendable, Identifiable {
        /// The package folder.
        public var path: String
        /// The name: that of the package without its extension.
        public var name: String
        /// The store's UUID, which is the document's; `nil` if the package does not say.
        public var uuid: String?
        /// What the document says of itself. The thumbnail is not in it; see ``thumbnailPath``.
        public var metadata: LibraryMetadata
        /// When the store was written to last.
        public var modified: Date?
        /// How many bytes the package's files have; one with several names in it, as versions share them, counts once.
        public var size: Int64
        /// The picture's file, if there is one.
        public var thumbnailPath: String?
        /// Who has it open for writing, if anybody has.
        public var owner: DocumentOwner?
        /// The class of its protection, as its keybag says it. No key has vouched for that.
        public var fileProtection = FileProtection.none
        /// Why it cannot be opened, as far as that is seen from outside.
        public var error: QuireError?

        /// The path.
        public var id: String { path }
        /// The title to show.
        public var title: String { metadata.title ?? name }
        /// When it was made.
        public var created: Date? { metadata.created }
        /// How many objects it has.
        public var objectCount: Int { metadata.objectCounts.values.reduce(0, +) }
    }
}

extension DocumentLibrary.Entry: Hashable {
    /// Whether both say the same.
    public static func == (left: Self, right: Self) -> Bool {
        left.path == right.path && left.uuid == right.uuid && left.metadata == right.metadata
            && left.modified == right.modified && left.size == right.size
            && left.thumbnailPath == right.thumbnailPath && left.owner == right.owner
            && left.fileProtection == right.fileProtection
            && left.error?.message == right.error?.message
    }

    /// By the path.
    public func hash(into hasher: inout Hasher) { hasher.combine(path) }
}

extension DocumentLibrary.Entry {
    /// Looks at a package from outside. Neither its store nor anything of SQLite's is opened: closing such a file would
    /// drop the locks of those who have it open in this process.
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
            let written = files.filter { $0.path == store || $0.path == store + "-wal" }
            modified = written.map(\.information.modificationNanoseconds).max()
                .map { Date(timeIntervalSince1970: Double($0) / 1e9) }
            if files.first(where: { $0.path == store })?.information.size == 0,
                !files.contains(where: { $0.path == store + "-wal" && $0.information.size > 0 })
            {
                throw QuireError(
                    .invalidFormat,
                    "The store of “\(layout.path)” is empty; restore it from a copy.",
                    subject: .init(file: layout.store))
            }
        } catch {
            self.error = QuireError(wrapping: error, path: layout.path)
        }
    }
}
