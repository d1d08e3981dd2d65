import Foundation
internal import QuireModelFiles
internal import QuireStore
internal import QuireSystem

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
            .invalidFormat, "“\(path)” is no binary store that can be read: \(reason).",
            subject: .init(file: path))
    }

    /// What the store says of itself.
    func metadata() throws -> StoreMetadata {
        let archive = try KeyedArchive(container.metadata, name: path)
        guard let pairs = try archive.dictionary(archive.top["metadata"]) else {
            throw damaged("it has no metadata")
        }
        var values: [String: PropertyListValue] = [:]
        var budget = Self.greatestValueCount
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
    private static let greatestValueCount = 100_000

    /// Calls a closure with each object.
    func forEachNode(_ body: (Node) throws -> Void) throws {
        let archive = try KeyedArchive(container.objects, name: path)
        guard let pairs = try archive.dictionary(archive.top["mapData"]) else {
            throw damaged("it has no objects")
        }
        // The number of an array says how often it may be read, lest a small file makes much of itself.
        var budget = container.objects.count * 16
        for (_, value) in pairs {
            guard let object = try archive.object(value),
                let entity = try archive.string(object["NSEntityName"]),
                let key = try archive.integer(object["NSPrimaryKey64"] ?? object["NSPrimaryKey"])
            else { throw damaged("there is an object without entity or primary key") }
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
                        throw damaged("“\(name)” leads to something that is no object")
                    }
                    keys.append(key)
                    budget -= 1
                }
                node.related.append((name, keys, isList))
            }
            if budget < 0 { throw damaged("it names the same values too often") }
            try body(node)
        }
    }
}

extension KeyedArchive {
    /// The value of an attribute. A transformable value that is archived as an object of its own cannot be told.
    fileprivate func attributeValue(_ value: ArchiveValue) throws -> Scalar? { try scalar(value) }
}
