public import Foundation
public import QuireModel
public import QuireSystem

/// Metadata of a store and of the model it was made with, in Core Data's terms, and of applications.
///
/// ```swift
/// let metadata = try XMLStore.metadata(at: "library.xml")       // Reads no objects.
/// print(metadata.storeUUID, metadata["com.example.edition"]?.string ?? "")
/// ```
public struct StoreMetadata: Sendable, Hashable {
    /// The store's UUID.
    public let storeUUID: String
    /// The values by key, without the UUID.
    public package(set) var values: [String: PropertyListValue]

    /// Core Data's keys, and ours.
    package enum Key {
        package static let storeType = "NSStoreType"
        package static let storeUUID = "NSStoreUUID"
        static let frameworkVersion = "NSPersistenceFrameworkVersion"
        package static let hashes = "NSStoreModelVersionHashes"
        static let hashesVersion = "NSStoreModelVersionHashesVersion"
        static let identifiers = "NSStoreModelVersionIdentifiers"
        package static let digest = "NSStoreModelVersionHashesDigest"
        package static let checksum = "NSStoreModelVersionChecksumKey"
        static let autoVacuum = "_NSAutoVacuumLevel"
        /// The carried model of an atomic store, as Xcode's XML.
        package static let model = "QuireModel"
        /// The key of ``ChangeSet/records``.
        package static let records = "QuireRecords"
    }

    /// The framework version whose layout new stores have.
    private static let writtenFrameworkVersion: Int64 = 1344

    /// Metadata with values.
    public init(storeUUID: String, values: [String: PropertyListValue]) {
        self.storeUUID = storeUUID
        self.values = values
    }

    /// The metadata of a new store: its type, and the version hashes and identifiers of its model.
    public init(storeUUID: String, type: StoreType, model: ManagedObjectModel) {
        self.init(storeUUID: storeUUID, type: type, model: model, hashes: nil)
    }

    /// The metadata of a new store.
    ///
    /// - Parameter hashes: The hashes of the entities whose objects it keeps; `nil` for all of the model.
    package init(
        storeUUID: String, type: StoreType, model: ManagedObjectModel, hashes: [String: Data]?
    ) {
        self.storeUUID = storeUUID
        values = [
            Key.storeType: .string(type.rawValue),
            Key.frameworkVersion: .integer(Self.writtenFrameworkVersion),
        ]
        if type == .sqlite { values[Key.autoVacuum] = "2" }
        setModel(model, hashes: hashes ?? model.versionHashesForNewStores)
    }

    /// A copy with the metadata of another model.
    package func replacingModel(_ model: ManagedObjectModel) -> StoreMetadata {
        var metadata = self
        metadata.setModel(model, hashes: model.versionHashesForNewStores)
        return metadata
    }

    /// Sets the version identifiers of a model whose version hashes are the same.
    package mutating func setVersionIdentifiers(of model: ManagedObjectModel) {
        values[Key.identifiers] = .array(model.versionIdentifiers.map { .string($0) })
    }

    private mutating func setModel(_ model: ManagedObjectModel, hashes: [String: Data]) {
        values[Key.hashes] = .dictionary(hashes.mapValues { .data($0) })
        values[Key.hashesVersion] = 3
        setVersionIdentifiers(of: model)
        values[Key.digest] = .string(ManagedObjectModel.versionHashesDigest(of: hashes))
        values[Key.checksum] = .string(ManagedObjectModel.versionChecksum(of: hashes))
    }

    /// Reads the metadata of a store. In some apps' stores the property list is missing; no data depends on it.
    package init(storeUUID: String, propertyList: Data, path: String) throws {
        if propertyList.isEmpty {
            self.init(storeUUID: storeUUID, values: [:])
            return
        }
        func damaged(_ underlying: QuireError?) -> QuireError {
            QuireError(
                .invalidFormat,
                "The metadata of “\(path)” is not a property list; the store is damaged.",
                file: path, underlying: underlying)
        }
        let list: PropertyListValue
        do {
            list = try PropertyListValue(propertyList: propertyList, name: path)
        } catch {
            throw damaged(error as? QuireError)
        }
        guard let values = list.dictionary else { throw damaged(nil) }
        self.init(storeUUID: storeUUID, values: values)
    }

    /// A value, Core Data's or of an application.
    public subscript(key: String) -> PropertyListValue? { values[key] }

    /// The kind of store.
    public var storeType: StoreType? {
        values[Key.storeType]?.string.map(StoreType.init(rawValue:))
    }

    /// The version of the framework that wrote the store.
    public var frameworkVersion: Int? {
        values[Key.frameworkVersion]?.integer.flatMap { Int(exactly: $0) }
    }

    /// The model's version identifiers.
    public var modelVersionIdentifiers: [String] {
        (values[Key.identifiers]?.array ?? []).compactMap(\.string)
    }

    /// A hash of each entity, 32 bytes.
    public var entityVersionHashes: [String: Data] {
        (values[Key.hashes]?.dictionary ?? [:]).compactMapValues(\.data)
    }

    /// Checks that a store with this metadata was made with a model, if it says with which.
    ///
    /// - Parameter path: The path of the store, for the error.
    /// - Throws: ``QuireError`` with code `incompatibleModel`.
    package func requireModel(_ model: ManagedObjectModel, path: String) throws {
        let theirs = entityVersionHashes
        if theirs.isEmpty { return }
        // A store may have been made with hashes of Core Data's that a model comes with.
        let ours = [model.versionHashesForNewStores, model.entityVersionHashes()]
        let names = Set(theirs.keys).union(ours[1].keys)
            .filter { name in !ours.contains { $0[name] != nil && $0[name] == theirs[name] } }
            .sorted()
        if names.isEmpty { return }
        throw QuireError(
            .incompatibleModel,
            "“\(path)” was created with another version of the model (changed entities: "
                + "\(names.joined(separator: ", "))); open it with the model it was created with.",
            entity: names.first, file: path)
    }

    /// The metadata, including applications' values, as a binary property list.
    public var propertyList: Data {
        get throws { try PropertyListValue.dictionary(values).propertyList }
    }

    /// Whether a key is for Core Data or for us, so that applications must leave it alone.
    package static func isReserved(_ key: String) -> Bool {
        key.hasPrefix("NS") || key.hasPrefix("_NS") || key.hasPrefix("Quire")
    }

    /// - Throws: ``QuireError`` with code `invalidValue` if a key is not for applications.
    package static func requireUnreserved(_ key: String, file: String?) throws {
        if !key.isEmpty && !isReserved(key) { return }
        throw QuireError(
            .invalidValue,
            key.isEmpty
                ? "The key of a metadata value is empty."
                : "“\(key)” is a reserved metadata key; choose another one.",
            subject: .init(property: key, file: file))
    }
}
