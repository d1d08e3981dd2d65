import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Writes the large binary values of a save to files, durably, before its transaction begins.
///
/// Files in the store's folder are not copied: one spooled for an unsaved value is taken over, others get a hard link. So do
/// files whose bytes equal those of another file of the store, after comparison. Every value has its own name, so that each can
/// be removed separately.
struct SQLiteExternalDataWriter {
    /// A complete, synchronized file.
    private struct File {
        let name: String
        let record: ExternalDataRecord
        /// The spooled file, if it existed before the save; retained until the save has moved it into the store.
        var spooled: ExternalDataFile?
        /// The original value, which may have been moved from elsewhere.
        var origin: ExternalDataFile?
    }

    /// The attribute of an object that holds a value.
    private struct Attribute: Hashable {
        let object: UInt64
        let slot: Int
    }

    let store: SQLiteStore
    let connection: SQLiteConnection
    private var files: [Attribute: File] = [:]
    /// The names of files by their contents.
    private var names: [ExternalDataRecord: String] = [:]

    private var externalData: ExternalDataFolder { store.externalData }

    init(store: SQLiteStore, connection: SQLiteConnection) {
        self.store = store
        self.connection = connection
    }

    var isEmpty: Bool { files.isEmpty }

    /// The name of a value's file; `nil` if the value is inline.
    func name(object: ManagedObjectID, slot: Int) -> String? {
        files.isEmpty ? nil : files[Attribute(object: object.bits, slot: slot)]?.name
    }

    // MARK: - Writing

    /// Writes the files of a save. On failure the files already written are removed.
    mutating func write(_ changes: ChangeSet) throws {
        do {
            for change in changes.updated { try write(change) }
            for change in changes.inserted { try write(change) }
            try synchronizeFolder()
        } catch {
            remove()
            throw error
        }
    }

    /// Writes the files of one object. Their names are durable when ``synchronizeFolder()`` returns.
    mutating func write(_ change: ObjectChange) throws {
        for slot in change.entity.slots
        where slot.isExternalCapable && change.changedSlots.contains(slot.index) {
            let value = change.values[slot.index]
            guard let size = value.binarySize, size > store.options.externalDataThreshold else {
                continue
            }
            if files.isEmpty { try externalData.make() }
            let file: File
            if case .external(let external) = value, let present = external.file {
                file = try take(external, present)
            } else {
                file = try new(value.contents() ?? Data())
            }
            files[Attribute(object: change.objectID.bits, slot: slot.index)] = file
            names[file.record] = file.name
        }
    }

    /// Makes the file names durable.
    func synchronizeFolder() throws {
        if !files.isEmpty { try externalData.synchronize() }
    }

    /// Writes bytes to a new file.
    private func new(_ data: Data) throws -> File {
        let record = ExternalDataRecord(
            size: data.count, sha256: RunningDigest.sha256(of: data))
        let name = UUID().uuidString
        let path = externalData.path(ofFileNamed: name)
        if try !linkTwin(of: ExternalData(data), record, to: path) {
            try externalData.write(data, toFileNamed: name)
        }
        return File(name: name, record: record)
    }

    /// Takes over, links or copies the file of a value.
    private func take(
        _ value: ExternalData, _ file: ExternalDataFile
    ) throws -> File {
        if let record = file.knownRecord, file.claim(in: externalData.folder) {
            do {
                try shareTwin(of: value, file, record)
            } catch {
                file.giveBack()
                throw error
            }
            return File(name: file.name, record: record, spooled: file, origin: file)
        }
        let name = nameForCopy(of: file)
        let path = externalData.path(ofFileNamed: name)
        if file.folder == externalData.folder, file.information != nil,
            (try? FileSystem.link(file.path, to: path, beneath: externalData.root)) != nil
        {
            do {
                return File(name: name, record: try record(of: file, value))
            } catch {
                externalData.removeFile(named: name)
                throw error
            }
        }
        if let record = file.knownRecord, try linkTwin(of: value, record, to: path) {
            return File(name: name, record: record, origin: file)
        }
        let copy = try value.naming {
            try externalData.write(value, toFileNamed: name)
        }
        return File(name: name, record: copy, origin: file)
    }

    /// The name for a value in this store. A value not saved in its own store keeps its name if possible, so that it is found
    /// when the document switches to this store.
    private func nameForCopy(of file: ExternalDataFile) -> String {
        let isFree =
            file.isSpooled && ExternalDataFolder.isFileName(file.name)
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
        return digest.record
    }

    // MARK: - Duplicates

    /// A file of the store with the same bytes as a value.
    private func twin(
        of value: ExternalData, _ record: ExternalDataRecord
    ) throws -> String? {
        var names = try connection.externalFiles(like: record)
        if let name = self.names[record] { names.insert(name, at: 0) }
        for name in names where ExternalDataFolder.isFileName(name) {
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
        of value: ExternalData, _ record: ExternalDataRecord, to path: String
    ) throws -> Bool {
        guard let twin = try twin(of: value, record) else { return false }
        return (try? FileSystem.link(twin, to: path, beneath: externalData.root)) != nil
    }

    /// Replaces the file of a value by a hard link to a duplicate.
    private func shareTwin(
        of value: ExternalData, _ file: ExternalDataFile, _ record: ExternalDataRecord
    ) throws {
        guard let twin = try twin(of: value, record) else { return }
        let (path, root, _) = file.location
        let temporary = FileSystem.temporarySibling(of: path, for: "new")
        guard (try? FileSystem.link(twin, to: temporary, beneath: root)) != nil else { return }
        try FileSystem.removeOnFailure(temporary, beneath: root) {
            try FileSystem.rename(temporary, to: path, beneath: root)
            // `rename` does nothing if both names are the same file.
            _ = try FileSystem.removeFileIfPresent(temporary, beneath: root)
        }
    }

    // MARK: - Outcome

    /// Records sizes and digests of the files, for verification by a check, and deletes the records of dereferenced ones.
    func writeRecords(removing removed: Set<String>) throws {
        if isEmpty && removed.isEmpty { return }
        try connection.execute(SQLiteTables.createExternalData)
        for file in files.values {
            try connection.writeExternalDataRecord(file.record, ofFileNamed: file.name)
        }
        for name in removed {
            try connection.run("DELETE FROM \(SQLiteTables.externalData) WHERE Z_UUID = ?", name)
        }
    }

    /// Transfers the files to the store after a commit.
    func didSave() {
        giveToStore()
        for file in files.values {
            file.spooled?.removeOriginal()
            file.origin?.removeOriginal()
        }
    }

    /// Removes the files of a failed save; keeps them if the outcome of its commit is unknown, as the transaction may refer to
    /// them after all.
    func didFail(_ writer: SQLiteWriter) {
        if writer.poison == nil { return remove() }
        giveToStore()
        writer.uncertainFiles.formUnion(files.values.map(\.name))
    }

    /// Keeps the files where they are.
    private func giveToStore() { for file in files.values { file.spooled?.giveToStore() } }

    /// Removes the files, except those that existed before: another save may use them.
    private func remove() {
        for file in files.values {
            if let spooled = file.spooled {
                spooled.giveBack()
            } else {
                externalData.removeFile(named: file.name)
            }
        }
    }
}
