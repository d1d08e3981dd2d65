import Foundation
import Logging
public import QuireModel
internal import QuireModelFiles
public import QuireStore
internal import QuireSystem

/// An object that an ``AtomicStore`` has read from its file.
public struct AtomicStoreNode: Sendable {
    /// Its entity.
    public let entity: ResolvedEntity
    /// Its primary key, unique in the file.
    public let primaryKey: Int64
    /// The number of saves of the object; 1 if the file does not contain it.
    public let version: UInt32
    var values: ContiguousArray<AttributeValue>
    var related: [(relationship: ResolvedEntity.Relationship, keys: [Int64])] = []

    /// Creates an object without values.
    public init(entity: ResolvedEntity, primaryKey: Int64, version: UInt32 = 1) {
        self.entity = entity
        self.primaryKey = primaryKey
        self.version = version
        values = ContiguousArray(repeating: .null, count: entity.slots.count)
    }

    /// Sets the value of an attribute, which must be of the attribute's type.
    public mutating func set(_ value: AttributeValue, at slot: ResolvedEntity.Slot) {
        values[slot.index] = value
    }

    /// Sets the members of a to-one or to-many relationship, by primary keys, in its order.
    public mutating func setRelated(
        _ primaryKeys: [Int64], through relationship: ResolvedEntity.Relationship
    ) {
        related.append((relationship, primaryKeys))
    }
}

/// Collects the objects that an ``AtomicStore`` reads from its file, in any order, and connects them.
///
/// One side of a relationship suffices; if both sides contradict each other, the to-one side takes precedence. Dangling
/// references become nil.
public struct AtomicStoreLoader {
    /// The model, with inheritance and inverses resolved.
    public let layout: ResolvedModel
    private var contents: AtomicContents
    private let file: String?
    private var nodes: ContiguousArray<AtomicStoreNode> = []
    /// The position of the node of a primary key.
    private var positions: [Int64: Int] = [:]
    /// Members as they were listed, by node and position among the to-many relationships.
    private var listed: [List: OrderedKeys] = [:]

    private struct List: Hashable {
        let node: Int
        let index: Int
    }

    /// Positions of nodes in an order, each once.
    private struct OrderedKeys {
        var nodes: ContiguousArray<Int> = []
        var set: Set<Int> = []

        mutating func append(_ node: Int) {
            if set.insert(node).inserted { nodes.append(node) }
        }
    }

    init(_ contents: AtomicContents, file: String?) {
        self.contents = contents
        self.file = file
        layout = contents.layout
    }

    /// Adds an object.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if its primary key is out of range or was already added, or its entity
    ///   is abstract.
    public mutating func add(_ node: AtomicStoreNode) throws {
        guard node.primaryKey > 0, node.primaryKey <= ManagedObjectID.maximumPrimaryKey else {
            throw damaged(node, "its primary key is out of range")
        }
        if node.entity.isAbstract { throw damaged(node, "its entity is abstract") }
        guard positions.updateValue(nodes.count, forKey: node.primaryKey) == nil else {
            throw damaged(node, "another object has the same primary key")
        }
        nodes.append(node)
    }

    /// Records the greatest primary key that an object has had.
    public mutating func noteGreatestPrimaryKey(_ key: Int64) {
        guard key <= ManagedObjectID.maximumPrimaryKey else { return }
        contents.maximumKey = max(contents.maximumKey, key)
    }

