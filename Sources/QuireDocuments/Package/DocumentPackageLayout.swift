import Foundation
import Quire

/// The paths of a document package.
///
/// A package is untrusted input: only regular files and folders beneath the package folder are opened, created and removed, and
/// symbolic links are not followed (see `FileLocation`). The package folder itself may be a symbolic link.
///
///     Document.quire/
///       DocumentMetadata.plist                            derived from the store; written again if missing
///       Protection.keybag                                 if the document is protected: all files below are encrypted
///       Thumbnail.png                                     a picture for libraries, if the document provides one
///       .lock                                             only while it is open for writing
///       StoreContent/persistentStore                      the SQLite store
///       StoreContent/.persistentStore_SUPPORT/_EXTERNAL_DATA/UUID     large binary values
///       AdditionalContent/7/…                             the files of generation 7, to which the store refers
///       DraftFiles/UUID                                   unsaved files that are too large for the draft in the store
///       Versions/ID/…                                     a version: its manifest, and links to files that it shares
///       Versions/Blocks/00000001.blocks                   the blocks of versions' databases, each stored once
public struct DocumentPackageLayout: Sendable, Hashable {
    /// The package folder.
    public let path: String

    /// The layout of the package at a path.
    public init(path: String) { self.path = FileSystem.absolute(path) }

    /// The path of the store in a package.
    static let storePath = "StoreContent/persistentStore"

    /// The folder of the store and its external data.
    public var storeFolder: String { FileSystem.path(path, "StoreContent") }
    /// The store.
    public var store: String { FileSystem.path(storeFolder, "persistentStore") }
    /// The folder of large binary values.
    public var externalData: String {
        FileSystem.path(storeFolder, ".persistentStore_SUPPORT/_EXTERNAL_DATA")
    }
    /// Whether the store has a write-ahead log: it is open, or was not closed.
    var hasLog: Bool { FileSystem.exists(store + "-wal") }
    /// The metadata file.
    public var metadata: String { FileSystem.path(path, "DocumentMetadata.plist") }
    /// The keybag, if the document is protected.
    public var keybag: String { FileSystem.path(path, StoreProtection.keybagName) }
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

    /// Whether the path looks like a document package: a folder that contains a store.
    public var isPackage: Bool {
        (try? FileSystem.information(at: store, beneath: path))??.kind == .regular
    }

    /// Throws if a package could be moved to the path, but not be opened there: SQLite's paths have 512 bytes, with the name of a journal.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue`.
    func requireOpenablePath() throws {
        let folder = FileSystem.resolved(FileSystem.folder(of: path))
        let resolved = Self(path: FileSystem.path(folder, FileSystem.name(of: path)))
        guard FileName(resolved.store + "-journal").byteCount > 512 else { return }
        throw QuireError(
            .invalidValue,
            "“\(path)” cannot be the path of a document, because it is too long for SQLite; choose a shorter path.",
            file: path)
    }

    /// The entries that a package may have, with their kinds.
    private static let entries: [(path: String, kind: FileInformation.Kind)] = [
        ("DocumentMetadata.plist", .regular), (StoreProtection.keybagName, .regular),
        ("Thumbnail.png", .regular), (".lock", .regular),
        ("StoreContent", .folder), ("StoreContent/persistentStore", .regular),
        ("StoreContent/persistentStore-wal", .regular),
        ("StoreContent/persistentStore-shm", .regular),
        ("StoreContent/persistentStore-journal", .regular),
        ("StoreContent/.persistentStore_SUPPORT", .folder),
        ("StoreContent/.persistentStore_SUPPORT/_EXTERNAL_DATA", .folder),
        ("AdditionalContent", .folder), ("DraftFiles", .folder), ("Versions", .folder),
        ("Versions/Blocks", .folder),
    ]

    /// Removes what an unpacked archive has beside the document: it describes the document as it was.
    func removeArchiveParts() throws {
        try FileSystem.removeFileIfPresent(
            FileSystem.path(path, ArchiveManifest.mediaTypePath), beneath: path)
        try FileSystem.removeFileIfPresent(
            FileSystem.path(path, ArchiveSignature.path), beneath: path)
        let manifest = FileSystem.path(path, ArchiveManifest.path)
        let folder = FileSystem.folder(of: manifest)
        if try FileSystem.removeFileIfPresent(manifest, beneath: path),
            try FileSystem.names(in: folder, beneath: path).isEmpty
        {
            try FileSystem.removeTree(folder, beneath: path)
        }
    }

    /// The errors for entries of a wrong kind, such as symbolic links, FIFOs and devices.
    func foreignEntries() -> [QuireError] {
        var errors: [QuireError] = []
        for entry in Self.entries {
            do {
                let place = FileSystem.path(path, entry.path)
                guard let found = try FileSystem.information(at: place, beneath: path) else {
                    continue
                }
                try found.require(entry.kind, at: place)
            } catch let error as QuireError {
                // A symbolic link causes one error, not one for each entry below it.
                if !errors.contains(where: { $0.message == error.message }) { errors.append(error) }
            } catch {}
        }
        return errors
    }

