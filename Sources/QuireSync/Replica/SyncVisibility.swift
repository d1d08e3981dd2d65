internal import Foundation
internal import Quire
internal import QuireModel

/// Which objects have rows: a pure function of all records, so that replicas with the same records have the same rows.
///
/// An object has a row if it exists, the model has its entity, no older object has its unique values, and the objects that its
/// required relationships refer to have rows. References to an object that has lost its unique values to another go to that one.
final class SyncVisibility {
    private let tables: SyncTables
    private let model: SyncModel
    private var known: [SyncIdentifier: Bool] = [:]
    private var survivors: [SyncIdentifier: SyncIdentifier] = [:]

    init(_ tables: SyncTables, _ model: SyncModel) {
        self.tables = tables
        self.model = model
    }

    /// Whether an object has a row.
    func isVisible(_ id: SyncIdentifier) throws -> Bool {
        var path: [SyncIdentifier] = []
        return try isVisible(id, &path).isVisible
    }

    /// Whether an object has a row.
    ///
    /// Objects that require each other have rows if nothing else is missing: one that is being looked at is taken to have one.
    ///
    /// - Returns: `isFinal` is false if it depends on an object of the path.
    private func isVisible(
        _ id: SyncIdentifier, _ path: inout [SyncIdentifier]
    ) throws -> (isVisible: Bool, isFinal: Bool) {
        if let result = known[id] { return (result, true) }
        if path.contains(id) { return (true, false) }
        guard let object = try tables.object(id), object.record.isAlive,
            let entity = model.entity(named: object.record.entity), try survivor(of: id) == id
        else {
            known[id] = false
            return (false, true)
        }
        var isFinal = true
        // Deeper than any chain of owners that is meant.
        guard path.count < 200 else { return (false, false) }
        path.append(id)
        defer { path.removeLast() }
        for slot in entity.requiredSlots {
            guard case .reference(let target)? = object.record[.property(slot.name)]?.value else {
                known[id] = false
                return (false, true)
            }
            let result = try isVisible(survivor(of: target), &path)
            guard result.isVisible else {
                known[id] = false
                return (false, true)
            }
            isFinal = isFinal && result.isFinal
        }
        if isFinal || path.count == 1 { known[id] = true }
        return (true, isFinal)
    }

    /// The object that stands for an object: itself, or the one that has its unique values.
    func survivor(of id: SyncIdentifier) throws -> SyncIdentifier {
        if let known = survivors[id] { return known }
        let group = try self.group(of: id)
        if group.count < 2 {
            survivors[id] = id
            return id
        }
        var owners: [Data: SyncIdentifier] = [:]
        for member in group.sorted(by: { ($0.age, $0.id) < ($1.age, $1.id) }) {
            if let owner = member.values.compactMap({ owners[$0] }).min() {
                survivors[member.id] = owner
            } else {
                survivors[member.id] = member.id
                for value in member.values { owners[value] = member.id }
            }
        }
        return survivors[id] ?? id
    }

    /// An existing object with unique values.
    private struct Member {
        let id: SyncIdentifier
        /// The version with which it came into being: the older object survives.
        let age: SyncVersion
        let values: Set<Data>
    }

    /// The objects that share unique values with an object, or with one of these; itself among them.
    private func group(of id: SyncIdentifier) throws -> [Member] {
        var group: [Member] = []
        var found: Set<SyncIdentifier> = [id]
        var pending = [id]
        while let next = pending.popLast() {
            guard let record = try tables.object(next)?.record,
                let age = record[.existence]?.version
            else { continue }
            let values = SyncUniqueness.values(of: record, in: model.layout)
            group.append(Member(id: next, age: age, values: values))
            for value in values {
                for other in try tables.objects(withUniqueValue: value)
                where found.insert(other).inserted {
                    pending.append(other)
                }
            }
        }
        return group
    }

    /// The row that a reference goes to; `nil` if there is none.
    func row(of reference: SyncIdentifier) throws -> SyncIdentifier? {
        let survivor = try survivor(of: reference)
        return try isVisible(survivor) ? survivor : nil
    }
}
