internal import Foundation
internal import Logging
internal import Quire
internal import QuireModel

/// Decides about values that were set without knowledge of each other, by the policies of their attributes.
///
/// Records are merged alike on all replicas, whatever policies they have: by the last writer. If a policy wants another value than
/// that, the replica that notices makes it a new change, which knows of both and is later than both. So replicas with other policies
/// have it too. Several replicas that notice make the same change, or changes that are merged in turn.
///
/// Counters need no decision: each peer has an entry of its own.
final class SyncPolicyMerge {
    private let tables: SyncTables
    private let date: Date
    private var changed: Set<SyncIdentifier> = []

    init(_ tables: SyncTables, date: Date) {
        self.tables = tables
        self.date = date
    }

    /// The outcome for two concurrent values.
    enum Decision {
        /// The last writer's value stays, and the other one is a conflict.
        case conflict
        /// The last writer's value stays.
        case keep
        /// Another value becomes a new change.
        case change([(key: SyncKey, value: SyncValue)])
    }

    /// Decides about a value of a record and one that a segment has for the same key.
    func decide(
        _ key: SyncKey, _ own: SyncRecord, _ other: SyncRecord, of segment: SyncSegment
    ) throws -> Decision {
        guard case .property(let name) = key, let first = own[key], let second = other[key],
            let entity = tables.model.entity(named: own.entity), let slot = entity.slot(named: name)
        else { return .conflict }
        // In the order in which all replicas have them.
        let isSecond = SyncRecord.isGreater(second, than: first, for: key)
        let (earlierEntry, laterEntry) = isSecond ? (first, second) : (second, first)
        let (earlier, later) = (earlierEntry.value, laterEntry.value)
        if let resolver = entity.resolvers[slot.name] {
            // Answers may differ, and may be asked about in turn. That ends because one replica asks about two values.
            guard laterEntry.version.peer == tables.settings.peer else { return .conflict }
            let base = try ancestors(of: name, own, other, segment).first
            guard
                let value = Self.answer(resolver, base, earlier, later, slot, entity.entity)
            else { return .conflict }
            return .change([
                (key, value), (.base(name), .ancestor(second.value, second.version)),
            ])
        }
        switch entity.policies[slot.name] {
        case nil, .lastWriter, .counter: return .conflict
        case .maximum, .minimum:
            // Any value is better than null.
            let isGreatest =
                entity.policies[slot.name] == .maximum || earlier == .null || later == .null
            guard
                let isEarlier = isGreatest
                    ? earlier.isGreater(than: later) : later.isGreater(than: earlier)
            else { return .conflict }
            return isEarlier ? .change([(key, earlier)]) : .keep
        case .text:
            guard case .string(let earlier) = earlier, case .string(let later) = later else {
                return .conflict
            }
            for case .string(let base) in try ancestors(of: name, own, other, segment) {
                guard let merged = TextMerge.merge(base: base, earlier, later) else { continue }
                if merged.utf8.elementsEqual(later.utf8) { return .keep }
                // As if the own change had been made to the other text: others who have that may have changed it since.
                return .change([
                    (key, .string(merged)), (.base(name), .ancestor(second.value, second.version)),
                ])
            }
            return .conflict
        }
    }

    /// The value that a resolver answers with; `nil` if it has none, or one that the attribute cannot have.
    private static func answer(
        _ resolver: SyncResolver, _ base: SyncValue?, _ earlier: SyncValue, _ later: SyncValue,
        _ slot: ResolvedEntity.Slot, _ entity: ResolvedEntity
    ) -> SyncValue? {
        guard let earlier = earlier.attributeValue, let later = later.attributeValue,
            let answer = resolver(base?.attributeValue, earlier, later)
        else { return nil }
        do {
            let value = try SyncValue(slot.coerce(answer, in: entity))
            // There is no file with it.
            if case .blob = value { return nil }
            return value
        } catch {
            logger.error("The resolver of \(entity.name).\(slot.name) failed: \(error)")
            return nil
        }
    }

    private static let logger = Logger(label: "quire.sync")

    /// Sets the values of a decision.
    func apply(_ values: [(key: SyncKey, value: SyncValue)], to record: inout SyncRecord) {
        let version = tables.nextVersion(at: date)
        // It is the last one, unless the clock is at its end.
        for (key, value) in values { record.merge(key, SyncEntry(value: value, version: version)) }
        changed.insert(record.id)
    }

    /// Makes the changes a segment, without those that later segments have replaced.
    func finish() throws {
        let records = try changed.sorted().compactMap { id -> SyncRecord? in
            guard let record = try tables.object(id)?.record else { return nil }
            let entries = record.entries.filter { isPending($0.value.version) }
            return entries.isEmpty
                ? nil : SyncRecord(id: id, entity: record.entity, entries: entries)
        }
        changed = []
        if !records.isEmpty { try tables.addToOutbox(records) }
    }

    // MARK: - Ancestors

