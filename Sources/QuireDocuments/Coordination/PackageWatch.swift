public import Dispatch
import Foundation
import Quire

/// Watches an open package: reports when it is moved, deleted, replaced, or written to.
///
/// ```swift
/// let watch = try PackageWatch(path: document.path, queue: .main) { event in
///     switch event {
///     case .moved(let path): …        // Close the store and open it at the new path before the next save.
///     case .deleted: …                // Never make it again without asking.
///     case .replaced: …               // What is at the path is not our document.
///     case .changed(let parts): …
///     }
/// }
/// ```
///
/// Guarantees
/// ==========
///
/// - It follows the folder that was at the path when it was made, by a descriptor that it holds, wherever that goes:
///   renamed, moved to another folder of the file system, or along with a folder above it.
/// - How things stand is found out when an event is delivered, not when something happened: of several moves in short
///   order the last is reported; a package that was moved away and back is not reported at all.
/// - Events come on the queue given, one at a time, in order, some `latency` after the change; what happens
///   meanwhile is reported together. None comes after ``cancel()`` has returned.
/// - When the kernel loses events, everything is looked at, and all parts are reported as changed.
/// - Where the kernel has no events, because other machines write to the file system (NFS, SMB, FUSE …), a folder above
///   may not be read, or the user watches as much as the system allows, the package is looked at every two seconds
///   instead: location, and sizes and times of its files.
///
/// A symbolic link on the way to the package that is made to lead elsewhere is noticed only with the next event.
///
/// It may be used from any thread. It costs one descriptor, and one kernel watch for each folder on the path to the
/// package, which watches of packages in the same folder share.
public final class PackageWatch: Sendable {
    /// Gets events.
    public typealias Handler = @Sendable (PackageEvent) -> Void

    /// The subscriptions; changed on `work` only, except by ``cancel()``.
    private struct State {
        var path: String
        var isCancelled = false
        /// Whether a look is scheduled.
        var isScheduled = false
        /// The parts written to since the last look.
        var parts: PackageParts = []
        /// Whether the subscriptions may not be those of the package's present path and content.
        var mustSubscribe = false
        var subscriptions: [FileEventSubscription] = []
        var ticker: FileEventSubscription?
        /// The state of the files at the last poll; only where they are polled.
        var fingerprint: PackageFingerprint?
    }

    private let state: Lock<State>
    private let folder: OpenFile
    private let identity: FileInformation
    private let latency: DispatchTimeInterval
    private let events: FileEvents
    private let polls: Bool
    /// The queue for examining the package: not the caller's, because a disk may be slow; and on
    /// threads that all watches share.
    private let work = DispatchQueue(
        label: "quire.package-watch", qos: .utility, target: .global(qos: .utility))
    private let delivery: CancellableDelivery<PackageEvent>

    /// Begins to watch the package at a path.
    ///
    /// - Parameters:
    ///   - path: The package folder.
    ///   - latency: How long to wait for more before telling.
    ///   - queue: Where the handler is called.
    ///   - handler: Gets the events.
    /// - Throws: ``QuireError`` with code `notFound`, or `inputOutput` if it is no folder or cannot be opened.
    public convenience init(
        path: String, latency: DispatchTimeInterval = .milliseconds(20), queue: DispatchQueue,
        handler: @escaping Handler
    ) throws {
        try self.init(path: path, latency: latency, events: .shared, queue: queue, handler: handler)
    }

    /// Watches a package that is open, by the descriptor of its folder if there is one. Tests give file events of their own,
    /// and polling in any case.
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

    /// Whether it polls, because the kernel does not report everything.
    var isPolling: Bool { state.withLock { $0.ticker != nil } }

    /// Ends the watch. When this returns the handler does not run, unless it is the handler that cancels, and is not
    /// called again. Cancelling twice does nothing.
    ///
    /// Waits for a handler that runs on another thread: do not call it while you hold what the handler waits for.
    public func cancel() {
        end()
        delivery.cancel()
    }

    // MARK: Subscribing

    /// Asks the kernel for everything that matters: what is in the package, its name, and the names of all folders above.
    private func subscribe() {
        // A folder that is renamed while we subscribe is noticed by the path being another afterwards.
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
            // A package that was deleted before we subscribed keeps its last path, and no event follows: that is examined.
            if current == folder.presentPath {
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
        /// Tells if a name in a folder is the package's.
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
                // Before the change is recorded: the new folder may be filled as soon as the change has been reported.
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
                        // What readers share in memory changes nothing.
                        if !$0.name.hasSuffix("-shm") { self?.record($0, part) }
                    })
            } catch let error as QuireError where error.code == .notFound {
                // An event reports it when it is there.
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

    /// Looks regularly until the package can be found again.
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
        /// A folder on the way may not be searched now, or changes under our hands.
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
            // A folder that was moved between the two calls is looked for once more.
            if current != folder.presentPath { return .unknown }
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
    /// The package is at another path now, because it or a folder above it was renamed, and nothing is at the old one.
    case moved(to: String)
    /// The package was deleted. The last event.
    case deleted
    /// Another file or folder is at the package's path now. The package itself is at the other path, or, if that is `nil`,
    /// deleted; then it is the last event.
    case replaced(movedTo: String?)
    /// Something was written in the package, also by this process's own saves.
    case changed(PackageParts)
}

/// Parts of a package that may be written to.
public struct PackageParts: OptionSet, Sendable, Hashable {
    /// The bits.
    public let rawValue: Int

    /// Makes parts of bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The store: its file, its write-ahead log or its journal.
    public static let store = PackageParts(rawValue: 1 << 0)
    /// The generations of additional content. One that appears is of a save that has begun; the store says which is live.
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

/// The sizes and times of a package's files, to find out by comparison whether they were written to.
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

    /// Looks at the files of a package, by its open folder. Symbolic links are not followed.
    init(of folder: OpenFile) {
        for (path, _) in Self.parts {
            guard let information = try? FileSystem.information(at: path, in: folder) else {
                continue
            }
            // What a folder's size is means nothing.
            marks[path] = Mark(
                inode: information.inode, size: information.kind == .folder ? 0 : information.size,
                modified: information.modificationNanoseconds)
        }
    }

    /// The parts whose files look different.
    func differences(from earlier: PackageFingerprint) -> PackageParts {
        Self.parts.reduce(into: []) { parts, part in
            if marks[part.0] != earlier.marks[part.0] { parts.formUnion(part.1) }
        }
    }
}

// MARK: - Delivery

/// Hands a watch's events to its handler, and never after the watch was cancelled.
///
/// `@unchecked`: `isCancelled` is only touched with `lock` held. The lock is recursive, because a handler may cancel its
/// own watch, and is held while the handler runs, because cancelling waits for it.
final class CancellableDelivery<Event: Sendable>: @unchecked Sendable {
    private let lock = NSRecursiveLock()
    private var isCancelled = false
    private let queue: DispatchQueue
    private let handler: @Sendable (Event) -> Void

    init(queue: DispatchQueue, handler: @escaping @Sendable (Event) -> Void) {
        self.queue = queue
        self.handler = handler
    }

    /// Hands an event over, on the queue.
    func send(_ event: Event) {
        queue.async { [self] in
            lock.withLock { if !isCancelled { handler(event) } }
        }
    }

    /// Waits for a handler that runs on another thread, and lets none run again.
    func cancel() { lock.withLock { isCancelled = true } }
}
