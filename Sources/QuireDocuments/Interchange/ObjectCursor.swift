package import Quire
import QuireSQLite
package import QuireStore

/// The objects of one entity in the order of their primary keys. One batch of them is in memory at a time.
package final class ObjectCursor {
    private let store: any PersistentStore
    private let entity: ResolvedEntity
    private let toMany: [ResolvedEntity.Relationship]
    /// The identifiers of a store that cannot read on from a key; those stores have all objects in memory.
    private var identifiers: ObjectIDList?
    private var identifierIndex = 0
    private var rows: [ObjectSnapshot] = []
    private var position = 0
    private var lastKey: Int64 = 0
    /// The members of the batch's to-many relationships, by relationship and owner.
    private var members: [Int: [UInt64: ArraySlice<UInt64>]] = [:]

    private static let batchSize = 500

    /// Begins before the first object.
    ///
    /// - Parameter toMany: The relationships that ``members(_:_:)`` is asked for.
    package init(
        _ entity: ResolvedEntity, of store: any PersistentStore,
        toMany: [ResolvedEntity.Relationship] = []
    ) throws {
        self.store = store
        self.entity = entity
        self.toMany = toMany
        if !(store is SQLiteStore) && !entity.isAbstract {
            identifiers = try store.objectIDs(matching: FetchSpecification(only: entity.name))
        }
    }

    /// The next object, or `nil` at the end.
    package func next() throws -> ObjectSnapshot? {
        if position == rows.count { try readBatch() }
        guard position < rows.count else { return nil }
        position += 1
        return rows[position - 1]
    }

    /// The members of a relationship of the object that ``next()`` returned last.
    package func members(
        _ object: ObjectSnapshot, _ relationship: ResolvedEntity.Relationship
    ) -> [ManagedObjectID] {
        (members[relationship.index]?[object.objectID.bits] ?? []).map {
            ManagedObjectID(bits: $0, store: store.identity)
        }
    }

    private func readBatch() throws {
        (rows, position, members) = ([], 0, [:])
        if let store = store as? SQLiteStore {
            rows = Array(try store.rows(of: entity, after: lastKey, limit: Self.batchSize))
        } else if let identifiers {
            let end = min(identifierIndex + Self.batchSize, identifiers.count)
            rows = try store.rows(for: Array(identifiers[identifierIndex..<end])).sorted {
                $0.objectID.primaryKey < $1.objectID.primaryKey
            }
            identifierIndex = end
        }
        guard let last = rows.last else { return }
        lastKey = last.objectID.primaryKey
        let owners = rows.map(\.objectID)
        for relationship in toMany {
            let related = try store.relatedObjects(of: owners, through: relationship)
            var found: [UInt64: ArraySlice<UInt64>] = [:]
            for (position, owner) in related.owners.enumerated() {
                found[owner, default: []].append(contentsOf: related.members(at: position))
            }
            members[relationship.index] = found
        }
    }
}
