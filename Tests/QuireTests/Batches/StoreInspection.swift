import Foundation
import QuireSQLite

@testable import Quire

/// Looks at a whole store: what is in it, and whether that is consistent.
struct StoreInspection {
    private let store: SQLiteStore
    private var schema: SQLSchema { store.schema }

    init(_ store: SQLiteStore) { self.store = store }

    /// A line for each object: its version, values, and what its to-many relationships lead to.
    func dump() throws -> [String] {
        var lines: [String] = []
        for entity in store.layout.entities {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            for row in try store.rows(matching: request.specification) {
                var line = "\(row.objectID.shortDescription) v\(row.version)"
                for slot in entity.slots where slot.isStored {
                    let value = try row.value(at: slot.index)
                    if !value.isNull { line += " \(slot.name)=\(value)" }
                }
                for relationship in entity.relationships where relationship.isToMany {
                    let members = try store.relatedRows(of: row.objectID, through: relationship)
                        .map(\.objectID.shortDescription)
                    if !members.isEmpty {
                        let shown = relationship.isOrdered ? members : members.sorted()
                        line += " \(relationship.name)=\(shown.joined(separator: ","))"
                    }
                }
                lines.append(line)
            }
        }
        return lines
    }

    /// What is wrong with the store, one text for each problem.
    func problems() throws -> [String] {
        var problems = try store.integrityProblems()
        for entity in store.layout.entities {
            for relationship in entity.relationships where relationship.inverseIndex != nil {
                problems += try self.problems(of: relationship, in: entity)
            }
        }
        for join in schema.joinTables {
            for (column, side) in [
                (join.firstColumn, join.namingSide), (join.secondColumn, join.otherSide),
            ] {
                let owner = schema.entity(number: side.entityNumber).tableName
                let orphans = try number(
                    "SELECT count(*) FROM \(SQLName.quoted(join.name)) WHERE \(SQLName.quoted(column)) NOT IN "
                        + "(SELECT Z_PK FROM \(SQLName.quoted(owner)))")
                if orphans > 0 { problems.append("\(join.name).\(column): \(orphans) orphans") }
            }
        }
        for table in schema.tables {
            let root = schema.entity(number: table.rootNumber)
            let greatest = try number("SELECT max(Z_PK) FROM \(SQLName.quoted(table.name))")
            let recorded = try number(
                "SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_ENT = \(root.storeNumber)")
            if recorded < greatest {
                problems.append("\(table.name): key \(greatest) beyond \(recorded)")
            }
        }
        for file in try store.externalFiles() {
            let size = try? FileSystem.information(at: file.path)?.size
            if size == nil || size != file.size { problems.append("\(file.path) is missing") }
        }
        return problems
    }

    private func problems(
        of relationship: ResolvedEntity.Relationship, in entity: ResolvedEntity
    ) throws -> [String] {
        let place = schema.entity(entity)
        guard let slot = relationship.slot, let column = place.columns[slot],
            let inverse = store.layout.inverse(of: relationship)
        else { return [] }
        let name = "\(entity.name).\(relationship.name)"
        let rows = "\(SQLName.quoted(place.tableName)) t WHERE t.Z_ENT = \(place.storeNumber) AND "
        let key = "t.\(SQLName.quoted(column.name))"
        let target = schema.entity(number: relationship.destinationNumber)
        let others = SQLName.quoted(target.tableName)
        var problems: [String] = []
        func check(_ what: String, _ condition: String) throws {
            let count = try number("SELECT count(*) FROM \(rows)\(condition)")
            if count > 0 { problems.append("\(name): \(count) \(what)") }
        }
        try check("dangling", "\(key) IS NOT NULL AND \(key) NOT IN (SELECT Z_PK FROM \(others))")
        if !relationship.description.isOptional { try check("required", "\(key) IS NULL") }
        if let order = column.orderColumn {
            let order = "t.\(SQLName.quoted(order))"
            try check("without a place", "(\(key) IS NULL) <> (\(order) IS NULL)")
        }
        if let back = inverse.slot.flatMap({ target.columns[$0] }) {
            try check(
                "one-sided",
                "\(key) IS NOT NULL AND t.Z_PK IS NOT (SELECT o.\(SQLName.quoted(back.name)) FROM "
                    + "\(others) o WHERE o.Z_PK = \(key))")
        }
        return problems
    }

    private func number(_ sql: String) throws -> Int64 {
        try store.read { try $0.integer(sql) ?? 0 }
    }
}
