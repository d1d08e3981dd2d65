public import Foundation

/// Maintains the results of a request, in their order and in sections, while objects change, and notifies a delegate of
/// changes: the model of a list view.
///
/// ```swift
/// let controller = FetchedResultsController(
///     fetchRequest: FetchRequest<Book>(sortOrderings: [SortOrdering("author.name"), SortOrdering("title")]),
///     managedObjectContext: document.managedObjectContext, sectionNameKeyPath: "author.name")
/// controller.delegate = list
/// try controller.performFetch()
/// print(controller.sections?[0].name ?? "nobody")
/// ```
///
/// After ``performFetch()`` it observes unsaved changes, undo, rollbacks, refreshes and resets of its context, merges into it,
/// and saves of its children. Its results then equal those of a new fetch, also where predicate, order or sections depend on
/// other objects through relationships. This needs no delegate.
///
/// ## Complexity
///
/// It contains an identifier and the sort values of each result, but no objects; a delegate receives the changed objects. A
/// change of *k* objects among *n* results takes O(*k* log *n*) comparisons and moves eight bytes for each result behind a
/// changed position; many changes are applied in one pass. Unchanged objects are not read.
///
/// - If a changed object affects results through a relationship, the objects that refer to it through the inverses are tested
///   again. If a relationship on the path has no inverse, or one whose delete rule is `noAction`, all results are fetched again
///   when such an object changes.
/// - With a limit or an offset the results are fetched again when a change may affect them.
/// - After a reset, after ``ManagedObjectContext/refreshAllObjects()``, and after a merge of rows written elsewhere
///   (``ManagedObjectContext/mergeChanges(from:)``) that affect results other than themselves, all are
///   fetched again, and the delegate receives the difference.
///
/// It retains its context, which does not retain it. Used on the context's queue.
public final class FetchedResultsController<Result: ManagedObject> {
    /// The request. A change takes effect with the next ``performFetch()``.
    public var fetchRequest: FetchRequest<Result>
    /// The context.
    public let managedObjectContext: ManagedObjectContext
    /// The key path whose values name the sections: to an attribute, through to-one relationships. `nil` for one section.
    public let sectionNameKeyPath: String?
    /// The name of the cache entry; see ``deleteCache(withName:)``.
    public let cacheName: String?
    /// The receiver of change callbacks.
    public weak var delegate: (any FetchedResultsControllerDelegate<Result>)?

    /// The query and its results after ``performFetch()``.
    struct State {
        var query: ResultQuery
        let list: ResultList
        /// The results as objects, until something changes.
        var objects: FetchedObjects<Result>?
    }

    var state: State?
    var isFollowing = false
    /// Changes that arrive while the delegate is being called.
    var waiting: [ContextChange] = []
    /// Whether ``waiting`` is being processed.
    var isBusy = false
    /// The previous identifiers of results, until the delegate is notified of the replacement.
    var originals: [UInt64: UInt64] = [:]
    let broadcast = Broadcast<FetchedResultsSnapshot>()

    /// Creates a controller. It has no results before ``performFetch()``.
    ///
    /// - Parameters:
    ///   - fetchRequest: The request, with at least one sort ordering. The first one must keep sections together.
    ///   - managedObjectContext: The context that it fetches from and whose changes it follows.
    ///   - sectionNameKeyPath: The key path of the section names; `nil` for one section.
    ///   - cacheName: The name of the cache entry; see ``deleteCache(withName:)``.
    public init(
        fetchRequest: FetchRequest<Result>, managedObjectContext: ManagedObjectContext,
        sectionNameKeyPath: String? = nil, cacheName: String? = nil
    ) {
        self.fetchRequest = fetchRequest
        self.managedObjectContext = managedObjectContext
        self.sectionNameKeyPath = sectionNameKeyPath
        self.cacheName = cacheName
    }

    // MARK: Fetching