    private func damaged(_ node: AtomicStoreNode, _ reason: String) -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(node.entity.name)/p\(node.primaryKey)” of “\(file ?? "")” cannot be read: \(reason); the store is damaged.",
            entity: node.entity.name, file: file)
    }

    // MARK: - Putting together

    /// The contents with all objects.
    mutating func finish() throws -> AtomicContents {
        for position in nodes.indices { try resolve(position) }
        completeReferences()
        let members = completedLists()
        var builder = RowSetBuilder(
            layout: layout, store: contents.identity, expectedRows: nodes.count)
        for position in nodes.indices {
            let node = nodes[position]
            builder.beginRow(bits(position), entity: node.entity, version: node.version)
            for slot in node.entity.slots where slot.isStored {
                do { try builder.set(node.values[slot.index], at: slot) } catch {
                    throw damaged(node, "“\(slot.name)” does not have its declared type")
                }
            }
            builder.endRow()
        }
        contents.set(builder.finish())
        for (list, found) in members {
            let entity = nodes[list.node].entity
            let relationship = entity.relationships[entity.toManyRelationships[list.index]]
            contents.setMembers(
                ContiguousArray(found.map(bits)), of: bits(list.node), relationship)
        }
        return contents
    }

    private func bits(_ position: Int) -> UInt64 {
        UInt64(nodes[position].entity.number) << 48 | contents.identity.numberBits
            | UInt64(nodes[position].primaryKey)
    }

    private func objectID(_ position: Int) -> ManagedObjectID {
        ManagedObjectID(bits: bits(position), store: contents.identity)
    }

    private func position(of id: ManagedObjectID) -> Int? { positions[id.primaryKey] }

    /// Resolves the destinations of a node's relationships.
    private mutating func resolve(_ position: Int) throws {
        let node = nodes[position]
        for (relationship, keys) in node.related where !relationship.description.isTransient {
            let destination = layout.destination(of: relationship)
            for key in keys {
                guard let target = positions[key] else {
                    Logger(label: "quire.store").warning(
                        "\(file ?? ""): “\(relationship.name)” of \(node.entity.name)/p\(node.primaryKey) refers to \(key), which does not exist"
                    )
                    continue
                }
                guard destination.subtree.contains(nodes[target].entity.number) else {
                    throw damaged(
                        node,
                        "“\(relationship.name)” refers to a “\(nodes[target].entity.name)”, not to a “\(destination.name)”"
                    )
                }
                if let index = relationship.toManyIndex {
                    listed[List(node: position, index: index), default: OrderedKeys()]
                        .append(target)
                } else if let slot = relationship.slot {
                    guard nodes[position].values[slot].isNull else {
                        throw damaged(node, "“\(relationship.name)” refers to several objects")
                    }
                    nodes[position].values[slot] = .objectID(objectID(target))
                }
            }
        }
        nodes[position].related = []
    }

    /// Sets references known only from the inverse.
    private mutating func completeReferences() {
        for position in nodes.indices {
            for relationship in nodes[position].entity.relationships {
                guard let slot = layout.inverse(of: relationship)?.slot else { continue }
                let targets: ContiguousArray<Int>
                if let index = relationship.toManyIndex {
                    targets = listed[List(node: position, index: index)]?.nodes ?? []
                } else if let own = relationship.slot,
                    case .objectID(let id) = nodes[position].values[own],
                    let target = self.position(of: id)
                {
                    targets = [target]
                } else {
                    continue
                }
                for target in targets where nodes[target].values[slot].isNull {
                    nodes[target].values[slot] = .objectID(objectID(position))
                }
            }
        }
    }

    /// The members of all to-many relationships, by the positions of nodes.
    private func completedLists() -> [List: ContiguousArray<Int>] {
        var found: [List: OrderedKeys] = [:]
        for (list, members) in listed {
            let entity = nodes[list.node].entity
            let relationship = entity.relationships[entity.toManyRelationships[list.index]]
            guard let slot = layout.inverse(of: relationship)?.slot else {
                for member in members.nodes {
                    found[list, default: OrderedKeys()].append(member)
                }
                continue
            }
            let owner = bits(list.node)
            for member in members.nodes {
                if case .objectID(let id) = nodes[member].values[slot], id.bits == owner {
                    found[list, default: OrderedKeys()].append(member)
                }
            }
        }
        // Members known only from the inverse come last.
        let order = nodes.indices.sorted { nodes[$0].primaryKey < nodes[$1].primaryKey }
        for position in order {
            for relationship in nodes[position].entity.relationships {
                guard let inverse = layout.inverse(of: relationship)?.toManyIndex else { continue }
                if let slot = relationship.slot {
                    if case .objectID(let id) = nodes[position].values[slot],
                        let owner = self.position(of: id)
                    {
                        found[List(node: owner, index: inverse), default: OrderedKeys()]
                            .append(position)
                    }
                } else if let index = relationship.toManyIndex {
                    for owner in listed[List(node: position, index: index)]?.nodes ?? [] {
                        found[List(node: owner, index: inverse), default: OrderedKeys()]
                            .append(position)
                    }
                }
            }
        }
        return Dictionary(
            uniqueKeysWithValues: found.map { list, members in
                let entity = nodes[list.node].entity
                let isOrdered = entity.relationships[entity.toManyRelationships[list.index]]
                    .isOrdered
                return (
                    list,
                    isOrdered
                        ? members.nodes
                        : ContiguousArray(
                            members.nodes.sorted { nodes[$0].primaryKey < nodes[$1].primaryKey })
                )
            })
    }
}

