import CSQLite
import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// One save: its steps in execution order.
///
/// External data is on disk before the transaction begins; the commit is the only point at which anything becomes visible.
/// If a step throws, the transaction is rolled back and the files that it would have referred to are removed.
struct SQLiteSave {
    let store: SQLiteStore
    let writer: SQLiteWriter
    let changes: ChangeSet
    private var connection: SQLiteConnection { writer.connection }

    /// - Returns: The objects outside the change set whose derived values the save has set.
    func run(beforeCommit: () throws -> Void) throws -> [ManagedObjectID] {
        do {
            return try write(beforeCommit: beforeCommit)
        } catch {
            writer.note(error)
            throw error
        }
    }

    private func write(beforeCommit: () throws -> Void) throws -> [ManagedObjectID] {
        if let failure = writer.joinedSaves?.failure { throw failure }
        let hasExternalData = store.hasExternalData
        var files = SQLiteExternalDataWriter(store: store, connection: connection)
        if hasExternalData { try files.write(changes) }
        let rows = SQLiteRowWriter(
            store: store, writer: writer, files: files, dropsExternalData: hasExternalData)
        let derived: [ManagedObjectID]
        do {
            if writer.joinedSaves == nil { try connection.begin() }
            try checkDataVersion()
            let greatest = try checkPrimaryKeys()
            let history = try SQLiteHistoryWriter(
                store: store, writer: writer, origin: changes.origin)
            try history?.recordDeletions(in: changes)
            connection.derivedLog.begin(store.schema)
            let derivedRows = SQLiteDerivedRows(
                schema: store.schema, connection: connection, changes: changes)
            try derivedRows.prepare()
            try SQLiteSaveRows(store: store, writer: writer, rows: rows, changes: changes).write()
            try SQLiteRelationshipWriter(store: store, connection: connection).write(changes)
            try derivedRows.write()
            derived = connection.derivedLog.end(
                besides: changes, schema: store.schema, store: store.identity)
            try history?.recordWrittenObjects(in: changes, derived: derived)
            let transaction = try history?.finish()
            try writeRecords()
            // Foreign stores get no tables that they do not have.
            if store.carriesModel {
                try files.writeRecords(removing: rows.droppedFiles)
            }
            try writeGreatestPrimaryKeys(greatest)
            try beforeCommit()
            if let joinedSaves = writer.joinedSaves {
                joinedSaves.add(
                    rows.files, dropping: rows.droppedFiles, transaction: transaction)
                store.didRecordPrimaryKeys(greatest)
            } else {
                try connection.returnFreePages()
                try connection.commit()
                if let transaction { writer.recordedTransactions.append(transaction) }
                store.didRecordPrimaryKeys(greatest)
                writer.unreferencedFiles.formUnion(rows.droppedFiles)
                rows.files.didSave()
            }
        } catch {
            let error = describe(error, object: rows.currentObject)
            writer.joinedSaves?.failure = error.error
            Self.undo(after: error.failure, store: store, writer: writer)
            rows.files.didFail(writer)
            if writer.poison == nil, writer.joinedSaves == nil,
                (error.error as? QuireError)?.underlying is SaveConflicts
            {
                try claimPrimaryKeys()
            }
            throw error.error
        }
        if changes.inserted.count + changes.updated.count > Self.largeCount {
            connection.releaseMemory()
        }
        return derived
    }

    /// Row count above which the connection's memory is released after a save.
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

    /// Rolls back a failed transaction; poisons the writer if the on-disk state is unknown.
    static func undo(after failure: SQLiteFailure?, store: SQLiteStore, writer: SQLiteWriter) {
        var failure = failure
        writer.history = SQLiteHistoryCache()
        if writer.connection.isInTransaction {
            do {
                try writer.connection.execute("ROLLBACK")
            } catch let other as SQLiteFailure {
                failure = other
                writer.poison = other.error(path: store.storePath)
            } catch {}
        }
        if let failure, failure.leavesFileUnknown {
            writer.poison = failure.error(path: store.storePath)
        }
        if let lost = writer.connection.lostCommit { writer.poison = lost }
    }

