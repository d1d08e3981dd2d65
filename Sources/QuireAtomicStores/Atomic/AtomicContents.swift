import Foundation
package import QuireModel
package import QuireStore

/// The complete contents of a store in memory: a value, so that every copy is a snapshot unaffected by later saves.
package struct AtomicContents: Sendable {
    let layout: ResolvedModel
    let identity: StoreIdentity
    /// Indexed by the number of the root entity less one; tables of other entities are empty.
    private var tables: ContiguousArray<AtomicTable>
    /// The records of saves.
    var records: [String: String] = [:]
    var metadata: StoreMetadata
    /// The greatest primary key that an object has had.
    package var maximumKey: Int64 = 0
    /// Whether the file carries its model.
    package var carriesModel = false
    var hasInferredModel = false
    /// The bytes used by live rows, and by dead ones.
    private var liveBytes = 0
    private var deadBytes = 0

    package init(layout: ResolvedModel, metadata: StoreMetadata, identity: StoreIdentity) {
        self.layout = layout
        self.identity = identity
        self.metadata = metadata
        tables = ContiguousArray(repeating: AtomicTable(), count: layout.entities.count)
        storeBits = identity.numberBits
    }

    /// The bytes retained for dead rows, for tests.
    var deadByteCount: Int { deadBytes }

    /// The number of objects.
    var count: Int { tables.reduce(0) { $0 + $1.count } }

    // MARK: - Reading

    private func table(ofEntity number: Int) -> Int { layout.entities[number - 1].rootNumber - 1 }

    /// The row with the primary key of an identifier in its hierarchy.
    func row(_ bits: UInt64) -> AtomicRow? {
        let number = ManagedObjectID.entityNumber(of: bits)
        guard number >= 1, number <= layout.entities.count, bits >> 63 == 0 else { return nil }
        return tables[table(ofEntity: number)][Int64(bits.primaryKeyBits)]
    }

    func snapshot(_ row: AtomicRow) -> ObjectSnapshot {
        ObjectSnapshot(
            chunk: row.chunk, offset: Int(row.offset),
            entity: layout.entities[row.entityNumber - 1], store: identity)
    }

    /// The row of an object; `nil` if there is none, or its entity is not the identifier's or a sub-entity.
    func object(_ bits: UInt64) -> ObjectSnapshot? {
        guard let row = row(bits),
            layout.entities[ManagedObjectID.entityNumber(of: bits) - 1].subtree.contains(
                row.entityNumber)
        else { return nil }
        return snapshot(row)
    }

    /// The rows of a relationship's destination objects, without dangling references.
    func related(
        _ bits: UInt64, through relationship: ResolvedEntity.Relationship
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
        of entity: ResolvedEntity, includingSubentities: Bool,
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

    /// Inserts or replaces packed rows. Their to-many relationships stay.
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
            maximumKey = max(maximumKey, key)
        }
    }

    /// Sets the members of an object's to-many relationship, if the object exists.
    mutating func setMembers(
        _ list: ContiguousArray<UInt64>, of bits: UInt64,
        _ relationship: ResolvedEntity.Relationship
    ) {
        guard let index = relationship.toManyIndex else { return }
        let table = table(ofEntity: ManagedObjectID.entityNumber(of: bits))
        let layout = layout
        tables[table].update(Int64(bits.primaryKeyBits)) { row in
            let count = layout.entities[row.entityNumber - 1].toManyRelationships.count
            if index < count { row.setMembers(list, at: index, of: count) }
        }
    }

    /// Takes the row of an object out.
    mutating func remove(_ bits: UInt64) {
        let table = table(ofEntity: ManagedObjectID.entityNumber(of: bits))
        if let old = tables[table].remove(Int64(bits.primaryKeyBits)) { discard(old) }
    }

    private mutating func discard(_ row: AtomicRow) {
        liveBytes -= row.size
        deadBytes += row.size
    }

    /// The store bits of the identifiers in the rows. A coordinator may assign the store another number before its objects
    /// are read.
    private var storeBits: UInt64

    /// A copy with the current store bits in identifiers; `nil` if they are unchanged.
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

    /// The threshold below which repacking does not pay.
    private static let minimumDeadBytes = 1 << 20

    /// Repacks all rows if dead rows use more memory than live ones.
    mutating func compactIfNeeded() {
        guard deadBytes > Self.minimumDeadBytes, deadBytes > liveBytes else { return }
        var builder = RowSetBuilder(layout: layout, store: identity)
        forEachRow {
            builder.copyRow(
                $0.packed, of: layout.entities[$0.entityNumber - 1], storeBits: storeBits)
        }
        set(builder.finish())
        deadBytes = 0
    }
}

// MARK: - Saving

/// The rows of a store in memory as a save sees them.
struct AtomicSavedRows: RowStorage {
    let contents: AtomicContents
    let index: AtomicUniqueIndex

    var layout: ResolvedModel { contents.layout }
    var identity: StoreIdentity { contents.identity }

    func savedRow(_ bits: UInt64) -> ObjectSnapshot? {
        contents.row(bits).map(contents.snapshot)
    }

    func savedMembers(
        of bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) -> ContiguousArray<UInt64> {
        guard let index = relationship.toManyIndex else { return [] }
        return contents.row(bits)?.members(index) ?? []
    }

