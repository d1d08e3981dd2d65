import Foundation
import Quire
import QuireStore

/// Writes objects as JSON lines: a file for each entity, with an object per line, in the order of keys.
///
/// A line has the same members and values as an object in `quire dump`: `id` is the identifier as a URI, a to-one relationship is an
/// identifier or null, a to-many relationship an array of identifiers, a composite attribute an object, and a property called
/// `id` or `entity` is `property.id` or `property.entity`. Transient properties are left out. A binary value larger than
/// ``TableExport/maximumInlineSize`` is `{"bytes": 300000, "path": "data/Book/12.cover"}`.
struct JSONLinesTables {
    private let export: TableExport
    private let folder: String

    init(_ export: TableExport, folder: String) {
        self.export = export
        self.folder = folder
    }

    /// Writes the files.
    ///
    /// - Returns: Their descriptions.
    func write() throws -> [JSONValue] {
        var names = UniqueNames()
        let files = try export.files(&names)
        try countObjects(files.map(\.entity))
        let resources = TableDescription.resourceNames(files.map(\.name))
        let entities = Dictionary(
            uniqueKeysWithValues: files.map { ($0.entity.number, resources[$0.name] ?? "") })
        return try files.map { entity, file in
            let properties = Property.stored(of: entity)
            try write(entity, properties, file: file)
            let foreignKeys = properties.compactMap { property -> JSONValue? in
                guard case .toOne(let slot) = property.content,
                    let index = entity.slots[slot].relationshipIndex
                else { return nil }
                return TableDescription.foreignKey(
                    property.key,
                    to: export.store.layout.destination(of: entity.relationships[index]), entities)
            }
            return TableDescription.resource(
                resources[file] ?? "", file: file, format: .jsonLines, title: entity.name,
                fields: [TableDescription.field("id", "string", format: "uri")]
                    + properties.map { $0.field(of: entity) },
                primaryKey: .string("id"), foreignKeys: foreignKeys)
        }
    }

    private func countObjects(_ entities: [ResolvedEntity]) throws {
        guard let progress = export.progress else { return }
        var count = 0
        for entity in entities {
            count += try export.store.count(matching: FetchSpecification(only: entity.name))
        }
        progress.totalUnitCount = Int64(count)
        progress.completedUnitCount = 0
    }

    private func write(_ entity: ResolvedEntity, _ properties: [Property], file name: String) throws
    {
        let toMany = properties.compactMap { property in
            if case .toMany(let relationship) = property.content { relationship } else { nil }
        }
        let objects = try ObjectCursor(entity, of: export.store, toMany: toMany)
        let file = try TableFile(at: FileSystem.path(folder, name + ".jsonl"))
        var count: Int64 = 0
        while let object = try objects.next() {
            count += 1
            if count & 0x7F == 0 {
                try export.checkCancelled()
                export.progress?.completedUnitCount += 0x80
            }
            var members: [String: JSONValue] = [
                "id": .string(object.objectID.uriRepresentation)
            ]
            for property in properties {
                members[property.key] = try value(property, of: object, objects, name)
            }
            try file.write { bytes in
                JSONValue.object(members).write(to: &bytes)
                bytes.append(UInt8(ascii: "\n"))
            }
        }
        try file.finish()
        export.progress?.completedUnitCount += count & 0x7F
    }

    // MARK: - Values

    private func value(
        _ property: Property, of object: ObjectSnapshot, _ objects: ObjectCursor, _ file: String
    ) throws -> JSONValue {
        switch property.content {
        case .attribute(let slot): return try value(of: object, at: slot, file)
        case .toOne(let slot): return JSONValue(try object.value(at: slot), as: .objectID)
        case .composite(let slots):
            var tree: [String: JSONValue] = [:]
            for slot in slots where object.entity.slots[slot].isStored {
                let path = object.entity.slots[slot].name.split(separator: ".").dropFirst()
                Self.insert(try value(of: object, at: slot, file), at: path, into: &tree)
            }
            return .object(tree)
        case .toMany(let relationship):
            var ids = objects.members(object, relationship)
            if !relationship.isOrdered {
                ids.sort { ($0.entityName, $0.primaryKey) < ($1.entityName, $1.primaryKey) }
            }
            return .array(ids.map { .string($0.uriRepresentation) })
        }
    }

    private func value(
        of object: ObjectSnapshot, at slot: Int, _ file: String
    ) throws -> JSONValue {
        let type = object.entity.slots[slot].attribute?.type ?? .undefined
        let value = try object.valueWithoutLoading(at: slot)
        let content: ExternalData
        switch value {
        case .external(let data): content = data
        case .binary(let data) where data.count > TableExport.maximumInlineSize:
            content = ExternalData(data)
        default: return JSONValue(value, as: type)
        }
        guard content.size > TableExport.maximumInlineSize else {
            var data = Data()
            try content.forEachVerifiedBlock { data.append(contentsOf: $0) }
            return JSONValue(.binary(data), as: type)
        }
        let path = try export.writeValue(
            of: object.entity.slots[slot].name, row: object.objectID.primaryKey, table: file,
            in: folder, content.forEachVerifiedBlock)
        return .object(["path": .string(path), "bytes": .integer(Int64(content.size))])
    }

    private static func insert(
        _ value: JSONValue, at path: ArraySlice<Substring>, into tree: inout [String: JSONValue]
    ) {
        guard let first = path.first.map(String.init) else { return }
        if path.count == 1 {
            tree[first] = value
            return
        }
        var inner: [String: JSONValue] = [:]
        if case .object(let present)? = tree[first] { inner = present }
        insert(value, at: path.dropFirst(), into: &inner)
        tree[first] = .object(inner)
    }

    // MARK: - Properties

    /// A member of each object.
    private struct Property {
        enum Content {
            case attribute(slot: Int)
            case composite(slots: Range<Int>)
            case toOne(slot: Int)
            case toMany(ResolvedEntity.Relationship)
        }

        var key: String
        var content: Content

        /// The stored properties of an entity, in the order of their names.
        static func stored(of entity: ResolvedEntity) -> [Property] {
            entity.propertyNames.compactMap { name in
                let content: Content? =
                    switch entity.properties[name] {
                    case .attribute(let slot):
                        entity.slots[slot].isStored ? .attribute(slot: slot) : nil
                    case .composite(let slots):
                        slots.contains { entity.slots[$0].isStored }
                            ? .composite(slots: slots) : nil
                    case .relationship(let index):
                        content(of: entity.relationships[index])
                    case .fetched, nil: nil
                    }
                return content.map { Property(key: JSONValue.key(ofProperty: name), content: $0) }
            }
        }

        private static func content(of relationship: ResolvedEntity.Relationship) -> Content? {
            if relationship.description.isTransient { return nil }
            return relationship.slot.map { .toOne(slot: $0) } ?? .toMany(relationship)
        }

        /// The description of the field.
        func field(of entity: ResolvedEntity) -> JSONValue {
            switch content {
            case .attribute(let slot):
                TableDescription.field(key, entity.slots[slot].attribute?.type ?? .undefined)
            case .composite: TableDescription.field(key, "object")
            case .toOne: TableDescription.field(key, "string", format: "uri")
            case .toMany: TableDescription.field(key, "array")
            }
        }
    }
}
