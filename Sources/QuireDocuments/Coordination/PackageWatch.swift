public import Dispatch
import Foundation
import Quire

/// Watches an open package: reports when it is moved, deleted, replaced, or written to.
///
/// ```swift
/// let watch = try PackageWatch(path: document.path, queue: .main) { event in
///     switch event {
///     case .moved(let path): …        // Close the store and open it at the new path before the next save.
///     case .deleted: …                // Never recreate it without asking.
///     case .replaced: …               // Another document is at the path.
///     case .changed(let parts): …
///     }
/// }
/// ```
///
/// Guarantees
/// ==========
///
/// - It follows the folder that was at the path when it was created, through an open descriptor, even if that is renamed, moved
///   to another folder of the file system, or moved along with a parent folder.
/// - The state is determined when an event is delivered, not when the change happened: of several moves in quick succession the
///   last is reported; a package that was moved away and back is not reported at all.
/// - Events are delivered on the given queue, one at a time, in order, about `latency` after the change; changes in that time are
///   reported together. No event is delivered after ``cancel()`` has returned.
/// - If the kernel loses events, everything is examined, and all parts are reported as changed.
/// - Where kernel events are not reliable, because other machines write to the file system (NFS, SMB, FUSE …), a parent folder
///   cannot be read, or the user has reached the limit of watches, the package is polled every two seconds instead: its location,
///   and the sizes and times of its files.
///
/// A changed symbolic link on the path to the package is detected only with the next event.
///
/// It may be used from any thread. It uses one descriptor, and one kernel watch for each folder on the path to the package, which
/// watches of packages in the same folder share.
public final class PackageWatch: Sendable {
    /// Receives events.
    public typealias Handler = @Sendable (PackageEvent) -> Void

    /// The subscriptions; changed on `work` only, except by ``cancel()``.
    private struct State {
        var path: String
        var isCancelled = false
        /// Whether an examination is scheduled.
        var isScheduled = false
        /// The parts written to since the last examination.
        var parts: PackageParts = []
        /// Whether the subscriptions may be out of date with the package's path and content.
        var mustSubscribe = false
        var subscriptions: [FileEventSubscription] = []
        var ticker: FileEventSubscription?
        /// The state of the files at the last poll, if they are polled.
        var fingerprint: PackageFingerprint?
    }

    private let state: Lock<State>
    private let folder: OpenFile
    private let identity: FileInformation
    private let latency: DispatchTimeInterval
    private let events: FileEvents
    private let polls: Bool
    /// The queue for examining the package: not the caller's, because a disk may be slow. All watches
    /// share its threads.
    private let work = DispatchQueue(
        label: "quire.package-watch", qos: .utility, target: .global(qos: .utility))
    private let delivery: CancellableDelivery<PackageEvent>

    /// Starts watching the package at a path.
    ///
    /// - Parameters:
    ///   - path: The package folder.
    ///   - latency: How long to collect changes before reporting them.
    ///   - queue: The queue on which the handler is called.
    ///   - handler: Receives the events.
    /// - Throws: ``QuireError`` with code `notFound`, or `inputOutput` if it is not a folder or cannot be opened.
    public convenience init(
        path: String, latency: DispatchTimeInterval = .milliseconds(20), queue: DispatchQueue,
        handler: @escaping Handler
    ) throws {
        try self.init(path: path, latency: latency, events: .shared, queue: queue, handler: handler)
    }

    /// Watches an open package, through the descriptor of its folder if there is one. Tests pass their own file events, and may
    /// force polling.
    init(
        path: String, folder: OpenFile? = nil, latency: DispatchTimeInterval = .milliseconds(20),
        events: FileEvents = .shared, alwaysPolls: Bool = false, queue: DispatchQueue,
        handler: @escaping Handler
    ) throws {
        let path = FileSystem.absolute(path)
        self.folder = try folder ?? OpenFile.open(path, for: .folder)
        identity = try self.folder.information()
        self.latency = latency
        self.events = events
        polls = try alwaysPolls || FileSystem.isOnNetwork(path)
        delivery = CancellableDelivery(queue: queue, handler: handler)
        state = Lock(State(path: path))
        subscribe()
    }

    deinit { cancel() }

    /// The path of the package, as of the last event.
    public var path: String { state.withLock { $0.path } }

    /// Whether it polls, because kernel events are not reliable.
    var isPolling: Bool { state.withLock { $0.ticker != nil } }

    /// Ends the watch. When this returns the handler is not running, unless it is the handler that cancels, and is not called
    /// again. Cancelling twice does nothing.
    ///
    /// Waits for a handler that is running on another thread: do not call it while you hold a lock that the handler needs.
    public func cancel() {
        end()
        delivery.cancel()
    }

    // MARK: Subscribing

