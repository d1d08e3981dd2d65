import Foundation
public import Quire
import QuireModel
import QuireSQLite
package import QuireStore

/// The identifiers that objects have on all machines: a `ManagedObjectID` is of one store only.
extension SyncContainer {
    /// The identifier of an object in all replicas of the shared document, for example for a link to send to another machine.
    ///
    /// ```swift
    /// let link = try await sync.identifier(of: book.objectID).map { "library:\($0)" }
    /// ```
    ///
    /// It never changes while a replica exists, even if the object is deleted and restored.
    ///
    /// - Returns: `nil` if the store is not a replica or does not contain the object, if the object's entity is not synchronized,
    ///   or if no ``synchronize()`` has seen it yet.
    public func identifier(of objectID: ManagedObjectID) async throws -> SyncIdentifier? {
        return try await onQueue { try $0.identifier(of: objectID) }
    }

    /// The object of this store with an identifier; see ``identifier(of:)``.
    ///
    /// - Returns: `nil` if it does not exist, or is hidden because an object that it requires was deleted. For an object that
    ///   lost its unique values to another one, that other object, to which all references then refer.
    public func objectID(of identifier: SyncIdentifier) async throws -> ManagedObjectID? {
        return try await onQueue { try $0.objectID(of: identifier) }
    }

    /// The objects that two stores have in common as replicas of one shared document: those of the second by those of the first.
    ///
    /// - Returns: `nil` if they are not replicas of one document, or if one is a copy of the other, in which objects have the same keys.
    package nonisolated static func commonObjects(
        _ first: any PersistentStore, _ second: any PersistentStore
    ) throws -> [ManagedObjectID: ManagedObjectID]? {
        guard let first = first as? SQLiteStore, let second = second as? SQLiteStore,
            first.identity.uuid != second.identity.uuid
        else { return nil }
        func container(_ store: SQLiteStore) throws -> SyncIdentifier? {
            try store.read { try SyncSettings.read(from: $0, path: store.storePath)?.container }
        }
        guard let shared = try container(first), try container(second) == shared else { return nil }
        let objects = try SyncReplica(second).objectIDs()
        var common: [ManagedObjectID: ManagedObjectID] = [:]
        for (identifier, objectID) in try SyncReplica(first).objectIDs() {
            common[objectID] = objects[identifier]
        }
        return common
    }
}

extension SyncReplica {
    fileprivate func identifier(of objectID: ManagedObjectID) throws -> SyncIdentifier? {
        // One of an earlier version of the model may have an entity that this one does not have.
        guard objectID.storeUUID == store.identity.uuid,
            store.layout.entities.indices.contains(objectID.entityNumber - 1)
        else { return nil }
        return try reading(nil) { try $0.object(at: objectID)?.record.id }
    }

    fileprivate func objectID(of identifier: SyncIdentifier) throws -> ManagedObjectID? {
        try reading(nil) { tables in
            guard let row = try SyncVisibility(tables, model).row(of: identifier) else {
                return nil
            }
            return try tables.object(row)?.objectID
        }
    }

    /// The identifiers of all objects that have rows.
    fileprivate func objectIDs() throws -> [SyncIdentifier: ManagedObjectID] {
        try reading([:]) { tables in
            var found: [SyncIdentifier: ManagedObjectID] = [:]
            try tables.forEachRow { found[$0] = $1 }
            return found
        }
    }
}
