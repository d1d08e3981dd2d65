internal import Crypto
internal import Foundation
internal import Quire
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// Synchronizes the files that are saved with a store's rows: the additional content of a document. Each file has a record of a
/// reserved entity, identified by its path, so files are sent, merged and listed as conflicts in the same way as objects.
///
/// `QUIRE_SYNC_FILE` lists the files of the last captured generation. A file that differs in the next generation was changed locally.
/// A record that differs from the table was changed remotely, and its file has not been written yet.
///
/// Invariants
/// - Local changes are captured before remote ones are merged, in the same transaction, so both sides of a conflict are known.
/// - A new generation, the record that names it, and the table are written in one transaction. Nothing else is saved between comparing
///   the files and that transaction.
struct SyncFiles {
    /// The entity of the records. No entity of a model has such a name.
    static let entity = "quire:file"
    private static let (pathKey, contentKey) = (
        SyncKey.property("path"), SyncKey.property("content")
    )
    static let table = "QUIRE_SYNC_FILE"
    private static let (generationKey, pendingKey, excludedKey) = (
        "files", "filesPending", "filesExcluded"
    )
    /// The maximum length of a path in bytes.
    private static let maximumPathSize = 4096

    private let tables: SyncTables
    private var connection: SQLiteConnection { tables.connection }

    init(_ tables: SyncTables) { self.tables = tables }

    /// A file of the last captured generation.
    private struct Known {
        var file: AccompanyingFile
        var digest: Data
    }

    // MARK: - Settings

    /// The patterns of files that this replica neither sends nor takes.
    func excludedPatterns() throws -> [String] {
        try setting(Self.excludedKey).split(separator: "\n").map(String.init)
    }

    func setExcludedPatterns(_ patterns: [String]) throws {
        if try excludedPatterns() == patterns { return }
        try set(Self.excludedKey, patterns.joined(separator: "\n"))
        // What was left out before is a new file, or one to be written.
        try set(Self.generationKey, "?")
        try markPending()
    }

    private func setting(_ key: String) throws -> String {
        try connection.row("SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = ?", key) {
            String(decoding: $0.data(0), as: UTF8.self)
        } ?? ""
    }

    private func set(_ key: String, _ text: String) throws {
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC VALUES (?, ?)", key, Data(text.utf8))
    }

    // MARK: - Capturing

    /// Whether the generation is not the last captured one.
    func hasChanges(_ files: any AccompanyingFiles, _ records: [String: String]) throws -> Bool {
        try setting(Self.generationKey) != (files.generation(in: records) ?? "")
    }

    /// Makes a segment of the changes of files since the last time.
    ///
    /// - Returns: The number of conflicts with changes of others that had not been written yet.
    func capture(at date: Date) throws -> Int {
        guard let files = tables.store.files else { return 0 }
        let records = try tables.store.records()
        guard try hasChanges(files, records) else { return 0 }
        let excluded = SyncPathPatterns(try excludedPatterns())
        var known = try knownFiles()
        var conflictCount = 0
        var changes: [SyncRecord] = []
        var size = 0
        func finishSegment() throws {
            if !changes.isEmpty { try tables.addToOutbox(changes) }
            (changes, size) = ([], 0)
        }
        for file in try files.files(in: records) where !excluded.matches(file.path) {
            let old = known.removeValue(forKey: file.path)
            if let old, old.file.number == file.number, old.file.size == file.size,
                old.file.time == file.time
            {
                continue
            }
            guard let digest = try files.digest(of: file.path, in: records) else { continue }
            try note(file, digest)
            if old?.digest == digest { continue }
            let value: SyncValue
            if file.size <= SyncValue.maximumInlineSize,
                let data = try files.contents(of: file.path, in: records)
            {
                value = .binary(data)
            } else {
                value = .blob(SyncBlob(digest: digest, size: file.size))
            }
            guard
                let change = try change(
                    file.path, to: value, digest, from: old?.digest, at: date, &conflictCount)
            else { continue }
            changes.append(change)
            size += change.size
            if size > SyncReplica.snapshotPartSize.bytes { try finishSegment() }
        }
        for path in known.keys.sorted() {
            try forget(path)
            if excluded.matches(path) { continue }
            if let change = try change(
                path, to: nil, nil, from: known[path]?.digest, at: date, &conflictCount)
            {
                changes.append(change)
            }
        }
        try finishSegment()
        try set(Self.generationKey, files.generation(in: records) ?? "")
        // Recording local changes has set the mark too.
        if try pending().isEmpty { try set(Self.pendingKey, "") }
        return conflictCount
    }

