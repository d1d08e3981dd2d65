/// What an instance is made for: an identifier, an entity and a context. Only contexts make places;
/// ``ManagedObject/init(_:)`` takes one.
public struct ObjectPlace {
    let objectID: ManagedObjectID
    let entity: EntityLayout
    /// `nil` only for the object that finds out what a key path names; see ``PropertyProbe``.
    let context: ManagedObjectContext?
    let state: ManagedObject.State
}
