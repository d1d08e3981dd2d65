import Foundation
package import QuireModel
internal import QuireSystem

/// A mapping model with all names resolved.
///
/// Primary keys
/// ============
///
/// A new object has its old one's primary key, plus an offset per old table: 0 for the first of the old tables that a new
/// table is filled from, and for each further one enough to avoid collisions. So identifiers are translated without a lookup
/// table, unless a policy creates the objects.
package struct TransferPlan {
    let source: ResolvedModel
    let destination: ResolvedModel
    /// The mappings with a source and a destination.
    private(set) var transfers: [EntityTransfer] = []
    /// The mappings that require a policy.
    private(set) var policyMappings: [EntityMapping] = []
    /// The transfers of each old entity, by its number.
    private var bySource: [Int: [Int]] = [:]

    /// Resolves a mapping model.
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel`, naming the entities and properties that the models lack.
    package init(_ mapping: MappingModel, from source: ResolvedModel, to destination: ResolvedModel)
        throws
    {
        self.source = source
        self.destination = destination
        var failures: [QuireError] = []
        var groups: [KeyGroup] = []
        var ordinals: [[Int]: Int] = [:]
        for entityMapping in mapping.entityMappings {
            do {
                guard let (old, new) = try entities(of: entityMapping) else { continue }
                let ordinal = ordinals[[old.number, new.rootNumber], default: 0]
                ordinals[[old.number, new.rootNumber]] = ordinal + 1
                let group = KeyGroup(
                    oldRoot: old.rootNumber, newRoot: new.rootNumber, ordinal: ordinal)
                if !groups.contains(group) { groups.append(group) }
                let transfer = try EntityTransfer(
                    entityMapping, from: old, to: new, index: transfers.count,
                    keyGroup: groups.firstIndex(of: group) ?? 0, in: self)
                bySource[old.number, default: []].append(transfers.count)
                transfers.append(transfer)
            } catch let error as QuireError {
                failures.append(error)
            }
        }
        if !failures.isEmpty { throw QuireError.combining(failures) }
        keyGroups = groups
        for index in transfers.indices { transfers[index].edges = edges(of: transfers[index]) }
    }

    /// The source and destination entities of a mapping; `nil` if it lacks one.
    private mutating func entities(
        of mapping: EntityMapping
    ) throws -> (ResolvedEntity, ResolvedEntity)? {
        if mapping.mappingType == .remove { return nil }
        guard let new = mapping.destinationEntityName else { return nil }
        guard let newEntity = destination.entity(named: new) else {
            throw Self.unknown(mapping, new, "new")
        }
        guard let old = mapping.sourceEntityName else {
            if mapping.entityMigrationPolicyName != nil { policyMappings.append(mapping) }
            return nil
        }
        guard let oldEntity = source.entity(named: old) else {
            throw Self.unknown(mapping, old, "old")
        }
        return (oldEntity, newEntity)
    }

    private static func unknown(_ mapping: EntityMapping, _ entity: String, _ which: String)
        -> QuireError
    {
        QuireError(
            .incompatibleModel,
            "The mapping “\(mapping.name)” refers to “\(entity)”, which the \(which) model does not contain.",
            entity: entity)
    }

    // MARK: - Keys

    /// Objects whose keys are moved by the same number.
    struct KeyGroup: Hashable {
        let oldRoot: Int
        let newRoot: Int
        /// The ordinal among several mappings of the same objects to the same table.
        let ordinal: Int
    }

    private(set) var keyGroups: [KeyGroup] = []
    /// By how much keys are moved, by the position of the group.
    private(set) var keyOffsets: [Int64] = []
    /// The greatest keys of the new tables, by the numbers of their root entities.
    private(set) var maximumKeys: [Int: Int64] = [:]
    private var keySpace = KeySpace.table

    /// The scope of unique keys.
    enum KeySpace {
        /// Each table, as in SQLite stores.
        case table
        /// The whole store, from a first key on.
        case store(first: Int64)
        /// The whole store, with the keys of the old one.
        case sameStore
    }

    /// Decides by how much keys are moved.
    ///
    /// - Parameter greatest: The greatest key that an object of an old root entity has had.
    mutating func assignKeys(
        _ space: KeySpace = .table, _ greatest: (ResolvedEntity) throws -> Int64
    ) throws {
        keySpace = space
        keyOffsets = [Int64](repeating: 0, count: keyGroups.count)
        maximumKeys = [:]
        let roots = Set(keyGroups.map(\.newRoot))
        for root in roots.sorted() {
            let name = destination.entity(number: root).name
            // The table's predecessor keeps its keys.
            let members = keyGroups.indices.filter { keyGroups[$0].newRoot == root }.sorted {
                let (left, right) = (keyGroups[$0], keyGroups[$1])
                let isNamed = [left, right].map {
                    source.entity(number: $0.oldRoot).name == name ? 0 : 1
                }
                return (left.ordinal, isNamed[0], left.oldRoot)
                    < (right.ordinal, isNamed[1], right.oldRoot)
            }
            var end: Int64
            switch space {
            case .table, .sameStore: end = 0
            case .store(let first): end = maximumKeys.values.max() ?? first - 1
            }
            for index in members {
                let last = try greatest(source.entity(number: keyGroups[index].oldRoot))
                if case .sameStore = space {
                    end = max(end, last)
                } else {
                    keyOffsets[index] = end
                    end += last
                }
            }
            guard end <= ManagedObjectID.maximumPrimaryKey else {
                throw QuireError(
                    .storeUnavailable,
                    "“\(name)” of the new model would exceed the maximum primary key.",
                    entity: name)
            }
            maximumKeys[root] = end
        }
    }

    /// A key that no object has.
    mutating func nextKey(root: Int) throws -> Int64 {
        let last: Int64
        switch keySpace {
        case .table: last = maximumKeys[root, default: 0]
        case .store, .sameStore: last = maximumKeys.values.max() ?? 0
        }
        let key = last + 1
        guard key <= ManagedObjectID.maximumPrimaryKey else {
            throw QuireError(
                .storeUnavailable, "The new store has no primary keys left.")
        }
        maximumKeys[root] = key
        return key
    }

    /// The transfer by which objects of an old entity become valid destinations of a relationship.
    func transfer(ofEntity number: Int, within destination: ResolvedEntity) -> EntityTransfer? {
        bySource[number]?.lazy.map { transfers[$0] }.first {
            destination.subtree.contains($0.destination.number)
        }
    }

    /// The transfers of a mapping's name.
    func transfer(named name: String) -> EntityTransfer? {
        transfers.first { $0.mapping.name == name }
    }

    /// The transfers of an old entity.
    func transfers(ofEntity number: Int) -> [EntityTransfer] {
        (bySource[number] ?? []).map { transfers[$0] }
    }
}

/// The transfer of an old entity's objects to a new entity.
struct EntityTransfer {
    /// The source of a slot's value.
    enum Value: Sendable {
        case nothing
        case constant(AttributeValue)
        /// A slot of the old object; where that has no value, another.
        case copy(slot: Int, AttributeConversion, fallback: AttributeValue)
        /// The new object for the old destination of a slot; an error if the slot becomes required and there is none.
        case reference(slot: Int, required: Bool)
        /// The value of an expression.
        case expression(MappingExpression)
    }

    /// A relationship that is written after all objects.
    struct Edge: Sendable {
        /// The relationship of the new entity.
        let relationship: ResolvedEntity.Relationship
        /// The old relationship.
        let source: ResolvedEntity.Relationship
    }

    let mapping: EntityMapping
    let index: Int
    let source: ResolvedEntity
    let destination: ResolvedEntity
    /// The position in ``TransferPlan/keyGroups``.
    let keyGroup: Int
    /// The sources of values, by the slots of the new entity.
    let values: [Value]
    /// The expressions of the new entity's relationships, by their indexes.
    let relationships: [Int: MappingExpression]
    fileprivate(set) var edges: [Edge] = []

    init(
        _ mapping: EntityMapping, from source: ResolvedEntity, to destination: ResolvedEntity,
        index: Int, keyGroup: Int, in plan: TransferPlan
    ) throws {
        self.mapping = mapping
        self.index = index
        self.source = source
        self.destination = destination
        self.keyGroup = keyGroup
        for property in mapping.attributeMappings + mapping.relationshipMappings
        where destination.properties[property.name] == nil {
            throw Self.unknown(property.name, of: destination, mapping, "new")
        }
        var relationships: [Int: MappingExpression] = [:]
        for property in mapping.relationshipMappings {
            guard let relationship = destination.relationship(named: property.name),
                let expression = property.valueExpression
            else { continue }
            if let name = expression.relationshipName, source.relationship(named: name) == nil {
                throw Self.unknown(name, of: source, mapping, "old")
            }
            relationships[relationship.index] = expression
        }
        self.relationships = relationships
        values = try destination.slots.map { slot in
            guard slot.isStored else { return .nothing }
            if let index = slot.relationshipIndex {
                return Self.reference(
                    relationships[index], of: source, to: destination.relationships[index])
            }
            return try Self.value(of: slot, mapping, source, destination)
        }
    }

    private static func unknown(
        _ property: String, of entity: ResolvedEntity, _ mapping: EntityMapping, _ which: String
    ) -> QuireError {
        QuireError(
            .incompatibleModel,
            "The mapping “\(mapping.name)” refers to “\(entity.name).\(property)”, which the \(which) model does not contain.",
            entity: entity.name, property: property)
    }

    private static func reference(
        _ expression: MappingExpression?, of source: ResolvedEntity,
        to relationship: ResolvedEntity.Relationship
    ) -> Value {
        guard let name = expression?.relationshipName,
            let before = source.relationship(named: name), let slot = before.slot
        else { return .nothing }
        return .reference(
            slot: slot,
            required: !relationship.description.isOptional && before.description.isOptional)
    }

    private static func value(
        of slot: ResolvedEntity.Slot, _ mapping: EntityMapping, _ source: ResolvedEntity,
        _ destination: ResolvedEntity
    ) throws -> Value {
        guard let attribute = slot.attribute else { return .nothing }
        let expression = mapping.attributeMappings[slot.name]?.valueExpression
        if slot.isDerived && !slot.isDerivedFromTime { return .nothing }
        switch expression {
        case nil:
            return slot.isDerived ? .constant(.date(Date())) : .constant(attribute.defaultValue)
        case .constant(let value)?: return .constant(value)
        case .sourceValue(let name)?:
            guard case .attribute(let from)? = source.properties[name],
                let before = source.slots[from].attribute
            else {
                let first = String(name.split(separator: ".").first ?? "")
                if name.contains("."), source.relationship(named: first) != nil {
                    return .expression(.sourceValue(name))
                }
                throw unknown(name, of: source, mapping, "old")
            }
            guard
                let conversion = AttributeConversion(from: before.type, to: attribute.type)
            else { return .expression(.sourceValue(name)) }
            return .copy(
                slot: from, conversion,
                fallback: attribute.isOptional || !before.isOptional
                    ? .null : attribute.defaultValue)
        case let other?: return .expression(other)
        }
    }
}

// MARK: - Relationships that are written later

extension TransferPlan {
    /// The relationships of a transfer's objects that are not stored in their own rows.
    private func edges(of transfer: EntityTransfer) -> [EntityTransfer.Edge] {
        transfer.relationships.sorted { $0.key < $1.key }.compactMap { index, expression in
            let relationship = transfer.destination.relationships[index]
            guard let name = expression.relationshipName,
                let old = transfer.source.relationship(named: name),
                !old.description.isTransient, !relationship.description.isTransient,
                isWrittenLater(relationship, old)
            else { return nil }
            return EntityTransfer.Edge(relationship: relationship, source: old)
        }
    }

    private func isWrittenLater(
        _ relationship: ResolvedEntity.Relationship, _ old: ResolvedEntity.Relationship
    ) -> Bool {
        guard let inverse = destination.inverse(of: relationship) else {
            return relationship.isToMany || old.isToMany
        }
        let isInverseMapped = mapping(of: inverse)
        if !relationship.isToMany {
            return old.isToMany || (!inverse.isToMany && isInverseMapped == nil)
        }
        if !inverse.isToMany {
            // The inverse is to-one and determines the members, unless it is not mapped.
            if let mapped = isInverseMapped, !mapped.isToMany {
                return relationship.isOrdered && old.isOrdered
            }
            return true
        }
        let isNaming =
            (relationship.ownerNumber, relationship.index) <= (inverse.ownerNumber, inverse.index)
        return isNaming || isInverseMapped == nil || (relationship.isOrdered && old.isOrdered)
    }

    /// The old relationship that a new one is mapped from, by any mapping.
    private func mapping(of relationship: ResolvedEntity.Relationship) -> ResolvedEntity
        .Relationship?
    {
        for transfer in transfers
        where destination.entity(number: relationship.ownerNumber).subtree
            .contains(transfer.destination.number)
        {
            guard let name = transfer.relationships[relationship.index]?.relationshipName
            else { continue }
            return transfer.source.relationship(named: name)
        }
        return nil
    }
}

extension TransferPlan {
    /// Whether objects keep their primary keys.
    var keepsKeys: Bool { keyOffsets.allSatisfy { $0 == 0 } }

    /// Checks that objects keep their identifiers, by which a draft of unsaved changes refers to them.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if some do not.
    func requireSameKeys(forDraftIn path: String?) throws {
        if keepsKeys { return }
        throw QuireError(
            .unsupported,
            "“\(path ?? "the store")” has a draft of unsaved changes, but the identifiers of objects would change; open it with "
                + "the model it was created with, save or discard the changes, and then migrate it.",
            file: path)
    }
}
