/// An object that a context wanted to save, and that others have changed or deleted since the context read it.
public struct MergeConflict: Sendable {
    /// The object.
    public let objectID: ManagedObjectID
    /// The version that the context has read; 0 if it has not read the object.
    public let oldVersionNumber: UInt32
    /// The version that the store has now; 0 if the object was deleted there.
    public let newVersionNumber: UInt32
    /// The object as it would be saved; `nil` if it was deleted here.
    public let objectSnapshot: ConflictSnapshot?
    /// The object as the context has last read or saved it; `nil` if it has not read it.
    public let cachedSnapshot: ConflictSnapshot?
    /// The object as the store, or the parent context, has it now; `nil` if it was deleted there.
    public let persistedSnapshot: ConflictSnapshot?
    /// The properties changed here. Elements of composite attributes have dotted names.
    public let changedProperties: Set<String>
    /// The properties that others have changed. An ordered relationship is among them if both sides have changed it.
    public let propertiesChangedInStore: Set<String>
    /// The conflict as the store has found it.
    let found: ObjectConflict

    /// What a save under ``MergePolicy/error`` says.
    public var error: QuireError {
        let both = changedProperties.intersection(propertiesChangedInStore)
        return found.error(
            properties: (both.isEmpty ? propertiesChangedInStore : both).sorted(), file: nil)
    }
}

/// The values of an object at some time.
public struct ConflictSnapshot: Sendable, Equatable {
    /// Attributes and to-one relationships by name; elements of composite attributes by dotted names.
    public let values: [String: AttributeValue]
    /// The objects of ordered relationships whose order was changed here, by name.
    public let orderedObjectIDs: [String: [ManagedObjectID]]

    /// The value of an attribute, or the identifier that a to-one relationship leads to.
    public subscript(name: String) -> AttributeValue? { values[name] }
}

/// Objects that share values although a uniqueness constraint of their entity forbids it.
public struct ConstraintConflict: Sendable {
    /// The entity that declares the constraint.
    public let entityName: String
    /// The properties whose values, taken together, must be unique.
    public let constraint: [String]
    /// The values, in the order of the properties.
    public let constraintValues: [AttributeValue]
    /// The stored object that has the values; `nil` if the conflict is among the objects to be saved.
    public let databaseObjectID: ManagedObjectID?
    /// That object as the store has it.
    public let databaseSnapshot: ConflictSnapshot?
    /// The objects that were to be saved with the values.
    public let conflictingObjectIDs: [ManagedObjectID]
    /// These objects as they would be saved, in the same order.
    public let conflictingSnapshots: [ConflictSnapshot]
    /// The conflict as the store has found it.
    let found: ConstraintViolation

    /// What a save under ``MergePolicy/error`` says.
    public var error: QuireError { QuireError.combining(found.errors(file: nil)) }
}

/// All conflicts of a save that failed by them. Underlies the error that the save throws.
struct ConflictDetails: Error {
    let mergeConflicts: [MergeConflict]
    let constraintConflicts: [ConstraintConflict]
}

extension QuireError {
    /// The conflicts that kept a context from saving, if this is the error of its save.
    public var mergeConflicts: [MergeConflict] {
        (underlying as? ConflictDetails)?.mergeConflicts ?? []
    }

    /// The broken uniqueness constraints that kept a context from saving, if this is the error of its save.
    public var constraintConflicts: [ConstraintConflict] {
        (underlying as? ConflictDetails)?.constraintConflicts ?? []
    }
}
