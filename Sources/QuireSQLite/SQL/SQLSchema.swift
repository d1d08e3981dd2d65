package import QuireModel

/// How the objects of a model lie in the tables of a store: Core Data's layout, either as Core Data would make
/// it for a fresh store (``init(fresh:)``) or as a real store has it (``init(_:catalog:)``).
///
/// Everything that writes SQL for a store takes its names from here, so it works on stores that Core Data has
/// migrated for years as well as on new ones.
package struct SQLSchema: Sendable {
    /// The model.
    package let layout: ResolvedModel
    /// The entities by their model numbers less one.
    let entities: [SQLEntity]
    /// The tables that hold objects, one for each root entity, in the order of their numbers.
    package let tables: [SQLTable]
    /// The tables of many-to-many relationships.
    package let joinTables: [SQLJoinTable]
    /// Whether a table may hold rows of entities that do not belong there, as those of stores that others made
    /// do now and then. Such rows are nobody's. In stores made here they are damage.
    package let hasStrays: Bool
    /// The to-many relationships that the store keeps nothing of.
    package let missing: [SQLRelationshipKey]
    /// Columns that repeat what can be looked up, or keep an order, and that the store lacks.
    package let missingColumns: [SQLMissingColumn]
    /// The R-trees and full-text indexes of the model that the store has.
    var computedIndexes: [SQLComputedIndex] = []
    /// Model numbers by store numbers; 0 where the store number means nothing.
    private let modelNumbers: [Int]

    init(
        layout: ResolvedModel, entities: [SQLEntity], tables: [SQLTable],
        joinTables: [SQLJoinTable],
        hasStrays: Bool, missing: [SQLRelationshipKey], missingColumns: [SQLMissingColumn]
    ) {
        self.missingColumns = missingColumns
        self.hasStrays = hasStrays
        self.missing = missing
        self.layout = layout
        self.entities = entities
        self.tables = tables
        self.joinTables = joinTables
        var numbers = [Int](repeating: 0, count: (entities.map(\.storeNumber).max() ?? 0) + 1)
        for entity in entities { numbers[entity.storeNumber] = entity.number }
        modelNumbers = numbers
    }

    /// The entities whose objects the store keeps.
    package var keptEntities: [ResolvedEntity] {
        layout.entities.filter { entities[$0.number - 1].storeNumber > 0 }
    }

    /// The entity of a model number.
    ///
    /// - Precondition: There is one.
    package func entity(number: Int) -> SQLEntity { entities[number - 1] }

    /// Where the objects of an entity lie.
    package func entity(_ entity: ResolvedEntity) -> SQLEntity { entities[entity.number - 1] }

    /// The table of an entity's objects.
    func table(of entity: SQLEntity) -> SQLTable { tables[entity.tableIndex] }

    /// The model's number for what the store has in `Z_ENT`; `nil` if it is no entity of the model.
    @inline(__always)
    package func modelNumber(ofStoreNumber number: Int64) -> Int? {
        guard number > 0, number < modelNumbers.count else { return nil }
        let result = modelNumbers[Int(number)]
        return result == 0 ? nil : result
    }

    /// The table and columns that a to-many relationship of an entity lies in.
    ///
    /// - Precondition: The relationship is to-many and stored.
    package func toMany(_ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity)
        -> SQLToMany
    {
        guard let place = self.entity(entity).toMany[relationship.index] else {
            preconditionFailure(
                "“\(entity.name).\(relationship.name)” is not a stored to-many relationship.")
        }
        return place
    }
}

/// Where the objects of one entity lie.
package struct SQLEntity: Sendable {
    /// The entity's number in the model, from 1.
    let number: Int
    /// The entity's number in the store: `Z_ENT` of its rows; 0 if the store does not keep its objects.
    package let storeNumber: Int
    /// The position of its root's table in ``SQLSchema/tables``.
    let tableIndex: Int
    /// The name of that table.
    package let tableName: String
    /// The store numbers of the entity and of all its sub-entities.
    package let subtreeStoreNumbers: [Int]
    /// Whether the table holds nothing but the entity's and its sub-entities' objects for sure.
    let ownsTable: Bool
    /// The columns by slot; `nil` for what is not stored.
    package let columns: [SQLSlotColumn?]
    /// The places of to-many relationships by the relationship's index; `nil` for to-one and transient ones.
    package let toMany: [SQLToMany?]

    /// The values that `Z_ENT` may have in rows of this entity; `nil` if every row of the table is one.
    func entityTest(includingSubentities: Bool) -> [Int]? {
        if includingSubentities { return ownsTable ? nil : subtreeStoreNumbers }
        return ownsTable && subtreeStoreNumbers.count == 1 ? nil : [storeNumber]
    }
}

