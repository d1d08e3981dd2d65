internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireSQLite
internal import QuireStore

/// Finds what has been changed in a store since the last time, and makes it a segment.
///
/// The store's history says which objects to look at; what has changed in them is the difference of their rows and their records.
/// So a change is found whoever has saved it, if only it is in the history; and if the history has been purged, or another program
/// has written without it, going through all rows finds it too.
///
/// Invariants
/// - What a row is expected to have follows from the records as they were when rows were written last: changed records are kept beside
///   the tables until all of a transaction's changes have been found.
/// - A row stands for its own object and for those that are hidden because it has their unique values. Deleting it deletes them too; an
///   object that has a row of its own is not one of these.
/// - A change that was made here has the same consequences as one that comes from elsewhere: rows are computed anew from the records
///   once everything is captured.
final class SyncCapture {
    private let tables: SyncTables
    private let model: SyncModel
    private let values: SyncValues
    private let date: Date
    private var store: SQLiteStore { tables.store }
    /// The changed entries, by object, in the order in which they were found.
    private var changed: [SyncIdentifier: SyncRecord] = [:]
    private var order: [SyncIdentifier] = []
    private var version: SyncVersion?
    /// The time of the transaction of the history whose changes are captured.
    private var time: Date { didSet { if time != oldValue { version = nil } } }
    /// Whether the object that is captured has been saved since the last time.
    private var isInHistory = false
    /// About the number of bytes of the changed values.
    private var size = 0
    private var count = 0

    /// The number of objects, and of bytes, after which a segment ends.
    private static let segmentSize = (objects: 2_000, bytes: 8 << 20)
    /// The objects whose records have changed, but for new ones: their rows, and those of objects that are connected with them, may
    /// have to be other ones than they are.
    private(set) var touched: Set<SyncIdentifier> = []
    /// The former targets of one-to-one relationships that were changed: another object that refers to one may get it back.
    private var left: Set<SyncIdentifier> = []
    /// The objects that are new on all machines: as long as they share no unique value with another, their rows are right.
    private var fresh: Set<SyncIdentifier> = []
    /// The objects with changed records, until these are put into the tables, and their rows.
    private var found: [SyncIdentifier: SyncTables.Object] = [:]
    private var foundRows: [ManagedObjectID: SyncIdentifier] = [:]
    /// The number of objects that have got a random identifier.
    private var newCount: UInt64 = 0
    /// When objects were inserted that have not been captured, once that is asked for.
    private var insertionDates: HistoryInsertionDates?

    /// The number of rows that one transaction goes through.
    static let scanSize = 2_000

    /// The names of the model that rows were written with, if it was another one; see ``SyncModel/names``.
    private let known: [String: String]?
    /// The last transaction of the history that had been captured before.
    private let captured: Int64

    init(_ tables: SyncTables, date: Date) throws {
        self.tables = tables
        known = try tables.namesOfOtherModel()
        model = tables.model
        values = SyncValues(tables, tables.model)
        self.date = date
        time = date
        captured = tables.settings.captured
    }

    /// Captures what there is. If all rows must be gone through, a part of them.
    ///
    /// - Returns: The number of changed objects, and whether there is more.
    func run() throws -> (count: Int, isComplete: Bool) {
        let last = try store.lastHistoryTransactionNumber() ?? 0
        let old = try known.flatMap { try tables.isModelAdopted() ? nil : $0 }
        if let old { try tables.adoptModel(after: old) }
        if tables.settings.scan == nil, tables.settings.captured != last {
            do {
                try captureHistory()
            } catch let error as QuireError where error.code == .historyTokenExpired {
                tables.settings.scan = .init(entity: "", key: 0)
            }
        }
        tables.settings.captured = last
        // A migration, of which the history says nothing, may have changed the rows.
        if old != nil { tables.settings.scan = .init(entity: "", key: 0) }
        if tables.settings.scan != nil { try scan() }
        try finishSegment()
        try putFoundObjects()
        return (count, tables.settings.scan == nil)
    }

    private func putFoundObjects() throws {
        for id in found.keys.sorted() { if let object = found[id] { try tables.put(object) } }
        (found, foundRows) = ([:], [:])
        for id in left {
            touched.formUnion(try values.claimants(of: values.visibility.survivor(of: id)))
        }
        left = []
        for value in tables.changedUniqueValues {
            let holders = try tables.objects(withUniqueValue: value)
            if holders.count == 1, fresh.contains(holders[0]) {
                tables.changedUniqueValues.remove(value)
            }
        }
    }

    /// The present state of an object, with the changes that have been found.
    private func object(_ id: SyncIdentifier) throws -> SyncTables.Object? {
        try found[id] ?? tables.object(id)
    }

