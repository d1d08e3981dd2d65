package import Foundation
internal import QuireModel
internal import QuireSystem

/// A file with external data, as a store knows it.
package struct SQLiteExternalFile: Sendable {
    /// The file's path.
    package var path: String
    /// The number of its bytes, if the store has recorded it.
    package var size: Int64?
    /// The digest of its bytes, if the store has recorded it.
    package var sha256: Data?
}

extension SQLiteStore {
    /// What SQLite finds wrong with the database, one text for each problem.
    package func integrityProblems() throws -> [String] {
        try read { connection in
            try connection.withStatement("PRAGMA integrity_check") { statement in
                var problems: [String] = []
                do {
                    while try statement.step() {
                        // A row can hold a hundred of them, under a heading.
                        let lines = statement.text(0).split(separator: "\n")
                        let findings = lines.filter { !$0.hasPrefix("***") }
                        problems += (findings.isEmpty ? lines : findings).map(String.init)
                    }
                } catch let failure as SQLiteFailure where !problems.isEmpty {
                    // It stops where a page makes no sense. What has been found before says which.
                    let error = failure.error(path: storePath)
                    if error.code != .invalidFormat { throw failure }
                }
                return problems == ["ok"] ? [] : problems
            }
        }
    }

    /// The files that the rows refer to, sorted by their paths.
    ///
    /// - Complexity: O(*n*) in the rows of entities with attributes that may be kept in files.
    package func externalFiles() throws -> [SQLiteExternalFile] {
        let names = try externalFileNames()
        var recorded: [String: (size: Int64, sha256: Data)] = [:]
        try read { connection in
            guard try connection.hasTable(SQLiteTables.externalData) else { return }
            let sql = "SELECT Z_UUID, Z_BYTES, Z_SHA256 FROM \(SQLiteTables.externalData)"
            try connection.withStatement(sql) {
                while try $0.step() { recorded[$0.text(0)] = ($0.integer(1), $0.data(2)) }
            }
        }
        return names.sorted().map { name in
            SQLiteExternalFile(
                path: externalData.path(ofFileNamed: name), size: recorded[name]?.size,
                sha256: recorded[name]?.sha256)
        }
    }

    /// The files of external data that are there, whether any row refers to them or not: for stores whose rows cannot be
    /// read.
    package func presentExternalFiles() throws -> [SQLiteExternalFile] {
        try externalData.names().filter(SQLiteExternalData.isFileName).sorted().map {
            SQLiteExternalFile(path: externalData.path(ofFileNamed: $0))
        }
    }

    /// The paths of files with external data that no row refers to: rubbish of interrupted saves, or of finished ones while
    /// the store is open.
    package func unreferencedExternalFiles() throws -> [String] {
        let present = try externalData.names()
        if present.isEmpty { return [] }
        let names = try externalFileNames()
        return present.filter {
            SQLiteExternalData.isFileName($0) && !names.contains($0)
                || FileSystem.isTemporaryName($0)
        }
        .map(externalData.path(ofFileNamed:))
    }

    /// The names of the files that the rows refer to.
    func externalFileNames() throws -> Set<String> { try read(externalFileNames) }

    /// The names of the files that the rows refer to, as a connection sees them.
    func externalFileNames(_ connection: SQLiteConnection) throws -> Set<String> {
        var names: Set<String> = []
        for (table, column) in externalColumns {
            let sql = "SELECT \(column) FROM \(table) WHERE substr(\(column), 1, 1) = x'02'"
            try connection.withStatement(sql) { statement in
                while try statement.step() {
                    let value = statement.data(0)
                    if let name = value.withUnsafeBytes(SQLiteExternalData.fileName) {
                        names.insert(name)
                    }
                }
            }
        }
        return names
    }

    /// The columns whose values may be in files, with their tables, quoted.
    var externalColumns: [(table: String, column: String)] {
        var columns: Set<[String]> = []
        for entity in layout.entities {
            let place = schema.entity(entity)
            for slot in entity.slots where slot.isExternalCapable {
                if let column = place.columns[slot.index] {
                    columns.insert([place.tableName, column.name])
                }
            }
        }
        return columns.map { (SQLName.quoted($0[0]), SQLName.quoted($0[1])) }
    }
}
