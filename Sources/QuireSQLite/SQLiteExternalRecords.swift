import Foundation
package import QuireModel
internal import QuireSystem

/// What an open store has recorded of its files with external data. It does not keep the store open.
package final class SQLiteExternalRecords: ExternalDataRecords {
    private struct Followed {
        weak var store: SQLiteStore?
    }

    private let followed = Lock(Followed())

    /// Asks a store from now on.
    func follow(_ store: SQLiteStore) { followed.withLock { $0.store = store } }

    private var store: SQLiteStore? { followed.withLock { $0.store } }

    /// Whether whole values are compared with their digests when they are read.
    package var verifiesWholeValues: Bool { store?.options.verifiesExternalData ?? false }

    package func record(ofFileNamed name: String) -> ExternalDataRecord? {
        guard let store else { return nil }
        // Without a record it cannot be told whether the file is whole; reading it still works.
        return try? store.read { try $0.externalDataRecord(ofFileNamed: name) }
    }
}

extension SQLiteConnection {
    /// What the store has recorded of a file with external data.
    func externalDataRecord(ofFileNamed name: String) throws -> ExternalDataRecord? {
        guard try hasTable(SQLiteTables.externalData) else { return nil }
        return try withStatement(
            "SELECT Z_BYTES, Z_SHA256 FROM \(SQLiteTables.externalData) WHERE Z_UUID = ?"
        ) {
            try $0.bind(name, at: 1)
            guard try $0.step(), $0.integer(0) >= 0 else { return nil }
            return ExternalDataRecord(size: Int($0.integer(0)), sha256: $0.data(1))
        }
    }

    /// The names of files that are recorded with these bytes.
    func externalFiles(like record: ExternalDataRecord) throws -> [String] {
        guard try hasTable(SQLiteTables.externalData) else { return [] }
        return try withStatement(
            "SELECT Z_UUID FROM \(SQLiteTables.externalData) WHERE Z_BYTES = ? AND Z_SHA256 = ? LIMIT 4"
        ) {
            try $0.bind(Int64(record.size), at: 1)
            try $0.bind(record.sha256, at: 2)
            var names: [String] = []
            while try $0.step() { names.append($0.text(0)) }
            return names
        }
    }
}