    /// Fetches the results, and observes changes from then on. Ends the user event.
    ///
    /// May be called again, after a change of ``fetchRequest`` for example; the delegate receives a snapshot only. After a
    /// failure the controller has no results.
    ///
    /// - Complexity: O(*n*) in the results: one query, and one or two for each relationship in the key paths of order and
    ///   sections.
    /// - Throws: ``QuireError`` with code `invalidQuery` without a sort ordering, if `includesPendingChanges` is false, the
    ///   section key path does not end at an attribute, or the first ordering does not keep sections together; `unknownEntity`,
    ///   `unknownKey`, or `storeUnavailable`.
    public func performFetch() throws {
        let context = managedObjectContext
        context.processPendingChanges()
        state = nil
        originals = [:]
        waiting = []
        let query = try ResultQuery(
            try fetchRequest.specification(in: context.layout),
            sectionNameKeyPath: sectionNameKeyPath, context: context)
        _ = try context.prefetchPaths(of: query.request)
        state = State(query: query, list: try list(for: query))
        if !isFollowing {
            context.followers.append(self)
            isFollowing = true
        }
        deliverSnapshot()
    }

    // MARK: Results

    /// The results in their order; `nil` before ``performFetch()``. Later changes do not change its members.
    ///
    /// Objects are made on access, in batches of the request's `fetchBatchSize`, or else 256, with its prefetched
    /// relationships.
    public var fetchedObjects: FetchedObjects<Result>? {
        managedObjectContext.checkQueue()
        guard let state else { return nil }
        if let objects = state.objects { return objects }
        let context = managedObjectContext
        var newObjects: [UInt64: ManagedObject] = [:]
        for bits in state.list.newObjects { newObjects[bits] = context.identityMap.find(bits) }
        let request = state.query.request
        let objects = FetchedObjects<Result>(
            results: FetchResults(
                identifiers: state.list.order,
                batchSize: request.fetchBatchSize > 0 ? request.fetchBatchSize : 256,
                keyPaths: (try? context.prefetchPaths(of: request)) ?? [],
                newObjects: newObjects, context: context))
        self.state?.objects = objects
        return objects
    }

    /// The result at an index path.
    ///
    /// Traps if the index path is out of bounds, or is not one of a section and an item.
    public func object(at indexPath: IndexPath) -> Result {
        guard let sections = state?.list.sections, let objects = fetchedObjects else {
            preconditionFailure("The controller has no results; call performFetch() first.")
        }
        precondition(
            indexPath.count == 2 && sections.indices.contains(indexPath.section)
                && indexPath.item >= 0 && indexPath.item < sections[indexPath.section].count,
            "The controller has no object at \(indexPath); it has \(objects.count) in "
                + "\(sections.count) sections.")
        return objects[sections[indexPath.section].start + indexPath.item]
    }

    /// The index path of an object; `nil` if it is not a result.
    ///
    /// - Complexity: O(log *n*).
    public func indexPath(forObject object: Result) -> IndexPath? {
        managedObjectContext.checkQueue()
        guard object.managedObjectContext === managedObjectContext else { return nil }
        return indexPath(for: object.objectID)
    }

    /// The index path of an identifier's object; `nil` if it is not a result.
    ///
    /// - Complexity: O(log *n*).
    public func indexPath(for objectID: ManagedObjectID) -> IndexPath? {
        managedObjectContext.checkQueue()
        let objectID = managedObjectContext.storeIdentity.adopting(objectID) ?? objectID
        guard let list = state?.list, let position = list.position(of: objectID.bits) else {
            return nil
        }
        return list.place(at: position, list.section(at: position)).indexPath
    }

    /// The present results by identifier; `nil` before ``performFetch()``.
    public var snapshot: FetchedResultsSnapshot? {
        managedObjectContext.checkQueue()
        return state.map { FetchedResultsSnapshot($0.list, of: managedObjectContext) }
    }

    /// The present snapshot, if any, and then a snapshot after each change.
    ///
    /// Every call returns a new sequence, which may be consumed on any queue. A consumer that falls behind gets the latest
    /// snapshot next. It ends when the controller is released.
    public var snapshots: AsyncStream<FetchedResultsSnapshot> {
        broadcast.stream(beginningWith: snapshot, bufferingPolicy: .bufferingNewest(1))
    }
}

@available(*, unavailable, message: "Use a controller only on its context's queue.")
extension FetchedResultsController: Sendable {}

// MARK: - Sections

extension FetchedResultsController {
    /// The sections in their order; `nil` before ``performFetch()``. Without section key path, one with all results.
    ///
    /// - Complexity: O(*s*) in the sections.
    public var sections: [FetchedResultsSectionInfo<Result>]? {
        guard let list = state?.list, let objects = fetchedObjects else { return nil }
        return list.sections.map { section in
            FetchedResultsSectionInfo(
                name: section.name, indexTitle: indexTitle(of: section.name),
                objects: objects[section.start..<(section.start + section.count)])
        }
    }

