import Foundation
internal import QuireModel
internal import QuireQuery

/// An index of a model with a table maintained by triggers: an R-tree of ranges, or a full-text index.
///
/// R-tree: `Z_RT_Entity_index`, as Core Data names it, with `Z_PK` and a minimum and maximum for each attribute, which differ
/// only by rounding: R-trees keep 32-bit numbers and round outwards. So a range query may return false positives; compare the
/// attributes again. Objects with a nil attribute are not in it.
///
/// Full text: `QUIRE_FT_Entity_index`, a contentless FTS5 table whose `rowid` is `Z_PK`. Its triggers and tokenizer are
/// SQLite's own, so any program that writes the store keeps it up to date.
struct SQLComputedIndex: Sendable, Hashable {
    /// The kind of index.
    enum Kind: Sendable {
        case rtree, fullText
    }

    let kind: Kind
    /// The table's name.
    let name: String
    /// The entity that declares the index; sub-entities are included.
    let entityNumber: Int
    /// The slots of the attributes, in the index's order.
    let slots: [Int]
    /// Their columns in the object table. A full-text index has the same column names; an R-tree appends `_MIN` and `_MAX`.
    let columns: [String]

    /// The R-tree's columns for the range of a slot.
    func rangeColumns(of slot: Int) -> (least: String, greatest: String)? {
        guard kind == .rtree, let index = slots.firstIndex(of: slot) else { return nil }
        return (columns[index] + "_MIN", columns[index] + "_MAX")
    }
}

extension SQLSchema {
    /// The store's R-trees for an entity's objects.
    func rtreeIndexes(of entity: ResolvedEntity) -> [SQLComputedIndex] {
        computedIndexes(.rtree, of: entity)
    }

    /// A usable R-tree of an entity that covers some slots.
    func rtreeIndex(of entity: ResolvedEntity, covering slots: [Int]) -> SQLComputedIndex? {
        rtreeIndexes(of: entity).filter { Set(slots).isSubset(of: $0.slots) }
            .min { $0.slots.count < $1.slots.count }
    }

    /// A usable full-text index of a slot. Search it in the slot's column:
    ///
    /// ```sql
    /// t0.Z_PK IN (SELECT rowid FROM QUIRE_FT_Book_byText WHERE QUIRE_FT_Book_byText MATCH ?)
    /// ```
    ///
    /// with ``TextSearch/matchExpression(in:)`` bound, which names the columns to search.
    func fullTextIndex(
        of entity: ResolvedEntity, covering slot: Int
    ) -> (index: SQLComputedIndex, column: String)? {
        for index in computedIndexes(.fullText, of: entity) {
            if let position = index.slots.firstIndex(of: slot) {
                return (index, index.columns[position])
            }
        }
        return nil
    }

    private func computedIndexes(
        _ kind: SQLComputedIndex.Kind, of entity: ResolvedEntity
    ) -> [SQLComputedIndex] {
        computedIndexes.filter {
            $0.kind == kind
                && layout.entity(number: $0.entityNumber).subtree.contains(entity.number)
        }
    }

    /// All computed indexes of the model, whether or not they are in the store.
    var allComputedIndexes: [SQLComputedIndex] {
        layout.entities.flatMap { entity in
            entity.description.indexes.compactMap { index -> SQLComputedIndex? in
                let kind: SQLComputedIndex.Kind
                switch index.elements.first?.kind {
                case .rtree?: kind = .rtree
                case .fullText?: kind = .fullText
                case .binary?, nil: return nil
                }
                let slots = index.elements.compactMap {
                    $0.propertyName.flatMap(entity.slot(named:))
                }
                let columns = slots.compactMap { self.entity(entity).columns[$0]?.name }
                guard columns.count == index.elements.count else { return nil }
                let prefix = kind == .rtree ? "Z_RT" : SQLName.fullTextPrefix
                return SQLComputedIndex(
                    kind: kind, name: "\(prefix)_\(entity.name)_\(index.name)",
                    entityNumber: entity.number, slots: slots, columns: columns)
            }
        }
    }
}

// MARK: - Statements

