internal import QuireStore

/// The storage of ``FetchedObjects``: all rows, or identifiers and the rows of the last few batches.
///
/// Rows become stale when the context saves or refreshes their objects (``StaleRowTracker``); then objects are
/// faults that read their rows again. Objects that were new at the time of the fetch are retained, because their
/// identifiers change, and because no row brings them back after they were deleted.
@usableFromInline
final class FetchResults: RowHolder {
    let context: ManagedObjectContext
    /// The rows; empty if there are identifiers.
    let rows: RowSet
    /// Whether all rows are here.
    let hasRows: Bool
    private let identifiers: ContiguousArray<UInt64>
    /// The fetch batch size; 0 for none.
    private let batchSize: Int
    private let keyPaths: [QueryKeyPath]
    /// The serial of ``StaleRowTracker`` when the rows, or the identifiers, were read.
    let serial: UInt64
    private let newObjects: [UInt64: ManagedObject]
    /// Prefetched rows for all results.
    private var prefetched: PrefetchedObjects?
    /// The batches touched last, the last one at the end.
    private var batches: [Batch] = []

    /// The number of cached batches: enough for a few alternating positions of a list.
    private static let maximumBatchCount = 4

    private struct Batch {
        let number: Int
        /// In the order of the identifiers; those whose row is missing have no position.
        let rows: RowSet
        let positions: ContiguousArray<Int32>
        let serial: UInt64
        let prefetched: PrefetchedObjects?
    }

    /// Holds rows.
    init(
        rows: RowSet, keyPaths: [QueryKeyPath], newObjects: [UInt64: ManagedObject],
        context: ManagedObjectContext
    ) throws {
        self.context = context
        self.rows = rows
        hasRows = true
        identifiers = []
        batchSize = 0
        self.keyPaths = keyPaths
        self.newObjects = newObjects
        serial = context.staleRows.serial
        super.init()
        context.staleRows.holders.add(self)
        if !keyPaths.isEmpty && !rows.isEmpty {
            prefetched = try PrefetchedObjects(keyPaths, of: rows, context: context)
        }
    }

    /// Holds identifiers.
    init(
        identifiers: ContiguousArray<UInt64>, batchSize: Int, keyPaths: [QueryKeyPath],
        newObjects: [UInt64: ManagedObject], context: ManagedObjectContext
    ) {
        self.context = context
        rows = RowSet([], layout: context.layout, store: context.storeIdentity)
        hasRows = false
        self.identifiers = identifiers
        self.batchSize = batchSize
        self.keyPaths = keyPaths
        self.newObjects = newObjects
        serial = context.staleRows.serial
        super.init()
        context.staleRows.holders.add(self)
    }

    deinit {
        context.staleRows.holders.remove(self)
        if context.queueMarker.isCurrentAtRelease {
            // While the context is still there.
            prefetched = nil
            batches = []
        } else {
            let ended = LastReferences([prefetched as Any, batches], of: context)
            prefetched = nil
            batches = []
            ended.release()
        }
    }

    override func forEachRow(_ body: (_ bits: UInt64, _ serial: UInt64) -> Void) {
        for position in rows.indices { body(rows.identifierBits(at: position), serial) }
        for batch in batches {
            for position in batch.rows.indices {
                body(batch.rows.identifierBits(at: position), batch.serial)
            }
        }
    }

    @usableFromInline var count: Int { hasRows ? rows.count : identifiers.count }

    /// The number of batches that are held, for tests.
    var batchCount: Int { batches.count }
    var batchByteCount: Int { batches.reduce(0) { $0 + $1.rows.byteCount } }

    private func bits(at position: Int) -> UInt64 {
        hasRows ? rows.identifierBits(at: position) : identifiers[position]
    }

    /// The identifier of the object at a position, which a save may have made permanent meanwhile.
    func objectID(at position: Int) -> ManagedObjectID {
        let bits = bits(at: position)
        return newObjects[bits]?.objectID ?? context.objectID(bits: bits)
    }

    /// The object at a position.
    @usableFromInline
    func object(at position: Int) -> ManagedObject {
        if hasRows && newObjects.isEmpty && context.staleRows.serial == serial {
            return context.object(for: rows, at: position)
        }
        context.checkQueue()
        let bits = bits(at: position)
        if let object = newObjects[bits] { return object }
        if let object = context.identityMap.find(bits), !object.isFault { return object }
        if hasRows {
            return context.staleRows.contains(bits, since: serial)
                ? context.object(with: context.objectID(bits: bits))
                : context.object(for: rows, at: position)
        }
        if batchSize > 0 {
            do {
                let batch = try batch(position / batchSize)
                let place = Int(batch.positions[position % batchSize])
                if place >= 0 && !context.staleRows.contains(bits, since: batch.serial) {
                    return context.object(for: batch.rows, at: place)
                }
            } catch {
                // If the store is still unreadable, the fault reports it again when it fires.
                context.reportFault(error)
            }
        }
        return context.object(with: context.objectID(bits: bits))
    }

