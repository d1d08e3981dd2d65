import Foundation
import Logging
public import Observation
import Quire

private let logger = Logger(label: "quire.document")

extension DocumentLibrary {
    /// A change in a library.
    public enum Change: Sendable, Hashable {
        /// All documents: the first element of the sequence.
        case all([Entry])
        /// A document was added.
        case added(Entry)
        /// A document was changed: saved, opened, closed, repaired or damaged.
        case changed(Entry)
        /// A document was renamed or moved within the library.
        case moved(from: String, Entry)
        /// A document was removed.
        case removed(String)
    }

    /// The documents of the library, followed by changes as they happen.
    ///
    /// The folders are watched with kernel events; where these are not available (see ``PackageWatch``), they are polled every
    /// two seconds. Changes within a short time are reported together, with the state at that time: a document that was added and
    /// removed meanwhile is not reported.
    ///
    /// Every call returns a new sequence, which ends when the consuming task is cancelled or the sequence is released. Changes are
    /// buffered without limit if the consumer falls behind. If the folder does not exist, the sequence begins without documents,
    /// and reports them once the folder is created.
    public func changes() -> AsyncStream<Change> { changes(events: .shared) }

    func changes(
        events: FileEvents, latency: DispatchTimeInterval = .milliseconds(100)
    ) -> AsyncStream<Change> {
        let (stream, continuation) = AsyncStream.makeStream(of: Change.self)
        let watch = LibraryWatch(self, events: events, latency: latency) { continuation.yield($0) }
        continuation.onTermination = { _ in watch.cancel() }
        watch.start()
        return stream
    }
}

/// Detects changes in a library.
///
/// Events only tell where to look: at single documents, or at the folders if names were added or removed. A document is read
/// again only if an event concerns it, or if its folder has been replaced.
///
/// Documents are moved while the folders are being listed, and may then be found in neither place. So a document is reported as
/// removed only if it is missing from a second list too, which begins when the first has shown that it is gone.
final class LibraryWatch: Sendable {
    private struct Known {
        var entry: DocumentLibrary.Entry
        var inode: UInt64
        var subscriptions: [FileEventSubscription]
    }

    /// The pending work of the next scan.
    private struct Pending {
        var isScheduled = false
        var isCancelled = false
        var looksAtFolders = false
        var looksAtAll = false
        var packages: Set<FileName> = []
        /// Folders that were moved or removed: another one may have their name by now.
        var movedFolders: [String] = []
    }

    /// Only accessed on `work`.
    private struct State {
        var known: [FileName: Known] = [:]
        var folders: [FileName: FileEventSubscription] = [:]
        var ticker: FileEventSubscription?
        var hasBegun = false
    }

    private let library: DocumentLibrary
    private let events: FileEvents
    private let latency: DispatchTimeInterval
    private let handler: @Sendable (DocumentLibrary.Change) -> Void
    private let pending = Lock(Pending())
    private let state = Lock(State())
    private let work = DispatchQueue(
        label: "quire.library-watch", qos: .utility, target: .global(qos: .utility))

    init(
        _ library: DocumentLibrary, events: FileEvents, latency: DispatchTimeInterval,
        _ handler: @escaping @Sendable (DocumentLibrary.Change) -> Void
    ) {
        self.library = library
        self.events = events
        self.latency = latency
        self.handler = handler
    }

    /// Lists the documents, and begins to watch.
    func start() {
        work.async { self.scan() }
    }

    /// Ends watching. One more change may be reported.
    func cancel() {
        pending.withLock { $0.isCancelled = true }
        work.async { self.state.withLock { $0 = State() } }
    }

    private func record(_ change: (inout Pending) -> Void) {
        let mustSchedule = pending.withLock { pending in
            if pending.isCancelled { return false }
            change(&pending)
            defer { pending.isScheduled = true }
            return !pending.isScheduled
        }
        if mustSchedule { work.asyncAfter(deadline: .now() + latency) { self.scan() } }
    }

    private func scan() {
        let now = pending.withLock { pending -> Pending? in
            if pending.isCancelled { return nil }
            defer { pending = Pending() }
            return pending
        }
        guard let now else { return }
        let changes = state.withLock { state in
            let begins = !state.hasBegun
            state.hasBegun = true
            for folder in now.movedFolders {
                // With those below it.
                state.folders = state.folders.filter { path, _ in
                    path.text != folder && !path.text.hasPrefix(folder + "/")
                }
            }
            if !begins && !now.looksAtFolders && !now.looksAtAll {
                return now.packages.sorted().compactMap { reread($0, &state) }
            }
            let changes = rescan(&state, again: now.looksAtAll ? nil : now.packages)
            if !begins { return changes }
            return [.all(state.known.values.map(\.entry).sorted { $0.path < $1.path })]
        }
        for change in changes { handler(change) }
    }

