import Dispatch
public import Foundation
import Logging
internal import QuireSQLite
public import QuireStore

/// A change of a store by another process, another coordinator, or a batch request.
public struct RemoteChange: Sendable {
    /// The store.
    public let store: any PersistentStore
    /// The URL of the store's file; `nil` for a store in memory.
    public let url: URL?
    /// The end of the store's history when the change was detected; `nil` if the store keeps no history.
    public let historyToken: PersistentHistoryToken?
}

// MARK: - Notifications

/// Changes that others make to the stores: other processes, other coordinators, those that share a store in memory.
///
/// ```swift
/// var description = PersistentStoreDescription(path: "library.sqlite")
/// description.tracksHistory = true
/// description.postsRemoteChanges = true
/// try coordinator.addPersistentStore(description)
/// for await change in coordinator.remoteChanges { print(change.historyToken as Any) }
/// ```
///
/// Changes that come in quick succession are reported as one; the last is always reported. Saves of this coordinator's own
/// contexts are not reported; its batch requests are, because contexts do not know what they have changed.
///
/// Contexts that merge automatically (``ManagedObjectContext/automaticallyMergesChangesFromParent``) merge the objects that the
/// store's history names, at the next turn of their queues. Without a history all their objects are refreshed. So they are if
/// others wrote to a store with a history without recording it: that is reported half a second later, unless a recorded save
/// follows meanwhile. Other contexts see a change when they merge it, or refresh their objects.
extension PersistentStoreCoordinator {
    /// Posted on any thread after others have changed a store with ``PersistentStoreDescription/postsRemoteChanges``. Its object
    /// is the coordinator; ``RemoteChangeKey`` lists the keys of its `userInfo`.
    public static let remoteChangeNotification = Notification.Name(
        "NSPersistentStoreRemoteChangeNotification")

    /// The keys in the `userInfo` of ``remoteChangeNotification``, by raw value.
    public enum RemoteChangeKey: String, Sendable {
        /// The store's UUID, a `String`.
        case storeUUID = "NSStoreUUID"
        /// The URL of the store's file, a `URL`. Missing for a store in memory.
        case storeURL
        /// The end of the store's history, a ``PersistentHistoryToken``. Missing if it keeps none.
        case historyToken
    }

    /// The future changes by others in the stores with ``PersistentStoreDescription/postsRemoteChanges``.
    ///
    /// Every call returns a new sequence. It ends when the coordinator is released, which it does not retain, or when the
    /// awaiting task is cancelled.
    public var remoteChanges: AsyncStream<RemoteChange> { remoteChangeBroadcast.stream() }
}

extension PersistentStoreCoordinator {
    /// Follows the changes that others make to a store, with or without the option. The first report comes at once, for saves
    /// since the store was opened.
    ///
    /// - Parameter whenMerging: Called with the changed objects, `nil` if they are not known, before the notification is posted.
    package func followRemoteChanges(
        of store: SQLiteStore, whenMerging: @escaping @Sendable (ObjectIDChanges?) -> Void
    ) {
        let tracker = RemoteChangeTracker(store, of: self, whenMerging)
        add(tracker, for: store)
        tracker.report(.beginning)
    }

    /// Begins what the options of a store ask for while the coordinator has it: following its changes, and its service.
    func startServices(of store: any PersistentStore) {
        guard let store = store as? SQLiteStore else { return }
        if store.options.postsRemoteChanges {
            add(RemoteChangeTracker(store, of: self, nil), for: store)
        }
        guard let provider = store.options.serviceProvider else { return }
        if let service = (provider as? any StoreServiceProvider)?.startService(for: store, of: self)
        {
            _ = services.withLock { $0.updateValue(service, forKey: ObjectIdentifier(store)) }
        }
    }

    private func add(_ tracker: RemoteChangeTracker, for store: SQLiteStore) {
        // An old one is released after unlocking.
        _ = remoteChangeTrackers.withLock {
            $0.updateValue(tracker, forKey: ObjectIdentifier(store))
        }
    }

    /// Ends what ``startServices(of:)`` has begun, and following changes.
    func stopServices(of store: any PersistentStore) {
        // Released after unlocking.
        let tracker = remoteChangeTrackers.withLock {
            $0.removeValue(forKey: ObjectIdentifier(store))
        }
        tracker?.cancel()
        let service = services.withLock { $0.removeValue(forKey: ObjectIdentifier(store)) }
        service?.stop()
    }

    /// A batch request has been executed: contexts do not know of it.
    func didExecuteBatchRequest() {
        for tracker in remoteChangeTrackers.withLock({ Array($0.values) }) {
            tracker.report(.batchRequest)
        }
    }

    /// Evicts cached rows, and lets contexts merge.
    func tellContexts(of changes: ObjectIDChanges?) {
        if let changes {
            rowCache.remove((changes.inserted + changes.updated + changes.deleted).lazy.map(\.bits))
        } else {
            rowCache.removeAll()
        }
        saveObservers.tell(changes, isByRows: true, except: nil)
    }

