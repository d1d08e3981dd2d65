internal import Crypto
import Foundation

/// Files with external data that a save has written.
struct SQLiteExternalFiles {
    /// A file that is complete and on disk.
    struct File {
        let name: String
        let size: Int
        let digest: Data
    }

    /// Where a value is.
    struct Place: Hashable {
        let object: UInt64
        let slot: Int
    }

    fileprivate(set) var files: [Place: File] = [:]
    let externalData: SQLiteExternalData

    var isEmpty: Bool { files.isEmpty }
    var all: some Collection<File> { files.values }

    /// The name of the file with a value; `nil` if the value is kept in the row.
    func name(object: ManagedObjectID, slot: Int) -> String? {
        files.isEmpty ? nil : files[Place(object: object.bits, slot: slot)]?.name
    }

    /// Makes the names of the files durable.
    func synchronizeFolder() throws {
        if !files.isEmpty { try FileSystem.synchronizeFolder(externalData.folder) }
    }

    /// Records sizes and digests of the files, and forgets those of files that nothing refers to any more, so that a
    /// check can tell whether they are whole.
    func writeDigests(removing removed: Set<String>, _ connection: SQLiteConnection) throws {
        if isEmpty && removed.isEmpty { return }
        try connection.execute(SQLiteTables.createExternalData)
        for file in all {
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

    /// Removes the files of a save that failed. What cannot be removed is in nobody's way.
    func remove() {
        for file in files.values {
            _ = try? FileSystem.removeFileIfPresent(externalData.path(ofFileNamed: file.name))
        }
    }
}

/// Writes the large binary values of a save to files, durably, before its transaction begins.
struct SQLiteExternalDataWriter {
    let store: SQLiteStore
    let changes: ChangeSet

    /// Writes the files. If one fails, those before it are removed.
    func write() throws -> SQLiteExternalFiles {
        var files = SQLiteExternalFiles(externalData: store.externalData)
        do {
            for change in changes.updated { try write(change, to: &files) }
            for change in changes.inserted { try write(change, to: &files) }
            try files.synchronizeFolder()
        } catch {
            files.remove()
            throw error
        }
        return files
    }

    /// Writes the files of one object. Their names are durable when ``SQLiteExternalFiles/synchronizeFolder()`` returns.
    func write(_ change: ObjectChange, to files: inout SQLiteExternalFiles) throws {
        for slot in change.entity.slots
        where slot.isExternalCapable && change.changedSlots.contains(slot.index) {
            guard case .binary(let data) = change.values[slot.index],
                data.count > ExternalDataTag.greatestInlineSize
            else { continue }
            if files.isEmpty { try makeFolder() }
            let name = UUID().uuidString
            try FileSystem.writeNewFile(
                data, at: store.externalData.path(ofFileNamed: name), synchronizingFolder: false)
            files.files[.init(object: change.objectID.bits, slot: slot.index)] = .init(
                name: name, size: data.count, digest: Data(SHA256.hash(data: data)))
        }
    }

    /// Makes the folder, and its name durable.
    private func makeFolder() throws {
        let folder = store.externalData.folder
        if FileSystem.exists(folder) { return }
        try FileSystem.makeFolder(folder, withIntermediates: true)
        try FileSystem.synchronizeFolder(containing: folder)
        try FileSystem.synchronizeFolder(containing: FileSystem.folder(of: folder))
    }
}

/// Removes files with external data that no row refers to, when the store is closed.
///
/// Not earlier, because rows read before may still refer to them.
struct SQLiteExternalDataCleanup {
    let store: SQLiteStore
    let writer: SQLiteWriter

    /// Files of nobody are left for so long, in seconds: another process may be about to refer to one.
    private static let patience: Int64 = 24 * 60 * 60

    func run() {
        for name in unreferenced() { remove(name) }
        guard store.carriesModel, let orphans = try? orphans() else { return }
        for name in orphans { remove(name) }
    }

    /// The files that saves have dropped, but those that rows refer to again: content that was replaced since may be from
    /// before.
    private func unreferenced() -> Set<String> {
        if writer.unreferencedFiles.isEmpty { return [] }
        guard let used = try? store.externalFileNames(writer.connection) else { return [] }
        return writer.unreferencedFiles.subtracting(used)
    }

    /// What cannot be removed is in nobody's way.
    private func remove(_ name: String) {
        _ = try? FileSystem.removeFileIfPresent(store.externalData.path(ofFileNamed: name))
    }

    /// Files that a save left behind which never got to its end, because the process was killed.
    private func orphans() throws -> [String] {
        let folder = store.externalData.folder
        guard FileSystem.exists(folder) else { return [] }
        var known: Set<String> = []
        if try writer.connection.hasTable(SQLiteTables.externalData) {
            try writer.connection.withStatement("SELECT Z_UUID FROM \(SQLiteTables.externalData)") {
                while try $0.step() { known.insert($0.text(0)) }
            }
        }
        let now = Int64(Date().timeIntervalSince1970)
        return try FileSystem.names(in: folder).filter { name in
            guard SQLiteExternalData.isFileName(name), !known.contains(name),
                let information = try FileSystem.information(
                    at: store.externalData.path(ofFileNamed: name))
            else { return false }
            return now - information.statusChangeTime > Self.patience
        }
    }
}
