internal import QuireSystem

/// Maps the properties of a class to those of its bound entity.
///
/// The table is made with the entity's layout; classes are checked once all layouts exist, and every mismatch is reported,
/// not only the first.
enum ClassBinding {
    /// For each property of the class, by ordinal, the slot of an attribute or to-one relationship, the slot of a composite
    /// attribute's first element, or the position of a to-many relationship; -1 if missing, which ``check(_:in:)`` reports.
    static func table(
        of objectClass: (any EntityClass.Type)?, properties: [String: ResolvedEntity.Property],
        relationships: [ResolvedEntity.Relationship]
    ) -> ContiguousArray<Int> {
        guard let declaration = objectClass?.entityDeclaration else { return [] }
        return ContiguousArray(
            declaration.allProperties.map { property in
                switch properties[property.key] {
                case .attribute(let slot)?: slot
                case .relationship(let index)?: relationships[index].slot ?? index
                case .composite(let slots)? where !slots.isEmpty: slots.lowerBound
                default: -1
                }
            })
    }

    /// Checks that classes fit their entities.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`, naming class, entity and property.
    static func check(_ layout: ResolvedModel) throws {
        var failures: [QuireError] = []
        for entity in layout.entities {
            guard let objectClass = entity.objectClass else { continue }
            let superentity = entity.superentityNumber.map { layout.entity(number: $0) }
            if let superclass = superentity?.objectClass {
                // Already checked for the superentity.
                if superclass == objectClass { continue }
                if !superclass.isSuperclass(of: objectClass) {
                    failures.append(
                        failure(
                            entity, nil,
                            "\(objectClass), the class of “\(entity.name)”, must be a subclass of \(superclass), "
                                + "the class of its superentity “\(superentity?.name ?? "")”."))
                }
            }
            for property in objectClass.entityDeclaration?.allProperties ?? [] {
                if let misfit = misfit(of: property, in: entity, layout) {
                    failures.append(
                        failure(
                            entity, property.key,
                            "“\(property.name)” of the class \(objectClass) does not match the entity "
                                + "“\(entity.name)”: \(misfit)"))
                }
            }
        }
        if !failures.isEmpty { throw QuireError.combining(failures) }
    }

    private static func failure(
        _ entity: ResolvedEntity, _ property: String?, _ message: String
    ) -> QuireError {
        QuireError(.invalidModel, message, entity: entity.name, property: property)
    }

    /// The error message for a mismatch, with its remedy.
    private static func misfit(
        of property: EntityDeclaration.Property, in entity: ResolvedEntity, _ layout: ResolvedModel
    ) -> String? {
        switch (property.form, entity.properties[property.key]) {
        case (_, nil):
            let names = entity.propertyNames.joined(separator: ", ")
            return
                "the entity has no property “\(property.key)”. Specify one of its properties with “key:”: \(names)."
        case (.attribute(let types), .attribute(let slot)?):
            guard let type = entity.slots[slot].attribute?.type, !types.contains(type) else {
                return nil
            }
            let fitting = types.map(\.title).joined(separator: " or ")
            return
                "in the model it is of type \(type.title), but the class requires \(fitting). Change the type in the class."
        case (.toOne(let destination), .relationship(let index)?),
            (.toMany(let destination, _), .relationship(let index)?):
            return misfit(
                of: property, to: destination, entity.relationships[index], layout)
        case (.fetched(let destination), .fetched(let fetched)?):
            return misfit(
                to: destination, layout.entity(named: fetched.fetchRequest.entityName))
        case (.attribute, .relationship?), (.fetched, .relationship?):
            return "in the model it is a relationship. Mark it @Relationship in the class."
        case (_, .attribute?):
            return "in the model it is an attribute. Mark it @Attribute in the class."
        case (.attribute, .composite?):
            guard let composite = property.composite else {
                return
                    "in the model it is composite. Make its type a structure marked @Composite in the class."
            }
            return misfit(of: composite, at: property.key, in: entity)
        case (_, .composite?):
            return "in the model it is a composite attribute. Mark it @Attribute in the class."
        case (_, .fetched?):
            return "in the model it is a fetched property. Mark it @FetchedProperty in the class."
        }
    }

