package import Foundation
package import QuireModel
package import QuireProtection

/// A file that holds a value of a stored object.
package struct ExternalFile: Sendable {
    /// The file's path.
    package var path: String
    /// The folder of its store, which the path must not lead out of.
    package var root: String
    /// The class key of the file; `nil` for an unsealed file.
    package var classKey: ClassKey?
    /// The number and digest of its bytes, if its store has recorded them.
    package var sha256: Data?

    package init(path: String, root: String, classKey: ClassKey?, sha256: Data?) {
        self.path = path
        self.root = root
        self.classKey = classKey
        self.sha256 = sha256
    }
}

/// An object as it is to be in a store that takes objects in bulk.
package struct LoadedObject {
    /// Its identifier, chosen by whoever loads.
    package var objectID: ManagedObjectID
    /// Its entity.
    package var entity: EntityLayout
    /// Its version.
    package var version: UInt32
    /// Its values by slot, references included. What is derived is computed by the store, but for times of saves.
    package var values: ContiguousArray<AttributeValue>
    /// The values that are in files, by slot; they are not in ``values``.
    package var files: [Int: ExternalFile] = [:]

    package init(
        objectID: ManagedObjectID, entity: EntityLayout, version: UInt32,
        values: ContiguousArray<AttributeValue>, files: [Int: ExternalFile] = [:]
    ) {
        self.objectID = objectID
        self.entity = entity
        self.version = version
        self.values = values
        self.files = files
    }
}

/// Takes whole objects into a store, in bulk. Nothing of it is there before the loading has come to its end.
package protocol StoreLoading: AnyObject {
    /// Adds an object. Objects to which it refers may come later.
    func insert(_ object: LoadedObject) throws

    /// Makes a relationship of an object lead to others, in this order if it has one, and their inverse back.
    func relate(
        _ owner: ManagedObjectID, through relationship: EntityLayout.Relationship,
        to members: [ManagedObjectID]
    ) throws

    /// Records texts, as ``ChangeSet/records``.
    func setRecords(_ records: [String: String]) throws

    /// Sees to it that objects of a root entity get primary keys beyond this one.
    func reservePrimaryKeys(through greatest: Int64, root: EntityLayout) throws
}

/// A store that takes objects in bulk in its own way.
package protocol BulkLoadableStore: PersistentStore {
    /// Runs a closure that loads objects; all of them are in the store when it returns, or none if it throws.
    func load(_ body: (any StoreLoading) throws -> Void) throws
}