// MARK: - Objects

/// All objects of an ``AtomicStore``, to be written to its file.
public struct AtomicStoreObjects: Sendable {
    package let contents: AtomicContents
    /// The metadata for the file: Core Data's keys, applications' values, the model and the records of saves.
    public let metadata: StoreMetadata

    init(_ contents: AtomicContents, model: ManagedObjectModel) {
        self.contents = contents
        metadata = contents.metadata.carrying(
            model: contents.carriesModel ? model : nil, records: contents.records)
    }

    /// The model, with inheritance and inverses resolved.
    public var layout: ResolvedModel { contents.layout }
    /// The number of objects.
    public var count: Int { contents.count }
    /// The greatest primary key that an object has had.
    public var maximumPrimaryKey: Int64 { contents.maximumKey }

    /// Calls a closure with each object, by primary key.
    ///
    /// - Complexity: O(*n* log *n*).
    public func forEach(_ body: (AtomicStoreObject) throws -> Void) rethrows {
        var rows: ContiguousArray<AtomicRow> = []
        rows.reserveCapacity(count)
        contents.forEachRow { rows.append($0) }
        rows.sort {
            $0.identifierBits.primaryKeyBits < $1.identifierBits.primaryKeyBits
        }
        for row in rows {
            try body(
                AtomicStoreObject(contents: contents, row: row, snapshot: contents.snapshot(row)))
        }
    }
}

/// An object of ``AtomicStoreObjects``.
public struct AtomicStoreObject: Sendable {
    let contents: AtomicContents
    let row: AtomicRow
    /// Its values and its version.
    public let snapshot: ObjectSnapshot

    /// Its entity.
    public var entity: ResolvedEntity { snapshot.entity }
    /// Its primary key, unique in the store.
    public var primaryKey: Int64 { snapshot.objectID.primaryKey }

    /// The primary keys of a relationship's members, in the relationship's order, or ascending. Dangling references are
    /// omitted.
    public func primaryKeys(of relationship: ResolvedEntity.Relationship) -> [Int64] {
        contents.related(row.identifierBits, through: relationship).map(\.objectID.primaryKey)
    }
}

extension StoreMetadata {
    /// The metadata for the file, including the model and records.
    func carrying(model: ManagedObjectModel?, records: [String: String]) -> StoreMetadata {
        var metadata = self
        metadata.values[Key.model] = model.map {
            .string(String(decoding: $0.modelXML(), as: UTF8.self))
        }
        metadata.values[Key.records] =
            records.isEmpty ? nil : .dictionary(records.mapValues { .string($0) })
        return metadata
    }

    /// The model that a file carries.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it cannot be read.
    package func carriedModel(path: String) throws -> ManagedObjectModel? {
        guard let xml = values[Key.model]?.string else { return nil }
        do {
            return try ManagedObjectModel(modelXML: Data(xml.utf8), name: Key.model)
        } catch let error as QuireError {
            throw QuireError(
                .invalidFormat, "The model in “\(path)” cannot be read: \(error.message)",
                file: path, underlying: error)
        }
    }

    /// The records of saves in a file.
    var carriedRecords: [String: String] {
        (values[Key.records]?.dictionary ?? [:]).compactMapValues(\.string)
    }

    /// The metadata without the model and records.
    var withoutCarried: StoreMetadata {
        var metadata = self
        metadata.values[Key.model] = nil
        metadata.values[Key.records] = nil
        return metadata
    }
}
