import Foundation
public import QuireModel
internal import QuireSystem

extension MappingModel {
    /// Infers the mapping between two models, if it is unambiguous.
    ///
    /// Entities, attributes and relationships match by name, or if the new one's renaming identifier is the old one's name or
    /// renaming identifier. Inferred are: added, removed and renamed entities, attributes and relationships; entities moved
    /// in the hierarchy, properties moved up or down in it; required attributes with a default value; wider attribute types
    /// (a longer integer, a floating-point or decimal number for an integer, a double for a float, an integer for a Boolean);
    /// external storage, indexes, order and derivation; to-one relationships that become to-many, and the reverse. (If an
    /// object then has more than one member, the migration fails and names it.)
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel`, naming every entity and property that cannot be inferred and a
    ///   remedy, or `invalidModel`.
    public static func inferred(
        from source: ManagedObjectModel, to destination: ManagedObjectModel
    ) throws -> MappingModel {
        try inferred(from: source.layout(), to: destination.layout())
    }

    static func inferred(from source: ResolvedModel, to destination: ResolvedModel) throws
        -> MappingModel
    {
        var inference = MappingInference(source: source, destination: destination)
        return try inference.run()
    }
}

/// State of one inference.
struct MappingInference {
    let source: ResolvedModel
    let destination: ResolvedModel
    /// Names of old entities by new names.
    let entityNames: [String: String]
    /// New entities by old names.
    let successors: [String: ResolvedEntity]
    private let sourceHashes: [String: Data]
    private let destinationHashes: [String: Data]
    private var failures: [QuireError] = []
    /// Properties already reported, so that inherited ones are reported once.
    private var reported: Set<[String]> = []

    init(source: ResolvedModel, destination: ResolvedModel) {
        self.source = source
        self.destination = destination
        func items(of layout: ResolvedModel) -> [NameMatching.Item] {
            layout.entities.map {
                .init(name: $0.name, identifier: $0.description.renamingIdentifier)
            }
        }
        entityNames =
            NameMatching(from: items(of: source), to: items(of: destination)).sources
        var successors: [String: ResolvedEntity] = [:]
        for entity in destination.entities {
            if let old = entityNames[entity.name] { successors[old] = entity }
        }
        self.successors = successors
        sourceHashes = source.model.entityVersionHashes()
        destinationHashes = destination.model.entityVersionHashes()
    }

    mutating func run() throws -> MappingModel {
        var mappings: [EntityMapping] = []
        for entity in source.entities where successors[entity.name] == nil {
            mappings.append(
                EntityMapping(
                    name: "IEM_Remove_\(entity.name)", type: .remove, from: entity.name, to: nil))
        }
        for entity in destination.entities {
            guard let old = entityNames[entity.name].flatMap(source.entity(named:)) else {
                mappings.append(
                    EntityMapping(
                        name: "IEM_Add_\(entity.name)", type: .add, from: nil, to: entity.name))
                continue
            }
            mappings.append(mapping(from: old, to: entity))
        }
        if !failures.isEmpty { throw QuireError.combining(failures) }
        return MappingModel(entityMappings: mappings)
    }

    private mutating func mapping(from old: ResolvedEntity, to new: ResolvedEntity) -> EntityMapping
    {
        let attributes = attributeMappings(from: old, to: new)
        let relationships = relationshipMappings(from: old, to: new)
        let isCopy = sourceHashes[old.name] == destinationHashes[new.name]
        var mapping = EntityMapping(
            name: "IEM_\(isCopy ? "Copy" : "Transform")_\(new.name)",
            type: isCopy ? .copy : .transform, from: old.name, to: new.name)
        mapping.attributeMappings = attributes
        mapping.relationshipMappings = relationships
        return mapping
    }

    mutating func fail(_ sentence: String, _ entity: ResolvedEntity, _ property: String) {
        // There are no objects of an abstract entity to fail for.
        guard let old = entityNames[entity.name].flatMap(source.entity(named:)), !old.isAbstract
        else { return }
        let owner = entity.propertyOwner(property)
        guard reported.insert([String(owner), property]).inserted else { return }
        failures.append(
            QuireError(.incompatibleModel, sentence, entity: entity.name, property: property))
    }

    // MARK: - Attributes

    private mutating func attributeMappings(
        from old: ResolvedEntity, to new: ResolvedEntity
    ) -> [PropertyMapping] {
        let oldItems = source.attributeItems(of: old)
        let newItems = destination.attributeItems(of: new)
        let names = NameMatching(from: oldItems.map(\.item), to: newItems.map(\.item)).sources
        let oldSlots = Dictionary(
            oldItems.map { ($0.item.name, $0.slot) }, uniquingKeysWith: { first, _ in first })
        return newItems.compactMap { slot, _ in
            let slot = new.slots[slot]
            guard let attribute = slot.attribute else { return nil }
            let found = names[slot.name].flatMap { oldSlots[$0] }.map { old.slots[$0] }
            if slot.isDerived {
                // Recomputed, except the time of the last save, which is stored only here.
                guard let found, slot.isDerivedFromTime, found.isDerivedFromTime else { return nil }
                return PropertyMapping(name: slot.name, valueExpression: .sourceValue(found.name))
            }
            guard let found, let before = found.attribute else {
                return addition(of: slot, attribute, in: new, old)
            }
            guard AttributeConversion(from: before.type, to: attribute.type) != nil else {
                fail(
                    "“\(new.name).\(slot.name)” changes from \(before.type.title) to \(attribute.type.title), which "
                        + "cannot be inferred; map it with a value expression or a policy, or rename it.",
                    new, slot.name)
                return nil
            }
            if !attribute.isOptional && before.isOptional && attribute.defaultValue.isNull {
                fail(
                    "“\(new.name).\(slot.name)” becomes required, but objects may have no value; give it a default "
                        + "value, or map it.", new, slot.name)
            }
            return PropertyMapping(name: slot.name, valueExpression: .sourceValue(found.name))
        }
    }

    /// The value of a new attribute.
    private mutating func addition(
        of slot: ResolvedEntity.Slot, _ attribute: AttributeDescription, in new: ResolvedEntity,
        _ old: ResolvedEntity
    ) -> PropertyMapping? {
        if old.relationship(named: slot.name) != nil, isUnused(slot.name, new) {
            fail(
                "“\(new.name).\(slot.name)” was a relationship and is now an attribute, which cannot be inferred; map it, "
                    + "or rename it.", new, slot.name)
        }
        if !attribute.isOptional && attribute.defaultValue.isNull {
            fail(
                "“\(new.name).\(slot.name)” is new and required, but no object has a value; give it a default value, or "
                    + "map it.", new, slot.name)
        }
        return PropertyMapping(
            name: slot.name, valueExpression: .constant(attribute.defaultValue))
    }

    /// Whether no relationship of the new entity matches the old one of a name.
    private func isUnused(_ name: String, _ new: ResolvedEntity) -> Bool {
        !new.relationships.contains { $0.renamingIdentifier == name }
    }
}

extension ResolvedEntity {
    /// The number of the entity that declares a property.
    fileprivate func propertyOwner(_ name: String) -> Int {
        relationship(named: name)?.ownerNumber ?? slots.first { $0.name == name }?.ownerNumber
            ?? number
    }
}

// MARK: - Relationships

extension MappingInference {
    mutating func relationshipMappings(
        from old: ResolvedEntity, to new: ResolvedEntity
    ) -> [PropertyMapping] {
        func items(of entity: ResolvedEntity) -> [NameMatching.Item] {
            entity.relationships.filter { !$0.description.isTransient }.map {
                .init(name: $0.name, identifier: $0.description.renamingIdentifier)
            }
        }
        let names = NameMatching(from: items(of: old), to: items(of: new)).sources
        return new.relationships.compactMap { relationship in
            if relationship.description.isTransient { return nil }
            guard let before = names[relationship.name].flatMap(old.relationship(named:)) else {
                checkAddition(of: relationship, to: new, old)
                return nil
            }
            checkDestination(of: relationship, in: new, before)
            return PropertyMapping(
                name: relationship.name, valueExpression: .relatedObjects(before.name))
        }
    }

    private mutating func checkAddition(
        of relationship: ResolvedEntity.Relationship, to new: ResolvedEntity, _ old: ResolvedEntity
    ) {
        let name = relationship.name
        if case .attribute? = old.properties[name] {
            let isTaken = new.slots.contains {
                ($0.attribute?.renamingIdentifier ?? $0.attribute?.name) == name
            }
            if !isTaken {
                fail(
                    "“\(new.name).\(name)” was an attribute and is now a relationship, which cannot be inferred; map it, "
                        + "or rename it.", new, name)
            }
        }
        if !relationship.description.isOptional,
            !relationship.isToMany || relationship.description.minimumCount > 0,
            !isInverseKnown(of: relationship, new)
        {
            fail(
                "“\(new.name).\(name)” is new and required, but has no object; make it optional, or map it.",
                new, name)
        }
    }

    /// Whether the inverse of a relationship was there before, so that objects may be in it.
    private func isInverseKnown(
        of relationship: ResolvedEntity.Relationship, _ new: ResolvedEntity
    ) -> Bool {
        guard let inverse = destination.inverse(of: relationship),
            let owner = entityNames[destination.entity(number: inverse.ownerNumber).name]
                .flatMap(source.entity(named:))
        else { return false }
        return owner.relationship(
            named: inverse.renamingIdentifier) != nil
            || owner.relationship(named: inverse.name) != nil
    }

    /// Checks that the destinations of the old and the new relationship are in the same hierarchy. Objects that are not valid
    /// destinations any more are detected by the migration.
    private mutating func checkDestination(
        of relationship: ResolvedEntity.Relationship, in new: ResolvedEntity,
        _ before: ResolvedEntity.Relationship
    ) {
        let destination = destination.destination(of: relationship)
        let found = source.destination(of: before).subtree.compactMap {
            successors[source.entity(number: $0).name]
        }
        guard let first = found.first,
            !found.contains(where: { $0.rootNumber == destination.rootNumber })
        else { return }
        fail(
            "“\(new.name).\(relationship.name)” referred to “\(source.destination(of: before).name)”, which becomes "
                + "“\(first.name)” and is not of entity “\(destination.name)”; map it, or rename it.",
            new,
            relationship.name)
    }
}

// MARK: - Conversions

/// A lossless conversion of values between attribute types.
///
/// Allowed are: a wider integer, a double for a float, a floating-point or decimal number for an integer, 0 and 1 for a
/// Boolean. (A 64-bit integer beyond 2⁵³ is rounded as a double.)
enum AttributeConversion: Sendable, Hashable {
    case same, integerToDouble, integerToDecimal, booleanToInteger

    /// The conversion between types; `nil` if there is none.
    init?(from source: AttributeType, to destination: AttributeType) {
        switch (source, destination) {
        case (_, _) where source == destination: self = .same
        case (.integer16, .integer32), (.integer16, .integer64), (.integer32, .integer64),
            (.float, .double):
            self = .same
        case (.integer16, .float), (.integer16, .double), (.integer32, .double),
            (.integer64, .double):
            self = .integerToDouble
        case (.integer16, .decimal), (.integer32, .decimal), (.integer64, .decimal):
            self = .integerToDecimal
        case (.boolean, .integer16), (.boolean, .integer32), (.boolean, .integer64):
            self = .booleanToInteger
        default: return nil
        }
    }

    func apply(to value: AttributeValue) -> AttributeValue {
        switch (self, value) {
        case (.integerToDouble, .integer(let integer)): .double(Double(integer))
        case (.integerToDecimal, .integer(let integer)): .decimal(Decimal(integer))
        case (.booleanToInteger, .boolean(let truth)): .integer(truth ? 1 : 0)
        default: value
        }
    }
}

// MARK: - Names

/// Matches the names of entities or properties between two models.
///
/// A renaming identifier is the previous name; one that stays over several versions identifies the item in all of them. An
/// item without one keeps its name. If one is a previous name and another item's identifier, it means the latter, unless that
/// leaves nothing for a third item: all are matched together.
package struct NameMatching {
    /// A thing with a name.
    package struct Item {
        let name: String
        /// The renaming identifier, if set.
        let identifier: String?

        /// Creates an item.
        package init(name: String, identifier: String?) {
            self.name = name
            self.identifier = identifier
        }
    }

    /// Old names by new names.
    package private(set) var sources: [String: String] = [:]

    /// Matches names.
    package init(from sources: [Item], to destinations: [Item]) {
        let byName = Dictionary(
            sources.map { ($0.name, $0.name) }, uniquingKeysWith: { first, _ in first })
        let byIdentifier = Dictionary(
            sources.compactMap { item in item.identifier.map { ($0, item.name) } },
            uniquingKeysWith: { first, _ in first })
        /// The sources that an identifier may mean.
        let meant = destinations.map { item in
            item.identifier.map { [byIdentifier[$0], byName[$0]].compactMap(\.self) } ?? []
        }
        var owners: [String: Int] = [:]
        /// Matches a destination with one of some sources, for which others may take the other source that they may mean.
        func match(_ index: Int, with sources: [String], _ tried: inout Set<String>) -> Bool {
            for source in sources where owners[source] == nil {
                owners[source] = index
                return true
            }
            for source in sources {
                guard let owner = owners[source], tried.insert(source).inserted,
                    match(owner, with: meant[owner], &tried)
                else { continue }
                owners[source] = index
                return true
            }
            return false
        }
        // What has kept both its name and its identifier is the same.
        var rest = destinations.indices.filter { index in
            let name = destinations[index].name
            guard meant[index].contains(name) else { return true }
            owners[name] = index
            return false
        }
        rest.removeAll { index in
            var tried: Set<String> = []
            return match(index, with: meant[index], &tried)
        }
        func own(_ index: Int) -> [String] {
            let name = destinations[index].name
            return (byName[name] ?? byIdentifier[name]).map { [$0] } ?? []
        }
        // Names that are free first: only what else is lost takes one that an identifier means.
        rest.removeAll { index in
            guard let source = own(index).first, owners[source] == nil else { return false }
            owners[source] = index
            return true
        }
        for index in rest {
            var tried: Set<String> = []
            _ = match(index, with: own(index), &tried)
        }
        for (source, index) in owners { self.sources[destinations[index].name] = source }
    }
}

extension ResolvedModel {
    /// The stored slots of an entity that are attributes, or elements of composites, with their names and renaming
    /// identifiers.
    func attributeItems(of entity: ResolvedEntity) -> [(slot: Int, item: NameMatching.Item)] {
        let names = renamingIdentifiers(ofSlotsOf: entity)
        return entity.slots.compactMap { slot in
            guard slot.attribute != nil, slot.isStored else { return nil }
            let name = names[slot.index]
            return (slot.index, .init(name: slot.name, identifier: name == slot.name ? nil : name))
        }
    }
}
