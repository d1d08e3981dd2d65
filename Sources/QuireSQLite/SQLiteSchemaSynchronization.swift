internal import QuireModel
internal import QuireModelFiles

/// Synchronizes a store's indexes, and the triggers of computed data, with a model. Indexes do not affect the version hashes,
/// so a store may be opened with a model that has different ones.
///
/// Missing indexes and triggers of the model are created, and filled from existing rows. In a store made by this framework,
/// those with names that Core Data, or this framework, gives to indexes of the model's entities are dropped if the model lacks
/// them or defines them differently. Everything else is left alone, including what the model reader left out; if nothing
/// differs, nothing is written.
///
/// In a store that another program made, existing parts stay, except this framework's full-text indexes: its model may have
/// index options not understood here, and its program expects to find what it made. Only a migration recreates the schema of
/// such a store.
///
/// Covers fetch indexes and uniqueness constraints (`Z_Entity_…`), R-trees (`Z_RT_Entity_…`), full-text indexes
/// (`QUIRE_FT_Entity_…`), and triggers of derived attributes (`Z_DA_…`). An index named after an attribute is a leftover of an
/// older model, which Core Data's migrations keep as well. A derived attribute with any trigger is taken to be complete: Core
/// Data or this framework made it. Indexes that models list for old versions of Core Data are not added later.
package struct SQLiteSchemaSynchronization {
    package let connection: SQLiteConnection
    package let schema: SQLSchema
    /// Whether the store carries its model in this framework's form, so that it was made, or migrated, here. Synchronization
    /// then replaces the carried model, so that opening without a model does not find different indexes in it.
    package let carriesModel: Bool

    package init(connection: SQLiteConnection, schema: SQLSchema, carriesModel: Bool) {
        self.connection = connection
        self.schema = schema
        self.carriesModel = carriesModel
    }

    /// The steps of a synchronization.
    package struct Plan {
        /// The parts to drop, triggers first.
        package var dropped: [(kind: SQLSchemaPart.Kind, name: String)] = []
        package var made: [SQLSchemaPart] = []

        package var isEmpty: Bool { dropped.isEmpty && made.isEmpty }
    }

    /// An existing part of the store.
    private struct Present {
        let kind: SQLSchemaPart.Kind
        let name: String
        let table: String
        let sql: String
    }

    // MARK: - Planning

    /// Compares the model with the store.
    package func plan() throws -> Plan {
        var present: [String: Present] = [:]
        for part in try presentParts() { present[part.name.uppercased()] = part }
        let statements = SQLSchemaStatements(schema: schema)
        var plan = Plan()
        var kept: Set<String> = []
        var replaced: Set<String> = []
        for part in statements.fetchIndexes {
            kept.insert(part.name.uppercased())
            guard let found = present[part.name.uppercased()] else {
                if try !isUniqueAnyway(part) { plan.made.append(part) }
                continue
            }
            if mayDrop(found.name), Self.normalized(found.sql) != Self.normalized(part.sql) {
                plan.dropped.append((found.kind, found.name))
                plan.made.append(part)
            }
        }
        kept.formUnion(statements.legacyIndexes.map { $0.name.uppercased() })
        // Indexes of the model that are not created here may be Core Data's.
        for entity in schema.keptEntities {
            for index in entity.description.indexes
            where index.elements.allSatisfy({ $0.kind == .binary }) {
                kept.insert("Z_\(entity.name)_\(index.name)".uppercased())
            }
        }
        // A table and its triggers are replaced together.
        for (_, parts) in Dictionary(
            grouping: SQLComputedIndexStatements(schema: schema).parts, by: Self.indexName
        ).sorted(by: { $0.key < $1.key }) {
            kept.formUnion(parts.map { $0.name.uppercased() })
            let isSame = parts.allSatisfy { part in
                present[part.name.uppercased()].map {
                    Self.normalized($0.sql) == Self.normalized(part.sql)
                } ?? false
            }
            if isSame { continue }
            let isAnothers = parts.contains {
                present[$0.name.uppercased()] != nil && !mayDrop($0.name)
            }
            if isAnothers { continue }
            replaced.formUnion(parts.map { $0.name.uppercased() })
            plan.made += parts
        }
        let triggers = SQLDerivedTriggers(schema: schema)
        for (prefix, parts) in triggers.partsByAttribute {
            let isThere = present.values.contains {
                $0.kind == .trigger && $0.name.hasPrefix("Z_DA_") && $0.name.contains(prefix)
            }
            if !isThere { plan.made += parts }
        }
        for part in present.values.sorted(by: { $0.name < $1.name }) {
            let name = part.name.uppercased()
            let isUnwanted =
                mayDrop(part.name) && !kept.contains(name) && isOurs(part, triggers)
                && !isLeftOut(part.name)
            if replaced.contains(name) || isUnwanted {
                plan.dropped.append((part.kind, part.name))
            }
        }
        // Triggers first, as they refer to tables.
        plan.dropped.sort { ($0.kind == .trigger ? 0 : 1) < ($1.kind == .trigger ? 0 : 1) }
        return plan
    }

    /// Whether a part may be dropped or replaced.
    private func mayDrop(_ name: String) -> Bool {
        carriesModel || name.hasPrefix(SQLName.fullTextPrefix + "_")
    }

    /// The R-trees and full-text indexes that match the model and are maintained by triggers. Others cannot be queried: their
    /// columns may differ, and their rows may be stale.
    func usableIndexes() throws -> [SQLComputedIndex] {
        let all = schema.allComputedIndexes
        if all.isEmpty { return [] }
        var present: [String: Present] = [:]
        for part in try presentParts() { present[part.name.uppercased()] = part }
        let statements = SQLComputedIndexStatements(schema: schema)
        return all.filter { index in
            statements.parts(of: index).allSatisfy { part in
                guard let found = present[part.name.uppercased()] else { return false }
                return part.kind == .trigger
                    || Self.normalized(found.sql) == Self.normalized(part.sql)
            }
        }
    }

    /// The triggers, and the tables of R-trees and full-text indexes, that belong to neither the model nor another schema. The
    /// triggers of such a table are not listed separately.
    package func partsOfNeither(_ other: SQLSchema) throws -> [(
        part: SQLSchemaPart.Kind, name: String, table: String
    )] {
        let schemas = [schema, other]
        let names = Set(
            schemas.flatMap { SQLComputedIndexStatements(schema: $0).parts }.map {
                $0.name.uppercased()
            })
        let derived = schemas.flatMap { SQLDerivedTriggers(schema: $0).partsByAttribute }
        let rest = try presentParts().filter { part in
            let isComputed =
                part.kind == .trigger
                || part.kind == .table
                    && Self.normalized(part.sql).hasPrefix("CREATE VIRTUAL TABLE")
            let isDerived =
                part.name.hasPrefix("Z_DA_") && derived.contains { part.name.contains($0.name) }
            return isComputed && !isDerived && !names.contains(part.name.uppercased())
        }
        return rest.filter { part in
            part.kind == .table
                || !rest.contains { $0.kind == .table && part.name.hasPrefix($0.name + "_") }
        }.map { ($0.kind, $0.name, $0.table) }
    }

    /// The missing indexes of references, entities and join columns in a store made here. Opening does not create them; Core
    /// Data has used several such sets over the years.
    package func missingFixedIndexes() throws -> [SQLSchemaPart] {
        guard carriesModel else { return [] }
        let present = Set(try presentParts().map { $0.name.uppercased() })
        return SQLSchemaStatements(schema: schema).fixedIndexes.filter {
            !present.contains($0.name.uppercased())
        }
    }

    private func presentParts() throws -> [Present] {
        try connection.rows(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL "
                + "AND type IN ('index', 'trigger', 'table')"
        ) { row in
            SQLSchemaPart.Kind(rawValue: row.text(0)).map {
                Present(kind: $0, name: row.text(1), table: row.text(2), sql: row.text(3))
            }
        }
        .compactMap { $0 }
    }

    /// Whether a part is named like an index, or a trigger of a derived attribute, of one of the model's entities.
    private func isOurs(_ part: Present, _ triggers: SQLDerivedTriggers) -> Bool {
        let isOfEntity = { (prefix: String) in
            schema.keptEntities.contains { part.name.hasPrefix("\(prefix)_\($0.name)_") }
        }
        switch part.kind {
        case .index:
            return isOfEntity("Z") && !isNamedAfterAttribute(part.name)
                && schema.tables.contains { $0.name == part.table }
        case .table:
            let sql = Self.normalized(part.sql)
            return isOfEntity("Z_RT") && sql.hasPrefix("CREATE VIRTUAL TABLE")
                || isOfEntity(SQLName.fullTextPrefix) && sql.hasPrefix("CREATE VIRTUAL TABLE")
        case .trigger:
            if isOfEntity("Z_RT") || isOfEntity(SQLName.fullTextPrefix) { return true }
            guard part.name.hasPrefix("Z_DA_") else { return false }
            // Of an entity of the model, but of none of its derived attributes.
            return schema.keptEntities.contains { part.name.contains("_\($0.name)_") }
                && !triggers.partsByAttribute.contains { part.name.contains($0.name) }
        }
    }

    /// Whether a part belongs to a section of the model file that the reader left out.
    private func isLeftOut(_ name: String) -> Bool {
        schema.keptEntities.contains { entity in
            entity.description.leftOutNames.contains { leftOut in
                let stem = "_\(entity.name)_\(leftOut)"
                if leftOut.isEmpty {
                    return name.hasPrefix("Z" + stem) || name.hasPrefix("Z_RT" + stem)
                }
                return name == "Z" + stem
                    || ["Z_RT", SQLName.fullTextPrefix].contains { prefix in
                        name == prefix + stem || name.hasPrefix("\(prefix)\(stem)_")
                    } || name.hasPrefix("Z_DA_") && name.contains("\(stem)_")
            }
        }
    }

    /// Whether an index is named after an attribute, as Core Data did for old models; its migrations keep such indexes.
    private func isNamedAfterAttribute(_ name: String) -> Bool {
        schema.keptEntities.contains { entity in
            entity.slots.contains { "Z_\(entity.name)_\($0.name)" == name }
        }
    }

    /// Whether an old store has the constraint in its CREATE TABLE statement.
    private func isUniqueAnyway(_ part: SQLSchemaPart) throws -> Bool {
        guard let unique = part.unique else { return false }
        let wanted = Set(unique.columns.map { $0.uppercased() })
        return try connection.rows(
            "SELECT l.name, group_concat(upper(i.name), char(1)) FROM pragma_index_list(?) l "
                + "JOIN pragma_index_info(l.name) i WHERE l.origin = 'u' GROUP BY l.name",
            unique.table
        ) { Set($0.text(1).split(separator: "\u{1}").map(String.init)) }
        .contains(wanted)
    }

    /// The name of the index that a table or trigger belongs to.
    private static func indexName(of part: SQLSchemaPart) -> String {
        part.kind == .table
            ? part.name : String(part.name[..<(part.name.lastIndex(of: "_") ?? part.name.endIndex)])
    }

    /// A statement in canonical form.
    private static func normalized(_ sql: String) -> String {
        sql.replacing("\"", with: "").replacing(" IF NOT EXISTS", with: "")
            .split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    // MARK: - Executing

    /// Executes a plan in one transaction.
    ///
    /// - Throws: ``QuireError`` with code `constraintConflict` if objects violate a uniqueness constraint of the model;
    ///   ``SQLiteFailure``. Then nothing has changed.
    func run(_ plan: Plan) throws {
        if plan.isEmpty { return }
        try connection.begin()
        do {
            try apply(plan)
            try connection.commit()
        } catch {
            if connection.isInTransaction { try? connection.execute("ROLLBACK") }
            throw error
        }
    }

    /// Executes a plan within the caller's transaction.
    package func apply(_ plan: Plan) throws {
        for part in plan.dropped {
            try connection.execute(
                "DROP \(part.kind.rawValue.uppercased()) \(SQLName.quoted(part.name))")
        }
        var fillings: [String] = []
        for part in plan.made {
            do { try connection.execute(part.sql) } catch let failure as SQLiteFailure
                where failure.code == SQLiteFailure.uniqueConstraint
            {
                throw connection.duplicatesError(failure, schema)
            }
            if let filling = part.filling, !fillings.contains(filling) { fillings.append(filling) }
        }
        for filling in fillings { try connection.execute(filling) }
        if !fillings.isEmpty {
            try SQLiteDerivedRows(schema: schema, connection: connection).checkAll()
        }
        if carriesModel {
            let xml = String(decoding: schema.layout.model.modelXML(), as: UTF8.self)
            try connection.run("UPDATE \(SQLiteTables.model) SET Z_CONTENT = ?", xml)
            try connection.replaceModelCache(with: schema.layout.model)
        }
    }
}