    // MARK: - External commits

    private func checkDataVersion() throws {
        let version = try connection.integer("PRAGMA data_version")
        // Before the first save no version is known.
        if version != writer.dataVersion {
            try writer.modelVersionCheck.check(connection)
            store.didFindExternalCommit()
            writer.history = SQLiteHistoryCache()
        }
        writer.dataVersion = version
    }

    // MARK: - Primary keys

    /// Records the keys of new objects although the save failed. Objects read while conflicts are resolved must not turn out
    /// to have the same keys.
    private func claimPrimaryKeys() throws {
        if changes.inserted.isEmpty || store.options.isOnlyWriter { return }
        do {
            try connection.begin()
            let greatest = try checkPrimaryKeys()
            try writeGreatestPrimaryKeys(greatest)
            try connection.commit()
            store.didRecordPrimaryKeys(greatest)
        } catch {
            Self.undo(after: error as? SQLiteFailure, store: store, writer: writer)
            throw error
        }
    }

    /// The greatest keys to record, by the number of the root entity.
    private func checkPrimaryKeys() throws -> [Int: Int64] {
        var greatest: [Int: Int64] = [:]
        var current: (entity: Int, root: Int, greatest: Int64)?
        changes.inserted.forEachInPlace { change in
            let entity = change.pointee.objectID.entityNumber
            let key = change.pointee.objectID.primaryKey
            if let (known, root, last) = current {
                if known == entity {
                    if key > last { current?.greatest = key }
                    return
                }
                greatest[root] = last
            }
            let root = store.layout.entity(number: entity).rootNumber
            current = (entity, root, max(greatest[root] ?? 0, key))
        }
        if let current { greatest[current.root] = current.greatest }
        for (root, key) in greatest {
            let recorded = try connection.maximumPrimaryKey(
                of: store.schema.entity(number: root).storeNumber)
            try store.checkPrimaryKeys(root: root, recorded: recorded, changes.inserted)
            greatest[root] = max(recorded, key)
        }
        return greatest
    }

    private func writeGreatestPrimaryKeys(_ greatest: [Int: Int64]) throws {
        store.willRecordPrimaryKeys(greatest)
        for (root, key) in greatest {
            try connection.recordGreatestPrimaryKey(
                key, of: store.schema.entity(number: root).storeNumber)
        }
    }

    // MARK: - Tables of our own

    private func writeRecords() throws {
        if changes.records.isEmpty { return }
        try connection.execute(SQLiteTables.createRecords)
        for (key, value) in changes.records {
            if let value {
                try connection.run(
                    "INSERT OR REPLACE INTO \(SQLiteTables.records) VALUES (?, ?)", key, value)
            } else {
                try connection.run("DELETE FROM \(SQLiteTables.records) WHERE Z_KEY = ?", key)
                if key == SQLiteStore.draftRecordKey {
                    try connection.execute(SQLiteTables.dropDraft)
                }
            }
        }
    }
}

extension [ObjectChange] {
    /// Calls a closure with the address of each change: a copy would retain the change's contents.
    @inline(__always)
    func forEachInPlace(_ body: (UnsafePointer<ObjectChange>) throws -> Void) rethrows {
        try withUnsafeBufferPointer { changes in
            guard let start = changes.baseAddress else { return }
            for index in 0..<changes.count { try body(start + index) }
        }
    }
}

// MARK: - Rows

/// Writes the rows of a change set and collects all conflicts before the commit: rows changed by other writers (optimistic
/// lock), references to rows deleted by them, deletions of rows they now refer to, and violated unique constraints.
///
/// A row that violates a unique constraint is retried after the others, which may release the values; so objects may
/// exchange unique values.
struct SQLiteSaveRows {
    let store: SQLiteStore
    let writer: SQLiteWriter
    let rows: SQLiteRowWriter
    let changes: ChangeSet