    /// The reason to reject a path of an archive, which continues “… cannot be used: it …”.
    static func objection(toArchived path: String, isFolder: Bool) -> String? {
        let parts = path.split(separator: "/").map(String.init)
        switch parts.first {
        case "DocumentMetadata.plist", StoreProtection.keybagName:
            return parts.count == 1 && !isFolder ? nil : "is not part of a document"
        case "AdditionalContent":
            if parts.count == 1 { return isFolder ? nil : "is not part of a document" }
            guard generation(ofFolder: parts[1]) != nil, isFolder || parts.count > 2 else {
                return "is not a generation of additional content"
            }
            return nil
        case "Versions": return parts.count > 1 || isFolder ? nil : "is not part of a document"
        case "StoreContent":
            // Above all no -wal or -journal: SQLite would apply it to the store.
            let allowed = ["StoreContent", ".persistentStore_SUPPORT", "_EXTERNAL_DATA"]
            if isFolder, parts == Array(allowed.prefix(parts.count)) { return nil }
            if !isFolder, parts == ["StoreContent", "persistentStore"] { return nil }
            if !isFolder, parts.count == 4, Array(parts.prefix(3)) == allowed { return nil }
            return "is not part of a document's store"
        default: return "is not part of a document"
        }
    }

    /// Whether a path of an archive that other programs have made is part of a document. Everything else is left out.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the store cannot be read without what must not be extracted.
    static func isPart(_ path: String, isFolder: Bool) throws -> Bool {
        let parts = path.split(separator: "/").map(String.init)
        switch parts.first {
        case "AdditionalContent", "DraftFiles", "Versions": return isFolder || parts.count > 1
        default: break
        }
        switch path {
        case storePath + "-journal":
            // Applying it could make SQLite delete another file that the journal names.
            throw QuireError(
                .invalidFormat,
                "“\(path)” is the journal of an unfinished transaction; open and close the document where it was packed, and pack it again."
            )
        default: break
        }
        if !isFolder, parts.count == 4, parts[0] == "StoreContent" {
            return parts[1...2].joined(separator: "/") == ".persistentStore_SUPPORT/_EXTERNAL_DATA"
        }
        return entries.contains { $0.path == path && ($0.kind == .folder) == isFolder }
    }

    /// The number of a generation's folder, or `nil` if the name is not valid.
    static func generation(ofFolder name: String) -> Int? {
        guard let number = Int(name), number > 0, String(number) == name else { return nil }
        return number
    }
}

// MARK: - Metadata

/// The content of `DocumentMetadata.plist`: a copy of store metadata that can be read without opening the store.
///
/// If they differ, the store is right. Unknown keys are preserved.
struct DocumentMetadata: Equatable {
    /// The version of the package's layout.
    static let currentFormat = 1
    /// The maximum size of the file; a larger one is not read.
    static let maximumSize = 16 << 20

    /// The store's UUID.
    var storeUUID: String
    /// The kind of store.
    var storeType: String
    /// The generation of additional content, if any.
    var additionalContentGeneration: Int?

    private enum Key {
        static let format = "QuireDocumentFormat"
        static let storeUUID = "QuireStoreUUID"
        static let storeType = "QuireStoreType"
        static let generation = "QuireAdditionalContentGeneration"
    }

    /// Throws if a package's metadata states a newer format. Missing or unreadable metadata is ignored.
    static func checkFormat(of layout: DocumentPackageLayout) throws {
        guard let format = dictionary(of: layout)[Key.format] as? Int else { return }
        if format > currentFormat {
            throw QuireError.newerFormat(
                "“\(layout.path)”", format, readable: currentFormat, file: layout.path)
        }
    }

    /// Whether a package's metadata is equal.
    func isWritten(in layout: DocumentPackageLayout) -> Bool {
        let dictionary = Self.dictionary(of: layout)
        return dictionary[Key.format] as? Int == Self.currentFormat
            && dictionary[Key.storeUUID] as? String == storeUUID
            && dictionary[Key.storeType] as? String == storeType
            && dictionary[Key.generation] as? Int == additionalContentGeneration
    }

    /// Writes the metadata, unless it is up to date.
    func write(to layout: DocumentPackageLayout) throws {
        if isWritten(in: layout) { return }
        var dictionary = Self.dictionary(of: layout)
        dictionary[Key.format] = Self.currentFormat
        dictionary[Key.storeUUID] = storeUUID
        dictionary[Key.storeType] = storeType
        dictionary[Key.generation] = additionalContentGeneration
        let data = try PropertyListSerialization.data(
            fromPropertyList: dictionary, format: .xml, options: 0)
        try AtomicFileReplace.replace(layout.metadata, beneath: layout.path, with: data)
    }

    /// The UUID of a package's store, from its metadata.
    static func storeUUID(of layout: DocumentPackageLayout) -> String? {
        dictionary(of: layout)[Key.storeUUID] as? String
    }

    /// All values of a metadata file; empty if it is missing or unreadable.
    static func dictionary(of layout: DocumentPackageLayout) -> [String: Any] {
        guard
            let data = try? FileSystem.contents(
                of: layout.metadata, beneath: layout.path, limit: maximumSize),
            let list = try? PropertyListValue(propertyList: data, name: layout.metadata)
        else { return [:] }
        return list.object as? [String: Any] ?? [:]
    }
}

// MARK: - Names beside a package

/// Names for files beside others.
enum SiblingName {
    /// An unused path beside another: “Name 2.ext”, “Name 3.ext” ….
    static func unused(beside path: String) -> String {
        unused(beside: path) { " \($0 + 1)" }
    }

    /// An unused path beside another.
    ///
    /// - Parameter addition: Returns the text to append to the other's name without its extension, for 1, 2, 3 ….
    static func unused(beside path: String, adding addition: (_ number: Int) -> String) -> String {
        let old = FileSystem.name(of: path)
        let dot = old.lastIndex(of: ".") ?? old.endIndex
        let stem = dot == old.startIndex ? old[...] : old[..<dot]
        let ending = dot == old.startIndex ? "" : old[dot...]
        var number = 1
        while true {
            let new = FileSystem.path(
                FileSystem.folder(of: path), FileName.fitting(stem, addition(number) + ending))
            if !FileSystem.exists(new) { return new }
            number += 1
        }
    }
}
