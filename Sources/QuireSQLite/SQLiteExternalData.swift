package import Foundation
package import QuireModel
package import QuireProtection
internal import QuireStore
package import QuireSystem

/// The external data files of a store: `.NAME_SUPPORT/_EXTERNAL_DATA/UUID` beside the store, where NAME is the store's name
/// without extension.
///
/// A file is immutable once it has its name. It is durable before the commit of the transaction that refers to it, and removed
/// only after the commit of one that no longer does.
package struct SQLiteExternalData: ExternalDataReading {
    /// The folder of the files.
    package let folder: String
    /// The store's folder. Its content is untrusted input; see ``FileLocation``.
    package let root: String
    /// The records of the open store.
    let records: SQLiteExternalRecords?
    /// The folder to read from, which changes when a successor takes this store's place.
    package let place: ExternalDataPlace

    /// The files of the store at a path.
    ///
    /// - Parameter classKey: The class key of the files; `nil` for unsealed files, and if only names are used.
    package init(
        storePath: String, classKey: ClassKey? = nil, records: SQLiteExternalRecords? = nil
    ) {
        self.records = records
        let name = FileSystem.name(of: storePath)
        let stem: Substring
        if let dot = name.lastIndex(of: "."), dot != name.startIndex {
            stem = name[..<dot]
        } else {
            stem = name[...]
        }
        root = FileSystem.folder(of: storePath)
        let support = FileSystem.path(root, ".\(stem)_SUPPORT")
        folder = FileSystem.path(support, "_EXTERNAL_DATA")
        place = ExternalDataPlace(folder, beneath: root, classKey: classKey)
    }

    /// Redirects reads of this store's values to another store's files.
    func move(to other: SQLiteExternalData) { place.move(to: other.place) }

    /// The parent folder, named after the store.
    package var supportFolder: String { FileSystem.folder(of: folder) }

    package func path(ofFileNamed name: String) -> String { FileSystem.path(folder, name) }

    /// The entry with a name in the folder, or `nil`.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if its path contains a symbolic link.
    package func information(ofFileNamed name: String) throws -> FileInformation? {
        try FileSystem.information(at: path(ofFileNamed: name), beneath: root)
    }

    /// Whether a regular, readable file exists under a name.
    package func hasFile(named name: String) -> Bool {
        (try? information(ofFileNamed: name))??.kind == .regular
    }

    /// Whether no entry exists under a name, as far as can be determined.
    package func lacksFile(named name: String) -> Bool {
        do { return try information(ofFileNamed: name) == nil } catch { return false }
    }

    /// The reason why a file is missing, as a sentence.
    package func problem(withFileNamed name: String) -> String {
        let path = path(ofFileNamed: name)
        do {
            if let found = try information(ofFileNamed: name) {
                return found.foreignError(at: path, expected: .regular).message
            }
        } catch let error as QuireError {
            return error.message
        } catch {}
        return
            "The file “\(path)” that holds a value of the store is missing; restore it from a backup."
    }

    /// The names in the folder; empty if it does not exist.
    package func names() throws -> [String] {
        do {
            return try FileSystem.names(in: folder, beneath: root)
        } catch let error as QuireError where error.code == .notFound {
            return []
        }
    }

    /// Writes a new file. Its content is synchronized, its name is not.
    func write(_ data: Data, toFileNamed name: String) throws {
        let path = path(ofFileNamed: name)
        try FileSystem.writeNewFile(
            place.classKey?.sealed(data, path: path) ?? data, at: path, beneath: root,
            synchronizingFolder: false)
    }

    package func data(named name: String) throws -> Data { try externalData(named: name).data() }

    /// The value in a file, which is not accessed.
    package func externalData(named name: String) throws -> ExternalData {
        guard Self.isFileName(name) else {
            throw QuireError(
                .invalidFormat,
                "“\(name)” is no name of a file with external data; the store is damaged.",
                subject: .init(file: folder))
        }
        return ExternalData(
            .file(ExternalDataFile(name, in: place, records: records)))
    }

    // MARK: - Stored form

    /// Whether a text is 8-4-4-4-12 hexadecimal digits. Only such a name may become part of a path.
    package static func isFileName(_ name: String) -> Bool { isFileName(name.utf8) }

    private static func isFileName(_ name: some Collection<UInt8>) -> Bool {
        guard name.count == 36 else { return false }
        return name.enumerated().allSatisfy { position, byte in
            switch position {
            case 8, 13, 18, 23: byte == UInt8(ascii: "-")
            default:
                (0x30...0x39).contains(byte) || (0x41...0x46).contains(byte)
                    || (0x61...0x66).contains(byte)
            }
        }
    }

    /// Whether a stored value has the form of an inline or external value.
    static func isWellFormed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        switch bytes.first {
        case ExternalDataTag.inline: true
        case ExternalDataTag.external: fileName(in: bytes) != nil
        default: false
        }
    }

    /// The file name in a stored value; `nil` for an inline value.
    package static func fileName(in bytes: UnsafeRawBufferPointer) -> String? {
        guard bytes.first == ExternalDataTag.external, bytes.count >= 37,
            bytes.count == 37 || bytes[37] == 0
        else { return nil }
        let name = bytes[1..<37]
        return isFileName(name) ? String(decoding: name, as: UTF8.self) : nil
    }

    /// The stored value that refers to a file.
    static func reference(toFileNamed name: String) -> Data {
        Data([ExternalDataTag.external] + Array(name.utf8) + [0])
    }
}

