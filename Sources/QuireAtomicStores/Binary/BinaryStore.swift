public import Foundation
public import QuireModel
internal import QuireModelFiles
public import QuireStore
internal import QuireSystem

/// A store in Core Data's binary format: keyed archives of all objects and of the metadata, held in memory, and rewritten
/// completely by each save.
///
/// Files created by Core Data open with the model they were created with. They contain the values of an object's attributes in an
/// array, without names, so with another model values may be assigned to the wrong attribute of the same type; `BinaryStorePlan`
/// documents the order. ``inferredModel(at:)`` infers a model from a file without one, with names such as `value001`. Files
/// created by Quire contain their model.
///
/// The format does not store object versions: they are counted from the opening of the store.
public final class BinaryStore: AtomicStore, @unchecked Sendable {
    /// `Binary`.
    public override class var storeType: StoreType { .binary }

    /// Reads the metadata of a file.
    public override class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata {
        try BinaryStoreReader(data, path: path).metadata()
    }

    /// Reads the objects of a file.
    public override func load(_ data: Data, into objects: inout AtomicStoreLoader) throws {
        let reader = try BinaryStoreReader(data, path: path ?? "")
        let plans = layout.entities.map(BinaryStorePlan.init)
        objects.noteGreatestPrimaryKey(reader.container.maximumKey)
        try reader.forEachNode { found in
            guard let entity = layout.entity(named: found.entity) else {
                throw misfit("“\(found.entity)” is not an entity of the model", found.entity)
            }
            let plan = plans[entity.number - 1]
            guard plan.places.count == found.values.count else {
                throw misfit(
                    "objects of “\(entity.name)” have \(found.values.count) values instead of \(plan.places.count)",
                    entity.name)
            }
            var node = AtomicStoreNode(entity: entity, primaryKey: found.key)
            for (slot, value) in zip(plan.places, found.values) {
                guard let value else { continue }
                guard let slot else {
                    throw misfit(
                        "objects of “\(entity.name)” have a value in the place of a relationship",
                        entity.name)
                }
                guard let type = slot.attribute?.type, let kept = Self.value(value, as: type) else {
                    throw misfit(
                        "“\(entity.name).\(slot.name)” does not have the type of the value in the file",
                        entity.name, slot.name)
                }
                node.set(kept, at: slot)
            }
            for (name, keys, _) in found.related {
                guard let relationship = entity.relationship(named: name),
                    !relationship.description.isTransient
                else {
                    throw misfit(
                        "the model has no relationship “\(name)” of “\(entity.name)”", entity.name,
                        name)
                }
                node.setRelated(keys, through: relationship)
            }
            try objects.add(node)
        }
    }

    /// The archived value as an attribute value; `nil` if its type does not match.
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

    /// Encodes all objects as the content of a file.
    public override func save(_ objects: AtomicStoreObjects) throws -> Data {
        try BinaryStoreWriter(layout).data(of: objects)
    }
}

extension BinaryStore {
    /// Infers a model for a store without one. The file names entities and relationships, but not attributes: they are called
    /// `value001`, `value002` … by position, and have the types of their values.
    ///
    /// Positions without any value become string attributes, as their type is unknown. Inheritance is inferred only where a
    /// relationship has members of several entities. Two relationships are inverses of each other if their references are exactly
    /// reversed. Each relationship takes a position after all values, as in files; the inferred model opens the file.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `inputOutput`.
    public static func inferredModel(at path: String) throws -> ManagedObjectModel {
        let (file, data) = try read(path)
        return try inferredModel(of: data, path: file.path)
    }

    /// As ``inferredModel(at:)``, for the content of a file.
    package static func inferredModel(of data: Data, path: String) throws -> ManagedObjectModel {
        let reader = try BinaryStoreReader(data, path: path)
        var inference = BinaryModelInference()
        try reader.forEachNode { inference.note($0) }
        return try inference.model(path: path)
    }
}

// MARK: - The container

