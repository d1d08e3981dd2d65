import CSQLite
import Foundation

/// One save: the steps in the order in which they must happen.
///
/// External data is on disk before the transaction begins; the transaction is the only point at which anything
/// becomes visible. If a step throws, the transaction is rolled back, and files that it would have referred to are
/// removed.
struct SQLiteSave {
    let store: SQLiteStore
    let writer: SQLiteWriter
    let changes: ChangeSet
    private var connection: SQLiteConnection { writer.connection }

    func run() throws {
        let hasExternalData = store.hasExternalData
        let files =
            hasExternalData
            ? try SQLiteExternalDataWriter(store: store, changes: changes).write()
            : SQLiteExternalFiles(externalData: store.externalData)
        let rows = SQLiteRowWriter(
            store: store, writer: writer, files: files, dropsExternalData: hasExternalData)
        do {
            try connection.execute("BEGIN IMMEDIATE")
            try noteForeignSaves()
            let greatest = try checkPrimaryKeys()
            try SQLiteSaveRows(store: store, writer: writer, rows: rows, changes: changes).write()
            try SQLiteRelationshipWriter(store: store, connection: connection).write(changes)
            try writeRecords()
            try writeDigests(files, removed: rows.droppedFiles)
            try writeGreatestPrimaryKeys(greatest)
            try connection.execute("COMMIT")
            store.didRecordPrimaryKeys(greatest.mapValues(\.recorded))
            writer.unreferencedFiles.formUnion(rows.droppedFiles)
        } catch {
            let error = describe(error, object: rows.currentObject)
            undo(after: error.failure)
            // If nobody knows whether the transaction is on disk, it may refer to them after all.
            if writer.poison == nil { files.remove() }
            throw error.error
        }
        if changes.inserted.count + changes.updated.count > Self.largeCount {
            connection.releaseMemory()
        }
    }

    /// With more rows than this the memory that the save took is given back.
    private static let largeCount = 10_000

    // MARK: - Failing

    private func describe(
        _ error: any Error, object: ManagedObjectID?
    ) -> (error: any Error, failure: SQLiteFailure?) {
        guard let failure = error as? SQLiteFailure else { return (error, nil) }
        var described = failure.error(path: store.storePath, schema: store.schema)
        if described.code == .constraintConflict || described.code == .invalidValue {
            described.subject.object = object?.uriRepresentation
            if let object { described.message += " The object is \(object.shortDescription)." }
        }
        return (described, failure)
    }

    private func undo(after failure: SQLiteFailure?) {
        var failure = failure
        if connection.isInTransaction {
            do {
                try connection.execute("ROLLBACK")
            } catch let other as SQLiteFailure {
                failure = other
                writer.poison = other.error(path: store.storePath)
            } catch {}
        }
        if let failure, failure.leavesFileUnknown {
            writer.poison = failure.error(path: store.storePath)
        }
    }

    // MARK: - Others

    private func noteForeignSaves() throws {
        let version = try connection.integer("PRAGMA data_version")
        // Before the first save nothing is known.
        if version != writer.dataVersion { store.didFindForeignSave() }
        writer.dataVersion = version
    }

    // MARK: - Primary keys

    /// The greatest key of a hierarchy that the save inserts, and what the store is to record.
    private struct KeyRange {
        var least: Int64
        var greatest: Int64
        var recorded: Int64

        mutating func include(_ key: Int64) {
            least = min(least, key)
            greatest = max(greatest, key)
        }
    }

    private func checkPrimaryKeys() throws -> [Int: KeyRange] {
        var ranges: [Int: KeyRange] = [:]
        var current: (entity: Int, root: Int, range: KeyRange)?
        changes.inserted.forEachInPlace { change in
            let entity = change.pointee.objectID.entityNumber
            let key = change.pointee.objectID.primaryKey
            if current?.entity == entity {
                current?.range.include(key)
            } else {
                if let current { ranges[current.root] = current.range }
                let root = store.layout.entity(number: entity).rootNumber
                var range = ranges[root] ?? KeyRange(least: key, greatest: key, recorded: key)
                range.include(key)
                current = (entity, root, range)
            }
        }
        if let current { ranges[current.root] = current.range }
        for (root, range) in ranges {
            let recorded =
                try connection.integer(
                    "SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_ENT = ?",
                    Int64(store.schema.entity(number: root).storeNumber)) ?? 0
            try store.checkPrimaryKeys(root: root, recorded: recorded, least: range.least)
            ranges[root]?.recorded = max(recorded, range.greatest)
        }
        return ranges
    }

    private func writeGreatestPrimaryKeys(_ ranges: [Int: KeyRange]) throws {
        for (root, range) in ranges {
            try connection.withStatement("UPDATE Z_PRIMARYKEY SET Z_MAX = ? WHERE Z_ENT = ?") {
                try $0.bind(range.recorded, at: 1)
                try $0.bind(Int64(store.schema.entity(number: root).storeNumber), at: 2)
                try $0.run()
            }
        }
    }

    // MARK: - Tables of our own

    private func writeRecords() throws {
        if changes.records.isEmpty { return }
        try connection.execute(SQLiteTables.createRecords)
        for (key, value) in changes.records {
            if let value {
                try connection.withStatement(
                    "INSERT OR REPLACE INTO \(SQLiteTables.records) VALUES (?, ?)"
                ) {
                    try $0.bind(key, at: 1)
                    try $0.bind(value, at: 2)
                    try $0.run()
                }
            } else {
                try connection.withStatement(
                    "DELETE FROM \(SQLiteTables.records) WHERE Z_KEY = ?"
                ) {
                    try $0.bind(key, at: 1)
                    try $0.run()
                }
            }
        }
    }

    /// Records sizes and digests of new files, so that a check can tell whether they are whole. Only in stores made
    /// here; others get no tables that they do not have.
    private func writeDigests(_ files: SQLiteExternalFiles, removed: Set<String>) throws {
        guard store.carriesModel, !(files.isEmpty && removed.isEmpty) else { return }
        try connection.execute(SQLiteTables.createExternalData)
        for file in files.all {
            try connection.withStatement(
                "INSERT INTO \(SQLiteTables.externalData) VALUES (?, ?, ?)"
            ) {
                try $0.bind(file.name, at: 1)
                try $0.bind(Int64(file.size), at: 2)
                try $0.bind(file.digest, at: 3)
                try $0.run()
            }
        }
        for name in removed {
            try connection.withStatement(
                "DELETE FROM \(SQLiteTables.externalData) WHERE Z_UUID = ?"
            ) {
                try $0.bind(name, at: 1)
                try $0.run()
            }
        }
    }
}

extension [ObjectChange] {
    /// Calls a closure with the address of each change: a copy would retain everything that the change holds.
    @inline(__always)
    func forEachInPlace(_ body: (UnsafePointer<ObjectChange>) throws -> Void) rethrows {
        try withUnsafeBufferPointer { changes in
            guard let start = changes.baseAddress else { return }
            for index in 0..<changes.count { try body(start + index) }
        }
    }
}
