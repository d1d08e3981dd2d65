// The names that a mapping gives to what has been kept by name outside the tables: a draft of unsaved changes.

extension MappingModel {
    /// The mapping of the objects of an entity of the old model; `nil` if none of them stay.
    package func mapping(ofSourceEntity name: String) -> EntityMapping? {
        entityMappings.first { $0.sourceEntityName == name && $0.destinationEntityName != nil }
    }

    /// Whether an entity or a property gets another name.
    var renames: Bool { entityMappings.contains(where: \.renames) }
}

extension EntityMapping {
    /// The names in the new model of a property of the old one.
    ///
    /// If nothing of the new model is mapped from it, that is its own name, for what is done with a property of an unknown
    /// name, unless that is the name of a property which is mapped from another one.
    package func destinationNames(ofSourceProperty name: String) -> [String] {
        let mappings = attributeMappings + relationshipMappings
        let names = mappings.filter { $0.sourceName == name }.map(\.name)
        if !names.isEmpty { return names }
        let isTaken = mappings.contains { $0.name == name && $0.sourceName != nil }
        // No property can have the latter name.
        return [isTaken ? "\(name) (before the migration)" : name]
    }

    fileprivate var renames: Bool {
        guard let sourceEntityName, let destinationEntityName else { return false }
        return sourceEntityName != destinationEntityName
            || (attributeMappings + relationshipMappings).contains {
                $0.sourceName != nil && $0.sourceName != $0.name
            }
    }
}

extension PropertyMapping {
    /// The property of the old model that the new one continues.
    fileprivate var sourceName: String? {
        if let name = valueExpression?.relationshipName { return name }
        if case .sourceValue(let name)? = valueExpression { return name }
        return nil
    }
}
