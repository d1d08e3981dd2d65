public import QuireModel
public import QuireSystem

/// All conflicts that kept a change set from being saved: optimistic-lock failures and violated uniqueness constraints.
///
/// The underlying error of the ``QuireError`` thrown by ``PersistentStore/save(_:)`` and by the save of a context, which
/// resolves it by its merge policy.
public struct SaveConflicts: Error, Sendable {
    /// Optimistic-lock failures.
    public var objects: [MergeConflict] = []
    /// Values that must be unique and are not.
    public var constraints: [ConstraintConflict] = []

    /// No conflicts.
    public init() {}

    /// Whether the save has no conflicts.
    public var isEmpty: Bool { objects.isEmpty && constraints.isEmpty }

    /// The error to throw, with one failure per conflict.
    public func error(file: String?) -> QuireError {
        var error = QuireError.combining(
            objects.map { $0.error(file: file) } + constraints.flatMap { $0.errors(file: file) })
        error.underlying = self
        return error
    }
}

extension QuireError {
    /// The conflicts that kept a context or a store from saving, if this is the error of its save.
    public var mergeConflicts: [MergeConflict] { (underlying as? SaveConflicts)?.objects ?? [] }

    /// The broken uniqueness constraints that kept a context or a store from saving, if this is the error of its save.
    public var constraintConflicts: [ConstraintConflict] {
        (underlying as? SaveConflicts)?.constraints ?? []
    }
}

/// An optimistic-lock failure: an object of a save that was changed or deleted elsewhere since it was read.
///
/// The store describes its state; the saving context adds its own values and changes.
public struct MergeConflict: Sendable {
    /// The operation of the change set on the object.
    public enum Change: Sendable {
        /// An update of the object or one of its relationships.
        case update
        /// A deletion of an object that has been changed since, or has become the destination of another object's reference.
        case deletion
        /// A reference to an object that has been deleted.
        case reference
    }

    /// The object.
    public let objectID: ManagedObjectID
    /// The operation of the change set on the object.
    public let change: Change
    /// The present row in the store; `nil` if it was deleted.
    public let current: ObjectSnapshot?
    /// The base version; 0 if the context has not read the object.
    public package(set) var oldVersionNumber: UInt32 = 0
    /// The object as it would be saved; `nil` if it was deleted here.
    public package(set) var objectSnapshot: ConflictSnapshot?
    /// The object as the context has last read or saved it; `nil` if it has not read it.
    public package(set) var cachedSnapshot: ConflictSnapshot?
    /// The present values in the store; `nil` if the object was deleted there.
    public package(set) var persistedSnapshot: ConflictSnapshot?
    /// The properties changed here. Elements of composite attributes have dotted names.
    public package(set) var changedProperties: Set<String> = []
    /// The properties changed in the store. An ordered relationship is included if both sides have changed it.
    public package(set) var propertiesChangedInStore: Set<String> = []
    /// The merge policy's resolution, once it has been asked.
    package var resolution = MergeResolution.discardChanges

    /// Describes a conflict.
    public init(objectID: ManagedObjectID, change: Change, current: ObjectSnapshot?) {
        self.objectID = objectID
        self.change = change
        self.current = current
        persistedSnapshot = current.map(ConflictSnapshot.init)
    }

    /// The present version in the store; 0 if the object was deleted there.
    public var newVersionNumber: UInt32 { current?.version ?? 0 }

    /// The error of a save under ``MergePolicy/error``.
    public var error: QuireError { error(file: nil) }

