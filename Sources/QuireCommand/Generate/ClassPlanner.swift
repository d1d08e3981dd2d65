import Quire

/// Resolves the names of a model's entities and properties to those of classes and their members.
///
/// It takes any model that can be read, be it valid or not.
struct ClassPlanner {
    /// The problems of the model as a whole.
    private(set) var modelWarnings: [String] = []
    /// The first entity of each name, in the order of the model.
    let entities: [EntityDescription]
    let entitiesByName: [String: EntityDescription]
    private(set) var classNames: [String: String] = [:]
    private var takenClassNames: Set<String> = []
    private var classNotes: [String: [String]] = [:]
    /// The superentity of an entity, where there is one and it does not inherit from the entity.
    private var superentities: [String: EntityDescription] = [:]
    /// By entity and name in the model, what its own properties are called in code. What is left out has no name.
    private(set) var memberNames: [String: [String: String]] = [:]
    /// By entity, the names in code of its own and inherited members.
    private var takenNames: [String: Set<String>] = [:]
    private let composites: [CompositeDescription]
    /// The composites that can be structures.
    private(set) var structures: [ClassPlan.Structure] = []

    init(_ model: ManagedObjectModel) {
        var entities: [EntityDescription] = []
        var entitiesByName: [String: EntityDescription] = [:]
        for entity in model.entities {
            if entitiesByName[entity.name] != nil {
                modelWarnings.append(
                    "Several entities are named \(entity.name); the first is used.")
                continue
            }
            entities.append(entity)
            entitiesByName[entity.name] = entity
        }
        composites = model.composites
        self.entities = entities
        self.entitiesByName = entitiesByName
    }

    /// The classes, in the order of the model.
    mutating func classes() -> [ClassPlan.Class] {
        nameClasses()
        nameStructures()
        findSuperentities()
        for entity in entities {
            for above in lineage(of: entity).reversed() { nameMembers(of: above) }
        }
        let parents = Set(superentities.values.map(\.name))
        return entities.map { entity in
            var result = ClassPlan.Class(
                entity: entity, name: classNames[entity.name] ?? entity.name,
                superclass: superentities[entity.name].flatMap { classNames[$0.name] },
                hasSubclasses: parents.contains(entity.name),
                notes: classNotes[entity.name] ?? [])
            result.warnings = result.notes.map { "\(entity.name): \($0)" }
            if let parent = entity.superentityName, superentities[entity.name] == nil {
                result.warn(
                    entitiesByName[parent] == nil
                        ? "The superentity \(parent) does not exist."
                        : "The entity inherits from itself, through \(parent).")
            }
            addMembers(to: &result)
            addGroups(to: &result)
            return result
        }
    }

    // MARK: - Classes

    /// Every entity gets a class of its own: one that is shared could not say what either entity has.
    private mutating func nameClasses() {
        var named: Set<String> = []
        // A class that is named like its entity keeps its name.
        for callsItsOwn in [true, false] {
            for entity in entities where !named.contains(entity.name) {
                let wanted = Self.className(wantedBy: entity)
                if callsItsOwn && wanted != entity.name { continue }
                named.insert(entity.name)
                var name = SwiftNames.identifier(wanted)
                if SwiftNames.typesInGeneratedCode.contains(name)
                    || SwiftNames.keywords.contains(name)
                {
                    name += "Object"
                    classNotes[entity.name, default: []].append(
                        "The class \(wanted) is named \(name) here, because its name is reserved."
                    )
                } else if takenClassNames.contains(name) {
                    let own = SwiftNames.identifier(entity.name)
                    let free = SwiftNames.unique(takenClassNames.contains(own) ? name : own) {
                        takenClassNames.contains($0) || SwiftNames.typesInGeneratedCode.contains($0)
                            || SwiftNames.keywords.contains($0)
                    }
                    classNotes[entity.name, default: []].append(
                        "The model specifies the class \(name), which another entity uses; "
                            + "this class is named \(free).")
                    name = free
                }
                name = SwiftNames.unique(name) { takenClassNames.contains($0) }
                takenClassNames.insert(name)
                classNames[entity.name] = name
            }
        }
    }

