package import QuireModel
internal import QuireSystem

// Changes of single parts of a model, as `quire model add|rename|remove|set` make them.

extension ManagedObjectModel {
    /// Adds what the text form of a model describes: entities, and properties, constraints and indexes of entities that exist.
    ///
    /// A relationship whose inverse does not exist yet gets one: to many objects for one to one, and the reverse.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if a part exists already.
    package mutating func add(_ addition: ManagedObjectModel) throws {
        for added in addition.entities {
            guard let index = entities.firstIndex(where: { $0.name == added.name }) else {
                entities.append(added)
                continue
            }
            if added == EntityDescription(name: added.name) {
                throw QuireError(
                    .invalidModel, "The entity “\(added.name)” already exists.", entity: added.name)
            }
            for property in added.properties {
                if entities[index].property(named: property.name) != nil {
                    throw QuireError(
                        .invalidModel, "“\(added.name).\(property.name)” already exists.",
                        entity: added.name, property: property.name)
                }
                entities[index].properties.append(property)
            }
            entities[index].uniquenessConstraints += added.uniquenessConstraints
            entities[index].indexes += added.indexes
        }
        for added in addition.entities {
            for relationship in added.relationships { addInverse(of: relationship, in: added.name) }
        }
        fetchRequestTemplates += addition.fetchRequestTemplates
        composites += addition.composites
        configurations += addition.configurations
    }

    private mutating func addInverse(of relationship: RelationshipDescription, in entity: String) {
        guard let name = relationship.inverseName,
            let index = entities.firstIndex(where: {
                $0.name == relationship.destinationEntityName
            }), entities[index].property(named: name) == nil
        else { return }
        var inverse = RelationshipDescription(
            name: name, destination: entity, inverse: relationship.name)
        inverse.isToMany = !relationship.isToMany
        entities[index].properties.append(.relationship(inverse))
    }

    // MARK: - Renaming

    /// Renames an entity, so that a migration keeps its objects.
    package mutating func renameEntity(_ old: String, to new: String) throws {
        let index = try requireEntity(old)
        if entities.contains(where: { $0.name == new }) {
            throw QuireError(
                .invalidModel, "The entity “\(new)” already exists.", entity: new)
        }
        entities[index].name = new
        entities[index].renamingIdentifier = old
        if entities[index].managedObjectClassName == old {
            entities[index].managedObjectClassName = new
        }
        func renamed(_ name: String) -> String { name == old ? new : name }
        for index in entities.indices {
            entities[index].superentityName = entities[index].superentityName.map(renamed)
            changeRelationships(of: index) {
                $0.destinationEntityName = renamed($0.destinationEntityName)
                $0.inverseEntityName = $0.inverseEntityName.map(renamed)
            }
            for position in entities[index].properties.indices {
                guard case .fetched(var fetched) = entities[index].properties[position] else {
                    continue
                }
                fetched.fetchRequest.entityName = renamed(fetched.fetchRequest.entityName)
                entities[index].properties[position] = .fetched(fetched)
            }
        }
        for index in fetchRequestTemplates.indices {
            fetchRequestTemplates[index].entityName =
                renamed(fetchRequestTemplates[index].entityName)
        }
        for index in configurations.indices {
            configurations[index].entityNames = configurations[index].entityNames.map(renamed)
        }
    }

    /// Renames a property, so that a migration keeps its values. Constraints, indexes and inverses follow; predicates and
    /// expressions stay as they are written.
    package mutating func renameProperty(
        _ old: String, of entity: String, to new: String
    ) throws {
        let (owner, position) = try requireProperty(old, of: entity)
        if entities[owner].property(named: new) != nil {
            throw QuireError(
                .invalidModel, "“\(entity).\(new)” already exists.", entity: entity, property: new)
        }
        switch entities[owner].properties[position] {
        case .attribute(var attribute):
            attribute.name = new
            attribute.renamingIdentifier = old
            entities[owner].properties[position] = .attribute(attribute)
        case .relationship(var relationship):
            relationship.name = new
            relationship.renamingIdentifier = old
            entities[owner].properties[position] = .relationship(relationship)
        case .fetched(var fetched):
            fetched.name = new
            entities[owner].properties[position] = .fetched(fetched)
        }
        func renamed(_ name: String) -> String {
            if name == old { return new }
            return name.hasPrefix(old + ".") ? new + name.dropFirst(old.count) : name
        }
        let subtree = names(ofSubtree: entity)
        for index in entities.indices where subtree.contains(entities[index].name) {
            entities[index].uniquenessConstraints =
                entities[index].uniquenessConstraints.map { $0.map(renamed) }
            entities[index].compoundIndexes =
                entities[index].compoundIndexes.map { $0.map(renamed) }
            for position in entities[index].indexes.indices {
                for element in entities[index].indexes[position].elements.indices {
                    let name = entities[index].indexes[position].elements[element].propertyName
                    entities[index].indexes[position].elements[element].propertyName =
                        name.map(renamed)
                }
            }
        }
        for index in entities.indices {
            changeRelationships(of: index) {
                if $0.inverseName == old,
                    subtree.contains($0.inverseEntityName ?? $0.destinationEntityName)
                {
                    $0.inverseName = new
                }
            }
        }
    }