/// Generates the tables and triggers of R-trees and full-text indexes.
struct SQLComputedIndexStatements {
    let schema: SQLSchema

    var parts: [SQLSchemaPart] { schema.allComputedIndexes.flatMap(parts) }

    func parts(of index: SQLComputedIndex) -> [SQLSchemaPart] {
        switch index.kind {
        case .rtree: rtree(index)
        case .fullText: fullText(index)
        }
    }

    // MARK: - R-trees

    private func rtree(_ index: SQLComputedIndex) -> [SQLSchemaPart] {
        let place = schema.entity(number: index.entityNumber)
        let name = SQLName.quoted(index.name)
        let table = SQLName.quoted(place.tableName)
        let ranges = index.columns.flatMap { [$0 + "_MIN", $0 + "_MAX"] }.map(SQLName.quoted)
        let declared = ranges.map { "\($0) FLOAT" }.joined(separator: ", ")
        func values(_ row: String) -> String {
            index.columns.flatMap {
                ["\(row)\(SQLName.quoted($0))", "\(row)\(SQLName.quoted($0))"]
            }
            .joined(separator: ", ")
        }
        func isIndexed(_ row: String) -> String {
            (index.columns.map { "\(row)\(SQLName.quoted($0)) NOT NULL" }
                + [ofEntity(place, row)].compactMap { $0 }).joined(separator: " AND ")
        }
        let columns = "Z_PK, \(ranges.joined(separator: ", "))"
        let insertion =
            "INSERT INTO \(name) (\(columns)) SELECT NEW.Z_PK, \(values("NEW.")) WHERE \(isIndexed("NEW."));"
        let deletion = "DELETE FROM \(name) WHERE Z_PK = OLD.Z_PK;"
        return [
            SQLSchemaPart(
                kind: .table, name: index.name,
                sql:
                    "CREATE VIRTUAL TABLE \(name) USING RTREE (Z_PK INTEGER PRIMARY KEY, \(declared))",
                filling:
                    "INSERT INTO \(name) (\(columns)) SELECT Z_PK, \(values("")) FROM \(table) "
                    + "WHERE \(isIndexed(""))")
        ]
            + triggers(
                index, on: table, insertion: insertion, update: deletion + " " + insertion,
                deletion: deletion)
    }

    // MARK: - Full text

    private func fullText(_ index: SQLComputedIndex) -> [SQLSchemaPart] {
        let place = schema.entity(number: index.entityNumber)
        let name = SQLName.quoted(index.name)
        let table = SQLName.quoted(place.tableName)
        let columns = index.columns.map(SQLName.quoted)
        let list = columns.joined(separator: ", ")
        func values(_ row: String) -> String {
            columns.map { "\(row).\($0)" }.joined(separator: ", ")
        }
        func condition(_ row: String) -> String {
            ofEntity(place, row).map { " WHERE \($0)" } ?? ""
        }
        let insertion =
            "INSERT INTO \(name) (rowid, \(list)) SELECT NEW.Z_PK, \(values("NEW"))\(condition("NEW."));"
        // A contentless table needs the old values for a deletion.
        let deletion =
            "INSERT INTO \(name) (\(name), rowid, \(list)) SELECT 'delete', OLD.Z_PK, "
            + "\(values("OLD"))\(condition("OLD."));"
        return [
            SQLSchemaPart(
                kind: .table, name: index.name,
                sql: "CREATE VIRTUAL TABLE \(name) USING fts5(\(list), content='', "
                    + "tokenize='unicode61 remove_diacritics 2')",
                filling: "INSERT INTO \(name) (rowid, \(list)) SELECT Z_PK, \(list) FROM \(table)"
                    + condition(""))
        ]
            + triggers(
                index, on: table, insertion: insertion, update: deletion + " " + insertion,
                deletion: deletion)
    }

    // MARK: - Triggers

