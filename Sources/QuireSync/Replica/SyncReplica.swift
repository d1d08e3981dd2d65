internal import Crypto
internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireProtection
internal import QuireQuery
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// A store that is synchronized: its steps, each in one transaction.
///
/// Invariants
/// - A change that is committed, and is in the store's history, is captured before anything is merged; so rows differ from records
///   by captured changes only.
/// - A segment is in the outbox before it is handed to the transport, and stays there until the transport has it: what is handed
///   over again after a crash is the same file.
/// - A segment's records and rows, and the fact that it has been merged, are one transaction.
final class SyncReplica: Sendable {
    let store: SQLiteStore
    let model: SyncModel
    /// The changes of ``takeUnreportedChanges()``.
    private let unreported = Lock(ObjectIDChanges())

    /// - Throws: `QuireError` with code `unsupported` if the store cannot be synchronized; see ``SyncPolicies``.
    init(
        _ store: SQLiteStore, policies: [String: [String: SyncPolicy]] = [:],
        resolvers: [String: [String: SyncResolver]] = [:]
    ) throws {
        guard store.carriesModel else {
            throw QuireError(
                .unsupported,
                "“\(store.storePath)” was created by Core Data, which would not preserve the data that synchronization adds; convert it first.",
                file: store.storePath)
        }
        self.store = store
        model = SyncModel(
            store.layout, try SyncPolicies(store.layout, declared: policies, resolvers: resolvers))
        try model.requireDistinctNames()
    }

    /// The settings of the replica; `nil` if the store is not synchronized.
    func settings() throws -> SyncSettings? {
        try store.read { try SyncSettings.read(from: $0, path: store.storePath) }
    }

    /// Makes the store a replica of a shared document.
    ///
    /// The store keeps a history from then on, in which the changes of all programs are found.
    ///
    /// - Parameter key: The key of the document; `nil` if its files are not encrypted.
    /// - Throws: `QuireError` with code `invalidState` if it is one of another document.
    func attach(to container: SyncIdentifier, key: SecretMemory? = nil) throws {
        try store.saveInOneTransaction {
            try store.withTransaction { connection in
                if let settings = try SyncSettings.read(from: connection, path: store.storePath) {
                    guard settings.container == container else { throw alreadyAttached() }
                    return
                }
                try store.beginHistory()
                try SyncTables.create(in: connection)
                var settings = SyncSettings(container: container, peer: SyncIdentifier())
                settings.scan = .init(entity: "", key: 0)
                settings.captured = try store.lastHistoryTransactionNumber() ?? 0
                try settings.write(to: connection)
                if let key { try writeKey(key, to: connection) }
                let tables = SyncTables(store, connection, model, settings)
                try tables.noteModel()
                try tables.noteStoreFile()
            }
        }
    }

    /// Whether the replica has merged segments of another peer.
    func hasMergedOthers() throws -> Bool {
        guard let settings = try settings() else { return false }
        return settings.seen.ranges.keys.contains { $0 != settings.peer }
    }

    func alreadyAttached() -> QuireError {
        QuireError(
            .invalidState,
            "“\(store.storePath)” is synchronized with another shared document; leave that document first.",
            file: store.storePath)
    }

    /// Makes the store a local one again. Its objects stay.
    func detach() throws {
        try store.saveInOneTransaction {
            try store.withTransaction { connection in
                guard try SyncSettings.read(from: connection, path: store.storePath) != nil else {
                    return
                }
                try SyncTables.drop(in: connection)
            }
        }
    }

    /// The digest of the store's model.
    var modelDigest: String { model.digest }

    func modelXML() -> Data { store.layout.model.modelXML() }

    func status() throws -> SyncStatus? {
        let last = try store.lastHistoryTransactionNumber() ?? 0
        let records = try store.records()
        return try reading(nil) { tables in
            let files = try SyncFiles(tables).pending().count(where: { $0.blob != nil })
            return try SyncStatus(
                container: tables.settings.container, peer: tables.settings.peer,
                isEncrypted: try tables.documentKey() != nil,
                outgoingCount: try tables.outboxCount(),
                hasNewChanges: tables.settings.captured != last || hasNewFiles(tables, records),
                isPreparing: tables.settings.scan != nil,
                peers: try tables.peerStatuses(), conflictCount: try tables.conflicts().count,
                missingFileCount: try tables.missing().count + files)
        }
    }

    /// Whether files have been saved that are not captured.
    private func hasNewFiles(_ tables: SyncTables, _ records: [String: String]) throws -> Bool {
        guard let files = store.files else { return false }
        return try SyncFiles(tables).hasChanges(files, records)
    }

    /// Whether values may be in files of their own in the folder.
    var mayHaveBlobs: Bool { model.hasBinaryAttributes || store.files != nil }

    // MARK: - Encryption

