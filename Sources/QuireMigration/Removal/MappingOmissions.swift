import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// The entities and properties of the old model that a mapping does not migrate.
///
/// Data is: objects; values of stored attributes other than null and the attribute's default, which the old model still has,
/// except computed ones; default values too if the new model has an attribute of that name with another default, which the
/// objects would get instead; links between objects, unless the other side of the relationship is migrated. Integers that
/// become floating-point numbers and would be rounded are counted too. The order of an ordered relationship is not data.
struct MappingOmissions {
    /// A property whose values are not migrated.
    enum Property {
        case attribute(slot: Int, withDefault: Bool)
        /// An integer that becomes a floating-point number.
        case rounded(slot: Int)
        case reference(ResolvedEntity.Relationship, slot: Int)
        case members(ResolvedEntity.Relationship)
    }

    /// The omissions of an entity, without its sub-entities: properties, or `nil` for the objects themselves.
    struct Omission {
        let entity: ResolvedEntity
        let properties: [Property]?
    }

    let source: ResolvedModel
    let destination: ResolvedModel
    private(set) var omissions: [Omission] = []
    /// The mappings with a source and a destination, by the names of the old entities.
    private let mappings: [String: [EntityMapping]]

    init(_ mapping: MappingModel, from source: ResolvedModel, to destination: ResolvedModel) {
        self.source = source
        self.destination = destination
        mappings = Dictionary(
            grouping: mapping.entityMappings.filter {
                $0.mappingType != .remove && $0.destinationEntityName != nil
            }, by: { $0.sourceEntityName ?? "" })
        for entity in source.entities where !entity.isAbstract {
            guard let own = mappings[entity.name] else {
                omissions.append(Omission(entity: entity, properties: nil))
                continue
            }
            let properties =
                attributes(of: entity, own)
                + entity.relationships.compactMap { omission(of: $0, entity) }
            if !properties.isEmpty {
                omissions.append(Omission(entity: entity, properties: properties))
            }
        }
    }

    private func attributes(
        of entity: ResolvedEntity, _ mappings: [EntityMapping]
    ) -> [Property] {
        entity.slots.compactMap { slot in
            guard slot.isStored, let attribute = slot.attribute,
                !slot.isDerived || slot.isDerivedFromTime
            else { return nil }
            let types = mappings.compactMap { mapping -> AttributeType? in
                guard
                    let name = mapping.attributeMappings.first(where: {
                        $0.valueExpression == .sourceValue(slot.name)
                    })?.name,
                    let new = destination.entity(named: mapping.destinationEntityName ?? ""),
                    let index = new.slot(named: name)
                else { return nil }
                return new.slots[index].attribute?.type
            }
            if types.isEmpty {
                let isReplaced = mappings.contains { mapping in
                    guard let new = destination.entity(named: mapping.destinationEntityName ?? ""),
                        let index = new.slot(named: slot.name)
                    else { return false }
                    return new.slots[index].attribute?.defaultValue != attribute.defaultValue
                }
                return .attribute(slot: slot.index, withDefault: isReplaced)
            }
            let isRounded = attribute.type == .integer64 && types.allSatisfy { $0 == .double }
            return isRounded ? .rounded(slot: slot.index) : nil
        }
    }

    private func omission(
        of relationship: ResolvedEntity.Relationship, _ entity: ResolvedEntity
    ) -> Property? {
        if relationship.description.isTransient || isTaken(relationship, of: entity)
            || isTakenByOtherSide(relationship, of: entity)
        {
            return nil
        }
        // Links of a pair of relationships are counted on one side: the to-one side.
        if let inverse = source.inverse(of: relationship) {
            let isCounted =
                relationship.isToMany == inverse.isToMany
                ? (relationship.ownerNumber, relationship.index)
                    <= (inverse.ownerNumber, inverse.index) : !relationship.isToMany
            guard isCounted else { return nil }
        }
        return relationship.slot.map { .reference(relationship, slot: $0) }
            ?? .members(relationship)
    }

    private func isTaken(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity
    ) -> Bool {
        !successors(of: relationship, of: entity).isEmpty
    }

