internal import QuireModel
internal import QuireSystem

/// Infers a model from the contents of a store without one.
///
/// Two relationships are inverses of each other if their references are exactly reversed. If several sub-entities have a
/// relationship of one name and only all of them together are the inverse of another, it is declared by their common
/// superentity.
struct ModelInference {
    private struct Reference: Hashable {
        let owner: Int64
        let member: Int64

        var reversed: Reference { Reference(owner: member, member: owner) }
    }

    private struct Relationship {
        var isToMany: Bool
        var references: Set<Reference> = []
        var declared: String?
        var inverse: RelationshipKey?
    }

    /// A relationship of an entity, by their names in the file.
    private struct RelationshipKey: Hashable {
        let entity: String
        let name: String
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
    /// Entity names by their names in the file.
    private let names: [String: String]
    /// Whether the position of a value in the file depends on the declaring entity, so that properties must not move up.
    private let hasFixedPlaces: Bool

    init(names: [(key: String, name: String)], hasFixedPlaces: Bool = false) {
        self.names = Dictionary(names.map { ($0.key, $0.name) }, uniquingKeysWith: { min($0, $1) })
        self.hasFixedPlaces = hasFixedPlaces
    }

    /// Records an object.
    ///
    /// - Returns: The name of its entity in the file.
    mutating func note(entity: String, key: Int64) -> String {
        owners[key] = entity
        if entities[entity] == nil { entities[entity] = Entity(name: names[entity] ?? entity) }
        return entity
    }

    mutating func note(attribute name: String, _ type: AttributeType, of entity: String) {
        let known = entities[entity]?.attributes[name]
        // Mixed types are represented as text.
        entities[entity]?.attributes[name] = known == nil || known == type ? type : .string
    }

    mutating func note(
        relationship name: String, isToMany: Bool, of owner: Int64, _ keys: [Int64],
        declared: String?, of entity: String
    ) {
        // In place: copying the references for each object would take quadratic time.
        var known =
            entities[entity]?.relationships.removeValue(forKey: name)
            ?? Relationship(isToMany: isToMany, declared: declared)
        for key in keys { known.references.insert(Reference(owner: owner, member: key)) }
        known.isToMany = known.isToMany || isToMany || keys.count > 1
        entities[entity]?.relationships[name] = known
    }

    /// The inferred model.
    ///
    /// The destination of a relationship is a common superentity of its members, or their entity.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if names in the file are not valid in a model.
    mutating func model(path: String) throws -> ManagedObjectModel {
        removeDanglingReferences()
        for key in entities.keys.sorted() { addSuperentities(of: key) }
        for key in entities.keys.sorted() { moveUp(key) }
        pairInverses()
        var model = ManagedObjectModel()
        for (key, entity) in entities.sorted(by: { $0.key < $1.key }) {
            var description = EntityDescription(name: entity.name)
            description.superentityName = parents[key].flatMap { entities[$0]?.name }
            for (name, type) in entity.attributes.sorted(by: { $0.key < $1.key }) {
                description.properties.append(
                    .attribute(AttributeDescription(name: name, type: type)))
            }
            for (name, relationship) in entity.relationships.sorted(by: { $0.key < $1.key }) {
                guard
                    let destination =
                        (relationship.inverse?.entity ?? destination(of: relationship))
                        .flatMap({ entities[$0] })
                else { continue }
                var result = RelationshipDescription(name: name, destination: destination.name)
                result.isToMany = relationship.isToMany
                // The file lists objects in some order; it is not lost.
                result.isOrdered = relationship.isToMany
                result.inverseName = relationship.inverse?.name
                result.deleteRule = relationship.inverse == nil ? .noAction : .nullify
                description.properties.append(.relationship(result))
            }
            model.entities.append(description)
        }
        do { try model.validate() } catch let error as QuireError {
            throw QuireError(
                .invalidFormat, "Cannot infer a model from “\(path)”: \(error.message)",
                file: path, underlying: error)
        }
        return model
    }

