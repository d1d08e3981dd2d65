internal import QuireModel
internal import QuireSystem

/// The names of a model as XML stores have them: of entities in capitals, of properties in small letters.
struct XMLStoreNames {
    /// A property of an entity in a store.
    enum Property {
        case attribute(EntityLayout.Slot)
        case relationship(EntityLayout.Relationship)
    }

    let layout: ModelLayout
    private let entities: [String: EntityLayout]
    /// By entity number less one.
    private let properties: [[String: Property]]

    /// - Throws: ``QuireError`` with code `unsupported` if names differ in case only.
    init(_ layout: ModelLayout) throws {
        self.layout = layout
        var entities: [String: EntityLayout] = [:]
        var properties: [[String: Property]] = []
        for entity in layout.entities {
            if let other = entities.updateValue(entity, forKey: entity.name.uppercased()) {
                throw QuireError(
                    .unsupported,
                    "An XML store writes names of entities in capitals and cannot tell “\(other.name)” from “\(entity.name)”; rename one, or use another kind of store.",
                    subject: .init(entity: entity.name))
            }
            var own: [String: Property] = [:]
            var names: [String: String] = [:]
            func add(_ name: String, _ property: Property) throws {
                let key = name.lowercased()
                if let other = names.updateValue(name, forKey: key) {
                    throw QuireError(
                        .unsupported,
                        "An XML store writes names of properties in small letters and cannot tell “\(other)” from “\(name)” of “\(entity.name)”; rename one, or use another kind of store.",
                        subject: .init(entity: entity.name, property: name))
                }
                own[key] = property
            }
            for slot in entity.slots where slot.isStored && slot.attribute != nil {
                try add(slot.name, .attribute(slot))
            }
            for relationship in entity.relationships
            where !relationship.description.isTransient {
                try add(relationship.name, .relationship(relationship))
            }
            properties.append(own)
        }
        self.entities = entities
        self.properties = properties
    }

    func entity(_ name: String) -> EntityLayout? { entities[name.uppercased()] }

    func property(_ name: String, of entity: EntityLayout) -> Property? {
        properties[entity.number - 1][name.lowercased()]
    }
}
