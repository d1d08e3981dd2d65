import Foundation
import Quire
import QuireModel
import QuireSQLite
import QuireStore
import Testing

@testable import QuireSync

/// The expected rows of a replica, computed by a small and slow merge that looks at all records at once.
///
/// It shares nothing with the product but records and the model: no tables, no groups, no caches. Rules, in order:
///
/// 1. An object exists if it has been inserted more often than deleted.
/// 2. Of objects with one unique value the oldest stands for the others. Ages are compared over all objects, oldest first.
/// 3. Of the rest an object is shown if all that it requires is shown; so it is shown if nothing speaks against it.
/// 4. A reference goes to the object that stands for its target, if that is shown.
/// 5. Of objects that claim one by a one-to-one relationship the last to do so has it; in a relationship with itself each must claim
///    the other.
/// 6. An object has the members of those that it stands for.
struct SyncReferenceModel {
    private let records: [SyncIdentifier: SyncRecord]
    private let model: SyncModel
    private var representatives: [SyncIdentifier: SyncIdentifier] = [:]
    private(set) var shown: Set<SyncIdentifier> = []

    init(_ records: [SyncRecord], _ model: SyncModel) {
        self.model = model
        self.records = Dictionary(uniqueKeysWithValues: records.map { ($0.id, $0) })
        findRepresentatives()
        findShown()
    }

    private func entity(_ id: SyncIdentifier) -> SyncModel.Entity? {
        records[id].flatMap { model.entity(named: $0.entity) }
    }

    // MARK: - Which objects are shown

    private mutating func findRepresentatives() {
        let existing = records.values.filter { $0.existenceCount % 2 == 1 }
            .sorted {
                ($0[.existence]!.version, $0.id) < ($1[.existence]!.version, $1.id)
            }
        var owners: [Data: SyncIdentifier] = [:]
        for record in existing {
            let values = SyncUniqueness.values(of: record, in: model)
            let owner = values.compactMap { owners[$0] }.min()
            representatives[record.id] = owner ?? record.id
            if owner == nil { for value in values { owners[value] = record.id } }
        }
    }

    private mutating func findShown() {
        shown = Set(representatives.filter { $0.key == $0.value && entity($0.key) != nil }.keys)
        var isStable = false
        while !isStable {
            let kept = shown.filter { id in
                entity(id)!.requiredSlots.allSatisfy { target(of: $0, id) != nil }
            }
            isStable = kept == shown
            shown = kept
        }
    }

    /// The object that a to-one relationship leads to by its own record.
    private func target(of slot: ResolvedEntity.Slot, _ id: SyncIdentifier) -> SyncIdentifier? {
        guard let entity = entity(id), let index = slot.relationshipIndex else { return nil }
        return claim(of: id, entity.entity.relationships[index])
    }

    private func claim(
        of id: SyncIdentifier, _ relationship: ResolvedEntity.Relationship
    ) -> SyncIdentifier? {
        guard
            case .reference(let referred)? = records[id]?[
                .property(relationship.renamingIdentifier)]?.value
        else { return nil }
        return destination(referred, of: relationship)
    }

    private func destination(
        _ referred: SyncIdentifier, of relationship: ResolvedEntity.Relationship
    ) -> SyncIdentifier? {
        guard let row = representatives[referred], shown.contains(row), let entity = entity(row),
            model.layout.destination(of: relationship).subtree.contains(entity.entity.number)
        else { return nil }
        return row
    }

    // MARK: - Values

    /// The rows as text, as ``SyncSite/rows()`` gives them, without values in files and places in orders.
    func rows() -> String {
        shown.map { id in
            let entity = entity(id)!
            var parts = ["\(entity.entity.name) \(id)"]
            for slot in entity.entity.slots where slot.relationshipIndex != nil && slot.isStored {
                let relationship = entity.entity.relationships[slot.relationshipIndex!]
                parts.append(
                    "\(slot.name)=\(toOne(relationship, id).map(\.description) ?? "null")")
            }
            for slot in entity.slots where slot.relationshipIndex == nil {
                parts.append("\(slot.name)=\(value(of: slot, records[id]!, entity))")
            }
            for relationship in entity.entity.relationships where relationship.isToMany {
                let names = toMany(relationship, id).map(\.description).sorted()
                parts.append("\(relationship.name)=\(names)")
            }
            return parts.joined(separator: " ")
        }.sorted().joined(separator: "\n")
    }

    private func value(
        of slot: ResolvedEntity.Slot, _ record: SyncRecord, _ entity: SyncModel.Entity
    ) -> String {
        let name = entity.name(of: slot)
        let value = record[.property(name)]?.value
        if case .blob(let blob)? = value { return "\(blob.size) bytes" }
        let counts = record.entries.compactMap { key, entry -> Int64? in
            guard case .counter(name, _) = key, case .integer(let count) = entry.value else {
                return nil
            }
            return count
        }
        if !counts.isEmpty {
            var sum = counts.reduce(0, +)
            if case .integer(let first)? = value { sum += first }
            return "\(AttributeValue.integer(sum))"
        }
        return "\(value?.attributeValue ?? slot.attribute?.defaultValue ?? .null)"
    }

