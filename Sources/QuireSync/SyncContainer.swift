import Dispatch
import Foundation
import Logging
public import Quire
import QuireProtection
import QuireSQLite
import QuireStore
import QuireSystem

/// A store that is kept the same as its replicas on other machines, through a folder that something else carries: Syncthing,
/// Nextcloud, rclone, a network share.
///
/// ```swift
/// let transport = try FolderTransport(folder: "/home/ada/Sync/Library")
/// let sync = try SyncContainer(coordinator: container.persistentStoreCoordinator, transport: transport)
/// try await sync.create(named: "Library")             // On the first machine; join() on the others.
/// let result = try await sync.synchronize()
/// ```
///
/// The store is a local one and is used as such, with or without the folder: being offline is the normal state. What is saved
/// becomes a file in the folder at the next ``synchronize()``; files of others become changes of the store, which contexts merge.
/// Properties are merged one by one. Of two values that were set without knowledge of each other the later one stays, and the other
/// is listed in ``conflicts()``; a ``SyncPolicy`` of the attribute can merge them otherwise.
///
/// The store must be a SQLite store; it tracks its history from then on. Changes are found in the history, so also those of other
/// programs are sent, whether or not they know of synchronization. A store that is open for reading only can be asked for its status
/// and its conflicts; all else throws `readOnly`.
///
/// The files in the folder can be encrypted, with a password that each machine needs once; see ``create(named:password:)``. A store
/// that is protected is synchronized only through an encrypted folder, unless the program allows otherwise.
///
/// All methods may be called from any task. Rounds follow each other, and so do creating, joining and leaving a document.
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
    ///   - policies: How attributes are merged, by the names of entity and attribute; for sub-entities, too. They override those that
    ///     the model declares.
    ///   - resolvers: Policies of one's own, by the names of entity and attribute.
    ///   - allowsUnencryptedFolder: Whether the objects of a protected store may be sent to a folder that is not encrypted, where all
    ///     who carry it can read them. Without it, creating, joining and synchronizing throw `protectionUnavailable` then.
    /// - Throws: `QuireError` with code `unsupported` if the coordinator has not exactly one SQLite store, or its store was made by
    ///   Core Data; `invalidModel` if a policy is unknown or does not fit its attribute, or if two entities or properties have one
    ///   renaming identifier; `unknownEntity` or `unknownKey` if the model has not what a policy is given for.
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

    /// A text that the program keeps with the replica, to find its folder again; `nil` if it has set none, or the store is not a
    /// replica.
    public func transportDescription() async throws -> String? {
        return try await onQueue { try $0.transportDescription() }
    }

    /// The patterns of files of additional content that this replica leaves out; see ``setExcludedFiles(_:)``.
    public func excludedFiles() async throws -> [String] {
        return try await onQueue { try $0.excludedFiles() }
    }

    /// Leaves files of a document's additional content out: they are not sent, and those of others are not written.
    ///
    /// This replica keeps the patterns; others have their own. A file that was sent before stays in the shared document.
    ///
    /// - Parameter patterns: Paths in which `*` and `?` stand for anything but `/`, such as `cache/*.tmp`. A pattern without `/` is the
    ///   name of files and folders anywhere. What is in a folder that matches is left out too.
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica; `readOnly`.
    public func setExcludedFiles(_ patterns: [String]) async throws {
        try await onQueue { try $0.setExcludedFiles(patterns) }
    }

    /// Keeps a text with the replica, such as the path of its folder; see ``transportDescription()``. It is not sent.
    ///
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica.
    public func setTransportDescription(_ text: String) async throws {
        try await onQueue { try $0.setTransportDescription(text) }
    }

    // MARK: - Rounds

    /// Sends what has been saved since the last time, and merges what others have sent.
    ///
    /// A file that is damaged or has not arrived whole is passed over, and is tried again the next time.
    ///
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica; `invalidModel` if a new version of the model has
    ///   lost the name that an entity or property has in the document; `syncedContentReplaced` if another shared document is in the
    ///   folder, when the store stays what it is; `syncedContentRemoved` if the shared document was removed by
    ///   ``removeSyncedContent()``, when the store has become a local one; `storeUnavailable` if the folder cannot be reached, or
    ///   nothing is in it, when everything that was saved stays to be sent; `protectionUnavailable` if the store is protected and the
    ///   folder is not encrypted; `unsupported` if a text is too large; `outOfSpace`; errors
    ///   of the store.
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

    /// The values that have lost against others, oldest first.
    public func conflicts() async throws -> [SyncConflict] {
        return try await onQueue { try $0.conflicts() }
    }

    /// Gives the object of a conflict the value that has lost. It is a new change, which all peers get; a deleted object comes back.
    ///
    /// A hidden object takes the place of the one that has its unique values, which is hidden then; or the object that it requires comes
    /// back.
    ///
    /// - Throws: `QuireError` with code `notFound` if the conflict is not listed any more; `invalidValue` if a hidden object can only be
    ///   shown with other values.
    public func choose(_ conflict: SyncConflict) async throws {
        try await settle(conflict) { try $0.choose($1, at: $2) }
    }

    /// Shows a hidden object with other values: another unique one, or another object that it requires.
    ///
    /// - Parameters:
    ///   - conflict: One of a hidden object.
    ///   - values: The values, by the names of attributes and to-one relationships; objects by their identifiers in this store.
    /// - Throws: `QuireError` with code `notFound` if the conflict is not listed any more; `unknownKey` or `invalidValue`, also if it is
    ///   not one of a hidden object.
    public func show(
        _ conflict: SyncConflict, setting values: [String: AttributeValue]
    ) async throws {
        try await settle(conflict) { try $0.choose($1, setting: values, at: $2) }
    }

    /// Takes a conflict off this replica's list: the value that was kept stays. A hidden object is deleted, which all peers get.
    ///
    /// - Throws: `QuireError` with code `notFound` if the conflict is not listed any more.
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

    /// The progress of the replica; `nil` if the store is not one.
    public func status() async throws -> SyncStatus? {
        return try await onQueue { try $0.status() }
    }

    // MARK: - Checking

    /// Compares all rows with the records of what has been merged, from which they follow: rows that differ, rows without a record,
    /// one-to-one relationships with one end, values that are missing.
    ///
    /// What was saved since the last ``synchronize()`` is captured before; it is sent by the next one.
    ///
    /// - Returns: A sentence for each fault; none if all is well. ``repair()`` mends what it can.
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
