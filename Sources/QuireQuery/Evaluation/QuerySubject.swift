public import QuireModel

/// Something that predicates are tested on in memory: an object of a context, or a stand-in for one.
public protocol QuerySubject {
    /// The object's identifier, which `SELF`, `objectID` and comparisons of relationships mean.
    var objectID: ManagedObjectID { get }
    /// The object's entity.
    var entity: EntityLayout { get }
    /// The model that the entity is part of.
    var queryLayout: ModelLayout { get }

    /// The value of a property.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if there is no such property.
    func queryValue(forKey key: String) throws -> QueryValue
}

/// An object of a context. It may not be in a store yet, but knows which one it goes to.
package protocol ContextBoundSubject {
    /// The UUID of the store that the object is in, or will be when it is saved; `nil` if that is not known.
    var boundStoreUUID: String? { get }

    /// What identifiers of the context's objects share, by which texts such as `Author/p3` are read.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the object belongs to no context any more.
    func requireStoreIdentity() throws -> StoreIdentity
}

/// What a subject has under a key.
public enum QueryValue {
    /// The value of an attribute, or the missing object of a to-one relationship.
    case value(AttributeValue)
    /// The object of a to-one relationship.
    case object(any QuerySubject)
    /// The objects of a to-many relationship.
    case objects([any QuerySubject])
}