    /// The new relationships mapped from an old one.
    private func successors(
        of relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity
    ) -> [ResolvedEntity.Relationship] {
        (mappings[entity.name] ?? []).flatMap { mapping in
            let new = destination.entity(named: mapping.destinationEntityName ?? "")
            return mapping.relationshipMappings.compactMap {
                $0.valueExpression?.relationshipName == relationship.name
                    ? new?.relationship(named: $0.name) : nil
            }
        }
    }

    /// Whether the inverse is migrated for all possible destination objects that remain, and its destinations include the
    /// mapped entity. Links to removed objects are removed with them.
    private func isTakenByOtherSide(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity
    ) -> Bool {
        let members = source.destination(of: relationship).subtree.map(source.entity(number:))
            .filter { !$0.isAbstract && mappings[$0.name] != nil }
        if members.isEmpty { return true }
        guard let inverse = source.inverse(of: relationship) else { return false }
        let owners = Set(
            (mappings[entity.name] ?? []).compactMap {
                destination.entity(named: $0.destinationEntityName ?? "")?.number
            })
        return members.allSatisfy { member in
            successors(of: inverse, of: member).contains {
                !owners.isDisjoint(with: destination.destination(of: $0).subtree)
            }
        }
    }
}

extension MappingModel {
    /// The composition of this mapping with a following one: for inferred mappings, in which new attributes are constants and
    /// all others are values of old ones.
    func followed(by next: MappingModel) -> MappingModel {
        var result = MappingModel()
        for second in next.entityMappings where second.destinationEntityName != nil {
            for first in entityMappings
            where first.sourceEntityName != nil
                && first.destinationEntityName == second.sourceEntityName
            {
                var both = EntityMapping(
                    name: second.name, type: .transform, from: first.sourceEntityName,
                    to: second.destinationEntityName)
                both.attributeMappings = second.attributeMappings.compactMap {
                    guard case .sourceValue(let name)? = $0.valueExpression,
                        let before = first.attributeMappings[name]?.valueExpression
                    else { return nil }
                    return PropertyMapping(name: $0.name, valueExpression: before)
                }
                both.relationshipMappings = second.relationshipMappings.compactMap {
                    guard let name = $0.valueExpression?.relationshipName,
                        let before = first.relationshipMappings[name]?.valueExpression
                    else { return nil }
                    return PropertyMapping(name: $0.name, valueExpression: before)
                }
                result.entityMappings.append(both)
            }
        }
        return result
    }
}

// MARK: - Counting

extension MappingOmissions {
    /// Counts the data in a store.
    ///
    /// - Complexity: O(*n*) in the objects of the entities that lose something.
    func removals(in store: any PersistentStore) throws -> [MigrationRemoval] {
        if let store = store as? SQLiteStore {
            return try store.read { try self.removals($0, store.schema) }
        }
        var found = RemovalList(source: source)
        for omission in omissions {
            let request = FetchSpecification(only: omission.entity.name)
            guard let properties = omission.properties else {
                found.add(try store.count(matching: request), of: omission.entity)
                continue
            }
            let ids = try store.objectIDs(matching: request)
            try ids.forEachBatch { batch in
                let rows = try store.rows(for: batch)
                for property in properties {
                    let count: Int
                    if case .members(let relationship) = property {
                        count = try store.relatedObjects(of: batch, through: relationship)
                            .members.count
                    } else {
                        count = try rows.reduce(0) { try $0 + (has(property, $1) ? 1 : 0) }
                    }
                    found.add(count, of: property, omission.entity)
                }
            }
        }
        return found.list
    }

    /// The triggers and index tables that neither model requires: created by another program, or by Core Data for an
    /// unsupported feature. A migration creates only the triggers and indexes of the new model.
    func leftOutParts(
        _ connection: SQLiteConnection, _ schema: SQLSchema
    ) throws -> [MigrationRemoval] {
        let synchronization = SQLiteSchemaSynchronization(
            connection: connection, schema: schema, carriesModel: false)
        return try synchronization.partsOfNeither(SQLSchema(fresh: destination)).map { part in
            let table = schema.tables.first { $0.name == part.table }
            let entity =
                table.map { source.entity(number: $0.rootNumber) }
                ?? source.entities.first { part.name.contains("_\($0.name)_") }
            return MigrationRemoval(
                entityName: entity?.name ?? part.table, propertyName: nil, count: 1,
                schemaPart: "\(part.part.rawValue) \(part.name)")
        }
    }