// MARK: - Cleaning up

/// Removes unreferenced external data files.
///
/// Files dereferenced by a save are removed when the store is closed: not earlier, because rows read before may still refer to
/// them. If other processes then have the store open, they are left for the last one to close or open it. Files of killed
/// processes, written for values never saved, are removed when no other process can be writing: when the owner of the
/// document's lock opens or closes it, or after a day. Files retained in this process stay.
struct SQLiteExternalDataCleanup {
    let store: SQLiteStore
    let writer: SQLiteWriter

    /// The minimum age in seconds of an orphan to remove: another process may be about to refer to it.
    private static let patience: Int64 = 24 * 60 * 60

    /// The paths of the files to remove.
    func unusedFiles() -> [String] {
        var names = writer.unreferencedFiles
        do {
            names.formUnion(try orphans())
            // The rows are authoritative: a restored version may refer to a file again.
            if !names.isEmpty { names.subtract(try store.externalFileNames(writer.connection)) }
        } catch {
            return []
        }
        return names.map(store.externalData.path(ofFileNamed:))
    }

    /// Removes files of a store that this process has closed, unless it is open elsewhere. Files that cannot be removed do no
    /// harm.
    static func remove(_ paths: [String], ofStoreAt storePath: String) {
        // The last connection to close removes the log.
        if paths.isEmpty || FileSystem.exists(storePath + "-wal") { return }
        remove(paths, beneath: FileSystem.folder(of: storePath))
    }

    /// Removes files that are not retained.
    private static func remove(_ paths: [String], beneath root: String) {
        for path in paths where !ExternalFileRetainCounts.contains(FileSystem.name(of: path)) {
            _ = try? FileSystem.removeFileIfPresent(path, beneath: root)
        }
    }

    /// Removes files of a killed owner of the lock. Called when the next owner has opened the store, if it was not open.
    func collectAfterOpening() {
        Self.remove(unusedFiles(), beneath: store.externalData.root)
    }

    /// Unrecorded files that no process can be about to refer to.
    private func orphans() throws -> [String] {
        guard store.carriesModel else { return [] }
        var known: Set<String> = []
        if try writer.connection.hasTable(SQLiteTables.externalData) {
            try writer.connection.withStatement("SELECT Z_UUID FROM \(SQLiteTables.externalData)") {
                while try $0.step() { known.insert($0.text(0)) }
            }
        }
        let now = Int64(Date().timeIntervalSince1970)
        return try store.externalData.names().filter { name in
            guard
                SQLiteExternalData.isFileName(name) && !known.contains(name)
                    || FileSystem.isTemporaryName(name)
            else { return false }
            if ExternalFileRetainCounts.contains(name) { return false }
            if store.options.isOnlyWriter { return true }
            guard let information = try store.externalData.information(ofFileNamed: name) else {
                return false
            }
            return now - information.statusChangeTime > Self.patience
        }
    }
}
