/// A part of a model that no data depends on: without it the same stores hold the same objects.
///
/// Apple's tools take models in which such parts contradict the rest, left over from what was renamed, removed or given
/// another type. In a program's own model that is a mistake to be told of, and ``ManagedObjectModel/validate()`` does; from
/// a file it is left out, with a remark.
enum ExpendablePart: Hashable {
    case defaultValue(ModelValidation.Place)
    case range(ModelValidation.Place)
    case regularExpression(ModelValidation.Place)
    case counts(entity: String, relationship: String)
    case index(entity: String, position: Int)
    case compoundIndex(entity: String, position: Int)
    case fetchedProperty(entity: String, name: String)
    case template(position: Int)
    case member(configuration: String, entity: String)

    /// The sentence that says that it is left out.
    var omission: String {
        switch self {
        case .defaultValue: "The default value is left out."
        case .range: "Both bounds are left out."
        case .regularExpression: "The regular expression is left out."
        case .counts: "The bounds are left out."
        case .index, .compoundIndex: "The index is left out."
        case .fetchedProperty: "The fetched property is left out."
        case .template: "The template is left out."
        case .member: "The entity is left out of it."
        }
    }
}

extension ManagedObjectModel {
    /// Leaves out the parts that the validation objects to and no data depends on, and adds a remark on each objection to
    /// those there are.
    ///
    /// Call it when the model has been read from a file.
    package mutating func leaveOutContradictoryParts() {
        var validation = ModelValidation(self)
        validation.checkModel()
        remarks += validation.remarks
        if validation.objections.isEmpty { return }
        remarks += validation.objections.map { "\($0.message) \($0.part.omission)" }
        let parts = Set(validation.objections.map(\.part))
        for position in entities.indices { entities[position].remove(parts) }
        for position in composites.indices {
            let name = composites[position].name
            for element in composites[position].elements.indices {
                let place = ModelValidation.Place(
                    composite: name, element: composites[position].elements[element].name)
                composites[position].elements[element].remove(parts, at: place)
            }
        }
        fetchRequestTemplates = fetchRequestTemplates.enumerated()
            .filter { !parts.contains(.template(position: $0.offset)) }.map(\.element)
        for position in configurations.indices {
            let name = configurations[position].name
            configurations[position].entityNames.removeAll {
                parts.contains(.member(configuration: name, entity: $0))
            }
        }
    }
}

extension EntityDescription {
    fileprivate mutating func remove(_ parts: Set<ExpendablePart>) {
        let entity = name
        for (position, index) in indexes.enumerated()
        where parts.contains(.index(entity: entity, position: position)) {
            leftOutNames.insert(index.name)
        }
        indexes = indexes.enumerated()
            .filter { !parts.contains(.index(entity: entity, position: $0.offset)) }.map(\.element)
        compoundIndexes = compoundIndexes.enumerated()
            .filter { !parts.contains(.compoundIndex(entity: entity, position: $0.offset)) }
            .map(\.element)
        properties = properties.compactMap { property in
            switch property {
            case .attribute(var attribute):
                attribute.remove(
                    parts, at: ModelValidation.Place(entity: entity, property: attribute.name))
                return .attribute(attribute)
            case .relationship(var relationship):
                let name = relationship.name
                if parts.contains(.counts(entity: entity, relationship: name)) {
                    relationship.minimumCount = 0
                    relationship.maximumCount = relationship.isToMany ? 0 : 1
                }
                return .relationship(relationship)
            case .fetched(let fetched):
                return parts.contains(.fetchedProperty(entity: entity, name: fetched.name))
                    ? nil : property
            }
        }
    }
}

extension AttributeDescription {
    fileprivate mutating func remove(
        _ parts: Set<ExpendablePart>, at place: ModelValidation.Place
    ) {
        if parts.contains(.defaultValue(place)) { defaultValue = .null }
        if parts.contains(.range(place)) { (minimum, maximum) = (.null, .null) }
        if parts.contains(.regularExpression(place)) { regularExpression = nil }
    }
}
