extension ObjectDraft {
    /// Gives entities and properties the names that a mapping gives them. What the new model has no place for keeps its name, and
    /// is reported when the draft is applied.
    ///
    /// Objects must keep their primary keys.
    package mutating func migrate(by mapping: MappingModel) {
        for layer in layers.indices {
            for index in layers[layer].inserted.indices {
                layers[layer].inserted[index].migrate(by: mapping)
            }
            for index in layers[layer].updated.indices {
                layers[layer].updated[index].migrate(by: mapping)
            }
            for index in layers[layer].deleted.indices {
                layers[layer].deleted[index].object.migrate(by: mapping)
            }
        }
    }
}

extension ObjectDraft.Change {
    fileprivate mutating func migrate(by mapping: MappingModel) {
        object.migrate(by: mapping)
        for index in values.indices {
            if case .object(var reference) = values[index].value {
                reference.migrate(by: mapping)
                values[index].value = .object(reference)
            }
        }
        for index in members.indices { members[index].migrate(by: mapping) }
        guard let own = mapping.mapping(ofSourceEntity: entity),
            let name = own.destinationEntityName
        else { return }
        entity = name
        values = values.flatMap { property in
            own.destinationNames(ofSourceProperty: property.name).map {
                ObjectDraft.Property(name: $0, value: property.value)
            }
        }
        members = members.flatMap { change in
            own.destinationNames(ofSourceProperty: change.name).map { name in
                var change = change
                change.name = name
                return change
            }
        }
    }
}

extension ObjectDraft.Members {
    fileprivate mutating func migrate(by mapping: MappingModel) {
        for index in added.indices { added[index].migrate(by: mapping) }
        for index in removed.indices { removed[index].migrate(by: mapping) }
        order = order?.map { reference in
            var reference = reference
            reference.migrate(by: mapping)
            return reference
        }
    }
}

extension ObjectDraft.Reference {
    fileprivate mutating func migrate(by mapping: MappingModel) {
        guard case .saved(let entity, let key, let store) = self,
            let name = mapping.mapping(ofSourceEntity: entity)?.destinationEntityName
        else { return }
        self = .saved(entity: name, key: key, store: store)
    }
}
