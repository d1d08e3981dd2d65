import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Computes the effect of a change set on rows in memory: its ``SaveConflicts``, or else the new rows and members of to-many
/// relationships. For stores without a query language; equivalent to `SQLiteSave`.
///
/// ``run()`` is a list of steps. Nothing is written; the store applies ``written``, ``lists`` and ``deleted`` together.
struct InMemorySavePlan<Rows: RowStorage> {
    /// A row that is to be written.
    struct Row {
        let bits: UInt64
        let entity: ResolvedEntity
        var version: UInt32
        var values: ContiguousArray<AttributeValue>
        let isNew: Bool
    }

    /// A to-many relationship of an object.
    struct List: Hashable {
        /// The object; see ``ResolvedModel/rowKey(_:)``.
        let owner: UInt64
        /// The position in ``ResolvedEntity/relationships``.
        let relationship: Int
    }

    struct ListEdit {
        var added: [UInt64] = []
        var removed: Set<UInt64> = []
        /// The order in which added members come last.
        var hint: [UInt64] = []
        var order: [UInt64]?
    }

    let rows: Rows
    let changes: ChangeSet
    let path: String?
    let capabilities: StoreCapabilities

    /// The rows to write, by ``ResolvedModel/rowKey(_:)``.
    private(set) var written: [UInt64: Row] = [:]
    /// Their keys, updated ones first.
    private(set) var order: [UInt64] = []
    /// The stored objects to delete.
    private(set) var deleted: [UInt64: ObjectSnapshot] = [:]
    /// The new members of to-many relationships, including those of deleted objects.
    private(set) var lists: [List: ContiguousArray<UInt64>] = [:]
    /// The objects not in the change set whose derived values change.
    private(set) var derived: [ManagedObjectID] = []
    private var edits: [List: ListEdit] = [:]
    private var conflicts: [(id: ManagedObjectID, change: MergeConflict.Change)] = []
    /// The rows of objects that are not written, read so far.
    private(set) var known: [UInt64: ObjectSnapshot?] = [:]

    var layout: ResolvedModel { rows.layout }

    init(
        _ changes: ChangeSet, of rows: Rows, path: String?,
        capabilities: StoreCapabilities = [.versions, .constraints, .derivedAttributes]
    ) {
        self.changes = changes
        self.rows = rows
        self.path = path
        self.capabilities = capabilities
    }

    /// - Throws: ``QuireError`` with ``SaveConflicts``, or errors of reading.
    mutating func run() throws {
        for deletion in changes.deleted { try delete(deletion) }
        for change in changes.updated { try update(change) }
        for change in changes.inserted { try insert(change) }
        try connect()
        try checkReferences()
        let violations = capabilities.contains(.constraints) ? try violations() : []
        try refuse(violations)
        if capabilities.contains(.derivedAttributes), !layout.derivations.isEmpty {
            var derivation = DerivationEvaluator(self)
            try derivation.run()
            self = derivation.save
        }
    }

    // MARK: - Rows

    private mutating func saved(_ bits: UInt64) throws -> ObjectSnapshot? {
        let key = layout.rowKey(bits)
        if let row = known[key] { return row }
        let row = try rows.savedRow(bits)
        known[key] = row
        return row
    }

    private mutating func delete(_ deletion: ObjectDeletion) throws {
        let id = deletion.objectID
        // Objects already deleted by another save need not be deleted again.
        guard layout.isStored(id.bits), let row = try saved(id.bits) else { return }
        if capabilities.contains(.versions), let version = deletion.version, version != row.version
        {
            conflicts.append((id, .deletion))
        }
        deleted[layout.rowKey(id.bits)] = row
    }

    private mutating func update(_ change: ObjectChange) throws {
        guard change.writesRow else { return }
        let id = change.objectID
        guard let row = try saved(id.bits),
            row.version == change.version || !capabilities.contains(.versions)
        else {
            conflicts.append((id, .update))
            return
        }
        var values: ContiguousArray<AttributeValue> = []
        for slot in row.entity.slots { values.append(try row.value(at: slot.index)) }
        let written = Row(
            bits: row.objectID.bits, entity: row.entity, version: row.version &+ 1, values: values,
            isNew: false)
        try write(written, change)
    }