/// The column of an attribute, a composite's element or a to-one relationship.
package struct SQLSlotColumn: Sendable, Hashable {
    /// The column's name.
    package let name: String
    /// For a to-one relationship to an entity that has sub-entities: the column with the target's `Z_ENT`.
    package let entityColumn: String?
    /// For a to-one relationship whose inverse is ordered: the column with the object's place in that order.
    package let orderColumn: String?
}

/// Where a to-many relationship lies.
package enum SQLToMany: Sendable {
    /// The other objects point back: with the inverse's column, or, where there is no inverse, with a column
    /// that exists for this relationship only.
    case foreignKey(SQLForeignKey)
    /// A table pairs the objects of both sides.
    case join(SQLJoin)
    /// The store was made with another model and keeps nothing of the relationship. It is empty for every object, and
    /// cannot be changed. The name is that of the destination's table.
    case nowhere(tableName: String)

    /// The table that keeps the relationship, or that of its destination if none does.
    package var tableName: String {
        switch self {
        case .foreignKey(let key): key.tableName
        case .join(let join): join.tableName
        case .nowhere(let tableName): tableName
        }
    }
}

/// A column of the destination's table that holds the owner's primary key.
package struct SQLForeignKey: Sendable, Hashable {
    /// The destination's table.
    package let tableName: String
    /// The column with the owner's primary key.
    package let column: String
    /// The column with the owner's `Z_ENT`, if there is one.
    package let entityColumn: String?
    /// The column to order by, if the relationship is ordered.
    package let orderColumn: String?
    /// Whether the column belongs to the inverse relationship, rather than to this one alone.
    package let isInverse: Bool
}

/// A join table seen from one of its sides.
package struct SQLJoin: Sendable, Hashable {
    /// The join table's name.
    package let tableName: String
    /// The column with the primary key of the object that owns the relationship.
    package let sourceColumn: String
    /// The column with the primary key of the object that the relationship leads to.
    package let targetColumn: String
    /// The column to order by, if the relationship is ordered.
    package let orderColumn: String?
    /// The position in ``SQLSchema/joinTables``.
    package let tableIndex: Int
    /// Whether this is the side that the table is named after.
    let isNamingSide: Bool
    /// Whether the relationship is its own inverse. Then the table holds a row for each direction, and
    /// reading one direction is enough.
    package let isReflexive: Bool
}

/// A table of objects.
package struct SQLTable: Sendable {
    /// The table's name.
    package let name: String
    /// The model number of the root entity.
    package let rootNumber: Int
    /// All columns, `Z_PK`, `Z_ENT` and `Z_OPT` first.
    package let columns: [SQLColumn]
}

/// A column as it is declared.
package struct SQLColumn: Sendable, Hashable {
    /// The column's name.
    package let name: String
    /// The declared type.
    package let type: String

    package init(name: String, type: String) {
        self.name = name
        self.type = type
    }
}

/// A column that a model calls for and a store lacks.
package struct SQLMissingColumn: Sendable, Hashable {
    /// The table's name.
    package let table: String
    /// The column as a new store would have it.
    package let column: SQLColumn
    /// What is lost with it.
    package let role: Role

    package enum Role {
        /// The values of a property, or its order: without it the store is not opened.
        case required
        /// A to-many relationship without inverse, or its order.
        case unpaired
        /// Nothing: the entity of an object that can be looked up.
        case lookup
    }
}

/// A table of a many-to-many relationship.
package struct SQLJoinTable: Sendable, Hashable {
    /// The table's name.
    package let name: String
    /// The column with primary keys of the naming side's objects.
    package let firstColumn: String
    /// The column with primary keys of the other side's objects.
    package let secondColumn: String
    /// The order of the second column's objects within one of the first column's.
    package let secondOrderColumn: String?
    /// The order of the first column's objects within one of the second column's.
    package let firstOrderColumn: String?
    /// The naming side: entity number and relationship index in the model.
    package let namingSide: SQLRelationshipKey
    /// The other side; the same if the relationship is its own inverse.
    package let otherSide: SQLRelationshipKey
    /// Whether the relationship is its own inverse.
    package var isReflexive: Bool { namingSide == otherSide }
}

