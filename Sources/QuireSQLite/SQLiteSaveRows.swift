import CSQLite
internal import QuireModel
internal import QuireStore

/// Writes the rows of a change set, and finds everything that stands against it before anything is committed:
/// rows that others have changed, references to rows that others have deleted, deletions of rows that others now
/// refer to, and values that are not unique.
///
/// A row whose unique values are taken is tried again when the others are written, because they may give them up;
/// so objects may exchange unique values.
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

    /// Writes the rows.
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
            // Throws what the database says.
            if conflicts.isEmpty && found.isEmpty { try rewrite(refused[0]) }
        }
        if !found.isEmpty {
            // The rows are described as they are in the store: the transaction has deleted some of them.
            try writer.connection.execute("ROLLBACK")
            conflicts.objects = try found.map {
                try ObjectConflict(
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

    /// Writes refused rows as long as any can be written. Gives those that cannot.
    private func writeAgain(_ first: [Refused]) throws -> [Refused] {
        var refused = try writeWhatGoes(first)
        let updates = refused.compactMap {
            if case .update(let change) = $0 { change } else { nil }
        }
        if updates.isEmpty { return refused }
        // Those that are left may be waiting for each other.
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
        try writer.connection.withStatement(
            "UPDATE \(SQLName.quoted(place.tableName)) SET \(assignments.joined(separator: ", ")) "
                + "WHERE Z_PK = ?"
        ) {
            try $0.bind(change.objectID.primaryKey, at: 1)
            try $0.run()
        }
    }
}