    private func has(_ property: Property, _ row: ObjectSnapshot) throws -> Bool {
        switch property {
        case .attribute(let slot, let withDefault):
            let value = try row.value(at: slot)
            return !value.isNull
                && (withDefault || value != row.entity.slots[slot].attribute?.defaultValue)
        case .rounded(let slot):
            guard case .integer(let number) = try row.value(at: slot) else { return false }
            return Int64(exactly: Double(number)) != number
        case .reference(_, let slot): return try !row.value(at: slot).isNull
        case .members: return false
        }
    }

    /// Counts the data in the tables of a store, as seen by a connection; also those in columns unknown to the old model, if
    /// it is not exactly the store's. These count as values of the root entity.
    func removals(
        _ connection: SQLiteConnection, _ schema: SQLSchema
    ) throws -> [MigrationRemoval] {
        var found = RemovalList(source: source)
        for omission in omissions {
            let place = schema.entity(omission.entity)
            // An entity of another store.
            if place.storeNumber == 0 { continue }
            var properties: [Property] = []
            var counts: [SQLFragment] = []
            for property in omission.properties ?? [] {
                if case .members(let relationship) = property {
                    let count = try connection.counts(members(of: relationship, place))[0]
                    found.add(count, of: property, omission.entity)
                } else if let test = test(property, omission.entity, place) {
                    properties.append(property)
                    counts.append("count(CASE WHEN \(test) THEN 1 END)")
                }
            }
            if omission.properties == nil { counts = ["count(*)"] }
            if counts.isEmpty { continue }
            let numbers = try connection.counts(
                "SELECT \(counts.joined(by: ", ")) FROM \(name: place.tableName) WHERE Z_ENT = \(place.storeNumber)"
            )
            if omission.properties == nil { found.add(numbers[0], of: omission.entity) }
            for (property, count) in zip(properties, numbers) {
                found.add(count, of: property, omission.entity)
            }
        }
        for (table, columns) in schema.unknownColumns {
            let counts = columns.map { "count(\(name: $0))" as SQLFragment }.joined(by: ", ")
            let numbers = try connection.counts("SELECT \(counts) FROM \(name: table.name)")
            for (column, count) in zip(columns, numbers) {
                found.add(
                    count, ofColumn: column, source.entity(number: table.rootNumber))
            }
        }
        return found.list
    }

    /// The condition that a row has a value; `nil` if the store has no column for one.
    private func test(
        _ property: Property, _ entity: ResolvedEntity, _ place: SQLEntity
    ) -> SQLFragment? {
        switch property {
        case .attribute(let index, let withDefault):
            guard let column = place.columns[index] else { return nil }
            let slot = entity.slots[index]
            guard let normal = slot.attribute?.defaultValue, !normal.isNull,
                !slot.isExternalCapable, !withDefault
            else { return "\(name: column.name) NOT NULL" }
            return
                "\(name: column.name) NOT NULL AND \(name: column.name) IS NOT \(SQLFragment(stored: normal))"
        case .rounded(let index):
            return place.columns[index].map {
                "\(name: $0.name) <> CAST(\(name: $0.name) AS REAL)"
            }
        case .reference(_, let index):
            return place.columns[index].map { "\(name: $0.name) NOT NULL" }
        case .members: return nil
        }
    }

    private func members(
        of relationship: ResolvedEntity.Relationship, _ place: SQLEntity
    ) -> SQLFragment {
        let (table, column): (String, String)
        switch place.toMany[relationship.index] {
        case .foreignKey(let key)?: (table, column) = (key.tableName, key.column)
        case .join(let join)?: (table, column) = (join.tableName, join.sourceColumn)
        case .nowhere?, nil: return "SELECT 0"
        }
        return
            "SELECT count(*) FROM \(name: table) d JOIN \(name: place.tableName) o ON o.Z_PK = d.\(name: column) WHERE o.Z_ENT = \(place.storeNumber)"
    }
}

/// Removals, those of a property from the objects of several entities added up.
private struct RemovalList {
    let source: ResolvedModel
    private(set) var list: [MigrationRemoval] = []

    mutating func add(_ count: Int, of entity: ResolvedEntity) { add(count, entity.name, nil) }

