package import Foundation
package import QuireProtection
package import QuireSystem

/// A store's recorded sizes and digests of external data files.
package protocol ExternalDataRecords: Sendable {
    /// The recorded size and digest of a file; `nil` if there is no record.
    func record(ofFileNamed name: String) -> ExternalDataRecord?
    /// Whether whole values are verified against the record when read.
    var verifiesWholeValues: Bool { get }
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

/// An immutable file with one value.
///
/// While an instance is retained, this process does not remove the file as unreferenced. The file of an unsaved value is
/// removed with its last instance.
package final class ExternalDataFile: Sendable {
    /// The owner of the file.
    private enum Owner {
        /// A store: a row refers to it, or did.
        case store
        /// The instances themselves: the value is unsaved.
        case holders
        /// A running save, which is about to make a row refer to it.
        case save
    }

    private struct State {
        var owner: Owner
        var size: Int?
        var record: ExternalDataRecord?
        var hasAskedRecords = false
        /// The original of a moved value, to be removed once the value is saved.
        var movedFrom: String?
    }

    /// The file's name within its folder.
    package let name: String
    private let place: ExternalDataPlace
    /// The original path of the file.
    private let home: String
    /// The root of the original place.
    private let homeRoot: String
    /// The class key of the original place; `nil` if its files are not sealed.
    private let homeKey: ClassKey?
    /// The inode of an unsaved value's file, regardless of its name.
    private let identity: FileInformation?
    private let state: Lock<State>
    private let records: (any ExternalDataRecords)?

    /// A file of a store.
    package init(_ name: String, in place: ExternalDataPlace, records: (any ExternalDataRecords)?) {
        self.name = name
        self.place = place
        self.records = records
        let folders = place.folders
        home = FileSystem.path(folders.files, name)
        homeRoot = folders.root
        homeKey = folders.classKey
        identity = nil
        state = Lock(State(owner: .store))
        ExternalFileRetainCounts.hold(name)
    }

    /// A file of a store, without a recorded size or digest.
    package convenience init(storedAt path: String, beneath root: String, classKey: ClassKey?) {
        self.init(
            FileSystem.name(of: path),
            in: ExternalDataPlace(
                FileSystem.folder(of: path), beneath: root, classKey: classKey), records: nil)
    }

    /// A file with an unsaved value.
    init(
        spooled name: String, in place: ExternalDataPlace, record: ExternalDataRecord,
        movedFrom: String? = nil
    ) {
        self.name = name
        self.place = place
        records = nil
        let folders = place.folders
        home = FileSystem.path(folders.files, name)
        homeRoot = folders.root
        homeKey = folders.classKey
        identity = (try? FileSystem.information(at: home, beneath: homeRoot)) ?? nil
        state = Lock(
            State(owner: .holders, size: record.size, record: record, movedFrom: movedFrom))
        ExternalFileRetainCounts.hold(name)
    }

    deinit {
        if state.withLock({ $0.owner == .holders }) {
            let present = location
            for (path, root) in [(home, homeRoot), (present.path, present.root)]
            where isStill(at: path, beneath: root) {
                _ = try? FileSystem.removeFileIfPresent(path, beneath: root)
            }
        }
        ExternalFileRetainCounts.release(name)
    }

    /// The file's path. It follows the store when that is moved, unless the file was left behind.
    package var path: String { location.path }

    /// The file's path, the root that it must not escape from, and the class key; `nil` for an unsealed file.
    package var location: (path: String, root: String, classKey: ClassKey?) {
        let folders = place.folders
        let path = FileSystem.path(folders.files, name)
        return path == home || FileSystem.exists(path, beneath: folders.root)
            ? (path, folders.root, folders.classKey) : (home, homeRoot, homeKey)
    }
    /// The folder that the file is in.
    package var folder: String { FileSystem.folder(of: path) }

    // MARK: - Saving

    /// Transfers the file of an unsaved value to a save.
    ///
    /// - Returns: Whether it is such a file in this folder, unclaimed by another save.
    package func claim(in folder: String) -> Bool {
        let (path, root, _) = location
        guard FileSystem.folder(of: path) == folder, isStill(at: path, beneath: root) else {
            return false
        }
        return state.withLock {
            guard $0.owner == .holders else { return false }
            $0.owner = .save
            return true
        }
    }

    /// Whether the path still holds the file written for the value, and not a copied store's file.
    private func isStill(at path: String, beneath root: String) -> Bool {
        guard let identity,
            let found = (try? FileSystem.information(at: path, beneath: root)) ?? nil
        else { return false }
        return found.isSameFile(as: identity)
    }

    /// Whether the file belongs to an unsaved value.
    package var isSpooled: Bool { state.withLock { $0.owner != .store } }

    /// Releases the claim of a failed save.
    package func giveBack() { state.withLock { $0.owner = .holders } }

    /// Makes the store the owner, as the file may be referenced.
    package func giveToStore() { state.withLock { $0.owner = .store } }

    /// Records the file that the value was moved from.
    func willRemove(_ original: String) { state.withLock { $0.movedFrom = original } }

    /// Removes the file that the value was moved from, once it is saved.
    package func removeOriginal() {
        let original = state.withLock { state in
            defer { state.movedFrom = nil }
            return state.movedFrom
        }
        // On failure the original stays as a duplicate.
        if let original { _ = try? FileSystem.removeFileIfPresent(original) }
    }

    // MARK: - Facts

    /// The number of bytes; 0 if there is no file.
    var size: Int {
        if let known = state.withLock({ $0.size }) { return known }
        guard let information else { return 0 }
        let size = Int(
            clamping: ContentFile.count(of: information, sealed: location.classKey != nil))
        state.withLock { $0.size = size }
        return size
    }

    /// The file's attributes; `nil` if it is missing or was replaced by something else.
    package var information: FileInformation? {
        let (path, root, _) = location
        guard let found = (try? FileSystem.information(at: path, beneath: root)) ?? nil,
            found.kind == .regular
        else { return nil }
        return found
    }

    /// The size and digest cached here, without querying the store.
    package var knownRecord: ExternalDataRecord? { state.withLock { $0.record } }

    /// The size and digest recorded by the store.
    package var record: ExternalDataRecord? {
        let (known, hasAsked) = state.withLock { ($0.record, $0.hasAskedRecords) }
        if let known { return known }
        guard !hasAsked, let records else { return nil }
        let found = records.record(ofFileNamed: name)
        state.withLock {
            $0.record = found
            $0.hasAskedRecords = true
        }
        return found
    }

    // MARK: - Reading

    /// Whether the bytes are verified against the record when read as a whole.
    var verifiesWholeValues: Bool { records?.verifiesWholeValues ?? false }

    /// Opens the file.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is missing (the store is damaged), is not a regular file, or
    ///   its seal does not match; `protectedDataUnavailable` if it is protected and locked.
    func open() throws -> ContentFile {
        let (path, root, classKey) = location
        do {
            return try ContentFile(
                OpenFile.open(path, beneath: root, for: .reading), unsealing: classKey)
        } catch let error as QuireError where error.code == .notFound {
            throw QuireError(
                .invalidFormat,
                "The file “\(path)” that holds a value of the store is missing; restore it from a backup.",
                subject: .init(file: path), underlying: error)
        }
    }
}

/// Retain counts of external data files in this process, by their unique names.
package enum ExternalFileRetainCounts {
    private static let counts = Lock<[String: Int]>([:])

    static func hold(_ name: String) { counts.withLock { $0[name, default: 0] += 1 } }

    static func release(_ name: String) {
        counts.withLock { counts in
            counts[name] = counts[name].flatMap { $0 > 1 ? $0 - 1 : nil }
        }
    }

    /// Whether a file is retained.
    package static func contains(_ name: String) -> Bool { counts.withLock { $0[name] != nil } }
}

// MARK: - Places

/// The location of a store's external data files. Rows and values share it, so that they find their files after the store
/// has been moved.
package final class ExternalDataPlace: Sendable {
    /// The folder of the files, and the root that they must not escape from; see ``FileLocation``.
    struct Folders: Sendable {
        var files: String
        var root: String
        /// The class key of the files; `nil` for unsealed files.
        var classKey: ClassKey?
    }

    private let current: Lock<Folders>

    package init(_ folder: String, beneath root: String, classKey: ClassKey?) {
        current = Lock(Folders(files: folder, root: root, classKey: classKey))
    }

    var folders: Folders { current.withLock { $0 } }

    /// The folder of the files.
    var folder: String { folders.files }
    /// The folder of the store.
    var root: String { folders.root }

    /// The class key of the files; `nil` for unsealed files.
    package var classKey: ClassKey? { folders.classKey }

    /// The temporary folder, for values without a store, or whose store has no external data or is read-only.
    package static func temporary(classKey: ClassKey? = nil) -> ExternalDataPlace {
        let folder = FileSystem.absolute(FileManager.default.temporaryDirectory.path)
        return ExternalDataPlace(folder, beneath: folder, classKey: classKey)
    }

    package func move(to other: ExternalDataPlace) {
        let folders = other.folders
        current.withLock { $0 = folders }
    }
}