    /// The error message for elements of a composite that differ from the structure's, which could not be kept.
    private static func misfit(
        of composite: CompositeDeclaration, at path: String, in entity: ResolvedEntity
    ) -> String? {
        guard case .composite(let slots)? = entity.properties[path] else { return nil }
        for element in composite.elements {
            switch (entity.properties["\(path).\(element.key)"], element.composite) {
            case (.composite?, let inner?):
                if let misfit = misfit(of: inner, at: "\(path).\(element.key)", in: entity) {
                    return misfit
                }
            case (.attribute(let slot)?, nil):
                if case .attribute(let types) = element.form,
                    let type = entity.slots[slot].attribute?.type, !types.contains(type)
                {
                    let fitting = types.map(\.title).joined(separator: " or ")
                    return
                        "in the model, element “\(element.key)” is of type \(type.title), but the structure \(composite.name) "
                        + "requires \(fitting). Change the type in the structure."
                }
            case (.composite?, nil):
                return
                    "in the model, element “\(element.key)” is composite. Make its type a structure marked @Composite."
            default:
                return
                    "in the model it has no element “\(element.key)”, which the structure \(composite.name) declares."
            }
        }
        let names = Set(composite.elements.map(\.key))
        let missing = slots.lazy.map {
            String(
                entity.slots[$0].name.dropFirst(path.count + 1).prefix { $0 != "." })
        }.first { !names.contains($0) }
        return missing.map {
            "in the model it has an element “\($0)”, which the structure \(composite.name) lacks. Add it to the structure."
        }
    }

    private static func misfit(
        of property: EntityDeclaration.Property, to destination: any EntityClass.Type,
        _ relationship: ResolvedEntity.Relationship, _ layout: ResolvedModel
    ) -> String? {
        switch property.form {
        case .attribute, .fetched: break
        case .toOne where relationship.isToMany:
            return
                "in the model it refers to many objects. Make it a \(relationship.isOrdered ? "Array" : "Set")."
        case .toMany where !relationship.isToMany:
            return "in the model it refers to at most one object. Make it an optional."
        case .toMany(_, isOrdered: false) where relationship.isOrdered:
            return "in the model its objects are ordered. Make it an Array."
        case .toMany(_, isOrdered: true) where !relationship.isOrdered:
            return "in the model its objects are unordered. Make it a Set."
        case .toOne, .toMany: break
        }
        return misfit(to: destination, layout.destination(of: relationship))
    }

    private static func misfit(
        to destination: any EntityClass.Type, _ target: ResolvedEntity?
    ) -> String? {
        // A request for an entity that is not there is an error of fetching it.
        guard let target else { return nil }
        let objectClass = target.objectClass ?? destination.plainClass
        return destination.isSuperclass(of: objectClass)
            ? nil
            : "it refers to “\(target.name)”, whose class is \(objectClass). Bind \(destination), or a "
                + "subclass of it, to that entity."
    }
}

// MARK: - Classes of a model

extension ManagedObjectModel {
    /// Creates the model declared by classes, and binds it to them.
    ///
    /// ```swift
    /// let model = try ManagedObjectModel(classes: [Book.self])      // Includes Author, Book's destination.
    /// ```
    ///
    /// Superclasses that declare entities are included, and so are the destinations of relationships. A relationship without
    /// a named inverse gets the one that names it as its inverse.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`, naming class and property; with ``QuireError/failures`` for
    ///   several errors.
    public init(classes: [any EntityClass.Type]) throws {
        var assembly = ModelAssembly()
        self.init(entities: try assembly.entities(of: classes))
        composites = assembly.composites
        try validate()
    }

    /// Makes objects of an entity, and of its sub-entities without a class binding, instances of a class.
    ///
    /// ``layout()``, hence every store opened with the model, checks that the class matches the entity.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, listing the existing entities.
    public mutating func bind(_ objectClass: any EntityClass.Type, to entityName: String) throws {
        guard let index = entities.firstIndex(where: { $0.name == entityName }) else {
            let names = entities.map(\.name).sorted().joined(separator: ", ")
            throw QuireError(
                .unknownEntity,
                "\(objectClass) cannot be bound to the entity “\(entityName)”, which does not exist; the model's entities are: \(names).",
                entity: entityName)
        }
        entities[index].objectClass = objectClass
    }