    /// The cipher of the shared document; `nil` if its files are not encrypted, or the store is not a replica.
    func cipher() throws -> SyncCipher? {
        try reading(nil) { tables in
            guard let bytes = try tables.documentKey() else { return nil }
            guard bytes.count == 32 else {
                throw QuireError(
                    .invalidFormat,
                    "The key of the shared document in “\(store.storePath)” is damaged; leave the document, and join it again with its password.",
                    file: store.storePath)
            }
            return SyncCipher(
                container: tables.settings.container, secret: try SecretMemory(copying: bytes))
        }
    }

    /// Keeps the key of the shared document, in the transaction that makes the store a replica.
    func writeKey(_ key: SecretMemory, to connection: SQLiteConnection) throws {
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('key', ?)", key.withUnsafeBytes { Data($0) })
    }

    // MARK: - Transport

    /// The text that the program keeps with the replica.
    func transportDescription() throws -> String? {
        try reading(nil) { tables in
            try tables.connection.row("SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = 'transport'") {
                String(decoding: $0.data(0), as: UTF8.self)
            }
        }
    }

    func setTransportDescription(_ text: String) throws {
        if try transportDescription() == text { return }
        try transact { tables in
            try tables.connection.run(
                "INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('transport', ?)", Data(text.utf8))
        }
    }

    // MARK: - Transactions

    /// Runs a closure with the tables, for reading; gives another value if the store is not synchronized.
    ///
    /// The closure must not read the store by its methods: there may be one connection, which it has.
    func reading<Result>(_ other: Result, _ body: (SyncTables) throws -> Result) throws -> Result {
        try store.read { connection in
            guard let settings = try SyncSettings.read(from: connection, path: store.storePath)
            else { return other }
            return try body(SyncTables(store, connection, model, settings))
        }
    }

    /// Runs a step in a transaction.
    func transact<Result>(_ body: (SyncTables) throws -> Result) throws -> Result {
        try store.saveInOneTransaction {
            try store.withTransaction { connection in
                guard let settings = try SyncSettings.read(from: connection, path: store.storePath)
                else {
                    throw QuireError(
                        .invalidState, "“\(store.storePath)” is not synchronized.",
                        file: store.storePath)
                }
                let tables = SyncTables(store, connection, model, settings)
                let result = try body(tables)
                if tables.settings != settings { try tables.writeSettings() }
                return result
            }
        }
    }

    /// Captures a part of what has been changed locally.
    ///
    /// - Returns: Whether nothing is left, and the objects whose rows are other ones because a policy does not accept their values.
    func capture(at date: Date) throws -> (isComplete: Bool, rows: Merged) {
        if try isUpToDate() { return (true, Merged()) }
        return try transact { tables in
            let capture = try SyncCapture(tables, date: date)
            let isComplete = try capture.run().isComplete
            let fileConflictCount = try SyncFiles(tables).capture(at: date)
            let isConsequential =
                !capture.touched.isEmpty || !tables.changedUniqueValues.isEmpty
            if !isComplete {
                // Rows that have not been gone through yet may be connected with these.
                if isConsequential { tables.settings.hasStaleRows = true }
                return (false, Merged(conflictCount: fileConflictCount))
            }
            var rows = Merged(conflictCount: fileConflictCount)
            if !isConsequential, !tables.settings.hasStaleRows { return (true, rows) }
            try writeRows(of: capture.touched, tables, &rows)
            return (true, rows)
        }
    }

    /// Whether nothing has been saved since the last transaction: found without writing.
    func isUpToDate() throws -> Bool {
        let last = try store.lastHistoryTransactionNumber() ?? 0
        let records = try store.records()
        return try reading(false) { tables in
            try tables.settings.scan == nil && tables.settings.captured == last
                && !hasNewFiles(tables, records)
                && (tables.namesOfOtherModel() == nil || tables.isModelAdopted())
        }
    }

    // MARK: - Outbox

    /// The next segment for the transport: its name and bytes.
    func nextOutgoing(after sequence: Int64) throws -> (SyncSegmentName, Data)? {
        guard let settings = try settings() else { return nil }
        return try store.read { connection in
            try connection.row(
                "SELECT Z_NUMBER, Z_CONTENT FROM QUIRE_SYNC_OUTBOX WHERE Z_NUMBER > ? ORDER BY Z_NUMBER LIMIT 1",
                sequence
            ) {
                let bytes = $0.data(1)
                let name = SyncSegmentName(
                    peer: settings.peer, sequence: $0.integer(0), encoded: Array(bytes))
                return (name, bytes)
            }
        }
    }

    /// Records that the transport has a segment.
    func didSend(_ name: SyncSegmentName) throws {
        try transact { tables in
            try tables.connection.run(
                "DELETE FROM QUIRE_SYNC_OUTBOX WHERE Z_NUMBER = ?", name.sequence)
        }
    }