    private func triggers(
        _ index: SQLComputedIndex, on table: String, insertion: String, update: String,
        deletion: String
    ) -> [SQLSchemaPart] {
        let columns = index.columns.map(SQLName.quoted).joined(separator: ", ")
        return [
            ("INSERT", "INSERT", insertion), ("UPDATE", "UPDATE OF \(columns)", update),
            ("DELETE", "DELETE", deletion),
        ].map { event, fired, body in
            let name = "\(index.name)_\(event)"
            return SQLSchemaPart(
                kind: .trigger, name: name,
                sql:
                    "CREATE TRIGGER \(SQLName.quoted(name)) AFTER \(fired) ON \(table) FOR EACH ROW "
                    + "BEGIN \(body) END")
        }
    }

    /// The condition that a row is of the index's entity, if the table is shared with other entities.
    private func ofEntity(_ place: SQLEntity, _ row: String) -> String? {
        if schema.layout.entity(number: place.number).rootNumber == place.number { return nil }
        let numbers = place.subtreeStoreNumbers.map(String.init).joined(separator: ", ")
        return "\(row)Z_ENT IN (\(numbers))"
    }
}

// MARK: - Partial indexes

/// Translates the predicate of a partial index to SQL, if it only compares attributes with constants.
///
/// An index has no parameters, so constants become literals; `ZFAVORITE = 1`, `ZCOL IS NOT NULL`, `ZKIND <> 4 OR ZYEAR > 1900`.
/// A comparison with NULL is not true in SQL, so `kind != 4` leaves out objects without a kind, as Core Data's index does:
/// SQLite uses an index only where its condition follows from that of the query.
struct SQLPartialIndex {
    let entity: ResolvedEntity
    let schema: SQLSchema

    /// The condition; `nil` if it cannot be translated. Then all objects are indexed, with the same results.
    func condition(_ format: String) -> String? {
        guard let predicate = try? QueryPredicate(format: format) else { return nil }
        return condition(predicate)
    }

    private func condition(_ predicate: QueryPredicate) -> String? {
        switch predicate {
        case .comparison(let comparison): return condition(comparison)
        case .and(let parts): return condition(parts, joinedBy: " AND ")
        case .or(let parts): return condition(parts, joinedBy: " OR ")
        case .not, .constant: return nil
        }
    }

    private func condition(_ parts: [QueryPredicate], joinedBy operation: String) -> String? {
        var conditions: [String] = []
        for part in parts {
            guard let condition = condition(part) else { return nil }
            switch part {
            case .and, .or: conditions.append("(\(condition))")
            case .comparison, .not, .constant: conditions.append(condition)
            }
        }
        return conditions.isEmpty ? nil : conditions.joined(separator: operation)
    }

    private func condition(_ comparison: QueryComparison) -> String? {
        guard comparison.modifier == .direct, comparison.options == [],
            case .keyPath(let keys) = comparison.left,
            case .constant(let constant) = comparison.right,
            case .attribute(let slot)? = entity.properties[keys.joined(separator: ".")],
            let column = schema.entity(entity).columns[slot].map({ SQLName.quoted($0.name) })
        else { return nil }
        if constant.isNull {
            switch comparison.operator {
            case .equal: return "\(column) IS NULL"
            case .notEqual: return "\(column) IS NOT NULL"
            default: return nil
            }
        }
        guard let literal = literal(constant, for: entity.slots[slot]) else { return nil }
        switch comparison.operator {
        case .equal: return "\(column) = \(literal)"
        case .notEqual: return "\(column) <> \(literal)"
        case .less: return "\(column) < \(literal)"
        case .lessOrEqual: return "\(column) <= \(literal)"
        case .greater: return "\(column) > \(literal)"
        case .greaterOrEqual: return "\(column) >= \(literal)"
        default: return nil
        }
    }

    private func literal(_ value: AttributeValue, for slot: ResolvedEntity.Slot) -> String? {
        switch (slot.storage, value) {
        case (.integer, .integer(let integer)), (.boolean, .integer(let integer)): String(integer)
        case (.boolean, .boolean(let boolean)): boolean ? "1" : "0"
        case (.double, .integer(let integer)): String(integer)
        case (.double, .double(let double)): double.isFinite ? String(double) : nil
        case (.string, .string(let text)): text.contains("\0") ? nil : SQLName.literal(text)
        default: nil
        }
    }
}
