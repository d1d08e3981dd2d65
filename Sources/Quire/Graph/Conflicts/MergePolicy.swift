/// The policies that ``MergePolicy`` has ready.
public enum MergePolicyType: Sendable, CaseIterable {
    /// A save with conflicts fails and changes nothing.
    case errorMergePolicyType
    /// Property by property: what was changed on both sides stays as the store has it.
    case mergeByPropertyStoreTrumpMergePolicyType
    /// Property by property: what was changed on both sides is saved as the context has it.
    case mergeByPropertyObjectTrumpMergePolicyType
    /// Objects in conflict are saved as the context has them, with all their properties.
    case overwriteMergePolicyType
    /// Objects in conflict lose their changes and are as the store has them.
    case rollbackMergePolicyType
}

/// Decides what a save does about objects that others have changed in the store since the context read them, and
/// about values that must be unique and are not.
///
/// A context's policy is ``error`` unless ``ManagedObjectContext/mergePolicy`` is set. A policy that resolves changes
/// the objects of the context; the save then tries again, and asks again if others have saved in between.
///
/// | | changed here and there | changed here, deleted there | deleted here, changed there | values not unique |
/// |---|---|---|---|---|
/// | ``error`` | fails | fails | fails | fails |
/// | ``mergeByPropertyStoreTrump`` | changes of other properties are saved | it is gone | it is back | merged into the stored object, whose values stay |
/// | ``mergeByPropertyObjectTrump`` | all changes are saved | it is inserted again | it is deleted | merged into the stored object, which gets the values set |
/// | ``overwrite`` | the whole object is saved | it is inserted again | it is deleted | merged into the stored object, which gets all values |
/// | ``rollback`` | changes are lost | it is gone | it is back | new objects are discarded; values of others go back |
///
/// An object deleted on both sides is no conflict. Links that others made between other objects are always kept.
///
/// For a policy of your own make a subclass and override ``resolve(mergeConflict:)`` or
/// ``resolve(constraintConflict:)``:
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
/// context.mergePolicy = KeepGreatestCount(merge: .mergeByPropertyObjectTrumpMergePolicyType)
/// ```
///
/// It is `@unchecked Sendable` because a class that can be subclassed cannot be checked; a subclass must not have
/// state that changes.
open class MergePolicy: @unchecked Sendable {
    /// What the policy does unless a subclass decides otherwise.
    public let mergeType: MergePolicyType

    /// Makes a policy of a type.
    public init(merge type: MergePolicyType) { mergeType = type }

    /// A save with conflicts fails and changes nothing.
    public static let error = MergePolicy(merge: .errorMergePolicyType)
    /// Property by property: what was changed on both sides stays as the store has it.
    public static let mergeByPropertyStoreTrump = MergePolicy(
        merge: .mergeByPropertyStoreTrumpMergePolicyType)
    /// Property by property: what was changed on both sides is saved as the context has it.
    public static let mergeByPropertyObjectTrump = MergePolicy(
        merge: .mergeByPropertyObjectTrumpMergePolicyType)
    /// Objects in conflict are saved as the context has them, with all their properties.
    public static let overwrite = MergePolicy(merge: .overwriteMergePolicyType)
    /// Objects in conflict lose their changes and are as the store has them.
    public static let rollback = MergePolicy(merge: .rollbackMergePolicyType)

    /// Decides about an object.
    ///
    /// - Throws: Whatever is to end the save. Of the type ``MergePolicyType/errorMergePolicyType`` it throws
    ///   ``QuireError`` with code `mergeConflict`; the save's error lists all such.
    open func resolve(mergeConflict conflict: MergeConflict) throws -> MergeResolution {
        switch mergeType {
        case .errorMergePolicyType: throw conflict.error
        case .rollbackMergePolicyType: return .discardChanges
        case .mergeByPropertyStoreTrumpMergePolicyType:
            guard conflict.objectSnapshot != nil, conflict.persistedSnapshot != nil else {
                return .discardChanges
            }
            return .keep(
                conflict.changedProperties.subtracting(conflict.propertiesChangedInStore))
        case .mergeByPropertyObjectTrumpMergePolicyType:
            return conflict.objectSnapshot == nil ? .delete : .keep(conflict.changedProperties)
        case .overwriteMergePolicyType:
            guard let snapshot = conflict.objectSnapshot else { return .delete }
            return .keep(conflict.changedProperties.union(snapshot.values.keys))
        }
    }

    /// Decides about objects that share values which must be unique.
    ///
    /// - Throws: Whatever is to end the save. Of the type ``MergePolicyType/errorMergePolicyType`` it throws
    ///   ``QuireError`` with code `constraintConflict`; the save's error lists all such.
    open func resolve(
        constraintConflict conflict: ConstraintConflict
    ) throws -> ConstraintResolution {
        switch mergeType {
        case .errorMergePolicyType: throw conflict.error
        case .rollbackMergePolicyType: .discardConflictingObjects
        case .mergeByPropertyStoreTrumpMergePolicyType: .mergePreferringDatabase
        case .mergeByPropertyObjectTrumpMergePolicyType: .mergePreferringObjects
        case .overwriteMergePolicyType: .overwrite
        }
    }
}

extension MergePolicy: CustomStringConvertible {
    /// The name of the type.
    public var description: String { "\(mergeType)" }
}

/// What a merge policy decides about an object in conflict.
public struct MergeResolution: Sendable {
    enum Fate { case discard, keep, delete }

    let fate: Fate
    let properties: Set<String>
    let values: [String: AttributeValue]

    /// The object is as the store has it: its changes are lost, its deletion is taken back, or it is gone if others
    /// have deleted it.
    public static let discardChanges = MergeResolution(fate: .discard, properties: [], values: [:])

    /// The object is deleted.
    public static let delete = MergeResolution(fate: .delete, properties: [], values: [:])

    /// Some properties are saved as the context has them, or with values given; the others are as the store has them.
    ///
    /// If others have deleted the object it is inserted again, under its identifier, with all the values that it has
    /// here. If it was deleted here, that is taken back. What came into and went out of to-many relationships is
    /// kept in any case; their names in `properties` mean their order.
    public static func keep(
        _ properties: Set<String>, setting values: [String: AttributeValue] = [:]
    ) -> MergeResolution {
        MergeResolution(fate: .keep, properties: properties, values: values)
    }
}

/// What a merge policy decides about objects that share values which must be unique.
public enum ConstraintResolution: Sendable {
    /// New objects are deleted, by their delete rules; saved ones get back the values that the constraint is about.
    /// If no stored object has the values, the first of the objects stays.
    case discardConflictingObjects
    /// The objects become one: the stored one, or the first if none is stored, which gets values only where it has
    /// none. Its relationships are joined by those of the others. A saved object that was changed gets back its own
    /// values instead.
    case mergePreferringDatabase
    /// The objects become one: the stored one, or the first if none is stored, which gets the values that were set on
    /// the others. If a saved object was changed to have the values, that stays and the other is deleted.
    case mergePreferringObjects
    /// As ``mergePreferringObjects``, with all values of the others, missing ones too.
    case overwrite
}
