import Foundation
public import QuireModel
internal import QuireStore
internal import QuireSystem

/// The old objects, and the new ones created by policies, during a migration.
public final class MigrationSession {
    private var plan: TransferPlan
    private let source: any PersistentStore
    private let identity: StoreIdentity
    private var policies: [String: EntityMigrationPolicy] = [:]
    private let makers: [String: () -> EntityMigrationPolicy]
    private(set) var made: [MigrationObject] = []
    /// New objects by old ones, with their mappings.
    private var associations: [ManagedObjectID: [(mapping: String, object: ManagedObjectID)]] = [:]
    private var taken: Set<ManagedObjectID> = []

    init(
        _ plan: TransferPlan, from source: any PersistentStore, identity: StoreIdentity,
        policies: [String: () -> EntityMigrationPolicy]
    ) throws {
        self.plan = plan
        self.source = source
        self.identity = identity
        makers = policies
        let mappings = plan.transfers.map(\.mapping) + plan.policyMappings
        for mapping in mappings {
            guard let name = mapping.entityMigrationPolicyName else { continue }
            // Xcode's mapping models name Swift classes with their modules.
            let className = name.split(separator: ".").last.map(String.init) ?? name
            guard let maker = policies[name] ?? policies[className] else {
                throw QuireError(
                    .unsupported,
                    "The mapping “\(mapping.name)” requires the policy “\(name)”, which this program does not have; "
                        + "register it with the migration manager.")
            }
            self.policies[mapping.name] = maker()
        }
    }

    /// The greatest keys of new tables, including objects created by policies.
    var maximumKeys: [Int: Int64] { plan.maximumKeys }

    /// The policy of a mapping.
    func policy(of mapping: EntityMapping) -> EntityMigrationPolicy? { policies[mapping.name] }

    // MARK: - Making objects

    /// Creates a new object.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unsupported` if the entity is abstract, or as
    ///   ``MigrationObject/setValue(_:for:)``.
    public func makeObject(
        of entityName: String, values: [String: AttributeValue] = [:]
    ) throws -> MigrationObject {
        let entity = try plan.destination.requireEntity(named: entityName)
        let object = try make(
            ManagedObjectID(
                entityNumber: entity.number, primaryKey: plan.nextKey(root: entity.rootNumber),
                store: identity), entity, nil, nil)
        for (key, value) in values { try object.setValue(value, for: key) }
        return object
    }

    /// Creates a new object for an old one, with the values of a mapping, and associates the two.
    ///
    /// The first object that a mapping creates for an old one has its primary key, if keys are preserved.
    public func makeObject(
        for source: MigrationSource, mapping: EntityMapping
    ) throws -> MigrationObject {
        guard let transfer = plan.transfer(named: mapping.name) else {
            throw QuireError(
                .invalidState,
                "The mapping “\(mapping.name)” does not create objects from source objects; create an object of an entity instead."
            )
        }
        let entity = transfer.destination
        let kept = ManagedObjectID(
            entityNumber: entity.number,
            primaryKey: source.objectID.primaryKey + plan.keyOffsets[transfer.keyGroup],
            store: identity)
        let id =
            taken.insert(kept).inserted
            ? kept
            : ManagedObjectID(
                entityNumber: entity.number, primaryKey: try plan.nextKey(root: entity.rootNumber),
                store: identity)
        let object = try make(id, entity, mapping, source)
        object.version = max(source.snapshot.version, 1)
        for (slot, value) in transfer.values.enumerated() {
            switch value {
            case .nothing, .reference: continue
            case .constant(let constant):
                if !entity.slots[slot].isDerived {
                    try object.setValue(constant, for: entity.slots[slot].name)
                }
            case .copy(let from, let conversion, let fallback):
                if entity.slots[slot].isDerived { continue }
                let old = try source.snapshot.valueWithoutLoading(at: from)
                try object.setValue(
                    old.isNull ? fallback : conversion.apply(to: old),
                    for: entity.slots[slot].name)
            case .expression(let expression):
                try object.setValue(
                    self.value(of: expression, for: source, mapping: mapping),
                    for: entity.slots[slot].name)
            }
        }
        associate(source, with: object.objectID, mapping: mapping)
        return object
    }

