/// Keeps what a request finds, in its order and in sections, while objects change, and tells a delegate what becomes
/// of it: the model of a list on the screen.
///
/// ```swift
/// let controller = FetchedResultsController(
///     fetchRequest: TypedFetchRequest<Book>(sortOrderings: [SortOrdering("author.name"), SortOrdering("title")]),
///     managedObjectContext: document.managedObjectContext, sectionNameKeyPath: "author.name")
/// controller.delegate = list
/// try controller.performFetch()
/// print(controller.sections?[0].name ?? "nobody")
/// ```
///
/// After ``performFetch()`` it follows unsaved changes, undo, rollbacks, refreshes and resets of its context, what is
/// merged into it, and what children save to it. Its results then are what a new fetch would find, also where condition,
/// order or sections look at other objects through relationships. A delegate is not needed for that.
///
/// ## What it costs
///
/// It holds an identifier for each result and what that is sorted by, and no objects. A change of *k* objects among
/// *n* results takes O(*k* log *n*) comparisons and moves eight bytes for each result that comes behind one; many
/// changes at once are put in with one pass. Objects that were not changed are not read.
///
/// - Where a changed object decides about results by a relationship, what leads to it through the inverses is tested
///   again. If a relationship on the way has no inverse, or one whose delete rule is `noAction`, all results are
///   fetched again when such an object changes.
/// - With a limit or an offset the results are fetched again when something changes that may be among them.
/// - After a reset, after ``ManagedObjectContext/refreshAllObjects()``, and when rows are merged that others have written
///   (``ManagedObjectContext/mergeChanges(fromRemoteContextSave:into:)``) and that decide about results other than
///   themselves, all are fetched again, and the delegate is told the difference.
///
/// It keeps its context, which does not keep it. Used on the context's queue.
public final class FetchedResultsController<Result: ManagedObject> {
    /// What to find. A change takes effect with the next ``performFetch()``.
    public var fetchRequest: FetchRequest
    /// The context.
    public let managedObjectContext: ManagedObjectContext
    /// The key path whose values name the sections: to an attribute, through to-one relationships. `nil` for one section.
    public let sectionNameKeyPath: String?
    /// The name under which sections are kept; see ``deleteCache(withName:)``.
    public let cacheName: String?
    /// Who is told of changes.
    public weak var delegate: (any FetchedResultsControllerDelegate<Result>)?

    /// Where the results are while there are any.
    struct State {
        let query: ResultQuery
        let list: ResultList
        /// The results as objects, until something changes.
        var objects: TypedFetchedObjects<Result>?
    }

    var state: State?
    var isFollowing = false
    /// What is to be followed while the delegate is told of something else.
    var waiting: [FollowedChanges] = []
    /// Whether ``waiting`` is being worked through.
    var isBusy = false
    /// The identifiers that results had before, until the delegate is told that they have others.
    var originals: [UInt64: UInt64] = [:]
    let broadcast = Broadcast<FetchedResultsSnapshot>()

    /// Makes a controller. It has no results before ``performFetch()``.
    ///
    /// - Parameters:
    ///   - fetchRequest: What to find, with at least one sort ordering. The first one must keep sections together.
    ///   - sectionNameKeyPath: The key path whose values name the sections; `nil` for one section.
    ///   - cacheName: A name to keep sections under; see ``deleteCache(withName:)``.
    public init(
        fetchRequest: FetchRequest, managedObjectContext: ManagedObjectContext,
        sectionNameKeyPath: String? = nil, cacheName: String? = nil
    ) {
        self.fetchRequest = fetchRequest
        self.managedObjectContext = managedObjectContext
        self.sectionNameKeyPath = sectionNameKeyPath
        self.cacheName = cacheName
    }

    /// Makes a controller for the objects of a class; see
    /// ``init(fetchRequest:managedObjectContext:sectionNameKeyPath:cacheName:)-(FetchRequest,_,_,_)``.
    public convenience init(
        fetchRequest: TypedFetchRequest<Result>, managedObjectContext: ManagedObjectContext,
        sectionNameKeyPath: String? = nil, cacheName: String? = nil
    ) {
        self.init(
            fetchRequest: fetchRequest.untyped, managedObjectContext: managedObjectContext,
            sectionNameKeyPath: sectionNameKeyPath, cacheName: cacheName)
    }

    // MARK: Fetching

