internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireSQLite

/// The tables that a synchronized store has beside its own, within one transaction of the store.
///
/// | table | a row for |
/// |---|---|
/// | `QUIRE_SYNC` | each setting of the replica |
/// | `QUIRE_SYNC_OBJECT` | each object that is, or was: its record, and the key of its row, if it has one; of a deleted object, that of its last row, less than 0 |
/// | `QUIRE_SYNC_REFERENCE` | each reference from one object to another |
/// | `QUIRE_SYNC_UNIQUE` | each unique value of an object that exists |
/// | `QUIRE_SYNC_SEGMENT` | each segment that has been merged or written |
/// | `QUIRE_SYNC_SNAPSHOT` | each file of a snapshot that has been merged or written |
/// | `QUIRE_SYNC_OUTBOX` | each segment that has not been handed to the transport, as bytes |
/// | `QUIRE_SYNC_CONFLICT` | each value that has lost against one made without knowledge of it |
/// | `QUIRE_SYNC_DELETED` | each object that is deleted and may be forgotten |
/// | `QUIRE_SYNC_PEER` | each peer: what its last segment says of it |
/// | `QUIRE_SYNC_BLOB` | each file of external data in the folder that no object has, and since when |
/// | `QUIRE_SYNC_MISSING` | each file of external data that an object waits for |
/// | `QUIRE_SYNC_FILE` | each file of additional content, once there has been one; see ``SyncFiles`` |
///
/// They change in the transaction that changes the rows, so a change that is committed is in exactly one segment.
final class SyncTables {
    /// An object's record, and the row that shows it.
    struct Object {
        var record: SyncRecord
        /// The row's identifier; `nil` if the store has none.
        var objectID: ManagedObjectID?
        /// The primary key of the row that a deleted object had: undo may bring it back, with that key.
        fileprivate var formerKey: Int64?

        init(record: SyncRecord, objectID: ManagedObjectID? = nil) {
            self.record = record
            self.objectID = objectID
        }
    }

    let store: SQLiteStore
    let connection: SQLiteConnection
    let model: SyncModel
    var settings: SyncSettings
    private var objects: [SyncIdentifier: Object] = [:]
    private var identifiers: [ManagedObjectID: SyncIdentifier] = [:]
    /// The segments that authors of segments had merged; see ``seen(by:)``.
    var vectors: [SegmentKey: SyncVector] = [:]

    struct SegmentKey: Hashable {
        let peer: SyncIdentifier
        let sequence: Int64

        /// Before all segments of all peers.
        static let none = SegmentKey(peer: SyncIdentifier(high: 0, low: 0), sequence: 0)
    }

    init(
        _ store: SQLiteStore, _ connection: SQLiteConnection, _ model: SyncModel,
        _ settings: SyncSettings
    ) {
        self.store = store
        self.connection = connection
        self.model = model
        self.settings = settings
    }

    // MARK: - Making

    static let names = [
        "QUIRE_SYNC", "QUIRE_SYNC_OBJECT", "QUIRE_SYNC_REFERENCE", "QUIRE_SYNC_UNIQUE",
        "QUIRE_SYNC_SEGMENT", "QUIRE_SYNC_OUTBOX", "QUIRE_SYNC_CONFLICT", "QUIRE_SYNC_MISSING",
        "QUIRE_SYNC_SNAPSHOT", "QUIRE_SYNC_DELETED", "QUIRE_SYNC_PEER", "QUIRE_SYNC_BLOB",
        SyncFiles.table,
    ]