    private enum Refused {
        case update(ObjectChange)
        case insertion(ObjectChange)

        var change: ObjectChange {
            switch self {
            case .update(let change), .insertion(let change): change
            }
        }
    }

    /// Writes the rows of the change set.
    ///
    /// - Throws: ``QuireError`` with ``SaveConflicts``.
    func write() throws {
        var refused: [Refused] = []
        for deletion in changes.deleted { try rows.delete(deletion) }
        try changes.updated.forEachInPlace {
            do { try rows.update($0) } catch let failure as SQLiteFailure {
                try refuse(failure, .update($0.pointee), &refused)
            }
        }
        try changes.inserted.forEachInPlace {
            do { try rows.insert($0) } catch let failure as SQLiteFailure {
                try refuse(failure, .insertion($0.pointee), &refused)
            }
        }
        if !refused.isEmpty { refused = try writeAgain(refused) }

        var conflicts = SaveConflicts()
        let references = SQLiteReferenceCheck(
            store: store, connection: writer.connection, changes: changes)
        var known = Set(rows.conflicts.map(\.id))
        var found = rows.conflicts
        for conflict in try references.conflicts() where known.insert(conflict.id).inserted {
            found.append(conflict)
        }
        let reader = SQLiteConflictReader(store: store, connection: writer.connection)
        if !refused.isEmpty {
            conflicts.constraints = try reader.violations(
                of: refused.map(\.change), among: changes)
            // Throws SQLite's error.
            if conflicts.isEmpty && found.isEmpty { try rewrite(refused[0]) }
        }
        if !found.isEmpty {
            // The rows are described as they are in the store: the transaction has deleted some of them.
            try writer.connection.execute("ROLLBACK")
            conflicts.objects = try found.map {
                try MergeConflict(
                    objectID: $0.id, change: $0.change, current: reader.row(of: $0.id))
            }
        }
        if !conflicts.isEmpty { throw conflicts.error(file: store.storePath) }
    }

    private func refuse(
        _ failure: SQLiteFailure, _ row: Refused, _ refused: inout [Refused]
    ) throws {
        guard failure.code == SQLiteFailure.uniqueConstraint else { throw failure }
        rows.discardBindings()
        refused.append(row)
    }

    private func rewrite(_ row: Refused) throws {
        switch row {
        case .update(let change):
            try withUnsafePointer(to: change) { try rows.update($0) }
        case .insertion(let change):
            try withUnsafePointer(to: change) { try rows.insert($0) }
        }
    }

    /// Retries refused rows as long as any can be written. Returns those that cannot.
    private func writeAgain(_ first: [Refused]) throws -> [Refused] {
        var refused = try writeWhatGoes(first)
        let updates = refused.compactMap {
            if case .update(let change) = $0 { change } else { nil }
        }
        if updates.isEmpty { return refused }
        // The remaining rows may be waiting for each other.
        for change in updates { try giveUpUniqueValues(of: change) }
        refused = try writeWhatGoes(refused)
        return refused
    }

    private func writeWhatGoes(_ first: [Refused]) throws -> [Refused] {
        var refused = first
        while true {
            var left: [Refused] = []
            for row in refused {
                do { try rewrite(row) } catch let failure as SQLiteFailure {
                    try refuse(failure, row, &left)
                }
            }
            if left.isEmpty || left.count == refused.count { return left }
            refused = left
        }
    }

    private func giveUpUniqueValues(of change: ObjectChange) throws {
        let place = store.schema.entity(change.entity)
        let columns = change.entity.uniqueSlots.filter(change.changedSlots.contains)
            .compactMap { place.columns[$0] }
        if columns.isEmpty { return }
        let assignments = columns.map { "\(SQLName.quoted($0.name)) = NULL" }
        try writer.connection.run(
            "UPDATE \(SQLName.quoted(place.tableName)) SET \(assignments.joined(separator: ", ")) "
                + "WHERE Z_PK = ?", change.objectID.primaryKey)
    }
}
