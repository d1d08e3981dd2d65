/// What an object has under a key, as ``ManagedObject/changedValues()`` and its like give it.
public enum PropertyValue: Sendable, Hashable {
    /// The value of an attribute, or the identifier that a to-one relationship leads to.
    case value(AttributeValue)
    /// The identifiers that a to-many relationship leads to, in its order if it has one.
    case objectIDs([ManagedObjectID])
}
