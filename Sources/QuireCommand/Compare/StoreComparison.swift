import Foundation
import Quire
import QuireDocuments
import QuireStore

/// A difference between the objects of two stores.
struct ObjectDifference {
    /// The kind of a difference, by the name that it has in a store's history.
    enum Kind: String {
        case insert, update, delete

        var sign: String {
            switch self {
            case .insert: "+"
            case .update: "~"
            case .delete: "-"
            }
        }

        var style: TextStyle? {
            switch self {
            case .insert: .green
            case .update: nil
            case .delete: .red
            }
        }
    }

    /// The old and the new form of a property.
    enum Change {
        /// A value; `nil` on the side that has no object.
        case value(old: ComparedValue?, new: ComparedValue?)
        /// The members of a to-many relationship that have come and gone.
        case members(removed: [ManagedObjectID], added: [ManagedObjectID])
        /// All members of an ordered relationship, with those that have come and gone.
        case order(
            old: [ManagedObjectID], new: [ManagedObjectID], removed: [ManagedObjectID],
            added: [ManagedObjectID])
        /// Something that the history does not keep.
        case unknown
    }

    let kind: Kind
    let objectID: ManagedObjectID
    /// The properties, by name; empty if they were not asked for, or are not known.
    var changes: [(property: String, change: Change)] = []
    /// Whether the changed properties are known.
    var knowsProperties = true
}

/// Compares the objects of two stores: by entity and primary key, in the memory of two batches of objects; or of two replicas of a
/// shared document, whose objects have other keys.
struct StoreComparison {
    let old: any PersistentStore
    let new: any PersistentStore
    let model: ComparedModel
    /// Whether differences of new and deleted objects list their properties.
    let includesProperties: Bool
    let unreadable: UnreadableValues
    /// The new objects by the old ones, of two replicas; `nil` if objects with the same keys are the same.
    var commonObjects: [ManagedObjectID: ManagedObjectID]?

    /// Calls a closure with each difference, by entity and primary key; of replicas, with deleted objects after the others of an entity.
    ///
    /// - Throws: What the closure throws, or what reading the stores throws.
    func forEachDifference(_ body: (String, ObjectDifference) throws -> Void) throws {
        let oldObjects = commonObjects.map { common in
            Dictionary(common.map { ($1, $0) }) { first, _ in first }
        }
        for entity in model.entities {
            if let oldObjects {
                try forEachDifference(of: entity, oldObjects, body)
                continue
            }
            let before = try ObjectCursor(entity.old, of: old, toMany: entity.toMany.map(\.old))
            let after = try ObjectCursor(entity.new, of: new, toMany: entity.toMany.map(\.new))
            var left = try before.next()
            var right = try after.next()
            while true {
                let leftKey = left?.objectID.primaryKey ?? .max
                let rightKey = right?.objectID.primaryKey ?? .max
                if let gone = left, leftKey < rightKey {
                    try body(
                        entity.name,
                        difference(.delete, gone.objectID, of: entity, (gone, before.members), nil))
                    left = try before.next()
                } else if let come = right, rightKey < leftKey {
                    try body(
                        entity.name,
                        difference(.insert, come.objectID, of: entity, nil, (come, after.members)))
                    right = try after.next()
                } else if let one = left, let other = right {
                    let found = try difference(
                        .update, other.objectID, of: entity, (one, before.members),
                        (other, after.members))
                    if !found.changes.isEmpty { try body(entity.name, found) }
                    left = try before.next()
                    right = try after.next()
                } else {
                    break
                }
            }
        }
    }

    private func forEachDifference(
        of entity: ComparedModel.Entity, _ oldObjects: [ManagedObjectID: ManagedObjectID],
        _ body: (String, ObjectDifference) throws -> Void
    ) throws {
        func relatedObjects(
            _ row: ObjectSnapshot, _ relationship: ResolvedEntity.Relationship
        ) throws -> [ManagedObjectID] {
            try old.relatedRows(of: row.objectID, through: relationship).map(\.objectID)
        }
        var found: Set<ManagedObjectID> = []
        let after = try ObjectCursor(entity.new, of: new, toMany: entity.toMany.map(\.new))
        while let come = try after.next() {
            let id = come.objectID
            guard let oldID = oldObjects[id], let row = try old.row(for: oldID),
                row.entity.number == entity.old.number
            else {
                try body(
                    entity.name, difference(.insert, id, of: entity, nil, (come, after.members)))
                continue
            }
            found.insert(oldID)
            let difference = try difference(
                .update, id, of: entity, (row, relatedObjects), (come, after.members))
            if !difference.changes.isEmpty { try body(entity.name, difference) }
        }
        let before = try ObjectCursor(entity.old, of: old, toMany: entity.toMany.map(\.old))
        while let gone = try before.next() {
            if found.contains(gone.objectID) { continue }
            try body(
                entity.name,
                difference(.delete, gone.objectID, of: entity, (gone, before.members), nil))
        }
    }

