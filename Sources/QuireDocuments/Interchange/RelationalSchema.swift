package import Quire

/// The tables as which the objects of a model are exported, for people who know SQL and not this framework.
///
/// **Tables.** Each hierarchy of entities is one table, which has the name of its root entity and the columns of all of them. An
/// entity without sub-entities thus has a table of its own. Hierarchies have a column `entity` with the name of each object's
/// entity, and each entity below the root is a view that has its own columns only and includes its sub-entities. One table per
/// entity would be alternatives with drawbacks: a foreign key cannot refer to a view of several tables, and joins would be
/// needed to see an inherited attribute. Properties of the same name and type that several sub-entities declare share a column.
///
/// **Columns.** `id` is the primary key, the number in `Author/p12`; it is unique within the hierarchy. An attribute is a column of its
/// name. An element of a composite attribute is a column `name.element`. A to-one relationship is a column of its name, a
/// foreign key; both sides of a one-to-one relationship have one. Transient and fetched properties are left out.
///
/// Attributes that allow external storage are the last columns of a table, so that their values can be written in pieces.
///
/// **To-many relationships.** If the inverse is to-one, its column has the information. Others are join tables, `Book_tags`, with
/// one column per side, each named after its entity, or after the relationship if both entities are the same. A pair of inverse
/// relationships is one join table, of the side that is ordered, or whose entity comes first in the model. A relationship
/// that is its own inverse has two rows for each pair of objects.
///
/// **Order.** If a relationship is ordered, the foreign key `book` to the objects that have an order is accompanied by a column
/// `book.position`, the position from 0 among the objects related to that one.
///
/// **Names** are those of the model, so they need quotation marks in SQL if they are keywords or contain a dot. Names that are equal
/// apart from case are distinguished by a number: `name`, `Name_2`. A property called `id`, or `entity` in a hierarchy, is the
/// column `property.id` or `property.entity`. A table whose name would begin with SQLite's own prefix begins with an
/// underscore: `_sqlite_entity`.
package struct RelationalSchema {
    /// The type of a column.
    package enum Storage: String {
        case integer = "INTEGER"
        case real = "REAL"
        case text = "TEXT"
        case blob = "BLOB"
    }

    /// A column other than `id` and `entity`.
    package struct Column {
        package let name: String
        package let storage: Storage
        /// The type of an attribute; `nil` for a foreign key or a position.
        package let attributeType: AttributeType?
        /// The destination entity of a foreign key.
        package let destination: ResolvedEntity?
        /// Whether values may be in files.
        package var isLarge = false

        /// Whether it is the position in the order of the object that the preceding column refers to.
        package var isPosition: Bool { attributeType == nil && destination == nil }
    }

    /// The table of a hierarchy of entities.
    package struct Table {
        package let name: String
        package let root: ResolvedEntity
        package fileprivate(set) var columns: [Column] = []
        /// Whether there is a column `entity` after `id`.
        package var hasEntityColumn: Bool { root.hasSubentities }
    }

    /// A view of an entity below the root.
    package struct View {
        package let name: String
        package let entity: ResolvedEntity
        /// The names of the entity and its sub-entities.
        package let entityNames: [String]
        /// The names of columns in the view, and their positions in the table's columns.
        package let columns: [(name: String, column: Int)]
    }

    /// An ordered to-many relationship with a to-one inverse.
    package struct OrderedList {
        package let entity: ResolvedEntity
        package let relationship: ResolvedEntity.Relationship
        /// The root of the table of the members.
        package let memberRoot: ResolvedEntity
        /// The position of the foreign key in that table's columns; that of the position follows.
        package let column: Int
    }

    /// The table of a to-many relationship whose inverse is to-many or missing.
    package struct JoinTable {
        package let name: String
        /// The entity that declares the relationship.
        package let entity: ResolvedEntity
        package let relationship: ResolvedEntity.Relationship
        package let destination: ResolvedEntity
        /// The inverse, if that is ordered.
        package let orderedInverse: ResolvedEntity.Relationship?
        package let ownerColumn: String
        package let memberColumn: String
        /// The column of the position among the owner's members; `nil` if they have no order.
        package let ownerPositionColumn: String?
        /// The column of the position among the member's owners; `nil` if they have no order.
        package let memberPositionColumn: String?
    }

    /// The tables, in the order of the entities' numbers.
    package private(set) var tables: [Table] = []
    package private(set) var views: [View] = []
    package private(set) var orderedLists: [OrderedList] = []
    package private(set) var joinTables: [JoinTable] = []
    /// The names of tables and views.
    private(set) var names = UniqueNames()

    private var tableIndexes: [Int: Int] = [:]
    /// The positions in its table's columns for each slot of an entity, by its number; `nil` for a slot that is not stored.
    private var slotColumns: [Int: [Int?]] = [:]

    /// Plans the tables of the entities whose objects a store has.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if its model lacks the store's configuration.
    package init(_ store: any PersistentStore) throws {
        let layout = store.layout
        let numbers = try layout.entityNumbers(ofConfiguration: store.configurationName)
        let present = layout.entities.filter { numbers.contains($0.number) }
        for root in present where root.number == root.rootNumber {
            tableIndexes[root.number] = tables.count
            tables.append(Table(name: names.add(table: root.name), root: root))
        }
        for index in tables.indices {
            addColumns(
                of: present.filter { $0.rootNumber == tables[index].root.number }, index, layout)
        }
        for entity in present where entity.number != entity.rootNumber {
            let name = names.add(table: entity.name)
            views.append(
                View(
                    name: name, entity: entity,
                    entityNames: entity.subtree.map { layout.entity(number: $0).name },
                    columns: ownColumns(of: entity)))
        }
        for entity in present { addToManyRelationships(of: entity, layout) }
    }

    /// The table of an entity's hierarchy.
    package func table(of entity: ResolvedEntity) -> Table {
        // Every entity of the store is in `tables`; a relationship cannot lead to others.
        tables[tableIndexes[entity.rootNumber, default: 0]]
    }

    /// The positions of an entity's slots in the columns of its table.
    package func columns(of entity: ResolvedEntity) -> [Int?] {
        slotColumns[entity.number] ?? []
    }

    // MARK: - Columns

    /// The identity of a column: properties that agree in it share the column.
    private struct ColumnKey: Hashable {
        var name: String
        var attributeType: AttributeType?
        var destination: Int?
        var isOrdered: Bool
        var isLarge: Bool
    }

    private mutating func addColumns(
        of hierarchy: [ResolvedEntity], _ index: Int, _ layout: ResolvedModel
    ) {
        var names = UniqueNames(columnsOf: tables[index])
        var known: [ColumnKey: Int] = [:]
        for entity in hierarchy {
            var columns = entity.superentityNumber.flatMap { slotColumns[$0] } ?? []
            for slot in entity.slots[columns.count...] {
                guard slot.isStored, slot.storage != .transient else {
                    columns.append(nil)
                    continue
                }
                let relationship = slot.relationshipIndex.map { entity.relationships[$0] }
                let inverse = relationship.flatMap(layout.inverse)
                let destination = relationship.map(layout.destination)
                let isOrdered = inverse.map { $0.isOrdered && !$0.description.isTransient } ?? false
                let key = ColumnKey(
                    name: slot.name, attributeType: slot.attribute?.type,
                    destination: destination?.number, isOrdered: isOrdered,
                    isLarge: slot.isExternalCapable)
                if let shared = known[key] {
                    columns.append(shared)
                    continue
                }
                known[key] = tables[index].columns.count
                columns.append(tables[index].columns.count)
                let name = names.add(property: slot.name)
                tables[index].columns.append(
                    Column(
                        name: name, storage: Self.storage(of: slot),
                        attributeType: slot.attribute?.type, destination: destination,
                        isLarge: slot.isExternalCapable))
                guard isOrdered else { continue }
                tables[index].columns.append(
                    Column(
                        name: names.add(name + ".position"), storage: .integer, attributeType: nil,
                        destination: nil))
            }
            slotColumns[entity.number] = columns
        }
        moveLargeColumnsToEnd(of: index, hierarchy)
    }

    private mutating func moveLargeColumnsToEnd(of index: Int, _ hierarchy: [ResolvedEntity]) {
        let columns = tables[index].columns
        let order =
            columns.indices.filter { !columns[$0].isLarge }
            + columns.indices.filter { columns[$0].isLarge }
        tables[index].columns = order.map { columns[$0] }
        var places = Array(repeating: 0, count: order.count)
        for (place, column) in order.enumerated() { places[column] = place }
        for entity in hierarchy {
            let moved = self.columns(of: entity).map { $0.map { places[$0] } }
            slotColumns[entity.number] = moved
        }
    }

    private static func storage(of slot: ResolvedEntity.Slot) -> Storage {
        switch slot.storage {
        case .integer, .boolean, .reference: .integer
        case .double: .real
        case .binary: .blob
        case .decimal, .string, .date, .uuid, .uri, .transient: .text
        }
    }

    /// The columns of an entity, without those of its sub-entities: their names in its own view or file, and their positions in
    /// the columns of its table. If sub-entities have properties of the same name, the names in the table can be others.
    package func ownColumns(of entity: ResolvedEntity) -> [(name: String, column: Int)] {
        let table = table(of: entity)
        var names = UniqueNames(columnsOf: table)
        var own: [(name: String, column: Int)] = []
        for (slot, column) in zip(entity.slots, columns(of: entity)) {
            guard let column else { continue }
            let name = names.add(property: slot.name)
            own.append((name, column))
            if column + 1 < table.columns.count, table.columns[column + 1].isPosition {
                own.append((names.add(name + ".position"), column + 1))
            }
        }
        return own
    }

    // MARK: - Relationships

    private mutating func addToManyRelationships(of entity: ResolvedEntity, _ layout: ResolvedModel)
    {
        for relationship in entity.relationships
        where relationship.ownerNumber == entity.number && relationship.isToMany
            && !relationship.description.isTransient
        {
            let inverse = layout.inverse(of: relationship).flatMap {
                $0.description.isTransient ? nil : $0
            }
            let destination = layout.destination(of: relationship)
            if let inverse, !inverse.isToMany {
                let members = columns(of: layout.entity(number: inverse.ownerNumber))
                guard relationship.isOrdered, let slot = inverse.slot, let column = members[slot]
                else { continue }
                orderedLists.append(
                    OrderedList(
                        entity: entity, relationship: relationship,
                        memberRoot: layout.entity(
                            number: destination.rootNumber), column: column))
            } else if inverse.map({ Self.isOwner(relationship, insteadOf: $0) }) ?? true {
                addJoinTable(relationship, of: entity, inverse, destination)
            }
        }
    }

    /// Whether the join table of a pair of to-many relationships is that of the first one.
    private static func isOwner(
        _ one: ResolvedEntity.Relationship, insteadOf other: ResolvedEntity.Relationship
    ) -> Bool {
        if one.isOrdered != other.isOrdered { return one.isOrdered }
        return (one.ownerNumber, one.index) <= (other.ownerNumber, other.index)
    }

    private mutating func addJoinTable(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity,
        _ inverse: ResolvedEntity.Relationship?, _ destination: ResolvedEntity
    ) {
        var columns = UniqueNames()
        let owner = columns.add(entity.name)
        let isSame = entity.number == destination.number
        let member = columns.add(isSame ? relationship.name : destination.name)
        let orderedInverse = inverse.flatMap {
            $0.isOrdered && $0 !== relationship ? $0 : nil
        }
        joinTables.append(
            JoinTable(
                name: names.add(table: "\(entity.name)_\(relationship.name)"), entity: entity,
                relationship: relationship, destination: destination,
                orderedInverse: orderedInverse, ownerColumn: owner, memberColumn: member,
                ownerPositionColumn: relationship.isOrdered ? owner + ".position" : nil,
                memberPositionColumn: orderedInverse.map { _ in member + ".position" }))
    }
}

// MARK: - Names

/// Names that differ from each other in more than case, as SQLite and some file systems require.
package struct UniqueNames {
    private var taken: Set<String> = []
    private var reserved: Set<String> = []

    package init() {}

    /// Names for columns beside `id` and `entity`.
    fileprivate init(columnsOf table: RelationalSchema.Table) {
        reserved = table.hasEntityColumn ? ["id", "entity"] : ["id"]
        taken = reserved
    }

    /// Adds a name, with a number if it is taken.
    package mutating func add(_ name: String) -> String {
        var unique = name
        var number = 1
        while !taken.insert(unique.lowercased()).inserted {
            number += 1
            unique = "\(name)_\(number)"
        }
        return unique
    }

    /// Adds the name of a property.
    mutating func add(property name: String) -> String {
        add(reserved.contains(name.lowercased()) ? "property.\(name)" : name)
    }

    /// Adds the name of a table, view or index of a SQLite database.
    mutating func add(table name: String) -> String {
        add(name.lowercased().hasPrefix("sqlite_") ? "_\(name)" : name)
    }
}
