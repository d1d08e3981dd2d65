internal import QuireSystem

/// A model with inheritance and inverses resolved; see ``ResolvedEntity``.
public final class ResolvedModel: Sendable {
    /// The model.
    public let model: ManagedObjectModel
    /// The entities by their numbers less one.
    public let entities: [ResolvedEntity]
    /// Whether any entity is bound to a class.
    package let hasSubclasses: Bool
    /// The dependencies between derived attributes and their sources.
    package let derivations: ModelDerivations
    /// Whether the model has relationships without an inverse.
    package let hasRelationshipsWithoutInverse: Bool
    /// Whether an attribute is a counter; see ``ResolvedEntity/Slot/isCounter``.
    package let hasCounters: Bool
    private let numbers: [String: Int]
    /// Entity numbers by bound class; 0 for a class of several entities.
    private let classNumbers: [ObjectIdentifier: Int]

    /// The entity of a name.
    public func entity(named name: String) -> ResolvedEntity? {
        numbers[name].map { entities[$0 - 1] }
    }

    /// The entity bound to a class; `nil` unless exactly one is.
    public func entity(of objectClass: any EntityClass.Type) -> ResolvedEntity? {
        guard let number = classNumbers[ObjectIdentifier(objectClass)], number > 0 else {
            return nil
        }
        return entities[number - 1]
    }

    /// The entity of a number.
    ///
    /// - Precondition: It exists.
    @inlinable public func entity(number: Int) -> ResolvedEntity { entities[number - 1] }

    /// The destination entity of a relationship.
    public func destination(of relationship: ResolvedEntity.Relationship) -> ResolvedEntity {
        entities[relationship.destinationNumber - 1]
    }

    /// The inverse relationship.
    public func inverse(of relationship: ResolvedEntity.Relationship) -> ResolvedEntity
        .Relationship?
    {
        relationship.inverseIndex.map { destination(of: relationship).relationships[$0] }
    }

    /// The entity of a name.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, which suggests similar entities or lists all.
    public func requireEntity(named name: String) throws -> ResolvedEntity {
        if let entity = entity(named: name) { return entity }
        let advice = CloseNames.advice(
            for: name, among: entities.map(\.name), "its entities are", none: "it has none")
        throw QuireError(
            .unknownEntity, "The model has no entity “\(name)”; \(advice)", entity: name)
    }

