import Quire
import QuireStore

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

    /// The entities that both have, by name.
    private(set) var entities: [Entity] = []
    private(set) var unmatched: [Unmatched] = []

    /// Compares the entities of two models.
    ///
    /// - Parameter name: The entity to compare, with its sub-entities; `nil` for all.
    /// - Throws: `QuireError` with code `unknownEntity` if neither model has it.
    init(_ old: ResolvedModel, _ new: ResolvedModel, only name: String?) throws {
        var oldEntities = Self.entities(of: old)
        var newEntities = Self.entities(of: new)
        if let name {
            func subtree(_ entity: ResolvedEntity?) -> ClosedRange<Int>? { entity?.subtree }
            let oldTree = subtree(oldEntities[name])
            // The second throws if the first has none either.
            let newTree =
                oldTree == nil
                ? try new.requireEntity(named: name).subtree : subtree(newEntities[name])
            oldEntities = oldEntities.filter { oldTree?.contains($0.value.number) ?? false }
            newEntities = newEntities.filter { newTree?.contains($0.value.number) ?? false }
        }
        for name in Set(oldEntities.keys).union(newEntities.keys).sorted() {
            switch (oldEntities[name], newEntities[name]) {
            case (let old?, let new?):
                if old.isAbstract && new.isAbstract { continue }
                add(name, old, new)
            case (let old?, nil) where !old.isAbstract:
                unmatched.append(.init(entity: name, property: nil, place: .old))
            case (nil, let new?) where !new.isAbstract:
                unmatched.append(.init(entity: name, property: nil, place: .new))
            default: continue
            }
        }
    }

    private static func entities(of model: ResolvedModel) -> [String: ResolvedEntity] {
        Dictionary(model.entities.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    }

    private mutating func add(_ name: String, _ old: ResolvedEntity, _ new: ResolvedEntity) {
        var entity = Entity(name: name, old: old, new: new)
        let before = Self.properties(of: old)
        let after = Self.properties(of: new)
        for name in Set(before.keys).union(after.keys).sorted() {
            switch (before[name], after[name]) {
            case (.value(let old)?, .value(let new)?) where old.storage == new.storage:
                entity.values.append((name, old, new))
            case (.toMany(let old)?, .toMany(let new)?):
                entity.toMany.append((name, old, new, old.isOrdered && new.isOrdered))
            case (let old, let new):
                unmatched.append(
                    .init(
                        entity: entity.name, property: name,
                        place: old == nil ? .new : new == nil ? .old : .both))
            }
        }
        entities.append(entity)
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
