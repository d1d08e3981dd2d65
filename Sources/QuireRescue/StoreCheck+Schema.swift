internal import QuireModel
internal import QuireSQLite
internal import QuireSystem

extension StoreCheck {
    /// Compares tables, columns and indexes with the model. What Core Data's own stores may differ in is a note there; a
    /// store that was made here has exactly the tables of its model.
    mutating func checkSchema() throws {
        try checkTriggers()
        switch store.inferenceReason {
        case nil: break
        case .noModel:
            return add(
                .schema,
                "The store carries no model, so its tables were not compared with one.",
                isNote: true)
        case .unusableModel(let error):
            // What cannot be read of it is said where the model itself is checked.
            let cause = error.underlying == nil ? "used: \(error.message)" : "read."
            return add(
                .schema,
                "The store's tables were not compared with its model, which cannot be \(cause)",
                isNote: true)
        case .misfit(let error):
            for failure in error.causes {
                add(.schema, "The tables are not those of the store's model: \(failure.message)")
            }
            return
        }
        checkRelationshipTables()
        for missing in schema.missingColumns {
            add(
                .schema, "The table \(missing.table) has no column \(missing.column.name).",
                table: missing.table, isNote: !store.carriesModel)
        }
        for table in schema.tables {
            try checkKeyColumns([SQLName.primaryKey], of: table.name, isNote: false)
            checkColumnTypes(of: table)
        }
        for join in schema.joinTables {
            try checkKeyColumns(
                [join.firstColumn, join.secondColumn], of: join.name, isNote: !store.carriesModel)
        }
        try checkParts()
    }

    /// Names what keeps the store from being written. Without its model, what is derived is not known.
    private mutating func checkTriggers() throws {
        let check = SQLiteTriggerCheck(connection: connection, schema: schema)
        for problem in try check.problems() {
            add(
                .schema,
                "The store cannot be written: \(problem.message); \(problem.advice).",
                table: problem.table, isNote: store.hasInferredModel)
        }
    }

    /// Whether the store keeps every to-many relationship. One that is opened with a model of somebody's choice may have
    /// been made before the relationship.
    private mutating func checkRelationshipTables() {
        let isOwnModel = store.carriesModel || store.usesOwnModel
        for key in schema.missing {
            let entity = schema.layout.entity(number: key.entityNumber)
            let relationship = entity.relationships[key.index]
            let isKept =
                schema.entity(schema.layout.destination(of: relationship)).storeNumber > 0
                && schema.entity(entity).storeNumber > 0
            let name = "“\(entity.name).\(relationship.name)”"
            if isOwnModel && isKept {
                add(.schema, "The store has no table or column for \(name), which its model has.")
            } else {
                add(
                    .schema,
                    "The store keeps nothing of \(name): it was made with another model.",
                    isNote: true)
            }
        }
    }

    /// Whether a table's key is declared, without which rows can have the same one, and new rows get none.
    private mutating func checkKeyColumns(
        _ columns: [String], of table: String, isNote: Bool
    ) throws {
        let found = try connection.withStatement(
            "SELECT upper(name) FROM pragma_table_info(?) WHERE pk > 0"
        ) { statement in
            try statement.bind(table, at: 1)
            var names: Set<String> = []
            while try statement.step() { names.insert(statement.text(0)) }
            return names
        }
        if found == Set(columns.map { $0.uppercased() }) { return }
        add(
            .schema,
            "The table \(table) is not declared with \(columns.joined(separator: " and ")) as its key.",
            table: table, isNote: isNote)
    }

    /// Whether columns take values as they are: by the type it declares, SQLite turns texts into numbers, or numbers into
    /// texts, that are put into one.
    private mutating func checkColumnTypes(of table: SQLTable) {
        var storages: [String: EntityLayout.Slot.Storage] = [:]
        for number in schema.layout.entity(number: table.rootNumber).subtree {
            let entity = schema.layout.entity(number: number)
            for (slot, column) in zip(entity.slots, schema.entity(entity).columns) {
                guard let column else { continue }
                storages[column.name] = slot.storage
                for name in [column.entityColumn, column.orderColumn].compactMap({ $0 }) {
                    storages[name] = .integer
                }
            }
        }
        for place in RelationshipPlaces(schema: schema).loneColumns
        where place.key.tableName == table.name {
            for name in [place.key.column, place.key.entityColumn, place.key.orderColumn] {
                if let name { storages[name] = .integer }
            }
        }
        for name in [SQLName.entity, SQLName.version] { storages[name] = .integer }
        for column in table.columns {
            guard let storage = storages[column.name],
                !SQLAffinity(declaredType: column.type).keeps(storage)
            else { continue }
            add(
                .schema,
                "The column \(column.name) of \(table.name) is declared as \(column.type), which does not keep "
                    + "every \(storage) value.",
                table: table.name, isNote: !store.carriesModel)
        }
    }

    /// Indexes, and what is computed by triggers.
    private mutating func checkParts() throws {
        let synchronization = SQLiteSchemaSynchronization(
            connection: connection, schema: schema, carriesModel: store.carriesModel)
        let plan = try synchronization.plan()
        for part in plan.made {
            add(
                .schema,
                "The \(part.kind.rawValue) \(part.name), which the model calls for, is missing; opening the store for writing makes it.",
                isRepairable: true, isNote: true)
        }
        for part in plan.dropped where !plan.made.contains(where: { $0.name == part.name }) {
            add(
                .schema,
                "The model does not call for the \(part.kind.rawValue) \(part.name); opening the store for writing drops it.",
                isRepairable: true, isNote: true)
        }
        for part in try synchronization.missingFixedIndexes() {
            add(
                .schema,
                "The \(part.kind.rawValue) \(part.name) is missing, so reading may be slow.",
                isRepairable: true, isNote: true)
        }
    }
}

extension QuireError {
    /// The errors that this one combines, or it alone.
    fileprivate var causes: [QuireError] {
        if !failures.isEmpty { return failures }
        if let cause = underlying as? QuireError { return cause.causes }
        return [self]
    }
}

/// What SQLite makes of values that are put into a column, by the type that it is declared with.
private enum SQLAffinity {
    case integer, text, blob, real, numeric

    /// By SQLite's rules, in their order.
    init(declaredType: String) {
        let type = declaredType.uppercased()
        func has(_ words: String...) -> Bool { words.contains { type.contains($0) } }
        if has("INT") {
            self = .integer
        } else if has("CHAR", "CLOB", "TEXT") {
            self = .text
        } else if has("BLOB") || type.isEmpty {
            self = .blob
        } else if has("REAL", "FLOA", "DOUB") {
            self = .real
        } else {
            self = .numeric
        }
    }

    /// Whether every value of a slot comes back in the form it was put in.
    func keeps(_ storage: EntityLayout.Slot.Storage) -> Bool {
        switch storage {
        case .integer, .boolean, .reference: self != .text && self != .real
        case .double, .date, .decimal: self != .text
        case .string, .uri: self == .text || self == .blob
        case .binary, .uuid, .transient: true
        }
    }
}
