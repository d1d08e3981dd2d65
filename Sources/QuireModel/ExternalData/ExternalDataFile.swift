package import QuireProtection
package import QuireSystem

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
    private let parent: ExternalDataFolder
    /// The original location of the folder.
    private let home: ExternalDataFolder.Location
    /// The inode of an unsaved value's file, regardless of its name.
    private let identity: FileInformation?
    private let state: Lock<State>

    /// A file of a store.
    package init(_ name: String, in folder: ExternalDataFolder) {
        self.name = name
        parent = folder
        home = folder.location
        identity = nil
        state = Lock(State(owner: .store))
        ExternalDataFolder.retain(name)
    }

    /// A file with an unsaved value.
    init(
        spooled name: String, in folder: ExternalDataFolder, record: ExternalDataRecord,
        movedFrom: String? = nil
    ) {
        self.name = name
        parent = folder
        home = folder.location
        identity =
            (try? FileSystem.information(at: home.path(ofFileNamed: name), beneath: home.root))
            ?? nil
        state = Lock(
            State(owner: .holders, size: record.size, record: record, movedFrom: movedFrom))
        ExternalDataFolder.retain(name)
    }

    deinit {
        if state.withLock({ $0.owner == .holders }) {
            for place in [home, parent.location] {
                let path = place.path(ofFileNamed: name)
                if isStill(at: path, beneath: place.root) {
                    _ = try? FileSystem.removeFileIfPresent(path, beneath: place.root)
                }
            }
        }
        ExternalDataFolder.release(name)
    }

    /// The file's path. It follows the store when that is moved, unless the file was left behind.
    package var path: String { location.path }

    /// The file's path, the root that it must not escape from, and the class key; `nil` for an unsealed file.
    package var location: (path: String, root: String, classKey: ClassKey?) {
        var place = parent.location
        if place.folder != home.folder,
            !FileSystem.exists(place.path(ofFileNamed: name), beneath: place.root)
        {
            place = home
        }
        return (place.path(ofFileNamed: name), place.root, place.classKey)
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
        guard !hasAsked, let records = parent.records else { return nil }
        let found = records.externalDataRecord(ofFileNamed: name)
        state.withLock {
            $0.record = found
            $0.hasAskedRecords = true
        }
        return found
    }

    // MARK: - Reading

    /// Whether the bytes are verified against the record when read as a whole.
    var verifiesWholeValues: Bool {
        identity == nil && parent.records?.verifiesExternalData == true
    }

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
            throw ExternalDataFolder.missingError(path, underlying: error)
        }
    }
}
