package import Dispatch
import Logging
internal import QuireModel
package import QuireQuery
internal import QuireStore
internal import QuireSystem
import Synchronization

/// Watches a store for commits of others: of other processes, and of other stores of this process on the same database.
///
/// SQLite has no event for a commit. Stores of this process signal theirs. Writes of other processes are seen as events of the
/// files, but a commit becomes visible only later, when its log has reached the disk, which is no event: so the database's
/// version is checked after an event and then at doubling intervals, for some sixteen seconds. Where the kernel has no events,
/// it is checked every two seconds.
///
/// Commits between two checks are reported once, and the last one is always reported.
package final class SQLiteCommitWatch: Sendable {
    private struct State {
        /// The version at the last check.
        var seen: ContentVersion?
        /// The number of the last series of checks; earlier ones end.
        var series = 0
        /// Whether the first check of the series has not begun.
        var isStarting = false
        var events: [FileEventSubscription] = []
        var signals: LocalCommits.Observer?
    }

    private weak let store: SQLiteStore?
    private let queue: DispatchQueue
    private let didCommit: @Sendable () -> Void
    private let state = Lock(State())
    /// The number of checks in a series: the last one is 2¹³ milliseconds after the one before.
    private static let checkCount = 15

    /// Knows the store as it is now.
    ///
    /// - Parameters:
    ///   - queue: A serial queue.
    ///   - didCommit: Called on the queue after a commit.
    package init(
        _ store: SQLiteStore, queue: DispatchQueue, didCommit: @escaping @Sendable () -> Void
    ) {
        self.store = store
        self.queue = queue
        self.didCommit = didCommit
        // Before the version is read, so that nothing is missed between.
        let signals = LocalCommits.observe(
            store.storePath, except: ObjectIdentifier(store.connections)
        ) { [weak self] in self?.startChecking() }
        state.withLock { $0.signals = signals }
        if !store.isInMemory { subscribe(to: store) }
        readVersion(of: store)
    }

    deinit { cancel() }

    /// Ends watching. Calling it twice does nothing.
    package func cancel() {
        // Released after unlocking.
        let old = state.withLock { state in
            defer { state = State() }
            state.series += 1
            return state
        }
        if let signals = old.signals { LocalCommits.remove(signals) }
        for events in old.events { events.cancel() }
    }

    private func subscribe(to store: SQLiteStore) {
        let path = store.storePath
        let name = FileSystem.name(of: path)
        var events: [FileEventSubscription] = []
        do {
            events.append(
                try FileEvents.shared.watch(
                    path: FileSystem.folder(of: path), for: [.modified, .names]
                ) { [weak self] event in
                    if event.name.isEmpty || event.name.hasPrefix(name) { self?.startChecking() }
                })
        } catch {
            Logger(label: "quire.sql").info(
                "Checking “\(path)” for commits of other processes only every two seconds: \(error)"
            )
        }
        if events.isEmpty || store.connections.source.isOnNetwork {
            events.append(FileEvents.shared.tick { [weak self] in self?.startChecking() })
        }
        state.withLock { $0.events = events }
    }

    /// Begins a series of checks, unless one is about to begin.
    private func startChecking() {
        let isNew = state.withLock { state in
            if state.isStarting || state.signals == nil { return false }
            state.isStarting = true
            state.series += 1
            return true
        }
        if isNew { queue.async { [weak self] in self?.check() } }
    }

    /// The first check of a series.
    private func check() {
        let series = state.withLock { state in
            state.isStarting = false
            return state.series
        }
        check(0, of: series)
    }

    private func check(_ number: Int, of series: Int) {
        guard let store, state.withLock({ $0.series == series && $0.signals != nil }) else {
            return
        }
        if readVersion(of: store) { didCommit() }
        guard number + 1 < Self.checkCount, !store.isInMemory else { return }
        queue.asyncAfter(deadline: .now() + .milliseconds(1 << number)) { [weak self] in
            self?.check(number + 1, of: series)
        }
    }

    /// Reads the version of the store.
    ///
    /// - Returns: Whether it is another one than before. False if it cannot be read, because the store is locked or a file could
    ///   not be opened: a later check may succeed.
    @discardableResult
    private func readVersion(of store: SQLiteStore) -> Bool {
        do {
            let version = try store.connections.versionOfOthers()
            return state.withLock { state in
                defer { state.seen = version }
                return state.seen != version
            }
        } catch {
            Logger(label: "quire.sql").debug(
                "“\(store.storePath)” cannot be checked for commits of other processes: \(error)")
            return false
        }
    }
}

/// The objects that others have changed in a store, as far as its history names them.
package enum ChangesOfOthers: Sendable {
    case objects(ObjectIDChanges)
    /// The history has nothing new.
    case unmentioned
    /// There is no history, or it has no beginning in common with what is known.
    case unknown
}

