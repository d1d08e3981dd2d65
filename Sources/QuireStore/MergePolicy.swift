public import QuireModel
internal import QuireSystem

/// Resolves the conflicts of a save: objects changed in the store since the context read them, and violations of uniqueness
/// constraints.
///
/// A context's policy is ``error`` unless its `mergePolicy` is set. A resolving policy changes the objects
/// of the context; the save is then retried, and the policy called again for conflicts with saves in between.
///
/// | | changed here and there | changed here, deleted there | deleted here, changed there | values not unique |
/// |---|---|---|---|---|
/// | ``error`` | fails | fails | fails | fails |
/// | ``mergeByPropertyStoreTrump`` | changes of other properties are saved | stays deleted | deletion is reverted | merged into the stored object, whose values stay |
/// | ``mergeByPropertyObjectTrump`` | all changes are saved | it is inserted again | it is deleted | merged into the stored object, which gets the values set |
/// | ``overwrite`` | the whole object is saved | it is inserted again | it is deleted | merged into the stored object, which gets all values |
/// | ``rollback`` | changes are discarded | stays deleted | deletion is reverted | new objects are discarded; values of saved ones are reset |
///
/// An object deleted on both sides is not a conflict. Links added in the store between other objects are always kept.
///
/// For a custom policy override ``resolve(mergeConflict:)`` or ``resolve(constraintConflict:)`` in a subclass:
///
/// ```swift
/// final class KeepGreatestCount: MergePolicy, @unchecked Sendable {
///     override func resolve(mergeConflict conflict: MergeConflict) throws -> MergeResolution {
///         guard case .integer(let here)? = conflict.objectSnapshot?["count"],
///             case .integer(let there)? = conflict.persistedSnapshot?["count"]
///         else { return try super.resolve(mergeConflict: conflict) }
///         return .keep(conflict.changedProperties, setting: ["count": .integer(max(here, there))])
///     }
/// }
/// context.mergePolicy = KeepGreatestCount(merge: .mergeByPropertyObjectTrump)
/// ```
///
/// It is `@unchecked Sendable` because the compiler cannot check open classes; a subclass must not have mutable state.
open class MergePolicy: @unchecked Sendable {
    /// The predefined policies. A batch insertion uses the kind if a row has the unique values of a stored object.
    public enum Kind: Sendable, CaseIterable {
        /// A save with conflicts fails and changes nothing. A store's batch insertion fails; a context's does so only if the
        /// request says it, and otherwise sets the values that a row names.
        case error
        /// Property by property: the store's value wins where both sides have changed it. A row sets the null values of the
        /// stored object.
        case mergeByPropertyStoreTrump
        /// Property by property: the context's value wins where both sides have changed it. A row sets the values that it names.
        case mergeByPropertyObjectTrump
        /// The context's objects win, with all their properties. A row sets all attributes, and the relationships that it names.
        case overwrite
        /// The store's objects win; the context's changes are discarded. A row is left out.
        case rollback
    }

    /// The resolution of conflicts that a subclass does not override.
    public let mergeType: Kind

    /// Creates a policy of a kind.
    public init(merge kind: Kind) { mergeType = kind }

    /// A save with conflicts fails and changes nothing.
    public static let error = MergePolicy(merge: .error)
    /// Property by property: the store's value wins where both sides have changed it.
    public static let mergeByPropertyStoreTrump = MergePolicy(merge: .mergeByPropertyStoreTrump)
    /// Property by property: the context's value wins where both sides have changed it.
    public static let mergeByPropertyObjectTrump = MergePolicy(merge: .mergeByPropertyObjectTrump)
    /// The context's objects win, with all their properties.
    public static let overwrite = MergePolicy(merge: .overwrite)
    /// The store's objects win; the context's changes are discarded.
    public static let rollback = MergePolicy(merge: .rollback)

    /// Resolves an object's conflict.
    ///
    /// - Throws: Any error, which fails the save. A policy of kind ``Kind/error`` throws
    ///   ``QuireError`` with code `mergeConflict`; the save's error lists all of these.
    open func resolve(mergeConflict conflict: MergeConflict) throws -> MergeResolution {
        switch mergeType {
        case .error: throw conflict.error
        case .rollback: return .discardChanges
        case .mergeByPropertyStoreTrump:
            guard conflict.objectSnapshot != nil, conflict.persistedSnapshot != nil else {
                return .discardChanges
            }
            return .keep(
                conflict.changedProperties.subtracting(conflict.propertiesChangedInStore))
        case .mergeByPropertyObjectTrump:
            return conflict.objectSnapshot == nil ? .delete : .keep(conflict.changedProperties)
        case .overwrite:
            guard let snapshot = conflict.objectSnapshot else { return .delete }
            return .keep(conflict.changedProperties.union(snapshot.values.keys))
        }
    }

    /// Resolves a violation of a uniqueness constraint, according to a kind of policy:
    ///
    /// - ``Kind/error``: The save fails.
    /// - ``Kind/rollback``: New objects are deleted, by their delete rules; saved ones get back their
    ///   original values of the constrained properties. If no stored object has the values, the first of the objects stays.
    /// - ``Kind/mergeByPropertyStoreTrump``: The objects are merged: into the stored one, or the first if none is stored, which
    ///   gets values only where it has none. Relationships are united. A saved object that was changed gets back its own values
    ///   instead.
    /// - ``Kind/mergeByPropertyObjectTrump``: The objects are merged: into the stored one, or the first if none is stored, which
    ///   gets the values that were set on the others. If a saved object was changed to have the values, it is kept and the other
    ///   is deleted.
    /// - ``Kind/overwrite``: Likewise, with all values of the others, missing ones too.
    ///
    /// - Throws: Any error, which fails the save. A policy of kind ``Kind/error`` throws ``QuireError`` with code
    ///   `constraintConflict`; the save's error lists all of these.
    open func resolve(constraintConflict conflict: ConstraintConflict) throws -> Kind {
        if mergeType == .error { throw conflict.error }
        return mergeType
    }
}

extension MergePolicy: CustomStringConvertible {
    /// The name of the kind.
    public var description: String { "\(mergeType)" }
}

/// A merge policy's resolution of an object's conflict.
public struct MergeResolution: Sendable {
    package enum Outcome { case discard, keep, delete }

    package let outcome: Outcome
    package var properties: Set<String>
    package var values: [String: AttributeValue]

    /// The object gets the store's state: its changes are discarded, its deletion is reverted, or it is deleted if it was
    /// deleted in the store.
    public static let discardChanges = MergeResolution(
        outcome: .discard, properties: [], values: [:])

    /// The object is deleted.
    public static let delete = MergeResolution(outcome: .delete, properties: [], values: [:])

    /// Some properties are saved with the context's values, or with those given; the others get the store's.
    ///
    /// An object deleted in the store is inserted again, under its identifier, with all the values that it has here. A deletion
    /// here is reverted. Members added to and removed from to-many relationships are kept in any case; relationship names in
    /// `properties` refer to their order.
    public static func keep(
        _ properties: Set<String>, setting values: [String: AttributeValue] = [:]
    ) -> MergeResolution {
        MergeResolution(outcome: .keep, properties: properties, values: values)
    }

    /// Whether a slot is saved with the context's value.
    package func keeps(_ slot: ResolvedEntity.Slot) -> Bool {
        outcome == .keep && properties.contains(slot.name)
    }
}
