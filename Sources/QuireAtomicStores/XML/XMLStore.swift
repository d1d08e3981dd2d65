public import Foundation
public import QuireModel
public import QuireStore
internal import QuireSystem

/// A store in Core Data's XML format: one file that people can read, held in memory, and written as a whole by each save.
///
/// Files that Core Data has made open here, with the model they were made with, and what is saved here keeps their form,
/// their metadata and their identifiers. They do not carry their model; ``inferredModel(at:)`` makes one of what they
/// hold. Files made here carry it, so they open without anything else.
///
/// The format has no versions of objects: they count from when the store was opened.
///
/// ```swift
/// let store = try XMLStore.create(at: "library.xml", model: model)
/// ```
public final class XMLStore: AtomicStore, @unchecked Sendable {
    /// `XML`.
    public override class var storeType: StoreType { .xml }

    /// Core Data's first object is `z102`.
    public override class var firstPrimaryKey: Int64 { 102 }

    /// Reads what a file says of itself.
    public override class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata {
        try XMLStoreReader(data, path: path).head().metadata
    }

    /// Refuses a model with names that differ in case only.
    public override class func check(_ layout: ModelLayout) throws {
        _ = try XMLStoreNames(layout)
    }

    /// Reads the objects of a file.
    public override func load(_ data: Data, into objects: inout AtomicStoreLoader) throws {
        let path = path ?? ""
        let reader = try XMLStoreReader(data, path: path)
        let names = try XMLStoreNames(layout)
        if let greatest = try reader.head().greatestKey {
            objects.noteGreatestPrimaryKey(greatest)
        }
        try reader.forEachObject { object in
            guard let entity = names.entity(object.type) else {
                throw unknown(
                    "“\(object.type)” is no entity of the model", entity: object.type)
            }
            var node = AtomicStoreNode(entity: entity, primaryKey: object.key)
            for (name, _, text) in object.attributes {
                guard case .attribute(let slot)? = names.property(name, of: entity),
                    let attribute = slot.attribute
                else {
                    throw unknown(
                        "“\(entity.name)” has no attribute “\(name)” in the model",
                        entity: entity.name, property: name)
                }
                do {
                    node.set(try XMLStoreValue.read(text, as: attribute.type), at: slot)
                } catch let error as QuireError {
                    throw QuireError(
                        .invalidFormat,
                        "“\(slot.name)” of \(entity.name) z\(object.key) in “\(path)” cannot be read: \(error.message)",
                        subject: .init(entity: entity.name, property: slot.name, file: path),
                        underlying: error)
                }
            }
            for relation in object.relationships {
                guard
                    case .relationship(let relationship)? = names.property(
                        relation.name, of: entity)
                else {
                    throw unknown(
                        "“\(entity.name)” has no relationship “\(relation.name)” in the model",
                        entity: entity.name, property: relation.name)
                }
                node.setRelated(relation.keys, through: relationship)
            }
            try objects.add(node)
        }
    }

    private func unknown(_ what: String, entity: String, property: String? = nil) -> QuireError {
        QuireError(
            .incompatibleModel,
            "The model does not fit “\(path ?? "")”: \(what); open the store with the model it was made with.",
            subject: .init(entity: entity, property: property, file: path))
    }

    /// Makes the bytes of a file that holds all objects.
    public override func save(_ objects: AtomicStoreObjects) throws -> Data {
        var writer = XMLStoreWriter(layout)
        let data = try writer.data(of: objects)
        guard data.count <= XMLStoreParser.greatestSize else {
            throw QuireError(
                .unsupported,
                "The objects of “\(name)” would take up \(data.count) bytes as XML, and files of more than "
                    + "\(XMLStoreParser.greatestSize) cannot be read again; keep them in a SQLite store.",
                subject: .init(file: path))
        }
        return data
    }
}
