public import Foundation
public import QuireModel
internal import QuireModelFiles
public import QuireStore
internal import QuireSystem

/// A store in Core Data's binary format: keyed archives of all objects and of the metadata, held in memory, and written as
/// a whole by each save.
///
/// Files that Core Data has made open here, with the model they were made with. They have the values of an object's
/// attributes in an array, without names, so that with another model values can come under the wrong name where their
/// types fit; `BinaryStorePlan` says which place is whose. ``inferredModel(at:)`` makes a model of a file for which there
/// is none, with names such as `value001`. Files made here carry their model.
///
/// The format has no versions of objects: they count from when the store was opened.
public final class BinaryStore: AtomicStore, @unchecked Sendable {
    /// `Binary`.
    public override class var storeType: StoreType { .binary }

    /// Reads what a file says of itself.
    public override class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata {
        try BinaryStoreReader(data, path: path).metadata()
    }

    /// Reads the objects of a file.
    public override func load(_ data: Data, into objects: inout AtomicStoreLoader) throws {
        let reader = try BinaryStoreReader(data, path: path ?? "")
        let plans = layout.entities.map(BinaryStorePlan.init)
        objects.noteGreatestPrimaryKey(reader.container.greatestKey)
        try reader.forEachNode { found in
            guard let entity = layout.entity(named: found.entity) else {
                throw misfit("“\(found.entity)” is no entity of the model", found.entity)
            }
            let plan = plans[entity.number - 1]
            guard plan.places.count == found.values.count else {
                throw misfit(
                    "objects of “\(entity.name)” have \(found.values.count) values rather than \(plan.places.count)",
                    entity.name)
            }
            var node = AtomicStoreNode(entity: entity, primaryKey: found.key)
            for (slot, value) in zip(plan.places, found.values) {
                guard let value else { continue }
                guard let slot else {
                    throw misfit(
                        "objects of “\(entity.name)” have a value where a relationship has its place",
                        entity.name)
                }
                guard let type = slot.attribute?.type, let kept = Self.value(value, as: type) else {
                    throw misfit(
                        "“\(entity.name).\(slot.name)” is not of the type that the file has",
                        entity.name, slot.name)
                }
                node.set(kept, at: slot)
            }
            for (name, keys, _) in found.related {
                guard let relationship = entity.relationship(named: name),
                    !relationship.description.isTransient
                else {
                    throw misfit(
                        "“\(entity.name)” has no relationship “\(name)” in the model", entity.name,
                        name)
                }
                node.setRelated(keys, through: relationship)
            }
            try objects.add(node)
        }
    }

    private func misfit(_ what: String, _ entity: String, _ property: String? = nil) -> QuireError {
        QuireError(
            .incompatibleModel,
            "The model does not fit “\(path ?? "")”: \(what); open the store with the model it was made with.",
            subject: .init(entity: entity, property: property, file: path))
    }

    /// An archived value as one of an attribute; `nil` if it is none of its type.
    private static func value(
        _ scalar: KeyedArchive.Scalar, as type: AttributeType
    ) -> AttributeValue? {
        switch (type, scalar) {
        case (.string, .string(let text)): .string(text)
        case (.integer16, .integer(let number)): Int16(exactly: number).map { .integer(Int64($0)) }
        case (.integer32, .integer(let number)): Int32(exactly: number).map { .integer(Int64($0)) }
        case (.integer64, .integer(let number)): .integer(number)
        case (.integer16, .boolean(let truth)), (.integer32, .boolean(let truth)),
            (.integer64, .boolean(let truth)):
            .integer(truth ? 1 : 0)
        case (.boolean, .boolean(let truth)): .boolean(truth)
        case (.boolean, .integer(let number)): .boolean(number != 0)
        case (.double, .real(let number)), (.float, .real(let number)):
            number.isNaN ? .null : .double(number)
        case (.double, .integer(let number)), (.float, .integer(let number)):
            .double(Double(number))
        case (.decimal, .decimal(let number)): number.isNaN ? .null : .decimal(number)
        case (.decimal, .integer(let number)): .decimal(Decimal(number))
        case (.date, .date(let date)):
            date.timeIntervalSinceReferenceDate.isNaN ? .null : .date(date)
        case (.binary, .data(let data)), (.transformable, .data(let data)): .binary(data)
        case (.uuid, .uuid(let uuid)): .uuid(uuid)
        case (.uri, .url(let uri)): .uri(uri)
        default: nil
        }
    }

    /// Makes the bytes of a file that holds all objects.
    public override func save(_ objects: AtomicStoreObjects) throws -> Data {
        try BinaryStoreWriter(layout).data(of: objects)
    }
}

extension BinaryStore {
    /// A model for a store of which there is none. The file names entities and relationships, but not attributes: they are
    /// called `value001`, `value002` … by their places, and have the types of their values.
    ///
    /// Places in which no object has a value are attributes without a type that could be told, hence texts. There is no
    /// inheritance but where a relationship leads to objects of several entities. Two relationships are inverses of each
    /// other if one has exactly the references of the other, reversed. Each relationship takes a place after all values, as files have it; a model made so opens the file that it was made
    /// of.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `inputOutput`.
    public static func inferredModel(at path: String) throws -> ManagedObjectModel {
        let (file, data) = try read(path)
        return try inferredModel(of: data, path: file.path)
    }

    /// As ``inferredModel(at:)``, of a file that has been read.
    package static func inferredModel(of data: Data, path: String) throws -> ManagedObjectModel {
        let reader = try BinaryStoreReader(data, path: path)
        var inference = BinaryModelInference()
        try reader.forEachNode { inference.note($0) }
        return try inference.model(path: path)
    }
}
