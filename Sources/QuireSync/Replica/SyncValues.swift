internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireSQLite
internal import QuireStore

/// The values that the row of an object has by the records.
///
/// Capturing compares a row with them to find what has been changed; merging writes them.
final class SyncValues {
    let tables: SyncTables
    let model: SyncModel
    let visibility: SyncVisibility
    /// The bytes of files that have been fetched for this transaction, by digest.
    let blobs: [Data: Data]

    init(_ tables: SyncTables, _ model: SyncModel, blobs: [Data: Data] = [:]) {
        self.tables = tables
        self.model = model
        visibility = SyncVisibility(tables, model)
        self.blobs = blobs
    }

    /// The value of a slot, as far as it is known without its file.
    enum Value {
        case value(AttributeValue)
        /// In a file of its own.
        case blob(SyncBlob)

        /// Whether a row has the value.
        func isSame(as row: AttributeValue) throws -> Bool {
            switch (self, row) {
            case (.blob(let blob), .null): return blob.size < 0
            case (.blob(let blob), _): return try SyncValue(row) == .blob(blob)
            case (.value(.string(let text)), .string(let other)):
                // Not canonical equivalence: another form is another text.
                return text.utf8.elementsEqual(other.utf8)
            case (.value(.binary), .external), (.value(.external), _):
                return try SyncValue(row) == SyncValue(value)
            case (.value(let value), _): return value == row
            }
        }

        private var value: AttributeValue {
            if case .value(let value) = self { value } else { .null }
        }
    }

    /// The value of a slot in an object's row.
    func value(
        of slot: ResolvedEntity.Slot, _ record: SyncRecord, _ entity: SyncModel.Entity
    ) throws -> Value {
        if let index = slot.relationshipIndex {
            let target = try reference(entity.entity.relationships[index], of: record, entity)
            return .value(
                try target.flatMap { try tables.object($0)?.objectID }.map { .objectID($0) }
                    ?? .null)
        }
        let name = entity.name(of: slot)
        if let counter = SyncCounter(slot, named: name, of: record), counter.isCounted {
            return .value(coerced(counter.value, for: slot, entity.entity))
        }
        guard let entry = record[.property(name)] else {
            return .value(slot.attribute?.defaultValue ?? .null)
        }
        if case .blob(let blob) = entry.value { return .blob(blob) }
        return .value(coerced(entry.value.attributeValue ?? .null, for: slot, entity.entity))
    }

    /// The value that a row shows of an attribute if it was written with another model, and the store has been migrated since.
    ///
    /// - Returns: `nil` if that is not known: the value is in a file, or no model has given it.
    func value(
        of slot: ResolvedEntity.Slot, _ record: SyncRecord, _ entity: SyncModel.Entity,
        by rule: SyncValueRule
    ) -> Value? {
        let name = entity.name(of: slot)
        let counter = SyncCounter(slot, named: name, of: record, as: rule.type)
        let counted = counter.flatMap { $0.isCounted ? $0.value : nil }
        if let value = counted ?? record[.property(name)]?.value.attributeValue {
            return .value(coerced(rule.shown(value), for: slot, entity.entity))
        }
        // It was inserted as null by a model without a default value.
        let isNull = record[.property(name)] == nil && slot.attribute?.defaultValue.isNull ?? true
        return isNull ? .value(coerced(rule.defaultValue, for: slot, entity.entity)) : nil
    }

    private func coerced(
        _ value: AttributeValue, for slot: ResolvedEntity.Slot, _ entity: ResolvedEntity
    ) -> AttributeValue {
        var coerced = AttributeValue.null
        do {
            coerced = try slot.coerce(value, in: entity)
        } catch {
            // Another model gives the attribute another type. The entry stays as it is, for replicas that have that model.
        }
        // Another model does not require it, or a file lies.
        if coerced.isNull, let attribute = slot.attribute, !attribute.isOptional {
            return attribute.defaultValue
        }
        return coerced
    }

    /// The object that a to-one relationship refers to; `nil` if it has no row, or is of another entity than the relationship's.
    private func reference(
        _ relationship: ResolvedEntity.Relationship, of record: SyncRecord,
        _ entity: SyncModel.Entity
    ) throws -> SyncIdentifier? {
        let inverse = model.layout.inverse(of: relationship)
        if let slot = relationship.slot,
            entity.mirroredSlots.contains(where: { $0.index == slot })
        {
            guard let inverse else { return nil }
            return try holder(of: record.id, inverse)
        }
        guard case .reference(let id)? = record[.property(relationship.renamingIdentifier)]?.value,
            let target = try destination(id, of: relationship)
        else { return nil }
        if let inverse, inverse.isSame(as: relationship) {
            // Both ends are merged; they belong together if each refers to the other.
            guard
                case .reference(let back)? = try tables.object(target)?.record[
                    .property(relationship.renamingIdentifier)]?.value
            else { return nil }
            return try visibility.survivor(of: back) == record.id ? target : nil
        }
        // Of several objects that refer to one by a one-to-one relationship, one has it.
        if let inverse, !inverse.isToMany {
            return try holder(of: target, relationship) == record.id ? target : nil
        }
        return target
    }

