package import QuireModel

/// The mapping of a model to the tables of a store in Core Data's layout: as Core Data would create it in a fresh store
/// (``init(fresh:)``), or as an existing store has it (``init(_:catalog:)``).
///
/// All generated SQL takes its names from here, so it works on stores that Core Data has migrated for years as well as on new
/// ones.
package struct SQLSchema: Sendable {
    /// The model.
    package let layout: ResolvedModel
    /// The entities by model number minus one.
    let entities: [SQLEntity]
    /// The object tables, one for each root entity, by entity number.
    package let tables: [SQLTable]
    /// The join tables of many-to-many relationships.
    package let joinTables: [SQLJoinTable]
    /// Whether a table may hold rows whose `Z_ENT` does not belong there, as in some stores not made here. Such rows are
    /// ignored. In stores made here they are corruption.
    package let hasStrays: Bool
    /// The to-many relationships without storage in the store.
    package let missing: [SQLRelationshipKey]
    /// Missing columns that repeat a fact that can be looked up, or keep an order.
    package let missingColumns: [SQLMissingColumn]
    /// The R-trees and full-text indexes of the model that the store has.
    var computedIndexes: [SQLComputedIndex] = []
    /// Model numbers by store number; 0 for an unknown store number.
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

    /// The mapping of the entity with a model number.
    ///
    /// - Precondition: There is one.
    package func entity(number: Int) -> SQLEntity { entities[number - 1] }

    /// The mapping of an entity.
    package func entity(_ entity: ResolvedEntity) -> SQLEntity { entities[entity.number - 1] }

    /// The table of an entity's objects.
    func table(of entity: SQLEntity) -> SQLTable { tables[entity.tableIndex] }

    /// The model number for a value of `Z_ENT`; `nil` if it is not an entity of the model.
    @inline(__always)
    package func modelNumber(ofStoreNumber number: Int64) -> Int? {
        guard number > 0, number < modelNumbers.count else { return nil }
        let result = modelNumbers[Int(number)]
        return result == 0 ? nil : result
    }

    /// The storage of an entity's to-many relationship.
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

/// The mapping of one entity to its table.
package struct SQLEntity: Sendable {
    /// The entity's number in the model, from 1.
    let number: Int
    /// The entity's number in the store: `Z_ENT` of its rows; 0 if the store does not keep its objects.
    package let storeNumber: Int
    /// The index of the root entity's table in ``SQLSchema/tables``.
    let tableIndex: Int
    /// The name of that table.
    package let tableName: String
    /// The store numbers of the entity and of all its sub-entities.
    package let subtreeStoreNumbers: [Int]
    /// Whether the table is known to hold only rows of the entity and its sub-entities.
    let ownsTable: Bool
    /// The columns by slot; `nil` for transient slots.
    package let columns: [SQLSlotColumn?]
    /// The storage of to-many relationships by relationship index; `nil` for to-one and transient ones.
    package let toMany: [SQLToMany?]

    /// The `Z_ENT` values of this entity's rows; `nil` if every row of the table matches.
    func entityTest(includingSubentities: Bool) -> [Int]? {
        if includingSubentities { return ownsTable ? nil : subtreeStoreNumbers }
        return ownsTable && subtreeStoreNumbers.count == 1 ? nil : [storeNumber]
    }
}

/// The column of an attribute, a composite's element or a to-one relationship.
package struct SQLSlotColumn: Sendable, Hashable {
    /// The column's name.
    package let name: String
    /// The column with the destination's `Z_ENT`, for a to-one relationship to an entity with sub-entities.
    package let entityColumn: String?
    /// The column with the object's position in the inverse, for a to-one relationship whose inverse is ordered.
    package let orderColumn: String?
}

/// The storage of a to-many relationship.
package enum SQLToMany: Sendable {
    /// A foreign key in the destination's table: the inverse's column, or, without inverse, a column for this relationship
    /// only.
    case foreignKey(SQLForeignKey)
    /// A join table.
    case join(SQLJoin)
    /// No storage: the store was made with another model. The relationship is empty for every object and cannot be changed. The
    /// name is that of the destination's table.
    case nowhere(tableName: String)

    /// The table that keeps the relationship, or the destination's table if none does.
    package var tableName: String {
        switch self {
        case .foreignKey(let key): key.tableName
        case .join(let join): join.tableName
        case .nowhere(let tableName): tableName
        }
    }

    /// The rows `d` for the destinations of an owner `o`, to follow `FROM`; `nil` if none are kept.
    package var rowsOfOwner: String? {
        switch self {
        case .nowhere: nil
        case .foreignKey(let key):
            "\(SQLName.quoted(key.tableName)) d WHERE d.\(SQLName.quoted(key.column)) = o.Z_PK"
        case .join(let join):
            "\(SQLName.quoted(join.tableName)) d WHERE d.\(SQLName.quoted(join.sourceColumn)) = o.Z_PK"
        }
    }
}

/// A column of the destination's table that holds the owner's primary key.
package struct SQLForeignKey: Sendable, Hashable {
    /// The destination's table.
    package let tableName: String
    /// The column with the owner's primary key.
    package let column: String
    /// The column with the owner's `Z_ENT`, if any.
    package let entityColumn: String?
    /// The sort column, if the relationship is ordered.
    package let orderColumn: String?
    /// Whether the column belongs to the inverse relationship, rather than to this one alone.
    package let isInverse: Bool
}

/// A join table seen from one of its sides.
package struct SQLJoin: Sendable, Hashable {
    /// The join table's name.
    package let tableName: String
    /// The column with the owner's primary key.
    package let sourceColumn: String
    /// The column with the destination's primary key.
    package let targetColumn: String
    /// The sort column, if the relationship is ordered.
    package let orderColumn: String?
    /// The index in ``SQLSchema/joinTables``.
    package let tableIndex: Int
    /// Whether this is the side that the table is named after.
    let isNamingSide: Bool
    /// Whether the relationship is its own inverse. The table then has a row for each direction, so reading one suffices.
    package let isReflexive: Bool
}

/// A table of objects.
package struct SQLTable: Sendable {
    /// The table's name.
    package let name: String
    /// The model number of the root entity.
    package let rootNumber: Int
    /// All columns, starting with `Z_PK`, `Z_ENT` and `Z_OPT`.
    package let columns: [SQLColumn]
}

/// A column declaration.
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

/// A column that the model requires and the store lacks.
package struct SQLMissingColumn: Sendable, Hashable {
    /// The table's name.
    package let table: String
    /// The column as a new store would have it.
    package let column: SQLColumn
    /// The consequence of the lack.
    package let role: Role

    package enum Role {
        /// The values of a property, or its order: the store cannot be opened without it.
        case required
        /// A to-many relationship without inverse, or its order.
        case unpaired
        /// None: the entity of an object, which can be looked up.
        case lookup
    }
}

/// A table of a many-to-many relationship.
package struct SQLJoinTable: Sendable, Hashable {
    /// The table's name.
    package let name: String
    /// The column with primary keys of the naming side's objects.
    package let firstColumn: String
    /// The column with primary keys of the inverse side's objects.
    package let secondColumn: String
    /// The order of the second column's objects within one of the first column's.
    package let secondOrderColumn: String?
    /// The order of the first column's objects within one of the second column's.
    package let firstOrderColumn: String?
    /// The naming side: entity number and relationship index in the model.
    package let namingSide: SQLRelationshipKey
    /// The inverse side; equal to the naming side if the relationship is its own inverse.
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
    /// The prefix of the names of full-text indexes.
    static let fullTextPrefix = "QUIRE_FT"
    package static let primaryKey = "Z_PK"
    package static let entity = "Z_ENT"
    package static let version = "Z_OPT"

    /// A name as SQL identifier: quoted only if it is not plain, as Core Data does.
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

    /// A text as SQL string literal.
    package static func literal(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''")
            + "'"
    }
}

// MARK: - Parts

/// A schema object that can be created and dropped without losing data of the objects: an index, or a table or trigger that
/// maintains computed data.
package struct SQLSchemaPart: Sendable, Hashable {
    /// The `type` column of `sqlite_schema`.
    package enum Kind: String, Sendable {
        case index, table, trigger
    }

    /// The columns of a unique index.
    package struct Unique: Sendable, Hashable {
        let table: String
        let columns: [String]
    }

    package let kind: Kind
    package let name: String
    /// The statement that creates it.
    let sql: String
    /// The table and columns that it requires to be unique, if it does.
    package var unique: Unique?
    /// The statement that computes its content from existing objects. Parts may share one.
    package var filling: String?
}

// MARK: - The catalog

/// The catalog of an existing store: its tables with their columns, and Core Data's numbering of entities.
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

    /// A table of the catalog.
    package struct Table: Sendable {
        let name: String
        let columns: [SQLColumn]
        /// The columns' actual names by upper-cased name.
        let columnNames: [String: String]

        package init(name: String, columns: [SQLColumn]) {
            self.name = name
            self.columns = columns
            columnNames = Dictionary(
                columns.map { ($0.name.uppercased(), $0.name) },
                uniquingKeysWith: { first, _ in first })
        }

        /// The column with a name, case-insensitively.
        func column(_ name: String) -> String? { columnNames[name.uppercased()] }

        /// The unique column outside `used` whose name is `base` followed by digits.
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
    /// The tables by upper-cased name.
    let tables: [String: Table]
    /// The names of views, in upper case. Regular stores have none.
    let views: Set<String>

    /// The names of the entities.
    package var entityNames: Set<String> { Set(entities.map(\.name)) }

    /// The greatest number not reserved for the persistent history.
    package static let maximumEntityNumber = 15_999

    package init(entities: [Entity], tables: [Table], views: [String] = []) {
        self.views = Set(views.map { $0.uppercased() })
        self.entities = entities.filter {
            $0.number > 0 && $0.number <= Self.maximumEntityNumber
        }.sorted { $0.number < $1.number }
        self.tables = Dictionary(
            tables.map { ($0.name.uppercased(), $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The table with a name, case-insensitively.
    func table(_ name: String) -> Table? { tables[name.uppercased()] }

    /// Whether a name is `base` followed by any number of digits.
    static func isSuffixed(_ name: String, base: String) -> Bool {
        name.hasPrefix(base)
            && name.utf8.dropFirst(base.utf8.count).allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
    }
}
