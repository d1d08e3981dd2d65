internal import QuireModel
internal import QuireSQLite

/// The valid storage classes of values, as SQL conditions.
enum StorageClassCheck {
    /// The condition that a column's value is valid for a slot.
    static func isReadable(_ slot: ResolvedEntity.Slot, _ column: String) -> String {
        switch slot.storage {
        case .integer, .boolean: "typeof(\(column)) = 'integer'"
        case .double, .date: "typeof(\(column)) IN ('integer', 'real')"
        case .decimal: "typeof(\(column)) <> 'blob'"
        case .string, .uri: "typeof(\(column)) = 'text'"
        case .uuid: "(typeof(\(column)) = 'blob' AND length(\(column)) = 16)"
        case .binary where slot.isExternalCapable:
            "(typeof(\(column)) = 'blob' AND (substr(\(column), 1, 1) = x'01' OR "
                + "(substr(\(column), 1, 1) = x'02' AND length(\(column)) IN (37, 38))))"
        case .binary: "typeof(\(column)) IN ('blob', 'text')"
        case .reference: isKey(column)
        case .transient: "1"
        }
    }

    /// The condition that a column holds a valid primary key.
    static func isKey(_ column: String) -> String {
        "(typeof(\(column)) = 'integer' AND \(column) BETWEEN 1 AND \(ManagedObjectID.maximumPrimaryKey))"
    }

    /// Numbers as a list in parentheses.
    static func list(_ numbers: [Int]) -> String {
        "(" + numbers.map(String.init).joined(separator: ", ") + ")"
    }
}

/// The columns of a relationship in a store's tables, for checks of both sides.
struct RelationshipColumns {
    let schema: SQLSchema

    /// A to-one relationship declared by its entity itself.
    struct Reference {
        let entity: ResolvedEntity
        let relationship: ResolvedEntity.Relationship
        let table: String
        let column: String
        let entityColumn: String?
        let orderColumn: String?
        /// The store numbers of its owners' entities.
        let owners: String
        let destination: ResolvedEntity
        let target: String
        let targets: String

        /// The SQL condition that the reference of a row is not NULL.
        var isSet: String { "\(table).Z_ENT IN \(owners) AND \(table).\(column) IS NOT NULL" }
    }

    /// The column of a to-many relationship without inverse.
    struct Lone {
        let entity: ResolvedEntity
        let relationship: ResolvedEntity.Relationship
        let key: SQLForeignKey
        let owner: String
        let owners: String
    }

    /// The order column of a relationship's members.
    struct Order {
        let entity: ResolvedEntity
        let relationship: ResolvedEntity.Relationship
        let table: String
        let ownerColumn: String
        let orderColumn: String
        /// The condition on the rows, besides having an owner.
        let condition: String
    }

    private func name(of entity: ResolvedEntity) -> String {
        SQLName.quoted(schema.entity(entity).tableName)
    }

    /// Whether the store keeps objects of an entity: its configuration may leave it out.
    private func isKept(_ entity: ResolvedEntity) -> Bool {
        schema.entity(entity).storeNumber > 0
    }

    private func numbers(of entity: ResolvedEntity) -> String {
        StorageClassCheck.list(schema.entity(entity).subtreeStoreNumbers)
    }

    /// All stored to-one relationships, each once.
    var references: [Reference] {
        schema.keptEntities.flatMap { entity in
            entity.slots.compactMap { slot -> Reference? in
                guard slot.ownerNumber == entity.number, slot.isStored,
                    let index = slot.relationshipIndex,
                    let column = schema.entity(entity).columns[slot.index]
                else { return nil }
                let relationship = entity.relationships[index]
                let destination = schema.layout.destination(of: relationship)
                guard isKept(destination) else { return nil }
                return Reference(
                    entity: entity, relationship: relationship, table: name(of: entity),
                    column: SQLName.quoted(column.name),
                    entityColumn: column.entityColumn.map(SQLName.quoted),
                    orderColumn: column.orderColumn.map(SQLName.quoted),
                    owners: numbers(of: entity), destination: destination,
                    target: name(of: destination), targets: numbers(of: destination))
            }
        }
    }

    /// Pairs of inverse to-one relationships, each pair once.
    var oneToOne: [(Reference, Reference)] {
        let all = references
        return all.enumerated().compactMap { position, one in
            guard let inverse = schema.layout.inverse(of: one.relationship), !inverse.isToMany,
                let other = all.firstIndex(where: {
                    $0.relationship.ownerNumber == inverse.ownerNumber
                        && $0.relationship.index == inverse.index
                }), other >= position
            else { return nil }
            return (one, all[other])
        }
    }

    /// The columns of all to-many relationships without inverse.
    var loneColumns: [Lone] {
        ownToMany.compactMap { entity, relationship, place in
            guard case .foreignKey(let key) = place, !key.isInverse else { return nil }
            return Lone(
                entity: entity, relationship: relationship, key: key, owner: name(of: entity),
                owners: numbers(of: entity))
        }
    }

    /// All orders.
    var orders: [Order] {
        ownToMany.compactMap { entity, relationship, place in
            switch place {
            case .foreignKey(let key):
                guard let column = key.orderColumn else { return nil }
                return Order(
                    entity: entity, relationship: relationship,
                    table: SQLName.quoted(key.tableName), ownerColumn: SQLName.quoted(key.column),
                    orderColumn: SQLName.quoted(column),
                    condition:
                        "Z_ENT IN \(numbers(of: schema.layout.destination(of: relationship)))")
            case .join(let join):
                guard let column = join.orderColumn else { return nil }
                return Order(
                    entity: entity, relationship: relationship,
                    table: SQLName.quoted(join.tableName),
                    ownerColumn: SQLName.quoted(join.sourceColumn),
                    orderColumn: SQLName.quoted(column), condition: "1")
            case .nowhere: return nil
            }
        }
    }

    /// The to-many relationships declared by entities themselves, with their storage.
    var ownToMany: [(ResolvedEntity, ResolvedEntity.Relationship, SQLToMany)] {
        schema.keptEntities.flatMap { entity in
            entity.relationships.compactMap { relationship in
                guard relationship.ownerNumber == entity.number,
                    isKept(schema.layout.destination(of: relationship)),
                    let place = schema.entity(entity).toMany[relationship.index]
                else { return nil }
                return (entity, relationship, place)
            }
        }
    }

    /// The tables on both sides of a join table, with the entity numbers of possible members.
    func ends(
        of join: SQLJoinTable
    ) -> [(column: String, entity: ResolvedEntity, table: String, numbers: String)] {
        [(join.firstColumn, join.namingSide), (join.secondColumn, join.otherSide)].map {
            let entity = schema.layout.entity(number: $0.1.entityNumber)
            return (SQLName.quoted($0.0), entity, name(of: entity), numbers(of: entity))
        }
    }

    /// The stored attributes declared by entities themselves, with their columns.
    var attributes: [(entity: ResolvedEntity, slot: ResolvedEntity.Slot, column: String)] {
        schema.keptEntities.flatMap { entity in
            entity.slots.compactMap { slot in
                guard slot.ownerNumber == entity.number, slot.isStored, slot.attribute != nil,
                    let column = schema.entity(entity).columns[slot.index]
                else { return nil }
                return (entity, slot, SQLName.quoted(column.name))
            }
        }
    }
}
