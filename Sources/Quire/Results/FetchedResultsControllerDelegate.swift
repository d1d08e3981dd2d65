/// What has happened to an object or a section of a ``FetchedResultsController``.
public enum FetchedResultsChangeType: Sendable, Hashable {
    /// It has come.
    case insert
    /// It has gone.
    case delete
    /// The object has another place.
    case move
    /// The object has changed and kept its place.
    case update
}

/// Is told how the results of a ``FetchedResultsController`` change.
///
/// Each batch of changes begins with ``controllerWillChangeContent(_:)`` and ends with
/// ``controllerDidChangeContent(_:)``; in between the controller has the new arrangement already. Places of what has gone
/// or was moved, and section numbers of deleted sections, count in the arrangement before the batch; places of what has
/// come, and to which it was moved, and numbers of inserted sections, in the one after it. So who takes out first what
/// was deleted or moved away, in falling order, and then puts in what was inserted or moved there, in rising order, has
/// the new arrangement. Objects that are not named keep their order. The objects of a deleted or inserted section are
/// named too.
///
/// Objects are named by identifier, because a deleted one may be nowhere any more; ask the controller, at the new place,
/// or the context for it. Every method has an empty default.
///
/// Called on the context's queue, at the end of a user event, a merge, a refresh, a save or a reset, before notifications
/// are posted. It may change and save objects: what comes of that is told as the next batch.
public protocol FetchedResultsControllerDelegate<Result>: AnyObject {
    /// The class of the results.
    associatedtype Result: ManagedObject

    /// A batch of changes begins.
    func controllerWillChangeContent(_ controller: FetchedResultsController<Result>)

    /// A section has come or gone.
    func controller(
        _ controller: FetchedResultsController<Result>, didChangeSection name: String,
        atSectionIndex index: Int, for type: FetchedResultsChangeType)

    /// An object has come, gone, moved or changed.
    ///
    /// - Parameters:
    ///   - indexPath: Its place before; `nil` for one that was inserted.
    ///   - newIndexPath: Its place now; `nil` for one that was deleted. An updated object has both.
    func controller(
        _ controller: FetchedResultsController<Result>, didChange objectID: ManagedObjectID,
        at indexPath: ResultIndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: ResultIndexPath?)

    /// The results are others, or have other identifiers because they were saved. Called outside of a batch, too: by
    /// ``FetchedResultsController/performFetch()``, and where nothing but identifiers has changed.
    func controller(
        _ controller: FetchedResultsController<Result>,
        didChangeContentWith snapshot: FetchedResultsSnapshot)

    /// The results, without regard to sections, are others by a difference of identifiers. An object that was saved for
    /// the first time is removed and inserted, each associated with the other. Updates are no part of it. Called outside of
    /// a batch where nothing but identifiers has changed.
    func controller(
        _ controller: FetchedResultsController<Result>,
        didChangeContentWith difference: CollectionDifference<ManagedObjectID>)

    /// A batch of changes is complete.
    func controllerDidChangeContent(_ controller: FetchedResultsController<Result>)

    /// The controller cannot follow the changes, because the store could not be read, or the sections do not stay together
    /// any more. It has no results until ``FetchedResultsController/performFetch()`` succeeds.
    func controller(
        _ controller: FetchedResultsController<Result>, didFailWith error: QuireError)

    /// The title in the section index for a section; `nil` for none. The default is
    /// ``FetchedResultsController/sectionIndexTitle(forSectionName:)`` of the controller's class.
    func controller(
        _ controller: FetchedResultsController<Result>,
        sectionIndexTitleForSectionName sectionName: String
    ) -> String?
}

extension FetchedResultsControllerDelegate {
    /// Does nothing.
    public func controllerWillChangeContent(_ controller: FetchedResultsController<Result>) {}

    /// Does nothing.
    public func controller(
        _ controller: FetchedResultsController<Result>, didChangeSection name: String,
        atSectionIndex index: Int, for type: FetchedResultsChangeType
    ) {}

    /// Does nothing.
    public func controller(
        _ controller: FetchedResultsController<Result>, didChange objectID: ManagedObjectID,
        at indexPath: ResultIndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: ResultIndexPath?
    ) {}

    /// Does nothing.
    public func controller(
        _ controller: FetchedResultsController<Result>,
        didChangeContentWith snapshot: FetchedResultsSnapshot
    ) {}

    /// Does nothing.
    public func controller(
        _ controller: FetchedResultsController<Result>,
        didChangeContentWith difference: CollectionDifference<ManagedObjectID>
    ) {}

    /// Does nothing.
    public func controllerDidChangeContent(_ controller: FetchedResultsController<Result>) {}

    /// Does nothing.
    public func controller(
        _ controller: FetchedResultsController<Result>, didFailWith error: QuireError
    ) {}

    /// The controller's own title.
    public func controller(
        _ controller: FetchedResultsController<Result>,
        sectionIndexTitleForSectionName sectionName: String
    ) -> String? { controller.sectionIndexTitle(forSectionName: sectionName) }
}

// MARK: - Sections

/// A section of a ``FetchedResultsController``, as it was when it was asked for. Used on the context's queue.
public struct FetchedResultsSectionInfo<Result: ManagedObject> {
    /// The value of the section key path that its objects have in common, as text: `true` for a truth value,
    /// `2026-11-21T10:00:00Z` for a date, empty for a missing one or if the controller has no sections.
    public let name: String
    /// The title in the section index; see ``FetchedResultsController/sectionIndexTitle(forSectionName:)``.
    public let indexTitle: String?
    /// Its objects, which come to be when they are touched. Positions count in all results.
    public let objects: Slice<TypedFetchedObjects<Result>>

    /// The number of objects.
    public var numberOfObjects: Int { objects.count }
}

@available(*, unavailable, message: "Sections are used on their context's queue.")
extension FetchedResultsSectionInfo: Sendable {}

// MARK: - Index paths

/// Where an object stands among the results of a ``FetchedResultsController``: in which section, and where in it.
public struct ResultIndexPath: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The number of the section, from 0.
    public var section: Int
    /// The position in the section, from 0.
    public var item: Int

    /// Makes an index path.
    public init(section: Int, item: Int) {
        self.section = section
        self.item = item
    }

    /// Whether the left one comes before the right one.
    public static func < (left: ResultIndexPath, right: ResultIndexPath) -> Bool {
        (left.section, left.item) < (right.section, right.item)
    }

    /// Section and position, as in `[0, 2]`.
    public var description: String { "[\(section), \(item)]" }
}
