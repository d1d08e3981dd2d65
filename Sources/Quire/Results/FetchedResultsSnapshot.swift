public import Foundation

/// The results of a ``FetchedResultsController`` at one time, by identifier: a value that may go to any queue.
///
/// - Complexity: Creation is O(*s*) in the sections. While a snapshot is retained, the controller copies eight bytes for each
///   result before its next change.
public struct FetchedResultsSnapshot: Sendable {
    /// The names of the sections, in their order; one empty name if the controller has no sections.
    public let sectionIdentifiers: [String]
    private let starts: [Int]
    private let bits: ContiguousArray<UInt64>
    private let store: StoreIdentity
    private let temporary: StoreIdentity

    init(_ list: ResultList, of context: ManagedObjectContext) {
        sectionIdentifiers = list.sections.map(\.name)
        starts = list.sections.map(\.start) + [list.count]
        bits = list.order
        store = context.storeIdentity
        temporary = context.temporaryIdentity
    }

    /// The number of objects.
    public var numberOfItems: Int { bits.count }
    /// The number of sections.
    public var numberOfSections: Int { sectionIdentifiers.count }

    /// The identifiers of all objects, in their order.
    public var itemIdentifiers: [ManagedObjectID] { bits.map(identifier) }

    /// The number of objects in a section.
    public func numberOfItems(inSection section: Int) -> Int {
        starts[section + 1] - starts[section]
    }

    /// The identifiers of the objects in a section, in their order.
    public func itemIdentifiers(inSection section: Int) -> [ManagedObjectID] {
        bits[starts[section]..<starts[section + 1]].map(identifier)
    }

    /// The identifier of the object at an index path. Traps if the index path is out of bounds, or is not one of a section and
    /// an item.
    ///
    /// - Complexity: O(1).
    public subscript(indexPath: IndexPath) -> ManagedObjectID {
        precondition(
            indexPath.count == 2 && sectionIdentifiers.indices.contains(indexPath.section)
                && indexPath.item >= 0
                && indexPath.item < numberOfItems(inSection: indexPath.section),
            "The snapshot has no object at \(indexPath); it has \(numberOfItems) in \(numberOfSections) sections."
        )
        return identifier(bits[starts[indexPath.section] + indexPath.item])
    }

    private func identifier(_ bits: UInt64) -> ManagedObjectID {
        ManagedObjectID(bits: bits, store: bits >> 63 == 1 ? temporary : store)
    }
}

extension FetchedResultsSnapshot: Equatable {
    /// Whether both have the same objects in the same order and sections.
    public static func == (left: FetchedResultsSnapshot, right: FetchedResultsSnapshot) -> Bool {
        left.bits == right.bits && left.starts == right.starts
            && left.sectionIdentifiers == right.sectionIdentifiers
            && left.store.uuid == right.store.uuid
    }
}

// MARK: - The cache

/// Cached results of controllers, by cache name: in memory, for the whole process.
///
/// An entry matches only the same query on the same contents of the same open store, by its ``ContentVersion``; so it is never
/// stale. Only contexts directly over the store and without unsaved changes create and use it.
struct FetchedResultsCache: Sendable {
    /// The key of an entry.
    private struct Question: Hashable, Sendable {
        var request: FetchSpecification
        var sectionNameKeyPath: String?
        var version: ContentVersion
    }

    private struct Entry: Sendable {
        var question: Question
        var items: ContiguousArray<ResultList.Item>
    }

    private static let entries = Lock<[String: Entry]>([:])

    private let name: String
    private let question: Question

    /// The cache entry of a controller's results; `nil` if they cannot be cached.
    init?(name: String?, _ query: ResultQuery, sectionNameKeyPath: String?) {
        let context = query.context
        guard let name, context.parent == nil, context.pinnedGeneration.generation == nil,
            !context.tracked.contains(where: \.isUnsaved),
            let version = context.persistentStoreCoordinator.store.contentVersion
        else { return nil }
        self.name = name
        question = Question(
            request: query.resolved.request, sectionNameKeyPath: sectionNameKeyPath,
            version: version)
    }

    /// The cached results.
    var items: ContiguousArray<ResultList.Item>? {
        Self.entries.withLock { entries in
            entries[name].flatMap { $0.question == question ? $0.items : nil }
        }
    }

    /// Caches results, replacing the entry of the name.
    func keep(_ items: ContiguousArray<ResultList.Item>) {
        let entry = Entry(question: question, items: items)
        Self.entries.withLock { $0[name] = entry }
    }

    /// Removes the entry of a name, or all.
    static func remove(_ name: String?) {
        entries.withLock { entries in
            if let name { entries[name] = nil } else { entries = [:] }
        }
    }
}

extension FetchedResultsController {
    /// Removes the cached results of a cache name; all for `nil`. May be called anywhere.
    ///
    /// A controller with a cache name caches the results of ``performFetch()`` in memory, and reuses them when the request, the
    /// section key path and the store's contents are the same: then nothing is read from the store, sorted or counted. Changes
    /// by other contexts and processes are detected, so this call is not needed for correctness; it releases memory. Nothing is
    /// cached where it could be wrong: for contexts with a parent or with unsaved changes, and if objects that affect the
    /// results are in memory already, which may be older than the store. Use a name for one kind of list only.
    public static func deleteCache(withName name: String?) { FetchedResultsCache.remove(name) }

    /// The results for a query, from the cache if there is an entry.
    func list(for query: ResultQuery) throws -> ResultList {
        // Before any read: a concurrent save then has another version.
        let cache = FetchedResultsCache(
            name: cacheName, query, sectionNameKeyPath: sectionNameKeyPath)
        if let items = cache?.items {
            return try ResultList(items, orderings: query.orderings, hasSections: query.hasSections)
        }
        let showsStore = cache != nil && !query.mayHaveOldObjects
        let items = try query.fetch()
        if showsStore { cache?.keep(items) }
        return try ResultList(items, orderings: query.orderings, hasSections: query.hasSections)
    }
}

extension ResultQuery {
    /// Whether objects that affect results are in memory, with values that may be older than the store's.
    fileprivate var mayHaveOldObjects: Bool {
        var found = false
        context.identityMap.forEach { object in
            let bits = object.objectID.bits
            if !object.isFault || object.edits != nil, isAbout(bits) || dependsOnRows(bits) {
                found = true
            }
        }
        return found
    }
}