    /// The external data of an object, if the store still has it.
    func externalData(_ blob: SyncBlob, of id: SyncIdentifier) throws -> Data? {
        let object = try reading(nil) { try $0.object(id) }
        if let object, object.record.entity == SyncFiles.entity {
            return try fileContents(blob, of: object.record)
        }
        guard let object, let entity = model.entity(named: object.record.entity),
            let objectID = object.objectID, let row = try store.row(for: objectID)
        else { return nil }
        for slot in entity.slots where slot.isExternalCapable {
            let value = try row.valueWithoutLoading(at: slot.index)
            guard try SyncValue(value) == .blob(blob) else { continue }
            switch value {
            case .external(let data): return try data.contents()
            case .binary(let data): return data
            default: continue
            }
        }
        return nil
    }

    /// The bytes of a file of additional content, if it has them still.
    private func fileContents(_ blob: SyncBlob, of record: SyncRecord) throws -> Data? {
        guard let files = store.files,
            let path = try reading(nil, { SyncFiles($0).path(of: record) })
        else { return nil }
        let data: Data?
        do { data = try files.contents(of: path, in: store.records()) } catch let error
            as QuireError
            where error.code == .notFound
        {
            return nil  // Another generation has been saved meanwhile.
        }
        return data.flatMap { Data(SHA256.hash(data: $0)) == blob.digest ? $0 : nil }
    }

    // MARK: - Files

    /// The files of additional content that are to be written.
    func pendingFiles() throws -> [SyncFiles.Pending] {
        if store.files == nil { return [] }
        return try reading([]) { try SyncFiles($0).pending() }
    }

    /// Writes files that others have changed, after capturing what was changed here.
    func writeFiles(
        _ blobs: [Data: Data], by writer: any AccompanyingFilesWriter, at date: Date
    ) throws -> (refused: [String: String], isChanged: Bool, conflictCount: Int) {
        try transact { tables in
            let files = SyncFiles(tables)
            let conflictCount = try files.capture(at: date)
            let written = try files.write(blobs, by: writer)
            return (written.refused, written.isChanged, conflictCount)
        }
    }

    func excludedFiles() throws -> [String] {
        try reading([]) { try SyncFiles($0).excludedPatterns() }
    }

    func setExcludedFiles(_ patterns: [String]) throws {
        try transact { try SyncFiles($0).setExcludedPatterns(patterns) }
    }

    /// Takes another identifier if a file of this replica's peer is not its own, so that another replica has the identifier, or if
    /// the peer was retired.
    ///
    /// - Returns: Whether it has.
    func takeAnotherIdentifierIfNeeded(seeing names: [SyncSegmentName]) throws -> Bool {
        guard let settings = try settings() else { return false }
        let own = names.filter { $0.peer == settings.peer }
        if try !unknown(own).isEmpty {
            try transact { try $0.becomeAnotherPeerOfTwo() }
            return true
        }
        guard try reading(false, { try $0.peer(settings.peer)?.isRetired ?? false }) else {
            return false
        }
        return try transact { try $0.becomeAnotherPeerIfNeeded(seenBy: SyncVector()) }
    }

    // MARK: - Merging

    /// Whether the folder must have files: some have been sent, or merged.
    func hasFiles() throws -> Bool {
        try reading(false) { tables in
            try tables.settings.seen.count > tables.outboxCount()
        }
    }

    /// The files that have been neither merged nor written, of some.
    func unknown(_ names: [SyncSegmentName]) throws -> [SyncSegmentName] {
        try reading([]) { tables in try names.filter { try !tables.has($0) } }
    }

    struct Merged: Sendable {
        var changes = ObjectIDChanges()
        var conflictCount = 0
        /// The number of segments.
        var count = 0
        /// Whether this replica has become another peer.
        var hasAnotherIdentifier = false
        /// Whether nothing was merged because large values have to be sent first.
        var awaitsBlobs = false
    }

    /// Captures local changes and merges segments, in one transaction.
    ///
    /// - Parameters:
    ///   - blobs: The files that the segments name, as far as they have arrived, by digest.
    ///   - sent: The last own segment whose large values are in the folder; see ``mergingAfterCapture(blobs:at:seen:blobsSent:_:)``.
    func merge(
        _ segments: [ReceivedSegment], blobs: [Data: Data], at date: Date,
        blobsSent sent: SyncTables.SegmentKey? = nil
    ) throws -> Merged {
        try mergingAfterCapture(
            blobs: blobs, at: date, seen: segments.map(\.segment.seen), blobsSent: sent
        ) { tables, merge in
            for received in segments where try !tables.has(received.name) {
                try merge.merge(received.segment, received.name, size: received.size)
            }
            return segments.count
        }
    }

    /// A file that has arrived whole.
    struct ReceivedSegment: Sendable {
        let segment: SyncSegment
        let name: SyncSegmentName
        /// The number of bytes.
        let size: Int
    }

