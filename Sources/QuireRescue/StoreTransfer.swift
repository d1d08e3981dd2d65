internal import Crypto
package import Foundation
internal import QuireModel
package import QuireProtection
internal import QuireSQLite
internal import QuireSystem

/// Copies the contents of a salvaged database into a new store of the same model, whose schema may differ.
struct StoreTransfer {
    /// The losses of the copy.
    struct Losses {
        /// Values that are of no form in which they could be read.
        var values = 0
        /// Rows of no entity, or with keys that are none.
        var rows = 0
        /// Objects that violate a uniqueness constraint with other objects.
        var duplicates = 0
    }

    let source: SQLSchema
    let target: SQLSchema
    /// The new store's connection, to which the salvaged database is attached.
    let connection: SQLiteConnection

    /// The schema name of the attached salvaged database.
    static let attached = "salvaged"

    private func attached(_ table: String) -> String {
        "\(Self.attached).\(SQLName.quoted(table))"
    }

    /// Copies objects and pairs.
    func run() throws -> Losses {
        var losses = Losses()
        for entity in target.keptEntities where !entity.isAbstract {
            try copyObjects(of: entity, &losses)
        }
        for table in source.tables {
            let numbers = source.layout.entity(number: table.rootNumber).subtree
                .filter { !source.layout.entity(number: $0).isAbstract }
                .map { source.entity(number: $0).storeNumber }
            losses.rows += Int(
                try connection.integer(
                    "SELECT count(*) FROM \(attached(table.name)) WHERE Z_ENT IS NULL OR Z_ENT NOT IN "
                        + "\(StorageClassCheck.list(numbers)) OR NOT \(StorageClassCheck.isKey("Z_PK"))"
                ) ?? 0)
        }
        for join in target.joinTables { try copyPairs(of: join) }
        return losses
    }

    private func copyObjects(of entity: ResolvedEntity, _ losses: inout Losses) throws {
        let from = source.entity(entity)
        let to = target.entity(entity)
        var columns: [(name: String, expression: String)] = []
        var unreadable: [String] = []
        for slot in entity.slots where slot.isStored {
            guard let old = from.columns[slot.index], let new = to.columns[slot.index] else {
                continue
            }
            let column = SQLName.quoted(old.name)
            let isReadable = StorageClassCheck.isReadable(slot, column)
            // A value without the expected tag is still valid.
            let other =
                slot.isExternalCapable
                ? " WHEN typeof(\(column)) = 'blob' AND substr(\(column), 1, 1) <> x'02' THEN "
                    + "CAST(x'01' || \(column) AS BLOB)" : ""
            columns.append((new.name, "CASE WHEN \(isReadable) THEN \(column)\(other) END"))
            unreadable.append("(\(column) IS NOT NULL AND NOT \(isReadable))")
            if let old = old.orderColumn, let new = new.orderColumn {
                columns.append((new, integer(old)))
            }
        }
        let known = RelationshipColumns(schema: source).loneColumns
        for lone in RelationshipColumns(schema: target).loneColumns
        where target.layout.destination(of: lone.relationship).subtree.contains(entity.number) {
            guard
                let old = known.first(where: {
                    $0.entity.number == lone.entity.number
                        && $0.relationship.index == lone.relationship.index
                })
            else { continue }
            columns.append((lone.key.column, integer(old.key.column)))
            if let old = old.key.orderColumn, let new = lone.key.orderColumn {
                columns.append((new, integer(old)))
            }
        }
        let condition = "Z_ENT = \(from.storeNumber) AND \(StorageClassCheck.isKey("Z_PK"))"
        let table = attached(from.tableName)
        let there = try connection.integer("SELECT count(*) FROM \(table) WHERE \(condition)") ?? 0
        if !unreadable.isEmpty {
            losses.values += Int(
                try connection.integer(
                    "SELECT total(\(unreadable.joined(separator: " + "))) FROM \(table) WHERE \(condition)"
                ) ?? 0)
        }
        let names = columns.map { ", " + SQLName.quoted($0.name) }.joined()
        let expressions = columns.map { ", " + $0.expression }.joined()
        try connection.execute(
            """
            INSERT OR IGNORE INTO main.\(SQLName.quoted(to.tableName)) (Z_PK, Z_ENT, Z_OPT\(names)) \
            SELECT Z_PK, \(to.storeNumber), CASE WHEN typeof(Z_OPT) = 'integer' AND Z_OPT BETWEEN 1 AND \(UInt32.max) \
            THEN Z_OPT ELSE 1 END\(expressions) FROM \(table) WHERE \(condition)
            """)
        losses.duplicates += Int(there) - connection.changeCount
    }

    private func integer(_ column: String) -> String {
        "CASE typeof(\(SQLName.quoted(column))) WHEN 'integer' THEN \(SQLName.quoted(column)) END"
    }

    private func copyPairs(of join: SQLJoinTable) throws {
        guard
            let old = source.joinTables.first(where: {
                Set([$0.namingSide, $0.otherSide]) == Set([join.namingSide, join.otherSide])
            })
        else { return }
        let isSame = old.namingSide == join.namingSide
        var columns = [
            (join.firstColumn, isSame ? old.firstColumn : old.secondColumn),
            (join.secondColumn, isSame ? old.secondColumn : old.firstColumn),
        ]
        for (new, order) in [
            (join.firstOrderColumn, isSame ? old.firstOrderColumn : old.secondOrderColumn),
            (join.secondOrderColumn, isSame ? old.secondOrderColumn : old.firstOrderColumn),
        ] {
            if let new, let order { columns.append((new, order)) }
        }
        try connection.execute(
            "INSERT OR IGNORE INTO main.\(SQLName.quoted(join.name)) "
                + "(\(columns.map { SQLName.quoted($0.0) }.joined(separator: ", "))) "
                + "SELECT \(columns.map { integer($0.1) }.joined(separator: ", ")) FROM \(attached(old.name))"
        )
    }
}

// MARK: - Digests

/// Digests of files.
package enum FileDigest {
    /// Whether a file's content matches the SHA-256 of the written value. A file that fails authentication does not match.
    ///
    /// - Parameter advance: Called with the number of bytes read so far. If it throws, reading ends.
    package static func isSHA256(
        _ expected: Data, ofFileAt path: String, beneath root: String,
        unsealing classKey: ClassKey?, advance: (_ bytes: Int64) throws -> Void = { _ in }
    ) throws -> Bool {
        var digest = SHA256()
        var count: Int64 = 0
        let opened = try OpenFile.open(path, beneath: root, for: .reading)
        do {
            let file = try ContentFile(opened, unsealing: classKey)
            try file.forEachBlock(ofSize: 262_144) {
                digest.update(bufferPointer: $0)
                count += Int64($0.count)
                try advance(count)
            }
        } catch let error as QuireError where error.code == .invalidFormat && classKey != nil {
            return false
        }
        return Data(digest.finalize()) == expected
    }
}
