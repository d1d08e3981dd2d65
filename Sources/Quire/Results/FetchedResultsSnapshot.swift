/// Which objects a ``FetchedResultsController`` had at a time, by identifier: a value that may go to any queue.
///
/// - Complexity: Making one is O(*s*) in the sections. As long as somebody holds it, the controller copies eight bytes
///   for each result before it changes next.
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

    /// The identifier of the object at a place.
    ///
    /// - Complexity: O(1).
    public subscript(indexPath: ResultIndexPath) -> ManagedObjectID {
        precondition(
            indexPath.item >= 0 && indexPath.item < numberOfItems(inSection: indexPath.section),
            "There is no object at \(indexPath) in the snapshot.")
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