    // MARK: Batches

    private func batch(_ number: Int) throws -> Batch {
        if let last = batches.last, last.number == number { return last }
        if let index = batches.firstIndex(where: { $0.number == number }) {
            let batch = batches.remove(at: index)
            batches.append(batch)
            return batch
        }
        // Before the next is read, so that its rows can have the memory.
        if batches.count == Self.maximumBatchCount { batches.removeFirst() }
        let batch = try readBatch(number)
        batches.append(batch)
        return batch
    }

    private func readBatch(_ number: Int) throws -> Batch {
        let start = number * batchSize
        let wanted = identifiers[start..<min(start + batchSize, identifiers.count)]
        let serial = context.staleRows.serial
        let rows = try context.readRows(of: wanted.filter { newObjects[$0] == nil })
        var places = IdentifierTable(minimumCapacity: rows.count)
        for position in rows.indices {
            places.set(UInt64(position), for: rows.identifierBits(at: position))
        }
        var positions: ContiguousArray<Int32> = []
        positions.reserveCapacity(wanted.count)
        for bits in wanted { positions.append(places[bits].map { Int32($0) } ?? -1) }
        let prefetched =
            keyPaths.isEmpty || rows.isEmpty
            ? nil : try PrefetchedObjects(keyPaths, of: rows, context: context)
        return Batch(
            number: number, rows: rows, positions: positions, serial: serial, prefetched: prefetched
        )
    }
}

// MARK: - Fetched objects

/// The objects of a fetch, in its order. They are made when accessed, and registered with the context only while they are
/// retained.
///
/// The collection is a snapshot: later saves, insertions and deletions do not change its members. With a
/// ``FetchSpecification/fetchBatchSize`` it contains identifiers, and reads the rows around an accessed object; an object whose
/// row no longer exists is inaccessible (see ``ManagedObject``). Used on the context's queue.
public struct FetchedObjects<Object: ManagedObject>: RandomAccessCollection {
    @usableFromInline let results: FetchResults

    init(results: FetchResults) { self.results = results }

    /// The first position: 0.
    @inlinable public var startIndex: Int { 0 }
    /// The number of objects.
    @inlinable public var endIndex: Int { results.count }

    /// The object at a position.
    ///
    /// - Complexity: O(1); no access to the store, unless the objects are read in batches and this one's has not
    ///   been read or was dropped again.
    @inlinable public subscript(position: Int) -> Object {
        let object = results.object(at: position)
        guard let typed = ManagedObject.object(object, as: Object.self) else {
            preconditionFailure(
                "\(object) is not of class \(Object.self), although its entity is bound to that class."
            )
        }
        return typed
    }

    /// The objects as an array.
    ///
    /// Never inlined: if the optimizer sees a new array whose elements are never read, it omits storing them, but still
    /// releases them.
    @inline(never) @_semantics("optimize.sil.specialize.generic.never")
    public func _copyToContiguousArray() -> ContiguousArray<Object> {
        var objects = ContiguousArray<Object>()
        objects.reserveCapacity(count)
        for position in indices { objects.append(self[position]) }
        return objects
    }

    /// The identifiers of the objects, without making them.
    public var objectIDs: [ManagedObjectID] { (0..<results.count).map(results.objectID) }
}

@available(*, unavailable, message: "Use fetched objects only on their context's queue.")
extension FetchedObjects: Sendable {}

extension FetchedObjects: QueryArgument {
    /// The objects as a collection, for `IN`.
    public var queryExpression: QueryExpression {
        .collection(objectIDs.map { .constant(.objectID($0)) })
    }
}

// MARK: - Holders of rows

/// Holds rows of objects that need not be in memory: results of a fetch, prefetched rows, or a running background fetch.
/// Registers with the context's ``RowHolders`` on creation, and unregisters on deallocation.
@usableFromInline
class RowHolder {
    /// Whether its rows are known.
    var isComplete: Bool { true }

    /// Calls a closure with the identifier of each object whose row, or contents of a relationship, it holds, and the
    /// ``StaleRowTracker`` serial of their read.
    func forEachRow(_ body: (_ bits: UInt64, _ serial: UInt64) -> Void) {}
}