    /// Examines a known document again.
    private func reread(_ path: FileName, _ state: inout State) -> DocumentLibrary.Change? {
        guard let known = state.known[path],
            let entry = entry(at: path.text, inode: known.inode), entry != known.entry
        else { return nil }
        state.known[path]?.entry = entry
        return .changed(entry)
    }

    /// Examines a document; `nil` if it is moved, removed or replaced meanwhile, which its folder reports.
    private func entry(at path: String, inode: UInt64) -> DocumentLibrary.Entry? {
        let entry = DocumentLibrary.Entry(lookingAt: path)
        return Self.inode(at: path) == inode ? entry : nil
    }

    private static func inode(at path: String) -> UInt64? {
        ((try? FileSystem.information(at: path)) ?? nil)?.inode
    }

    /// Lists the folders, and examines documents that are new, replaced, or listed in `again` (`nil` for all).
    private func rescan(_ state: inout State, again: Set<FileName>?) -> [DocumentLibrary.Change] {
        var isComplete = (try? !FileSystem.isOnNetwork(library.folder)) ?? false
        // Folders are watched before they are listed, so that no change is missed.
        isComplete = subscribe(toFolder: library.folder, &state) && isComplete
        var found = listed()
        let inodes = Set(found.packages.map(\.inode))
        if state.known.values.contains(where: { !inodes.contains($0.inode) }) { found = listed() }
        for folder in found.folders where state.folders[FileName(folder)] == nil {
            isComplete = subscribe(toFolder: folder, &state) && isComplete
            // Documents may have been added before it was watched.
            record { $0.looksAtFolders = true }
        }
        let folders = Set((found.folders + [library.folder]).map(FileName.init))
        state.folders = state.folders.filter { folders.contains($0.key) }

        var changes: [DocumentLibrary.Change] = []
        var known: [FileName: Known] = [:]
        var added: [Known] = []
        for (path, inode) in found.packages {
            let name = FileName(path)
            if var old = state.known[name], old.inode == inode {
                if again?.contains(name) ?? true, let entry = entry(at: path, inode: inode),
                    entry != old.entry
                {
                    old.entry = entry
                    changes.append(.changed(entry))
                }
                known[name] = old
            } else {
                let (subscriptions, isWatched) = subscribe(toPackage: path)
                isComplete = isComplete && isWatched
                guard let entry = entry(at: path, inode: inode) else { continue }
                let new = Known(entry: entry, inode: inode, subscriptions: subscriptions)
                known[name] = new
                added.append(new)
            }
        }
        var gone = state.known.filter { known[$0.key]?.inode != $0.value.inode }
        for new in added {
            if gone.removeValue(forKey: FileName(new.entry.path)) != nil {
                changes.append(.changed(new.entry))
            } else if let old = gone.first(where: {
                $0.value.inode == new.inode && $0.value.entry.uuid == new.entry.uuid
            }) {
                gone[old.key] = nil
                changes.append(.moved(from: old.key.text, new.entry))
            } else {
                changes.append(.added(new.entry))
            }
        }
        changes = gone.keys.sorted().map { .removed($0.text) } + changes
        state.known = known
        if isComplete {
            state.ticker = nil
        } else if state.ticker == nil {
            state.ticker = events.tick { [weak self] in self?.record { $0.looksAtAll = true } }
        }
        return changes
    }

    // MARK: Subscribing

    /// The documents and folders of the library; empty if its folder is missing or cannot be read.
    private func listed() -> (packages: [(path: String, inode: UInt64)], folders: [String]) {
        do {
            let (paths, folders) = try library.packages()
            let packages = paths.compactMap { path in
                Self.inode(at: path).map { (path: path, inode: $0) }
            }
            return (packages, folders)
        } catch {
            if (error as? QuireError)?.code != .notFound {
                logger.warning("“\(library.folder)” cannot be listed: \(error)")
            }
            return ([], [])
        }
    }