    static func create(in connection: SQLiteConnection) throws {
        try connection.execute(
            """
            CREATE TABLE QUIRE_SYNC (Z_KEY VARCHAR PRIMARY KEY, Z_VALUE BLOB);
            CREATE TABLE QUIRE_SYNC_OBJECT (Z_ID BLOB PRIMARY KEY, Z_ROOT VARCHAR, Z_ROW INTEGER, Z_RECORD BLOB);
            CREATE INDEX QUIRE_SYNC_OBJECT_ROW ON QUIRE_SYNC_OBJECT (Z_ROW, Z_ROOT) WHERE Z_ROW IS NOT NULL;
            CREATE TABLE QUIRE_SYNC_REFERENCE (Z_TARGET BLOB, Z_SOURCE BLOB, PRIMARY KEY (Z_TARGET, Z_SOURCE)) WITHOUT ROWID;
            CREATE TABLE QUIRE_SYNC_UNIQUE (Z_VALUE BLOB, Z_ID BLOB, PRIMARY KEY (Z_VALUE, Z_ID)) WITHOUT ROWID;
            CREATE TABLE QUIRE_SYNC_SEGMENT (Z_PEER BLOB, Z_NUMBER INTEGER, Z_DIGEST VARCHAR, Z_SEEN BLOB, Z_SIZE INTEGER, \
            PRIMARY KEY (Z_PEER, Z_NUMBER, Z_DIGEST)) WITHOUT ROWID;
            CREATE TABLE QUIRE_SYNC_OUTBOX (Z_NUMBER INTEGER PRIMARY KEY, Z_CONTENT BLOB);
            CREATE TABLE QUIRE_SYNC_CONFLICT (Z_NUMBER INTEGER PRIMARY KEY, Z_ID BLOB, Z_KEY BLOB, Z_LOST BLOB, Z_TIME FLOAT);
            CREATE TABLE QUIRE_SYNC_SNAPSHOT (Z_NAME VARCHAR PRIMARY KEY, Z_SIZE INTEGER) WITHOUT ROWID;
            CREATE TABLE QUIRE_SYNC_DELETED (Z_ID BLOB PRIMARY KEY) WITHOUT ROWID;
            CREATE TABLE QUIRE_SYNC_PEER (Z_PEER BLOB PRIMARY KEY, Z_CONTENT BLOB, Z_DATE FLOAT) WITHOUT ROWID;
            CREATE TABLE QUIRE_SYNC_BLOB (Z_DIGEST BLOB PRIMARY KEY, Z_DATE FLOAT) WITHOUT ROWID;
            CREATE TABLE QUIRE_SYNC_MISSING (Z_DIGEST BLOB, Z_ID BLOB, PRIMARY KEY (Z_DIGEST, Z_ID)) WITHOUT ROWID;
            CREATE UNIQUE INDEX QUIRE_SYNC_CONFLICT_LOST ON QUIRE_SYNC_CONFLICT (Z_ID, Z_KEY, Z_LOST)
            """)
    }

    /// Removes the tables. The identifiers of objects stay, so that they have the same ones if the store is synchronized again.
    static func drop(in connection: SQLiteConnection) throws {
        try connection.execute("DROP TABLE IF EXISTS \(FormerIdentifiers.table)")
        try connection.keepFormerIdentifiers()
        for name in names { try connection.execute("DROP TABLE IF EXISTS \(name)") }
    }

    /// Whether there is the table of former identifiers; `nil` if it has not been looked for, as it would be for each new object.
    private var hasFormer: Bool?

    /// The identifier that an object had before the store left a shared document, and the clock's time then.
    func formerIdentifier(
        of objectID: ManagedObjectID
    ) throws -> (id: SyncIdentifier, time: UInt64)? {
        let hasFormer = try self.hasFormer ?? connection.hasTable(FormerIdentifiers.table)
        self.hasFormer = hasFormer
        guard hasFormer else { return nil }
        let root = model.rootName(of: store.layout.entity(number: objectID.entityNumber))
        return try connection.row(
            "SELECT Z_ID, Z_TIME FROM \(FormerIdentifiers.table) WHERE Z_ROW = ? AND Z_ROOT = ?",
            objectID.primaryKey, root
        ) { (SyncIdentifier(bytes: $0.data(0)), UInt64(max($0.integer(1), 0))) }
    }

    /// Forgets the identifiers of before, when all objects have theirs again.
    func removeFormerIdentifiers() throws {
        try connection.execute("DROP TABLE IF EXISTS \(FormerIdentifiers.table)")
        hasFormer = false
    }

    // MARK: - Objects

