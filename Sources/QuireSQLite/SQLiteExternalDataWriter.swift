import Foundation
package import QuireModel
internal import QuireStore
internal import QuireSystem

/// The external data files referenced by a save.
struct SQLiteExternalFiles {
    /// A complete, synchronized file.
    struct File {
        let name: String
        let record: ExternalDataRecord
        /// The spooled file, if it existed before the save; retained until the save has moved it into the store.
        var spooled: ExternalDataFile?
        /// The original value, which may have been moved from elsewhere.
        var origin: ExternalDataFile?
    }

    /// The attribute of an object that holds a value.
    struct Place: Hashable {
        let object: UInt64
        let slot: Int
    }

    fileprivate(set) var files: [Place: File] = [:]
    /// The names of files by their contents.
    fileprivate var names: [ExternalDataRecord: String] = [:]
    let externalData: SQLiteExternalData

    init(externalData: SQLiteExternalData) { self.externalData = externalData }

    var isEmpty: Bool { files.isEmpty }
    var all: some Collection<File> { files.values }

    /// The name of a value's file; `nil` if the value is inline.
    func name(object: ManagedObjectID, slot: Int) -> String? {
        files.isEmpty ? nil : files[Place(object: object.bits, slot: slot)]?.name
    }

    fileprivate mutating func add(_ file: File, at place: Place) {
        files[place] = file
        names[file.record] = file.name
    }

    /// Makes the file names durable.
    func synchronizeFolder() throws {
        if !files.isEmpty {
            try FileSystem.synchronizeFolder(externalData.folder, beneath: externalData.root)
        }
    }