/// The container of a binary store: 64 bytes, then the archive of the objects, then that of the metadata. All numbers have
/// their most significant byte first.
///
///     0   "CoreData"
///     8   UInt32   1
///     12  UInt32   0x08040800
///     16  UInt64   where the metadata begins
///     24  UInt64   its length
///     32  UInt64   where the objects begin: 64
///     40  UInt64   their length
///     48  UInt64   the greatest primary key
///     56  UInt64   0
struct BinaryStoreContainer {
    var objects: Data
    var metadata: Data
    var maximumKey: Int64

    private static let magic = Data("CoreData".utf8)
    private static let headerSize = 64
    private static let version: UInt32 = 0x0804_0800

    init(objects: Data, metadata: Data, maximumKey: Int64) {
        self.objects = objects
        self.metadata = metadata
        self.maximumKey = maximumKey
    }

    /// Reads a container.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    init(_ data: Data, path: String) throws {
        func damaged(_ reason: String) -> QuireError {
            QuireError(
                .invalidFormat, "“\(path)” is not a readable binary store: \(reason).", file: path)
        }
        let data = data.startIndex == 0 ? data : Data(data)
        guard data.count >= Self.headerSize, data.starts(with: Self.magic) else {
            throw damaged("its header is not valid")
        }
        func number(_ offset: Int, _ size: Int = 8) -> UInt64 {
            data[offset..<offset + size].reduce(0) { $0 << 8 | UInt64($1) }
        }
        guard number(8, 4) == 1 else { throw damaged("its version is \(number(8, 4))") }
        func part(_ offset: Int, _ name: String) throws -> Data {
            let start = number(offset)
            let count = number(offset + 8)
            guard start >= Self.headerSize, start <= data.count,
                count <= UInt64(data.count) - start
            else { throw damaged("its \(name) is outside the file") }
            return Data(data[Int(start)..<Int(start + count)])
        }
        metadata = try part(16, "metadata")
        objects = try part(32, "objects")
        maximumKey = Int64(exactly: number(48)) ?? 0
    }

    /// The bytes of the container.
    var data: Data {
        var bytes = [UInt8](Self.magic)
        func append(_ number: UInt64, _ size: Int) {
            for index in (0..<size).reversed() {
                bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(index * 8)))
            }
        }
        append(1, 4)
        append(UInt64(Self.version), 4)
        append(UInt64(Self.headerSize + objects.count), 8)
        append(UInt64(metadata.count), 8)
        append(UInt64(Self.headerSize), 8)
        append(UInt64(objects.count), 8)
        append(UInt64(maximumKey), 8)
        append(0, 8)
        return Data(bytes) + objects + metadata
    }
}

// MARK: - Places of values

/// The layout of an entity's values in a binary store: an array with a position for each property.
///
/// The file does not document the order; this fits the few known real files. The superentity's properties come first. Of an
/// entity's own properties attributes precede relationships; both are sorted by name. Positions of relationships are empty:
/// their members are stored elsewhere in the node. So `LMEnvironmentDomain` (name, order, uuid; environments, variables) has
/// five values, the last two empty, and `LMRequest` begins with the four attributes and two relationships of
/// `LMRequestTreeItem`. The XML stores of the same program have the same properties, in a compatible order.
///
/// Not seen in any file, hence defined by Quire: elements of composite attributes take the composite's place, one position
/// each; transient properties have none.
struct BinaryStorePlan {
    /// The slots of attributes by position; `nil` is a relationship's position.
    let places: [ResolvedEntity.Slot?]
    let relationships: [ResolvedEntity.Relationship]

    init(_ entity: ResolvedEntity) {
        var places: [ResolvedEntity.Slot?] = []
        let relationships = entity.relationships.filter { !$0.description.isTransient }
        let attributes = entity.slots.filter { $0.isStored && $0.attribute != nil }
        // A superentity has a lower number than its sub-entities.
        for owner in Set((attributes.map(\.ownerNumber)) + relationships.map(\.ownerNumber))
            .sorted()
        {
            places += attributes.filter { $0.ownerNumber == owner }.sorted { $0.name < $1.name }
            places += relationships.filter { $0.ownerNumber == owner }.map { _ in nil }
        }
        self.places = places
        self.relationships = relationships.sorted {
            ($0.ownerNumber, $0.name) < ($1.ownerNumber, $1.name)
        }
    }
}

