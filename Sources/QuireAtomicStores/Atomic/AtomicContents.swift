import Foundation
package import QuireModel
package import QuireStore

/// All that a store has in memory: a value. Whoever holds one sees it as it was, whatever is saved meanwhile.
package struct AtomicContents: Sendable {
    let layout: ModelLayout
    let identity: StoreIdentity
    /// By the number of the root entity less one; those of other entities are empty.
    private var tables: ContiguousArray<AtomicTable>
    /// What saves have recorded.
    var records: [String: String] = [:]
    var metadata: StoreMetadata
    /// The greatest primary key that an object has had.
    package var greatestKey: Int64 = 0
    /// Whether the file carries its model.
    package var carriesModel = false
    var hasInferredModel = false
    /// How many bytes the rows take, and how many those do that nobody needs any more.
    private var liveBytes = 0
    private var deadBytes = 0

    package init(layout: ModelLayout, metadata: StoreMetadata, identity: StoreIdentity) {
        self.layout = layout
        self.identity = identity
        self.metadata = metadata
        tables = ContiguousArray(repeating: AtomicTable(), count: layout.entities.count)
        storeBits = identity.numberBits
    }

    /// How many bytes are held for rows that are gone, for tests.
    var deadByteCount: Int { deadBytes }

    /// The number of objects.
    var count: Int { tables.reduce(0) { $0 + $1.count } }

    // MARK: - Reading

    private func table(ofEntity number: Int) -> Int { layout.entities[number - 1].rootNumber - 1 }

    /// The row with the primary key of an identifier in its hierarchy.
    func row(_ bits: UInt64) -> AtomicRow? {
        let number = Int(bits >> 48 & 0x7FFF)
        guard number >= 1, number <= layout.entities.count, bits >> 63 == 0 else { return nil }
        return tables[table(ofEntity: number)][Int64(bits.primaryKeyBits)]
    }

    func snapshot(_ row: AtomicRow) -> ObjectSnapshot {
        ObjectSnapshot(
            chunk: row.chunk, offset: Int(row.offset),
            entity: layout.entities[row.entityNumber - 1], store: identity)
    }

    /// The row of an object; `nil` if there is none, or it is of an entity that the identifier's is none of.
    func object(_ bits: UInt64) -> ObjectSnapshot? {
        guard let row = row(bits),
            layout.entities[Int(bits >> 48 & 0x7FFF) - 1].subtree.contains(row.entityNumber)
        else { return nil }
        return snapshot(row)
    }

    /// What a relationship of an object leads to, without members that have no row.
    func related(
        _ bits: UInt64, through relationship: EntityLayout.Relationship
    ) -> [ObjectSnapshot] {
        guard let row = row(bits), !relationship.description.isTransient,
            layout.entity(number: relationship.ownerNumber).subtree.contains(row.entityNumber)
        else { return [] }
        if let index = relationship.toManyIndex {
            return row.members(index).compactMap { object($0) }
        }
        guard let slot = relationship.slot,
            case .objectID(let id)? = try? snapshot(row).value(at: slot)
        else { return [] }
        return object(id.bits).map { [$0] } ?? []
    }

    /// Calls a closure with the objects of entities by primary key, until it returns `false`.
    func forEachWhile(
        of entity: EntityLayout, includingSubentities: Bool,
        _ body: (ObjectSnapshot) throws -> Bool
    ) rethrows {
        let numbers = includingSubentities ? entity.subtree : entity.number...entity.number
        try tables[entity.rootNumber - 1].forEachWhile { row in
            numbers.contains(row.entityNumber) ? try body(snapshot(row)) : true
        }
    }

    /// Calls a closure with the rows of all entities, hierarchy by hierarchy, by primary key.
    func forEachRow(_ body: (AtomicRow) throws -> Void) rethrows {
        for table in tables {
            try table.forEachWhile {
                try body($0)
                return true
            }
        }
    }

    // MARK: - Changing

    /// Puts packed rows in, in the place of those that were there. Their to-many relationships stay.
    mutating func set(_ rows: RowSet) {
        for location in rows.locations {
            var row = AtomicRow(chunk: rows.chunks[Int(location.chunk)], offset: location.offset)
            let key = Int64(row.identifierBits.primaryKeyBits)
            let table = table(ofEntity: row.entityNumber)
            liveBytes += row.size
            if let old = tables[table][key] {
                row.members = old.members
                discard(old)
            }
            tables[table].set(row, for: key)
            greatestKey = max(greatestKey, key)
        }
    }

    /// Sets what a to-many relationship of an object leads to, if the object is there.
    mutating func setMembers(
        _ list: ContiguousArray<UInt64>, of bits: UInt64, _ relationship: EntityLayout.Relationship
    ) {
        guard let index = relationship.toManyIndex else { return }
        let table = table(ofEntity: Int(bits >> 48 & 0x7FFF))
        let layout = layout
        tables[table].update(Int64(bits.primaryKeyBits)) { row in
            let count = layout.entities[row.entityNumber - 1].toManyRelationships.count
            if index < count { row.setMembers(list, at: index, of: count) }
        }
    }

    /// Takes the row of an object out.
    mutating func remove(_ bits: UInt64) {
        let table = table(ofEntity: Int(bits >> 48 & 0x7FFF))
        if let old = tables[table].remove(Int64(bits.primaryKeyBits)) { discard(old) }
    }

    private mutating func discard(_ row: AtomicRow) {
        liveBytes -= row.size
        deadBytes += row.size
    }

    /// What the identifiers in the rows have besides entity and primary key. A coordinator may give the store another
    /// number before its objects are read.
    private var storeBits: UInt64

    /// The contents with identifiers as the store makes them by now.
    func renumbered() -> AtomicContents? {
        let bits = identity.numberBits
        if bits == storeBits { return nil }
        var result = self
        result.storeBits = bits
        result.tables = ContiguousArray(repeating: AtomicTable(), count: tables.count)
        var builder = RowSetBuilder(layout: layout, store: identity)
        forEachRow {
            builder.copyRow($0.packed, of: layout.entities[$0.entityNumber - 1], storeBits: bits)
        }
        result.liveBytes = 0
        result.deadBytes = 0
        result.set(builder.finish())
        let mask = ~ManagedObjectID.storeNumberMask
        forEachRow { row in
            let entity = layout.entities[row.entityNumber - 1]
            for (index, list) in row.members.enumerated() where !list.isEmpty {
                result.setMembers(
                    ContiguousArray(list.map { $0 & mask | bits }), of: row.identifierBits,
                    entity.relationships[entity.toManyRelationships[index]])
            }
        }
        return result
    }

    /// Less than this is not worth the work of packing rows anew.
    private static let leastDeadBytes = 1 << 20

    /// Packs all rows anew if more memory is held for rows that are gone than for those that are there.
    mutating func compactIfNeeded() {
        guard deadBytes > Self.leastDeadBytes, deadBytes > liveBytes else { return }
        var builder = RowSetBuilder(layout: layout, store: identity)
        forEachRow {
            builder.copyRow(
                $0.packed, of: layout.entities[$0.entityNumber - 1], storeBits: storeBits)
        }
        set(builder.finish())
        deadBytes = 0
    }
}