    /// Makes objects instances of classes. Each class is bound to the entity with its name as class name (if there are
    /// several, to the one among them that it declares), else to the entity it declares, else to the entity of the same
    /// name.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if a class matches no entity; then nothing is bound.
    public mutating func bind(classes: [any EntityClass.Type]) throws {
        let indexes = try classes.map { try index(ofEntityFor: $0) }
        for (objectClass, index) in zip(classes, indexes) {
            entities[index].objectClass = objectClass
        }
    }

    /// The model with classes bound; see ``bind(classes:)``.
    ///
    /// - Throws: As ``bind(classes:)``.
    public func binding(classes: [any EntityClass.Type]) throws -> ManagedObjectModel {
        var model = self
        try model.bind(classes: classes)
        return model
    }

    private func index(ofEntityFor objectClass: any EntityClass.Type) throws -> Int {
        let className = String(describing: objectClass)
        let declared = objectClass.entityDeclaration?.name
        // A class name in a model may be preceded by a module: `Library.Book` or `.Book`.
        let byClassName = entities.indices.filter { index in
            entities[index].managedObjectClassName?.split(separator: ".").last.map(String.init)
                == className
        }
        let index =
            byClassName.first { entities[$0].name == declared ?? className } ?? byClassName.first
            ?? entities.firstIndex { $0.name == declared }
            ?? entities.firstIndex { $0.name == className }
        if let index { return index }
        throw QuireError(
            .invalidModel,
            "The model has no entity for the class \(className): no entity specifies it, and none is named "
                + "“\(declared ?? className)”. Bind it with bind(_:to:).",
            entity: declared ?? className)
    }
}

/// Assembles a model from class declarations.
private struct ModelAssembly {
    /// An entity and the class it is bound to, which may be a subclass of the one that declares it.
    private struct Member {
        let declaration: EntityDeclaration
        let objectClass: any EntityClass.Type
    }

    /// The composites of the attributes, in the order in which they were found.
    private(set) var composites: [CompositeDescription] = []
    private var members: [Member] = []
    private var positions: [String: Int] = [:]
    private var failures: [QuireError] = []

    mutating func entities(of classes: [any EntityClass.Type]) throws -> [EntityDescription] {
        for objectClass in classes { add(objectClass) }
        var next = 0
        while next < members.count {
            addNeighbours(of: members[next].declaration)
            next += 1
        }
        let entities = members.map { description(of: $0) }
        if !failures.isEmpty { throw QuireError.combining(failures) }
        return entities
    }

    private mutating func fail(_ message: String, entity: String? = nil, property: String? = nil) {
        failures.append(
            QuireError(.invalidModel, message, entity: entity, property: property))
    }

    // MARK: Members

    private mutating func add(_ objectClass: any EntityClass.Type) {
        guard let declaration = objectClass.entityDeclaration else {
            fail("The class \(objectClass) declares no entity; mark it @Entity.")
            return
        }
        guard let position = positions[declaration.name] else {
            positions[declaration.name] = members.count
            members.append(Member(declaration: declaration, objectClass: objectClass))
            return
        }
        if members[position].objectClass != objectClass {
            fail(
                "\(members[position].objectClass) and \(objectClass) both declare the entity "
                    + "“\(declaration.name)”; omit one, or rename one.",
                entity: declaration.name)
        }
    }

    /// Adds the superclass and the destinations, unless a subclass already replaces them.
    private mutating func addNeighbours(of declaration: EntityDeclaration) {
        var neighbours = declaration.properties.compactMap(\.destination)
        if let superentity = declaration.superentity { neighbours.append(superentity.objectClass) }
        for neighbour in neighbours {
            guard let found = neighbour.entityDeclaration else { continue }
            let position = positions[found.name]
            if let position, members[position].declaration.objectClass == found.objectClass {
                continue
            }
            add(neighbour)
        }
    }

    // MARK: Descriptions

