internal import QuireSystem

extension ModelLayout {
    /// The numbers of the entities whose objects a store of a configuration keeps: those that the configuration names,
    /// and the hierarchies they belong to, which share a table. All for `nil`.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if the model has no such configuration, or a relationship leads
    ///   out of it: an object and what it refers to are in one store.
    package func entityNumbers(ofConfiguration name: String?) throws -> Set<Int> {
        guard let name else { return Set(entities.map(\.number)) }
        guard let configuration = model.configurations.first(where: { $0.name == name }) else {
            let names = model.configurations.map { "“\($0.name)”" }.joined(separator: ", ")
            throw QuireError(
                .invalidModel,
                "The model has no configuration “\(name)”; "
                    + (names.isEmpty ? "it has none." : "its configurations are: \(names)."))
        }
        let roots = Set(configuration.entityNames.compactMap { entity(named: $0)?.rootNumber })
        let members = entities.filter { roots.contains($0.rootNumber) }
        let numbers = Set(members.map(\.number))
        for entity in members {
            for relationship in entity.relationships
            where relationship.ownerNumber == entity.number
                && !relationship.description.isTransient
                && !numbers.contains(relationship.destinationNumber)
            {
                throw QuireError(
                    .invalidModel,
                    "“\(entity.name).\(relationship.name)” leads out of the configuration “\(name)”, to "
                        + "“\(destination(of: relationship).name)”: objects that refer to each other are in one "
                        + "store. Make it a fetched property, or give both entities to the configuration.",
                    subject: .init(entity: entity.name, property: relationship.name))
            }
        }
        return numbers
    }
}