    // MARK: - Removing

    /// Removes an entity with the relationships to it, and its requests.
    package mutating func removeEntity(_ name: String) throws {
        let index = try requireEntity(name)
        if let child = entities.first(where: { $0.superentityName == name }) {
            throw QuireError(
                .invalidModel,
                "“\(name)” is the parent of “\(child.name)”; remove “\(child.name)” first.",
                entity: name)
        }
        entities.remove(at: index)
        for index in entities.indices {
            let lost = Set(
                entities[index].properties.compactMap { property -> String? in
                    switch property {
                    case .relationship(let relationship)
                    where relationship.destinationEntityName == name:
                        property.name
                    case .fetched(let fetched) where fetched.fetchRequest.entityName == name:
                        property.name
                    default: nil
                    }
                })
            removeProperties(lost, at: index)
        }
        fetchRequestTemplates.removeAll { $0.entityName == name }
        for index in configurations.indices {
            configurations[index].entityNames.removeAll { $0 == name }
        }
    }

    /// Removes a property with its inverse, and the constraints and indexes that have it.
    package mutating func removeProperty(_ name: String, of entity: String) throws {
        let (owner, position) = try requireProperty(name, of: entity)
        let property = entities[owner].properties[position]
        for index in entities.indices
        where names(ofSubtree: entity).contains(entities[index].name) {
            removeProperties([name], at: index)
        }
        guard case .relationship(let relationship) = property,
            let inverse = relationship.inverseName,
            let index = entities.firstIndex(where: {
                $0.name == relationship.inverseEntityName ?? relationship.destinationEntityName
            })
        else { return }
        removeProperties([inverse], at: index)
    }

    private mutating func removeProperties(_ names: Set<String>, at index: Int) {
        func isLost(_ name: String?) -> Bool {
            name.map { names.contains(String($0.prefix { $0 != "." })) } ?? false
        }
        entities[index].properties.removeAll { names.contains($0.name) }
        entities[index].uniquenessConstraints.removeAll { $0.contains(where: isLost) }
        entities[index].compoundIndexes.removeAll { $0.contains(where: isLost) }
        entities[index].indexes.removeAll { $0.elements.contains { isLost($0.propertyName) } }
    }

    // MARK: - Setting

    /// Sets options of an entity or of a property, as their names and values stand in the text form.
    ///
    /// - Parameters:
    ///   - settings: The names of options with their values: `true`, `false` or `nil` of a word that stands alone, and nothing
    ///     for the default of another.
    ///   - property: The name of the property; `nil` for the entity.
    /// - Throws: ``QuireError`` with code `invalidModel` if an option is not known, or does not take the value.
    package mutating func set(
        _ settings: [(name: String, value: String?)], ofProperty property: String?,
        of entity: String
    ) throws {
        guard let property else {
            let index = try requireEntity(entity)
            for setting in settings {
                try ModelTextOption<EntityDescription>.all.apply(
                    setting, to: &entities[index], "an entity")
            }
            return
        }
        let (index, position) = try requireProperty(property, of: entity)
        switch entities[index].properties[position] {
        case .attribute(var attribute):
            for setting in settings {
                if setting.name == "type" {
                    try attribute.change(typeTo: setting.value ?? "")
                } else {
                    try ModelTextOption<AttributeDescription>.all.apply(
                        setting, to: &attribute, "an attribute")
                }
            }
            entities[index].properties[position] = .attribute(attribute)
        case .relationship(var relationship):
            for setting in settings {
                try ModelTextOption<RelationshipDescription>.all.apply(
                    setting, to: &relationship, "a relationship")
            }
            entities[index].properties[position] = .relationship(relationship)
        case .fetched(var fetched):
            for setting in settings {
                try ModelTextOption<FetchedPropertyDescription>.all.apply(
                    setting, to: &fetched, "a fetched property")
            }
            entities[index].properties[position] = .fetched(fetched)
        }
    }

    // MARK: - Looking up

