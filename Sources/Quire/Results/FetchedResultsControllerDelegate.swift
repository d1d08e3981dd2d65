public import Foundation

/// The kind of change of an object or a section of a ``FetchedResultsController``.
public enum FetchedResultsChangeType: Sendable, Hashable {
    /// It was inserted.
    case insert
    /// It was deleted.
    case delete
    /// The object was moved to another position.
    case move
    /// The object has changed and kept its position.
    case update
}

/// Receives the changes of a ``FetchedResultsController``'s results.
///
/// Each batch of changes begins with ``controllerWillChangeContent(_:)`` and ends with ``controllerDidChangeContent(_:)``; in
/// between the controller has the new arrangement already. Index paths of deleted results and sources of moves, and section
/// numbers of deleted sections, refer to the arrangement before the batch; index paths of inserted results and destinations of
/// moves, and numbers of inserted sections, to the one after it. So removing all deletions and move sources in descending
/// order, and then inserting all insertions and move destinations in ascending order, produces the new arrangement. Objects
/// without a callback keep their order. The objects of a deleted or inserted section have callbacks too.
///
/// Sections are reported before objects. A moved object may have changed otherwise too, without another callback. A deleted
/// object is passed as well: if the program did not retain it, it is a fault that cannot be fulfilled, and only its
/// ``ManagedObject/objectID`` is of use.
///
/// Every method has a default, and all that a delegate implements are called: a list that shows snapshots or differences omits
/// the methods for single sections and objects. (In Core Data the snapshot's method replaces the others.)
///
/// Called on the context's queue, at the end of a user event, a merge, a refresh, a save or a reset, before notifications are
/// posted. It may change and save objects: the resulting changes are the next batch.
public protocol FetchedResultsControllerDelegate<Result>: AnyObject {
    /// The class of the results.
    associatedtype Result: ManagedObject

    /// A batch of changes begins.
    func controllerWillChangeContent(_ controller: FetchedResultsController<Result>)

    /// A section was inserted or deleted.
    ///
    /// - Parameters:
    ///   - controller: The controller.
    ///   - sectionInfo: The section; a deleted section has no objects.
    ///   - sectionIndex: Its number: after the change for an inserted section, before it for a deleted one.
    ///   - type: The kind of change.
    func controller(
        _ controller: FetchedResultsController<Result>,
        didChange sectionInfo: FetchedResultsSectionInfo<Result>, atSectionIndex sectionIndex: Int,
        for type: FetchedResultsChangeType)

    /// An object was inserted, deleted, moved or updated.
    ///
    /// The default calls the method that accepts an object of any class, so only one of them is called.
    ///
    /// - Parameters:
    ///   - controller: The controller.
    ///   - anObject: The object.
    ///   - indexPath: Its index path before; `nil` for an inserted one.
    ///   - type: The kind of change.
    ///   - newIndexPath: Its index path now; `nil` for a deleted one. An updated object has both.
    func controller(
        _ controller: FetchedResultsController<Result>, didChange anObject: Result,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: IndexPath?)

    /// An object was inserted, deleted, moved or updated: Core Data's form of the method, with an object of type `Any`.
    func controller(
        _ controller: FetchedResultsController<Result>, didChange anObject: Any,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: IndexPath?)

    /// The results have changed, or their identifiers were replaced by a save. Also called outside a batch: by
    /// ``FetchedResultsController/performFetch()``, and after a save that changed only identifiers.
    func controller(
        _ controller: FetchedResultsController<Result>,
        didChangeContentWith snapshot: FetchedResultsSnapshot)

    /// The results, without regard to sections, have changed by a difference of identifiers. An object that was saved for the
    /// first time is removed and inserted, each associated with the other. Updates are not included. Called outside a batch if
    /// only identifiers have changed.
    func controller(
        _ controller: FetchedResultsController<Result>,
        didChangeContentWith difference: CollectionDifference<ManagedObjectID>)

    /// A batch of changes is complete.
    func controllerDidChangeContent(_ controller: FetchedResultsController<Result>)

    /// The controller cannot process the changes, because the store could not be read, its document was closed, or the sections
    /// no longer stay together. It has no results until ``FetchedResultsController/performFetch()`` succeeds.
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
        _ controller: FetchedResultsController<Result>,
        didChange sectionInfo: FetchedResultsSectionInfo<Result>, atSectionIndex sectionIndex: Int,
        for type: FetchedResultsChangeType
    ) {}

    /// Calls the method that accepts an object of any class.
    public func controller(
        _ controller: FetchedResultsController<Result>, didChange anObject: Result,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: IndexPath?
    ) {
        self.controller(
            controller, didChange: anObject as Any, at: indexPath, for: type,
            newIndexPath: newIndexPath)
    }

    /// Does nothing.
    public func controller(
        _ controller: FetchedResultsController<Result>, didChange anObject: Any,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: IndexPath?
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

/// A section of a ``FetchedResultsController`` at the time of the access. Used on the context's queue.
public struct FetchedResultsSectionInfo<Result: ManagedObject> {
    /// The value of the section key path that its objects have in common, as text: `true` for a Boolean,
    /// `2026-11-21T10:00:00Z` for a date, empty for a missing one or if the controller has no sections.
    public let name: String
    /// The title in the section index; see ``FetchedResultsController/sectionIndexTitle(forSectionName:)``.
    public let indexTitle: String?
    /// Its objects, made on access. Positions count in all results.
    public let objects: Slice<FetchedObjects<Result>>

    /// The number of objects.
    public var numberOfObjects: Int { objects.count }
}

@available(*, unavailable, message: "Use sections only on their context's queue.")
extension FetchedResultsSectionInfo: Sendable {}

// MARK: - Index paths

/// Index paths of a ``FetchedResultsController``: the section, and the position in it. Reading and setting them traps for an index
/// path of another length.
extension IndexPath {
    /// Creates the index path of an item in a section.
    public init(item: Int, section: Int) { self = [section, item] }

    /// Creates the index path of a row in a section.
    public init(row: Int, section: Int) { self = [section, row] }

    /// The number of the section, from 0.
    public var section: Int {
        get { self[0] }
        set { self[0] = newValue }
    }

    /// The position in the section, from 0.
    public var item: Int {
        get { self[1] }
        set { self[1] = newValue }
    }

    /// The position in the section, from 0: the same as ``item``.
    public var row: Int {
        get { self[1] }
        set { self[1] = newValue }
    }
}
