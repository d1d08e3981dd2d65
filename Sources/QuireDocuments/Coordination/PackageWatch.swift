public import Dispatch
import Foundation
import Quire

/// Tells what happens to a package while it is open: that it is moved, deleted, replaced, or written to.
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
/// What it promises
/// ================
///
/// - It follows the folder that was at the path when it was made, by a descriptor that it holds, wherever that goes:
///   renamed, moved to another folder of the file system, or along with a folder above it.
/// - How things stand is found out when an event is delivered, not when something happened: of several moves in short
///   order the last is told; a package that was moved away and back is not told at all.
/// - Events come on the queue given, one at a time, in order, some ``latency`` after what they tell; what happens
///   meanwhile is told together. None comes after ``cancel()`` has returned.
/// - When the kernel loses events, everything is looked at, and all parts are told as changed.
/// - Where the kernel does not tell, because other machines write to the file system (NFS, SMB, FUSE …), a folder above
///   may not be read, or the user watches as much as the system allows, the package is looked at every two seconds
///   instead: location, and sizes and times of its files.
///
/// A symbolic link on the way to the package that is made to lead elsewhere is noticed only with the next event.
///
/// It may be used from any thread. It costs one descriptor, and one kernel watch for each folder that leads to the
/// package, which watches of packages in the same folder share.
public final class PackageWatch: Sendable {
    /// Gets events.
    public typealias Handler = @Sendable (PackageEvent) -> Void

    /// What is watched and how; changed on `work` only, except by ``cancel()``.
    private struct State {
        var path: String
        var isCancelled = false
        /// Whether a look is scheduled.
        var isScheduled = false
        /// What has been written to since the last look.
        var parts: PackageParts = []
        /// Whether what is subscribed to may not be what leads to the package and what is in it.
        var mustSubscribe = false
        var subscriptions: [FileEventSubscription] = []
        var ticker: FileEventSubscription?
        /// What the files looked like; only where they are polled.
        var fingerprint: PackageFingerprint?
    }

    private let state: Lock<State>
    private let folder: OpenFile
    private let identity: FileInformation
    private let latency: DispatchTimeInterval
    private let events: FileEvents
    private let polls: Bool
    /// Where the package is looked at: not on the caller's queue, because a disk may be slow; and on
    /// threads that all watches share.
    private let work = DispatchQueue(
        label: "quire.package-watch", qos: .utility, target: .global(qos: .utility))
    private let delivery: WatchDelivery<PackageEvent>

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

    /// For tests: with file events of its own, and polling in any case if wanted.
    init(
        path: String, latency: DispatchTimeInterval = .milliseconds(20), events: FileEvents,
        alwaysPolls: Bool = false, queue: DispatchQueue, handler: @escaping Handler
    ) throws {
        let path = FileSystem.absolute(path)
        folder = try OpenFile.open(path, for: .folder)
        identity = try folder.information()
        self.latency = latency
        self.events = events
        polls = try alwaysPolls || FileSystem.isOnNetwork(path)
        delivery = WatchDelivery(queue: queue, handler: handler)
        state = Lock(State(path: path))
        subscribe()
    }

    deinit { cancel() }

    /// Where the package is, as of the last event that told.
    public var path: String { state.withLock { $0.path } }

    /// Whether it looks regularly, because the kernel does not tell everything.
    var isPolling: Bool { state.withLock { $0.ticker != nil } }

    /// Ends the watch. When this returns the handler does not run, unless it is the handler that cancels, and is not
    /// called again. Cancelling twice does nothing.
    ///
    /// Waits for a handler that runs on another thread: do not call it while you hold what the handler waits for.
    public func cancel() {
        let ended = state.withLock { state -> [FileEventSubscription] in
            state.isCancelled = true
            let ended = state.subscriptions + [state.ticker].compactMap { $0 }
            state.subscriptions = []
            state.ticker = nil
            return ended
        }
        for subscription in ended { subscription.cancel() }
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
                        state.ticker = events.tick { [weak self] in self?.note([]) }
                        state.fingerprint = PackageFingerprint(of: folder)
                    }
                } else {
                    state.ticker = nil
                    state.fingerprint = nil
                }
                return false
            }
            if isCancelled || current == folder.presentPath ?? path { return }
        }
        note([])
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
                    if $0.name.isEmpty || $0.name == name { self?.noteEvent($0, []) }
                })
        }
        add(
            try events.watch(folder, for: [.names, .itself, .modified, .written]) { [weak self] in
                self?.noteEvent($0, PackageParts(nameInPackage: $0.name))
                if $0.name == "StoreContent" || $0.name == "AdditionalContent" {
                    self?.noteOtherFolders()
                }
            })
        addContent("StoreContent", .store)
        addContent("AdditionalContent", .additionalContent)
        addName(of: current)
        let named = path
        if FileSystem.folder(of: named) != FileSystem.folder(of: current) { addName(of: named) }
        var above = FileSystem.folder(of: FileSystem.folder(of: current))
        while above != "/" && above != "." {
            add(
                try events.watch(path: above, for: .itself) { [weak self] in self?.noteEvent($0, [])
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
                        if !$0.name.hasSuffix("-shm") { self?.noteEvent($0, part) }
                    })
            } catch let error as QuireError where error.code == .notFound {
                // It is told when it comes.
            } catch {
                isComplete = false
            }
        }
        return (subscriptions, isComplete)
    }

    // MARK: Looking

    private func noteEvent(_ event: FileEvents.Event, _ parts: PackageParts) {
        note(event.kinds.contains(.overflow) ? .all : event.kinds.contains(.ended) ? [] : parts)
    }

    private func noteOtherFolders() {
        state.withLock { $0.mustSubscribe = true }
        note([])
    }

    /// Something may have happened: looks soon.
    private func note(_ parts: PackageParts) {
        let mustSchedule = state.withLock { state in
            if state.isCancelled { return false }
            state.parts.formUnion(parts)
            if parts == .all { state.mustSubscribe = true }
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustSchedule {
            work.asyncAfter(deadline: .now() + latency) { [weak self] in self?.look() }
        }
    }

    private func look() {
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
                state.ticker = events.tick { [weak self] in self?.note([]) }
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

    /// There is nothing left to watch.
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
