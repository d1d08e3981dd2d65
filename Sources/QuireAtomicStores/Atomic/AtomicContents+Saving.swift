internal import QuireModel
internal import QuireStore

/// The rows of a store in memory as a save sees them.
struct AtomicSavedRows: SavedRows {
    let contents: AtomicContents
    let index: AtomicUniqueIndex

    var layout: ModelLayout { contents.layout }
    var identity: StoreIdentity { contents.identity }

    func savedRow(_ bits: UInt64) -> ObjectSnapshot? {
        contents.row(bits).map(contents.snapshot)
    }

    func savedMembers(
        of bits: UInt64, _ relationship: EntityLayout.Relationship
    ) -> ContiguousArray<UInt64> {
        guard let index = relationship.toManyIndex else { return [] }
        return contents.row(bits)?.members(index) ?? []
    }

    func savedReferrers(
        to bits: UInt64, _ relationship: EntityLayout.Relationship
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
    /// Takes over what a save has worked out.
    mutating func apply<Rows: SavedRows>(_ save: RowSave<Rows>) throws {
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

    /// Takes deleted objects out of to-many relationships that have no inverse, which nothing else tells of.
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

/// What a save does to an ``AtomicUniqueIndex``. The keys are worked out before anything is written, so that taking them
/// over cannot fail.
struct AtomicIndexEdits {
    fileprivate var removed: [AtomicUniqueIndex.Entry] = []
    fileprivate var inserted: [AtomicUniqueIndex.Entry] = []

    /// Collects what a save has written.
    mutating func add<Rows: SavedRows>(
        _ save: RowSave<Rows>, before: AtomicContents, after: AtomicContents
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
