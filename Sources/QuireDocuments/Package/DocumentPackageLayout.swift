import Foundation
import Quire

/// Where things are in a document package.
///
///     Document.quire/
///       DocumentMetadata.plist                            derived from the store; made again if it is missing
///       Thumbnail.png                                     a picture for libraries, if the document gives one
///       .lock                                             only while somebody has it open for writing
///       StoreContent/persistentStore                      the SQLite store
///       StoreContent/.persistentStore_SUPPORT/_EXTERNAL_DATA/UUID     large binary values
///       AdditionalContent/7/…                             the files of generation 7, which the store names
///       DraftFiles/UUID                                   unsaved files that are too large for the draft in the store
///       Versions/ID/…                                     a version: its manifest, and links to files that it shares
///       Versions/Blocks/00000001.blocks                   what versions' databases are made of, each block once
public struct DocumentPackageLayout: Sendable, Hashable {
    /// The package folder.
    public let path: String

    /// The layout of the package at a path.
    public init(path: String) { self.path = FileSystem.absolute(path) }

    /// The folder of the store and its external data.
    public var storeFolder: String { FileSystem.path(path, "StoreContent") }
    /// The store.
    public var store: String { FileSystem.path(storeFolder, "persistentStore") }
    /// The folder of large binary values.
    public var externalData: String {
        FileSystem.path(storeFolder, ".persistentStore_SUPPORT/_EXTERNAL_DATA")
    }
    /// The metadata file.
    public var metadata: String { FileSystem.path(path, "DocumentMetadata.plist") }
    /// The lock file.
    public var lock: String { FileSystem.path(path, ".lock") }
    /// The folder of the generations of additional content.
    public var additionalContent: String { FileSystem.path(path, "AdditionalContent") }

    /// The folder of unsaved files that are too large for the draft in the store.
    var draftFiles: String { FileSystem.path(path, "DraftFiles") }

    /// The folder of a generation of additional content.
    public func additionalContent(generation: Int) -> String {
        FileSystem.path(additionalContent, String(generation))
    }

    /// The folder of the versions.
    public var versions: String { FileSystem.path(path, "Versions") }
    /// The folder of the blocks that versions are made of.
    var versionBlocks: String { FileSystem.path(versions, "Blocks") }

    /// The folder of a version.
    func version(_ id: String) -> String { FileSystem.path(versions, id) }

    /// Whether there is what looks like a document package: a folder with a store in it.
    public var isPackage: Bool {
        (try? FileSystem.information(at: store))??.kind == .regular
    }

    /// What is wrong with a path that an archive brings, to continue “… cannot be used: it …”.
    static func objection(toArchived path: String, isFolder: Bool) -> String? {
        let parts = path.split(separator: "/").map(String.init)
        switch parts.first {
        case "DocumentMetadata.plist":
            return parts.count == 1 && !isFolder ? nil : "is no part of a document"
        case "AdditionalContent":
            if parts.count == 1 { return isFolder ? nil : "is no part of a document" }
            guard generation(ofFolder: parts[1]) != nil, isFolder || parts.count > 2 else {
                return "is no generation of additional content"
            }
            return nil
        case "StoreContent":
            // Above all no -wal or -journal: SQLite would play it into the store.
            let allowed = ["StoreContent", ".persistentStore_SUPPORT", "_EXTERNAL_DATA"]
            if isFolder, parts == Array(allowed.prefix(parts.count)) { return nil }
            if !isFolder, parts == ["StoreContent", "persistentStore"] { return nil }
            if !isFolder, parts.count == 4, Array(parts.prefix(3)) == allowed { return nil }
            return "is no part of a document's store"
        default: return "is no part of a document"
        }
    }

    /// The number of a generation's folder, or `nil` if the name is none.
    static func generation(ofFolder name: String) -> Int? {
        guard let number = Int(name), number > 0, String(number) == name else { return nil }
        return number
    }
}