    /// The titles of the section index: the distinct titles of the sections, in order.
    public var sectionIndexTitles: [String] {
        managedObjectContext.checkQueue()
        var seen: Set<String> = []
        return (state?.list.sections ?? []).compactMap { section in
            indexTitle(of: section.name).flatMap { seen.insert($0).inserted ? $0 : nil }
        }
    }

    /// The title in the section index for a section name: its first character in upper case, `nil` if it is empty. A delegate
    /// can return others.
    public func sectionIndexTitle(forSectionName sectionName: String) -> String? {
        sectionName.first?.uppercased()
    }

    /// The number of the first section with a title of ``sectionIndexTitles``; `nil` if the position does not have this
    /// title.
    public func section(forSectionIndexTitle title: String, at position: Int) -> Int? {
        let titles = sectionIndexTitles
        guard titles.indices.contains(position), titles[position] == title else { return nil }
        return state?.list.sections.firstIndex { indexTitle(of: $0.name) == title }
    }

    /// A section as its callback gets it.
    ///
    /// - Parameter index: Its number; `nil` for a deleted one, which has no objects.
    private func info(on name: String, at index: Int?) -> FetchedResultsSectionInfo<Result>? {
        guard let objects = fetchedObjects, let list = state?.list else { return nil }
        let range = index.map {
            list.sections[$0].start..<(list.sections[$0].start + list.sections[$0].count)
        }
        return FetchedResultsSectionInfo(
            name: name, indexTitle: indexTitle(of: name), objects: objects[range ?? 0..<0])
    }

    private func indexTitle(of name: String) -> String? {
        guard let delegate else { return sectionIndexTitle(forSectionName: name) }
        return delegate.controller(self, sectionIndexTitleForSectionName: name)
    }
}

// MARK: - Following changes

extension FetchedResultsController: ContextObserver {
    func contextDidChange(_ changes: ContextChange) {
        if state == nil { return }
        waiting.append(changes)
        if isBusy { return }
        isBusy = true
        defer { isBusy = false }
        while !waiting.isEmpty {
            let next = waiting.removeFirst()
            do {
                try state?.query.updateTemporaryIDs()
                guard let state else { return waiting = [] }
                try follow(next, state)
            } catch {
                fail(error)
            }
        }
    }

    func contextDidReplaceIDs(_ replaced: [(old: UInt64, new: UInt64)]) {
        guard let list = state?.list else { return }
        state?.objects = nil
        for (old, new) in replaced where list.replace(old, by: new) {
            let original = originals.removeValue(forKey: old) ?? old
            if original != new { originals[new] = original }
        }
    }

    private func fail(_ error: any Error) {
        state = nil
        originals = [:]
        waiting = []
        let error =
            error as? QuireError
            ?? QuireError(
                .storeUnavailable, "The results could not be kept up to date: \(error).",
                underlying: error)
        delegate?.controller(self, didFailWith: error)
    }

    // MARK: Affected results

    private func follow(_ changes: ContextChange, _ state: State) throws {
        if changes.concernsAll {
            // The context of a closed document has no objects, though its store may still be open.
            if let closed = managedObjectContext.saveBlock { throw closed }
            return try refetch(state, updated: nil)
        }
        let concerned = AffectedResults(changes, state.query, state.list)
        if concerned.isEmpty && originals.isEmpty { return }
        if try concerned.isUnbounded || concerns(concerned, window: state) {
            return try refetch(state, updated: concerned.updated)
        }
        var items: [ResultList.Item] = []
        var removed: [UInt64] = []
        if !state.query.isWindow {
            removed = concerned.removed
            try state.query.test(concerned.tested) { bits, item in
                if let item { items.append(item) } else { removed.append(bits) }
            }
        }
        // Others whose identifiers have changed go where that has them.
        if !originals.isEmpty {
            let known = Set(concerned.tested).union(concerned.removed)
            for bits in originals.keys where !known.contains(bits) {
                if let item = state.list.item(bits) { items.append(item) }
            }
        }
        if items.isEmpty && removed.isEmpty { return originals = [:] }
        try change(state, items, removed, updated: concerned.updated)
    }