extension SQLiteStore {
    /// Whether the store can see what others commit while it is open. False if it is read as a file at rest, or from a copy.
    package var seesCommitsOfOthers: Bool {
        switch connections.source.access {
        case .writing, .besideWriter, .besideOthers, .memory: true
        case .immutable, .copy: false
        }
    }

    /// Begins or ends recording which history transactions are this store's own saves.
    package func recordOwnTransactions(_ isOn: Bool) {
        connections.ownTransactions.withLock { $0 = isOn ? $0 ?? OwnTransactions() : nil }
    }

    /// The objects that the history names after a transaction, without those of this store's own saves; those of its own batch
    /// requests are included.
    ///
    /// - Parameter number: The number of the last transaction that is known. It advances to the last one there is.
    /// - Throws: ``QuireError`` with code `historyTokenExpired`, or an error of reading.
    package func changesOfOthers(after number: inout Int64?) throws -> ChangesOfOthers {
        guard let last = try lastHistoryTransactionNumber() else {
            number = nil
            return .unknown
        }
        defer { number = last }
        let start = connections.ownTransactions.withLock { own in
            // If this store has begun the history since then, it names all changes.
            guard let known = number ?? (own?.contains(1) == true ? 0 : nil) else {
                return Int64?.none
            }
            return own?.end(after: known) ?? known
        }
        guard let start else { return .unknown }
        let token = PersistentHistoryToken(transactionNumbers: [identity.uuid: start])
        let transactions = try execute(.fetchHistory(after: token)).transactions
        let own = connections.ownTransactions.withLock { own in
            defer { own?.removeAll(upTo: last) }
            return own
        }
        let others = transactions.filter { $0.number <= last && own?.contains($0.number) != true }
        if others.isEmpty { return .unmentioned }
        return .objects(ObjectIDChanges(net: others.lazy.flatMap(\.changes)))
    }
}

extension ObjectIDChanges {
    /// The sum of successive changes: every object once.
    init(net changes: some Sequence<PersistentHistoryChange>) {
        var kinds: [ManagedObjectID: PersistentHistoryChange.Kind] = [:]
        for change in changes {
            // An object that is new and then changed is new.
            if change.kind == .update, kinds[change.objectID] == .insert { continue }
            kinds[change.objectID] = change.kind
        }
        self.init()
        for (id, kind) in kinds {
            switch kind {
            case .insert: inserted.append(id)
            case .update: updated.append(id)
            case .delete: deleted.append(id)
            }
        }
    }
}

/// Signals commits among the stores of this process that have the same path.
enum LocalCommits {
    /// One observer, until ``remove(_:)``.
    struct Observer: Sendable { fileprivate let number: Int }

    private struct Entry {
        let path: String
        let own: ObjectIdentifier
        let handler: @Sendable () -> Void
    }

    private static let entries = Lock<[Int: Entry]>([:])
    private static let lastNumber = Atomic(0)
    /// Whether there are observers: a check for savers that takes no lock.
    private static let hasEntries = Atomic(false)

    /// Calls a handler after writes to a path, on the writer's thread, except by one store's own connections.
    static func observe(
        _ path: String, except own: ObjectIdentifier, _ handler: @escaping @Sendable () -> Void
    ) -> Observer {
        let number = lastNumber.add(1, ordering: .relaxed).newValue
        entries.withLock {
            $0[number] = Entry(path: path, own: own, handler: handler)
            hasEntries.store(true, ordering: .releasing)
        }
        return Observer(number: number)
    }

    static func remove(_ observer: Observer) {
        // Released after unlocking.
        _ = entries.withLock { entries in
            defer { hasEntries.store(!entries.isEmpty, ordering: .releasing) }
            return entries.removeValue(forKey: observer.number)
        }
    }

    static func send(at path: String, by own: ObjectIdentifier) {
        guard hasEntries.load(ordering: .acquiring) else { return }
        let concerned = entries.withLock { entries in
            entries.values.filter { $0.own != own && FileName($0.path) == FileName(path) }
        }
        for entry in concerned { entry.handler() }
    }
}

/// The numbers of history transactions that a store has written itself.
struct OwnTransactions {
    /// In ascending order, with gaps between them.
    private var ranges: [ClosedRange<Int64>] = []
    /// The maximum number of ranges. Of transactions in dropped ones it is not known that they are the store's own.
    private static let maximumCount = 1024

    mutating func add(_ number: Int64) {
        if let last = ranges.last, last.upperBound &+ 1 == number {
            ranges[ranges.count - 1] = last.lowerBound...number
        } else {
            ranges.append(number...number)
            if ranges.count > Self.maximumCount { ranges.removeFirst() }
        }
    }

    /// The last of the own transactions that follow a number without gap; the number itself if none does.
    func end(after number: Int64) -> Int64 {
        ranges.first { $0.contains(number &+ 1) }?.upperBound ?? number
    }

    func contains(_ number: Int64) -> Bool { ranges.contains { $0.contains(number) } }

    /// Forgets the transactions up to a number.
    mutating func removeAll(upTo number: Int64) { ranges.removeAll { $0.upperBound <= number } }
}
