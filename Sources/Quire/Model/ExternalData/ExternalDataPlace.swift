internal import Synchronization

/// Where a store's files of external data are. Rows that were read, and values, refer to it, so that they find their files
/// when the store has been moved.
final class ExternalDataPlace: Sendable {
    private let current: Mutex<String>

    init(_ folder: String) { current = Mutex(folder) }

    var folder: String { current.withLock { $0 } }

    func move(to folder: String) { current.withLock { $0 = folder } }
}