    private mutating func insert(_ change: ObjectChange) throws {
        let id = change.objectID
        guard try saved(id.bits) == nil || deleted[layout.rowKey(id.bits)] != nil else {
            throw QuireError(
                .mergeConflict,
                "“\(id.shortDescription)” already exists\(path.map { " in “\($0)”" } ?? ""); save again.",
                entity: id.entityName, object: id.uriRepresentation, file: path,
                underlying: PrimaryKeyCollision())
        }
        let row = Row(
            bits: rows.identity.bits(of: id), entity: change.entity, version: 1,
            values: ContiguousArray(repeating: .null, count: change.entity.slots.count),
            isNew: true)
        try write(row, change)
    }

    private mutating func write(_ row: Row, _ change: ObjectChange) throws {
        var row = row
        for slot in row.entity.slots
        where slot.isStored && !slot.isDerived && change.changedSlots.contains(slot.index)
            && slot.index < change.values.count
        {
            row.values[slot.index] = try kept(change.values[slot.index], slot, row)
        }
        let key = layout.rowKey(row.bits)
        if written.updateValue(row, forKey: key) == nil { order.append(key) }
    }

    /// A value in its stored form.
    private func kept(
        _ value: AttributeValue, _ slot: ResolvedEntity.Slot, _ row: Row
    ) throws -> AttributeValue {
        switch (slot.storage, value) {
        case (_, .null), (.integer, .integer), (.boolean, .boolean), (.string, .string),
            (.uuid, .uuid), (.uri, .uri), (.binary, .binary):
            return value
        case (.reference, .objectID(let id)):
            return .objectID(
                ManagedObjectID(bits: rows.identity.bits(of: id), store: rows.identity))
        // NaN is null, as in a database.
        case (.double, .double(let number)): return number.isNaN ? .null : value
        case (.date, .date(let date)):
            return date.timeIntervalSinceReferenceDate.isNaN ? .null : value
        case (.decimal, .decimal(let decimal)): return decimal.isNaN ? .null : value
        default:
            throw QuireError(
                .invalidValue,
                "“\(row.entity.name).\(slot.name)” of \(row.entity.name)/p\(row.bits.primaryKeyBits) cannot have the value \(value).",
                entity: row.entity.name, property: slot.name, file: path)
        }
    }

    /// Adds an object to those written for the sake of a derived value.
    mutating func setDerived(_ value: AttributeValue, at slot: Int, of bits: UInt64) throws {
        let key = layout.rowKey(bits)
        if written[key] == nil {
            guard let row = try saved(bits) else { return }
            var values: ContiguousArray<AttributeValue> = []
            for slot in row.entity.slots { values.append(try row.value(at: slot.index)) }
            written[key] = Row(
                bits: row.objectID.bits, entity: row.entity, version: row.version, values: values,
                isNew: false)
            order.append(key)
            derived.append(row.objectID)
        }
        written[key]?.values[slot] = value
    }

    /// Leaves objects that are in the change set out of ``derived``.
    mutating func finishDerived() {
        let changed = Set(changes.updated.map { layout.rowKey($0.objectID.bits) })
        derived = derived.filter { !changed.contains(layout.rowKey($0.bits)) }
    }

    // MARK: - After the save

    /// Whether an object exists after the save.
    mutating func exists(_ bits: UInt64) throws -> Bool {
        guard layout.isStored(bits) else { return false }
        let key = layout.rowKey(bits)
        if written[key] != nil { return true }
        return try deleted[key] == nil && saved(bits) != nil
    }

    /// A value of an object after the save; `nil` if it does not exist.
    mutating func value(at slot: Int, of bits: UInt64) throws -> AttributeValue? {
        guard layout.isStored(bits) else { return nil }
        let key = layout.rowKey(bits)
        if let row = written[key] { return slot < row.values.count ? row.values[slot] : nil }
        if deleted[key] != nil { return nil }
        guard let row = try saved(bits), slot < row.entity.slots.count else { return nil }
        return try row.value(at: slot)
    }

    /// The entity of an object that exists before or after the save.
    mutating func entity(of bits: UInt64) throws -> ResolvedEntity? {
        guard layout.isStored(bits) else { return nil }
        if let row = written[layout.rowKey(bits)] { return row.entity }
        return try saved(bits)?.entity
    }