    private func make(
        _ id: ManagedObjectID, _ entity: ResolvedEntity, _ mapping: EntityMapping?,
        _ source: MigrationSource?
    ) throws -> MigrationObject {
        if entity.isAbstract {
            throw QuireError(
                .unsupported,
                "“\(entity.name)” is abstract; create objects of a sub-entity.",
                entity: entity.name)
        }
        let object = MigrationObject(id, entity, mapping: mapping, source: source)
        made.append(object)
        return object
    }

    /// Associates a new object with an old one under a mapping.
    public func associate(
        _ source: MigrationSource, with objectID: ManagedObjectID, mapping: EntityMapping
    ) {
        associations[source.objectID, default: []].append((mapping.name, objectID))
    }

    /// The objects of an entity, and its sub-entities, created by policies so far.
    public func objects(of entityName: String) -> [MigrationObject] {
        guard let entity = plan.destination.entity(named: entityName) else { return [] }
        return made.filter { entity.subtree.contains($0.entity.number) }
    }

    // MARK: - Finding objects

    /// The new objects associated with old ones, by one mapping, or by all.
    public func destinationObjects(
        of sources: [ManagedObjectID], mapping name: String? = nil
    ) -> [ManagedObjectID] {
        sources.flatMap { id in
            plan.transfers(ofEntity: id.entityNumber).filter {
                name == nil || $0.mapping.name == name
            }.flatMap { objects(of: id, $0) }
        }
    }

    /// The new object for an old one that is a valid destination of a relationship, if a policy has created it.
    func object(of id: ManagedObjectID, _ transfer: EntityTransfer) -> ManagedObjectID? {
        objects(of: id, transfer).first
    }

    private func objects(of id: ManagedObjectID, _ transfer: EntityTransfer) -> [ManagedObjectID] {
        if policies[transfer.mapping.name] != nil {
            return (associations[id] ?? []).filter { $0.mapping == transfer.mapping.name }
                .map(\.object)
        }
        return [
            ManagedObjectID(
                entityNumber: transfer.destination.number,
                primaryKey: id.primaryKey + plan.keyOffsets[transfer.keyGroup], store: identity)
        ]
    }

    // MARK: - Connecting

    /// Sets the relationships of a new object from a mapping, except those that are set already.
    public func connect(_ object: MigrationObject, mapping: EntityMapping) throws {
        guard let source = object.source else { return }
        for property in mapping.relationshipMappings {
            guard let relationship = object.entity.relationship(named: property.name),
                let expression = property.valueExpression,
                !object.isConnected(relationship.index), !relationship.description.isTransient
            else { continue }
            let subtree = plan.destination.destination(of: relationship).subtree
            let found = try objects(of: expression, for: source).filter {
                subtree.contains($0.entityNumber)
            }
            if found.isEmpty { continue }
            try object.setObjects(found, for: property.name)
        }
    }

    private func objects(
        of expression: MappingExpression, for source: MigrationSource
    ) throws -> [ManagedObjectID] {
        switch expression {
        case .source: return destinationObjects(of: [source.objectID])
        case .relatedObjects(let name), .sourceValue(let name):
            return destinationObjects(of: try source.objects(name).map(\.objectID))
        case .mappedObjects(let mapping, let inner):
            let sources: [ManagedObjectID]
            switch inner {
            case .source: sources = [source.objectID]
            case .relatedObjects(let name), .sourceValue(let name):
                sources = try source.objects(name).map(\.objectID)
            default: sources = []
            }
            return destinationObjects(of: sources, mapping: mapping)
        case .constant, .policyFunction, .userInfo, .now: return []
        }
    }

    // MARK: - Expressions

    /// The value of an attribute expression.
    func value(
        of expression: MappingExpression, for source: MigrationSource, mapping: EntityMapping
    ) throws -> AttributeValue {
        switch expression {
        case .constant(let value): return value
        case .source: return .objectID(source.objectID)
        case .sourceValue(let path), .relatedObjects(let path): return try source[path]
        case .now: return .date(Date())
        case .userInfo(let key): return mapping.userInfo[key].map { .string($0) } ?? .null
        case .policyFunction(let name, let arguments):
            guard let policy = policies[mapping.name] else {
                throw QuireError(
                    .unsupported,
                    "The mapping “\(mapping.name)” calls “\(name)” of its policy, but does not specify a policy."
                )
            }
            return try policy.value(
                of: name,
                arguments: arguments.map { try value(of: $0, for: source, mapping: mapping) },
                source: source, session: self)
        case .mappedObjects:
            throw QuireError(
                .unsupported,
                "The mapping “\(mapping.name)” has objects in the place of a value.")
        }
    }
}