    /// Values that two values both were made from, the last one first.
    private func ancestors(
        of name: String, _ own: SyncRecord, _ other: SyncRecord, _ segment: SyncSegment
    ) throws -> [SyncValue] {
        guard let first = own[.property(name)], let second = other[.property(name)] else {
            return []
        }
        let (firstBase, secondBase) = (own.base(of: name), other.base(of: name))
        var found: [(value: SyncValue, version: SyncVersion)] = []
        for (base, otherBase, entry) in [
            (firstBase, secondBase, second), (secondBase, firstBase, first),
        ] {
            guard let base else { continue }
            // The author of the other value knew it, or had the same one at hand.
            if try seen(by: entry.version, segment).contains(base.version)
                || entry.value.isIdentical(to: base.value)
                || otherBase?.value.isIdentical(to: base.value) ?? false
            {
                found.append(base)
            }
        }
        return found.sorted { $0.version > $1.version }.map(\.value)
    }

    private func seen(by version: SyncVersion, _ segment: SyncSegment) throws -> SyncVector {
        if isPending(version) { return tables.settings.seen }
        if version.peer == segment.peer, version.sequence == segment.sequence {
            return segment.seen
        }
        return try tables.seen(by: version)
    }

    /// Whether a version is that of changes that are made in this transaction.
    private func isPending(_ version: SyncVersion) -> Bool {
        version.peer == tables.settings.peer && version.sequence == tables.nextSequence
    }
}

extension SyncRecord {
    /// The value that the present one of an attribute was made from.
    fileprivate func base(of name: String) -> (value: SyncValue, version: SyncVersion)? {
        // A base of another version belongs to a value that was replaced without one.
        guard let base = self[.base(name)], base.version == self[.property(name)]?.version,
            case .ancestor(let value, let version) = base.value
        else { return nil }
        return (value, version)
    }
}

extension SyncValue {
    /// Whether a value is greater than another one, of the same kind; `nil` if they cannot be compared. Null is less than all.
    func isGreater(than other: SyncValue) -> Bool? {
        switch (self, other) {
        case (.null, _): false
        case (_, .null): true
        case (.boolean(let flag), .boolean(let other)): flag && !other
        case (.string(let text), .string(let other)):
            other.utf8.lexicographicallyPrecedes(text.utf8)
        case (.date(let date), .date(let other)): Self.isGreater(date, other)
        case (.double(let number), .double(let other)): Self.isGreater(number, other)
        case (.integer(let number), .integer(let other)): number > other
        default:
            // Numbers of models in which the attribute has different types.
            if let number, let other = other.number { number > other } else { nil }
        }
    }

    private static func isGreater(_ number: Double, _ other: Double) -> Bool? {
        number.isNaN || other.isNaN ? nil : number > other
    }

    private var number: Decimal? {
        switch attributeValue {
        case .integer(let number): Decimal(number)
        case .decimal(let number): number.isNaN ? nil : number
        case .double(let number): number.isFinite ? Decimal(number) : nil
        default: nil
        }
    }

    /// The size of what has no bound.
    fileprivate var inlineSize: Int {
        if case .string(let text) = self { text.utf8.count } else { 0 }
    }

    /// Whether the values have the same bytes: a text has other ones than one with equal characters.
    fileprivate func isIdentical(to other: SyncValue) -> Bool {
        self == other && encoded == other.encoded
    }
}

// MARK: - Capturing

extension SyncModel.Entity {
    /// The entries that a changed value of an attribute becomes, by the attribute's policy.
    func entries(
        for value: SyncValue, of slot: ResolvedEntity.Slot, in record: SyncRecord,
        by peer: SyncIdentifier
    ) -> [(key: SyncKey, value: SyncValue)] {
        let policy = policies[slot.name]
        let name = name(of: slot)
        let property = SyncKey.property(name)
        if let counter = SyncCounter(slot, named: name, of: record),
            policy == .counter || counter.isCounted
        {
            let number = value.attributeValue ?? .null
            guard policy == .counter else {
                return counter.first(for: number).map { [(property, $0)] } ?? []
            }
            let key = SyncKey.counter(name, peer)
            guard let total = counter.total(of: peer, for: number), total != record[key]?.value
            else { return [] }
            return [(key, total)]
        }
        if policy == .text || resolvers[slot.name] != nil, let old = record[property],
            max(value.inlineSize, old.value.inlineSize) <= TextMerge.maximumSize
        {
            return [(property, value), (.base(name), .ancestor(old.value, old.version))]
        }
        return [(property, value)]
    }

    /// The entries that a value of a new object becomes. If two peers make an object of one identity, both have counted.
    func firstEntries(
        for value: SyncValue, of slot: ResolvedEntity.Slot, in record: SyncRecord,
        by peer: SyncIdentifier
    ) -> [(key: SyncKey, value: SyncValue)] {
        let name = name(of: slot)
        let (property, counter) = (SyncKey.property(name), SyncKey.counter(name, peer))
        guard policies[slot.name] == .counter else { return [(property, value)] }
        // One that was deleted begins anew.
        let isKnown = record[.existence] != nil && !record.isAlive || record[counter] != nil
        if isKnown { return entries(for: value, of: slot, in: record, by: peer) }
        let new = SyncRecord(id: record.id, entity: record.entity)
        guard let start = SyncCounter(slot, named: name, of: new),
            let total = start.total(of: peer, for: value.attributeValue ?? .null)
        else { return [] }
        if start.first == .null { return [(counter, total)] }
        return start.first == value
            ? [(property, value)] : [(property, start.first), (counter, total)]
    }
}