    func savedReferrers(
        to bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) throws -> [UInt64] {
        let owner = layout.entity(number: relationship.ownerNumber)
        let key = layout.rowKey(bits)
        var found: [UInt64] = []
        try contents.forEachWhile(of: owner, includingSubentities: true) { row in
            let id = row.objectID.bits
            if let slot = relationship.slot {
                if case .objectID(let target) = try row.value(at: slot),
                    layout.rowKey(target.bits) == key
                {
                    found.append(id)
                }
            } else if savedMembers(of: id, relationship).contains(where: {
                layout.rowKey($0) == key
            }) {
                found.append(id)
            }
            return true
        }
        return found
    }

    func savedHolders(of key: UniqueKey) -> [UInt64] { index.holders(of: key) }
}

extension AtomicContents {
    /// Applies the result of a save plan.
    mutating func apply<Rows: RowStorage>(_ save: InMemorySavePlan<Rows>) throws {
        for row in save.deleted.values { remove(row.objectID.bits) }
        forgetMembers(save.deleted.values.map(\.objectID.bits))
        var builder = RowSetBuilder(
            layout: layout, store: identity, expectedRows: save.order.count)
        for key in save.order {
            guard let row = save.written[key] else { continue }
            builder.beginRow(row.bits, entity: row.entity, version: row.version)
            for slot in row.entity.slots where slot.isStored {
                try builder.set(row.values[slot.index], at: slot)
            }
            builder.endRow()
        }
        set(builder.finish())
        for (list, members) in save.lists {
            guard let row = row(list.owner) else { continue }
            let entity = layout.entities[row.entityNumber - 1]
            setMembers(members, of: list.owner, entity.relationships[list.relationship])
        }
        compactIfNeeded()
    }

    /// Removes deleted objects from to-many relationships without inverse, which no change describes.
    private mutating func forgetMembers(_ deleted: [UInt64]) {
        if deleted.isEmpty || !layout.hasRelationshipsWithoutInverse { return }
        let gone = Set(deleted)
        for entity in layout.entities {
            for relationship in entity.relationships
            where relationship.ownerNumber == entity.number && relationship.isToMany
                && relationship.inverseIndex == nil && !relationship.description.isTransient
            {
                var edited: [(UInt64, ContiguousArray<UInt64>)] = []
                forEachWhile(of: entity, includingSubentities: true) { owner in
                    let bits = owner.objectID.bits
                    let members = row(bits)?.members(relationship.toManyIndex ?? 0) ?? []
                    if members.contains(where: gone.contains) {
                        edited.append((bits, members.filter { !gone.contains($0) }))
                    }
                    return true
                }
                for (bits, members) in edited { setMembers(members, of: bits, relationship) }
            }
        }
    }
}

/// The edits of an ``AtomicUniqueIndex`` by a save. Keys are computed before anything is written, so that applying them
/// cannot fail.
struct AtomicIndexEdits {
    fileprivate var removed: [AtomicUniqueIndex.Entry] = []
    fileprivate var inserted: [AtomicUniqueIndex.Entry] = []

    /// Collects the edits of a save.
    mutating func add<Rows: RowStorage>(
        _ save: InMemorySavePlan<Rows>, before: AtomicContents, after: AtomicContents
    ) throws {
        for row in save.deleted.values { removed += try AtomicUniqueIndex.entries(of: row) }
        for key in save.order where save.deleted[key] == nil {
            guard let old = before.row(key) else { continue }
            removed += try AtomicUniqueIndex.entries(of: before.snapshot(old))
        }
        for key in save.order {
            guard let new = after.row(key) else { continue }
            inserted += try AtomicUniqueIndex.entries(of: after.snapshot(new))
        }
    }
}

extension AtomicUniqueIndex {
    func apply(_ edits: AtomicIndexEdits) {
        edits.removed.forEach(remove)
        edits.inserted.forEach(insert)
    }
}

// MARK: - Unique values

/// Finds objects by values that must be unique. Of the store as it is saved; only who saves uses it, under the store's lock.
final class AtomicUniqueIndex {
    private var holders: [UniqueKey: [UInt64]] = [:]

    init(_ contents: AtomicContents) throws {
        guard contents.layout.entities.contains(where: { !$0.uniquenessConstraints.isEmpty }) else {
            return
        }
        try contents.forEachRow { try Self.entries(of: contents.snapshot($0)).forEach(insert) }
    }

    func holders(of key: UniqueKey) -> [UInt64] { holders[key] ?? [] }

    /// A unique key of an object.
    struct Entry {
        var key: UniqueKey
        var bits: UInt64
    }

    func insert(_ entry: Entry) { holders[entry.key, default: []].append(entry.bits) }

    func remove(_ entry: Entry) {
        holders[entry.key]?.removeAll { $0 == entry.bits }
        if holders[entry.key]?.isEmpty == true { holders[entry.key] = nil }
    }

    /// The keys that a row has.
    static func entries(of row: ObjectSnapshot) throws -> [Entry] {
        try row.entity.uniquenessConstraints.compactMap { owner, properties in
            let key = UniqueKey(
                owner: owner, properties: properties,
                values: try row.entity.slots(ofConstraint: properties).map {
                    try row.value(at: $0)
                })
            return key.map { Entry(key: $0, bits: row.objectID.bits) }
        }
    }
}