    mutating func add(
        _ count: Int, of property: MappingOmissions.Property, _ entity: ResolvedEntity
    ) {
        switch property {
        case .attribute(let slot, _), .rounded(let slot):
            add(count, owner(entity.slots[slot].ownerNumber), entity.slots[slot].name)
        case .reference(let relationship, _), .members(let relationship):
            add(count, owner(relationship.ownerNumber), relationship.name)
        }
    }

    mutating func add(_ count: Int, ofColumn column: String, _ entity: ResolvedEntity) {
        add(count, entity.name, column)
    }

    private func owner(_ number: Int) -> String { source.entity(number: number).name }

    private mutating func add(_ count: Int, _ entity: String, _ property: String?) {
        if count == 0 { return }
        let index = list.firstIndex { $0.entityName == entity && $0.propertyName == property }
        let before = index.map { list[$0].count } ?? 0
        let removal = MigrationRemoval(
            entityName: entity, propertyName: property, count: before + count)
        if let index { list[index] = removal } else { list.append(removal) }
    }
}

// MARK: - Removals

/// Data or schema that a migration would remove from a store: the objects of an entity, the values of a property of kept objects, or a
/// trigger or table of an index that neither model calls for.
///
/// ```swift
/// for removal in try SQLiteStore.removals(at: path, by: steps) { print(removal) }   // 3 objects of “Friend”
/// ```
public struct MigrationRemoval: Sendable, Hashable, CustomStringConvertible {
    /// The entity of the old model; for a property, its declaring entity.
    public let entityName: String
    /// The attribute or relationship, for an element of a composite attribute the dotted path; `nil` for the objects
    /// themselves.
    public let propertyName: String?
    /// The number of objects, of values, or of links between objects.
    public let count: Int
    /// The trigger or index table, such as “trigger Z_RT_Place_bounds_INSERT”; `nil` for data. The entity is then that of the
    /// trigger's table, or the name of the table.
    public let schemaPart: String?

    init(entityName: String, propertyName: String?, count: Int, schemaPart: String? = nil) {
        self.entityName = entityName
        self.propertyName = propertyName
        self.count = count
        self.schemaPart = schemaPart
    }

    /// The count and subject, such as “12 values of “Book.year””.
    public var description: String {
        if let schemaPart { return "the \(schemaPart)" }
        let name = propertyName.map { "\(entityName).\($0)" } ?? entityName
        let noun = propertyName == nil ? "object" : "value"
        return "\(count) \(noun)\(count == 1 ? "" : "s") of “\(name)”"
    }
}

extension QuireError {
    /// The number of removals listed in a sentence; the error has all of them.
    private static let listedCount = 8

    /// The error of a migration that would remove data and may not.
    ///
    /// - Precondition: `removals` is not empty.
    static func removalDenied(_ removals: [MigrationRemoval], path: String?) -> QuireError {
        denied(removals, path: path) {
            "Migrating “\(path ?? "the store")” would remove \($0); migrate it to the right model, or allow the removal."
        }
    }

    /// The error of a migration or conversion whose result lacks data that its mapping migrates.
    ///
    /// - Precondition: `losses` is not empty.
    static func lossDenied(_ losses: [MigrationRemoval], path: String?) -> QuireError {
        denied(losses, path: path) {
            "“\(path ?? "the store")” would lose \($0), so nothing was done; a to-many relationship whose objects have several "
                + "owners requires an inverse in the model. Or allow the removal."
        }
    }

    private static func denied(
        _ removals: [MigrationRemoval], path: String?, _ sentence: (String) -> String
    ) -> QuireError {
        func error(_ what: String, _ subject: Subject) -> QuireError {
            QuireError(.removalDenied, sentence(what), subject: subject)
        }
        let listed = removals.prefix(listedCount).map(\.description)
        let rest = removals.count > listedCount ? ", … (\(removals.count) in all)" : ""
        var result = error(
            listed.joined(separator: ", ") + rest,
            Subject(
                entity: removals.first?.entityName, property: removals.first?.propertyName,
                file: path))
        result.failures = removals.map {
            error(
                "\($0)", Subject(entity: $0.entityName, property: $0.propertyName, file: path))
        }
        return result
    }
}