    /// Whether the changes may affect the results within limit and offset, or those before the changes.
    private func concerns(_ concerned: AffectedResults, window state: State) throws -> Bool {
        let identifiers = concerned.tested + concerned.removed
        if !state.query.isWindow || identifiers.isEmpty { return false }
        if state.query.request.fetchOffset > 0 { return true }
        if identifiers.contains(where: { state.list.handles[$0] != nil }) { return true }
        var isConcerned = false
        try state.query.test(concerned.tested) { _, item in
            if item != nil { isConcerned = true }
        }
        return isConcerned
    }

    /// Finds all results again. `updated` are those that have changed otherwise than by their order, `nil` if any
    /// may have.
    private func refetch(_ state: State, updated: Set<UInt64>?) throws {
        let items = try state.query.fetch()
        let present = Set(items.map(\.bits))
        try change(
            state, Array(items), state.list.order.filter { !present.contains($0) },
            updated: updated ?? present)
    }

    private func change(
        _ state: State, _ items: [ResultList.Item], _ removed: [UInt64], updated: Set<UInt64>
    ) throws {
        // So that the identifiers need not be copied.
        self.state?.objects = nil
        let originals = originals
        self.originals = [:]
        let changes = try state.list.change(
            to: items, removing: removed, updated: updated, originals: originals)
        if !changes.isEmpty { tell(changes) }
    }
}

// MARK: - Delivery

extension FetchedResultsController {
    /// Notifies the delegate, and the consumers of snapshots, of changed results.
    func tell(_ changes: ResultChanges) {
        guard let delegate else { return deliverSnapshot() }
        let isBatch =
            !changes.deletedSections.isEmpty || !changes.insertedSections.isEmpty
            || changes.objects.contains { $0.type != nil }
        if isBatch { delegate.controllerWillChangeContent(self) }
        for section in changes.deletedSections {
            guard let info = info(on: section.name, at: nil) else { break }
            delegate.controller(
                self, didChange: info, atSectionIndex: section.index, for: .delete)
        }
        for section in changes.insertedSections {
            guard let info = info(on: section.name, at: section.index) else { break }
            delegate.controller(
                self, didChange: info, atSectionIndex: section.index, for: .insert)
        }
        for object in changes.objects {
            guard let type = object.type else { continue }
            let found =
                type == .delete
                ? managedObjectContext.object(bits: object.oldBits)
                : managedObjectContext.object(
                    with: managedObjectContext.objectID(bits: object.bits))
            // The fetch has checked that the entity's objects are of this class.
            guard let found = found as? Result else { continue }
            delegate.controller(
                self, didChange: found, at: object.old?.indexPath, for: type,
                newIndexPath: object.new?.indexPath)
        }
        deliverSnapshot()
        if let difference = changes.difference(identifiedBy: managedObjectContext.objectID(bits:)) {
            delegate.controller(self, didChangeContentWith: difference)
        }
        if isBatch { delegate.controllerDidChangeContent(self) }
    }

    /// Delivers a snapshot to the delegate, and to the consumers of snapshots.
    func deliverSnapshot() {
        guard let list = state?.list else { return }
        broadcast.send(FetchedResultsSnapshot(list, of: managedObjectContext))
        delegate?.controller(
            self, didChangeContentWith: FetchedResultsSnapshot(list, of: managedObjectContext))
    }
}

extension ResultChanges.Object {
    /// The change type for the delegate; `nil` if nothing but the identifier has changed.
    var type: FetchedResultsChangeType? {
        if old == nil { return .insert }
        if new == nil { return .delete }
        return isMove ? .move : isUpdate ? .update : nil
    }
}

extension ResultChanges {
    /// The difference of the identifiers, without regard to sections.
    func difference(
        identifiedBy objectID: (UInt64) -> ManagedObjectID
    ) -> CollectionDifference<ManagedObjectID>? {
        var steps: [CollectionDifference<ManagedObjectID>.Change] = []
        for object in objects
        where object.isMove || object.oldBits != object.bits
            || object.old == nil || object.new == nil
        {
            if let old = object.old {
                steps.append(
                    .remove(
                        offset: old.position, element: objectID(object.oldBits),
                        associatedWith: object.new?.position))
            }
            if let new = object.new {
                steps.append(
                    .insert(
                        offset: new.position, element: objectID(object.bits),
                        associatedWith: object.old?.position))
            }
        }
        return CollectionDifference(steps)
    }
}
