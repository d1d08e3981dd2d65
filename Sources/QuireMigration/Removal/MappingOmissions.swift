internal import QuireModel

/// The entities and properties of the old model that a mapping takes nothing over from.
///
/// Data is: objects; values of stored attributes other than null and the attribute's default, which the old model still
/// tells, and without those that are computed; links between objects, unless the other side of the relationship is taken
/// over. Whole numbers that become floating-point numbers and would be rounded are counted too. The order of an ordered
/// relationship is not data.
struct MappingOmissions {
    /// A property whose values are not taken over from the objects of an entity.
    enum Property {
        case attribute(slot: Int)
        /// An integer that becomes a floating-point number.
        case rounded(slot: Int)
        case reference(EntityLayout.Relationship, slot: Int)
        case members(EntityLayout.Relationship)
    }

    /// An entity with what is not taken over of its own objects, without those of its sub-entities: the properties, or `nil`
    /// for the objects themselves.
    struct Omission {
        let entity: EntityLayout
        let properties: [Property]?
    }

    let source: ModelLayout
    let destination: ModelLayout
    private(set) var omissions: [Omission] = []
    /// The mappings that make objects of objects, by the names of the old entities.
    private let mappings: [String: [EntityMapping]]

    init(_ mapping: MappingModel, from source: ModelLayout, to destination: ModelLayout) {
        self.source = source
        self.destination = destination
        mappings = Dictionary(
            grouping: mapping.entityMappings.filter {
                $0.mappingType != .remove && $0.destinationEntityName != nil
            }, by: { $0.sourceEntityName ?? "" })
        for entity in source.entities where !entity.isAbstract {
            guard let own = mappings[entity.name] else {
                omissions.append(Omission(entity: entity, properties: nil))
                continue
            }
            let properties =
                attributes(of: entity, own)
                + entity.relationships.compactMap { omission(of: $0, entity) }
            if !properties.isEmpty {
                omissions.append(Omission(entity: entity, properties: properties))
            }
        }
    }

    private func attributes(
        of entity: EntityLayout, _ mappings: [EntityMapping]
    ) -> [Property] {
        entity.slots.compactMap { slot in
            guard slot.isStored, let attribute = slot.attribute,
                !slot.isDerived || slot.isDerivedFromTime
            else { return nil }
            let types = mappings.compactMap { mapping -> AttributeType? in
                guard
                    let name = mapping.attributeMappings.first(where: {
                        $0.valueExpression == .sourceValue(slot.name)
                    })?.name,
                    let new = destination.entity(named: mapping.destinationEntityName ?? ""),
                    let index = new.slot(named: name)
                else { return nil }
                return new.slots[index].attribute?.type
            }
            if types.isEmpty { return .attribute(slot: slot.index) }
            let isRounded = attribute.type == .integer64 && types.allSatisfy { $0 == .double }
            return isRounded ? .rounded(slot: slot.index) : nil
        }
    }

    private func omission(
        of relationship: EntityLayout.Relationship, _ entity: EntityLayout
    ) -> Property? {
        if relationship.description.isTransient || isTaken(relationship, of: entity)
            || isTakenByOtherSide(relationship, of: entity)
        {
            return nil
        }
        // Links of a pair of relationships are counted on one side: where they lead to one object.
        if let inverse = source.inverse(of: relationship) {
            let isCounted =
                relationship.isToMany == inverse.isToMany
                ? (relationship.ownerNumber, relationship.index)
                    <= (inverse.ownerNumber, inverse.index) : !relationship.isToMany
            guard isCounted else { return nil }
        }
        return relationship.slot.map { .reference(relationship, slot: $0) }
            ?? .members(relationship)
    }

    private func isTaken(
        _ relationship: EntityLayout.Relationship, of entity: EntityLayout
    ) -> Bool {
        !successors(of: relationship, of: entity).isEmpty
    }

    /// The new relationships that get the objects of one.
    private func successors(
        of relationship: EntityLayout.Relationship, of entity: EntityLayout
    ) -> [EntityLayout.Relationship] {
        (mappings[entity.name] ?? []).flatMap { mapping in
            let new = destination.entity(named: mapping.destinationEntityName ?? "")
            return mapping.relationshipMappings.compactMap {
                $0.valueExpression?.relationshipName == relationship.name
                    ? new?.relationship(named: $0.name) : nil
            }
        }
    }

    /// Whether the inverse is taken over from all objects that a relationship of an entity may lead to and that stay
    /// themselves, and may lead to what the entity becomes. Links to objects that go, go with those.
    private func isTakenByOtherSide(
        _ relationship: EntityLayout.Relationship, of entity: EntityLayout
    ) -> Bool {
        let members = source.destination(of: relationship).subtree.map(source.entity(number:))
            .filter { !$0.isAbstract && mappings[$0.name] != nil }
        if members.isEmpty { return true }
        guard let inverse = source.inverse(of: relationship) else { return false }
        let owners = Set(
            (mappings[entity.name] ?? []).compactMap {
                destination.entity(named: $0.destinationEntityName ?? "")?.number
            })
        return members.allSatisfy { member in
            successors(of: inverse, of: member).contains {
                !owners.isDisjoint(with: destination.destination(of: $0).subtree)
            }
        }
    }
}

extension MappingModel {
    /// The mapping that does what this one does and then another does: for inferred ones, which give new attributes
    /// constants and all others the values of old ones.
    func followed(by next: MappingModel) -> MappingModel {
        var result = MappingModel()
        for second in next.entityMappings where second.destinationEntityName != nil {
            for first in entityMappings
            where first.sourceEntityName != nil
                && first.destinationEntityName == second.sourceEntityName
            {
                var both = EntityMapping(
                    name: second.name, type: .transform, from: first.sourceEntityName,
                    to: second.destinationEntityName)
                both.attributeMappings = second.attributeMappings.compactMap {
                    guard case .sourceValue(let name)? = $0.valueExpression,
                        let before = first.attributeMappings[name]?.valueExpression
                    else { return nil }
                    return PropertyMapping(name: $0.name, valueExpression: before)
                }
                both.relationshipMappings = second.relationshipMappings.compactMap {
                    guard let name = $0.valueExpression?.relationshipName,
                        let before = first.relationshipMappings[name]?.valueExpression
                    else { return nil }
                    return PropertyMapping(name: $0.name, valueExpression: before)
                }
                result.entityMappings.append(both)
            }
        }
        return result
    }
}
