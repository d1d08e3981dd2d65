public import Foundation
import Logging
import Quire

/// The data that a library shows for a document without opening it, derived from the document and stored in the package's
/// metadata file.
///
/// A document writes it when it is closed after a save, and from time to time while it is open. After a crash it may be out of
/// date; opening, saving and closing the document updates it.
public struct LibraryMetadata: Sendable, Hashable {
    /// The title, if it differs from the package's name.
    public var title: String?
    /// When the document was created.
    public var created: Date?
    /// When the document was last saved before this was written.
    public var modified: Date?
    /// The number of objects by entity name, without subentities.
    public var objectCounts: [String: Int]
    /// Short texts that an application shows, by its own keys.
    public var values: [String: String]
    /// A picture of the document, as PNG. It is stored in a separate file at ``DocumentLibrary/Entry/thumbnailPath``.
    public var thumbnail: Data?

    /// Creates metadata.
    public init(
        title: String? = nil, created: Date? = nil, modified: Date? = nil,
        objectCounts: [String: Int] = [:], values: [String: String] = [:], thumbnail: Data? = nil
    ) {
        self.title = title
        self.created = created
        self.modified = modified
        self.objectCounts = objectCounts
        self.values = values
        self.thumbnail = thumbnail
    }
}

extension LibraryMetadata {
    /// The name of the thumbnail file in a package.
    static let thumbnailName = "Thumbnail.png"
    /// The maximum size of that file.
    static let maximumThumbnailSize = 64 << 20

    private enum Key {
        static let library = "QuireLibrary"
        static let title = "Title"
        static let created = "Created"
        static let modified = "Modified"
        static let counts = "ObjectCounts"
        static let values = "Values"
    }

    /// Reads the metadata of a package, without the thumbnail. Missing and invalid values are omitted.
    init(readingFrom layout: DocumentPackageLayout) {
        self.init()
        let all = DocumentMetadata.dictionary(of: layout)
        guard let dictionary = all[Key.library] as? [String: Any] else { return }
        title = (dictionary[Key.title] as? String).flatMap { $0.isEmpty ? nil : $0 }
        created = dictionary[Key.created] as? Date
        modified = dictionary[Key.modified] as? Date
        objectCounts = dictionary[Key.counts] as? [String: Int] ?? [:]
        values = dictionary[Key.values] as? [String: String] ?? [:]
    }

    /// Writes the metadata to a package whose lock the caller holds, or that is not published yet.
    func write(to layout: DocumentPackageLayout) throws {
        var all = DocumentMetadata.dictionary(of: layout)
        var dictionary: [String: Any] = [Key.counts: objectCounts, Key.values: values]
        dictionary[Key.title] = title
        dictionary[Key.created] = created
        dictionary[Key.modified] = modified
        all[Key.library] = dictionary
        let data = try PropertyListSerialization.data(
            fromPropertyList: all, format: .xml, options: 0)
        try AtomicFileReplace.replace(layout.metadata, beneath: layout.path, with: data)
        let file = FileSystem.path(layout.path, Self.thumbnailName)
        if let thumbnail {
            let present = try? FileSystem.contents(
                of: file, beneath: layout.path, limit: thumbnail.count)
            if present != thumbnail {
                try AtomicFileReplace.replace(file, beneath: layout.path, with: thumbnail)
            }
        } else {
            try FileSystem.removeFileIfPresent(file, beneath: layout.path)
        }
    }
}

// MARK: - Metadata of a document

private let logger = Logger(label: "quire.document")

extension ManagedDocument {
    /// The interval at which a document that stays open writes its metadata.
    private static let libraryMetadataInterval: TimeInterval = 60

    /// Called after a save: writes the library metadata, unless it was written less than the interval ago. It is written again when
    /// the document is closed.
    func didSaveForLibrary() {
        needsLibraryMetadata = true
        guard
            libraryMetadataDate.map({ -$0.timeIntervalSinceNow > Self.libraryMetadataInterval })
                ?? false
        else {
            if libraryMetadataDate == nil { libraryMetadataDate = Date() }
            return
        }
        Task { [weak self] in
            await self?.whileOpen("could not write the library metadata") { open in
                await self?.writeLibraryMetadata(of: open)
            }
        }
    }

    /// Writes the library metadata if the document was saved since it was last written. Failures are harmless and only logged.
    func writeLibraryMetadata(of open: OpenDocument) async {
        guard needsLibraryMetadata, !open.package.isReadOnly else { return }
        needsLibraryMetadata = false
        libraryMetadataDate = Date()
        let given = libraryMetadata()
        let modified = fileModificationDate
        let package = open.package
        do {
            try await FileQueue.shared.run {
                guard package.isInPlace else { return }
                try package.writeLibraryMetadata(given, modified: modified)
            }
        } catch {
            logger.warning("Could not write the library metadata of “\(path)”: \(error)")
        }
    }
}

extension DocumentPackage {
    /// Writes the library metadata of the package: the given values, completed from the store and the existing metadata. For a
    /// protected package only the dates are written, because the metadata is not encrypted.
    func writeLibraryMetadata(_ given: LibraryMetadata, modified: Date?) throws {
        var metadata = store.protection == nil ? given : LibraryMetadata()
        let old = LibraryMetadata(readingFrom: layout)
        metadata.created = given.created ?? old.created ?? modified ?? Date()
        metadata.modified = given.modified ?? modified ?? Date()
        if metadata.objectCounts.isEmpty, store.protection == nil {
            metadata.objectCounts = try objectCounts()
        }
        try metadata.write(to: layout)
    }

    /// The number of saved objects by entity name, without subentities. Entities without objects are omitted.
    func objectCounts() throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for entity in store.layout.entities where !entity.isAbstract {
            let count = try store.count(matching: FetchSpecification(only: entity.name))
            if count > 0 { counts[entity.name] = count }
        }
        return counts
    }
}
