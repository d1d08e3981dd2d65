internal import QuireModel

/// Writes the tables and triggers of R-trees and full-text indexes.
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
        // A table without contents must be told what it had.
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

    /// Whether a row is of the index's entity, if others are in the table.
    private func ofEntity(_ place: SQLEntity, _ row: String) -> String? {
        if schema.layout.entity(number: place.number).rootNumber == place.number { return nil }
        let numbers = place.subtreeStoreNumbers.map(String.init).joined(separator: ", ")
        return "\(row)Z_ENT IN (\(numbers))"
    }
}
