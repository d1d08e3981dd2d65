package import QuireModel
package import QuireSystem

/// The errors that several kinds of stores throw.
extension QuireError {
    /// A store carries no model, and none is given.
    package static func noModel(carriedBy path: String) -> QuireError {
        QuireError(
            .incompatibleModel,
            "“\(path)” does not contain its model; specify the model it was created with.",
            file: path)
    }

    /// An object is not one of the store. `use`: what was to be done with it.
    package static func foreign(
        _ id: ManagedObjectID, _ use: String, path: String?
    ) -> QuireError {
        QuireError(
            .invalidValue,
            "\(id.shortDescription) is \(use), but is not a saved object of \(path.map { "“\($0)”" } ?? "the store").",
            subject: .init(object: id.uriRepresentation, file: path))
    }

    /// Objects share values that must be unique. `id`: the object to change, if it is known.
    package static func notUnique(
        _ properties: [String], of entity: String, _ id: ManagedObjectID? = nil, file: String?
    ) -> QuireError {
        let names = properties.map { "“\($0)”" }.joined(separator: " and ")
        return QuireError(
            .constraintConflict,
            "Another “\(entity)” has the same \(names), which must be unique; change one of them."
                + (id.map { " The object is \($0.shortDescription)." } ?? ""),
            entity: entity, property: properties.first, object: id?.uriRepresentation, file: file)
    }
}
