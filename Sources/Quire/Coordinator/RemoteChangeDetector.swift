public import Foundation

extension PersistentStoreCoordinator {
    /// Posted when another process is found to have saved to a store. Its object is the coordinator; ``RemoteChangeKey``
    /// says what is in it. It may come on any thread.
    ///
    /// Which objects were changed is not known. Rows that the coordinator had kept are forgotten by then; a context sees
    /// what was saved after ``ManagedObjectContext/refreshAllObjects()``. Documents that are open for reading do that by
    /// themselves.
    public static let remoteChangeNotification = Notification.Name(
        "NSPersistentStoreRemoteChangeNotification")

    /// What is in the `userInfo` of ``remoteChangeNotification``, by raw value.
    public enum RemoteChangeKey: String, Sendable {
        /// The store's UUID, a `String`.
        case storeUUID = "NSStoreUUID"
        /// The path of the store's file, a `String`.
        case storePath = "NSPersistentStoreURL"
    }
}

/// Finds out that another process has saved to a coordinator's store. For a store that this process only reads: its own
/// saves count as well.
///
/// SQLite tells each connection whether others have committed; a connection that has not been asked before cannot say,
/// which is taken for a change.
package final class RemoteChangeDetector: Sendable {
    private weak let coordinator: PersistentStoreCoordinator?
    /// By who counts: the number at the last look.
    private let seen: Lock<[UInt64: Int64]>

    /// Knows the store as it is now.
    package init(_ coordinator: PersistentStoreCoordinator) {
        self.coordinator = coordinator
        let version = coordinator.store.contentVersion
        seen = Lock(version.map { [$0.counter: $0.number] } ?? [:])
    }

    /// Looks whether anybody has saved since the last look. If so the coordinator forgets what it knows of rows, and
    /// ``PersistentStoreCoordinator/remoteChangeNotification`` is posted.
    ///
    /// - Returns: Whether anybody may have; also if the store cannot tell.
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