    /// The number of objects of an entity that only one of the models has.
    func count(_ unmatched: ComparedModel.Unmatched) throws -> Int {
        try (unmatched.place == .old ? old : new)
            .count(matching: FetchSpecification(only: unmatched.entity))
    }

    /// A row, and what gives the members of its to-many relationships.
    private typealias Object = (
        row: ObjectSnapshot,
        members: (ObjectSnapshot, ResolvedEntity.Relationship) throws -> [ManagedObjectID]
    )

    private func difference(
        _ kind: ObjectDifference.Kind, _ id: ManagedObjectID, of entity: ComparedModel.Entity,
        _ before: Object?, _ after: Object?
    ) throws -> ObjectDifference {
        var difference = ObjectDifference(kind: kind, objectID: id)
        if kind != .update && !includesProperties { return difference }
        for property in entity.values {
            var old = try before?.row.valueWithoutLoading(at: property.old.index) ?? .null
            let new = try after?.row.valueWithoutLoading(at: property.new.index) ?? .null
            if isSame(old, new) { continue }
            if case .objectID(let id) = old { old = .objectID(present(id)) }
            func shown(_ value: AttributeValue, _ slot: ResolvedEntity.Slot) -> ComparedValue {
                if slot.attribute == nil, value.isNull { return .value(.object(nil)) }
                return ComparedValue(
                    value, slot.attribute?.type ?? .undefined, noting: unreadable)
            }
            difference.changes.append(
                (
                    property.name,
                    .value(
                        old: before == nil ? nil : shown(old, property.old),
                        new: after == nil ? nil : shown(new, property.new))
                ))
            if !includesProperties { return difference }
        }
        for property in entity.toMany {
            let old = try before.map { try $0.members($0.row, property.old) } ?? []
            let new = try after.map { try $0.members($0.row, property.new) } ?? []
            guard let change = change(old, new, isOrdered: property.isOrdered) else {
                continue
            }
            difference.changes.append((property.name, change))
            if !includesProperties { return difference }
        }
        difference.changes.sort { $0.property < $1.property }
        return difference
    }

    private func isSame(_ old: AttributeValue, _ new: AttributeValue) -> Bool {
        switch (old, new) {
        case (.objectID(let old), .objectID(let new)): key(ofOld: old) == Key(new)
        // Not a number is what it was.
        case (.double(let old), .double(let new)): old == new || old.isNaN && new.isNaN
        default: old.isSame(as: new)
        }
    }

    /// An object's place in any store.
    private struct Key: Hashable {
        let entity: String
        let key: Int64

        init(_ id: ManagedObjectID, entity: String? = nil) {
            self.entity = entity ?? id.entityName
            key = id.primaryKey
        }
    }

    /// The new object that an old one is; itself if there is none, or if keys are the same.
    private func present(_ old: ManagedObjectID) -> ManagedObjectID { commonObjects?[old] ?? old }

    /// The place of the new object that an old one is; `nil` if there is none.
    private func key(ofOld id: ManagedObjectID) -> Key? {
        if let commonObjects { return commonObjects[id].map { Key($0) } }
        return Key(id, entity: model.newName(ofEntity: id.entityName))
    }

    private func change(
        _ old: [ManagedObjectID], _ new: [ManagedObjectID], isOrdered: Bool
    ) -> ObjectDifference.Change? {
        if old.isEmpty && new.isEmpty { return nil }
        let oldKeys = old.map(key(ofOld:))
        let newKeys: [Key?] = new.map { Key($0) }
        if oldKeys == newKeys { return nil }
        let (before, after) = (Set(oldKeys), Set(newKeys))
        let removed = old.filter { !after.contains(key(ofOld: $0)) }
        let added = new.filter { !before.contains(Key($0)) }
        let gone = removed.map(present)
        if isOrdered { return .order(old: old.map(present), new: new, removed: gone, added: added) }
        return gone.isEmpty && added.isEmpty ? nil : .members(removed: gone, added: added)
    }
}

/// The differences that the history of a store knows since one of its transactions. Memory grows with them.
struct HistoryComparison {
    let store: any PersistentStore
    /// The number of the transaction.
    let number: Int64
    /// The entity to tell of, with its sub-entities; `nil` for all.
    let entity: String?
    let unreadable: UnreadableValues