    func object(_ id: SyncIdentifier) throws -> Object? {
        if let known = objects[id] { return known }
        let found = try connection.row(
            "SELECT Z_ROW, Z_RECORD FROM QUIRE_SYNC_OBJECT WHERE Z_ID = ?", id.bytes
        ) { try object(key: $0.isNull(0) ? nil : $0.integer(0), $0.data(1)) }
        if let found { remember(found) }
        return found
    }

    private func object(key: Int64?, _ bytes: Data) throws -> Object {
        var reader = SyncByteReader(Array(bytes)[...], file: store.storePath)
        guard let record = try SyncRecordBlock.decode(&reader).first else {
            throw reader.damage("an object has no record")
        }
        var object = Object(
            record: record, objectID: key.flatMap { objectID(of: record, key: $0) })
        if let key, key < 0, key != .min { object.formerKey = -key }
        return object
    }

    /// The deleted object that had a row which is there again.
    func deletedObject(formerlyAt objectID: ManagedObjectID) throws -> Object? {
        let root = model.rootName(of: store.layout.entity(number: objectID.entityNumber))
        let found = try connection.row(
            "SELECT Z_ROW, Z_RECORD FROM QUIRE_SYNC_OBJECT WHERE Z_ROW = ? AND Z_ROOT = ?",
            -objectID.primaryKey, root
        ) { try object(key: $0.integer(0), $0.data(1)) }
        // After a restore a key may be another object's.
        guard let found, !found.record.isAlive, found.record.canComeBack,
            model.resolvedEntity(named: found.record.entity)?.number == objectID.entityNumber
        else { return nil }
        return found
    }

    /// The identifier of a row. The entity of the record may be one that the model does not have any more.
    private func objectID(of record: SyncRecord, key: Int64) -> ManagedObjectID? {
        guard let entity = model.resolvedEntity(named: record.entity),
            (1...ManagedObjectID.maximumPrimaryKey).contains(key)
        else { return nil }
        return ManagedObjectID(entityNumber: entity.number, primaryKey: key, store: store.identity)
    }

    /// The object that a row shows.
    func object(at objectID: ManagedObjectID) throws -> Object? {
        if let id = identifiers[objectID] { return try object(id) }
        let root = model.rootName(of: store.layout.entity(number: objectID.entityNumber))
        let found = try connection.row(
            "SELECT Z_RECORD FROM QUIRE_SYNC_OBJECT WHERE Z_ROW = ? AND Z_ROOT = ?",
            objectID.primaryKey, root
        ) { try object(key: objectID.primaryKey, $0.data(0)) }
        if let found {
            if let known = objects[found.record.id] { return known }
            remember(found)
        }
        return found
    }

    private func remember(_ object: Object) {
        objects[object.record.id] = object
        if let objectID = object.objectID { identifiers[objectID] = object.record.id }
    }

    /// Removes all that has been merged, but for the list of conflicts, and makes this replica another peer. Rows stay.
    func removeState() throws {
        for name in Self.names where name != "QUIRE_SYNC" && name != "QUIRE_SYNC_CONFLICT" {
            guard try connection.hasTable(name) else { continue }
            try connection.execute("DELETE FROM \(name)")
        }
        (objects, identifiers, vectors, changedUniqueValues) = ([:], [:], [:], [])
        var new = SyncSettings(container: settings.container, peer: SyncIdentifier())
        new.clock = settings.clock
        new.captured = settings.captured
        settings = new
    }

    /// The identifiers of the rows that fulfil a condition. Objects that are looked at are not kept in memory.
    ///
    /// - Parameter isIncluded: Must not write.
    func rows(where isIncluded: (ManagedObjectID) throws -> Bool) throws -> [ManagedObjectID] {
        var found: [ManagedObjectID] = []
        try forEachRow { if try isIncluded($1) { found.append($1) } }
        return found
    }

    /// Calls a closure with each object that has a row, and with the row. Objects are not kept in memory.
    ///
    /// - Parameter body: Must not write.
    func forEachRow(_ body: (SyncIdentifier, ManagedObjectID) throws -> Void) throws {
        try connection.forEachRow(
            "SELECT Z_ROW, Z_RECORD FROM QUIRE_SYNC_OBJECT WHERE Z_ROW IS NOT NULL"
        ) {
            let object = try object(key: $0.integer(0), $0.data(1))
            if let objectID = object.objectID { try body(object.record.id, objectID) }
        }
    }

