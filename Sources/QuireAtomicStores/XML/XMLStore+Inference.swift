package import Foundation
public import QuireModel
internal import QuireStore

extension XMLStore {
    /// A model for a store of which there is none: entities, properties and types as the file has them.
    ///
    /// Entities that the metadata names are called so, others as in the file; properties have their names in small
    /// letters. What a relationship is declared to lead to is a superentity of what it does lead to, where these differ.
    /// Two relationships are inverses of each other if one has exactly the references of the other, reversed. Attributes
    /// that no object has a value of are not there.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `inputOutput`.
    public static func inferredModel(at path: String) throws -> ManagedObjectModel {
        let (file, data) = try read(path)
        return try inferredModel(of: data, path: file.path)
    }

    /// As ``inferredModel(at:)``, of a file that has been read.
    package static func inferredModel(of data: Data, path: String) throws -> ManagedObjectModel {
        let reader = try XMLStoreReader(data, path: path)
        let metadata = try reader.head().metadata
        var inference = ModelInference(
            names: metadata.entityVersionHashes.keys.map { ($0.uppercased(), $0) })
        try reader.forEachObject { object in
            let entity = inference.note(entity: object.type.uppercased(), key: object.key)
            for (name, type, text) in object.attributes {
                let known = XMLStoreValue.type(named: type) ?? .string
                let fits = (try? XMLStoreValue.read(text, as: known)) != nil
                inference.note(attribute: name.lowercased(), fits ? known : .string, of: entity)
            }
            for relation in object.relationships {
                inference.note(
                    relationship: relation.name.lowercased(),
                    isToMany: !relation.type.hasSuffix("/1"), of: object.key, relation.keys,
                    declared: relation.destination.uppercased(), of: entity)
            }
        }
        return try inference.model(path: path)
    }
}