    /// The object that a row stands for.
    private func object(at objectID: ManagedObjectID) throws -> SyncTables.Object? {
        if let id = foundRows[objectID] { return found[id] }
        guard let object = try tables.object(at: objectID) else { return nil }
        return found[object.record.id] ?? object
    }

    private func keep(_ object: SyncTables.Object) {
        found[object.record.id] = object
        if let objectID = object.objectID { foundRows[objectID] = object.record.id }
    }

    /// Ends a segment with the changes found so far.
    private func finishSegment() throws {
        let records = order.compactMap { changed[$0] }
        if records.isEmpty { return }
        try tables.removeConflicts(settledBy: records)
        try tables.addToOutbox(records)
        count += records.count
        (changed, order, version, size) = ([:], [], nil, 0)
    }

    /// The time of the values of the object that is captured, if the store had it when it left a shared document: later changes of
    /// others win over them.
    private var formerTime: UInt64?

    /// The version of the changes of one transaction of the history.
    private func currentVersion() -> SyncVersion {
        if let formerTime {
            return SyncVersion(
                time: formerTime, peer: tables.settings.peer, sequence: tables.nextSequence)
        }
        if let version { return version }
        let new = tables.nextVersion(at: time)
        version = new
        return new
    }

    private func newIdentifier() -> SyncIdentifier {
        newCount += 1
        return SyncIdentifier(at: currentVersion().time, index: newCount)
    }

    /// The identifier of a row's object by its insertion; `nil` if that is not in the history.
    private func identifier(ofInserted row: ObjectSnapshot) throws -> SyncIdentifier? {
        let dates =
            try insertionDates ?? store.insertionDates(after: captured)
        insertionDates = dates
        return dates.date(of: row.objectID).map {
            SyncIdentifier(
                ofRow: row.objectID.primaryKey, entity: model.rootName(of: row.entity),
                insertedAt: $0, store: store.identity.uuid, in: tables.settings.container)
        }
    }

    // MARK: - History

    private func captureHistory() throws {
        // An object's changes are as old as its last one: what is found is its present row.
        try store.forEachObjectInHistory(after: tables.settings.captured) { objectID, date in
            // Not later than now, whatever another program's clock was.
            time = min(date, self.date)
            isInHistory = true
            defer { isInHistory = false }
            try capture(objectID, row: store.row(for: objectID))
        }
    }

    // MARK: - All rows

    private func scan() throws {
        guard var scan = tables.settings.scan else { return }
        var remaining = Self.scanSize
        let entities = store.layout.entities.compactMap { model[$0] }
        var index = entities.firstIndex { $0.entity.name == scan.entity } ?? 0
        if scan.entity.isEmpty { index = 0 }
        while index < entities.count, remaining > 0 {
            let entity = entities[index].entity
            if scan.entity != entity.name { scan = .init(entity: entity.name, key: 0) }
            let rows = try store.rows(of: entity, after: scan.key, limit: remaining)
            for position in 0..<rows.count {
                let row = rows[position]
                try capture(row.objectID, row: row)
                scan.key = row.objectID.primaryKey
            }
            if rows.count < remaining { index += 1 }
            remaining -= rows.count
        }
        tables.settings.scan = index < entities.count ? scan : nil
        if tables.settings.scan != nil { return }
        try captureLostRows()
        try tables.removeFormerIdentifiers()
    }

    /// Captures the deletion of rows of which the history says nothing.
    private func captureLostRows() throws {
        let lost = try tables.rows { try store.row(for: $0) == nil }
        for objectID in lost { try capture(objectID, row: nil) }
    }

    // MARK: - One object

    private func capture(_ objectID: ManagedObjectID, row: ObjectSnapshot?) throws {
        if order.count >= Self.segmentSize.objects || size >= Self.segmentSize.bytes {
            try finishSegment()
        }
        guard let row else {
            if let object = try object(at: objectID) { try captureDeletion(object) }
            return
        }
        guard let entity = model[row.entity] else { return }
        let known = try object(at: objectID)
        formerTime = known == nil ? try tables.formerIdentifier(of: objectID)?.time : nil
        defer { formerTime = nil }
        try captureChanges(of: known ?? insert(row, entity), row, entity)
    }

    /// Records a deletion, and that of the objects for which the row stood.
    private func captureDeletion(_ object: SyncTables.Object) throws {
        var deleted = [object.record.id]
        for value in SyncUniqueness.values(of: object.record, in: model) {
            for other in try tables.objects(withUniqueValue: value)
            where try tables.object(other)?.objectID == nil
                && values.visibility.survivor(of: other) == object.record.id
            {
                deleted.append(other)
            }
        }
        for id in Set(deleted).sorted() {
            guard var object = try self.object(id) else { continue }
            if object.record.isAlive {
                set(.existence, .integer(object.record.existenceCount + 1), of: &object.record)
            }
            object.objectID = nil
            keep(object)
        }
    }