    private mutating func description(of member: Member) -> EntityDescription {
        let declaration = member.declaration
        var entity = declaration.description
        entity.objectClass = member.objectClass
        entity.managedObjectClassName = String(describing: member.objectClass)
        entity.superentityName = declaration.superentity?.name
        entity.properties = declaration.properties.map { description(of: $0, in: declaration) }
        entity.uniquenessConstraints =
            declaration.properties.filter(\.isUnique).map { [$0.key] }
            + declaration.uniquenessConstraints.map { keys($0, in: declaration) }
        let uniqueKeys = Set(entity.uniquenessConstraints.joined())
        for (index, property) in declaration.properties.enumerated() {
            if case .attribute(var attribute) = entity.properties[index],
                attribute.defaultValue.isNull, !uniqueKeys.contains(property.key)
            {
                attribute.defaultValue = property.defaultUnlessUnique
                entity.properties[index] = .attribute(attribute)
            }
        }
        let indexes =
            declaration.properties.filter(\.isIndexed).map { [$0.key] }
            + declaration.indexes.map { keys($0, in: declaration) }
        entity.indexes = indexes.map { keys in
            let name = keys.map { $0.prefix(1).uppercased() + $0.dropFirst() }
            return FetchIndexDescription(
                name: "by" + name.joined(separator: "And"),
                elements: keys.map { FetchIndexDescription.Element(propertyName: $0) })
        }
        return entity
    }

    /// The model's names of properties, by their names in the class.
    private mutating func keys(_ names: [String], in declaration: EntityDeclaration) -> [String] {
        names.map { name in
            if let property = declaration.allProperties.first(where: { $0.name == name }) {
                return property.key
            }
            fail(
                "\(declaration.objectClass) has no property “\(name)” to be unique or indexed.",
                entity: declaration.name, property: name)
            return name
        }
    }

    private mutating func description(
        of property: EntityDeclaration.Property, in declaration: EntityDeclaration
    ) -> PropertyDescription {
        for composite in property.composite?.descriptions ?? [] { add(composite, of: declaration) }
        guard let destination = property.destination else { return property.description }
        guard let target = destination.entityDeclaration else {
            fail(
                "“\(property.name)” of \(declaration.objectClass) refers to \(destination), which declares no "
                    + "entity; mark it @Entity.",
                entity: declaration.name, property: property.name)
            return property.description
        }
        if case .fetched(var fetched) = property.description {
            fetched.fetchRequest.entityName = target.name
            return .fetched(fetched)
        }
        guard case .relationship(var relationship) = property.description else {
            return property.description
        }
        relationship.destinationEntityName = target.name
        relationship.inverseName = inverse(of: property, in: declaration, target)?.key
        relationship.inverseEntityName = relationship.inverseName.map { _ in target.name }
        return .relationship(relationship)
    }

    private mutating func add(
        _ composite: CompositeDescription, of declaration: EntityDeclaration
    ) {
        guard let found = composites.first(where: { $0.name == composite.name }) else {
            composites.append(composite)
            return
        }
        if found != composite {
            fail(
                "Two different structures marked @Composite are named “\(composite.name)”; rename one of them "
                    + "with “@Composite(name:)”.", entity: declaration.name)
        }
    }

    private mutating func inverse(
        of property: EntityDeclaration.Property, in declaration: EntityDeclaration,
        _ target: EntityDeclaration
    ) -> EntityDeclaration.Property? {
        guard let name = property.inverse else {
            // Relationships of the destination that name this one as their inverse.
            let candidates = target.allProperties.filter { candidate in
                candidate.inverse == property.name
                    && candidate.destination.map {
                        declaration.objectClass.isSuperclass(of: $0)
                    } == true
            }
            return candidates.count == 1 ? candidates[0] : nil
        }
        if let inverse = target.allProperties.first(where: { $0.name == name }),
            case .relationship = inverse.description
        {
            return inverse
        }
        fail(
            "“\(name)”, the inverse of “\(property.name)” of \(declaration.objectClass), is not a relationship of "
                + "\(target.objectClass).",
            entity: declaration.name, property: property.name)
        return nil
    }
}