    /// Finds the results, and follows changes from then on. Ends the user event.
    ///
    /// May be called again, after a change of ``fetchRequest`` for one; the delegate is told a snapshot only. After a
    /// failure there are no results.
    ///
    /// - Complexity: O(*n*) in the results: one query, and one or two for each relationship that order and sections lead
    ///   through.
    /// - Throws: ``QuireError`` with code `invalidQuery` if there is no sort ordering, `includesPendingChanges` is
    ///   false, the section key path does not lead to an attribute, or the first ordering does not keep sections together;
    ///   `unknownEntity`, `unknownKey`, or `storeUnavailable`.
    public func performFetch() throws {
        let context = managedObjectContext
        context.processPendingChanges()
        state = nil
        originals = [:]
        waiting = []
        let query = try ResultQuery(
            try completeRequest(), sectionNameKeyPath: sectionNameKeyPath, context: context)
        _ = try context.prefetchPaths(of: query.request)
        state = State(query: query, list: try list(for: query))
        if !isFollowing {
            context.followers.add(self)
            isFollowing = true
        }
        tellSnapshot()
    }

    /// The request with the name of its entity, whose objects must be of the class.
    private func completeRequest() throws -> FetchRequest {
        let layout = managedObjectContext.layout
        if fetchRequest.entityName.isEmpty {
            return try TypedFetchRequest<Result>(fetchRequest).request(in: layout)
        }
        let entity = try layout.requireEntity(named: fetchRequest.entityName)
        if Result.self != ManagedObject.self, !(entity.objectClass is Result.Type) {
            throw QuireError(
                .invalidQuery,
                "The objects of \(entity.name) are no \(Result.self), which the controller is to have; bind the class "
                    + "by ManagedObjectModel.bind(_:to:) before the store is opened.",
                subject: .init(entity: entity.name))
        }
        return fetchRequest
    }

    // MARK: Results

    /// The results in their order; `nil` before ``performFetch()``. Later changes do not change which objects are in
    /// it.
    ///
    /// Objects come to be when they are touched, read as many at a time as the request's `fetchBatchSize` says, or else
    /// 256, with what it wants prefetched.
    public var fetchedObjects: TypedFetchedObjects<Result>? {
        managedObjectContext.checkQueue()
        guard let state else { return nil }
        if let objects = state.objects { return objects }
        let context = managedObjectContext
        var newObjects: [UInt64: ManagedObject] = [:]
        for bits in state.list.newObjects { newObjects[bits] = context.identityMap.find(bits) }
        let request = state.query.request
        let objects = TypedFetchedObjects<Result>(
            FetchedObjects(
                results: FetchResults(
                    identifiers: state.list.order,
                    batchSize: request.fetchBatchSize > 0 ? request.fetchBatchSize : 256,
                    keyPaths: (try? context.prefetchPaths(of: request)) ?? [],
                    newObjects: newObjects, context: context)))
        self.state?.objects = objects
        return objects
    }

    /// The result at a place.
    ///
    /// Stops the program with a sentence if there is none.
    public func object(at indexPath: ResultIndexPath) -> Result {
        guard let sections = state?.list.sections, let objects = fetchedObjects else {
            preconditionFailure("The controller has no results; call performFetch() first.")
        }
        precondition(
            sections.indices.contains(indexPath.section)
                && indexPath.item >= 0 && indexPath.item < sections[indexPath.section].count,
            "There is no object at \(indexPath); the controller has \(objects.count) in "
                + "\(sections.count) sections.")
        return objects[sections[indexPath.section].start + indexPath.item]
    }

    /// Where an object stands; `nil` if it is no result.
    ///
    /// - Complexity: O(log *n*).
    public func indexPath(forObject object: Result) -> ResultIndexPath? {
        managedObjectContext.checkQueue()
        guard object.managedObjectContext === managedObjectContext else { return nil }
        return indexPath(for: object.objectID)
    }

    /// Where the object of an identifier stands; `nil` if it is no result.
    ///
    /// - Complexity: O(log *n*).
    public func indexPath(for objectID: ManagedObjectID) -> ResultIndexPath? {
        managedObjectContext.checkQueue()
        guard let list = state?.list, let position = list.position(of: objectID.bits) else {
            return nil
        }
        return list.place(at: position, list.section(at: position)).indexPath
    }

    /// Which objects there are at present; `nil` before ``performFetch()``.
    public var snapshot: FetchedResultsSnapshot? {
        managedObjectContext.checkQueue()
        return state.map { FetchedResultsSnapshot($0.list, of: managedObjectContext) }
    }

    /// What the results are and become: the present snapshot, if there is one, and then one after each change.
    ///
    /// Every call gives a sequence of its own, which may be consumed on any queue. Who falls behind gets the latest
    /// snapshot next. It ends when the controller goes.
    public var snapshots: AsyncStream<FetchedResultsSnapshot> {
        broadcast.stream(beginningWith: snapshot, bufferingPolicy: .bufferingNewest(1))
    }
}

@available(*, unavailable, message: "A controller is used on its context's queue.")
extension FetchedResultsController: Sendable {}