    private func insert(
        _ row: ObjectSnapshot, _ entity: SyncModel.Entity
    ) throws -> SyncTables.Object {
        var entries: [SyncKey: SyncEntry] = [:]
        let version = currentVersion()
        var values: [(slot: ResolvedEntity.Slot, value: SyncValue)] = []
        for slot in entity.slots where slot.relationshipIndex == nil {
            let value = try SyncValue(row.valueWithoutLoading(at: slot.index))
            if value == .null, slot.attribute?.defaultValue.isNull ?? true { continue }
            entries[.property(entity.name(of: slot))] = SyncEntry(value: value, version: version)
            values.append((slot, value))
        }
        var id =
            try entity.identifier(of: entries, in: tables.settings.container, model)
            ?? tables.deletedObject(formerlyAt: row.objectID)?.record.id
            ?? tables.formerIdentifier(of: row.objectID)?.id
            ?? identifier(ofInserted: row) ?? newIdentifier()
        // A second object of one identity in the store is another object.
        if let taken = try object(id), taken.objectID != nil || !taken.record.canComeBack {
            id = newIdentifier()
        }
        // One that others have, or that was deleted.
        let old = try object(id)?.record
        if old == nil, id.isRandom { fresh.insert(id) }
        var object = SyncTables.Object(
            record: old ?? SyncRecord(id: id, entity: entity.name), objectID: row.objectID)
        if !object.record.isAlive {
            set(.existence, .integer(object.record.existenceCount + 1), of: &object.record)
        }
        let peer = tables.settings.peer
        for (slot, value) in values {
            let new = entity.firstEntries(
                for: value, of: slot, in: old ?? SyncRecord(id: id, entity: entity.name),
                by: peer)
            for (key, value) in new where object.record[key]?.value != value {
                set(key, value, of: &object.record)
            }
        }
        keep(object)
        return object
    }

    private func captureChanges(
        of object: SyncTables.Object, _ row: ObjectSnapshot, _ entity: SyncModel.Entity
    ) throws {
        var object = object
        for slot in entity.slots {
            let current = try row.valueWithoutLoading(at: slot.index)
            if !isShown(entity.name(of: slot), object.record, entity) {
                // A value saved before the rows have been rewritten is a change; one that the migration computed is not.
                let former = slot.attribute?.defaultValue ?? .null
                guard isInHistory, current != former else { continue }
            }
            let expected = try values.value(of: slot, object.record, entity)
            if try expected.isSame(as: current) { continue }
            if let rule = formerRule(of: slot, entity),
                let former = values.value(of: slot, object.record, entity, by: rule),
                try former.isSame(as: current)
            {
                // The former model did not allow the value; its row is written again.
                continue
            }
            if case .blob(let blob) = expected, current.isNull,
                try tables.isMissing(blob, of: object.record.id)
            {
                continue
            }
            if case .reference(let former)? = object.record[.property(entity.name(of: slot))]?.value,
                model.isOneToOne(slot, of: entity)
            {
                left.insert(former)
            }
            if case .objectID(let target) = current {
                guard let id = try identifier(of: target) else { continue }
                set(.property(entity.name(of: slot)), .reference(id), of: &object.record)
                continue
            }
            let new = entity.entries(
                for: try SyncValue(current), of: slot, in: object.record, by: tables.settings.peer)
            for (key, value) in new { set(key, value, of: &object.record) }
            guard slot.attribute?.type.isNumber ?? false else { continue }
            let captured = try values.value(of: slot, object.record, entity)
            // A counter that was set to null counts as 0.
            if try !captured.isSame(as: current) { touched.insert(object.record.id) }
        }
        for relationship in entity.memberships {
            let name = relationship.renamingIdentifier
            let current = try members(of: relationship, row)
            let expected = try values.members(of: relationship, object.record)
            for id in current.subtracting(expected) {
                set(.member(name, id), .boolean(true), of: &object.record)
            }
            let removed = expected.subtracting(current)
            if removed.isEmpty || !isShown(name, object.record, entity) { continue }
            try remove(removed, from: name, of: &object.record)
            for id in try values.visibility.duplicates(of: object.record.id) {
                guard var hidden = try self.object(id) else { continue }
                try remove(removed, from: name, of: &hidden.record)
                keep(hidden)
            }
        }
        for relationship in entity.orders
        where isShown(relationship.renamingIdentifier, object.record, entity)
            && wasOrdered(relationship, object.record, entity)
        {
            try captureOrder(of: relationship, row, &object.record)
        }
        if changed[object.record.id] != nil { keep(object) }
    }

