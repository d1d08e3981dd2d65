import Foundation
internal import QuireModel
internal import QuireModelFiles
internal import QuireStore
internal import QuireSystem

/// Writes the archives of a binary store as Core Data does.
struct BinaryStoreWriter {
    private let plans: [BinaryStorePlan]

    init(_ layout: ModelLayout) { plans = layout.entities.map(BinaryStorePlan.init) }

    /// The bytes of a store.
    func data(of objects: AtomicStoreObjects) throws -> Data {
        BinaryStoreContainer(
            objects: try archive(objects), metadata: archive(objects.metadata),
            greatestKey: objects.greatestPrimaryKey
        ).data
    }

    private static let nodeClass = ["NSDictionaryMapNode", "NSStoreMapNode", "NSObject"]

    private func archive(_ objects: AtomicStoreObjects) throws -> Data {
        var writer = KeyedArchiveWriter()
        var pairs: [(key: ArchiveValue, value: ArchiveValue)] = []
        try objects.forEach { object in
            let plan = plans[object.entity.number - 1]
            var values: [ArchiveValue] = []
            for slot in plan.places {
                let value = try slot.map { try object.snapshot.value(at: $0.index) } ?? .null
                values.append(writer.add(scalar: Self.scalar(value)))
            }
            var related: [(key: ArchiveValue, value: ArchiveValue)] = []
            for relationship in plan.relationships {
                let keys = object.primaryKeys(of: relationship)
                if keys.isEmpty { continue }
                let name = writer.add(relationship.name)
                let members = keys.map { writer.add(scalar: .integer($0)) }
                related.append(
                    (key: name, value: writer.add(array: members, mutable: relationship.isToMany)))
            }
            var fields: [ArchiveValue.Entry] = []
            if !related.isEmpty {
                fields.append(
                    .init("NSRelatedNodes", writer.add(dictionary: related, mutable: true)))
            }
            fields.append(.init("NSAttributeValues", writer.add(array: values)))
            fields.append(.init("NSPrimaryKey64", .integer(object.primaryKey)))
            fields.append(.init("NSEntityName", writer.add(object.entity.name)))
            let key = writer.add(scalar: .integer(object.primaryKey))
            pairs.append((key: key, value: writer.add(Self.nodeClass, fields)))
        }
        let map = writer.add(dictionary: pairs, mutable: true)
        return writer.data(top: [.init("mapData", map)])
    }

    private func archive(_ metadata: StoreMetadata) -> Data {
        var values = metadata.values
        values[StoreMetadata.Key.storeUUID] = .string(metadata.storeUUID)
        values[StoreMetadata.Key.storeType] = .string(StoreType.binary.rawValue)
        var writer = KeyedArchiveWriter()
        let root = writer.add(propertyList: .dictionary(values))
        return writer.data(top: [.init("metadata", root)])
    }

    /// A value as it is archived.
    private static func scalar(_ value: AttributeValue) -> KeyedArchive.Scalar {
        switch value {
        // Rows of such a store have their bytes with them.
        case .null, .objectID, .composite, .external: .null
        case .integer(let number): .integer(number)
        case .double(let number): .real(number)
        case .boolean(let truth): .boolean(truth)
        case .decimal(let number): .decimal(number)
        case .string(let text): .string(text)
        case .date(let date): .date(date)
        case .binary(let data): .data(data)
        case .uuid(let uuid): .uuid(uuid)
        case .uri(let uri): .url(uri)
        }
    }
}