    /// Lets contexts merge, and posts the notification.
    fileprivate func report(_ changes: ObjectIDChanges?, _ change: RemoteChange) {
        tellContexts(of: changes)
        var information: [String: any Sendable] = [
            RemoteChangeKey.storeUUID.rawValue: change.store.identity.uuid
        ]
        information[RemoteChangeKey.storeURL.rawValue] = change.url
        information[RemoteChangeKey.historyToken.rawValue] = change.historyToken
        NotificationCenter.default.post(
            name: Self.remoteChangeNotification, object: self, userInfo: information)
        remoteChangeBroadcast.send(change)
    }
}

// MARK: - Services

/// An option of a store that starts a service for it, such as synchronization.
package protocol StoreServiceProvider: Sendable {
    /// Starts the service for a store, which a coordinator has from now on.
    ///
    /// - Returns: The service, which the coordinator retains until it has the store no longer. It must not retain the coordinator.
    func startService(for store: SQLiteStore, of coordinator: PersistentStoreCoordinator)
        -> (any StoreService)?
}

/// A service that runs while a coordinator has a store.
package protocol StoreService: AnyObject, Sendable {
    /// Stops the service, before the store is closed.
    func stop()
}

// MARK: - Tracking

/// Finds out what others have changed in a store, and reports it to its coordinator.
final class RemoteChangeTracker: Sendable {
    private static let logger = Logger(label: "quire.remote-changes")
    private weak let coordinator: PersistentStoreCoordinator?
    private let store: SQLiteStore
    private let whenMerging: (@Sendable (ObjectIDChanges?) -> Void)?
    private let queue = DispatchQueue(
        label: "quire.remote-changes", qos: .utility, target: .global(qos: .utility))
    private let watch = Lock<SQLiteCommitWatch?>(nil)
    /// The last history transaction that has been reported, or is the store's own; `nil` if there is no history.
    private let lastNumber = Lock<Int64?>(nil)
    private let reportCount = Lock(0)

    /// Knows the store as it is now.
    init(
        _ store: SQLiteStore, of coordinator: PersistentStoreCoordinator,
        _ whenMerging: (@Sendable (ObjectIDChanges?) -> Void)?
    ) {
        self.store = store
        self.coordinator = coordinator
        self.whenMerging = whenMerging
        store.recordOwnTransactions(true)
        let watch = SQLiteCommitWatch(store, queue: queue) { [weak self] in self?.look(.commit) }
        self.watch.withLock { $0 = watch }
        do {
            let last = try store.lastHistoryTransactionNumber()
            lastNumber.withLock { $0 = last }
        } catch {
            // The first change is of unknown objects then.
            Self.logger.info("The history of “\(store.storePath)” cannot be read: \(error)")
        }
    }

    deinit { cancel() }

    func cancel() {
        let old = watch.withLock { watch in
            defer { watch = nil }
            return watch
        }
        if old == nil { return }
        old?.cancel()
        store.recordOwnTransactions(false)
    }

    /// The reason for looking at the history.
    enum Reason {
        /// Others may have committed.
        case commit
        /// The coordinator has executed a batch request.
        case batchRequest
        /// Nothing is known of what has happened since the store was opened.
        case beginning
    }

    /// Reports the changes that are not the store's own saves, on the tracker's queue.
    func report(_ reason: Reason) { queue.async { [weak self] in self?.look(reason) } }

    private func look(_ reason: Reason) {
        guard watch.withLock({ $0 != nil }) else { return }
        var number = lastNumber.withLock { $0 }
        var changes = ChangesOfOthers.unknown
        do {
            changes = try store.changesOfOthers(after: &number)
        } catch {
            // Contexts read everything again instead.
            Self.logger.info("The history of “\(store.storePath)” cannot be read: \(error)")
        }
        lastNumber.withLock { $0 = number }
        switch (changes, reason) {
        case (.objects(let changes), _): report(changes)
        case (.unknown, _), (.unmentioned, .beginning): report(nil)
        case (.unmentioned, .batchRequest): break
        case (.unmentioned, .commit): reportUnlessMentioned()
        }
    }

    /// Reports a change of unknown objects, unless the history names some within half a second: a writer that restarts the log
    /// changes the version before it commits.
    private func reportUnlessMentioned() {
        let count = reportCount.withLock { $0 }
        queue.asyncAfter(deadline: .now() + .milliseconds(500)) { [weak self] in
            if let self, reportCount.withLock({ $0 }) == count { report(nil) }
        }
    }

    /// Reports changes, of unknown objects for `nil`.
    private func report(_ changes: ObjectIDChanges?) {
        guard watch.withLock({ $0 != nil }), let coordinator else { return }
        reportCount.withLock { $0 += 1 }
        whenMerging?(changes)
        var token: PersistentHistoryToken?
        do {
            token = try lastNumber.withLock { $0 }.map(store.historyToken(after:))
        } catch {
            Self.logger.info("The history of “\(store.storePath)” cannot be read: \(error)")
        }
        coordinator.report(
            changes,
            RemoteChange(
                store: store,
                url: store.isInMemory ? nil : URL(fileURLWithPath: store.storePath),
                historyToken: token))
    }
}