    /// Resolves a model.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if ``ManagedObjectModel/validate()`` fails, or a class does not match
    ///   its bound entity.
    public init(_ model: ManagedObjectModel) throws {
        try model.validate()
        self.model = model
        let order = Self.numbering(of: model)
        let numbers = Dictionary(
            uniqueKeysWithValues: order.enumerated().map { ($1.description.name, $0 + 1) })
        self.numbers = numbers

        // Relationship positions first, because inverses refer to entities that come later.
        var relationshipEnds: [[String: RelationshipEnd]] = []
        for (offset, node) in order.enumerated() {
            var ends = node.parent.map { relationshipEnds[$0] } ?? [:]
            for relationship in node.description.relationships {
                ends[relationship.name] = RelationshipEnd(
                    index: ends.count, ownerNumber: offset + 1,
                    inverseName: relationship.inverseName,
                    // Validation has ensured that the destination exists.
                    destinationNumber: numbers[relationship.destinationEntityName] ?? 0)
            }
            relationshipEnds.append(ends)
        }

        let composites = Dictionary(
            model.composites.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        var entities: [ResolvedEntity] = []
        for (offset, node) in order.enumerated() {
            let parent = node.parent.map { entities[$0] }
            var builder = Builder(
                number: offset + 1, parent: parent, composites: composites,
                relationshipEnds: relationshipEnds)
            for property in node.description.properties { builder.add(property) }
            entities.append(
                ResolvedEntity(
                    number: offset + 1, description: node.description, superentity: parent,
                    subtreeEnd: node.subtreeEnd, slots: builder.slots,
                    relationships: builder.relationships, properties: builder.properties,
                    propertyNames: builder.names.sorted()))
        }
        self.entities = entities
        derivations = ModelDerivations(entities)
        hasRelationshipsWithoutInverse = entities.contains {
            $0.relationships.contains { $0.inverseIndex == nil }
        }
        hasSubclasses = entities.contains { $0.objectClass != nil }
        hasCounters = entities.contains { $0.slots.contains(where: \.isCounter) }
        classNumbers = Dictionary(
            entities.compactMap { entity in
                entity.description.objectClass.map { (ObjectIdentifier($0), entity.number) }
            }, uniquingKeysWith: { _, _ in 0 })
        try ClassBinding.check(self)
    }

    /// An entity in the numbering walk.
    private struct Node {
        var description: EntityDescription
        /// The position of the superentity in the walk.
        var parent: Int?
        /// The number of the last entity below this one.
        var subtreeEnd: Int
    }

    /// The properties of a relationship that its inverse needs.
    private struct RelationshipEnd {
        var index: Int
        var ownerNumber: Int
        var inverseName: String?
        var destinationNumber: Int
    }

    private static func numbering(of model: ManagedObjectModel) -> [Node] {
        var children: [String: [EntityDescription]] = [:]
        for entity in model.entities {
            children[entity.superentityName ?? "", default: []].append(entity)
        }
        var order: [Node] = []
        func visit(_ description: EntityDescription, parent: Int?) {
            let position = order.count
            order.append(Node(description: description, parent: parent, subtreeEnd: 0))
            for child in sorted(children[description.name] ?? []) { visit(child, parent: position) }
            order[position].subtreeEnd = order.count
        }
        func sorted(_ entities: [EntityDescription]) -> [EntityDescription] {
            entities.map { ($0.name.lowercased(), $0) }
                .sorted { ($0.0, $0.1.name) < ($1.0, $1.1.name) }.map(\.1)
        }
        for root in sorted(children[""] ?? []) { visit(root, parent: nil) }
        return order
    }

    /// Collects the slots and relationships of one entity.
    private struct Builder {
        let number: Int
        let composites: [String: CompositeDescription]
        let relationshipEnds: [[String: RelationshipEnd]]
        var slots: [ResolvedEntity.Slot]
        var relationships: [ResolvedEntity.Relationship]
        var properties: [String: ResolvedEntity.Property]
        var names: [String]
        var toManyCount: Int

        init(
            number: Int, parent: ResolvedEntity?, composites: [String: CompositeDescription],
            relationshipEnds: [[String: RelationshipEnd]]
        ) {
            self.number = number
            self.composites = composites
            self.relationshipEnds = relationshipEnds
            slots = parent?.slots ?? []
            relationships = parent?.relationships ?? []
            properties = parent?.properties ?? [:]
            names = parent?.propertyNames ?? []
            toManyCount = parent?.toManyRelationships.count ?? 0
        }

        mutating func add(_ property: PropertyDescription) {
            names.append(property.name)
            switch property {
            case .attribute(let attribute): add(attribute, named: attribute.name, transient: false)
            case .relationship(let relationship): add(relationship)
            case .fetched(let fetched): properties[fetched.name] = .fetched(fetched)
            }
        }

        mutating func add(_ attribute: AttributeDescription, named name: String, transient: Bool) {
            let transient = transient || attribute.isTransient
            if attribute.type == .composite {
                let start = slots.count
                for element in composites[attribute.compositeName ?? ""]?.elements ?? [] {
                    add(element, named: "\(name).\(element.name)", transient: transient)
                }
                properties[name] = .composite(slots: start..<slots.count)
                return
            }
            properties[name] = .attribute(slot: slots.count)
            slots.append(
                ResolvedEntity.Slot(
                    index: slots.count, name: name,
                    storage: transient ? .transient : Self.storage(of: attribute.type),
                    attribute: attribute, relationshipIndex: nil, ownerNumber: number,
                    isStored: !transient,
                    isExternalCapable: !transient && attribute.type == .binary
                        && attribute.allowsExternalBinaryDataStorage))
        }

        mutating func add(_ description: RelationshipDescription) {
            // Both exist: the ends were made from the same relationships, in the same order.
            let destination = relationshipEnds[number - 1][description.name]?.destinationNumber ?? 0
            let index = relationships.count
            properties[description.name] = .relationship(index: index)
            relationships.append(
                ResolvedEntity.Relationship(
                    index: index, description: description, ownerNumber: number,
                    destinationNumber: destination,
                    inverseIndex: inverseIndex(of: description, destination: destination),
                    slot: description.isToMany ? nil : slots.count,
                    toManyIndex: description.isToMany ? toManyCount : nil))
            if description.isToMany {
                toManyCount += 1
            } else {
                slots.append(
                    ResolvedEntity.Slot(
                        index: slots.count, name: description.name, storage: .reference,
                        attribute: nil, relationshipIndex: index, ownerNumber: number,
                        isStored: !description.isTransient, isExternalCapable: false))
            }
        }

        /// The position of the inverse, if its own inverse is this relationship. Xcode lets two to-one relationships name
        /// the same inverse; the unpaired one has no inverse here.
        func inverseIndex(of description: RelationshipDescription, destination: Int) -> Int? {
            guard let name = description.inverseName,
                let inverse = relationshipEnds[destination - 1][name],
                inverse.inverseName == description.name,
                relationshipEnds[inverse.destinationNumber - 1][description.name]?.ownerNumber
                    == number
            else { return nil }
            return inverse.index
        }

        static func storage(of type: AttributeType) -> ResolvedEntity.Slot.Storage {
            switch type {
            case .integer16, .integer32, .integer64: .integer
            case .double, .float: .double
            case .boolean: .boolean
            case .decimal: .decimal
            case .string: .string
            case .date: .date
            case .binary, .transformable: .binary
            case .uuid: .uuid
            case .uri: .uri
            case .undefined, .objectID, .composite: .transient
            }
        }
    }
}

extension ManagedObjectModel {
    /// Resolves inheritance and inverses.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if ``validate()`` fails, or a class does not match its bound entity.
    public func layout() throws -> ResolvedModel { try ResolvedModel(self) }
}

// MARK: - Configurations

extension ResolvedModel {
    /// The numbers of the entities stored in a configuration: the named entities, and their hierarchies, which share a
    /// table. All entities for `nil`.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if the configuration does not exist, or a relationship crosses its
    ///   boundary: an object and its related objects are in one store.
    package func entityNumbers(ofConfiguration name: String?) throws -> Set<Int> {
        guard let name else { return Set(entities.map(\.number)) }
        guard let configuration = model.configurations.first(where: { $0.name == name }) else {
            let names = model.configurations.map { "“\($0.name)”" }.joined(separator: ", ")
            throw QuireError(
                .invalidModel,
                "The model has no configuration “\(name)”; "
                    + (names.isEmpty ? "it has none." : "its configurations are: \(names)."))
        }
        let roots = Set(configuration.entityNames.compactMap { entity(named: $0)?.rootNumber })
        let members = entities.filter { roots.contains($0.rootNumber) }
        let numbers = Set(members.map(\.number))
        for entity in members {
            for relationship in entity.relationships
            where relationship.ownerNumber == entity.number
                && !relationship.description.isTransient
                && !numbers.contains(relationship.destinationNumber)
            {
                throw QuireError(
                    .invalidModel,
                    "“\(entity.name).\(relationship.name)” refers to “\(destination(of: relationship).name)”, which is not in "
                        + "the configuration “\(name)”: related objects must be in the same store. Make the "
                        + "relationship a fetched property, or add the entity to the configuration.",
                    entity: entity.name, property: relationship.name)
            }
        }
        return numbers
    }

