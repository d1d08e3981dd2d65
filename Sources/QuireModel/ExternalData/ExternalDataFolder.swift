package import Foundation
package import QuireProtection
package import QuireSystem

/// The folder of a store's external data files: `.NAME_SUPPORT/_EXTERNAL_DATA` beside the store, where NAME is the store's name
/// without extension. Or a temporary folder, for values without a store, or whose store has no external data or is read-only.
///
/// A file is immutable once it has its name. It is durable before the commit of the transaction that refers to it, and removed
/// only after the commit of one that no longer does, and not while it is retained. Rows and values share the folder, so that
/// they find their files after the store has been moved.
package final class ExternalDataFolder: Sendable {
    /// The path of the folder, the root that it must not escape from (see ``FileLocation``), and the class key of its files;
    /// `nil` if they are not sealed.
    struct Location: Sendable {
        let folder: String
        let root: String
        let classKey: ClassKey?

        func path(ofFileNamed name: String) -> String { FileSystem.path(folder, name) }
    }

    private struct State {
        var location: Location
        weak var records: (any ExternalDataRecords)?
    }

    /// The location of the store that the folder was made for.
    private let own: Location
    private let state: Lock<State>

    init(_ location: Location) {
        own = location
        state = Lock(State(location: location))
    }

    package convenience init(_ folder: String, beneath root: String, classKey: ClassKey?) {
        self.init(Location(folder: folder, root: root, classKey: classKey))
    }

    /// The folder of the store at a path.
    ///
    /// - Parameter classKey: The class key of the files; `nil` for unsealed files, and if only names are used.
    package convenience init(storePath: String, classKey: ClassKey? = nil) {
        let storePath = StorePath.resolvingLink(storePath)
        let support = StorePath.supportFolder(of: storePath)
        self.init(
            FileSystem.path(support, StorePath.externalData),
            beneath: FileSystem.folder(of: storePath), classKey: classKey)
    }

    /// The temporary folder.
    package static func temporary(classKey: ClassKey? = nil) -> ExternalDataFolder {
        let folder = FileSystem.absolute(FileManager.default.temporaryDirectory.path)
        return ExternalDataFolder(folder, beneath: folder, classKey: classKey)
    }

    /// The path of the folder.
    package var folder: String { own.folder }
    /// The store's folder.
    package var root: String { own.root }
    /// The class key of new files; `nil` for unsealed files.
    package var classKey: ClassKey? { own.classKey }
    /// The parent folder, named after the store.
    package var supportFolder: String { FileSystem.folder(of: folder) }

    /// The location to read files from, which changes when a successor takes the store's place.
    var location: Location { state.withLock { $0.location } }

    /// Redirects reads of this store's values to another store's files.
    package func move(to other: ExternalDataFolder) {
        let location = other.location
        state.withLock { $0.location = location }
    }

    /// The records of the open store, which is not kept open.
    var records: (any ExternalDataRecords)? { state.withLock { $0.records } }

    /// Sets the store to query.
    package func follow(_ records: any ExternalDataRecords) {
        state.withLock { $0.records = records }
    }

    // MARK: - Names

    /// Whether a text is 8-4-4-4-12 hexadecimal digits. Only such a name may become part of a path.
    package static func isFileName(_ name: String) -> Bool { isFileName(name.utf8) }

    package static func isFileName(_ name: some Collection<UInt8>) -> Bool {
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

    package func path(ofFileNamed name: String) -> String { own.path(ofFileNamed: name) }

    /// The names in the folder; empty if it does not exist.
    package func names() throws -> [String] {
        do {
            return try FileSystem.names(in: folder, beneath: root)
        } catch let error as QuireError where error.code == .notFound {
            return []
        }
    }

    // MARK: - Files

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
        return Self.missingError(path).message
    }

    /// The error for a file that does not exist.
    static func missingError(_ path: String, underlying: (any Error)? = nil) -> QuireError {
        QuireError(
            .invalidFormat,
            "The file “\(path)”, which contains a value of the store, is missing; restore it from a backup.",
            file: path, underlying: underlying)
    }

    package func data(named name: String) throws -> Data { try externalData(named: name).data() }

    /// The value in a file, which is not accessed.
    package func externalData(named name: String) throws -> ExternalData {
        guard Self.isFileName(name) else {
            throw QuireError(
                .invalidFormat,
                "“\(name)” is not a valid name for an external data file; the store is damaged.",
                file: folder)
        }
        return ExternalData(.file(ExternalDataFile(name, in: self)))
    }

    /// Makes the folder, durably.
    package func make() throws { try FileSystem.makeFolderDurably(folder, beneath: root) }

    /// Makes the names of files durable.
    package func synchronize() throws { try FileSystem.synchronizeFolder(folder, beneath: root) }

    /// Writes a new file. Its content is durable, its name is not.
    package func write(_ data: Data, toFileNamed name: String) throws {
        let path = path(ofFileNamed: name)
        try FileSystem.writeNewFile(
            classKey?.sealed(data, path: path) ?? data, at: path, beneath: root,
            synchronizingFolder: false)
    }

    /// Copies a value of any size to a new file, verifying it against its record if that is known. The file's content is
    /// durable, its name is not.
    package func write(
        _ value: ExternalData, toFileNamed name: String
    ) throws -> ExternalDataRecord {
        let digest = RunningDigest()
        try value.write(
            to: path(ofFileNamed: name), beneath: root, sealing: classKey, digest: digest,
            checking: value.file?.knownRecord)
        return digest.record
    }

    // MARK: - Removing

    /// The retain counts of files in this process, by their unique names.
    private static let retainCounts = Lock<[String: Int]>([:])

    static func retain(_ name: String) { retainCounts.withLock { $0[name, default: 0] += 1 } }

    static func release(_ name: String) {
        retainCounts.withLock { counts in
            counts[name] = counts[name].flatMap { $0 > 1 ? $0 - 1 : nil }
        }
    }

    /// Whether a file is retained.
    package static func isRetained(_ name: String) -> Bool {
        retainCounts.withLock { $0[name] != nil }
    }

    /// Removes a file. One that cannot be removed does no harm.
    package func removeFile(named name: String) {
        _ = try? FileSystem.removeFileIfPresent(path(ofFileNamed: name), beneath: root)
    }

    /// Removes files that are not retained.
    package func removeUnretained(_ names: some Sequence<String>) {
        for name in names where !Self.isRetained(name) { removeFile(named: name) }
    }
}

/// A store's recorded sizes and digests of external data files.
package protocol ExternalDataRecords: AnyObject, Sendable {
    /// The recorded size and digest of a file; `nil` if there is no record.
    func externalDataRecord(ofFileNamed name: String) -> ExternalDataRecord?
    /// Whether whole values are verified against the record when read.
    var verifiesExternalData: Bool { get }
}

/// The size and digest of a file.
package struct ExternalDataRecord: Sendable, Hashable {
    package var size: Int
    package var sha256: Data

    package init(size: Int, sha256: Data) {
        self.size = size
        self.sha256 = sha256
    }
}
