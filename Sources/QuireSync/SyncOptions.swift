public import Quire
public import QuireSQLite

/// Synchronizes a store with its replicas on other machines, in the background.
///
/// ```swift
/// var description = PersistentStoreDescription(path: "Library.sqlite")
/// description.syncOptions = SyncOptions(contentName: "Library", folder: "/home/ada/Sync")
/// ```
///
/// The store opens at once and stays usable while the folder cannot be reached: it is the only local store, so nothing has to
/// wait or fall back. When the folder is available, the store joins the document of that name in it, or creates it. From then on
/// saved changes are sent and the changes of other replicas are merged; contexts with
/// ``ManagedObjectContext/automaticallyMergesChangesFromParent`` merge them, and others on
/// ``PersistentStoreCoordinator/didImportChangesNotification``.
///
/// If two machines both create the document before the files of either reach the other, the one that the carrier keeps wins: the
/// other one's store joins it, and its objects are merged.
///
/// If the folder comes to contain another shared document, for example after a change of account, or the shared document is
/// removed, the store is unchanged: it keeps its objects, and `PersistentStoreCoordinator.syncAvailabilityDidChangeNotification`
/// gives the reason why it is no longer synchronized. The program decides what to do then: open another store for that account,
/// or leave and join.
/// leave and join.
public struct SyncOptions: Sendable {
    /// The name of the shared document. Its files are in a folder `NAME.quiresync`.
    public var contentName: String
    /// The path of the folder that is carried between machines.
    public var folder: String
    /// The identifier of the required shared document; `nil` for the one that is in the folder, or is created there.
    public var containerIdentifier: SyncIdentifier?
    /// Whether the store is rebuilt from the folder when it is opened; see
    /// ``SyncContainer/rebuildFromSyncedContent(discardsMissing:)``.
    public var rebuildsFromSyncedContent = false
    /// The password that encrypts the files in the folder; `nil` if they are not encrypted. It is used to create or join the
    /// document, and is no longer needed once the store has the key. A store with a password does not join an unencrypted
    /// document, and with a wrong one it stays local until it is opened again.
    public var password: String?
    /// Whether the objects of a protected store may be sent to an unencrypted folder. Otherwise such a store stays local, and its
    /// availability has an error with code `protectionUnavailable`.
    public var allowsUnencryptedFolder = false
    /// The patterns of additional content files that this replica excludes; see ``SyncContainer/setExcludedFiles(_:)``. `nil` for
    /// its current patterns.
    public var excludedFiles: [String]?
    /// The seconds after which the folder is read even if no change was reported.
    public var interval: Double = 30

    /// The merge policies of attributes, by the names of entity and attribute; they override the policies in the model.
    public var policies: [String: [String: SyncPolicy]] = [:]
    /// Custom policies, by the names of entity and attribute.
    public var resolvers: [String: [String: SyncResolver]] = [:]

    /// Creates options for a shared document in a folder.
    public init(
        contentName: String, folder: String, password: String? = nil,
        containerIdentifier: SyncIdentifier? = nil
    ) {
        self.contentName = contentName
        self.folder = folder
        self.password = password
        self.containerIdentifier = containerIdentifier
    }
}

extension SQLiteStoreOptions {
    /// The synchronization options; `nil` if the store is not synchronized. Setting them also sets ``tracksHistory`` and
    /// ``postsRemoteChanges``.
    ///
    /// In-memory stores and stores that are opened read-only are not synchronized.
    public var syncOptions: SyncOptions? {
        get { serviceProvider as? SyncOptions }
        set {
            serviceProvider = newValue
            if newValue == nil { return }
            tracksHistory = true
            // Stores that Core Data made are not synchronized.
            leavesForeignHistory = true
            postsRemoteChanges = true
        }
    }
}

extension PersistentStoreDescription {
    /// The synchronization options of a SQLite store; see ``SQLiteStoreOptions/syncOptions``.
    public var syncOptions: SyncOptions? {
        get { sqliteOptions.syncOptions }
        set { sqliteOptions.syncOptions = newValue }
    }
}

extension PersistentStoreCoordinator {
    /// The synchronization of the store that was added with ``SQLiteStoreOptions/syncOptions``: for its conflicts and its status.
    /// `nil` if no store was, or while its folder has not been reached yet.
    public var syncContainer: SyncContainer? {
        services.withLock { services in
            services.values.lazy.compactMap { ($0 as? SyncSession)?.container }.first
        }
    }
}

extension SyncOptions: StoreServiceProvider {
    package func startService(
        for store: SQLiteStore, of coordinator: PersistentStoreCoordinator
    ) -> (any StoreService)? {
        if store.isReadOnly || store.isInMemory { return nil }
        let session = SyncSession(self, store: store, coordinator: coordinator)
        session.begin()
        return session
    }
}
