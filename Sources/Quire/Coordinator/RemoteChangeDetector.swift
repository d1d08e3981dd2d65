public import Foundation

extension PersistentStoreCoordinator {
    /// Posted when a save by another process is detected. Its object is the coordinator; ``RemoteChangeKey`` lists the keys of
    /// its `userInfo`. Posted on any thread.
    ///
    /// The changed objects are not known. The coordinator's cached rows have been dropped; a context sees the saved values
    /// after ``ManagedObjectContext/refreshAllObjects()``. Documents that are open for reading refresh themselves.
    public static let remoteChangeNotification = Notification.Name(
        "NSPersistentStoreRemoteChangeNotification")

    /// The keys in the `userInfo` of ``remoteChangeNotification``, by raw value.
    public enum RemoteChangeKey: String, Sendable {
        /// The store's UUID, a `String`.
        case storeUUID = "NSStoreUUID"
        /// The path of the store's file, a `String`.
        case storePath = "NSPersistentStoreURL"
    }
}

/// Detects saves of other processes to a coordinator's store. For a store that this process only reads: its own saves count as
/// well.
///
/// SQLite's `data_version` differs for a connection after commits by others. The first check of a connection has no earlier
/// value, and reports a change.
package final class RemoteChangeDetector: Sendable {
    private weak let coordinator: PersistentStoreCoordinator?
    /// The number at the last check, by its counter.
    private let seen: Lock<[UInt64: Int64]>

    /// Knows the store as it is now.
    package init(_ coordinator: PersistentStoreCoordinator) {
        self.coordinator = coordinator
        let version = coordinator.store.contentVersion
        seen = Lock(version.map { [$0.counter: $0.number] } ?? [:])
    }

    /// Checks for saves since the last check. If there are any, the coordinator drops its cached rows, and
    /// ``PersistentStoreCoordinator/remoteChangeNotification`` is posted.
    ///
    /// - Returns: Whether there may be any; true also if the store cannot tell.
    package func check() -> Bool {
        guard let coordinator else { return false }
        let store = coordinator.store
        if let version = store.contentVersion {
            let isKnown = seen.withLock { seen in
                defer { seen[version.counter] = version.number }
                return seen[version.counter] == version.number
            }
            if isKnown { return false }
        }
        coordinator.forgetRows(of: nil)
        var information = [
            PersistentStoreCoordinator.RemoteChangeKey.storeUUID.rawValue: store.identity.uuid
        ]
        information[PersistentStoreCoordinator.RemoteChangeKey.storePath.rawValue] = store.path
        NotificationCenter.default.post(
            name: PersistentStoreCoordinator.remoteChangeNotification, object: coordinator,
            userInfo: information)
        return true
    }
}
