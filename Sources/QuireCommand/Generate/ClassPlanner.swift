import Quire

/// Resolves the names of a model's entities and properties to those of classes and their members.
///
/// It takes any model that can be read, be it valid or not.
struct ClassPlanner {
    /// What is wrong with the model as a whole.
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

    init(_ model: ManagedObjectModel) {
        var entities: [EntityDescription] = []
        var entitiesByName: [String: EntityDescription] = [:]
        for entity in model.entities {
            if entitiesByName[entity.name] != nil {
                modelWarnings.append(
                    "There are several entities named \(entity.name); the first is taken.")
                continue
            }
            entities.append(entity)
            entitiesByName[entity.name] = entity
        }
        self.entities = entities
        self.entitiesByName = entitiesByName
    }

    /// The classes, in the order of the model.
    mutating func classes() -> [ClassPlan.Class] {
        nameClasses()
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
        // A class that is called like its entity keeps its name, whoever else names it.
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
                        "The class \(wanted) is called \(name) here, because the name is taken in Swift."
                    )
                } else if takenClassNames.contains(name) {
                    let own = SwiftNames.identifier(entity.name)
                    let free = SwiftNames.unique(takenClassNames.contains(own) ? name : own) {
                        takenClassNames.contains($0) || SwiftNames.typesInGeneratedCode.contains($0)
                            || SwiftNames.keywords.contains($0)
                    }
                    classNotes[entity.name, default: []].append(
                        "The model gives it the class \(name), as it does another entity; "
                            + "its own is called \(free).")
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
            if found.isEmpty { return "it fetches of no entity" }
            return entitiesByName[found] == nil
                ? "the entity \(found), of which it fetches, does not exist" : nil
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
