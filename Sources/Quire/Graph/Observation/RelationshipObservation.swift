public import Foundation
internal import OrderedCollections

/// A change of a to-many relationship that is observed by `observe(_:changeHandler:)`.
///
/// A change that both removes and inserts objects, other than a replacement, is two: the removal, and then the insertion. A
/// moved object is removed and inserted. Applied in order to a list of the old contents, they produce the
/// new contents.
///
/// Used on the context's queue.
public struct RelationshipChange {
    /// The kind of a change.
    public enum Kind: Sendable, Hashable {
        /// Objects were inserted, or moved there.
        case insertion
        /// Objects were removed, or moved elsewhere.
        case removal
        /// Objects took the places of others.
        case replacement
    }

    /// Whether objects were inserted, removed or replaced.
    public let kind: Kind
    /// The positions of an ordered relationship: of removed objects, before the removal; of inserted ones and of replacements,
    /// now. Empty if the relationship has no order.
    public let indexes: IndexSet
    /// The removed or replaced objects, in the order of the ``indexes``. Deleted ones may be faults that cannot be fulfilled.
    public let oldObjects: [ManagedObject]
    /// The inserted objects, in the order of the ``indexes``.
    public let newObjects: [ManagedObject]
}

@available(*, unavailable, message: "Use a change only on its context's queue.")
extension RelationshipChange: Sendable {}

/// An observation of a to-many relationship. It ends when it is released or invalidated.
///
/// It retains the observed object. Used on the context's queue.
public final class RelationshipObservation {
    /// The observed object.
    public let object: ManagedObject
    /// The name of the observed relationship.
    public let relationshipName: String

    let toMany: Int
    fileprivate var isStale = false
    private let relationship: ResolvedEntity.Relationship
    private var changeHandler: ((RelationshipChange) -> Void)?
    /// The contents that the handler knows.
    private var members: OrderedSet<ManagedObjectID>

    init(
        _ object: ManagedObject, _ relationship: ResolvedEntity.Relationship, toMany: Int,
        changeHandler: @escaping (RelationshipChange) -> Void
    ) {
        self.object = object
        self.relationship = relationship
        self.toMany = toMany
        self.changeHandler = changeHandler
        relationshipName = relationship.name
        members = object.members(of: relationship)
    }

    /// Ends the observation.
    public func invalidate() { changeHandler = nil }

    fileprivate func replaceIDs(_ replacements: [UInt64: ManagedObjectID]) {
        guard members.contains(where: { replacements[$0.bits] != nil }) else { return }
        members = OrderedSet(members.map { replacements[$0.bits] ?? $0 })
    }

    /// Calls the handler if the contents are others than it knows. Those of a deleted object are none of its concern.
    fileprivate func deliver() {
        isStale = false
        guard let changeHandler, let context = object.context, object.state.contains(.live),
            object.state.isDisjoint(with: [.discarded, .inaccessible])
        else { return }
        let old = members
        let new = object.members(of: relationship)
        // Contents that cannot be read are not empty.
        guard object.toManyState(toMany).members != nil, new != old else { return }
        members = new
        for change in Self.changes(from: old, to: new, isOrdered: relationship.isOrdered) {
            changeHandler(
                RelationshipChange(
                    kind: change.kind, indexes: change.indexes,
                    oldObjects: change.old.map { context.object(bits: $0.bits) },
                    newObjects: change.new.map { context.object(bits: $0.bits) }))
        }
    }

    typealias Step = (
        kind: RelationshipChange.Kind, indexes: IndexSet, old: [ManagedObjectID],
        new: [ManagedObjectID]
    )

    /// The changes that lead from contents to others.
    ///
    /// - Complexity: O(*n* log *n*); O(*n*) if no object moves.
    static func changes(
        from old: OrderedSet<ManagedObjectID>, to new: OrderedSet<ManagedObjectID>, isOrdered: Bool
    ) -> [Step] {
        guard isOrdered else {
            let removed = old.subtracting(new).elements
            let inserted = new.subtracting(old).elements
            return [
                removed.isEmpty ? nil : (.removal, [], removed, []),
                inserted.isEmpty ? nil : (.insertion, [], [], inserted),
            ].compactMap { $0 }
        }
        // What stays in its place relative to the rest: a longest run of common members in the same order.
        let positions = new.map { old.firstIndex(of: $0) }
        var removed = IndexSet(old.indices)
        var inserted = IndexSet(new.indices)
        for index in LongestIncreasingSubsequence.indexes(of: positions) {
            inserted.remove(index)
            if let position = positions[index] { removed.remove(position) }
        }
        let oldMembers = removed.map { old[$0] }
        let newMembers = inserted.map { new[$0] }
        if removed == inserted {
            return removed.isEmpty ? [] : [(.replacement, inserted, oldMembers, newMembers)]
        }
        return [
            removed.isEmpty ? nil : (.removal, removed, oldMembers, []),
            inserted.isEmpty ? nil : (.insertion, inserted, [], newMembers),
        ].compactMap { $0 }
    }
}

