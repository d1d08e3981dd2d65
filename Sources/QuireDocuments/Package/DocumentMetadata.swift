import Foundation
import Quire

/// What `DocumentMetadata.plist` says: a copy of what the store knows, for those who do not want to open it.
///
/// The store is right where they differ. Keys that are not ours are kept.
struct DocumentMetadata: Equatable {
    /// The version of the package's layout.
    static let currentFormat = 1
    /// The greatest size of the file; what is larger is not read.
    static let greatestSize = 16 << 20

    /// The store's UUID.
    var storeUUID: String
    /// The kind of store.
    var storeType: String
    /// The generation of additional content, if there is any.
    var additionalContentGeneration: Int?

    private enum Key {
        static let format = "QuireDocumentFormat"
        static let storeUUID = "QuireStoreUUID"
        static let storeType = "QuireStoreType"
        static let generation = "QuireAdditionalContentGeneration"
    }

    /// Throws if a package's metadata say that it has a format that is newer than ours. Missing or unreadable
    /// metadata are no obstacle.
    static func checkFormat(of layout: DocumentPackageLayout) throws {
        guard let format = dictionary(of: layout)[Key.format] as? Int else { return }
        if format > currentFormat {
            throw QuireError(
                .unsupported,
                "“\(layout.path)” has the format \(format), this version reads up to \(currentFormat); "
                    + "open it with a newer version.",
                subject: .init(file: layout.path))
        }
    }

    /// Whether a package's metadata say the same.
    func isWritten(in layout: DocumentPackageLayout) -> Bool {
        let dictionary = Self.dictionary(of: layout)
        return dictionary[Key.format] as? Int == Self.currentFormat
            && dictionary[Key.storeUUID] as? String == storeUUID
            && dictionary[Key.storeType] as? String == storeType
            && dictionary[Key.generation] as? Int == additionalContentGeneration
    }

    /// Writes the metadata, unless they are written already.
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

    /// The UUID of a package's store, as its metadata say.
    static func storeUUID(of layout: DocumentPackageLayout) -> String? {
        dictionary(of: layout)[Key.storeUUID] as? String
    }

    /// All that a metadata file says; nothing if it is missing or unreadable.
    static func dictionary(of layout: DocumentPackageLayout) -> [String: Any] {
        guard
            let data = try? FileSystem.contents(
                of: layout.metadata, beneath: layout.path, limit: greatestSize),
            let list = try? PropertyListValue(propertyList: data, name: layout.metadata)
        else { return [:] }
        return list.object as? [String: Any] ?? [:]
    }
}