    private func toOne(
        _ relationship: ResolvedEntity.Relationship, _ id: SyncIdentifier
    ) -> SyncIdentifier? {
        guard let inverse = model.layout.inverse(of: relationship) else {
            return claim(of: id, relationship)
        }
        if inverse.isToMany { return claim(of: id, relationship) }
        if inverse.ownerNumber == relationship.ownerNumber, inverse.name == relationship.name {
            return claim(of: id, relationship).flatMap { claim(of: $0, inverse) == id ? $0 : nil }
        }
        let isMerged = entity(id)!.slots.contains { $0.index == relationship.slot }
        let (claiming, target) =
            isMerged ? (relationship, claim(of: id, relationship)) : (inverse, id)
        guard let target else { return nil }
        let last = shown.filter { claim(of: $0, claiming) == target }
            .max { version(of: claiming, $0) < version(of: claiming, $1) }
        return isMerged ? (last == id ? target : nil) : last
    }

    private func version(
        of relationship: ResolvedEntity.Relationship, _ id: SyncIdentifier
    ) -> SyncVersion {
        records[id]![.property(relationship.renamingIdentifier)]!.version
    }

    private func toMany(
        _ relationship: ResolvedEntity.Relationship, _ id: SyncIdentifier
    ) -> Set<SyncIdentifier> {
        if let inverse = model.layout.inverse(of: relationship), !inverse.isToMany {
            return shown.filter { other in
                entity(other)!.entity.relationships.contains {
                    $0.ownerNumber == inverse.ownerNumber && $0.name == inverse.name
                } && toOne(inverse, other) == id
            }
        }
        let isMerged = entity(id)!.memberships.contains { $0.index == relationship.index }
        if isMerged { return members(of: relationship, id) }
        let inverse = model.layout.inverse(of: relationship)!
        return shown.filter { other in
            entity(other)!.memberships.contains {
                $0.ownerNumber == inverse.ownerNumber && $0.name == inverse.name
            } && members(of: inverse, other).contains(id)
        }
    }

    private func members(
        of relationship: ResolvedEntity.Relationship, _ id: SyncIdentifier
    ) -> Set<SyncIdentifier> {
        let owners = representatives.filter { $0.value == id }.keys.compactMap { records[$0] }
        var found: Set<SyncIdentifier> = []
        for (key, entry) in owners.flatMap(\.entries) {
            guard case .member(relationship.renamingIdentifier, let member) = key,
                entry.value == .boolean(true),
                let row = destination(member, of: relationship)
            else { continue }
            found.insert(row)
        }
        return found
    }
}

extension String {
    /// The lines that another text lacks, or has beside these.
    func difference(to other: String) -> [String] {
        let (left, right) = (Set(split(separator: "\n")), Set(other.split(separator: "\n")))
        return left.subtracting(right).map { "- \($0)" } + right.subtracting(left).map { "+ \($0)" }
    }
}

extension SyncSite {
    /// The rows are those that ``SyncReferenceModel`` gives for the replica's records.
    func expectRowsOfReference(
        _ comment: Comment? = nil, _ location: SourceLocation = #_sourceLocation
    ) throws {
        let reference = SyncReferenceModel(try records(), SyncModel(try store.layout))
        #expect(
            try reference.rows().difference(to: comparableRows()).isEmpty, comment,
            sourceLocation: location)
    }

    /// All records of the replica.
    private func records() throws -> [SyncRecord] {
        let store = try store
        return try store.read { connection in
            guard let settings = try SyncSettings.read(from: connection, path: store.storePath)
            else { return [] }
            let tables = SyncTables(store, connection, SyncModel(store.layout), settings)
            return try tables.identifiers(after: nil, through: nil)
                .compactMap { try tables.object($0)?.record }
        }
    }

    /// The rows as ``SyncReferenceModel/rows()`` has them.
    private func comparableRows() throws -> String {
        let store = try store
        let model = SyncModel(store.layout)
        return try store.read { connection in
            guard let settings = try SyncSettings.read(from: connection, path: store.storePath)
            else { return "" }
            let tables = SyncTables(store, connection, model, settings)
            func name(_ id: ManagedObjectID) throws -> String {
                try tables.object(at: id)?.record.id.description ?? "unknown \(id.shortDescription)"
            }
            var lines: [String] = []
            for entity in store.layout.entities.compactMap({ model[$0] }) {
                let rows = try store.rows(of: entity.entity, after: 0, limit: 1_000_000)
                for index in 0..<rows.count {
                    let row = rows[index]
                    var parts = ["\(entity.entity.name) \(try name(row.objectID))"]
                    for slot in entity.entity.slots
                    where slot.relationshipIndex != nil && slot.isStored {
                        if case .objectID(let id) = try row.value(at: slot.index) {
                            parts.append("\(slot.name)=\(try name(id))")
                        } else {
                            parts.append("\(slot.name)=null")
                        }
                    }
                    for slot in entity.slots where slot.relationshipIndex == nil {
                        switch try row.value(at: slot.index) {
                        case .binary(let data) where data.count > SyncValue.maximumInlineSize:
                            parts.append("\(slot.name)=\(data.count) bytes")
                        case .external(let data): parts.append("\(slot.name)=\(data.size) bytes")
                        case let value: parts.append("\(slot.name)=\(value)")
                        }
                    }
                    for relationship in entity.entity.relationships where relationship.isToMany {
                        let related = try store.relatedRows(of: row.objectID, through: relationship)
                        let names = try (0..<related.count).map {
                            try name(related[$0].objectID)
                        }
                        parts.append("\(relationship.name)=\(names.sorted())")
                    }
                    lines.append(parts.joined(separator: " "))
                }
            }
            return lines.sorted().joined(separator: "\n")
        }
    }
}