@available(*, unavailable, message: "Use an observation only on its context's queue.")
extension RelationshipObservation: Sendable {}

extension ManagedObject {
    /// Calls a closure after each change of a to-many relationship, with the inserted, removed or replaced objects and their
    /// positions: the counterpart of key-value observing an ordered relationship.
    ///
    /// ```swift
    /// observation = playlist.observe("songs") { change in
    ///     switch change.kind {
    ///     case .insertion: table.insertRows(at: change.indexes)
    ///     case .removal: table.removeRows(at: change.indexes)
    ///     case .replacement: table.reloadRows(at: change.indexes)
    ///     }
    /// }
    /// ```
    ///
    /// A call that changes the relationship, from either side, is reported before it returns, once for each relationship.
    /// Deletions, undo, rollbacks, refreshes, merges and saves of children are reported at the end of the user event, or when
    /// they are complete, before notifications are posted. The closure may change the relationship again, which is reported
    /// next. Nothing is reported for a deleted object.
    ///
    /// Traps if the key names no to-many relationship. Call it on the context's queue, and keep the result.
    ///
    /// - Complexity: O(*n*) in the members for each change of the relationship and each user event, and a fetch when a refresh
    ///   or a rollback has made the contents a fault.
    /// - Returns: The observation, which ends when it is released.
    public final func observe(
        _ key: String, file: StaticString = #fileID, line: UInt = #line,
        changeHandler: @escaping (RelationshipChange) -> Void
    ) -> RelationshipObservation {
        let relationship = relationship(key, toMany: true, file: file, line: line)
        let context = requireContext()
        context.checkQueue(of: self)
        let observation = RelationshipObservation(
            self, relationship, toMany: relationship.toManyIndex ?? 0, changeHandler: changeHandler)
        let observations = context.relationshipObservations ?? RelationshipObservations()
        if context.relationshipObservations == nil {
            context.relationshipObservations = observations
            context.followers.append(observations)
        }
        observations.add(observation)
        return observation
    }
}

extension EntityClass where Self: ManagedObject {
    /// Calls a closure after each change of an ordered to-many relationship; see
    /// `observe(_:changeHandler:)`.
    ///
    /// Traps if the key path has no name; see ``propertyNames(for:)``.
    public func observe<Destination: ManagedObject>(
        _ keyPath: KeyPath<Self, [Destination]>, file: StaticString = #fileID, line: UInt = #line,
        changeHandler: @escaping (RelationshipChange) -> Void
    ) -> RelationshipObservation {
        observe(
            Self.requireName(keyPath, file, line), file: file, line: line,
            changeHandler: changeHandler)
    }
}

// MARK: - Delivery

/// The observed relationships of a context.
final class RelationshipObservations: ContextObserver {
    private struct Reference {
        weak var observation: RelationshipObservation?
    }

    private var references: [Reference] = []
    private var hasStale = false
    private var isDelivering = false
    /// Whether any relationship may have changed while changes were delivered.
    private var mayAllBeStale = false

    private var present: [RelationshipObservation] {
        references.removeAll { $0.observation == nil }
        return references.compactMap(\.observation)
    }

    func add(_ observation: RelationshipObservation) {
        references.append(Reference(observation: observation))
    }

    /// Notes that the contents of a relationship are changing.
    func note(_ object: ManagedObject, toMany: Int) {
        for reference in references {
            guard let observation = reference.observation, observation.object === object,
                observation.toMany == toMany
            else { continue }
            observation.isStale = true
            hasStale = true
        }
    }

    /// Reports what has been noted, or compares all relationships. Changes made meanwhile are reported by the outer call.
    func deliver(all: Bool) {
        if isDelivering {
            if all { mayAllBeStale = true }
            return
        }
        guard all || hasStale else { return }
        isDelivering = true
        defer { isDelivering = false }
        mayAllBeStale = all
        repeat {
            let due = present.filter { mayAllBeStale || $0.isStale }
            mayAllBeStale = false
            hasStale = false
            for observation in due { observation.deliver() }
        } while mayAllBeStale || hasStale
    }

    func contextDidChange(_ changes: ContextChange) { deliver(all: !changes.isSave) }

    func contextDidReplaceIDs(_ replaced: [(old: UInt64, new: UInt64)]) {
        let present = present
        guard let context = present.first?.object.context else { return }
        let replacements = Dictionary(
            replaced.map { ($0.old, context.objectID(bits: $0.new)) },
            uniquingKeysWith: { $1 })
        for observation in present { observation.replaceIDs(replacements) }
    }
}

extension ManagedObjectContext {
    /// Reports the changes of observed relationships that a call has made.
    @inline(__always)
    func deliverRelationshipChanges() { relationshipObservations?.deliver(all: false) }
}
