public import Foundation
import Logging
public import Quire
import QuireSQLite
import QuireSystem

/// Whether a store that was added with ``SyncOptions`` is being synchronized.
public enum SyncAvailability: Sendable {
    /// The folder is available, and the last round succeeded.
    case available
    /// The store is used as a local one. The error is the reason: `storeUnavailable` or `notFound` while the folder is not
    /// available; `syncedContentReplaced` if it contains another shared document; `syncedContentRemoved` if the document was
    /// removed from it; others as for ``SyncContainer/synchronize()``.
    case unavailable(QuireError)

    /// The key of the `userInfo` of `PersistentStoreCoordinator.syncAvailabilityDidChangeNotification`.
    public static let key = "availability"
}

extension PersistentStoreCoordinator {
    /// Posted on any thread when synchronization by ``SyncOptions`` begins to succeed or to fail, or fails for another reason.
    /// Its object is the coordinator; its `userInfo` contains a ``SyncAvailability``.
    public static let syncAvailabilityDidChangeNotification = Notification.Name(
        "QuireSyncAvailabilityDidChange")
}

extension Notification {
    /// The value of a `PersistentStoreCoordinator.syncAvailabilityDidChangeNotification`.
    public var syncAvailability: SyncAvailability? {
        userInfo?[SyncAvailability.key] as? SyncAvailability
    }
}

/// Synchronizes a store of a coordinator until the coordinator has it no longer.
///
/// A round follows each save, each change of the folder, and ``SyncOptions/interval``.
final class SyncSession: StoreService {
    private let options: SyncOptions
    private let store: SQLiteStore
    private weak let coordinator: PersistentStoreCoordinator?
    private let state = Lock(State())
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation
    private static let logger = Logger(label: "quire.sync")

    private struct State {
        var tasks: [Task<Void, Never>] = []
        var container: SyncContainer?
        /// Whether the password is a wrong one, or the shared document was removed: rounds would only fail again.
        var isStopped = false
        /// The last sentence that was logged, so that it is logged once.
        var lastSentence = ""
        var isRebuilt = false
    }

    init(_ options: SyncOptions, store: SQLiteStore, coordinator: PersistentStoreCoordinator) {
        self.options = options
        self.store = store
        self.coordinator = coordinator
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// The connection with the folder, once it has been reached.
    var container: SyncContainer? { state.withLock { $0.container } }

    func begin() {
        guard let coordinator else { return }
        let (saves, remoteChanges, signal) = (
            coordinator.saves, coordinator.remoteChanges, signal
        )
        let interval = options.interval
        let tasks = [
            Task { for await _ in saves { signal.yield() } },
            Task { for await _ in remoteChanges { signal.yield() } },
            Task {
                while !Task.isCancelled {
                    signal.yield()
                    // Cancelled: the loop ends.
                    try? await Task.sleep(for: .seconds(interval))
                }
            },
            Task { [weak self, signals] in
                for await _ in signals { await self?.round() }
            },
        ]
        state.withLock { $0.tasks += tasks }
    }

    func stop() {
        signal.finish()
        let old = state.withLock { state in
            defer { state = State() }
            return state
        }
        for task in old.tasks { task.cancel() }
    }

    deinit { stop() }

    /// Whether there are no rounds any more until the store is opened again.
    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Synchronizes once, if the folder is there.
    func round() async {
        if isStopped { return }
        do {
            guard let container = try await connected() else { return }
            if options.rebuildsFromSyncedContent, !state.withLock({ $0.isRebuilt }) {
                try await container.rebuildFromSyncedContent()
                state.withLock { $0.isRebuilt = true }
            } else {
                try await container.synchronize()
            }
            note(.available, "using local storage: 0")
        } catch  where Task.isCancelled {
            // The store is being closed.
        } catch let error as QuireError
            where error.code == .storeUnavailable || error.code == .notFound
        {
            note(.unavailable(error), "using local storage: 1 (\(error.message))")
        } catch {
            let error =
                error as? QuireError
                ?? QuireError(
                    .inputOutput, "“\(store.storePath)” cannot be synchronized.", underlying: error)
            if error.code == .wrongKey || error.code == .syncedContentRemoved {
                state.withLock { $0.isStopped = true }
            }
            note(
                .unavailable(error),
                "using local storage: 1; “\(store.storePath)” cannot be synchronized: \(error)",
                level: .error)
        }
    }

    /// Logs and posts what is new.
    private func note(
        _ availability: SyncAvailability, _ sentence: String, level: Logger.Level = .info
    ) {
        let isNew = state.withLock { state in
            defer { state.lastSentence = sentence }
            return state.lastSentence != sentence
        }
        guard isNew, let coordinator else { return }
        Self.logger.log(level: level, "\(sentence)")
        NotificationCenter.default.post(
            name: PersistentStoreCoordinator.syncAvailabilityDidChangeNotification,
            object: coordinator, userInfo: [SyncAvailability.key: availability])
    }

    /// The connection with the folder: it is made, and the store joined, at the first time that the folder is there.
    private func connected() async throws -> SyncContainer? {
        if let container { return container }
        guard let coordinator else { return nil }
        let parent = FileSystem.absolute(options.folder)
        // Before a folder is made.
        if options.password == nil, !options.allowsUnencryptedFolder,
            !FileSystem.exists(FileSystem.path(parent, options.contentName + ".quiresync"))
        {
            try SyncContainer.checkProtection(of: store)
        }
        guard FileSystem.exists(parent) else {
            throw QuireError(
                .storeUnavailable, "The folder “\(parent)” does not exist.", file: parent)
        }
        let transport = try FolderTransport(
            folder: FileSystem.path(parent, options.contentName + ".quiresync"), creates: true)
        let container = try SyncContainer(
            coordinator: coordinator, store: store, transport: transport,
            policies: options.policies, resolvers: options.resolvers,
            allowsUnencryptedFolder: options.allowsUnencryptedFolder)
        try await container.joinOrCreate(
            named: options.contentName, password: options.password,
            identifier: options.containerIdentifier)
        if let excluded = options.excludedFiles {
            try await container.setExcludedFiles(excluded)
        }
        // Of writers that were killed, on any machine.
        try await transport.removeLeftovers()
        let (changes, signal) = (transport.changes, signal)
        let task = Task { for await _ in changes { signal.yield() } }
        state.withLock { state in
            state.container = container
            state.tasks.append(task)
        }
        return container
    }
}