    /// Calls a closure with each object that has been inserted, updated or deleted, by entity and primary key.
    ///
    /// - Throws: `QuireError` with code `notFound` if there is no such transaction yet, `historyTokenExpired` if later ones were
    ///   deleted, `unsupported` if the store keeps no history, or `unknownEntity`.
    func forEachDifference(_ body: (String, ObjectDifference) throws -> Void) throws {
        guard let last = try store.lastHistoryTransactionNumber() else { throw store.noHistory() }
        if number > last || number < 0 {
            throw QuireError(
                .notFound,
                "“\(store.path ?? store.identity.uuid)” has no transaction \(number); the last one is \(last).",
                file: store.path, value: String(number))
        }
        let numbers = try entity.map { try store.layout.requireEntity(named: $0).subtree }
        let token = PersistentHistoryToken(transactionNumbers: [store.identity.uuid: number])
        var found: [ManagedObjectID: ObjectDifference] = [:]
        for transaction in try store.execute(.fetchHistory(after: token)).transactions {
            for change in transaction.changes
            where numbers?.contains(change.objectID.entityNumber) ?? true {
                note(change, in: &found)
            }
        }
        let differences = found.values.sorted {
            ($0.objectID.entityName, $0.objectID.primaryKey)
                < ($1.objectID.entityName, $1.objectID.primaryKey)
        }
        for difference in differences { try body(difference.objectID.entityName, difference) }
    }

    /// Adds a change to those of the object before it.
    private func note(
        _ change: PersistentHistoryChange, in found: inout [ManagedObjectID: ObjectDifference]
    ) {
        let id = change.objectID
        switch change.kind {
        case .insert: found[id] = ObjectDifference(kind: .insert, objectID: id)
        case .delete where found[id]?.kind == .insert: found[id] = nil
        case .delete:
            var difference = ObjectDifference(kind: .delete, objectID: id)
            difference.changes = change.preservedValues.sorted { $0.key < $1.key }.map {
                (
                    $0.key,
                    .value(old: ComparedValue($0.value, .undefined, noting: unreadable), new: nil)
                )
            }
            found[id] = difference
        case .update:
            var difference = found[id] ?? ObjectDifference(kind: .update, objectID: id)
            guard difference.kind == .update else { return }
            if let properties = change.updatedProperties {
                let known = Set(difference.changes.map(\.property))
                difference.changes += properties.filter { !known.contains($0) }
                    .map { ($0, .unknown) }
                difference.changes.sort { $0.property < $1.property }
            } else {
                difference.knowsProperties = false
            }
            found[id] = difference
        }
    }
}

// MARK: - Values

/// A value as a comparison shows it: bytes by their number and digest, never themselves.
enum ComparedValue {
    case value(PrintedValue)
    case bytes(count: Int, sha256: Data)

    /// A value of an attribute or a to-one relationship. Of one in a file only the digest is read, if the store has it.
    ///
    /// - Parameter unreadable: Takes notice of a value in a file that cannot be read, which the value says as well.
    init(_ value: AttributeValue, _ type: AttributeType, noting unreadable: UnreadableValues) {
        switch value {
        case .objectID(let id): self = .value(.object(id))
        case .binary(let data):
            self = .bytes(count: data.count, sha256: RunningDigest.sha256(of: data))
        case .external(let data):
            do {
                self = .bytes(count: data.size, sha256: try Self.digest(of: data))
            } catch {
                let error = FileSystem.failure("read", data.path, thrown: error)
                unreadable.add(error)
                self = .value(.unreadable(error.message))
            }
        default: self = .value(type == .undefined ? PrintedValue(value) : .attribute(value, type))
        }
    }

    private static func digest(of data: ExternalData) throws -> Data {
        if let digest = data.sha256 { return digest }
        let digest = RunningDigest()
        try data.forEachBlock(digest.update)
        return digest.sha256
    }

    var json: JSONValue {
        switch self {
        case .value(let value): value.json
        case .bytes(let count, let digest):
            .object([
                "bytes": .integer(Int64(count)), "sha256": .string(Self.hexadecimal(digest)),
            ])
        }
    }

    /// The value on one line, so that a text differs from a number.
    var text: String {
        switch self {
        case .value(.attribute(.string(let text), _)): JSONValue.string(text).text()
        case .value(.attribute(.null, _)), .value(.object(nil)): "null"
        case .value(let value): value.text
        case .bytes(let count, let digest):
            "<\(Count.of(count, "byte")), sha256 \(Self.hexadecimal(digest).prefix(12))>"
        }
    }

    static func hexadecimal(_ digest: Data) -> String {
        digest.map { String(format: "%02x", $0) }.joined()
    }
}