    /// The new members of an object's to-many relationship. May include dangling references.
    func members(
        of bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) throws -> ContiguousArray<UInt64> {
        let list = List(owner: layout.rowKey(bits), relationship: relationship.index)
        if let members = lists[list] { return members }
        if written[list.owner]?.isNew == true { return [] }
        return try rows.savedMembers(of: bits, relationship)
    }

    // MARK: - To-many relationships

    /// Computes the members of to-many relationships: those with a to-one inverse follow from it, the rest from the change
    /// set, from either side.
    private mutating func connect() throws {
        for (key, row) in deleted { try disconnect(key, row) }
        for key in order {
            guard let row = written[key] else { continue }
            try followReferences(of: row)
        }
        for change in changes.updated + changes.inserted { note(change) }
        for (list, edit) in edits { try apply(edit, to: list) }
    }

    private mutating func edit(
        _ owner: UInt64, _ relationship: ResolvedEntity.Relationship,
        _ body: (inout ListEdit) -> Void
    ) {
        guard layout.isStored(owner) else { return }
        body(
            &edits[
                List(owner: layout.rowKey(owner), relationship: relationship.index),
                default: ListEdit()])
    }

    private mutating func disconnect(_ key: UInt64, _ row: ObjectSnapshot) throws {
        let bits = row.objectID.bits
        // An object inserted again in the same save is written completely.
        for relationship in row.entity.relationships where !relationship.description.isTransient {
            guard let inverse = layout.inverse(of: relationship), inverse.isToMany else { continue }
            if let slot = relationship.slot {
                guard case .objectID(let target) = try row.value(at: slot) else { continue }
                edit(target.bits, inverse) { $0.removed.insert(bits) }
            } else {
                for member in try rows.savedMembers(of: bits, relationship) {
                    edit(member, inverse) { $0.removed.insert(bits) }
                }
            }
        }
    }

    private mutating func followReferences(of row: Row) throws {
        for index in row.entity.identifierSlots {
            let slot = row.entity.slots[index]
            guard slot.isStored, let number = slot.relationshipIndex,
                let inverse = layout.inverse(of: row.entity.relationships[number]), inverse.isToMany
            else { continue }
            var old: UInt64?
            if !row.isNew, case .objectID(let id)? = try saved(row.bits)?.value(at: index) {
                old = id.bits
            }
            var new: UInt64?
            if case .objectID(let id) = row.values[index] { new = id.bits }
            if old == new { continue }
            if let old { edit(old, inverse) { $0.removed.insert(row.bits) } }
            if let new { edit(new, inverse) { $0.added.append(row.bits) } }
        }
    }

    private mutating func note(_ change: ObjectChange) {
        let identity = rows.identity
        let owner = identity.bits(of: change.objectID)
        for toMany in change.toManyChanges {
            let relationship = change.entity.relationships[toMany.relationshipIndex]
            if relationship.description.isTransient || !relationship.isToMany { continue }
            let inverse = layout.inverse(of: relationship)
            edit(owner, relationship) { edit in
                if inverse?.slot == nil {
                    edit.added += toMany.added.map(identity.bits)
                    for id in toMany.removed { edit.removed.insert(identity.bits(of: id)) }
                }
                edit.hint += toMany.added.map(identity.bits)
                if let order = toMany.order { edit.order = order.map(identity.bits) }
            }
            guard let inverse, inverse.isToMany else { continue }
            for id in toMany.added {
                edit(identity.bits(of: id), inverse) { $0.added.append(owner) }
            }
            for id in toMany.removed {
                edit(identity.bits(of: id), inverse) { $0.removed.insert(owner) }
            }
        }
    }

