public import Foundation
import Logging
import Quire

/// The data that a library shows of a document without opening it: kept in the package's metadata file, derived from the
/// document.
///
/// A document writes it when it is closed after having been saved, and now and then while it is open. After a crash it may
/// be older than the document; opening and closing the document brings it up to date.
public struct LibraryMetadata: Sendable, Hashable {
    /// The title, if it is another than the package's name.
    public var title: String?
    /// When the document was made.
    public var created: Date?
    /// When the document was saved last, as of the writing of this.
    public var modified: Date?
    /// By the entity's name: how many objects of exactly that entity there are.
    public var objectCounts: [String: Int]
    /// Whatever an application wants to show: short texts by keys of its own.
    public var values: [String: String]
    /// A picture of the document, as PNG. It is in a file of its own, which ``DocumentLibrary/Entry/thumbnailPath`` names.
    public var thumbnail: Data?

    /// Makes metadata of a document that provides none.
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
    /// The name of the file of the thumbnail in a package.
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

    /// Reads the metadata of a package, without the thumbnail. Missing and invalid values are left out.
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

    /// Writes it to a package, whose lock the caller has, or which is not published yet.
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

    /// The document has been saved: writes what a library shows of it, unless that was done a moment ago. It is done again
    /// when the document is closed.
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
            await self?.whileOpen("Its library metadata were not written") { open in
                await self?.writeLibraryMetadata(of: open)
            }
        }
    }

    /// Writes what a library shows of the document, if it was saved since. Failures are harmless and only logged.
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
            logger.warning("What a library shows of “\(path)” was not written: \(error)")
        }
    }
}

extension DocumentPackage {
    /// Writes what a library shows of the package: what is given, with what the store and earlier metadata know. Of one
    /// that is protected only the dates, because it is written in clear.
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

    /// By the entity's name: how many objects of exactly that entity are saved. Entities without any are left out.
    func objectCounts() throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for entity in store.layout.entities where !entity.isAbstract {
            var request = FetchSpecification(entity.name)
            request.includesSubentities = false
            let count = try store.count(matching: request)
            if count > 0 { counts[entity.name] = count }
        }
        return counts
    }
}
