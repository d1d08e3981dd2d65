import Dispatch
import Foundation
import Logging
public import Quire
import QuireProtection
import QuireSQLite
import QuireStore
import QuireSystem

/// Synchronizes a store with its replicas on other machines, through a folder that another program carries between them:
/// Syncthing, Nextcloud, rclone, a network share.
///
/// ```swift
/// let transport = try FolderTransport(folder: "/home/ada/Sync/Library")
/// let sync = try SyncContainer(coordinator: container.persistentStoreCoordinator, transport: transport)
/// try await sync.create(named: "Library")             // On the first machine; join() on the others.
/// let result = try await sync.synchronize()
/// ```
///
/// The store is local and works with or without the folder: being offline is the normal state. The next ``synchronize()`` writes
/// saved changes as a file in the folder; the files of other replicas become changes of the store, which contexts merge.
/// Properties are merged one by one. Of two values that were set concurrently the later one is kept, and the other is listed in
/// ``conflicts()``; a ``SyncPolicy`` of the attribute can merge them in another way.
///
/// The store must be a SQLite store; it tracks its history from then on. Changes are read from the history, so the changes of
/// other programs are sent too, whether or not they know of synchronization. A store that is open for reading only provides its
/// status and its conflicts; everything else throws `readOnly`.
///
/// The files in the folder can be encrypted, with a password that each machine needs once; see ``create(named:password:)``. A
/// protected store is synchronized only through an encrypted folder, unless the program allows otherwise.
///
/// All methods may be called from any task. Rounds run one after another, and so do creating, joining and leaving a document.
public actor SyncContainer {
    private weak let coordinator: PersistentStoreCoordinator?
    /// The transport as it was given, which carries encrypted files if the document is encrypted.
    let carrier: any SyncTransport
    /// The transport of the document's files. It changes only between rounds, so that nothing is sent in clear that was to be encrypted.
    var transport: any SyncTransport
    let replica: SyncReplica
    private let queue = DispatchQueue(label: "quire.sync", qos: .utility)
    let clock: @Sendable () -> Date
    /// The number of segments above which a snapshot takes their place.
    let segmentsBeforeSnapshot: Int
    /// Whether a protected store may be synchronized through a folder that is not encrypted.
    let allowsUnencryptedFolder: Bool
    /// The cost of deriving a key from a password.
    let passwordCost: ScryptCost
    /// The digests of the large values that this round has sent.
    private var sentBlobs: Set<Data> = []
    /// The last own segment whose large values are in the folder.
    private(set) var blobsSent = SyncTables.SegmentKey.none
    /// The last of the rounds, and of the steps between them that change what the store is a replica of.
    private var last: Task<Void, Never>?
    static let logger = Logger(label: "quire.sync")

    /// Connects a coordinator's SQLite store with a transport. The coordinator is not retained.
    ///
    /// - Parameters:
    ///   - coordinator: A coordinator with one SQLite store.
    ///   - transport: The shared folder.
    ///   - policies: The merge policies of attributes, by the names of entity and attribute; for sub-entities, too. They override
    ///     the policies in the model.
    ///   - resolvers: Custom policies, by the names of entity and attribute.
    ///   - allowsUnencryptedFolder: Whether the objects of a protected store may be sent to an unencrypted folder, where everyone
    ///     with access to the folder can read them. Otherwise creating, joining and synchronizing throw `protectionUnavailable`.
    /// - Throws: `QuireError` with code `unsupported` if the coordinator does not have exactly one SQLite store, or Core Data
    ///   created the store; `invalidModel` if a policy is unknown or does not fit its attribute, or if two entities or properties
    ///   have the same renaming identifier; `unknownEntity` or `unknownKey` if the model does not have the entity or attribute of
    ///   a policy.
    public init(
        coordinator: PersistentStoreCoordinator, transport: any SyncTransport,
        policies: [String: [String: SyncPolicy]] = [:],
        resolvers: [String: [String: SyncResolver]] = [:],
        allowsUnencryptedFolder: Bool = false
    ) throws {
        try self.init(
            coordinator: coordinator, store: Self.store(of: coordinator), transport: transport,
            policies: policies, resolvers: resolvers,
            allowsUnencryptedFolder: allowsUnencryptedFolder)
    }

    /// The store of a coordinator that can be synchronized.
    static func store(of coordinator: PersistentStoreCoordinator) throws -> SQLiteStore {
        let stores = coordinator.persistentStores.compactMap { $0 as? SQLiteStore }
        guard stores.count == 1, let store = stores.first else {
            throw QuireError(
                .unsupported,
                "Synchronization requires a coordinator with exactly one SQLite store; this one has \(stores.count)."
            )
        }
        return store
    }

    init(
        coordinator: PersistentStoreCoordinator, store: SQLiteStore,
        transport: any SyncTransport, segmentsBeforeSnapshot: Int = 64,
        policies: [String: [String: SyncPolicy]] = [:],
        resolvers: [String: [String: SyncResolver]] = [:],
        allowsUnencryptedFolder: Bool = false,
        passwordCost: ScryptCost = .standard,
        clock: @escaping @Sendable () -> Date = { Date() }
    ) throws {
        self.segmentsBeforeSnapshot = segmentsBeforeSnapshot
        self.passwordCost = passwordCost
        self.allowsUnencryptedFolder = allowsUnencryptedFolder
        self.coordinator = coordinator
        carrier = transport
        self.transport = transport
        self.clock = clock
        replica = try SyncReplica(store, policies: policies, resolvers: resolvers)
    }

    /// A text that the program keeps with the replica, to find its folder again; `nil` if none is set, or the store is not a
    /// replica.
    public func transportDescription() async throws -> String? {
        return try await onQueue { try $0.transportDescription() }
    }

    /// The patterns of additional content files that this replica excludes; see ``setExcludedFiles(_:)``.
    public func excludedFiles() async throws -> [String] {
        return try await onQueue { try $0.excludedFiles() }
    }

    /// Excludes files of a document's additional content: they are not sent, and those of other replicas are not written.
    ///
    /// The patterns are kept in this replica; other replicas have their own. A file that was sent before stays in the shared
    /// document.
    ///
    /// - Parameter patterns: Paths in which `*` and `?` stand for anything but `/`, such as `cache/*.tmp`. A pattern without `/`
    ///   is the name of files and folders anywhere. The content of a matching folder is excluded too.
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica; `readOnly`.
    public func setExcludedFiles(_ patterns: [String]) async throws {
        try await onQueue { try $0.setExcludedFiles(patterns) }
    }

    /// Keeps a text in the replica, such as the path of its folder; see ``transportDescription()``. It is not sent.
    ///
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica.
    public func setTransportDescription(_ text: String) async throws {
        try await onQueue { try $0.setTransportDescription(text) }
    }

    // MARK: - Rounds

    /// Sends changes saved since the last round, and merges the changes of other replicas.
    ///
    /// A file that is damaged or has not arrived completely is skipped and tried again in the next round.
    ///
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica; `invalidModel` if a new version of the
    ///   model has lost the name that an entity or property has in the document; `syncedContentReplaced` if the folder contains
    ///   another shared document, and the store is unchanged; `syncedContentRemoved` if ``removeSyncedContent()`` removed the
    ///   shared document, and the store is local now; `storeUnavailable` if the folder cannot be reached or is empty, and saved
    ///   changes will be sent later; `protectionUnavailable` if the store is protected and the folder is not encrypted;
    ///   `unsupported` if a text is too large; `outOfSpace`; errors of the store.
    @discardableResult
    public func synchronize() async throws -> SyncResult {
        try await inTurn { container in
            var result = SyncResult()
            _ = try await container.round(&result)
            if container.checksInvariants { try await container.requireInvariants() }
            return result
        }
    }

    /// Runs a body after the rounds, and other bodies, that have begun before it.
    func inTurn<Result: Sendable>(
        _ body: @escaping @Sendable (isolated SyncContainer) async throws -> Result
    ) async throws -> Result {
        let previous = last
        let next = Task {
            await previous?.value
            return try await body(self)
        }
        last = Task { _ = await next.result }
        return try await withTaskCancellationHandler {
            try await next.value
        } onCancel: {
            next.cancel()
        }
    }

    /// - Returns: The files in the folder that have been merged.
    func round(_ result: inout SyncResult) async throws -> [SyncSegmentName] {
        try await claimStore()
        try await capture(&result)
        try await checkContainer(&result)
        // The store may have been protected since it joined.
        try checkEncryption(try await useCipher())
        (sentBlobs, blobsSent) = ([], .none)
        try await sendBlobs()
        // Before anything is sent: a copy of this replica may have used the next number.
        let merged = try await receive(&result)
        try await fetchMissing(&result)
        try await writeFiles(&result)
        let date = clock()
        try await onQueue { try $0.forgetDeletedObjects(at: date) }
        try await send(&result)
        try await compactIfNeeded(merged, &result)
        return merged
    }

    /// Makes sure that no other file has this replica's identifier, before anything is written with it.
    func claimStore() async throws {
        if try await onQueue({ try $0.takeAnotherIdentifierIfCopied() }) {
            reportAnotherIdentifier()
        }
    }

    func capture(_ result: inout SyncResult) async throws {
        let date = clock()
        if try await onQueue({ try $0.isUpToDate() }) { return }
        // Before changes get this replica's identifier, because another replica may have it. If the folder cannot be reached, they are
        // captured all the same.
        var failure: (any Error)?
        do {
            let names = try await segmentNames(in: SyncSegment.folder)
            if try await onQueue({ try $0.takeAnotherIdentifierIfNeeded(seeing: names) }) {
                reportAnotherIdentifier()
            }
        } catch { failure = error }
        var isComplete = false
        while !isComplete {
            try Task.checkCancellation()
            let captured = try await onQueue { try $0.capture(at: date) }
            isComplete = captured.isComplete
            didChange(captured.rows, &result)
        }
        guard let failure else { return }
        // Its error says what is wrong with the folder.
        try await checkContainer(&result)
        throw failure
    }

    /// Checks that the shared document is in the folder. In the place of a disk that is not mounted there is an empty one, and what is
    /// sent there gets nowhere.
    func checkContainer(_ result: inout SyncResult) async throws {
        guard let container = try await onQueue({ try $0.settings()?.container }) else {
            throw QuireError(
                .invalidState,
                "The store is not synchronized; create or join a shared document first.")
        }
        let cipher = try await useCipher()
        do {
            if let found = try await Self.description(in: carrier) {
                return try found.check(container, cipher)
            }
        } catch let error as QuireError where error.code == .invalidFormat {
            // It is not an empty folder; its other files say themselves to what document they belong.
            return note(error, Self.descriptionFile, &result)
        }
        if let mark = Self.removalMark(of: container),
            // With the key, if there is one: the carrier cannot make a replica leave.
            try await transport.contents(of: mark, maximumSize: 0) != nil
        {
            try await onQueue { try $0.detach() }
            throw QuireError(
                .syncedContentRemoved,
                "The shared document was deliberately deleted from the folder; the store is now local and keeps all its objects."
            )
        }
        throw QuireError(
            .storeUnavailable,
            "The shared document is not in the folder: its disk or network may not be connected. Saved changes will be sent later."
        )
    }

    /// Sends the large values of captured changes, before anything is merged.
    ///
    /// If a value loses a conflict, or its object is hidden or deleted, its row no longer has the bytes. The copy in the folder lets
    /// ``choose(_:)`` restore it.
    func sendBlobs() async throws {
        guard replica.mayHaveBlobs else { return }
        var last: Int64 = 0
        while let (name, bytes) = try await onQueue({ [last] replica in
            try replica.nextOutgoing(after: last)
        }) {
            try Task.checkCancellation()
            try await sendBlobs(of: try SyncSegment(Array(bytes), name: name))
            last = name.sequence
            blobsSent = .init(peer: name.peer, sequence: last)
        }
    }

    func send(_ result: inout SyncResult) async throws {
        var last: Int64 = 0
        while let (name, bytes) = try await onQueue({ [last] replica in
            try replica.nextOutgoing(after: last)
        }) {
            try Task.checkCancellation()
            guard let file = SyncSegment.folder.entry(name.fileName) else { return }
            let segment = try SyncSegment(Array(bytes), name: name)
            // Before the segment that names them.
            try await sendBlobs(of: segment)
            try await transport.create(file, bytes)
            try await onQueue { try $0.didSend(name) }
            result.sentCount += 1
            last = name.sequence
        }
    }

    private func sendBlobs(of segment: SyncSegment) async throws {
        for record in segment.records {
            for blob in record.blobs where !sentBlobs.contains(blob.digest) {
                guard let file = blob.fileName else { continue }
                // Nil if the value has been replaced since: the segment with the new one follows.
                if let data = try await onQueue({ try $0.externalData(blob, of: record.id) }) {
                    try await transport.create(file, data)
                    sentBlobs.insert(blob.digest)
                }
            }
        }
    }

    func reportAnotherIdentifier() {
        Self.logger.notice(
            "This replica has a new identifier: the store was copied or restored and another replica has the old one, or this replica was retired."
        )
    }

    func didChange(_ merged: SyncReplica.Merged, _ result: inout SyncResult) {
        if merged.hasAnotherIdentifier { reportAnotherIdentifier() }
        result.receivedCount += merged.count
        result.conflictCount += merged.conflictCount
        if merged.changes.isEmpty { return }
        result.changes.append(merged.changes)
        coordinator?.didImport(merged.changes)
    }

    // MARK: - Conflicts

    /// The values that lost conflicts, oldest first.
    public func conflicts() async throws -> [SyncConflict] {
        return try await onQueue { try $0.conflicts() }
    }

    /// Sets the lost value of a conflict. This is a new change, which all peers receive; a deleted object is restored.
    ///
    /// A hidden object replaces the one with its unique values, which is hidden instead, or the object that it requires is
    /// restored.
    ///
    /// - Throws: `QuireError` with code `notFound` if the conflict is no longer listed; `invalidValue` if a hidden object can
    ///   only be shown with other values.
    public func choose(_ conflict: SyncConflict) async throws {
        try await settle(conflict) { try $0.choose($1, at: $2) }
    }

    /// Shows a hidden object with other values: another unique value, or another object that it requires.
    ///
    /// - Parameters:
    ///   - conflict: The conflict of a hidden object.
    ///   - values: The values, by the names of attributes and to-one relationships; objects by their identifiers in this store.
    /// - Throws: `QuireError` with code `notFound` if the conflict is no longer listed; `unknownKey` or `invalidValue`, also if
    ///   it does not concern a hidden object.
    public func show(
        _ conflict: SyncConflict, setting values: [String: AttributeValue]
    ) async throws {
        try await settle(conflict) { try $0.choose($1, setting: values, at: $2) }
    }

    /// Removes a conflict from this replica's list and keeps the current value. A hidden object is deleted for all peers.
    ///
    /// - Throws: `QuireError` with code `notFound` if the conflict is no longer listed.
    public func dismiss(_ conflict: SyncConflict) async throws {
        try await settle(conflict) { try $0.dismiss($1, at: $2) }
    }

    private func settle(
        _ conflict: SyncConflict,
        _ body: @escaping @Sendable (SyncReplica, Int64, Date) throws -> SyncReplica.Merged
    ) async throws {
        let date = clock()
        let merged = try await onQueue { try body($0, conflict.number, date) }
        var result = SyncResult()
        didChange(merged, &result)
    }

    /// The progress of the replica; `nil` if the store is not a replica.
    public func status() async throws -> SyncStatus? {
        return try await onQueue { try $0.status() }
    }

    // MARK: - Checking

    /// Compares all rows with the merged records from which they follow: rows that differ, rows without a record, one-to-one
    /// relationships with one end, missing values.
    ///
    /// Changes saved since the last ``synchronize()`` are captured first; the next round sends them.
    ///
    /// - Returns: A sentence for each fault; empty if there are none. ``repair()`` repairs them if possible.
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica; `readOnly`; errors of the store.
    /// - Complexity: Reads all objects.
    public func checkInvariants() async throws -> [String] {
        try await inTurn { container in
            try await container.claimStore()
            // What is saved meanwhile is captured, too.
            while true {
                let date = container.clock()
                let captured = try await container.onQueue {
                    try $0.merge([], blobs: [:], at: date)
                }
                var result = SyncResult()
                container.didChange(captured, &result)
                if let broken = try await container.onQueue({ try $0.brokenInvariants() }) {
                    return broken
                }
            }
        }
    }

    /// Whether each round ends with a check of the invariants: in debug builds, and with `QUIRE_SYNC_DEBUG=1`, as in tests.
    var checksInvariants: Bool = {
        #if DEBUG
            return true
        #else
            return ProcessInfo.processInfo.environment["QUIRE_SYNC_DEBUG"] == "1"
        #endif
    }()

    private func requireInvariants() async throws {
        guard let broken = try await onQueue({ try $0.brokenInvariants() }),
            let first = broken.first
        else { return }
        throw QuireError(
            .invalidState,
            "“\(replica.store.storePath)” differs from its shared document; this is a bug in Quire, please report it: \(first) (\(broken.count))",
            file: replica.store.storePath)
    }

    /// The merged state as text, for tests.
    func stateDescription() async throws -> String {
        return try await onQueue { try $0.stateDescription() }
    }

    /// Runs a body with the replica, on the queue that has it.
    func onQueue<Result: Sendable>(
        _ body: @escaping @Sendable (SyncReplica) throws -> Result
    ) async throws -> Result {
        do {
            return try await withCheckedThrowingContinuation { continuation in
                queue.async { [replica] in
                    continuation.resume(with: Swift.Result { try body(replica) })
                }
            }
        } catch {
            let changes = replica.takeUnreportedChanges()
            if !changes.isEmpty { coordinator?.didImport(changes) }
            throw error
        }
    }
}
