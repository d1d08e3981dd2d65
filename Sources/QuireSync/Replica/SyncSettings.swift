internal import Foundation
internal import Quire
internal import QuireSQLite

/// The identity and progress of a replica.
struct SyncSettings: Equatable, Sendable {
    /// The shared document.
    let container: SyncIdentifier
    /// This replica.
    var peer: SyncIdentifier
    /// The number of the last segment that this peer has written.
    var sequence: Int64 = 0
    var clock = SyncClock()
    /// The number of the last transaction of the store's history that is in segments, or came from them.
    var captured: Int64 = 0
    /// The segments that have been merged, own ones included.
    var seen = SyncVector()
    /// The segments that authors of merged files had merged: all that merged changes may rest upon.
    var known = SyncVector()
    /// The segments whose deletions may have been forgotten; see ``SyncStability``.
    var forgotten = SyncVector()
    /// The segments whose deletions are forgotten next, when all peers have acknowledged them.
    var candidate: Candidate?
    /// When this replica has last written a segment only to say what it has merged.
    var acknowledged: Date?
    /// Where going through all rows has got to: the number of an entity, and a primary key; `nil` if it is not under way.
    var scan: Scan?
    /// Whether rows must be compared with records at the end of the scan, because records have changed in its course.
    var hasStaleRows = false

    struct Candidate: Equatable, Sendable {
        /// The segments that all active peers had merged.
        let seen: SyncVector
        /// The last segment of each of them at that time, and those before it.
        let acknowledged: SyncVector
        var date: Date
    }

    struct Scan: Equatable, Sendable {
        var entity: String
        var key: Int64
    }

    func write(to connection: SQLiteConnection) throws {
        try connection.execute("DELETE FROM QUIRE_SYNC WHERE Z_KEY IN ('compare', 'stale')")
        if hasStaleRows {
            try connection.execute("INSERT INTO QUIRE_SYNC VALUES ('stale', 1)")
        }
        var writer = SyncByteWriter()
        writer.byte(1)
        writer.identifier(container)
        writer.identifier(peer)
        writer.unsigned(UInt64(sequence))
        writer.unsigned(clock.last)
        writer.unsigned(UInt64(captured))
        seen.encode(to: &writer)
        known.encode(to: &writer)
        forgotten.encode(to: &writer)
        writer.byte(candidate == nil ? 0 : 1)
        if let candidate {
            candidate.seen.encode(to: &writer)
            candidate.acknowledged.encode(to: &writer)
            writer.word(candidate.date.timeIntervalSinceReferenceDate.bitPattern)
        }
        writer.byte(acknowledged == nil ? 0 : 1)
        if let acknowledged {
            writer.word(acknowledged.timeIntervalSinceReferenceDate.bitPattern)
        }
        writer.byte(scan == nil ? 0 : 1)
        if let scan {
            writer.text(scan.entity)
            writer.signed(scan.key)
        }
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('settings', ?)", Data(writer.bytes))
        // For what keeps identifiers without reading the settings; see `FormerIdentifiers`.
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('clock', ?)", Int64(clamping: clock.last))
    }

    /// Reads the settings of a store; `nil` if it is not synchronized.
    static func read(from connection: SQLiteConnection, path: String) throws -> SyncSettings? {
        guard try connection.hasTable("QUIRE_SYNC") else { return nil }
        let bytes =
            try connection.row("SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = 'settings'") {
                Array($0.data(0))
            } ?? []
        var reader = SyncByteReader(bytes[...], file: path)
        let format = try reader.byte()
        guard format == 1 else {
            throw QuireError(
                .unsupported, "“\(path)” is synchronized by a later version of this program.",
                file: path)
        }
        var settings = SyncSettings(
            container: try reader.identifier(), peer: try reader.identifier())
        settings.sequence = Int64(try reader.unsigned() & 0x1FFF_FFFF_FFFF_FFFF)
        settings.clock = SyncClock(last: try reader.unsigned())
        settings.captured = Int64(try reader.unsigned() & 0x1FFF_FFFF_FFFF_FFFF)
        settings.seen = try SyncVector(from: &reader)
        settings.known = try SyncVector(from: &reader)
        settings.forgotten = try SyncVector(from: &reader)
        func date() throws -> Date {
            Date(timeIntervalSinceReferenceDate: Double(bitPattern: try reader.word()))
        }
        if try reader.byte() == 1 {
            settings.candidate = Candidate(
                seen: try SyncVector(from: &reader), acknowledged: try SyncVector(from: &reader),
                date: try date())
        }
        if try reader.byte() == 1 { settings.acknowledged = try date() }
        if try reader.byte() == 1 {
            settings.scan = Scan(entity: try reader.text(), key: try reader.signed())
        }
        settings.hasStaleRows =
            try connection.integer("SELECT 1 FROM QUIRE_SYNC WHERE Z_KEY = 'stale'") != nil
        // The rows have been replaced by those of an earlier version.
        if try connection.integer("SELECT 1 FROM QUIRE_SYNC WHERE Z_KEY = 'compare'") != nil {
            settings.scan = Scan(entity: "", key: 0)
        }
        return settings
    }
}
