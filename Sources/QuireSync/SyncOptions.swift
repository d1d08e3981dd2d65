public import Quire
public import QuireSQLite

/// Keeps a store the same as its replicas on other machines, in the background.
///
/// ```swift
/// var description = PersistentStoreDescription(path: "Library.sqlite")
/// description.syncOptions = SyncOptions(contentName: "Library", folder: "/home/ada/Sync")
/// ```
///
/// The store is open at once, and stays what it is while the folder cannot be reached: there is no other local store to fall back
/// to, and nothing to wait for. When the folder is there, the store joins the document of that name in it, or makes it. From then on
/// what is saved is sent, and what others have sent is merged; contexts with ``ManagedObjectContext/automaticallyMergesChangesFromParent``
/// merge it, and others by ``PersistentStoreCoordinator/didImportChangesNotification``.
///
/// Two machines that both make the document, because the files of neither have arrived at the other, end with the one that the
/// carrier keeps: the other one's store joins it, and its objects are merged.
///
/// If another shared document comes to be in the folder, as when the folder becomes another account's, or the shared document is
/// removed, nothing happens to the store: it keeps its objects, and `PersistentStoreCoordinator.syncAvailabilityDidChangeNotification`
/// says why it is not synchronized any more. What to do then is the program's decision: open another store for that account, or
/// leave and join.
public struct SyncOptions: Sendable {
    /// The name of the shared document. Its files are in a folder `NAME.quiresync`.
    public var contentName: String
    /// The path of the folder that is carried between machines.
    public var folder: String
    /// The identifier of the shared document, if it must be a certain one; `nil` for the one that is in the folder, or is made there.
    public var containerIdentifier: SyncIdentifier?
    /// Whether the store is made anew from the folder when it is opened; see ``SyncContainer/rebuildFromSyncedContent(discardsMissing:)``.
    public var rebuildsFromSyncedContent = false
    /// The password with which the files in the folder are encrypted; `nil` if they are not. It is used to make or join the document,
    /// and is not needed any more when the store has its key. A document that is not encrypted is not joined with a password, and with
    /// a wrong one the store stays a local one until it is opened again.
    public var password: String?
    /// Whether the objects of a protected store may be sent to a folder that is not encrypted. Without it such a store stays a local
    /// one, and its availability has an error with code `protectionUnavailable`.
    public var allowsUnencryptedFolder = false
    /// The patterns of files of a document's additional content that this replica leaves out; see
    /// ``SyncContainer/setExcludedFiles(_:)``. `nil` for those that it has.
    public var excludedFiles: [String]?
    /// The seconds after which files are looked for although no change of the folder was reported.
    public var interval: Double = 30

    /// The merge policies of attributes, by the names of entity and attribute; they override those that the model declares.
    public var policies: [String: [String: SyncPolicy]] = [:]
    /// Policies of one's own, by the names of entity and attribute.
    public var resolvers: [String: [String: SyncResolver]] = [:]

    /// Names a shared document.
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
    /// The options of synchronization; `nil` if the store is not synchronized. Setting it sets ``tracksHistory`` and
    /// ``postsRemoteChanges`` too.
    ///
    /// Stores in memory, and those that are opened read-only, are not synchronized.
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
    /// The options of synchronization of a SQLite store; see ``SQLiteStoreOptions/syncOptions``.
    public var syncOptions: SyncOptions? {
        get { sqliteOptions.syncOptions }
        set { sqliteOptions.syncOptions = newValue }
    }
}

extension PersistentStoreCoordinator {
    /// The synchronization of the store that was added with ``SQLiteStoreOptions/syncOptions``: for its conflicts and its status.
    /// `nil` without one, or while its folder has not been reached yet.
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