    /// Records a change that was made here.
    ///
    /// - Parameters:
    ///   - value: The new bytes; `nil` if the file was removed.
    ///   - old: The digest of the file that was changed; `nil` if there was none.
    /// - Returns: The changed entries; `nil` if the record has them already.
    private func change(
        _ path: String, to value: SyncValue?, _ digest: Data?, from old: Data?, at date: Date,
        _ conflictCount: inout Int
    ) throws -> SyncRecord? {
        let id = identifier(of: path)
        var object =
            try tables.object(id) ?? .init(record: SyncRecord(id: id, entity: Self.entity))
        let present = Self.digest(of: object.record)
        if present == digest { return nil }
        let version = tables.nextVersion(at: date)
        // A remote change has not been written yet, so this change was made without knowledge of it.
        if let entry = object.record[Self.contentKey], present != nil, present != old {
            try tables.addConflict(of: object.record, Self.contentKey, entry, at: date)
            conflictCount += 1
        } else if value != nil {
            try tables.removeConflicts(of: id, Self.contentKey, before: version)
        }
        var change = SyncRecord(id: id, entity: Self.entity)
        func set(_ key: SyncKey, _ value: SyncValue) {
            change.set(key, value, version)
            object.record.set(key, value, version)
        }
        if object.record.isAlive == (value == nil) {
            guard object.record.canComeBack else { return nil }
            set(.existence, .integer(object.record.existenceCount + 1))
        }
        if let value {
            if object.record[Self.pathKey] == nil { set(Self.pathKey, .string(path)) }
            set(Self.contentKey, value)
        }
        try tables.put(object)
        return change
    }

    // MARK: - Writing

    /// A remote change of a file that has not been written yet.
    struct Pending: Sendable {
        let id: SyncIdentifier
        let path: String
        /// The bytes; `nil` if the file is to be removed.
        let value: SyncValue?

        var blob: SyncBlob? { if case .blob(let blob)? = value { blob } else { nil } }
    }

    /// Marks that files may have to be written.
    func markPending() throws { try set(Self.pendingKey, "1") }

    /// The files that are to be written.
    func pending() throws -> [Pending] {
        guard try setting(Self.pendingKey) == "1" else { return [] }
        let excluded = SyncPathPatterns(try excludedPatterns())
        let known = try knownFiles()
        let ids = try connection.rows(
            "SELECT Z_ID FROM QUIRE_SYNC_OBJECT WHERE Z_ROOT = ? ORDER BY Z_ID", Self.entity
        ) { SyncIdentifier(bytes: $0.data(0)) }
        return try ids.compactMap { id in
            guard let record = try tables.object(id)?.record, let path = path(of: record),
                !excluded.matches(path)
            else { return nil }
            let value = record.isAlive ? record[Self.contentKey]?.value : nil
            if record.isAlive && value == nil || Self.digest(of: record) == known[path]?.digest {
                return nil
            }
            return Pending(id: id, path: path, value: value)
        }
    }

    /// Writes files, in the turn that ``AccompanyingFiles/withTurn(_:)`` gives.
    ///
    /// - Parameter blobs: The large values that have arrived, by digest.
    /// - Returns: The reasons why files cannot be written, by path, and whether any was written.
    func write(
        _ blobs: [Data: Data], by writer: any AccompanyingFilesWriter
    ) throws -> (refused: [String: String], isChanged: Bool) {
        let store = tables.store
        guard let files = store.files else { return ([:], false) }
        var changes: [String: Data?] = [:]
        var remaining = 0
        for file in try pending() {
            let data: Data?
            switch file.value {
            case nil: data = nil
            case .binary(let bytes): data = bytes
            case .blob(let blob): data = blobs[blob.digest]
            default: continue  // Of a later version.
            }
            if writer.isUnsaved(file.path) || file.value != nil && data == nil {
                remaining += 1
            } else {
                changes.updateValue(data, forKey: file.path)
            }
        }
        if changes.isEmpty {
            if remaining == 0 { try set(Self.pendingKey, "") }
            return ([:], false)
        }
        let before = try store.records()
        let (records, refused) = try writer.write(changes, after: before)
        if !records.isEmpty {
            var save = ChangeSet()
            save.records = records
            _ = try store.save(save)
            let after = try store.records()
            let present = Dictionary(
                try files.files(in: after).map { ($0.path, $0) }, uniquingKeysWith: { $1 })
            for (path, data) in changes where refused[path] == nil {
                if let data, let file = present[path] {
                    try note(file, Data(SHA256.hash(data: data)))
                } else {
                    try forget(path)
                }
            }
            try set(Self.generationKey, files.generation(in: after) ?? "")
        }
        if remaining == 0 && refused.isEmpty { try set(Self.pendingKey, "") }
        return (refused, !records.isEmpty)
    }