    /// The name of the configuration of a store that has the given entities; `nil` if it has all, or those of no configuration.
    package func configurationName(ofStoreWith names: Set<String>) -> String? {
        let kept = names.intersection(entities.map(\.name))
        if kept.count == entities.count { return nil }
        return model.configurations.first { configuration in
            let numbers = try? entityNumbers(ofConfiguration: configuration.name)
            return numbers.map { Set($0.map { entity(number: $0).name }) == kept } ?? false
        }?.name
    }
}

// MARK: - Names

/// The rules for names of entities and properties.
package enum ModelNames {
    /// Property names that Core Data reserves, because its objects have methods of these names.
    package static let reservedPropertyNames: Set<String> = [
        "alloc", "autorelease", "class", "copy", "dealloc", "debugDescription", "description",
        "entity",
        "finalize", "hasChanges", "hash", "init", "isDeleted", "isFault", "isInserted", "isProxy",
        "isUpdated", "load", "managedObjectContext", "mutableCopy", "objectID", "observationInfo",
        "release", "retain", "retainCount", "self", "superclass", "zone",
    ]

    /// The reason an entity's name is invalid, to follow the name in a sentence.
    package static func objection(toEntityName name: String) -> String? {
        if let reason = objection(toName: name) { return reason }
        // Core Data's own tables are named Z_…, and an entity's table is “Z” and its name.
        return name.hasPrefix("_") ? "begins with an underscore" : nil
    }

    /// The reason a property's name is invalid, to follow the name in a sentence.
    package static func objection(toPropertyName name: String) -> String? {
        if let reason = objection(toName: name) { return reason }
        return reservedPropertyNames.contains(name)
            ? "is reserved: it is the name of a method of NSManagedObject" : nil
    }

    /// The reason a name of any kind is invalid: it must be a letter or underscore and then letters, digits and underscores,
    /// because names become parts of key paths, predicates and column names.
    static func objection(toName name: String) -> String? {
        guard let first = name.unicodeScalars.first else { return "is empty" }
        guard first == "_" || first.properties.isXIDStart else {
            return "does not begin with a letter"
        }
        guard name.unicodeScalars.allSatisfy({ $0.properties.isXIDContinue }) else {
            return "contains characters other than letters, digits and underscores"
        }
        return name.utf8.count > 255 ? "is longer than 255 bytes" : nil
    }

    /// Whether a model file can represent a text: XML excludes most control characters.
    package static func isWritable(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy(isWritable)
    }

    /// Whether a model file can represent a character.
    package static func isWritable(_ character: Unicode.Scalar) -> Bool {
        switch character.value {
        case 0x09, 0x0A, 0x0D: true
        case 0..<0x20, 0xFFFE, 0xFFFF: false
        default: true
        }
    }
}

// MARK: - Renaming identifiers

// As Core Data gives them: the name, if the model sets none.

extension ResolvedEntity {
    /// The name of the entity in all versions of its model.
    package var renamingIdentifier: String { description.renamingIdentifier ?? name }
}

extension ResolvedEntity.Relationship {
    /// The name of the relationship in all versions of its model.
    package var renamingIdentifier: String { description.renamingIdentifier ?? name }
}

extension ResolvedModel {
    /// The names of an entity's slots in all versions of the model; of an element of a composite, those of both, joined with dots.
    package func renamingIdentifiers(ofSlotsOf entity: ResolvedEntity) -> [String] {
        let attributes = entity.description.attributesByName
        let composites = Dictionary(model.composites.map { ($0.name, $0) }) { first, _ in first }
        return entity.slots.map { slot in
            if let index = slot.relationshipIndex {
                return entity.relationships[index].renamingIdentifier
            }
            let names = slot.name.split(separator: ".").map(String.init)
            var description = attributes[names[0]]
            var identifiers: [String] = []
            for (depth, name) in names.enumerated() {
                identifiers.append(description?.renamingIdentifier ?? name)
                guard depth + 1 < names.count else { break }
                let composite = description?.compositeName.flatMap { composites[$0] }
                description = composite?.elements.first { $0.name == names[depth + 1] }
            }
            return identifiers.joined(separator: ".")
        }
    }
}
