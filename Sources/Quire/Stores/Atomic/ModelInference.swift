/// Makes a model of what a store holds for which there is none.
struct ModelInference {
    private struct Relationship {
        var isToMany: Bool
        var keys: Set<Int64> = []
        var declared: String?
    }

    private struct Entity {
        let name: String
        var attributes: [String: AttributeType] = [:]
        var relationships: [String: Relationship] = [:]
    }

    private var entities: [String: Entity] = [:]
    /// The superentities.
    private var parents: [String: String] = [:]
    /// The entity of each object.
    private var owners: [Int64: String] = [:]
    /// What entities are called, by what they are called in the file.
    private let names: [String: String]

    init(names: [(key: String, name: String)]) {
        self.names = Dictionary(names.map { ($0.key, $0.name) }, uniquingKeysWith: { min($0, $1) })
    }

    /// Takes notice of an object.
    ///
    /// - Returns: What its entity is called in the file.
    mutating func note(entity: String, key: Int64) -> String {
        owners[key] = entity
        if entities[entity] == nil { entities[entity] = Entity(name: names[entity] ?? entity) }
        return entity
    }

    mutating func note(attribute name: String, _ type: AttributeType, of entity: String) {
        let known = entities[entity]?.attributes[name]
        // Values of several types have a text in common.
        entities[entity]?.attributes[name] = known == nil || known == type ? type : .string
    }

    mutating func note(
        relationship name: String, isToMany: Bool, _ keys: [Int64], declared: String?,
        of entity: String
    ) {
        var known =
            entities[entity]?.relationships[name]
            ?? Relationship(isToMany: isToMany, declared: declared)
        known.keys.formUnion(keys)
        known.isToMany = known.isToMany || isToMany || keys.count > 1
        entities[entity]?.relationships[name] = known
    }

    /// The model.
    ///
    /// What a relationship is declared to lead to is a superentity of the objects that it does lead to, unless they are of
    /// it.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the names in the file cannot be those of a model.
    mutating func model(path: String) throws -> ManagedObjectModel {
        for key in entities.keys.sorted() { addSuperentities(of: key) }
        for key in entities.keys.sorted() { moveUp(key) }
        var model = ManagedObjectModel()
        for (key, entity) in entities.sorted(by: { $0.key < $1.key }) {
            var description = EntityDescription(name: entity.name)
            description.superentityName = parents[key].flatMap { entities[$0]?.name }
            for (name, type) in entity.attributes.sorted(by: { $0.key < $1.key }) {
                description.properties.append(
                    .attribute(AttributeDescription(name: name, type: type)))
            }
            for (name, relationship) in entity.relationships.sorted(by: { $0.key < $1.key }) {
                guard let destination = destination(of: relationship).flatMap({ entities[$0] })
                else { continue }
                var result = RelationshipDescription(name: name, destination: destination.name)
                result.isToMany = relationship.isToMany
                // The file lists objects in some order; it is not lost.
                result.isOrdered = relationship.isToMany
                result.deleteRule = .noAction
                description.properties.append(.relationship(result))
            }
            model.entities.append(description)
        }
        do { try model.validate() } catch let error as QuireError {
            throw QuireError(
                .invalidFormat, "No model can be made of what “\(path)” holds: \(error.message)",
                subject: .init(file: path), underlying: error)
        }
        return model
    }

    private func found(_ relationship: Relationship) -> [String] {
        Set(relationship.keys.compactMap { owners[$0] }).sorted()
    }

    private func ancestors(_ key: String) -> [String] {
        var result = [key]
        while let parent = result.last.flatMap({ parents[$0] }) { result.append(parent) }
        return result
    }

    private func root(_ key: String) -> String { ancestors(key).last ?? key }

    private mutating func addSuperentities(of key: String) {
        for (name, relationship) in entities[key]?.relationships.sorted(by: { $0.key < $1.key })
            ?? []
        {
            let found = found(relationship)
            var declared = relationship.declared
            if declared == nil, found.count > 1, Set(found.map(root)).count > 1 {
                declared = "Any" + root(found[0])
                while entities[declared ?? ""] != nil { declared? += "_" }
            }
            guard let declared, !declared.isEmpty else { continue }
            entities[key]?.relationships[name]?.declared = declared
            if entities[declared] == nil {
                entities[declared] = Entity(name: names[declared] ?? declared)
            }
            for other in found where root(other) != root(declared) {
                parents[root(other)] = declared
            }
        }
    }

    /// Leaves to superentities what they have as well.
    private mutating func moveUp(_ key: String) {
        guard let entity = entities[key] else { return }
        for ancestor in ancestors(key).dropFirst() {
            for (name, type) in entity.attributes {
                guard let known = entities[ancestor]?.attributes[name] else { continue }
                if known != type { entities[ancestor]?.attributes[name] = .string }
                entities[key]?.attributes[name] = nil
            }
            for (name, relationship) in entity.relationships {
                guard let known = entities[ancestor]?.relationships[name] else { continue }
                entities[ancestor]?.relationships[name]?.keys = known.keys.union(relationship.keys)
                entities[ancestor]?.relationships[name]?.isToMany =
                    known.isToMany || relationship.isToMany
                entities[key]?.relationships[name] = nil
            }
        }
    }

    private func destination(of relationship: Relationship) -> String? {
        let found = found(relationship)
        guard let declared = relationship.declared else {
            return found.count > 1 ? found.first.map(root) : found.first
        }
        return found.allSatisfy { ancestors($0).contains(declared) } ? declared : root(declared)
    }
}