/// A relationship of the model: the number of the entity that declares it, and its index there.
package struct SQLRelationshipKey: Sendable, Hashable {
    package let entityNumber: Int
    package let index: Int

    package init(entityNumber: Int, index: Int) {
        self.entityNumber = entityNumber
        self.index = index
    }
}

/// Names of Core Data's fixed tables and columns, and quoting.
package enum SQLName {
    /// What the names of full-text indexes begin with.
    static let fullTextPrefix = "QUIRE_FT"
    package static let primaryKey = "Z_PK"
    package static let entity = "Z_ENT"
    package static let version = "Z_OPT"

    /// A name ready to be put into SQL: quoted if it is not a plain identifier, as Core Data leaves those it makes.
    package static func quoted(_ name: String) -> String {
        let isPlain =
            !name.isEmpty
            && name.utf8.allSatisfy {
                $0 == UInt8(ascii: "_") || ($0 >= 0x30 && $0 <= 0x39)
                    || ($0 >= 0x41 && $0 <= 0x5A) || ($0 >= 0x61 && $0 <= 0x7A)
            } && !(name.utf8.first.map { $0 >= 0x30 && $0 <= 0x39 } ?? true)
        if isPlain { return name }
        return "\""
            + name.split(separator: "\"", omittingEmptySubsequences: false).joined(
                separator: "\"\"")
            + "\""
    }

    /// A text ready to be put into SQL as a constant.
    static func literal(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''")
            + "'"
    }
}

// MARK: - Parts

/// Something in a store that can be made and dropped without losing anything of the objects: an index, or a table or
/// trigger that keeps what is computed from them.
package struct SQLSchemaPart: Sendable, Hashable {
    /// What it is, as `sqlite_schema` has it.
    package enum Kind: String, Sendable {
        case index, table, trigger
    }

    /// Columns of a table.
    package struct Unique: Sendable, Hashable {
        let table: String
        let columns: [String]
    }

    package let kind: Kind
    package let name: String
    /// The statement that makes it.
    let sql: String
    /// The table and columns whose values it demands to be unique, if it does.
    package var unique: Unique?
    /// The statement that computes what it keeps from objects that are there already. Parts may share one.
    package var filling: String?
}

// MARK: - The catalog

/// What a real store says of itself: its tables with their columns, and Core Data's numbering of entities.
package struct SQLCatalog: Sendable {
    /// A row of `Z_PRIMARYKEY`.
    package struct Entity: Sendable {
        package let number: Int
        package let name: String
        package let superentityNumber: Int

        package init(number: Int, name: String, superentityNumber: Int) {
            self.number = number
            self.name = name
            self.superentityNumber = superentityNumber
        }
    }

    /// A table as it is.
    package struct Table: Sendable {
        let name: String
        let columns: [SQLColumn]
        /// The columns' names as they are, by their names in upper case.
        let columnNames: [String: String]

        package init(name: String, columns: [SQLColumn]) {
            self.name = name
            self.columns = columns
            columnNames = Dictionary(
                columns.map { ($0.name.uppercased(), $0.name) },
                uniquingKeysWith: { first, _ in first })
        }

        /// The column of a name, whatever its case.
        func column(_ name: String) -> String? { columnNames[name.uppercased()] }

        /// The only column that has a name followed by digits and is not among others.
        func suffixedColumn(_ base: String, without used: Set<String>) -> String? {
            let base = base.uppercased()
            let found = columnNames.filter { upper, name in
                !used.contains(name) && SQLCatalog.isSuffixed(upper, base: base)
            }
            return found.count == 1 ? found.first?.value : nil
        }
    }

    /// The entities by number, without those of the persistent history.
    let entities: [Entity]
    /// The tables by their names in upper case.
    let tables: [String: Table]
    /// The names of views, in upper case. Stores have none.
    let views: Set<String>

    /// The greatest number that is not reserved for the persistent history.
    package static let maximumEntityNumber = 15_999

    package init(entities: [Entity], tables: [Table], views: [String] = []) {
        self.views = Set(views.map { $0.uppercased() })
        self.entities = entities.filter {
            $0.number > 0 && $0.number <= Self.maximumEntityNumber
        }.sorted { $0.number < $1.number }
        self.tables = Dictionary(
            tables.map { ($0.name.uppercased(), $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The table of a name, whatever its case.
    func table(_ name: String) -> Table? { tables[name.uppercased()] }

    /// Whether a name is another followed by any number of digits.
    static func isSuffixed(_ name: String, base: String) -> Bool {
        name.hasPrefix(base)
            && name.utf8.dropFirst(base.utf8.count).allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
    }
}