    private mutating func apply(_ edit: ListEdit, to list: List) throws {
        guard let entity = try entity(of: list.owner) else { return }
        let relationship = entity.relationships[list.relationship]
        let isNew = written[list.owner]?.isNew == true
        var members = isNew ? [] : try rows.savedMembers(of: list.owner, relationship)
        // An object both added and removed is added: the removal refers to its previous state.
        var added = OrderedBits(edit.added)
        if !edit.removed.isEmpty {
            members.removeAll { edit.removed.contains($0) && !added.contains($0) }
        }
        added.remove(members)
        if !relationship.isOrdered {
            let needsSorting =
                members.last.map { last in
                    added.bits.contains { $0.primaryKeyBits < last.primaryKeyBits }
                }
                ?? true
            members += added.bits
            if needsSorting { members.sort { $0.primaryKeyBits < $1.primaryKeyBits } }
        } else {
            if !edit.hint.isEmpty { added.sort(asIn: edit.hint) }
            members += added.bits
            if let order = edit.order { members = Self.arrange(members, order) }
        }
        lists[list] = members
    }

    /// Members sorted by a given order; those missing from it come last.
    private static func arrange(
        _ members: ContiguousArray<UInt64>, _ order: [UInt64]
    ) -> ContiguousArray<UInt64> {
        var left = Set(members)
        var result: ContiguousArray<UInt64> = []
        result.reserveCapacity(members.count)
        for bits in order where left.remove(bits) != nil { result.append(bits) }
        for bits in members where left.contains(bits) { result.append(bits) }
        return result
    }

    // MARK: - Conflicts

    private mutating func checkReferences() throws {
        var found = Set(conflicts.map(\.id))
        for (id, change) in try missingTargets() + newlyReferenced()
        where found.insert(id).inserted { conflicts.append((id, change)) }
    }

    private mutating func missingTargets() throws
        -> [(id: ManagedObjectID, change: MergeConflict.Change)]
    {
        let identity = rows.identity
        var seen = Set(changes.inserted.map { identity.bits(of: $0.objectID) })
        // References to objects deleted by the change set itself are permitted if the model's rules left them.
        seen.formUnion(changes.deleted.map { identity.bits(of: $0.objectID) })
        var targets: [ManagedObjectID] = []
        func add(_ id: ManagedObjectID) {
            if seen.insert(identity.bits(of: id)).inserted { targets.append(id) }
        }
        for change in changes.inserted + changes.updated {
            for slot in change.entity.identifierSlots where change.changedSlots.contains(slot) {
                if change.entity.storages[slot] == .reference, change.entity.slots[slot].isStored,
                    case .objectID(let id) = change.values[slot]
                {
                    add(id)
                }
            }
            for toMany in change.toManyChanges { for id in toMany.added { add(id) } }
        }
        for change in changes.updated where !change.writesRow { add(change.objectID) }
        let updated = Set(changes.updated.map(\.objectID))
        var missing: [(id: ManagedObjectID, change: MergeConflict.Change)] = []
        for id in targets {
            guard rows.identity.owns(id) else {
                throw QuireError.foreign(id, "to be referred to", path: path)
            }
            if try !exists(id.bits) {
                missing.append((id, updated.contains(id) ? .update : .reference))
            }
        }
        return missing
    }

    /// Deleted objects that are referred to by objects not in the change set.
    private mutating func newlyReferenced() throws
        -> [(id: ManagedObjectID, change: MergeConflict.Change)]
    {
        var result: [(id: ManagedObjectID, change: MergeConflict.Change)] = []
        for deletion in changes.deleted {
            guard let row = deleted[layout.rowKey(deletion.objectID.bits)] else { continue }
            if try isReferenced(row) { result.append((deletion.objectID, .deletion)) }
        }
        return result
    }

    private mutating func isReferenced(_ row: ObjectSnapshot) throws -> Bool {
        let bits = row.objectID.bits
        for relationship in row.entity.relationships
        where relationship.description.deleteRule != .noAction {
            guard let inverse = layout.inverse(of: relationship)?.slot else { continue }
            let candidates: [UInt64]
            if let slot = relationship.slot {
                guard case .objectID(let partner) = try row.value(at: slot) else { continue }
                candidates = [partner.bits]
            } else {
                candidates = Array(try members(of: bits, relationship))
            }
            for candidate in candidates {
                if case .objectID(let id)? = try value(at: inverse, of: candidate),
                    layout.rowKey(id.bits) == layout.rowKey(bits)
                {
                    return true
                }
            }
        }
        return false
    }

