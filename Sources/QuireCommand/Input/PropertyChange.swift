import Quire

/// A property of an entity with the value to give it, checked against the model.
enum PropertyChange {
    /// An attribute, or an element of a composite one.
    case attribute(key: String, AttributeValue)
    /// A to-one relationship.
    case toOne(EntityLayout.Relationship, ManagedObject?)
    /// A to-many relationship, as a whole.
    case toMany(EntityLayout.Relationship, [ManagedObject])

    /// The change that gives a relationship its objects.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if there are several for a to-one relationship.
    init(
        _ relationship: EntityLayout.Relationship, _ objects: [ManagedObject],
        of entity: EntityLayout
    ) throws {
        if relationship.isToMany {
            self = .toMany(relationship, objects)
            return
        }
        guard objects.count <= 1 else {
            throw QuireError(
                .invalidValue,
                "\(entity.name).\(relationship.name) leads to one object, but \(objects.count) "
                    + "are given.",
                subject: .init(entity: entity.name, property: relationship.name))
        }
        self = .toOne(relationship, objects.first)
    }

    /// Changes an object.
    func apply(to object: ManagedObject) throws {
        switch self {
        case .attribute(let key, let value): try object.setValue(value, forKey: key)
        case .toOne(let relationship, let other):
            try object.setObject(other, through: relationship)
        case .toMany(let relationship, let others):
            try object.setObjects(others, through: relationship)
        }
    }
}

extension EntityLayout {
    /// The property of a name.
    ///
    /// - Throws: `QuireError` with code `unknownKey`, naming the properties there are.
    func requireProperty(named name: String) throws -> Property {
        if let property = properties[name] { return property }
        throw QuireError(
            .unknownKey,
            "\(self.name) has no property “\(name)”; its properties are: "
                + "\(propertyNames.joined(separator: ", ")).",
            subject: .init(entity: self.name, property: name))
    }

    /// The dotted names of a composite attribute's elements.
    func elementNames(of composite: String) -> [String] {
        guard case .composite(let slots)? = properties[composite] else { return [] }
        return slots.map { self.slots[$0].name }
    }
}