    /// Records sizes and digests of the files, for verification by a check, and deletes the records of dereferenced ones.
    func writeDigests(removing removed: Set<String>, _ connection: SQLiteConnection) throws {
        if isEmpty && removed.isEmpty { return }
        try connection.execute(SQLiteTables.createExternalData)
        for file in all {
            try connection.withStatement(
                "INSERT INTO \(SQLiteTables.externalData) VALUES (?, ?, ?)"
            ) {
                try $0.bind(file.name, at: 1)
                try $0.bind(Int64(file.record.size), at: 2)
                try $0.bind(file.record.sha256, at: 3)
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

    // MARK: - Outcome

    /// Transfers the files to the store after a commit.
    func didSave() {
        giveToStore()
        for file in files.values {
            file.spooled?.removeOriginal()
            file.origin?.removeOriginal()
        }
    }

    /// Keeps the files where they are.
    func giveToStore() { for file in files.values { file.spooled?.giveToStore() } }

    /// Removes the files of a failed save, except those that existed before: another save may use them. Files that cannot be
    /// removed do no harm.
    func remove() {
        for file in files.values {
            if let spooled = file.spooled {
                spooled.giveBack()
            } else {
                _ = try? FileSystem.removeFileIfPresent(
                    externalData.path(ofFileNamed: file.name), beneath: externalData.root)
            }
        }
    }
}

/// Writes the large binary values of a save to files, durably, before its transaction begins.
///
/// Files in the store's folder are not copied: one spooled for an unsaved value is taken over, others get a hard link. So do
/// files whose bytes equal those of another file of the store, after comparison. Every value has its own name, so that each can
/// be removed separately.
struct SQLiteExternalDataWriter {
    let store: SQLiteStore
    let connection: SQLiteConnection
    let changes: ChangeSet
    private var externalData: SQLiteExternalData { store.externalData }

    /// Writes the files. On failure the files already written are removed.
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
            let value = change.values[slot.index]
            guard let size = value.binarySize, size > store.options.externalDataThreshold else {
                continue
            }
            if files.isEmpty {
                try FileSystem.makeFolderDurably(externalData.folder, beneath: externalData.root)
            }
            let file: SQLiteExternalFiles.File
            if case .external(let external) = value, let present = external.file {
                file = try take(external, present, files)
            } else {
                file = try new(value.contents() ?? Data(), files)
            }
            files.add(file, at: .init(object: change.objectID.bits, slot: slot.index))
        }
    }

    /// Writes bytes to a new file.
    private func new(_ data: Data, _ files: SQLiteExternalFiles) throws -> SQLiteExternalFiles.File
    {
        let record = ExternalDataRecord(
            size: data.count, sha256: RunningDigest.sha256(of: data))
        let name = UUID().uuidString
        let path = externalData.path(ofFileNamed: name)
        if try !linkTwin(of: ExternalData(data), record, to: path, files) {
            try externalData.write(data, toFileNamed: name)
        }
        return .init(name: name, record: record)
    }

    /// Takes over, links or copies the file of a value.
    private func take(
        _ value: ExternalData, _ file: ExternalDataFile, _ files: SQLiteExternalFiles
    ) throws -> SQLiteExternalFiles.File {
        if let record = file.knownRecord, file.claim(in: externalData.folder) {
            do {
                try shareTwin(of: value, file, record, files)
            } catch {
                file.giveBack()
                throw error
            }
            return .init(name: file.name, record: record, spooled: file, origin: file)
        }
        let name = nameForCopy(of: file)
        let path = externalData.path(ofFileNamed: name)
        if file.folder == externalData.folder, file.information != nil,
            (try? FileSystem.link(file.path, to: path, beneath: externalData.root)) != nil
        {
            do {
                return .init(name: name, record: try record(of: file, value))
            } catch {
                _ = try? FileSystem.removeFileIfPresent(path, beneath: externalData.root)
                throw error
            }
        }
        if let record = file.knownRecord, try linkTwin(of: value, record, to: path, files) {
            return .init(name: name, record: record, origin: file)
        }
        let copy = try value.naming {
            try SQLiteExternalCopy.copy(value, to: name, in: externalData)
        }
        return .init(name: name, record: copy, origin: file)
    }

    /// The name for a value in this store. A value not saved in its own store keeps its name if possible, so that it is found
    /// when the document switches to this store.
    private func nameForCopy(of file: ExternalDataFile) -> String {
        let isFree =
            file.isSpooled && SQLiteExternalData.isFileName(file.name)
            && !FileSystem.exists(
                externalData.path(ofFileNamed: file.name), beneath: externalData.root)
        return isFree ? file.name : UUID().uuidString
    }

    /// The record of a store's file. Read on this connection: a different one would deadlock.
    private func record(
        of file: ExternalDataFile, _ value: ExternalData
    ) throws -> ExternalDataRecord {
        if let known = try file.knownRecord ?? connection.externalDataRecord(ofFileNamed: file.name)
        {
            return known
        }
        let digest = RunningDigest()
        try value.forEachBlock(digest.update)
        return ExternalDataRecord(size: digest.size, sha256: digest.sha256)
    }

    // MARK: - Duplicates

    /// A file of the store with the same bytes as a value.
    private func twin(
        of value: ExternalData, _ record: ExternalDataRecord, _ files: SQLiteExternalFiles
    ) throws -> String? {
        var names = try connection.externalFiles(like: record)
        if let name = files.names[record] { names.insert(name, at: 0) }
        for name in names where SQLiteExternalData.isFileName(name) {
            let path = externalData.path(ofFileNamed: name)
            if path == value.path { continue }
            // It may be damaged; then the value must not be replaced by it.
            let other = try externalData.externalData(named: name)
            if other.size == record.size, (try? other.readsSame(as: value)) == true { return path }
        }
        return nil
    }

    /// Creates a hard link to a file of the store with the same bytes.
    ///
    /// - Returns: Whether there is one, and the file system supports hard links.
    private func linkTwin(
        of value: ExternalData, _ record: ExternalDataRecord, to path: String,
        _ files: SQLiteExternalFiles
    ) throws -> Bool {
        guard let twin = try twin(of: value, record, files) else { return false }
        return (try? FileSystem.link(twin, to: path, beneath: externalData.root)) != nil
    }

    /// Replaces the file of a value by a hard link to a duplicate.
    private func shareTwin(
        of value: ExternalData, _ file: ExternalDataFile, _ record: ExternalDataRecord,
        _ files: SQLiteExternalFiles
    ) throws {
        guard let twin = try twin(of: value, record, files) else { return }
        let (path, root, _) = file.location
        let temporary = FileSystem.temporarySibling(of: path, for: "new")
        guard (try? FileSystem.link(twin, to: temporary, beneath: root)) != nil else { return }
        do {
            try FileSystem.rename(temporary, to: path, beneath: root)
            // `rename` does nothing if both names are the same file.
            _ = try FileSystem.removeFileIfPresent(temporary, beneath: root)
        } catch {
            _ = try? FileSystem.removeFileIfPresent(temporary, beneath: root)
            throw error
        }
    }
}

// MARK: - Records

/// An open store's records of its external data files. Does not keep the store open.
package final class SQLiteExternalRecords: ExternalDataRecords {
    private struct Followed {
        weak var store: SQLiteStore?
    }

    private let followed = Lock(Followed())

    /// Sets the store to query.
    func follow(_ store: SQLiteStore) { followed.withLock { $0.store = store } }

    private var store: SQLiteStore? { followed.withLock { $0.store } }

    /// Whether whole values are verified against their digests when read.
    package var verifiesWholeValues: Bool { store?.options.verifiesExternalData ?? false }

    package func record(ofFileNamed name: String) -> ExternalDataRecord? {
        guard let store else { return nil }
        // Without a record the file cannot be verified; reading it still works.
        return try? store.read { try $0.externalDataRecord(ofFileNamed: name) }
    }
}

extension SQLiteConnection {
    /// The recorded size and digest of an external data file.
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

    /// The names of files recorded with the same size and digest.
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