    private func subscribe(toFolder folder: String, _ state: inout State) -> Bool {
        let name = FileName(folder)
        if state.folders[name] != nil { return true }
        state.folders[name] = try? events.watch(path: folder, for: [.names, .itself]) {
            [weak self] event in
            // A folder under construction; its final name is reported later.
            if FileSystem.isTemporaryName(event.name) { return }
            self?.record { pending in
                pending.looksAtFolders = true
                if event.kinds.contains(.overflow) { pending.looksAtAll = true }
                if !event.kinds.isDisjoint(with: .itself) { pending.movedFolders.append(folder) }
            }
        }
        return state.folders[name] != nil
    }

    private func subscribe(toPackage path: String) -> ([FileEventSubscription], Bool) {
        let handler: FileEvents.Handler = { [weak self] event in
            if FileSystem.isTemporaryName(event.name) || event.name.hasSuffix("-shm") { return }
            self?.record { pending in
                pending.packages.insert(FileName(path))
                if event.kinds.contains(.overflow) { pending.looksAtAll = true }
            }
        }
        var subscriptions: [FileEventSubscription] = []
        for (name, kinds) in [
            ("", FileEvents.Kinds([.names, .itself, .written])),
            ("StoreContent", [.names, .modified]),
        ] {
            let folder = name.isEmpty ? path : FileSystem.path(path, name)
            do {
                try subscriptions.append(events.watch(path: folder, for: kinds, handler))
            } catch let error as QuireError where error.code == .notFound {
                // The package is damaged or being removed; its folder reports that.
            } catch {
                return (subscriptions, false)
            }
        }
        return (subscriptions, true)
    }
}

// MARK: - Observable lists

/// The sorted documents of a library, for a list on the screen. It follows changes of the library, and is observable.
///
/// ```swift
/// let list = DocumentList(DocumentLibrary(folder: folder), sortedBy: .modified)
/// withObservationTracking { show(list.documents) } onChange: { … }
/// ```
///
/// It follows the library until it is deallocated.
@MainActor
@Observable
public final class DocumentList {
    /// The sort order of documents.
    public enum Order: Sendable, Hashable, CaseIterable {
        /// By title, ignoring case; equal titles by path.
        case title
        /// Most recently saved first.
        case modified
        /// Most recently created first.
        case created
        /// Largest first.
        case size
    }

    /// The documents, in order.
    public private(set) var documents: [DocumentLibrary.Entry] = []
    /// Whether the documents have been listed.
    public private(set) var isLoaded = false
    /// Their sort order.
    public var order: Order {
        didSet { if order != oldValue { documents.sort(by: areInOrder) } }
    }
    /// The library.
    @ObservationIgnored public let library: DocumentLibrary
    @ObservationIgnored private var following: Task<Void, Never>?

    /// Follows a library.
    public convenience init(_ library: DocumentLibrary, sortedBy order: Order = .title) {
        self.init(library, sortedBy: order, changes: library.changes())
    }

    init(
        _ library: DocumentLibrary, sortedBy order: Order,
        changes: AsyncStream<DocumentLibrary.Change>
    ) {
        self.library = library
        self.order = order
        following = Task { [weak self] in
            for await change in changes { self?.apply(change) }
        }
    }

    isolated deinit { following?.cancel() }

    private func apply(_ change: DocumentLibrary.Change) {
        switch change {
        case .all(let entries):
            documents = entries.sorted(by: areInOrder)
            isLoaded = true
        case .added(let entry): insert(entry)
        case .changed(let entry):
            remove(entry.path)
            insert(entry)
        case .moved(let path, let entry):
            remove(path)
            insert(entry)
        case .removed(let path): remove(path)
        }
    }

    private func remove(_ path: String) {
        let name = FileName(path)
        documents.removeAll { FileName($0.path) == name }
    }

    private func insert(_ entry: DocumentLibrary.Entry) {
        documents.insert(entry, at: documents.partitioningIndex { !areInOrder($0, entry) })
    }

    private func areInOrder(
        _ left: DocumentLibrary.Entry, _ right: DocumentLibrary.Entry
    ) -> Bool {
        switch order {
        case .title: break
        case .modified:
            let (one, other) = (left.modified ?? .distantPast, right.modified ?? .distantPast)
            if one != other { return one > other }
        case .created:
            let (one, other) = (left.created ?? .distantPast, right.created ?? .distantPast)
            if one != other { return one > other }
        case .size: if left.size != right.size { return left.size > right.size }
        }
        let (one, other) = (left.title.lowercased(), right.title.lowercased())
        return one == other ? left.path < right.path : one < other
    }
}