    /// The parts that have a name as a word in a predicate or an expression, such as “request “booksBy””.
    package func parts(mentioning name: String) -> [String] {
        func mentions(_ texts: [String?]) -> Bool {
            texts.compactMap(\.self).contains { text in
                text.split { !($0.isLetter || $0.isNumber || $0 == "_") }.contains { $0 == name }
            }
        }
        func texts(of request: FetchRequestTemplate) -> [String?] {
            [request.predicateFormat] + request.sortKeys.map(\.expression)
                + request.relationshipKeyPathsForPrefetching
        }
        var parts = fetchRequestTemplates.filter { mentions(texts(of: $0)) }.map {
            "request “\($0.name)”"
        }
        for entity in entities {
            for property in entity.properties {
                let found =
                    switch property {
                    case .attribute(let attribute):
                        mentions(
                            [attribute.derivationExpression]
                                + attribute.validationPredicates.map(\.format))
                    case .fetched(let fetched): mentions(texts(of: fetched.fetchRequest))
                    case .relationship: false
                    }
                if found { parts.append("property “\(entity.name).\(property.name)”") }
            }
            for index in entity.indexes
            where mentions([index.partialIndexPredicate] + index.elements.map(\.expression)) {
                parts.append("index “\(index.name)” of “\(entity.name)”")
            }
        }
        return parts
    }

    private func requireEntity(_ name: String) throws -> Int {
        if let index = entities.firstIndex(where: { $0.name == name }) { return index }
        let advice = CloseNames.advice(
            for: name, among: entities.map(\.name), "its entities are")
        throw QuireError(
            .unknownEntity, "The model has no entity “\(name)”; \(advice)", entity: name)
    }

    private func requireProperty(
        _ name: String, of entity: String
    ) throws -> (entity: Int, property: Int) {
        let index = try requireEntity(entity)
        if let position = entities[index].properties.firstIndex(where: { $0.name == name }) {
            return (index, position)
        }
        let inherited = self.entity(named: entity)?.inheritedProperties ?? []
        if inherited.contains(where: { $0.name == name }),
            let owner = entities.first(where: { $0.property(named: name) != nil })
        {
            throw QuireError(
                .unknownKey,
                "“\(entity)” inherits “\(name)”; change it in “\(owner.name)”.", entity: entity,
                property: name)
        }
        let advice = CloseNames.advice(
            for: name, among: entities[index].properties.map(\.name), "its properties are")
        throw QuireError(
            .unknownKey, "“\(entity)” has no property “\(name)”; \(advice)", entity: entity,
            property: name)
    }

    /// The names of an entity and its sub-entities.
    private func names(ofSubtree name: String) -> Set<String> {
        var names: Set = [name]
        var count = 0
        while names.count > count {
            count = names.count
            for entity in entities {
                if let parent = entity.superentityName, names.contains(parent) {
                    names.insert(entity.name)
                }
            }
        }
        return names
    }

    private mutating func changeRelationships(
        of index: Int, _ change: (inout RelationshipDescription) -> Void
    ) {
        for position in entities[index].properties.indices {
            guard case .relationship(var relationship) = entities[index].properties[position]
            else { continue }
            change(&relationship)
            entities[index].properties[position] = .relationship(relationship)
        }
    }
}

extension AttributeDescription {
    /// Changes the type, and converts the default value and the bounds to it.
    fileprivate mutating func change(typeTo name: String) throws {
        var parser = try ModelTextParser(name, name: "type")
        let new = try parser.type()
        try parser.requireEnd()
        func converted(_ value: AttributeValue, _ old: AttributeType) throws -> AttributeValue {
            try value.text(as: old).map { try AttributeValue(parsing: $0, as: new) } ?? .null
        }
        defaultValue = try converted(defaultValue, type)
        if type == .string || new == .string {
            (minimum, maximum) = (.null, .null)
        } else {
            minimum = try converted(minimum, type)
            maximum = try converted(maximum, type)
        }
        type = new
    }
}

extension Array {
    /// Applies a setting to a part.
    fileprivate func apply<Part>(
        _ setting: (name: String, value: String?), to part: inout Part, _ noun: String
    ) throws where Element == ModelTextOption<Part> {
        guard let option = first(where: { $0.name == setting.name }) else {
            let advice = CloseNames.advice(
                for: setting.name, among: map(\.name), "the options are")
            throw QuireError(
                .invalidModel, "“\(setting.name)” is not an option of \(noun); \(advice)")
        }
        if option.isFlag {
            switch setting.value?.lowercased() {
            case nil, "true", "yes": break
            case "false", "no": return option.reset(&part)
            default:
                throw QuireError(
                    .invalidModel,
                    "“\(setting.name)” must be true or false, not “\(setting.value ?? "")”.")
            }
        } else if setting.value?.isEmpty ?? true {
            return option.reset(&part)
        }
        let value = setting.value ?? ""
        let isWritten = option.name == "info" || value.hasPrefix("\"") || value.hasPrefix("'")
        let text = isWritten ? value : ModelTextLexer.word(value)
        // A setting replaces all entries of options that may be repeated, but those of user info.
        if !option.isFlag, option.name != "info" { option.reset(&part) }
        var parser = try ModelTextParser(option.isFlag ? "" : text, name: setting.name)
        try option.read(&part, &parser)
        try parser.requireEnd()
    }
}
