public import Foundation
public import QuireModel
public import QuireStore
internal import QuireSystem

/// A store in Core Data's XML format: one readable file, held in memory, and rewritten completely by each save.
///
/// Files created by Core Data open with the model they were created with, and saves preserve their form, metadata and
/// identifiers. They do not contain their model; ``inferredModel(at:)`` infers one. Files created by Quire contain it, so they
/// open without a model.
///
/// The format does not store object versions: they are counted from the opening of the store.
///
/// ```swift
/// let store = try XMLStore.create(at: "library.xml", model: model)
/// ```
public final class XMLStore: AtomicStore, @unchecked Sendable {
    /// `XML`.
    public override class var storeType: StoreType { .xml }

    /// Core Data's first object is `z102`.
    public override class var firstPrimaryKey: Int64 { 102 }

    /// Reads the metadata of a file.
    public override class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata {
        try XMLStoreReader(data, path: path).head().metadata
    }

    /// Rejects a model with names that differ in case only.
    public override class func check(_ layout: ResolvedModel) throws {
        _ = try XMLStoreNames(layout)
    }

    /// Reads the objects of a file.
    public override func load(_ data: Data, into objects: inout AtomicStoreLoader) throws {
        let path = path ?? ""
        let reader = try XMLStoreReader(data, path: path)
        let names = try XMLStoreNames(layout)
        if let greatest = try reader.head().maximumKey {
            objects.noteGreatestPrimaryKey(greatest)
        }
        try reader.forEachObject { object in
            guard let entity = names.entity(object.type) else {
                throw misfit("“\(object.type)” is not an entity of the model", object.type)
            }
            var node = AtomicStoreNode(entity: entity, primaryKey: object.key)
            for (name, _, text) in object.attributes {
                guard case .attribute(let slot)? = names.property(name, of: entity),
                    let attribute = slot.attribute
                else {
                    throw misfit(
                        "the model has no attribute “\(name)” of “\(entity.name)”", entity.name,
                        name)
                }
                do {
                    node.set(try XMLStoreValue.read(text, as: attribute.type), at: slot)
                } catch let error as QuireError {
                    throw QuireError(
                        .invalidFormat,
                        "“\(slot.name)” of \(entity.name) z\(object.key) in “\(path)” cannot be read: \(error.message)",
                        entity: entity.name, property: slot.name, file: path, underlying: error)
                }
            }
            for relation in object.relationships {
                guard
                    case .relationship(let relationship)? = names.property(
                        relation.name, of: entity)
                else {
                    throw misfit(
                        "the model has no relationship “\(relation.name)” of “\(entity.name)”",
                        entity.name, relation.name)
                }
                node.setRelated(relation.keys, through: relationship)
            }
            try objects.add(node)
        }
    }

    /// Encodes all objects as the content of a file.
    public override func save(_ objects: AtomicStoreObjects) throws -> Data {
        var writer = XMLStoreWriter(layout)
        let data = try writer.data(of: objects)
        guard data.count <= XMLStoreParser.maximumSize else {
            throw QuireError(
                .unsupported,
                "The objects of “\(name)” would need \(data.count) bytes as XML, but files of more than "
                    + "\(XMLStoreParser.maximumSize) bytes cannot be read again; use a SQLite store.",
                file: path)
        }
        return data
    }
}

// MARK: - Inference

extension XMLStore {
    /// Infers a model for a store without one: entities, properties and types as in the file.
    ///
    /// Entities listed in the metadata have the names given there, others those in the file; property names are lower case. The
    /// destination of a relationship is a common superentity of its members, if they differ. Two relationships are inverses of
    /// each other if their references are exactly reversed. Attributes without any value are omitted.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `inputOutput`.
    public static func inferredModel(at path: String) throws -> ManagedObjectModel {
        let (file, data) = try read(path)
        return try inferredModel(of: data, path: file.path)
    }

    /// As ``inferredModel(at:)``, for the content of a file.
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

// MARK: - Names

/// The names of a model in XML stores: entities in upper case, properties in lower case.
struct XMLStoreNames {
    /// A property of an entity in a store.
    enum Property {
        case attribute(ResolvedEntity.Slot)
        case relationship(ResolvedEntity.Relationship)
    }

    let layout: ResolvedModel
    private let entities: [String: ResolvedEntity]
    /// Indexed by entity number less one.
    private let properties: [[String: Property]]

    /// - Throws: ``QuireError`` with code `unsupported` if names differ in case only.
    init(_ layout: ResolvedModel) throws {
        self.layout = layout
        var entities: [String: ResolvedEntity] = [:]
        var properties: [[String: Property]] = []
        for entity in layout.entities {
            if let other = entities.updateValue(entity, forKey: entity.name.uppercased()) {
                throw QuireError(
                    .unsupported,
                    "An XML store writes entity names in upper case and cannot distinguish “\(other.name)” from “\(entity.name)”; rename one, or use another store type.",
                    entity: entity.name)
            }
            var own: [String: Property] = [:]
            var names: [String: String] = [:]
            func add(_ name: String, _ property: Property) throws {
                let key = name.lowercased()
                if let other = names.updateValue(name, forKey: key) {
                    throw QuireError(
                        .unsupported,
                        "An XML store writes property names in lower case and cannot distinguish “\(other)” from “\(name)” of “\(entity.name)”; rename one, or use another store type.",
                        entity: entity.name, property: name)
                }
                own[key] = property
            }
            for slot in entity.slots where slot.isStored && slot.attribute != nil {
                try add(slot.name, .attribute(slot))
            }
            for relationship in entity.relationships
            where !relationship.description.isTransient {
                try add(relationship.name, .relationship(relationship))
            }
            properties.append(own)
        }
        self.entities = entities
        self.properties = properties
    }

    func entity(_ name: String) -> ResolvedEntity? { entities[name.uppercased()] }

    func property(_ name: String, of entity: ResolvedEntity) -> Property? {
        properties[entity.number - 1][name.lowercased()]
    }
}
