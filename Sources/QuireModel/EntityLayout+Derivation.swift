extension EntityLayout {
    /// A derived attribute, with what it is derived from looked up.
    package struct Derivation: Sendable {
        /// Where the values come from.
        package enum Form: Sendable {
            /// The number of objects in a relationship, by its position.
            case count(relationship: Int)
            /// The sum of what the objects in a relationship have in a slot.
            case sum(relationship: Int, slot: Int)
            /// What is in a slot: of the object, or of the one that a to-one relationship leads to.
            case copy(through: Int?, slot: Int)
            /// A function of the text in a slot.
            case text(AttributeDerivation.TextFunction, through: Int?, slot: Int)
            /// The time of the save.
            case now
        }

        /// The slot of the derived attribute.
        package let slot: Int
        package let form: Form

        /// The position of the relationship that leads to what is derived from.
        package var relationshipIndex: Int? {
            switch form {
            case .count(let index), .sum(let index, _): index
            case .copy(let index, _), .text(_, let index, _): index
            case .now: nil
            }
        }

        /// Whether changes of the objects that a relationship leads to matter, and not only which objects these are.
        /// Deleting an object does not always take it out of the relationship.
        package func looksAtMembers(
            in layout: ModelLayout, _ relationship: EntityLayout.Relationship
        ) -> Bool {
            guard case .count = form else { return true }
            guard let inverse = layout.inverse(of: relationship) else { return true }
            return inverse.description.deleteRule == .noAction
        }

        /// Looks up what an expression names. Validation has found it all.
        init?(_ slot: EntityLayout.Slot, of entity: EntityLayout, in entities: [EntityLayout]) {
            guard let expression = slot.attribute?.derivationExpression,
                let derivation = try? AttributeDerivation(expression),
                let form = Self.form(derivation.form, of: entity, in: entities)
            else { return nil }
            self.slot = slot.index
            self.form = form
        }

        private static func form(
            _ form: AttributeDerivation.Form, of entity: EntityLayout, in entities: [EntityLayout]
        ) -> Form? {
            switch form {
            case .now: return .now
            case .count(let name):
                return entity.relationship(named: name).map { .count(relationship: $0.index) }
            case .sum(let name, let key):
                guard let relationship = entity.relationship(named: name),
                    let slot = entities[relationship.destinationNumber - 1].slot(named: key)
                else { return nil }
                return .sum(relationship: relationship.index, slot: slot)
            case .copy(let keys):
                return source(keys, of: entity, in: entities)
                    .map { .copy(through: $0.through, slot: $0.slot) }
            case .text(let function, let keys):
                return source(keys, of: entity, in: entities)
                    .map { .text(function, through: $0.through, slot: $0.slot) }
            }
        }

        private static func source(
            _ keys: [String], of entity: EntityLayout, in entities: [EntityLayout]
        ) -> (through: Int?, slot: Int)? {
            guard let relationship = entity.relationship(named: keys[0]) else {
                return entity.slot(named: keys.joined(separator: ".")).map { (nil, $0) }
            }
            let rest = keys.dropFirst().joined(separator: ".")
            return entities[relationship.destinationNumber - 1].slot(named: rest)
                .map { (relationship.index, $0) }
        }
    }
}

/// What of a model is derived, by the numbers of entities.
package struct ModelDerivations: Sendable {
    /// The derivations of each entity, inherited ones included, by the entity's number less one.
    private let byEntity: [[EntityLayout.Derivation]]
    /// The numbers of the entities whose objects others are derived from.
    package let sources: Set<Int>

    /// Whether nothing is derived.
    package var isEmpty: Bool { byEntity.isEmpty }

    init(_ entities: [EntityLayout]) {
        guard entities.contains(where: { !$0.derivedSlots.isEmpty }) else {
            byEntity = []
            sources = []
            return
        }
        byEntity = entities.map { entity in
            entity.slots.compactMap { EntityLayout.Derivation($0, of: entity, in: entities) }
        }
        var sources: Set<Int> = []
        for (entity, derivations) in zip(entities, byEntity) {
            for derivation in derivations {
                sources.formUnion(entity.subtree)
                if let index = derivation.relationshipIndex {
                    let destination = entity.relationships[index].destinationNumber
                    sources.formUnion(entities[destination - 1].subtree)
                }
            }
        }
        self.sources = sources
    }

    /// The derivations of an entity.
    package subscript(_ entity: EntityLayout) -> [EntityLayout.Derivation] {
        byEntity.isEmpty ? [] : byEntity[entity.number - 1]
    }

    /// The derivation of an entity's slot.
    package func derivation(of slot: Int, in entity: EntityLayout) -> EntityLayout.Derivation? {
        self[entity].first { $0.slot == slot }
    }
}
