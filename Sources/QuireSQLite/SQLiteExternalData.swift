package import Foundation
package import QuireModel
package import QuireProtection
internal import QuireStore
package import QuireSystem

/// The files in which a store keeps large binary values: `.NAME_SUPPORT/_EXTERNAL_DATA/UUID` beside the store,
/// where NAME is the store's name without extension.
///
/// A file never changes once it has its name. It is there, on disk, before the transaction commits that refers to
/// it, and goes only after one has committed that does not any more.
package struct SQLiteExternalData: ExternalDataReading {
    /// The folder of the files.
    package let folder: String
    /// The store's folder. What is beneath it is input; see ``FileLocation``.
    package let root: String
    /// What the store knows of them, if it is open.
    let records: SQLiteExternalRecords?
    /// Where they are read, which is elsewhere when another store has taken this one's place.
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

    /// What was read from this store finds its files with another one.
    func move(to other: SQLiteExternalData) { place.move(to: other.place) }

    /// The folder around it, which has the store's name.
    package var supportFolder: String { FileSystem.folder(of: folder) }

    package func path(ofFileNamed name: String) -> String { FileSystem.path(folder, name) }

    /// What is in the folder under a name; `nil` if there is nothing.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if a symbolic link is in the way.
    package func information(ofFileNamed name: String) throws -> FileInformation? {
        try FileSystem.information(at: path(ofFileNamed: name), beneath: root)
    }

    /// Whether there is a file of a name that can be read, and not something else in its place.
    package func hasFile(named name: String) -> Bool {
        (try? information(ofFileNamed: name))??.kind == .regular
    }

    /// Whether there is nothing under a name, as far as that can be told.
    package func lacksFile(named name: String) -> Bool {
        do { return try information(ofFileNamed: name) == nil } catch { return false }
    }

    /// Why there is no file of a name, as a sentence.
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

    /// The names in the folder; none if it is not there.
    package func names() throws -> [String] {
        do {
            return try FileSystem.names(in: folder, beneath: root)
        } catch let error as QuireError where error.code == .notFound {
            return []
        }
    }

    /// Writes a new file. Its bytes are synchronized, its name is not.
    func write(_ data: Data, toFileNamed name: String) throws {
        let path = path(ofFileNamed: name)
        try FileSystem.writeNewFile(
            place.classKey?.sealed(data, path: path) ?? data, at: path, beneath: root,
            synchronizingFolder: false)
    }

    package func data(named name: String) throws -> Data { try externalData(named: name).data() }

    /// The value in a file, which is not looked at.
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

    // MARK: - The form of a value

    /// Whether a text is 8-4-4-4-12 hexadecimal digits. Nothing else may become part of a path.
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

    /// Whether a stored value has the form that a value in the row or in a file must have.
    static func isWellFormed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        switch bytes.first {
        case ExternalDataTag.inline: true
        case ExternalDataTag.external: fileName(in: bytes) != nil
        default: false
        }
    }

    /// The name of the file that a stored value refers to; `nil` if it refers to none.
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

/// Removes files with external data that no row refers to.
///
/// Those that a save has left behind go when the store is closed: not earlier, because rows read before may still refer to
/// them. If others have the store open by then, whose rows may, they are left for whoever closes or opens it last. Those
/// that were written for a value which was never saved, because the process was killed, go when nobody else can be writing:
/// when the owner of the document's lock opens or closes it, or after a day. What somebody in this process holds stays.
struct SQLiteExternalDataCleanup {
    let store: SQLiteStore
    let writer: SQLiteWriter

    /// Files of nobody are left for so long, in seconds: another process may be about to refer to one.
    private static let patience: Int64 = 24 * 60 * 60

    /// The paths of the files to remove.
    func unusedFiles() -> [String] {
        var names = writer.unreferencedFiles
        do {
            names.formUnion(try orphans())
            // The rows have the last word: a version that was restored may refer to them again.
            if !names.isEmpty { names.subtract(try store.externalFileNames(writer.connection)) }
        } catch {
            return []
        }
        return names.map(store.externalData.path(ofFileNamed:))
    }

    /// Removes files of a store that this process has closed, unless others have it open. What cannot be removed is in
    /// nobody's way.
    static func remove(_ paths: [String], ofStoreAt storePath: String) {
        // Whoever closes the store last removes its log.
        if paths.isEmpty || FileSystem.exists(storePath + "-wal") { return }
        remove(paths, beneath: FileSystem.folder(of: storePath))
    }

    /// Removes what nobody holds.
    private static func remove(_ paths: [String], beneath root: String) {
        for path in paths where !ExternalFileRetainCounts.contains(FileSystem.name(of: path)) {
            _ = try? FileSystem.removeFileIfPresent(path, beneath: root)
        }
    }

    /// Removes what an owner of the lock has left who was killed. Call it when the store has been opened by the next one, if
    /// nobody had it open.
    func collectAfterOpening() {
        Self.remove(unusedFiles(), beneath: store.externalData.root)
    }

    /// Files of which nothing is recorded, and which nobody is about to refer to.
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