    /// The row that a reference of a relationship goes to.
    private func destination(
        _ id: SyncIdentifier, of relationship: ResolvedEntity.Relationship
    ) throws -> SyncIdentifier? {
        guard let row = try visibility.row(of: id), let object = try tables.object(row),
            let entity = model.resolvedEntity(named: object.record.entity),
            model.layout.destination(of: relationship).subtree.contains(entity.number)
        else { return nil }
        return row
    }

    /// The objects that refer to an object, or to one that it stands for.
    func claimants(of target: SyncIdentifier) throws -> [SyncIdentifier] {
        try tables.referrers(of: target)
            + visibility.duplicates(of: target).flatMap { try tables.referrers(of: $0) }
    }

    /// The object that has a one-to-one relationship to a target: of those that refer to it, the one that was made to last.
    private func holder(
        of target: SyncIdentifier, _ relationship: ResolvedEntity.Relationship
    ) throws -> SyncIdentifier? {
        var best: (version: SyncVersion, id: SyncIdentifier)?
        for id in try claimants(of: target) {
            guard try visibility.isVisible(id), let record = try tables.object(id)?.record,
                let entity = model.resolvedEntity(named: record.entity),
                entity.relationships.indices.contains(relationship.index),
                entity.relationships[relationship.index].ownerNumber == relationship.ownerNumber,
                let entry = record[.property(relationship.renamingIdentifier)],
                // It may refer to the target by another relationship.
                case .reference(let referred) = entry.value,
                try visibility.survivor(of: referred) == target
            else { continue }
            if best.map({ $0.version < entry.version }) ?? true { best = (entry.version, id) }
        }
        return best?.id
    }

    /// The members of a relationship whose members are entries, those of objects that the object stands for included.
    func members(
        of relationship: ResolvedEntity.Relationship, _ record: SyncRecord
    ) throws -> Set<SyncIdentifier> {
        var found: Set<SyncIdentifier> = []
        let name = relationship.renamingIdentifier
        let hidden = try visibility.duplicates(of: record.id)
            .compactMap { try tables.object($0)?.record }
        for (key, entry) in ([record] + hidden).flatMap(\.entries) {
            guard case .member(name, let id) = key, entry.value == .boolean(true),
                let row = try destination(id, of: relationship)
            else { continue }
            found.insert(row)
        }
        return found
    }

    /// Sorts the members of an ordered relationship: by their places, then those without a place by identifier.
    func sorted(
        _ members: some Sequence<SyncIdentifier>, in relationship: ResolvedEntity.Relationship,
        of record: SyncRecord
    ) -> [SyncIdentifier] {
        members.map { id in (id, place(of: id, in: relationship, of: record)) }
            .sorted {
                switch ($0.1, $1.1) {
                case (nil, nil): $0.0 < $1.0
                case (nil, _): false
                case (_, nil): true
                case (let first?, let second?): (first, $0.0) < (second, $1.0)
                }
            }.map(\.0)
    }

    func place(
        of id: SyncIdentifier, in relationship: ResolvedEntity.Relationship, of record: SyncRecord
    ) -> SyncPlace? {
        if case .string(let text)? = record[.position(relationship.renamingIdentifier, id)]?.value {
            SyncPlace(text)
        } else {
            nil
        }
    }
}

extension ResolvedEntity.Relationship {
    /// Whether two relationships are one, of an entity or of those that inherit it.
    fileprivate func isSame(as other: ResolvedEntity.Relationship) -> Bool {
        ownerNumber == other.ownerNumber && name == other.name
    }
}

/// A place in an order: a text of letters `a` to `z` that does not end with `a`, between any two of which there is another.
///
/// Places are compared as texts. Two that are made for one gap on two machines may be equal; then identifiers decide.
struct SyncPlace: Comparable, Hashable {
    let text: String

    /// `nil` if the text is no place.
    init?(_ text: String) {
        guard !text.isEmpty, text.utf8.count <= 4_096, text.utf8.last != UInt8(ascii: "a"),
            text.utf8.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) })
        else { return nil }
        self.text = text
    }

    static func < (left: SyncPlace, right: SyncPlace) -> Bool {
        left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
    }

    /// A place between two others; at the beginning or end for `nil`. If there is none between them, one after the first.
    init(between low: SyncPlace?, and high: SyncPlace?) {
        let first = Array((low?.text ?? "").utf8).map { Int($0) - 97 }
        let second = high.flatMap { high in
            low.map { $0 < high } ?? true ? Array(high.text.utf8).map { Int($0) - 97 } : nil
        }
        var digits: [Int] = []
        var isBounded = second != nil
        var index = 0
        while true {
            let below = index < first.count ? first[index] : 0
            let above = isBounded ? (index < second?.count ?? 0 ? second?[index] ?? 26 : 0) : 26
            if above - below > 1 {
                digits.append((below + above) / 2)
                break
            }
            digits.append(below)
            if above > below { isBounded = false }
            index += 1
        }
        text = String(decoding: digits.map { UInt8($0 + 97) }, as: UTF8.self)
    }
}
