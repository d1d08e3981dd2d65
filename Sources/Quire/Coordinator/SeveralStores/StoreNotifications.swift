public import Foundation

/// Notifications of stores that come, go, or are opened at another place.
///
/// ```swift
/// let observer = NotificationCenter.default.addObserver(
///     forName: PersistentStoreCoordinator.willRemoveStoreNotification, object: coordinator, queue: nil
/// ) { _ in
///     background.performAndWait { context in
///         try? context.save()
///         context.reset()
///     }
/// }
/// ```
///
/// They are posted on the thread that changes the stores, which waits for the observers: before a change these may save contexts
/// to the stores as they are, and reset them. The object is the coordinator; ``StoresChangeKey`` lists the keys of the
/// `userInfo`, of which only those are there that have stores. A change that fails has been announced all the same, and is not
/// followed by ``storesDidChangeNotification``.
extension PersistentStoreCoordinator {
    /// Posted before stores are added, removed, or opened at another place.
    public static let storesWillChangeNotification = Notification.Name(
        "NSPersistentStoreCoordinatorStoresWillChangeNotification")

    /// Posted after stores were added, removed, or opened at another place.
    public static let storesDidChangeNotification = Notification.Name(
        "NSPersistentStoreCoordinatorStoresDidChangeNotification")

    /// Posted before a store is removed and closed, after ``storesWillChangeNotification``.
    public static let willRemoveStoreNotification = Notification.Name(
        "NSPersistentStoreCoordinatorWillRemoveStoreNotification")

    /// The keys in the `userInfo` of the notifications, by raw value. Each value is a `[any PersistentStore]`.
    public enum StoresChangeKey: String, Sendable {
        /// The stores that are added. Before they are, they can be asked for their metadata only.
        case added
        /// The stores that are removed; closed, once they are.
        case removed
        /// A store that is opened at another place; afterwards the old one, which is closed, and the new one.
        case changed
    }

    func post(_ name: Notification.Name, _ stores: [StoresChangeKey: [any PersistentStore]]) {
        let pairs = stores.map { ($0.rawValue, $1) }
        NotificationCenter.default.post(
            name: name, object: self, userInfo: Dictionary(uniqueKeysWithValues: pairs))
    }
}