    /// Captures what was saved, merges something, and writes the rows that follow, in one transaction.
    ///
    /// - Parameters:
    ///   - others: What the authors of the files had merged.
    ///   - sent: The last own segment whose large values are in the folder. If there are later ones, nothing is merged, because the rows
    ///     that have their values may be overwritten or deleted. `nil` if that does not matter.
    ///   - body: Gives the number of merged files.
    func mergingAfterCapture(
        blobs: [Data: Data], at date: Date, seen others: [SyncVector] = [],
        blobsSent sent: SyncTables.SegmentKey? = nil,
        _ body: (SyncTables, SyncMerge) throws -> Int
    ) throws -> Merged {
        var captured = Merged()
        do {
            var isComplete = false
            while !isComplete {
                let (isLast, rows) = try capture(at: date)
                captured.changes.append(rows.changes)
                captured.conflictCount += rows.conflictCount
                isComplete = isLast
            }
            return try transact { tables in
                var merged = captured
                // What was saved since.
                let capture = try SyncCapture(tables, date: date)
                while try !capture.run().isComplete {}
                merged.conflictCount += try SyncFiles(tables).capture(at: date)
                if let sent, mayHaveBlobs, try tables.hasUnsentSegments(after: sent) {
                    merged.awaitsBlobs = true
                    try writeRows(of: capture.touched, tables, &merged)
                    return merged
                }
                for other in others where try tables.becomeAnotherPeerIfNeeded(seenBy: other) {
                    merged.hasAnotherIdentifier = true
                }
                let merge = SyncMerge(tables, date: date)
                if try tables.namesOfOtherModel() != nil {
                    // Records have values of properties that rows show only now.
                    merge.touch(Set(try tables.identifiers(after: nil, through: nil)))
                    try tables.noteModel()
                }
                merged.count = try body(tables, merge)
                try merge.finish()
                merged.conflictCount += merge.conflictCount
                try writeRows(
                    of: merge.touched.union(capture.touched), tables, &merged, blobs: blobs)
                for id in merge.forgotten { try tables.forget(id) }
                return merged
            }
        } catch {
            // The rows that capturing has written are committed.
            unreported.withLock { [captured] in $0.append(captured.changes) }
            throw error
        }
    }

    /// Takes the changes that were committed by a step that failed after that.
    func takeUnreportedChanges() -> ObjectIDChanges {
        unreported.withLock { changes in
            defer { changes = ObjectIDChanges() }
            return changes
        }
    }

    /// Writes the rows that follow from records.
    func writeRows(
        of ids: Set<SyncIdentifier>, _ tables: SyncTables, _ merged: inout Merged,
        blobs: [Data: Data] = [:]
    ) throws {
        var ids = ids
        if tables.settings.hasStaleRows {
            ids = Set(try tables.identifiers(after: nil, through: nil))
            tables.settings.hasStaleRows = false
        }
        let materialization = SyncMaterialization(tables, blobs: blobs)
        merged.changes.append(try materialization.run(ids))
        merged.conflictCount += materialization.hiddenCount
        // Its own save is no change of this replica.
        tables.settings.captured = try store.lastHistoryTransactionNumber() ?? 0
    }

    /// Whether rows were written with another model than the store's.
    func hasOtherModel() throws -> Bool {
        try reading(false) { try $0.namesOfOtherModel() != nil }
    }

    /// The digests of files that objects wait for.
    func missingBlobs() throws -> [Data: [SyncIdentifier]] {
        try reading([:]) { try $0.missing() }
    }

    /// Writes the values of objects whose files have arrived.
    func show(_ ids: Set<SyncIdentifier>, blobs: [Data: Data], at date: Date) throws -> Merged {
        try mergingAfterCapture(blobs: blobs, at: date) { _, merge in
            merge.touch(ids)
            return 0
        }
    }

    // MARK: - Checking

    /// All records that are not forgotten some time, as text in one order: replicas that have merged the same files have the same.
    func stateDescription() throws -> String {
        try reading("") { tables in
            let ids = try tables.identifiers(after: nil, through: nil)
            return try ids.compactMap { id in
                guard let record = try tables.object(id)?.record, !record.isForgettable else {
                    return nil
                }
                let entries = record.entries.sorted { $0.key < $1.key }
                    .map {
                        "  \($0.key) = \($0.value.value) @\($0.value.version.time) \($0.value.version.peer)"
                    }
                return ([id.description + " " + record.entity] + entries)
                    .joined(separator: "\n")
            }.joined(separator: "\n")
        }
    }
}

extension ObjectIDChanges {
    /// Adds changes that were made afterwards.
    mutating func append(_ later: ObjectIDChanges) {
        inserted += later.inserted
        updated += later.updated
        deleted += later.deleted
    }
}
