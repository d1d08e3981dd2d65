internal import Dispatch

/// The inverse operations of one user event. While a log exists that may refer to an object by its temporary identifier, the
/// context keeps the permanent one.
final class UndoLog {
    let operations: [UndoOperation]
    /// The values of counters after the event.
    let counts: UndoneCounts
    /// Logs are numbered in the order they were made.
    let number: UInt64
    private weak var context: ManagedObjectContext?

    init(_ operations: [UndoOperation], number: UInt64, context: ManagedObjectContext) {
        self.operations = operations
        counts = context.layout.hasCounters ? UndoneCounts(after: operations) : UndoneCounts()
        self.number = number
        self.context = context
    }

    deinit {
        guard let context else { return }
        if context.queueMarker.isCurrentAtRelease {
            return context.undoIdentifiers.removeLog(number)
        }
        nonisolated(unsafe) let ended = context
        context.queueMarker.async { [number] in ended.undoIdentifiers.removeLog(number) }
    }
}

extension [UndoOperation] {
    /// Removes operations that earlier ones overwrite: undoing a log ends with the first recorded value or order.
    mutating func dropOverwritten() {
        var seen: Set<UndoLogPosition> = []
        var lastOrder: UndoLogPosition?
        removeAll { operation in
            let object = ObjectIdentifier(operation.object)
            switch operation {
            case .value(_, let slot, _):
                return !seen.insert(UndoLogPosition(object: object, slot: slot)).inserted
            case .order(_, let toMany, _):
                // Positions mean something only next to the contents of their time.
                let place = UndoLogPosition(object: object, slot: toMany)
                defer { lastOrder = place }
                return place == lastOrder
            case .insertMember, .removeMember:
                lastOrder = nil
                return false
            case .life: return false
            }
        }
    }
}

/// A slot of an object, or one of its to-many relationships.
struct UndoLogPosition: Hashable {
    let object: ObjectIdentifier
    let slot: Int
}

/// The permanent identifiers of objects that undo logs may refer to by temporary ones.
///
/// Only logs made before the save that replaced a temporary identifier can contain it; the identifiers that a save adds are
/// released with the logs made before it.
struct UndoIdentifiers: ~Copyable {
    private var permanent = IdentifierTable()
    /// The saves that added identifiers, from `firstSave` on.
    private var saves: [(before: UInt64, temporary: ContiguousArray<UInt64>)] = []
    private var firstSave = 0
    private var logs = IdentifierTable()
    /// No log has a lower number.
    private var oldestLog: UInt64 = 1
    private(set) var lastLog: UInt64 = 0

    /// The number of identifiers kept.
    var count: Int { permanent.count }
    /// The capacity of the table, for tests.
    var capacity: Int { permanent.capacity }

    /// The bits of the permanent identifier of an object, by those of its temporary one.
    subscript(temporary: UInt64) -> UInt64? { permanent[temporary] }

    /// The number for a new log.
    mutating func addLog() -> UInt64 {
        lastLog += 1
        logs.set(0, for: lastLog)
        return lastLog
    }

    /// Removes the identifiers that no remaining log needs.
    mutating func removeLog(_ number: UInt64) {
        logs.remove(number)
        while oldestLog <= lastLog && logs[oldestLog] == nil { oldestLog += 1 }
        while firstSave < saves.count && saves[firstSave].before < oldestLog {
            for bits in saves[firstSave].temporary { permanent.remove(bits) }
            saves[firstSave].temporary = []
            firstSave += 1
        }
        if firstSave * 2 >= saves.count && firstSave > 0 {
            saves.removeFirst(firstSave)
            firstSave = 0
        }
    }

    /// Adds the identifiers replaced by a save.
    mutating func add(
        _ new: ContiguousArray<(temporary: UInt64, permanent: ManagedObjectID)>,
        hasUnfinishedLog: Bool
    ) {
        if (logs.isEmpty && !hasUnfinishedLog) || new.isEmpty { return }
        for pair in new { permanent.set(pair.permanent.bits, for: pair.temporary) }
        saves.append(
            (hasUnfinishedLog ? lastLog + 1 : lastLog, ContiguousArray(new.map(\.temporary))))
    }

    /// Removes the permanent identifiers of objects that have their temporary ones again.
    mutating func remove(_ temporary: some Sequence<ManagedObjectID>) {
        for id in temporary { permanent.remove(id.bits) }
    }

    mutating func removeAll() {
        permanent.removeAll()
        saves = []
        firstSave = 0
    }
}