    private func found(_ relationship: Relationship) -> [String] {
        Set(relationship.references.compactMap { owners[$0.member] }).sorted()
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

    /// Merges properties that superentities declare as well into theirs.
    private mutating func moveUp(_ key: String) {
        guard let entity = entities[key] else { return }
        for ancestor in ancestors(key).dropFirst() {
            for (name, type) in entity.attributes {
                guard let known = entities[ancestor]?.attributes[name] else { continue }
                if known != type { entities[ancestor]?.attributes[name] = .string }
                entities[key]?.attributes[name] = nil
            }
            for (name, relationship) in entity.relationships {
                guard entities[ancestor]?.relationships[name] != nil else { continue }
                entities[ancestor]?.relationships[name]?.references
                    .formUnion(relationship.references)
                if relationship.isToMany {
                    entities[ancestor]?.relationships[name]?.isToMany = true
                }
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

    /// Dangling references are ignored.
    private mutating func removeDanglingReferences() {
        for key in entities.keys {
            for name in (entities[key]?.relationships ?? [:]).keys {
                let known = entities[key]?.relationships[name]?.references ?? []
                entities[key]?.relationships[name]?.references = known.filter {
                    owners[$0.member] != nil
                }
            }
        }
    }

    // MARK: - Inverses

    /// The relationships of one name of an entity and its sub-entities, combined.
    private struct Scope {
        /// The lowest common superentity of all owners.
        let entity: String
        let name: String
        /// The entities that have the relationship.
        let holders: Set<String>
        let references: Set<Reference>

        var key: RelationshipKey { RelationshipKey(entity: entity, name: name) }
    }

    private mutating func pairInverses() {
        let scopes = scopes()
        let found = Dictionary(grouping: scopes.indices) { scopes[$0].references }
        var paired: Set<RelationshipKey> = []
        func isFree(_ scope: Scope) -> Bool {
            scope.holders.allSatisfy {
                !paired.contains(RelationshipKey(entity: $0, name: scope.name))
            }
        }
        for (index, scope) in scopes.enumerated() where isFree(scope) {
            let candidates = (found[Set(scope.references.map(\.reversed))] ?? []).filter {
                isFree(scopes[$0])
                    && ($0 == index || scopes[$0].name != scope.name
                        || scopes[$0].holders.isDisjoint(with: scope.holders))
            }
            // A relationship is its own inverse only if there is no other candidate.
            guard let other = candidates.first(where: { $0 != index }) ?? candidates.first else {
                continue
            }
            for (one, inverse) in [(scope, scopes[other]), (scopes[other], scope)] {
                paired.formUnion(
                    one.holders.map { RelationshipKey(entity: $0, name: one.name) })
                unite(one)
                entities[one.entity]?.relationships[one.name]?.inverse = inverse.key
            }
        }
    }

    /// All scopes with references, those with the most first.
    private func scopes() -> [Scope] {
        var holders: [RelationshipKey: Set<String>] = [:]
        for (key, entity) in entities {
            for name in entity.relationships.keys {
                for ancestor in hasFixedPlaces ? [key] : ancestors(key) {
                    holders[RelationshipKey(entity: ancestor, name: name), default: []].insert(key)
                }
            }
        }
        return holders.compactMap { key, holding -> Scope? in
            // The same holders have a lower entity in common.
            let isLowest = !entities.keys.contains {
                parents[$0] == key.entity
                    && holders[RelationshipKey(entity: $0, name: key.name)] == holding
            }
            guard isLowest, holding == [key.entity] || canUnite(holding, key) else { return nil }
            let references = holding.reduce(into: Set<Reference>()) {
                $0.formUnion(entities[$1]?.relationships[key.name]?.references ?? [])
            }
            if references.isEmpty { return nil }
            return Scope(
                entity: key.entity, name: key.name, holders: holding, references: references)
        }.sorted {
            ($1.references.count, $0.entity, $0.name) < ($0.references.count, $1.entity, $1.name)
        }
    }

    /// Whether an entity may have the relationship of its sub-entities: no other property of the name is above or below it.
    private func canUnite(_ holders: Set<String>, _ key: RelationshipKey) -> Bool {
        entities.allSatisfy { other, entity in
            let isRelated =
                ancestors(other).contains(key.entity) || ancestors(key.entity).contains(other)
            return !isRelated
                || (entity.attributes[key.name] == nil
                    && (entity.relationships[key.name] == nil || holders.contains(other)))
        }
    }

    /// Replaces the relationships of a scope by one of its entity.
    private mutating func unite(_ scope: Scope) {
        if scope.holders == [scope.entity] { return }
        var united = Relationship(isToMany: false, references: scope.references)
        for holder in scope.holders {
            guard let own = entities[holder]?.relationships.removeValue(forKey: scope.name) else {
                continue
            }
            united.isToMany = united.isToMany || own.isToMany
        }
        entities[scope.entity]?.relationships[scope.name] = united
    }
}