    /// The class that the model names, without its module, else the entity's name.
    private static func className(wantedBy entity: EntityDescription) -> String {
        let last = entity.managedObjectClassName?.split(separator: ".").last.map(String.init)
        guard let last, !last.isEmpty, last != "NSManagedObject", last != "ManagedObject" else {
            return entity.name
        }
        return last
    }

    // MARK: - Structures

    /// Finds the composites that can be structures: whose elements have types and names that properties can have, and whose
    /// composite elements can be structures too.
    private mutating func nameStructures() {
        var waiting = composites
        while let index = waiting.firstIndex(where: { structure(of: $0) != nil }) {
            let composite = waiting.remove(at: index)
            if let structure = structure(of: composite) {
                takenClassNames.insert(structure.name)
                structures.append(structure)
            }
        }
        let names = composites.map(\.name)
        structures.sort { first, second in
            names.firstIndex(of: first.description.name) ?? 0
                < names.firstIndex(of: second.description.name) ?? 0
        }
    }

    private func structure(of composite: CompositeDescription) -> ClassPlan.Structure? {
        guard !composite.elements.isEmpty,
            !structures.contains(where: { $0.description.name == composite.name }),
            Set(composite.elements.map(\.name)).count == composite.elements.count
        else { return nil }
        var elements: [(description: AttributeDescription, structure: String?)] = []
        for element in composite.elements {
            let name = element.name
            guard SwiftNames.identifier(name) == name, !isImpossible(name),
                element.derivationExpression == nil,
                element.type != .objectID, element.type != .undefined
            else { return nil }
            let structure = structure(named: element.compositeName)
            if element.type == .composite && structure == nil { return nil }
            elements.append((element, structure))
        }
        let name = SwiftNames.unique(SwiftNames.identifier(composite.name)) {
            takenClassNames.contains($0) || SwiftNames.typesInGeneratedCode.contains($0)
                || SwiftNames.keywords.contains($0)
        }
        return ClassPlan.Structure(description: composite, name: name, elements: elements)
    }

    private func structure(named composite: String?) -> String? {
        structures.first { $0.description.name == composite }?.name
    }

    private mutating func findSuperentities() {
        for entity in entities {
            guard let parent = entity.superentityName.flatMap({ entitiesByName[$0] }) else {
                continue
            }
            var seen: Set<String> = [entity.name]
            var next: EntityDescription? = parent
            while let above = next, seen.insert(above.name).inserted {
                next = above.superentityName.flatMap { entitiesByName[$0] }
            }
            // Only those that are part of the circle, not what hangs below it.
            if next?.name != entity.name { superentities[entity.name] = parent }
        }
    }

    // MARK: - Members

    /// Names an entity's members. Those of its superentities have their names already.
    private mutating func nameMembers(of entity: EntityDescription) {
        if memberNames[entity.name] != nil { return }
        var taken: Set<String> = []
        var keys: Set<String> = []
        if let parent = superentities[entity.name] {
            taken = takenNames[parent.name] ?? []
            for above in lineage(of: parent) { keys.formUnion(above.properties.map(\.name)) }
        }
        let className = classNames[entity.name] ?? entity.name
        var names: [String: String] = [:]
        for property in entity.properties where leavingOut(property) == nil {
            guard keys.insert(property.name).inserted else { continue }
            var name = SwiftNames.identifier(property.name)
            if isImpossible(name) {
                name = SwiftNames.lowerFirst(className) + SwiftNames.upperFirst(name)
            }
            name = SwiftNames.unique(name) { taken.contains($0) || isImpossible($0) }
            taken.insert(name)
            names[property.name] = name
        }
        memberNames[entity.name] = names
        takenNames[entity.name] = taken
    }

    /// Whether a member cannot have a name: every object has it already, or it would hide a type.
    private func isImpossible(_ name: String) -> Bool {
        SwiftNames.propertiesOfManagedObject.contains(name)
            || SwiftNames.membersOfMacros.contains(name)
            || SwiftNames.wordsAfterADot.contains(name)
            || SwiftNames.typesInGeneratedCode.contains(name)
            || takenClassNames.contains(name)
    }

