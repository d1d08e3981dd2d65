import Quire

extension ClassPlanner {
    /// Adds what the entity's own properties are in its class.
    func addMembers(to result: inout ClassPlan.Class) {
        let entity = result.entity
        var seen: Set<String> = []
        for property in entity.properties {
            let name = memberNames[entity.name]?[property.name]
            guard let name, seen.insert(property.name).inserted else {
                let reason = leavingOut(property) ?? "there is another property of that name"
                result.warnings.append("\(entity.name).\(property.name) is left out: \(reason).")
                result.members.append(.skipped(name: property.name, reason: reason))
                continue
            }
            var notes: [String] = []
            if name != property.name {
                notes.append("“\(property.name)” in the model, which cannot be its name here.")
                result.warnings.append(
                    "\(entity.name).\(property.name) is called \(name), because that cannot be its "
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
                            + "\(description.destinationEntityName).\(missing) is not there.")
                }
                result.members.append(.relationship(relationship))
            case .fetched(let description):
                result.members.append(
                    .fetched(
                        ClassPlan.Fetched(
                            description: description, name: name,
                            destination: classNames[description.fetchRequest.entityName] ?? "",
                            notes: notes)))
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
            let maker = description.valueTransformerName.map { ", made by \($0)" } ?? ""
            notes.append("The bytes\(kind) as they are stored\(maker).")
        }
        if let derivation = description.derivationExpression {
            notes.append("Derived from \(derivation).")
        }
        if description.defaultValue != .null,
            AttributeCode.literal(description.defaultValue, description.type) == nil
        {
            notes.append("Its default value is none of its type.")
        }
        return ClassPlan.Attribute(
            description: description, name: name,
            isUnique: entity.uniquenessConstraints.contains([description.name]),
            isIndexed: description.isIndexed
                || entity.indexes.contains { $0.plainKeys == [description.name] },
            undeclared: Self.undeclared(description), notes: notes)
    }

    /// Why `@Attribute` cannot declare an attribute.
    private static func undeclared(_ attribute: AttributeDescription) -> String? {
        if attribute.derivationExpression != nil { return "macros know no derived attributes" }
        return switch attribute.type {
        case .composite: "macros know no composite attributes"
        case .objectID: "macros know no attributes that hold identifiers"
        case .undefined: "macros know no attributes without a type"
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
                "Its inverse, \(description.destinationEntityName).\(missing), is not there.")
        }
        // The side that leads to fewer objects names the other; between equals, the one that comes first.
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

    /// Adds what is said of several properties together.
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
                    "The index \(index.name) is not declared: macros know only indexes of properties."
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