    private func refuse(_ violations: [ConstraintConflict]) throws {
        var found = SaveConflicts()
        found.constraints = violations
        found.objects = try conflicts.map { id, change in
            MergeConflict(
                objectID: id, change: change,
                current: try layout.isStored(id.bits) ? rows.current(id) : nil)
        }
        if !found.isEmpty { throw found.error(file: path) }
    }

    // MARK: - Uniqueness

    private mutating func violations() throws -> [ConstraintConflict] {
        var keys: [UniqueKey] = []
        var groups: [UniqueKey: (bits: [UInt64], values: [AttributeValue])] = [:]
        for key in order {
            guard let row = written[key] else { continue }
            for (owner, properties) in row.entity.uniquenessConstraints {
                let slots = row.entity.slots(ofConstraint: properties)
                let values = slots.map { row.values[$0] }
                guard
                    let unique = UniqueKey(owner: owner, properties: properties, values: values)
                else { continue }
                if groups[unique] == nil { keys.append(unique) }
                groups[unique, default: ([], values)].bits.append(row.bits)
            }
        }
        let updated =
            keys.isEmpty ? [] : Set(changes.updated.map { layout.rowKey($0.objectID.bits) })
        var result: [ConstraintConflict] = []
        for unique in keys {
            guard var bits = groups[unique]?.bits, let values = groups[unique]?.values else {
                continue
            }
            var current: ObjectSnapshot?
            for holder in try rows.savedHolders(of: unique) {
                let key = layout.rowKey(holder)
                // Written objects with the values are among them already.
                if written[key] != nil || deleted[key] != nil { continue }
                if updated.contains(key) {
                    bits.insert(holder, at: 0)
                } else {
                    current = try saved(holder)
                }
                break
            }
            if current == nil && bits.count < 2 { continue }
            result.append(
                ConstraintConflict(
                    entityName: layout.entity(number: unique.owner).name,
                    constraint: unique.properties, constraintValues: values, current: current,
                    conflictingObjectIDs: bits.map {
                        ManagedObjectID(bits: $0, store: rows.identity)
                    }))
        }
        return result
    }
}

// MARK: - Counts

/// A to-many relationship of an object whose count rules have to be checked.
typealias CountedRelationship = (
    owner: ManagedObjectID, relationship: ResolvedEntity.Relationship
)

extension InMemorySavePlan {
    /// Checks the count rules of to-many relationships of the objects that exist after the save.
    ///
    /// - Throws: ``QuireError`` with code `validation`.
    mutating func checkCounts(of counted: [CountedRelationship]) throws {
        for (owner, relationship) in counted where try exists(owner.bits) {
            var count = 0
            for member in try members(of: owner.bits, relationship) where try exists(member) {
                count += 1
            }
            if let rule = relationship.rule(violatedByCount: count) {
                throw relationship.countViolation(rule, of: owner, count: count)
            }
        }
    }
}

extension RowStorage {
    /// The row of an object, if it is of the identifier's entity.
    fileprivate func current(_ id: ManagedObjectID) throws -> ObjectSnapshot? {
        guard let row = try savedRow(id.bits),
            layout.entity(number: id.entityNumber).subtree.contains(row.entity.number)
        else { return nil }
        return row
    }
}

/// Identifier bits in an order, each once.
private struct OrderedBits {
    private(set) var bits: [UInt64]
    private var set: Set<UInt64>

    init(_ bits: [UInt64]) {
        set = []
        self.bits = []
        for each in bits where set.insert(each).inserted { self.bits.append(each) }
    }

    func contains(_ each: UInt64) -> Bool { !set.isEmpty && set.contains(each) }

    /// Removes elements that are in another list.
    mutating func remove(_ others: ContiguousArray<UInt64>) {
        if bits.isEmpty || others.isEmpty { return }
        var found = false
        for each in others where set.remove(each) != nil { found = true }
        if found { bits.removeAll { !set.contains($0) } }
    }

    /// Sorts elements by their order in a list, before the rest.
    mutating func sort(asIn hint: [UInt64]) {
        var left = set
        var sorted: [UInt64] = []
        for each in hint where left.remove(each) != nil { sorted.append(each) }
        for each in bits where left.contains(each) { sorted.append(each) }
        bits = sorted
    }
}