    /// Why a property cannot be a member, whatever its name.
    func leavingOut(_ property: PropertyDescription) -> String? {
        switch property {
        case .attribute: return nil
        case .relationship(let relationship):
            if relationship.destinationEntityName.isEmpty { return "it has no destination" }
            return entitiesByName[relationship.destinationEntityName] == nil
                ? "its destination \(relationship.destinationEntityName) does not exist" : nil
        case .fetched(let fetched):
            let found = fetched.fetchRequest.entityName
            if found.isEmpty { return "it has no entity to fetch" }
            return entitiesByName[found] == nil
                ? "its entity \(found) does not exist" : nil
        }
    }

    /// An entity and its superentities, nearest first.
    func lineage(of entity: EntityDescription) -> [EntityDescription] {
        var result: [EntityDescription] = []
        var next: EntityDescription? = entity
        while let entity = next {
            result.append(entity)
            next = superentities[entity.name]
        }
        return result
    }
}

extension ClassPlan.Class {
    /// Adds a sentence for the class's reader and for the user.
    fileprivate mutating func warn(_ sentence: String) {
        notes.append(sentence)
        warnings.append("\(entity.name): \(sentence)")
    }
}

// MARK: - Members

extension ClassPlanner {
    /// Adds what the entity's own properties are in its class.
    func addMembers(to result: inout ClassPlan.Class) {
        let entity = result.entity
        var seen: Set<String> = []
        for property in entity.properties {
            let name = memberNames[entity.name]?[property.name]
            guard let name, seen.insert(property.name).inserted else {
                let reason = leavingOut(property) ?? "another property has this name"
                result.warnings.append("\(entity.name).\(property.name) is omitted: \(reason).")
                result.members.append(.skipped(name: property.name, reason: reason))
                continue
            }
            var notes: [String] = []
            if name != property.name {
                notes.append(
                    "Named “\(property.name)” in the model, which cannot be its name here.")
                result.warnings.append(
                    "\(entity.name).\(property.name) is named \(name), because that cannot be its "
                        + "name in Swift.")
            }
            switch property {
            case .attribute(let description):
                result.members.append(
                    .attribute(attribute(description, name, notes, of: entity)))
            case .relationship(let description):
                let relationship = relationship(description, name, notes, of: entity)
                if relationship.inverse == nil, let missing = description.inverseName {
                    result.warnings.append(
                        "\(entity.name).\(property.name) has no inverse: "
                            + "\(description.destinationEntityName).\(missing) does not exist.")
                }
                result.members.append(.relationship(relationship))
            case .fetched(let description):
                result.members.append(
                    .fetched(
                        ClassPlan.Fetched(
                            description: description, name: name,
                            destination: classNames[description.fetchRequest.entityName] ?? "",
                            undeclared: Self.undeclared(description.fetchRequest), notes: notes)))
            }
        }
    }

    // MARK: - Attributes

    private func attribute(
        _ description: AttributeDescription, _ name: String, _ notes: [String],
        of entity: EntityDescription
    ) -> ClassPlan.Attribute {
        var notes = notes
        if description.type == .transformable {
            let kind = description.customClassName.map { " of a \($0)" } ?? ""
            let maker = description.valueTransformerName.map { ", encoded by \($0)" } ?? ""
            notes.append("The stored bytes\(kind)\(maker).")
        }
        if let derivation = description.derivationExpression {
            notes.append("Derived from \(derivation).")
        }
        if description.defaultValue != .null,
            AttributeCode.literal(description.defaultValue, description.type) == nil
        {
            notes.append("Its default value has another type.")
        }
        let structure =
            description.type == .composite ? structure(named: description.compositeName) : nil
        return ClassPlan.Attribute(
            description: description, name: name,
            isUnique: entity.uniquenessConstraints.contains([description.name]),
            isIndexed: description.isIndexed
                || entity.indexes.contains { $0.plainKeys == [description.name] },
            structure: structure,
            undeclared: structure == nil ? Self.undeclared(description) : nil, notes: notes)
    }

    /// Why `@FetchedProperty` cannot declare a request; options that only say how objects are read make no difference.
    private static func undeclared(_ request: FetchRequestTemplate) -> String? {
        if !request.includesSubentities {
            return "macros cannot declare requests without subentities"
        }
        if !request.includesPendingChanges {
            return "macros cannot declare requests without unsaved changes"
        }
        return nil
    }

