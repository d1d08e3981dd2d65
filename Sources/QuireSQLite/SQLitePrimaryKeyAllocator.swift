public import QuireModel
internal import QuireStore
internal import QuireSystem

/// The primary keys of a store, shared with its successor when its file is moved or copied: neither reserves a key of the
/// other.
final class SQLitePrimaryKeyAllocator: Sendable {
    private let keys = Lock(SQLPrimaryKeys())

    func withLock<Result>(
        _ body: (inout SQLPrimaryKeys) throws -> sending Result
    ) rethrows -> sending Result {
        try keys.withLock { try body(&$0) }
    }
}

// MARK: - Reserving

extension SQLiteStore {
    /// Reserves identifiers for new objects.
    ///
    /// - Complexity: O(`count`). Durable reservations require a transaction, one for as many identifiers as have been reserved
    ///   durably before.
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`.
    public func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID] {
        if isReadOnly && !options.isOnlyWriter { throw QuireError.readOnly(storePath) }
        if count == 0 { return [] }
        let root = entity.rootNumber
        // Read outside the lock, which a save acquires while it holds the connection.
        if primaryKeys.withLock({ $0.isKnown(root: root) }) {
            // Keys used by other writers are not given out: objects read meanwhile may have them.
            let number = schema.entity(number: root).storeNumber
            let recorded = try read { try $0.maximumPrimaryKey(of: number) }
            primaryKeys.withLock { $0.noteLater(recorded, root: root) }
        } else {
            let greatest = try read { try maximumPrimaryKey(root: root, $0) }
            primaryKeys.withLock { $0.learn(greatest, root: root) }
        }
        let keys =
            durably && !options.isOnlyWriter
            ? try durablePrimaryKeysUnlessReplaced(root: root, count: count)
            : try primaryKeys.withLock { try $0.reserve(root: root, count: count) }
        return keys.map {
            ManagedObjectID(entityNumber: entity.number, primaryKey: $0, store: identity)
        }
    }

    /// Keys that no other process uses. In files that others have replaced nothing is recorded any more: what is inserted can
    /// only be saved to a copy, and if the files return, a save checks the keys.
    private func durablePrimaryKeysUnlessReplaced(
        root: Int, count: Int
    ) throws -> ClosedRange<Int64> {
        do {
            return try durablePrimaryKeys(root: root, count: count)
        } catch let error as QuireError where error.code == .storeReplaced {
            return try primaryKeys.withLock { try $0.reserve(root: root, count: count) }
        }
    }

    private func durablePrimaryKeys(root: Int, count: Int) throws -> ClosedRange<Int64> {
        if let keys = primaryKeys.withLock({ $0.reserveRecorded(root: root, count: count) }) {
            return keys
        }
        return try withWriter { writer in
            let connection = writer.connection
            try connection.begin()
            do {
                try writer.modelVersionCheck.check(connection)
                let found = try maximumPrimaryKey(root: root, connection)
                // Reserved at once: another thread may be given keys before these are recorded.
                let (keys, greatest) = try primaryKeys.withLock { known in
                    known.note(found, root: root)
                    let greatest = try known.maximumToRecord(root: root, count: count)
                    known.willRecord(greatest, root: root)
                    return (try known.reserve(root: root, count: count), greatest)
                }
                try connection.recordGreatestPrimaryKey(
                    greatest, of: schema.entity(number: root).storeNumber)
                try connection.commit()
                primaryKeys.withLock { $0.didRecordAhead(greatest, from: keys, root: root) }
                return keys
            } catch {
                SQLiteSave.undo(after: error as? SQLiteFailure, store: self, writer: writer)
                throw error
            }
        }
    }

    /// Registers, within a transaction, the keys in use in an entity hierarchy, so that further keys can be reserved in it.
    ///
    /// - Returns: The greatest key.
    func recordPrimaryKeys(root: Int, _ connection: SQLiteConnection) throws -> Int64 {
        let found = try maximumPrimaryKey(root: root, connection)
        primaryKeys.withLock {
            $0.learn(found, root: root)
            $0.note(found, root: root)
        }
        return found
    }

    /// Reserves a key that the running transaction will record.
    func nextPrimaryKey(root: Int) throws -> Int64 {
        try primaryKeys.withLock { try $0.reserve(root: root, count: 1).lowerBound }
    }

    /// The greatest primary key ever used in an entity hierarchy.
    private func maximumPrimaryKey(root: Int, _ connection: SQLiteConnection) throws -> Int64 {
        try connection.greatestUsedKey(of: schema.entity(number: root))
    }

    // MARK: Saving

    /// Checks keys about to be inserted against those the store has recorded meanwhile.
    func checkPrimaryKeys(root: Int, recorded: Int64, _ inserted: [ObjectChange]) throws {
        let taken = primaryKeys.withLock {
            $0.note(recorded, root: root)
            return $0.taken(root: root)
        }
        if taken.isEmpty { return }
        let isTaken = inserted.contains { change in
            layout.entity(number: change.objectID.entityNumber).rootNumber == root
                && taken.contains { $0.contains(change.objectID.primaryKey) }
        }
        if isTaken {
            throw QuireError(
                .mergeConflict,
                "Another process has added objects to “\(storePath)” in the meantime; save again.",
                entity: layout.entity(number: root).name, file: storePath,
                underlying: PrimaryKeyCollision())
        }
    }

    /// Must be called before the transaction that records the keys commits.
    func willRecordPrimaryKeys(_ greatest: [Int: Int64]) {
        primaryKeys.withLock { keys in
            for (root, key) in greatest { keys.willRecord(key, root: root) }
        }
    }

    func didRecordPrimaryKeys(_ greatest: [Int: Int64]) {
        primaryKeys.withLock { keys in
            for (root, key) in greatest { keys.didRecord(key, root: root) }
        }
    }
}
