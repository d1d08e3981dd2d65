import ArgumentParser
import Foundation
import Quire

/// Finds the rows of an import that are objects of the document already, or rows above them, by the values of attributes.
struct ImportMatching {
    /// The action for a row whose keys another object or row already has.
    enum Conflict: String, ExpressibleByArgument, CaseIterable {
        case fail, skip, update
    }

    /// The owner of the values of the keys.
    enum Owner {
        case object(ManagedObjectID)
        /// A row of the file, by its index.
        case row(Int, ResolvedEntity, place: String)
        /// Several objects.
        case several
    }

    /// The attributes that identify an object.
    let keys: [String]
    let conflict: Conflict
    /// Whether rows without a match are inserted.
    var insertsOthers = true

    /// The objects of an entity, by the values of the keys.
    ///
    /// - Complexity: O(*n*) in the objects of the entity, which are all read; their keys are in memory.
    /// - Throws: `QuireError` with code `unknownKey`, or `invalidValue` if a key is not an attribute that can be compared.
    @MainActor
    func objects(
        of entity: ResolvedEntity, in document: DocumentSession
    ) throws -> [[AttributeValue]: Owner] {
        for key in keys {
            guard case .attribute(let slot) = try entity.requireProperty(key),
                let attribute = entity.slots[slot].attribute, attribute.type != .binary
            else {
                throw QuireError(
                    .invalidValue,
                    "“\(key)” of \(entity.name) cannot be a key; specify attributes that are not binary data.",
                    entity: entity.name, property: key)
            }
        }
        var owners: [[AttributeValue]: Owner] = [:]
        var request = FetchRequest<ManagedObject>(entity.name)
        request.readInBatches(for: [])
        try document.forEach(of: document.context.fetch(request)) { object in
            let values = try keys.map { try object.attributeValue(forKey: $0) }
            if values.contains(where: \.isNull) { return }
            owners[values] = owners[values] == nil ? .object(object.objectID) : .several
        }
        return owners
    }

    /// The values of the keys in a row.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if one is missing.
    func values(of row: ImportRow) throws -> [AttributeValue] {
        try keys.map { key in
            guard let value = row.attributes[key], !value.isNull else {
                throw ImportRow.locate(
                    QuireError(
                        .invalidValue, "--key requires a value in every row.",
                        entity: row.entity.name, property: key),
                    row.place, column: key)
            }
            return try row.coerce(value, for: key)
        }
    }

    /// The error for a row that conflicts, or that matches several objects.
    func conflictError(_ row: ImportRow, _ values: [AttributeValue], _ owner: Owner) -> any Error {
        let shown = zip(keys, values).map { key, value in
            "\(key) “\(PrintedValue.attribute(value, .undefined).text)”"
        }.joined(separator: " and ")
        let message =
            switch owner {
            case .object(let id):
                "\(id.shortDescription) already has \(shown); use --on-conflict skip or update."
            case .row(_, _, let place):
                "\(place) already has \(shown); use --on-conflict skip or update."
            case .several:
                "Several \(row.entity.name) objects have \(shown), so none can be updated."
            }
        return ImportRow.locate(
            QuireError(.invalidValue, message, entity: row.entity.name), row.place)
    }
}