    // MARK: - Records

    /// The identifier of the file with a path.
    private func identifier(of path: String) -> SyncIdentifier {
        SyncIdentifier(
            ofObjectNamed: Array(path.utf8), entity: Self.entity, in: tables.settings.container)
    }

    /// The path of a record's file; `nil` if it is not that of its identifier, because a file of others lies.
    func path(of record: SyncRecord) -> String? {
        guard case .string(let path)? = record[Self.pathKey]?.value,
            path.utf8.count <= Self.maximumPathSize, identifier(of: path) == record.id
        else { return nil }
        return path
    }

    /// Whether an entry of a record is the bytes of its file.
    static func isContent(_ key: SyncKey) -> Bool { key == contentKey }

    /// The digest of the file that a record says there is; `nil` if there is none.
    private static func digest(of record: SyncRecord) -> Data? {
        guard record.isAlive else { return nil }
        return switch record[contentKey]?.value {
        case .binary(let data): Data(SHA256.hash(data: data))
        case .blob(let blob): blob.digest
        default: nil
        }
    }

    // MARK: - The table

    private func knownFiles() throws -> [String: Known] {
        guard try connection.hasTable(Self.table) else { return [:] }
        let rows = try connection.rows(
            "SELECT Z_PATH, Z_NUMBER, Z_SIZE, Z_TIME, Z_DIGEST FROM \(Self.table)"
        ) { row in
            let file = AccompanyingFile(
                path: row.text(0), size: row.integer(2), number: UInt64(bitPattern: row.integer(1)),
                time: row.integer(3))
            return (file.path, Known(file: file, digest: row.data(4)))
        }
        return Dictionary(rows, uniquingKeysWith: { $1 })
    }

    private func note(_ file: AccompanyingFile, _ digest: Data) throws {
        if try !connection.hasTable(Self.table) {
            try connection.execute(
                "CREATE TABLE \(Self.table) (Z_PATH VARCHAR PRIMARY KEY, Z_NUMBER INTEGER, Z_SIZE INTEGER, Z_TIME INTEGER, Z_DIGEST BLOB) WITHOUT ROWID"
            )
        }
        try connection.run(
            "INSERT OR REPLACE INTO \(Self.table) VALUES (?, ?, ?, ?, ?)", file.path,
            Int64(bitPattern: file.number), file.size, file.time, digest)
    }

    private func forget(_ path: String) throws {
        guard try connection.hasTable(Self.table) else { return }
        try connection.run("DELETE FROM \(Self.table) WHERE Z_PATH = ?", path)
    }
}

/// Patterns of paths, as `.gitignore` has them: `*` and `?` stand for anything but `/`. A pattern without `/` matches files and folders
/// of that name anywhere; what is in a folder that matches is matched too.
struct SyncPathPatterns {
    private let patterns: [String]

    init(_ patterns: [String]) { self.patterns = patterns }

    func matches(_ path: String) -> Bool {
        if patterns.isEmpty { return false }
        let parts = path.split(separator: "/").map(String.init)
        return patterns.contains { pattern in
            let pattern = pattern.hasSuffix("/") ? String(pattern.dropLast()) : pattern
            guard pattern.contains("/") else { return parts.contains { Self.match(pattern, $0) } }
            let anchored = pattern.hasPrefix("/") ? String(pattern.dropFirst()) : pattern
            return parts.indices.contains {
                Self.match(anchored, parts[...$0].joined(separator: "/"))
            }
        }
    }

    private static func match(_ pattern: String, _ text: String) -> Bool {
        fnmatch(pattern, text, FNM_PATHNAME) == 0
    }
}