    /// The objects with identifiers in a range, deleted ones too.
    func identifiers(
        after first: SyncIdentifier?, through last: SyncIdentifier?
    ) throws -> [SyncIdentifier] {
        // Identifiers have 16 bytes, so these are less and greater than all.
        try connection.rows(
            "SELECT Z_ID FROM QUIRE_SYNC_OBJECT WHERE Z_ID > ? AND Z_ID <= ? ORDER BY Z_ID",
            first?.bytes ?? Data(), last?.bytes ?? Data(repeating: 255, count: 17)
        ) { SyncIdentifier(bytes: $0.data(0)) }
    }

    /// Writes an object, its references and its unique values.
    func put(_ object: Object) throws {
        let id = object.record.id
        let old = try self.object(id)
        if let old, let objectID = old.objectID, objectID != object.objectID {
            identifiers[objectID] = nil
        }
        let entity = model.resolvedEntity(named: object.record.entity)
        var object = object
        object.formerKey =
            object.record.isAlive ? nil : old?.objectID?.primaryKey ?? old?.formerKey
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC_OBJECT VALUES (?, ?, ?, ?)", id.bytes,
            entity.map(model.rootName) ?? object.record.entity,
            object.objectID?.primaryKey ?? object.formerKey.map { -$0 },
            Data(SyncRecordBlock.encode([object.record])))
        remember(object)
        // Nothing waits for a value that was replaced, nor for one of an object without a row.
        let waiting = object.objectID == nil ? [] : object.record.blobs
        for blob in old?.record.blobs ?? [] where !waiting.contains(blob) {
            try setMissing(blob, of: id, false)
        }
        let isForgettable = object.record.isForgettable
        if isForgettable != old?.record.isForgettable ?? false {
            try connection.run(
                isForgettable
                    ? "INSERT OR IGNORE INTO QUIRE_SYNC_DELETED VALUES (?)"
                    : "DELETE FROM QUIRE_SYNC_DELETED WHERE Z_ID = ?", id.bytes)
        }
        try replace(
            old?.record.references ?? [], by: object.record.references, of: id,
            in: "QUIRE_SYNC_REFERENCE", "Z_TARGET", "Z_SOURCE", \.bytes)
        let values = SyncUniqueness.values(of: object.record, in: model)
        let oldValues = old.map { SyncUniqueness.values(of: $0.record, in: model) } ?? []
        try replace(
            oldValues, by: values, of: id, in: "QUIRE_SYNC_UNIQUE", "Z_VALUE", "Z_ID", \.self)
        changedUniqueValues.formUnion(values.symmetricDifference(oldValues))
        if object.record.isAlive != old?.record.isAlive ?? false { changedExistences.insert(id) }
        if object.record.entity == SyncFiles.entity { try SyncFiles(self).markPending() }
    }

    /// Removes the record of a deleted object, which has no row.
    func forget(_ id: SyncIdentifier) throws {
        guard let object = try object(id) else { return }
        try replace(
            object.record.references, by: [], of: id, in: "QUIRE_SYNC_REFERENCE", "Z_TARGET",
            "Z_SOURCE", \.bytes)
        let date = SyncClock.date(of: settings.clock.last)
        for blob in object.record.blobs {
            try setMissing(blob, of: id, false)
            // Unless another object has it.
            try setUnused(blob.digest, since: date)
        }
        for table in ["QUIRE_SYNC_OBJECT", "QUIRE_SYNC_DELETED"] {
            try connection.run("DELETE FROM \(table) WHERE Z_ID = ?", id.bytes)
        }
        objects[id] = nil
    }

    /// The rows of objects that have become objects of other entities in this transaction.
    var abandonedRows: [(id: SyncIdentifier, row: ManagedObjectID)] = []

    /// The unique values that objects have got or lost in this transaction.
    var changedUniqueValues: Set<Data> = []

    /// The objects that have been inserted, deleted or brought back in this transaction. What was changed here has its row already, or
    /// has lost it.
    private(set) var changedExistences: Set<SyncIdentifier> = []

    /// Writes the difference of two sets of values that belong to an object.
    private func replace<Value: Hashable>(
        _ old: Set<Value>, by new: Set<Value>, of id: SyncIdentifier, in table: String,
        _ valueColumn: String, _ idColumn: String, _ bytes: (Value) -> Data
    ) throws {
        if old == new { return }
        for value in old.subtracting(new) {
            try connection.run(
                "DELETE FROM \(table) WHERE \(valueColumn) = ? AND \(idColumn) = ?", bytes(value),
                id.bytes)
        }
        for value in new.subtracting(old) {
            try connection.run(
                "INSERT OR IGNORE INTO \(table) (\(valueColumn), \(idColumn)) VALUES (?, ?)",
                bytes(value), id.bytes)
        }
    }

    /// The objects that refer to one.
    func referrers(of id: SyncIdentifier) throws -> [SyncIdentifier] {
        try connection.rows(
            "SELECT Z_SOURCE FROM QUIRE_SYNC_REFERENCE WHERE Z_TARGET = ?", id.bytes
        ) { SyncIdentifier(bytes: $0.data(0)) }
    }

    /// The existing objects with a unique value.
    func objects(withUniqueValue value: Data) throws -> [SyncIdentifier] {
        try connection.rows("SELECT Z_ID FROM QUIRE_SYNC_UNIQUE WHERE Z_VALUE = ?", value) {
            SyncIdentifier(bytes: $0.data(0))
        }
    }

    // MARK: - The model

    /// The names in the model that rows were written with, by those in records, if it was another one; `nil` if it was this one.
    func namesOfOtherModel() throws -> [String: String]? {
        let names = try names(forKey: Self.writtenKey)
        return names == model.names ? nil : names
    }

    /// Whether the rows, which were written with another model, have been compared with this one, or are about to be.
    func isModelAdopted() throws -> Bool { try names(forKey: Self.adoptedKey) == model.names }

    /// Prepares the tables for a new version of the model, before rows are compared with it.
    ///
    /// - Parameter old: The names of the old version.
    /// - Throws: `QuireError` with code `invalidModel` if it does not have the names of the old one.
    func adoptModel(after old: [String: String]) throws {
        try model.requireNames(of: old)
        // Constraints may be other ones.
        try connection.execute("DELETE FROM QUIRE_SYNC_UNIQUE")
        for id in try identifiers(after: nil, through: nil) {
            guard let object = try object(id) else { continue }
            try replace(
                [], by: SyncUniqueness.values(of: object.record, in: model), of: id,
                in: "QUIRE_SYNC_UNIQUE", "Z_VALUE", "Z_ID", \.self)
        }
        try setNames(forKey: Self.adoptedKey)
    }

    /// Records that rows have been written with this model.
    func noteModel() throws {
        try setNames(forKey: Self.writtenKey)
        try connection.execute("DELETE FROM QUIRE_SYNC WHERE Z_KEY = '\(Self.adoptedKey)'")
    }

    private static let (writtenKey, adoptedKey) = ("properties", "adopted")

    private func names(forKey key: String) throws -> [String: String] {
        let text =
            try connection.row("SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = ?", key) { $0.text(0) }
            ?? ""
        var names: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "\t").map(String.init)
            if let key = parts.first { names[key] = parts.last }
        }
        return names
    }

    private func setNames(forKey key: String) throws {
        let lines = model.names.map { "\($0.key)\t\($0.value)" }.sorted()
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC VALUES (?, ?)", key, lines.joined(separator: "\n"))
    }

    // MARK: - Settings

    /// The bytes of the key of the shared document; `nil` if its files are not encrypted.
    func documentKey() throws -> Data? {
        try connection.row("SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = 'key'") { $0.data(0) }
    }

    /// Writes the settings, as the last step of a transaction.
    func writeSettings() throws { try settings.write(to: connection) }
}
