import Crypto
import Dispatch
import Foundation
import Logging
public import Quire
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
/// All methods may be called from any task; rounds follow each other.
public actor SyncContainer {
    private weak let coordinator: PersistentStoreCoordinator?
    private let transport: any SyncTransport
    private let replica: SyncReplica
    private let queue = DispatchQueue(label: "quire.sync", qos: .utility)
    private let clock: @Sendable () -> Date
    private var round: Task<SyncResult, any Error>?
    private static let logger = Logger(label: "quire.sync")

    /// Connects a coordinator's SQLite store with a transport. The coordinator is not retained.
    ///
    /// - Parameters:
    ///   - coordinator: A coordinator with one SQLite store.
    ///   - transport: The shared folder.
    ///   - policies: How attributes are merged, by the names of entity and attribute; for sub-entities, too. They override those that
    ///     the model declares.
    ///   - resolvers: Policies of one's own, by the names of entity and attribute.
    /// - Throws: `QuireError` with code `unsupported` if the coordinator has not exactly one SQLite store, or its store was made by
    ///   Core Data; `invalidModel` if a policy is unknown or does not fit its attribute; `unknownEntity` or `unknownKey` if the model has
    ///   not what a policy is given for.
    public init(
        coordinator: PersistentStoreCoordinator, transport: any SyncTransport,
        policies: [String: [String: SyncPolicy]] = [:],
        resolvers: [String: [String: SyncResolver]] = [:]
    ) throws {
        try self.init(
            coordinator: coordinator, store: Self.store(of: coordinator), transport: transport,
            policies: policies, resolvers: resolvers)
    }

    /// The store of a coordinator that can be synchronized.
    static func store(of coordinator: PersistentStoreCoordinator) throws -> SQLiteStore {
        let stores = coordinator.persistentStores.compactMap { $0 as? SQLiteStore }
        guard stores.count == 1, let store = stores.first else {
            throw QuireError(
                .unsupported,
                "Synchronization takes a coordinator with one SQLite store; this one has \(stores.count)."
            )
        }
        return store
    }

    init(
        coordinator: PersistentStoreCoordinator, store: SQLiteStore,
        transport: any SyncTransport, segmentsBeforeSnapshot: Int = 64,
        policies: [String: [String: SyncPolicy]] = [:],
        resolvers: [String: [String: SyncResolver]] = [:],
        clock: @escaping @Sendable () -> Date = { Date() }
    ) throws {
        self.segmentsBeforeSnapshot = segmentsBeforeSnapshot
        self.coordinator = coordinator
        self.transport = transport
        self.clock = clock
        replica = try SyncReplica(store, policies: policies, resolvers: resolvers)
    }

    // MARK: - Beginning and ending

    /// Makes the shared document in the transport's folder, of which the store is the first replica.
    ///
    /// - Throws: `QuireError` with code `invalidState` if there is one already, which can be joined, or if the store is a replica of
    ///   another one.
    public func create(named name: String) async throws {
        let replica = replica
        if try await onQueue({ try replica.settings() }) != nil { throw replica.alreadyAttached() }
        let new = SyncContainerDescription(
            format: 1, container: SyncIdentifier().description, name: name,
            model: replica.modelDigest)
        var isNew = try await Self.description(in: transport) == nil
        if isNew {
            isNew = try await transport.create(Self.descriptionFile, new.encoded())
        }
        guard isNew else {
            throw QuireError(
                .invalidState, "There is a shared document in the folder already; join it instead.")
        }
        try await join()
    }

    /// Makes the store a replica of the document in the transport's folder. What both have is merged; nothing is lost.
    ///
    /// - Throws: `QuireError` with code `notFound` if there is none (yet), `invalidState` if the store is a replica of another one,
    ///   `unsupported` if the document was made by a later version.
    public func join() async throws {
        let description = try await Self.existingDescription(in: transport)
        let replica = replica
        let container = try description.identifier()
        try await onQueue { try replica.attach(to: container) }
        try await sendModel()
    }

    /// Joins the document in the transport's folder, or makes it if there is none.
    ///
    /// A store whose document has been replaced by that of another machine, and that has met no other peer, joins that one.
    func joinOrCreate(named name: String) async throws {
        do {
            if try await Self.description(in: transport) == nil {
                return try await create(named: name)
            }
        } catch let error as QuireError where error.code == .invalidState {
            // Another machine's has come just now.
        }
        do {
            try await join()
        } catch let error as QuireError where error.code == .invalidState {
            let replica = replica
            guard try await onQueue({ try replica.hasMetNobody() }) else { throw error }
            try await removeSyncMetadata()
            try await join()
        }
    }

    /// Makes the store a local one again. Its objects stay, and so do the files in the folder. Changes that have not been sent are
    /// sent by none.
    public func removeSyncMetadata() async throws {
        let replica = replica
        try await onQueue { try replica.detach() }
    }

    private static let descriptionFile = SyncFileName(unchecked: "container.json")

    private static func description(
        in transport: any SyncTransport
    ) async throws -> SyncContainerDescription? {
        try await transport.contents(of: descriptionFile, maximumSize: 1 << 16).map {
            try SyncContainerDescription($0)
        }
    }

    private static func existingDescription(
        in transport: any SyncTransport
    ) async throws -> SyncContainerDescription {
        if let description = try await description(in: transport) { return description }
        throw QuireError(
            .notFound,
            "There is no shared document in the folder. If another machine has made one, it has not arrived yet; otherwise create one."
        )
    }

    /// A text that the program keeps with the replica, to find its folder again; `nil` if it has set none, or the store is not a
    /// replica.
    public func transportDescription() async throws -> String? {
        let replica = replica
        return try await onQueue { try replica.transportDescription() }
    }

    /// Keeps a text with the replica, such as the path of its folder; see ``transportDescription()``. It is not sent.
    ///
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica.
    public func setTransportDescription(_ text: String) async throws {
        let replica = replica
        try await onQueue { try replica.setTransportDescription(text) }
    }

    // MARK: - Model

    /// The maximum size of a file with a model.
    private static let maximumModelSize = 4 << 20

    private static func modelFile(_ digest: String) -> SyncFileName? {
        SyncFileName(unchecked: "model").entry("\(digest).xml")
    }

    /// Hands the model over, for programs that make a new replica.
    private func sendModel() async throws {
        let replica = replica
        guard let file = Self.modelFile(replica.modelDigest) else { return }
        try await transport.create(file, try await onQueue { replica.modelXML() })
    }

    /// The model of the shared document in a transport's folder, as its creator had it, for making a new store that joins it.
    ///
    /// - Throws: `QuireError` with code `notFound` if there is no shared document, or its model has not arrived yet; `invalidFormat`
    ///   if a file is damaged, or has not arrived whole; `unsupported` if it was made by a later version.
    public static func model(in transport: any SyncTransport) async throws -> ManagedObjectModel {
        let digest = try await existingDescription(in: transport).model
        guard let file = modelFile(digest) else {
            throw QuireError(
                .invalidFormat, "“\(descriptionFile)” names no valid model.",
                subject: .init(file: descriptionFile.path, value: digest))
        }
        guard let xml = try await transport.contents(of: file, maximumSize: maximumModelSize) else {
            throw QuireError(
                .notFound,
                "The model of the shared document has not arrived in the folder yet; try again later.",
                subject: .init(file: file.path))
        }
        let model = try ManagedObjectModel(modelXML: xml, name: file.path)
        guard try SyncModel(model.layout()).digest == digest else {
            throw QuireError(
                .invalidFormat, "“\(file)” is another model than its name says.",
                subject: .init(file: file.path))
        }
        return model
    }

    // MARK: - Rounds

    /// Sends what has been saved since the last time, and merges what others have sent.
    ///
    /// A file that is damaged or has not arrived whole is passed over, and is tried again the next time.
    ///
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica, or another shared document is in the folder;
    ///   `storeUnavailable` if the folder cannot be reached, or nothing is in it, when everything that was saved stays to be sent;
    ///   `outOfSpace`; errors of the store.
    @discardableResult
    public func synchronize() async throws -> SyncResult {
        let previous = round
        let next = Task {
            _ = await previous?.result
            return try await performRound()
        }
        round = next
        return try await withTaskCancellationHandler {
            try await next.value
        } onCancel: {
            next.cancel()
        }
    }

    private func performRound() async throws -> SyncResult {
        var result = SyncResult()
        try await capture(&result)
        try await checkContainer(&result)
        // Before anything is sent: a copy of this replica may have used the next number.
        let merged = try await receive(&result)
        try await fetchMissing(&result)
        try await send(&result)
        try await compact(merged)
        return result
    }

    private func capture(_ result: inout SyncResult) async throws {
        let (replica, date) = (replica, clock())
        var isComplete = false
        while !isComplete {
            try Task.checkCancellation()
            let captured = try await onQueue { try replica.capture(at: date) }
            isComplete = captured.isComplete
            didChange(SyncReplica.Merged(changes: captured.changes), &result)
        }
    }

    /// Checks that the shared document is in the folder. In the place of a disk that is not mounted there is an empty one, and what is
    /// sent there gets nowhere.
    private func checkContainer(_ result: inout SyncResult) async throws {
        let replica = replica
        guard let container = try await onQueue({ try replica.settings()?.container }) else {
            throw QuireError(.invalidState, "The store is not synchronized; create or join first.")
        }
        let found: SyncIdentifier?
        do {
            found = try await Self.description(in: transport)?.identifier()
        } catch let error as QuireError where error.code == .invalidFormat {
            // It is not an empty folder; its other files say themselves to what document they belong.
            return note(error, Self.descriptionFile, &result)
        }
        guard let found else {
            throw QuireError(
                .storeUnavailable,
                "The shared document is not in the folder: its disk or network may not be connected. What was saved stays to be sent."
            )
        }
        guard found == container else {
            throw QuireError(
                .invalidState,
                "Another shared document is in the folder than the one that the store belongs to.")
        }
    }

    private func send(_ result: inout SyncResult) async throws {
        let replica = replica
        var last: Int64 = 0
        while let (name, bytes) = try await onQueue({ [last] in
            try replica.nextOutgoing(after: last)
        }) {
            try Task.checkCancellation()
            guard let file = SyncSegment.folder.entry(name.fileName) else { return }
            let segment = try SyncSegment(Array(bytes), name: name)
            // Before the segment that names them.
            try await sendBlobs(of: segment)
            try await transport.create(file, bytes)
            try await onQueue { try replica.didSend(name) }
            result.sentCount += 1
            last = name.sequence
        }
    }

    private func sendBlobs(of segment: SyncSegment) async throws {
        let replica = replica
        for record in segment.records {
            for blob in record.blobs {
                guard let file = blob.fileName else { continue }
                // Nil if the value has been replaced since: the segment with the new one follows.
                if let data = try await onQueue({ try replica.externalData(blob, of: record) }) {
                    try await transport.create(file, data)
                }
            }
        }
    }

    /// The maximum number of records, and of bytes of their files, that are merged in one transaction.
    private static let batchRecords = 2_000
    private static let batchBytes = 64 << 20

    /// Merges what has arrived.
    ///
    /// - Returns: The segments and files of snapshots in the folder that have been merged.
    private func receive(_ result: inout SyncResult) async throws -> [SyncSegmentName] {
        let folder = SyncSegment.folder
        let replica = replica
        let listed = try await transport.fileNames(in: folder).compactMap { SyncSegmentName($0) }
        if try await onQueue({ try replica.takeAnotherIdentifierIfNeeded(seeing: listed) }) {
            Self.logger.notice(
                "Another replica has the same identifier as this one, because the store was copied or restored; this one has taken another."
            )
        }
        let names = try await onQueue { try replica.unknown(listed) }
            .sorted { ($0.sequence, $0.peer, $0.digest) < ($1.sequence, $1.peer, $1.digest) }
        guard let container = try await onQueue({ try replica.settings()?.container }) else {
            throw QuireError(.invalidState, "The store is not synchronized; create or join first.")
        }
        let snapshots = try await receiveSnapshots(of: container, &result)
        var batch: [(SyncSegment, SyncSegmentName)] = []
        var blobs: [Data: Data] = [:]
        for name in names {
            try Task.checkCancellation()
            guard let segment = await read(name, of: container, in: folder, &result) else {
                continue
            }
            try await fetchBlobs(of: segment.records.flatMap(\.blobs), into: &blobs, &result)
            batch.append((segment, name))
            if batch.reduce(0, { $0 + $1.0.records.count }) >= Self.batchRecords
                || blobs.values.reduce(0, { $0 + $1.count }) >= Self.batchBytes
            {
                try await merge(batch, blobs, &result)
                (batch, blobs) = ([], [:])
            }
        }
        let isUpgraded = try await onQueue { try replica.hasOtherModel() }
        if !batch.isEmpty || isUpgraded { try await merge(batch, blobs, &result) }
        let unknown = Set(try await onQueue { try replica.unknown(listed) })
        return snapshots + listed.filter { !unknown.contains($0) }
    }

    // MARK: - Snapshots

    /// Merges snapshots of which all files are there.
    ///
    /// - Returns: The files in the folder that have been merged.
    private func receiveSnapshots(
        of container: SyncIdentifier, _ result: inout SyncResult
    ) async throws -> [SyncSegmentName] {
        let folder = SyncSnapshotPart.folder
        let replica = replica
        let listed = try await transport.fileNames(in: folder).compactMap { SyncSegmentName($0) }
        var unknown = Set(try await onQueue { try replica.unknownSnapshotFiles(listed) })
        let merged = listed.filter { !unknown.contains($0) }
        let groups = Dictionary(grouping: listed.filter { $0.part != nil }, by: \.sequence)
        var received: [SyncSegmentName] = []
        for (_, names) in groups.sorted(by: { $0.key < $1.key }) {
            let indexes = Set(names.compactMap { $0.part?.index })
            guard names.contains(where: unknown.contains), indexes.count == names[0].part?.count
            else { continue }
            var isWhole = true
            for name in names where unknown.contains(name) {
                try Task.checkCancellation()
                guard let file = await read(name, of: container, in: folder, &result) else {
                    isWhole = false
                    continue
                }
                if try await onQueue({ try replica.settings()?.seen.contains(file.seen) ?? false })
                {
                    try await onQueue { try replica.noteSnapshotFiles(names) }
                    received += names
                    break
                }
                var blobs: [Data: Data] = [:]
                try await fetchBlobs(of: file.records.flatMap(\.blobs), into: &blobs, &result)
                unknown.remove(name)
                let isLast = isWhole && !names.contains(where: unknown.contains)
                let date = clock()
                let changes = try await onQueue { [blobs] in
                    try replica.merge(
                        snapshot: file, name, isLast: isLast, blobs: blobs, at: date)
                }
                didChange(changes, &result)
                received.append(name)
            }
        }
        return merged + received
    }

    /// The number of segments above which a snapshot takes their place.
    private let segmentsBeforeSnapshot: Int

    /// Writes a snapshot and removes the files that it stands for, if there are many.
    ///
    /// Of several peers the first one does it at the limit, the next at twice the limit, and so on.
    ///
    /// - Parameter merged: The files in the folder that have been merged.
    private func compact(_ merged: [SyncSegmentName]) async throws {
        let replica = replica
        let segments = merged.filter { $0.part == nil }
        guard segments.count > segmentsBeforeSnapshot,
            let settings = try await onQueue({ try replica.settings() }), settings.scan == nil
        else { return }
        let rank = Set(segments.map(\.peer)).count { $0 < settings.peer }
        guard segments.count > segmentsBeforeSnapshot * (1 + rank) else { return }
        guard let snapshot = try await onQueue({ try replica.beginSnapshot() }) else { return }
        var (last, names): (Data, [SyncSegmentName]) = (Data(), [])
        for index in 0..<snapshot.partCount {
            try Task.checkCancellation()
            let (name, bytes, end) = try await onQueue { [last] in
                var end = last
                let (name, bytes) = try replica.snapshotFile(index, of: snapshot, after: &end)
                return (name, bytes, end)
            }
            last = end
            guard let file = SyncSnapshotPart.folder.entry(name.fileName) else { return }
            try await transport.create(file, bytes)
            names.append(name)
        }
        let written = names
        try await onQueue { try replica.noteSnapshotFiles(written) }
        // The snapshot has all of these, and is there.
        var covered = segments.filter { snapshot.seen.contains($0.peer, $0.sequence) }
            .map { SyncSegment.folder.entry($0.fileName) }
        // An older snapshot has segments that may be known only when all of its files are.
        for files in Dictionary(grouping: merged.filter { $0.part != nil }, by: \.sequence).values
        where Set(files.compactMap { $0.part?.index }).count == files[0].part?.count {
            covered += files.map { SyncSnapshotPart.folder.entry($0.fileName) }
        }
        for file in covered.compactMap(\.self) { try await transport.remove(file) }
    }

    private func read(
        _ name: SyncSegmentName, of container: SyncIdentifier, in folder: SyncFileName,
        _ result: inout SyncResult
    ) async -> SyncSegment? {
        guard let file = folder.entry(name.fileName) else { return nil }
        do {
            guard
                let bytes = try await transport.contents(
                    of: file, maximumSize: SyncSegment.maximumSize)
            else { return nil }
            let segment = try SyncSegment(Array(bytes), name: name)
            if segment.container == container { return segment }
            throw QuireError(
                .invalidFormat, "“\(file)” belongs to another shared document.",
                subject: .init(file: file.path))
        } catch {
            note(error, file, &result)
            return nil
        }
    }

    private func note(_ error: any Error, _ file: SyncFileName, _ result: inout SyncResult) {
        let error =
            error as? QuireError
            ?? QuireError(
                .inputOutput, "“\(file)” cannot be read: \(error)", subject: .init(file: file.path))
        Self.logger.info("\(error.message)")
        result.problems.append(SyncProblem(fileName: file.path, error: error))
    }

    /// Fetches files of external data that have arrived.
    private func fetchBlobs(
        of wanted: [SyncBlob], into blobs: inout [Data: Data], _ result: inout SyncResult
    ) async throws {
        for blob in wanted where blobs[blob.digest] == nil {
            guard let file = blob.fileName, let size = Int(exactly: blob.size) else { continue }
            do {
                guard let data = try await transport.contents(of: file, maximumSize: size) else {
                    continue
                }
                guard Data(SHA256.hash(data: data)) == blob.digest else {
                    throw QuireError(
                        .invalidFormat, "“\(file)” is not whole.", subject: .init(file: file.path))
                }
                blobs[blob.digest] = data
            } catch {
                note(error, file, &result)
            }
        }
    }

    private func merge(
        _ batch: [(SyncSegment, SyncSegmentName)], _ blobs: [Data: Data],
        _ result: inout SyncResult
    ) async throws {
        let (replica, date) = (replica, clock())
        let merged = try await onQueue { try replica.merge(batch, blobs: blobs, at: date) }
        didChange(merged, &result)
    }

    /// Writes external data that objects have waited for.
    private func fetchMissing(_ result: inout SyncResult) async throws {
        let (replica, date) = (replica, clock())
        let missing = try await onQueue { try replica.missingBlobs() }
        for (digest, ids) in missing {
            var blobs: [Data: Data] = [:]
            // Of any size: the digest says whether it is whole.
            let blob = SyncBlob(digest: digest, size: Int64(Int32.max))
            try await fetchBlobs(of: [blob], into: &blobs, &result)
            if blobs.isEmpty { continue }
            let merged = try await onQueue { [blobs] in
                try replica.show(Set(ids), blobs: blobs, at: date)
            }
            didChange(merged, &result)
        }
        result.missingFileCount = try await onQueue { try replica.missingBlobs().count }
    }

    private func didChange(_ merged: SyncReplica.Merged, _ result: inout SyncResult) {
        result.receivedCount += merged.count
        result.conflictCount += merged.conflictCount
        if merged.changes.isEmpty { return }
        result.changes.append(merged.changes)
        coordinator?.didImport(merged.changes)
    }

    // MARK: - Conflicts

    /// The values that have lost against others, oldest first.
    public func conflicts() async throws -> [SyncConflict] {
        let replica = replica
        return try await onQueue { try replica.conflicts() }
    }

    /// Gives the object of a conflict the value that has lost. It is a new change, which all peers get; a deleted object comes back.
    ///
    /// - Throws: `QuireError` with code `notFound` if the conflict is not listed any more.
    public func choose(_ conflict: SyncConflict) async throws {
        let (replica, date) = (replica, clock())
        let merged = try await onQueue { try replica.choose(conflict.number, at: date) }
        var result = SyncResult()
        didChange(merged, &result)
    }

    /// Takes a conflict off this replica's list: the value that was kept stays.
    ///
    /// - Throws: `QuireError` with code `notFound` if the conflict is not listed any more.
    public func dismiss(_ conflict: SyncConflict) async throws {
        let replica = replica
        try await onQueue { try replica.dismiss(conflict.number) }
    }

    /// How far the replica has come; `nil` if the store is not one.
    public func status() async throws -> SyncStatus? {
        let replica = replica
        return try await onQueue { try replica.status() }
    }

    /// The merged state as text, for tests.
    func stateDescription() async throws -> String {
        let replica = replica
        return try await onQueue { try replica.stateDescription() }
    }

    private func onQueue<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result(catching: body)) }
        }
    }
}

/// The content of `container.json`.
private struct SyncContainerDescription: Codable {
    let format: Int
    let container: String
    let name: String
    /// The digest of the creator's model.
    let model: String

    init(format: Int, container: String, name: String, model: String) {
        self.format = format
        self.container = container
        self.name = name
        self.model = model
    }

    init(_ data: Data) throws {
        do {
            self = try JSONDecoder().decode(Self.self, from: data)
        } catch {
            throw QuireError(
                .invalidFormat, "“container.json” is damaged, or has not arrived whole.",
                subject: .init(file: "container.json"), underlying: error)
        }
        guard format == 1 else {
            throw QuireError(
                .unsupported,
                "The shared document was made by a later version of this program (format \(format)).",
                subject: .init(file: "container.json"))
        }
    }

    func encoded() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        return try encoder.encode(self)
    }

    func identifier() throws -> SyncIdentifier {
        guard let id = SyncIdentifier(container) else {
            throw QuireError(
                .invalidFormat, "“container.json” has no valid identifier.",
                subject: .init(file: "container.json", value: container))
        }
        return id
    }
}