    /// Why `@Attribute` cannot declare an attribute.
    private static func undeclared(_ attribute: AttributeDescription) -> String? {
        return switch attribute.type {
        case .composite: "its composite cannot be a structure"
        case .objectID: "macros cannot declare attributes that contain identifiers"
        case .undefined: "macros cannot declare attributes without a type"
        default: nil
        }
    }

    // MARK: - Relationships

    private func relationship(
        _ description: RelationshipDescription, _ name: String, _ notes: [String],
        of entity: EntityDescription
    ) -> ClassPlan.Relationship {
        let inverse = inverse(of: description)
        var notes = notes
        if inverse == nil, let missing = description.inverseName {
            notes.append(
                "Its inverse, \(description.destinationEntityName).\(missing), does not exist.")
        }
        // The side with fewer destinations names the other; between equals, the first one.
        let namesInverse = inverse.map { inverse in
            rank(of: description, in: entity) < rank(of: inverse.description, in: inverse.owner)
        }
        return ClassPlan.Relationship(
            description: description, name: name,
            destination: classNames[description.destinationEntityName] ?? "",
            inverse: inverse?.name, namesInverseByKeyPath: namesInverse ?? false, notes: notes)
    }

    private func rank(
        of relationship: RelationshipDescription, in entity: EntityDescription
    ) -> (Int, Int, String) {
        let place = entities.firstIndex { $0.name == entity.name } ?? 0
        return (relationship.isToMany ? 1 : 0, place, relationship.name)
    }

    /// The inverse and what it is called in code, if it is there.
    private func inverse(
        of relationship: RelationshipDescription
    ) -> (owner: EntityDescription, description: RelationshipDescription, name: String)? {
        guard let key = relationship.inverseName,
            let destination = entitiesByName[relationship.destinationEntityName]
        else { return nil }
        for entity in lineage(of: destination) {
            guard let property = entity.property(named: key) else { continue }
            guard case .relationship(let description) = property,
                let name = memberNames[entity.name]?[key]
            else { return nil }
            return (entity, description, name)
        }
        return nil
    }

    // MARK: - Uniqueness and indexes

    /// Adds the remarks about several properties together.
    func addGroups(to result: inout ClassPlan.Class) {
        let entity = result.entity
        let single = Set(
            result.members.compactMap { member in
                if case .attribute(let attribute) = member, attribute.undeclared == nil {
                    return attribute.description.name
                }
                return nil
            })
        for keys in entity.uniquenessConstraints where keys.count != 1 || !single.contains(keys[0])
        {
            if let names = names(of: keys, in: entity) {
                result.unique.append(names)
            } else {
                result.undeclared.append(
                    "The uniqueness of \(keys.joined(separator: ", ")) is not declared.")
            }
        }
        for index in entity.indexes {
            if let keys = index.plainKeys, keys.count == 1, single.contains(keys[0]) { continue }
            if let names = index.plainKeys.flatMap({ names(of: $0, in: entity) }) {
                result.indexes.append(names)
            } else {
                result.undeclared.append(
                    "The index \(index.name) is not declared: macros support only indexes of properties."
                )
            }
        }
        if entity.versionHashModifier != nil {
            result.undeclared.append("The entity's hash modifier is not declared.")
        }
    }

    /// The names in code of own or inherited properties that a class with macros declares.
    private func names(of keys: [String], in entity: EntityDescription) -> [String]? {
        let lineage = lineage(of: entity)
        var names: [String] = []
        for key in keys {
            guard let owner = lineage.first(where: { $0.property(named: key) != nil }),
                let name = memberNames[owner.name]?[key]
            else { return nil }
            if case .attribute(let attribute)? = owner.property(named: key),
                Self.undeclared(attribute) != nil
            {
                return nil
            }
            names.append(name)
        }
        return names.isEmpty ? nil : names
    }
}

extension FetchIndexDescription {
    /// The properties, if that is all the index says.
    fileprivate var plainKeys: [String]? {
        if partialIndexPredicate != nil { return nil }
        let keys = elements.compactMap { element in
            element.kind == .binary && element.isAscending ? element.propertyName : nil
        }
        return keys.count == elements.count && !keys.isEmpty ? keys : nil
    }
}
