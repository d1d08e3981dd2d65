import Quire

extension DocumentSession {
    /// The object of an identifier: a URI, `Entity/pN`, or `Entity/tN` for one that is not saved.
    ///
    /// - Throws: `QuireError` with code `notFound` if there is no such object.
    func object(named text: String) throws -> ManagedObject {
        if let new = context.insertedObjects.first(where: {
            $0.objectID.isTemporary
                && ($0.objectID.shortDescription == text || $0.objectID.uriRepresentation == text)
        }) {
            return new
        }
        let object = try context.existingObject(with: coordinator.objectID(for: text))
        guard !object.isDeleted else {
            throw QuireError(
                .notFound, "There is no object \(object.objectID.shortDescription).",
                subject: .init(
                    entity: object.entity.name, object: object.objectID.uriRepresentation))
        }
        return object
    }

    /// The objects of a list of identifiers, separated by commas, that a relationship is to lead to.
    ///
    /// - Throws: `QuireError` with code `notFound`, or `invalidValue` if one is of the wrong entity.
    func objects(
        named list: String, for relationship: EntityLayout.Relationship
    ) throws -> [ManagedObject] {
        let destination = layout.destination(of: relationship)
        return try list.split(separator: ",").map { part in
            let object = try object(named: part.filter { !$0.isWhitespace })
            guard destination.subtree.contains(object.entity.number) else {
                throw QuireError(
                    .invalidValue,
                    "“\(relationship.name)” leads to \(destination.name); "
                        + "\(object.objectID.shortDescription) is none.",
                    subject: .init(property: relationship.name))
            }
            return object
        }
    }

    /// Throws what reading an object hit that had no other way to tell.
    func throwFaultError() throws {
        if let error = context.takeFaultError() { throw error }
    }
}
