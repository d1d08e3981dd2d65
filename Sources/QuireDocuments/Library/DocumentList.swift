import Foundation
public import Observation
import Quire

/// The documents of a library, in order, for a list on the screen: it follows what changes, and Swift's Observation
/// follows it.
///
/// ```swift
/// let list = DocumentList(DocumentLibrary(folder: folder), sortedBy: .modified)
/// withObservationTracking { show(list.documents) } onChange: { … }
/// ```
///
/// It follows the library until it is freed.
@MainActor
@Observable
public final class DocumentList {
    /// What documents are sorted by.
    public enum Order: Sendable, Hashable, CaseIterable {
        /// By title, as people sort; equal ones by path.
        case title
        /// The last saved first.
        case modified
        /// The last made first.
        case created
        /// The largest first.
        case size
    }

    /// The documents, in order.
    public private(set) var documents: [DocumentLibrary.Entry] = []
    /// Whether they have been listed once.
    public private(set) var isLoaded = false
    /// What they are sorted by.
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

    private func remove(_ path: String) { documents.removeAll { $0.path == path } }

    private func insert(_ entry: DocumentLibrary.Entry) {
        var (low, high) = (0, documents.count)
        while low < high {
            let middle = (low + high) / 2
            if areInOrder(documents[middle], entry) { low = middle + 1 } else { high = middle }
        }
        documents.insert(entry, at: low)
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
