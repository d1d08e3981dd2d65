public import QuireModel
package import QuireSystem

/// The reason for a denied deletion, as ``QuireError/underlying`` of an error with code `deleteDenied`.
public struct DeletionDenial: Error, Sendable, Hashable {
    /// The object that was to be deleted.
    public let objectID: ManagedObjectID
    /// The name of the relationship with the deny rule.
    public let relationship: String
    /// All remaining objects of the deny relationship.
    public let blockingObjectIDs: [ManagedObjectID]
}

extension QuireError {
    /// The error for a denied deletion, with ``DeletionDenial`` as its underlying error.
    package init(
        deletionOf objectID: ManagedObjectID, deniedBy relationship: String,
        _ blocking: [ManagedObjectID]
    ) {
        let listed = blocking.prefix(3).map(\.shortDescription).joined(separator: ", ")
        let more = blocking.count > 3 ? " and \(blocking.count - 3) more" : ""
        self.init(
            .deleteDenied,
            "\(objectID.shortDescription) cannot be deleted while “\(relationship)” refers to "
                + "\(listed)\(more).",
            subject: .init(
                entity: objectID.entityName, property: relationship,
                object: objectID.uriRepresentation, rule: .deny, value: String(blocking.count),
                relatedObjects: blocking.map(\.uriRepresentation)),
            underlying: DeletionDenial(
                objectID: objectID, relationship: relationship, blockingObjectIDs: blocking))
    }
}