// MARK: - Reading

/// Reads the archives of a binary store.
struct BinaryStoreReader {
    let container: BinaryStoreContainer
    let path: String

    /// An object as it is archived.
    struct Node {
        let entity: String
        let key: Int64
        var values: [KeyedArchive.Scalar?]
        var related: [(name: String, keys: [Int64], isList: Bool)]
    }

    init(_ data: Data, path: String) throws {
        container = try BinaryStoreContainer(data, path: path)
        self.path = path
    }

    private func damaged(_ reason: String) -> QuireError {
        QuireError(
            .invalidFormat, "“\(path)” is not a readable binary store: \(reason).", file: path)
    }

    /// The metadata of the store.
    func metadata() throws -> StoreMetadata {
        let archive = try KeyedArchive(container.metadata, name: path)
        guard let pairs = try archive.dictionary(archive.top["metadata"]) else {
            throw damaged("it has no metadata")
        }
        var values: [String: PropertyListValue] = [:]
        var budget = Self.maximumValueCount
        for (key, value) in pairs {
            guard let name = try archive.string(key) else { continue }
            values[name] = try archive.propertyList(value, budget: &budget)
        }
        guard let uuid = values[StoreMetadata.Key.storeUUID]?.string, !uuid.isEmpty,
            !uuid.contains("/")
        else { throw damaged("it has no UUID") }
        values[StoreMetadata.Key.storeUUID] = nil
        return StoreMetadata(storeUUID: uuid.uppercased(), values: values)
    }

    /// More values than metadata has. Archives may name a value many times over.
    private static let maximumValueCount = 100_000

    /// Calls a closure with each object.
    func forEachNode(_ body: (Node) throws -> Void) throws {
        let archive = try KeyedArchive(container.objects, name: path)
        guard let pairs = try archive.dictionary(archive.top["mapData"]) else {
            throw damaged("it has no objects")
        }
        // Limits how often arrays may be expanded, so that a small file cannot exhaust memory.
        var budget = container.objects.count * 16
        for (_, value) in pairs {
            guard let object = try archive.object(value),
                let entity = try archive.string(object["NSEntityName"]),
                let key = try archive.integer(object["NSPrimaryKey64"] ?? object["NSPrimaryKey"])
            else { throw damaged("an object has no entity or no primary key") }
            var node = Node(entity: entity, key: key, values: [], related: [])
            for value in try archive.list(object["NSAttributeValues"]) ?? [] {
                let scalar = try archive.attributeValue(value)
                node.values.append(scalar == .null ? nil : scalar)
                budget -= 1
            }
            for (name, value) in try archive.dictionary(object["NSRelatedNodes"]) ?? [] {
                guard let name = try archive.string(name) else {
                    throw damaged("a relationship has no name")
                }
                let isList = try archive.objectIfAny(value)?.className.contains("Mutable") ?? true
                var keys: [Int64] = []
                for key in try archive.list(value) ?? [] {
                    guard let key = try archive.integer(key) else {
                        throw damaged("“\(name)” refers to something that is not an object")
                    }
                    keys.append(key)
                    budget -= 1
                }
                node.related.append((name, keys, isList))
            }
            if budget < 0 { throw damaged("it refers to the same values too often") }
            try body(node)
        }
    }
}

extension KeyedArchive {
    /// The value of an attribute. A transformable value archived as an object is not supported.
    fileprivate func attributeValue(_ value: ArchiveValue) throws -> Scalar? { try scalar(value) }
}

// MARK: - Writing

/// Writes the archives of a binary store as Core Data does.
struct BinaryStoreWriter {
    private let plans: [BinaryStorePlan]

    init(_ layout: ResolvedModel) { plans = layout.entities.map(BinaryStorePlan.init) }

    /// The bytes of a store.
    func data(of objects: AtomicStoreObjects) throws -> Data {
        BinaryStoreContainer(
            objects: try archive(objects), metadata: archive(objects.metadata),
            maximumKey: objects.maximumPrimaryKey
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
        // Rows of such a store have inline values.
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
