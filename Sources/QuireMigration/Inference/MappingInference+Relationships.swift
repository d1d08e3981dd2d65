internal import QuireModel

extension MappingInference {
    mutating func relationshipMappings(
        from old: EntityLayout, to new: EntityLayout
    ) -> [PropertyMapping] {
        func items(of entity: EntityLayout) -> [NameMatching.Item] {
            entity.relationships.filter { !$0.description.isTransient }.map {
                .init(name: $0.name, identifier: $0.description.renamingIdentifier)
            }
        }
        let names = NameMatching(from: items(of: old), to: items(of: new)).sources
        return new.relationships.compactMap { relationship in
            if relationship.description.isTransient { return nil }
            guard let before = names[relationship.name].flatMap(old.relationship(named:)) else {
                checkAddition(of: relationship, to: new, old)
                return nil
            }
            checkDestination(of: relationship, in: new, before)
            return PropertyMapping(
                name: relationship.name, valueExpression: .relatedObjects(before.name))
        }
    }

    private mutating func checkAddition(
        of relationship: EntityLayout.Relationship, to new: EntityLayout, _ old: EntityLayout
    ) {
        let name = relationship.name
        if case .attribute? = old.properties[name] {
            let isTaken = new.slots.contains {
                ($0.attribute?.renamingIdentifier ?? $0.attribute?.name) == name
            }
            if !isTaken {
                fail(
                    "“\(new.name).\(name)” was an attribute and is a relationship now, which cannot be inferred; map it, "
                        + "or give it another name.", new, name)
            }
        }
        if !relationship.description.isOptional, !isInverseKnown(of: relationship, new) {
            fail(
                "“\(new.name).\(name)” is new and required, and leads to no object; make it optional, or map it.",
                new, name)
        }
    }

    /// Whether the inverse of a relationship was there before, so that objects may be in it.
    private func isInverseKnown(
        of relationship: EntityLayout.Relationship, _ new: EntityLayout
    ) -> Bool {
        guard let inverse = destination.inverse(of: relationship),
            let owner = entityNames[destination.entity(number: inverse.ownerNumber).name]
                .flatMap(source.entity(named:))
        else { return false }
        return owner.relationship(
            named: inverse.description.renamingIdentifier ?? inverse.name) != nil
            || owner.relationship(named: inverse.name) != nil
    }

    /// What the old relationship leads to must be in the same hierarchy as what the new one leads to. If it leads to an
    /// object that the new one cannot lead to, the migration finds it.
    private mutating func checkDestination(
        of relationship: EntityLayout.Relationship, in new: EntityLayout,
        _ before: EntityLayout.Relationship
    ) {
        let destination = destination.destination(of: relationship)
        let found = source.destination(of: before).subtree.compactMap {
            successors[source.entity(number: $0).name]
        }
        guard let first = found.first,
            !found.contains(where: { $0.rootNumber == destination.rootNumber })
        else { return }
        fail(
            "“\(new.name).\(relationship.name)” led to “\(source.destination(of: before).name)”, which becomes "
                + "“\(first.name)” and is no “\(destination.name)”; map it, or give it another name.",
            new,
            relationship.name)
    }
}
