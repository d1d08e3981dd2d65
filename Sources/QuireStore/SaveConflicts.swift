public import QuireModel
public import QuireSystem

/// All conflicts that kept a store from saving a change set: optimistic-lock failures and violated uniqueness constraints.
///
/// The underlying error of the ``QuireError`` thrown by ``PersistentStore/save(_:)``. Contexts resolve it by their merge
/// policies.
public struct SaveConflicts: Error, Sendable {
    /// Optimistic-lock failures.
    public var objects: [ObjectConflict] = []
    /// Values that must be unique and are not.
    public var constraints: [ConstraintViolation] = []

    /// No conflicts.
    public init() {}

    /// Whether there are no conflicts.
    public var isEmpty: Bool { objects.isEmpty && constraints.isEmpty }
}

/// An optimistic-lock failure: the stored version differs from the change's base version.
public struct ObjectConflict: Sendable {
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
    public var objectID: ManagedObjectID
    /// The operation of the change set on the object.
    public var change: Change
    /// The current row in the store; `nil` if it was deleted.
    public var current: ObjectSnapshot?

    /// Describes a conflict.
    public init(objectID: ManagedObjectID, change: Change, current: ObjectSnapshot?) {
        self.objectID = objectID
        self.change = change
        self.current = current
    }
}

/// Values that objects share although a uniqueness constraint forbids it.
public struct ConstraintViolation: Sendable {
    /// The entity that declares the constraint.
    public var entityName: String
    /// The properties whose combined values must be unique.
    public var properties: [String]
    /// The values, in the order of the properties.
    public var values: [AttributeValue]
    /// The stored object with the values that is not in the change set; `nil` if there is none.
    public var current: ObjectSnapshot?
    /// The objects of the change set with these values.
    public var objectIDs: [ManagedObjectID]

    /// Describes a violation.
    public init(
        entityName: String, properties: [String], values: [AttributeValue],
        current: ObjectSnapshot?, objectIDs: [ManagedObjectID]
    ) {
        self.entityName = entityName
        self.properties = properties
        self.values = values
        self.current = current
        self.objectIDs = objectIDs
    }
}

extension SaveConflicts {
    /// The error to throw, with one failure per conflict.
    public func error(file: String?) -> QuireError {
        var error = QuireError.combining(
            objects.map { $0.error(properties: [], file: file) }
                + constraints.flatMap { $0.errors(file: file) })
        error.underlying = self
        return error
    }
}

extension ObjectConflict {
    /// The failure for this conflict, with the properties changed in the store if known.
    package func error(properties: [String], file: String?) -> QuireError {
        let name = "“\(objectID.shortDescription)”"
        let others = properties.map { "“\($0)”" }.joined(separator: ", ")
        let sentence =
            switch (change, current == nil) {
            case (.update, false):
                "\(name) was to be changed but has been saved by somebody else since it was read"
                    + (others.isEmpty ? "" : " (\(others))") + "; read it again."
            case (.update, true):
                "\(name) was to be changed but has been deleted meanwhile; discard the change."
            case (.deletion, _):
                "\(name) was to be deleted but has been saved by somebody else since it was read, or been "
                    + "connected with other objects; read it again."
            case (.reference, _):
                "\(name) has been deleted meanwhile, and other objects were to refer to it; discard the change."
            }
        return QuireError(
            .mergeConflict, sentence,
            subject: .init(
                entity: objectID.entityName, property: properties.first,
                object: objectID.uriRepresentation, file: file))
    }
}

extension ConstraintViolation {
    /// The failures for this violation: one for each object that would have to change.
    package func errors(file: String?) -> [QuireError] {
        let names = properties.map { "“\($0)”" }.joined(separator: " and ")
        return objectIDs.dropFirst(current == nil ? 1 : 0).map { id in
            QuireError(
                .constraintConflict,
                "Another “\(entityName)” has the same \(names), which must be unique; change one of them. "
                    + "The object is \(id.shortDescription).",
                subject: .init(
                    entity: entityName, property: properties.first, object: id.uriRepresentation,
                    file: file))
        }
    }
}

/// Identifiers of new objects may have been used by another process. Underlies a ``QuireError``; the same save may succeed
/// with the next reserved identifiers.
package struct PrimaryKeyCollision: Error {
    package init() {}
}
