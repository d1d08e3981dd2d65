/// Where a store's files of external data are. Rows that were read, and values, refer to it, so that they find their files
/// when the store has been moved.
final class ExternalDataPlace: Sendable {
    /// The folder of the files, and the root that none of them must lead out of; see ``FileLocation``.
    struct Folders: Sendable {
        var files: String
        var root: String
    }

    private let current: Lock<Folders>

    init(_ folder: String, beneath root: String) {
        current = Lock(Folders(files: folder, root: root))
    }

    var folders: Folders { current.withLock { $0 } }

    /// The folder of the files.
    var folder: String { folders.files }
    /// The folder of the store.
    var root: String { folders.root }

    func move(to folder: String, beneath root: String) {
        current.withLock { $0 = Folders(files: folder, root: root) }
    }
}
