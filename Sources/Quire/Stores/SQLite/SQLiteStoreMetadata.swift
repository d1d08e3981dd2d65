public import Foundation

/// What a store says of itself and of the model it was made with, in Core Data's terms.
public struct SQLiteStoreMetadata: Sendable {
    /// The store's UUID.
    public let storeUUID: String
    /// The version of the framework that wrote the store.
    public let frameworkVersion: Int?
    /// The model's version identifiers.
    public let modelVersionIdentifiers: [String]
    /// A hash of each entity, 32 bytes.
    public let entityVersionHashes: [String: Data]
    /// All of it, and what applications added, as a property list.
    public let propertyList: Data

    /// Core Data's keys.
    private enum Key {
        static let storeType = "NSStoreType"
        static let frameworkVersion = "NSPersistenceFrameworkVersion"
        static let hashes = "NSStoreModelVersionHashes"
        static let hashesVersion = "NSStoreModelVersionHashesVersion"
        static let identifiers = "NSStoreModelVersionIdentifiers"
        static let digest = "NSStoreModelVersionHashesDigest"
        static let checksum = "NSStoreModelVersionChecksumKey"
        static let autoVacuum = "_NSAutoVacuumLevel"
    }

    /// The framework version whose layout new stores have.
    private static let writtenFrameworkVersion = 1344

    /// The metadata of a new store.
    init(storeUUID: String, model: ManagedObjectModel, hashes: [String: Data]) throws {
        let plist: [String: Any] = [
            Key.storeType: "SQLite", Key.frameworkVersion: Self.writtenFrameworkVersion,
            Key.hashes: hashes, Key.hashesVersion: 3,
            Key.identifiers: model.versionIdentifiers,
            Key.autoVacuum: "2", Key.digest: ManagedObjectModel.versionHashesDigest(of: hashes),
            Key.checksum: ManagedObjectModel.versionChecksum(of: hashes),
        ]
        try self.init(
            storeUUID: storeUUID,
            propertyList: PropertyListSerialization.data(
                fromPropertyList: plist, format: .binary, options: 0), path: "")
    }

    /// The property list with another model in the place of the one that the store was made with.
    func replacingModel(_ model: ManagedObjectModel) throws -> Data {
        let hashes = model.versionHashesForNewStores
        let plist = try? PropertyListSerialization.propertyList(from: propertyList, format: nil)
        var dictionary = plist as? [String: Any] ?? [:]
        dictionary[Key.hashes] = hashes
        dictionary[Key.hashesVersion] = 3
        dictionary[Key.identifiers] = model.versionIdentifiers
        dictionary[Key.digest] = ManagedObjectModel.versionHashesDigest(of: hashes)
        dictionary[Key.checksum] = ManagedObjectModel.versionChecksum(of: hashes)
        return try PropertyListSerialization.data(
            fromPropertyList: dictionary, format: .binary, options: 0)
    }

    /// Reads the metadata of a store.
    init(storeUUID: String, propertyList: Data, path: String) throws {
        let plist = try? PropertyListSerialization.propertyList(from: propertyList, format: nil)
        guard let dictionary = plist as? [String: Any] else {
            throw QuireError(
                .invalidFormat,
                "The metadata of “\(path)” is no property list; the store is damaged.",
                subject: .init(file: path))
        }
        self.storeUUID = storeUUID
        self.propertyList = propertyList
        frameworkVersion = dictionary[Key.frameworkVersion] as? Int
        modelVersionIdentifiers = (dictionary[Key.identifiers] as? [Any] ?? []).compactMap {
            $0 as? String
        }
        entityVersionHashes = dictionary[Key.hashes] as? [String: Data] ?? [:]
    }
}