    /// Subscribes to kernel events for the content of the package, its name, and the names of all parent folders.
    private func subscribe() {
        // If a folder is renamed meanwhile, the path differs afterwards.
        for _ in 0..<5 {
            let current = folder.presentPath ?? path
            let (subscriptions, isComplete) = subscriptions(at: current)
            let isCancelled = state.withLock { state in
                if state.isCancelled { return true }
                state.subscriptions = subscriptions
                if polls || !isComplete {
                    if state.ticker == nil {
                        state.ticker = events.tick { [weak self] in self?.record([]) }
                        state.fingerprint = PackageFingerprint(of: folder)
                    }
                } else {
                    state.ticker = nil
                    state.fingerprint = nil
                }
                return false
            }
            if isCancelled { return }
            // A package deleted before the subscription keeps its last path, and no event follows, so it is examined.
            if folder.presentPath.map(FileName.init) == FileName(current) {
                if case .same = location(current) { return }
                break
            }
        }
        record([])
    }

    private func subscriptions(at current: String) -> ([FileEventSubscription], Bool) {
        var subscriptions: [FileEventSubscription] = []
        var isComplete = true
        func add(_ subscription: @autoclosure () throws -> FileEventSubscription) {
            do { try subscriptions.append(subscription()) } catch { isComplete = false }
        }
        /// Whether a name in a folder is the package's.
        func addName(of path: String) {
            let name = FileSystem.name(of: path)
            add(
                try events.watch(path: FileSystem.folder(of: path), for: [.names, .itself]) {
                    [weak self] in
                    if $0.name.isEmpty || $0.name == name { self?.record($0, []) }
                })
        }
        add(
            try events.watch(folder, for: [.names, .itself, .modified, .written]) { [weak self] in
                // Subscribes before recording the change: the new folder may be filled as soon as the change is reported.
                if $0.name == "StoreContent" || $0.name == "AdditionalContent" {
                    self?.resubscribe()
                }
                self?.record($0, PackageParts(nameInPackage: $0.name))
            })
        addContent("StoreContent", .store)
        addContent("AdditionalContent", .additionalContent)
        addName(of: current)
        let named = path
        if FileSystem.folder(of: named) != FileSystem.folder(of: current) { addName(of: named) }
        var above = FileSystem.folder(of: FileSystem.folder(of: current))
        while above != "/" && above != "." {
            add(
                try events.watch(path: above, for: .itself) { [weak self] in self?.record($0, [])
                })
            above = FileSystem.folder(of: above)
        }
        func addContent(_ name: String, _ part: PackageParts) {
            let kinds: FileEvents.Kinds =
                part == .store ? [.names, .itself, .modified] : [.names, .itself]
            do {
                let content = try OpenFile.open(name, in: folder, for: .folder)
                try subscriptions.append(
                    events.watch(content, for: kinds) { [weak self] in
                        // The shared memory file changes without saves.
                        if !$0.name.hasSuffix("-shm") { self?.record($0, part) }
                    })
            } catch let error as QuireError where error.code == .notFound {
                // An event reports when it is created.
            } catch {
                isComplete = false
            }
        }
        return (subscriptions, isComplete)
    }

    // MARK: Examining

    private func record(_ event: FileEvents.Event, _ parts: PackageParts) {
        record(event.kinds.contains(.overflow) ? .all : event.kinds.contains(.ended) ? [] : parts)
    }

    private func resubscribe() {
        state.withLock { $0.mustSubscribe = true }
        record([])
    }

