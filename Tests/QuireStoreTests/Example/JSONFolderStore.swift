import Foundation
import QuireAtomicStores

@testable import Quire

/// A folder with a file of JSON for each object: `Book/12.json`, beside `store.json`, which says whose folder it is.
///
///     {"version": 2, "values": {"title": "Emma", "author": "Author/3"}, "members": {"tags": ["Tag/4", "Tag/9"]}}
///
/// Values are texts, as `AttributeValue.text(as:)` makes them. Every file is replaced as a whole and durably, but a save
/// writes several: one that is cut short leaves some objects as they were. So the store does not promise atomic saves.
/// Nor does it find objects by condition: it gives all objects of an entity.
final class JSONFolderStore: IncrementalStore, @unchecked Sendable {
    override class var storeType: StoreType { StoreType(rawValue: "JSONFolder") }

    override var capabilities: StoreCapabilities {
        [
            .saving, .durableSaves, .reopening, .versions, .lastingVersions, .constraints,
            .derivedAttributes, .orderedRelationships, .exactDecimals, .lastingIdentifiers,
            .batchRequests,
        ]
    }

    /// What `store.json` holds.
    private struct Info: Codable {
        var uuid: String
        var lastKey: Int64
        /// The version hashes of the model's entities.
        var hashes: [String: Data]
    }

    /// What an object's file holds.
    private struct Object: Codable {
        var version: UInt32
        var values: [String: String]
        var members: [String: [String]]
    }

    private let lock = NSLock()
    /// The greatest primary key that has been given out. Guarded by the lock.
    private var lastKey: Int64 = 0

    // MARK: - Files

    private var folder: String { path ?? "" }

    private func file(of id: ManagedObjectID) -> String {
        "\(folder)/\(id.entityName)/\(primaryKey(of: id)).json"
    }

    private func read<Value: Decodable>(_ type: Value.Type, _ path: String) throws -> Value? {
        guard FileSystem.exists(path) else { return nil }
        do {
            return try JSONDecoder().decode(type, from: FileSystem.contents(of: path))
        } catch let error as DecodingError {
            throw QuireError(
                .invalidFormat, "“\(path)” is damaged: \(error).", subject: .init(file: path))
        }
    }

    private func write(_ value: some Encodable, _ path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        try AtomicFileReplace.replace(path, with: encoder.encode(value))
    }

    private func writeInfo() throws {
        try write(
            Info(
                uuid: identity.uuid, lastKey: lock.withLock { lastKey },
                hashes: layout.model.entityVersionHashes()), folder + "/store.json")
    }

    // MARK: - IncrementalStore

    override func loadMetadata() throws -> StoreMetadata {
        let path = folder + "/store.json"
        var info = try read(Info.self, path)
        if info == nil {
            let new = Info(
                uuid: UUID().uuidString, lastKey: 0, hashes: layout.model.entityVersionHashes())
            if !FileSystem.exists(folder) { try FileSystem.makeFolder(folder) }
            for entity in layout.entities where !FileSystem.exists("\(folder)/\(entity.name)") {
                try FileSystem.makeFolder("\(folder)/\(entity.name)")
            }
            try write(new, path)
            info = new
        }
        lock.withLock { lastKey = max(lastKey, info?.lastKey ?? 0) }
        return StoreMetadata(
            storeUUID: info?.uuid ?? "",
            values: [
                "NSStoreType": .string(Self.storeType.rawValue),
                "NSStoreModelVersionHashes": .dictionary(
                    (info?.hashes ?? [:]).mapValues { .data($0) }),
            ])
    }

    override func execute(_ request: FetchSpecification) throws -> [ManagedObjectID] {
        let entity = try layout.requireEntity(named: request.entityName)
        let numbers = request.includesSubentities ? entity.subtree : entity.number...entity.number
        var found: [ManagedObjectID] = []
        for number in numbers {
            let entity = layout.entity(number: number)
            for name in try FileSystem.names(in: "\(folder)/\(entity.name)")
            where name.hasSuffix(".json") {
                guard let key = Int64(name.dropLast(5)) else { continue }
                found.append(try objectID(for: entity, primaryKey: key))
            }
        }
        return found
    }

    override func newValues(forObjectWith id: ManagedObjectID) throws -> IncrementalStoreNode? {
        // The object may be of a sub-entity.
        for number in layout.entity(number: id.entityNumber).subtree {
            let entity = layout.entity(number: number)
            let own = try objectID(for: entity, primaryKey: primaryKey(of: id))
            guard let object = try read(Object.self, file(of: own)) else { continue }
            var node = IncrementalStoreNode(objectID: own, version: object.version)
            for slot in entity.slots {
                guard let text = object.values[slot.name] else { continue }
                node.values[slot.name] =
                    try slot.attribute.map { try AttributeValue(parsing: text, as: $0.type) }
                    ?? .objectID(reference(text))
            }
            return node
        }
        return nil
    }

    override func newValue(
        forRelationship relationship: ResolvedEntity.Relationship, forObjectWith id: ManagedObjectID
    ) throws -> [ManagedObjectID] {
        let object = try read(Object.self, file(of: id))
        return try (object?.members[relationship.name] ?? []).map(reference)
    }

    private func reference(_ text: String) throws -> ManagedObjectID {
        let parts = text.split(separator: "/")
        guard parts.count == 2, let key = Int64(parts[1]) else {
            throw QuireError(.invalidFormat, "“\(text)” in “\(folder)” is not an object.")
        }
        return try objectID(
            for: layout.requireEntity(named: String(parts[0])), primaryKey: key)
    }

    private func text(_ id: ManagedObjectID) -> String { "\(id.entityName)/\(primaryKey(of: id))" }

    override func obtainPermanentIDs(for entity: ResolvedEntity, count: Int) throws -> [Int64] {
        lock.withLock {
            defer { lastKey += Int64(count) }
            return Array(lastKey + 1..<lastKey + 1 + Int64(count))
        }
    }

    override func save(_ save: IncrementalStoreSave) throws {
        // First, so that no identifier is given out again.
        if !save.inserted.isEmpty { try writeInfo() }
        for object in save.inserted + save.updated {
            let id = object.node.objectID
            let present = try read(Object.self, file(of: id))
            var written = Object(
                version: object.node.version, values: [:], members: present?.members ?? [:])
            for slot in object.entity.slots {
                switch object.node.values[slot.name] {
                case nil: continue
                case .objectID(let target)?: written.values[slot.name] = text(target)
                case let value?:
                    written.values[slot.name] = value.text(as: slot.attribute?.type ?? .string)
                }
            }
            for (name, members) in object.toMany { written.members[name] = members.map(text) }
            try write(written, file(of: id))
        }
        for id in save.deleted { try FileSystem.removeFileIfPresent(file(of: id)) }
        for folder in Set(save.deleted.map(\.entityName)) {
            try FileSystem.synchronizeFolder("\(self.folder)/\(folder)")
        }
    }
}