    func error(file: String?) -> QuireError {
        let both = changedProperties.intersection(propertiesChangedInStore)
        let properties = (both.isEmpty ? propertiesChangedInStore : both).sorted()
        let name = "“\(objectID.shortDescription)”"
        let others = properties.map { "“\($0)”" }.joined(separator: ", ")
        let sentence =
            switch (change, current == nil) {
            case (.update, false):
                "\(name) cannot be changed: it was saved elsewhere after it was read"
                    + (others.isEmpty ? "" : " (\(others))") + "; read it again."
            case (.update, true):
                "\(name) cannot be changed: it has been deleted; discard the change."
            case (.deletion, _):
                "\(name) cannot be deleted: it was saved elsewhere after it was read, or other "
                    + "objects now refer to it; read it again."
            case (.reference, _):
                "\(name) has been deleted, but changed objects refer to it; discard the change."
            }
        return QuireError(
            .mergeConflict, sentence,
            entity: objectID.entityName, property: properties.first,
            object: objectID.uriRepresentation, file: file)
    }
}

/// The values of an object at some time.
public struct ConflictSnapshot: Sendable, Equatable {
    /// Attributes and to-one relationships by name; elements of composite attributes by dotted names.
    public let values: [String: AttributeValue]
    /// The objects of ordered relationships whose order was changed here, by name.
    public package(set) var orderedObjectIDs: [String: [ManagedObjectID]] = [:]

    /// The stored values of an entity's slots.
    package init(of entity: ResolvedEntity, _ value: (Int) -> AttributeValue) {
        var values: [String: AttributeValue] = [:]
        for slot in entity.slots where slot.isStored { values[slot.name] = value(slot.index) }
        self.values = values
    }

    init(_ row: ObjectSnapshot) {
        self.init(of: row.entity) { (try? row.valueWithoutLoading(at: $0)) ?? .null }
    }

    /// The value of an attribute, or the destination's identifier of a to-one relationship.
    public subscript(name: String) -> AttributeValue? { values[name] }

    /// The properties that differ in an older snapshot.
    package func properties(changedSince old: ConflictSnapshot) -> Set<String> {
        let values = values.filter { old.values[$0.key] != $0.value }.keys
        let orders = orderedObjectIDs.filter { old.orderedObjectIDs[$0.key] != $0.value }.keys
        return Set(values).union(orders)
    }
}

/// A violation of a uniqueness constraint: objects that share its values.
public struct ConstraintConflict: Sendable {
    /// The entity that declares the constraint.
    public let entityName: String
    /// The properties whose values, taken together, must be unique.
    public let constraint: [String]
    /// The values, in the order of the properties.
    public let constraintValues: [AttributeValue]
    /// The stored object that has the values and is not to be saved; `nil` if the conflict is among the objects to be saved.
    public let databaseObjectID: ManagedObjectID?
    /// That object as the store has it.
    public let databaseSnapshot: ConflictSnapshot?
    /// The objects that were to be saved with the values.
    public package(set) var conflictingObjectIDs: [ManagedObjectID]
    /// These objects as they would be saved, in the same order; empty in the error of a store.
    public package(set) var conflictingSnapshots: [ConflictSnapshot] = []
    /// The merge policy's resolution, once it has been asked.
    package var resolution = MergePolicy.Kind.error

    /// Describes a violation. `current`: the row of the stored object that is not in the change set.
    public init(
        entityName: String, constraint: [String], constraintValues: [AttributeValue],
        current: ObjectSnapshot?, conflictingObjectIDs: [ManagedObjectID]
    ) {
        self.entityName = entityName
        self.constraint = constraint
        self.constraintValues = constraintValues
        databaseObjectID = current?.objectID
        databaseSnapshot = current.map(ConflictSnapshot.init)
        self.conflictingObjectIDs = conflictingObjectIDs
    }

    /// The error of a save under ``MergePolicy/error``.
    public var error: QuireError { QuireError.combining(errors(file: nil)) }

    /// The failures: one for each object that would have to change.
    func errors(file: String?) -> [QuireError] {
        conflictingObjectIDs.dropFirst(databaseObjectID == nil ? 1 : 0).map {
            QuireError.notUnique(constraint, of: entityName, $0, file: file)
        }
    }
}

/// Identifiers of new objects may have been used by another process. Underlies a ``QuireError``; the same save may succeed
/// with the next reserved identifiers.
package struct PrimaryKeyCollision: Error {
    package init() {}
}