    /// Schedules an examination of the package after a change of some parts.
    private func record(_ parts: PackageParts) {
        let mustSchedule = state.withLock { state in
            if state.isCancelled { return false }
            state.parts.formUnion(parts)
            if parts == .all { state.mustSubscribe = true }
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustSchedule {
            work.asyncAfter(deadline: .now() + latency) { [weak self] in self?.examine() }
        }
    }

    private func examine() {
        let looking = state.withLock { state -> State? in
            if state.isCancelled { return nil }
            state.isScheduled = false
            defer {
                state.parts = []
                state.mustSubscribe = false
            }
            return state
        }
        guard let before = looking else { return }
        var parts = before.parts
        if let known = before.fingerprint {
            let current = PackageFingerprint(of: folder)
            parts.formUnion(current.differences(from: known))
            state.withLock { $0.fingerprint = current }
        }
        switch location(before.path) {
        case .same:
            if before.mustSubscribe { subscribe() }
        case .unknown: lookLater()
        case .moved(let path, let isReplaced):
            state.withLock { $0.path = path }
            subscribe()
            delivery.send(isReplaced ? .replaced(movedTo: path) : .moved(to: path))
        case .gone(let isReplaced):
            end()
            return delivery.send(isReplaced ? .replaced(movedTo: nil) : .deleted)
        }
        if !parts.isEmpty { delivery.send(.changed(parts)) }
    }

    /// Polls until the package can be found again.
    private func lookLater() {
        state.withLock { state in
            if state.isCancelled { return }
            state.mustSubscribe = true
            if state.ticker == nil {
                state.ticker = events.tick { [weak self] in self?.record([]) }
            }
        }
    }

    private enum Location {
        case same
        case moved(String, isReplaced: Bool)
        case gone(isReplaced: Bool)
        /// A parent folder cannot be searched now, or is changing.
        case unknown
    }

    private func location(_ known: String) -> Location {
        do {
            let there = try FileSystem.information(at: known)
            if there?.isSameFile(as: identity) == true { return .same }
            let isReplaced = there != nil
            guard let current = folder.presentPath else { return .gone(isReplaced: isReplaced) }
            if try FileSystem.information(at: current)?.isSameFile(as: identity) == true {
                return .moved(current, isReplaced: isReplaced)
            }
            // The folder may have been moved between the two calls: one more attempt.
            if folder.presentPath.map(FileName.init) != FileName(current) { return .unknown }
            return .gone(isReplaced: isReplaced)
        } catch {
            return .unknown
        }
    }

    /// Cancels all subscriptions.
    private func end() {
        let ended = state.withLock { state -> [FileEventSubscription] in
            state.isCancelled = true
            let ended = state.subscriptions + [state.ticker].compactMap { $0 }
            state.subscriptions = []
            state.ticker = nil
            return ended
        }
        for subscription in ended { subscription.cancel() }
    }
}

extension PackageParts {
    /// The part that a name in a package folder belongs to.
    init(nameInPackage name: String) {
        switch name {
        case "": self = []
        case "StoreContent": self = .store
        case "AdditionalContent": self = .additionalContent
        case "DocumentMetadata.plist": self = .metadata
        case ".lock": self = .lock
        case _ where FileSystem.isTemporaryName(name): self = []
        default: self = .other
        }
    }
}

// MARK: - Events

/// An event of a watched document package; see ``PackageWatch``.
public enum PackageEvent: Sendable, Hashable {
    /// The package is at another path now, because it or a parent folder was renamed, and the old path does not exist.
    case moved(to: String)
    /// The package was deleted. This is the last event.
    case deleted
    /// Another file or folder is at the package's path now. The package itself was moved to the associated path, or deleted if
    /// that is `nil`; then this is the last event.
    case replaced(movedTo: String?)
    /// Files of the package were written to, possibly by this process's own saves.
    case changed(PackageParts)
}

/// Parts of a package that may be written to.
public struct PackageParts: OptionSet, Sendable, Hashable {
    /// The raw bits.
    public let rawValue: Int

    /// Creates parts from raw bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The store: its file, its write-ahead log or its journal.
    public static let store = PackageParts(rawValue: 1 << 0)
    /// The generations of additional content. A new one belongs to a save in progress; the store refers to the current one.
    public static let additionalContent = PackageParts(rawValue: 1 << 1)
    /// The metadata file.
    public static let metadata = PackageParts(rawValue: 1 << 2)
    /// The lock file: the package was opened for writing, or closed.
    public static let lock = PackageParts(rawValue: 1 << 3)
    /// Anything else.
    public static let other = PackageParts(rawValue: 1 << 4)
    /// All parts.
    public static let all: PackageParts = [.store, .additionalContent, .metadata, .lock, .other]
}

// MARK: - Fingerprints

/// The sizes and times of a package's files, whose comparison shows whether they were written to.
struct PackageFingerprint: Sendable {
    private struct Mark: Sendable, Equatable {
        var inode: UInt64
        var size: Int64
        var modified: Int64
    }

    private var marks: [String: Mark] = [:]

    private static let parts: [(String, PackageParts)] = [
        ("StoreContent/persistentStore", .store),
        ("StoreContent/persistentStore-wal", .store),
        ("StoreContent/persistentStore-journal", .store),
        ("AdditionalContent", .additionalContent),
        ("DocumentMetadata.plist", .metadata),
        (".lock", .lock),
    ]

    /// Examines the files of a package through its open folder. Symbolic links are not followed.
    init(of folder: OpenFile) {
        for (path, _) in Self.parts {
            guard let information = try? FileSystem.information(at: path, in: folder) else {
                continue
            }
            // The size of a folder means nothing.
            marks[path] = Mark(
                inode: information.inode, size: information.kind == .folder ? 0 : information.size,
                modified: information.modificationNanoseconds)
        }
    }

    /// The parts whose files differ.
    func differences(from earlier: PackageFingerprint) -> PackageParts {
        Self.parts.reduce(into: []) { parts, part in
            if marks[part.0] != earlier.marks[part.0] { parts.formUnion(part.1) }
        }
    }
}

// MARK: - Delivery

/// Delivers a watch's events to its handler, never after the watch was cancelled.
///
/// `@unchecked`: `isCancelled` is only accessed with `lock` held. The lock is recursive, because a handler may cancel its own
/// watch, and is held while the handler runs, because cancelling waits for the handler.
final class CancellableDelivery<Event: Sendable>: @unchecked Sendable {
    private let lock = NSRecursiveLock()
    private var isCancelled = false
    private let queue: DispatchQueue
    private let handler: @Sendable (Event) -> Void

    init(queue: DispatchQueue, handler: @escaping @Sendable (Event) -> Void) {
        self.queue = queue
        self.handler = handler
    }

    /// Delivers an event on the queue.
    func send(_ event: Event) {
        queue.async { [self] in
            lock.withLock { if !isCancelled { handler(event) } }
        }
    }

    /// Waits for a handler running on another thread, and prevents further calls.
    func cancel() { lock.withLock { isCancelled = true } }
}
