internal import QuireModel

/// Where a binary store has the values of an entity's objects: an array, with a place for each property.
///
/// Which place is whose the file does not say; this is what fits the real files, of which there are few. The
/// superentity's properties come first. Of those that an entity declares itself the attributes come before the
/// relationships; both by name. The places of relationships hold nothing: their objects are named elsewhere in the node.
/// So `LMEnvironmentDomain` (name, order, uuid; environments, variables) has five values, the last two nothing, and
/// `LMRequest` begins with the four attributes and two relationships of `LMRequestTreeItem`. The XML stores of the same
/// program have the same properties, in an order that goes with it.
///
/// Not seen in any file, hence ours: elements of composite attributes have places of their own in the place of the
/// composite; transient properties have none.
struct BinaryStorePlan {
    /// The slots of attributes by place; `nil` is the place of a relationship.
    let places: [EntityLayout.Slot?]
    let relationships: [EntityLayout.Relationship]

    init(_ entity: EntityLayout) {
        var places: [EntityLayout.Slot?] = []
        let relationships = entity.relationships.filter { !$0.description.isTransient }
        let attributes = entity.slots.filter { $0.isStored && $0.attribute != nil }
        // A superentity has a lower number than its sub-entities.
        for owner in Set((attributes.map(\.ownerNumber)) + relationships.map(\.ownerNumber))
            .sorted()
        {
            places += attributes.filter { $0.ownerNumber == owner }.sorted { $0.name < $1.name }
            places += relationships.filter { $0.ownerNumber == owner }.map { _ in nil }
        }
        self.places = places
        self.relationships = relationships.sorted {
            ($0.ownerNumber, $0.name) < ($1.ownerNumber, $1.name)
        }
    }
}