    /// Removes members from a relationship of a record, and those that they stand for.
    private func remove(
        _ members: Set<SyncIdentifier>, from name: String, of record: inout SyncRecord
    ) throws {
        for (key, entry) in record.orderedEntries where entry.value == .boolean(true) {
            guard case .member(name, let id) = key,
                try members.contains(values.visibility.survivor(of: id))
            else { continue }
            set(key, .boolean(false), of: &record)
        }
    }

    /// Whether a row shows what its record has of a property: after an update of the program not until all rows have been written
    /// again, if the record has something of it.
    private func isShown(
        _ name: String, _ record: SyncRecord, _ entity: SyncModel.Entity
    ) -> Bool {
        guard let known else { return true }
        return known["\(entity.name).\(name)"] != nil
            || !record.entries.keys.contains { $0.propertyName == name }
    }

    /// The rule of an attribute in the model that rows were written with, if it was another one.
    private func formerRule(
        of slot: ResolvedEntity.Slot, _ entity: SyncModel.Entity
    ) -> SyncValueRule? {
        known?["\(entity.name).\(entity.name(of: slot)):rule"].flatMap { SyncValueRule(text: $0) }
    }

    /// Whether a row shows the order that its record has: the relationship may have had none in the model that rows were written with.
    private func wasOrdered(
        _ relationship: ResolvedEntity.Relationship, _ record: SyncRecord,
        _ entity: SyncModel.Entity
    ) -> Bool {
        let name = relationship.renamingIdentifier
        guard let known, known["\(entity.name).\(name):order"] == nil else { return true }
        return !record.entries.keys.contains {
            if case .position(name, _) = $0 { true } else { false }
        }
    }

    private func members(
        of relationship: ResolvedEntity.Relationship, _ row: ObjectSnapshot
    ) throws -> Set<SyncIdentifier> {
        Set(try orderedMembers(of: relationship, row))
    }

    private func orderedMembers(
        of relationship: ResolvedEntity.Relationship, _ row: ObjectSnapshot
    ) throws -> [SyncIdentifier] {
        let rows = try store.relatedRows(of: row.objectID, through: relationship)
        return try (0..<rows.count).compactMap { try identifier(of: rows[$0].objectID) }
    }

    /// The identifier of a row's object. One that has not been captured yet is inserted; its changes follow when it is its turn.
    private func identifier(of objectID: ManagedObjectID) throws -> SyncIdentifier? {
        if let known = try object(at: objectID) { return known.record.id }
        guard let row = try store.row(for: objectID), let entity = model[row.entity] else {
            return nil
        }
        return try insert(row, entity).record.id
    }

    /// Gives places to members whose order has changed: to as few as possible.
    private func captureOrder(
        of relationship: ResolvedEntity.Relationship, _ row: ObjectSnapshot,
        _ record: inout SyncRecord
    ) throws {
        let current = try orderedMembers(of: relationship, row)
        if current == values.sorted(current, in: relationship, of: record) {
            // Those without a place are at the end, by identifier; the next one needs a place among them.
            if current.allSatisfy({ record[.position(relationship.renamingIdentifier, $0)] != nil })
            {
                return
            }
        }
        let places = current.map { values.place(of: $0, in: relationship, of: record) }
        let kept = LongestIncreasingSubsequence.indexes(of: places)
        var previous: SyncPlace?
        var nextKept = kept.makeIterator()
        var next = nextKept.next()
        for (index, id) in current.enumerated() {
            if index == next {
                previous = places[index]
                next = nextKept.next()
                continue
            }
            let place = SyncPlace(between: previous, and: next.flatMap { places[$0] })
            set(.position(relationship.renamingIdentifier, id), .string(place.text), of: &record)
            previous = place
        }
    }

    private func set(_ key: SyncKey, _ value: SyncValue, of record: inout SyncRecord) {
        let version = currentVersion()
        // Only if the clock is at its end: then the other value stays, as it does on all replicas.
        if formerTime == nil, key != .existence, let own = record[key], own.version > version {
            touched.insert(record.id)
            return
        }
        if !fresh.contains(record.id) { touched.insert(record.id) }
        record.set(key, value, version)
        if changed[record.id] == nil {
            changed[record.id] = SyncRecord(id: record.id, entity: record.entity)
            order.append(record.id)
        }
        changed[record.id]?.set(key, value, version)
        size += value.size
    }
}
