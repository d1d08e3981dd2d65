/// The names of entities and properties over the versions of a model: renaming identifiers, or the names where there are none.

extension ResolvedEntity {
    /// The name of the entity in all versions of its model.
    package var lastingName: String { description.renamingIdentifier ?? name }
}

extension ResolvedEntity.Relationship {
    /// The name of the relationship in all versions of its model.
    package var lastingName: String { description.renamingIdentifier ?? name }
}

extension ResolvedModel {
    /// The names of an entity's slots in all versions of the model; of an element of a composite, those of both, joined with dots.
    package func lastingSlotNames(of entity: ResolvedEntity) -> [String] {
        let attributes = entity.description.attributesByName
        let composites = Dictionary(model.composites.map { ($0.name, $0) }) { first, _ in first }
        return entity.slots.map { slot in
            if let index = slot.relationshipIndex { return entity.relationships[index].lastingName }
            let names = slot.name.split(separator: ".").map(String.init)
            var description = attributes[names[0]]
            var lasting: [String] = []
            for (depth, name) in names.enumerated() {
                lasting.append(description?.renamingIdentifier ?? name)
                guard depth + 1 < names.count else { break }
                let composite = description?.compositeName.flatMap { composites[$0] }
                description = composite?.elements.first { $0.name == names[depth + 1] }
            }
            return lasting.joined(separator: ".")
        }
    }
}
