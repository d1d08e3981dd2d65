import Quire

/// The entities and properties that two models share, and those that only one of them has.
struct ComparedModel {
    /// An entity that both models have, with the properties to compare.
    struct Entity {
        let name: String
        let old: ResolvedEntity
        let new: ResolvedEntity
        /// Attributes, elements of composites, and to-one relationships.
        var values: [(name: String, old: ResolvedEntity.Slot, new: ResolvedEntity.Slot)] = []
        var toMany:
            [(
                name: String, old: ResolvedEntity.Relationship, new: ResolvedEntity.Relationship,
                isOrdered: Bool
            )] = []
    }

    /// An entity or a property that cannot be compared.
    struct Unmatched {
        enum Place: String { case old, new, both }

        let entity: String
        /// The property; `nil` for the entity itself.
        let property: String?
        /// The model that has it; both if it is of another type in each.
        let place: Place
    }

    /// The entities that both have, by their new name.
    private(set) var entities: [Entity] = []
    private(set) var unmatched: [Unmatched] = []
    /// The new names of entities by their old ones.
    private let newNames: [String: String]

    /// Compares the entities of two models. Renamed ones are matched by their renaming identifiers, as in a migration.
    ///
    /// - Parameter name: The entity to compare, with its sub-entities, by its new name or its old one; `nil` for all.
    /// - Throws: `QuireError` with code `unknownEntity` if neither model has it.
    init(_ old: ResolvedModel, _ new: ResolvedModel, only name: String?) throws {
        let oldNames = NameMatching(from: Self.items(of: old), to: Self.items(of: new)).sources
        let models = (old: old, new: new)
        newNames = Dictionary(oldNames.map { ($1, $0) }) { first, _ in first }
        var oldEntities = Self.entities(of: old)
        var newEntities = Self.entities(of: new)
        if let name {
            let newTree = newEntities[newEntities[name] == nil ? newNames[name] ?? name : name]?
                .subtree
            let oldTree = oldEntities[newEntities[name] == nil ? name : oldNames[name] ?? name]?
                .subtree
            // Throws if neither has it.
            if newTree == nil, oldTree == nil { _ = try new.requireEntity(named: name) }
            oldEntities = oldEntities.filter { oldTree?.contains($0.value.number) ?? false }
            newEntities = newEntities.filter { newTree?.contains($0.value.number) ?? false }
        }
        for (name, new) in newEntities.sorted(by: { $0.key < $1.key }) {
            if let old = oldNames[name].flatMap({ oldEntities.removeValue(forKey: $0) }) {
                if !old.isAbstract || !new.isAbstract { add(name, old, new, of: models) }
            } else if !new.isAbstract {
                unmatched.append(.init(entity: name, property: nil, place: .new))
            }
        }
        for (name, old) in oldEntities where !old.isAbstract {
            unmatched.append(.init(entity: name, property: nil, place: .old))
        }
        unmatched.sort { ($0.entity, $0.property ?? "") < ($1.entity, $1.property ?? "") }
    }

    /// The new name of an entity of the old model; its old one if the new model does not have it.
    func newName(ofEntity old: String) -> String { newNames[old] ?? old }

    private static func entities(of model: ResolvedModel) -> [String: ResolvedEntity] {
        Dictionary(model.entities.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    }

    private static func items(of model: ResolvedModel) -> [NameMatching.Item] {
        model.entities.map { .init(name: $0.name, identifier: $0.description.renamingIdentifier) }
    }

    private mutating func add(
        _ name: String, _ old: ResolvedEntity, _ new: ResolvedEntity,
        of models: (old: ResolvedModel, new: ResolvedModel)
    ) {
        var entity = Entity(name: name, old: old, new: new)
        let oldNames = NameMatching(
            from: Self.items(of: old, in: models.old), to: Self.items(of: new, in: models.new)
        ).sources
        var before = Self.properties(of: old)
        for (name, after) in Self.properties(of: new).sorted(by: { $0.key < $1.key }) {
            switch (oldNames[name].flatMap { before.removeValue(forKey: $0) }, after) {
            case (.value(let old)?, .value(let new)) where old.storage == new.storage:
                entity.values.append((name, old, new))
            case (.toMany(let old)?, .toMany(let new)):
                entity.toMany.append((name, old, new, old.isOrdered && new.isOrdered))
            case (let old, _):
                unmatched.append(
                    .init(entity: entity.name, property: name, place: old == nil ? .new : .both))
            }
        }
        for name in before.keys {
            unmatched.append(.init(entity: entity.name, property: name, place: .old))
        }
        entities.append(entity)
    }

    /// The stored properties of an entity by their names in all versions of the model.
    private static func items(
        of entity: ResolvedEntity, in model: ResolvedModel
    ) -> [NameMatching.Item] {
        func item(_ name: String, _ identifier: String) -> NameMatching.Item {
            .init(name: name, identifier: identifier == name ? nil : identifier)
        }
        let identifiers = model.renamingIdentifiers(ofSlotsOf: entity)
        return entity.slots.filter(\.isStored).map { item($0.name, identifiers[$0.index]) }
            + entity.toManyRelationships.map { entity.relationships[$0] }
            .filter { !$0.description.isTransient }.map { item($0.name, $0.renamingIdentifier) }
    }

    private enum Property {
        case value(ResolvedEntity.Slot)
        case toMany(ResolvedEntity.Relationship)
    }

    /// The stored properties of an entity.
    private static func properties(of entity: ResolvedEntity) -> [String: Property] {
        var properties: [String: Property] = [:]
        for slot in entity.slots where slot.isStored { properties[slot.name] = .value(slot) }
        for index in entity.toManyRelationships {
            let relationship = entity.relationships[index]
            if !relationship.description.isTransient {
                properties[relationship.name] = .toMany(relationship)
            }
        }
        return properties
    }
}
