import Foundation
public import QuireModel
internal import QuireSystem

extension MappingModel {
    /// Finds the mapping between two models from the models themselves, as far as they leave no doubt.
    ///
    /// Entities, attributes and relationships are the same if they are called the same, or if the new one's renaming
    /// identifier is the old one's name or renaming identifier. Inferred are: added, removed and renamed entities,
    /// attributes and relationships; entities that go elsewhere in the hierarchy, properties that go up or down in it;
    /// required attributes with a default value; wider types of attributes (a longer integer, a floating-point or decimal
    /// number for an integer, a double for a float, an integer for a truth value); external storage, indexes, order
    /// and derivation; relationships that lead to many objects instead of one, and the other way round. (Where an object
    /// then has more than one, the migration fails and names it.)
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel`, naming every entity and property that cannot be
    ///   inferred and what to do, or `invalidModel`.
    public static func inferred(
        from source: ManagedObjectModel, to destination: ManagedObjectModel
    ) throws -> MappingModel {
        try inferred(from: source.layout(), to: destination.layout())
    }

    static func inferred(from source: ModelLayout, to destination: ModelLayout) throws
        -> MappingModel
    {
        var inference = MappingInference(source: source, destination: destination)
        return try inference.run()
    }
}

/// One inference.
struct MappingInference {
    let source: ModelLayout
    let destination: ModelLayout
    /// The old entities' names by the new ones'.
    let entityNames: [String: String]
    /// The new entities by the old ones' names.
    let successors: [String: EntityLayout]
    private let sourceHashes: [String: Data]
    private let destinationHashes: [String: Data]
    private var failures: [QuireError] = []
    /// The properties that have failed, so that inherited ones do once only.
    private var reported: Set<[String]> = []

    init(source: ModelLayout, destination: ModelLayout) {
        self.source = source
        self.destination = destination
        func items(of layout: ModelLayout) -> [NameMatching.Item] {
            layout.entities.map {
                .init(name: $0.name, identifier: $0.description.renamingIdentifier)
            }
        }
        entityNames =
            NameMatching(from: items(of: source), to: items(of: destination)).sources
        var successors: [String: EntityLayout] = [:]
        for entity in destination.entities {
            if let old = entityNames[entity.name] { successors[old] = entity }
        }
        self.successors = successors
        sourceHashes = source.model.entityVersionHashes()
        destinationHashes = destination.model.entityVersionHashes()
    }

    mutating func run() throws -> MappingModel {
        var mappings: [EntityMapping] = []
        for entity in source.entities where successors[entity.name] == nil {
            mappings.append(
                EntityMapping(
                    name: "IEM_Remove_\(entity.name)", type: .remove, from: entity.name, to: nil))
        }
        for entity in destination.entities {
            guard let old = entityNames[entity.name].flatMap(source.entity(named:)) else {
                mappings.append(
                    EntityMapping(
                        name: "IEM_Add_\(entity.name)", type: .add, from: nil, to: entity.name))
                continue
            }
            mappings.append(mapping(from: old, to: entity))
        }
        if !failures.isEmpty { throw QuireError.combining(failures) }
        return MappingModel(entityMappings: mappings)
    }

    private mutating func mapping(from old: EntityLayout, to new: EntityLayout) -> EntityMapping {
        let attributes = attributeMappings(from: old, to: new)
        let relationships = relationshipMappings(from: old, to: new)
        let isCopy = sourceHashes[old.name] == destinationHashes[new.name]
        var mapping = EntityMapping(
            name: "IEM_\(isCopy ? "Copy" : "Transform")_\(new.name)",
            type: isCopy ? .copy : .transform, from: old.name, to: new.name)
        mapping.attributeMappings = attributes
        mapping.relationshipMappings = relationships
        return mapping
    }

    mutating func fail(_ sentence: String, _ entity: EntityLayout, _ property: String) {
        // There are no objects of an abstract entity to fail for.
        guard let old = entityNames[entity.name].flatMap(source.entity(named:)), !old.isAbstract
        else { return }
        let owner = entity.propertyOwner(property)
        guard reported.insert([String(owner), property]).inserted else { return }
        failures.append(
            QuireError(
                .incompatibleModel, sentence,
                subject: .init(entity: entity.name, property: property)))
    }

    // MARK: - Attributes

    private mutating func attributeMappings(
        from old: EntityLayout, to new: EntityLayout
    ) -> [PropertyMapping] {
        let oldItems = source.attributeItems(of: old)
        let newItems = destination.attributeItems(of: new)
        let names = NameMatching(from: oldItems.map(\.item), to: newItems.map(\.item)).sources
        let oldSlots = Dictionary(
            oldItems.map { ($0.item.name, $0.slot) }, uniquingKeysWith: { first, _ in first })
        return newItems.compactMap { slot, _ in
            let slot = new.slots[slot]
            guard let attribute = slot.attribute else { return nil }
            let found = names[slot.name].flatMap { oldSlots[$0] }.map { old.slots[$0] }
            if slot.isDerived {
                // Computed anew, except for the time of the last save, of which nothing else knows.
                guard let found, slot.isDerivedFromTime, found.isDerivedFromTime else { return nil }
                return PropertyMapping(name: slot.name, valueExpression: .sourceValue(found.name))
            }
            guard let found, let before = found.attribute else {
                return addition(of: slot, attribute, in: new, old)
            }
            guard AttributeConversion(from: before.type, to: attribute.type) != nil else {
                fail(
                    "“\(new.name).\(slot.name)” changes from \(before.type.title) to \(attribute.type.title), which "
                        + "cannot be inferred; map it with a value expression or a policy, or give it another name.",
                    new, slot.name)
                return nil
            }
            if !attribute.isOptional && before.isOptional && attribute.defaultValue.isNull {
                fail(
                    "“\(new.name).\(slot.name)” becomes required, and objects may have no value; give it a default "
                        + "value, or map it.", new, slot.name)
            }
            return PropertyMapping(name: slot.name, valueExpression: .sourceValue(found.name))
        }
    }

    /// What objects get in a new attribute.
    private mutating func addition(
        of slot: EntityLayout.Slot, _ attribute: AttributeDescription, in new: EntityLayout,
        _ old: EntityLayout
    ) -> PropertyMapping? {
        if old.relationship(named: slot.name) != nil, isUnused(slot.name, new) {
            fail(
                "“\(new.name).\(slot.name)” was a relationship and is an attribute now, which cannot be inferred; map it, "
                    + "or give it another name.", new, slot.name)
        }
        if !attribute.isOptional && attribute.defaultValue.isNull {
            fail(
                "“\(new.name).\(slot.name)” is new and required, and no object has a value; give it a default value, or "
                    + "map it.", new, slot.name)
        }
        return PropertyMapping(
            name: slot.name, valueExpression: .constant(attribute.defaultValue))
    }

    /// Whether no relationship of the new entity is the old one of a name.
    private func isUnused(_ name: String, _ new: EntityLayout) -> Bool {
        !new.relationships.contains { ($0.description.renamingIdentifier ?? $0.name) == name }
    }
}

extension EntityLayout {
    /// The number of the entity that declares a property.
    fileprivate func propertyOwner(_ name: String) -> Int {
        relationship(named: name)?.ownerNumber ?? slots.first { $0.name == name }?.ownerNumber
            ?? number
    }
}
