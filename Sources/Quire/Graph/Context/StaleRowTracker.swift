internal import Dispatch
internal import QuireSystem
internal import Synchronization

/// Tracks the rows in fetch results that are stale, because the context has saved, refreshed or released their objects since.
///
/// A registered object has precedence over its row in fetch results; the row is used only once the object has been released. A
/// row noted here is read again then. Nothing is noted while no results are held, and notes without a held row are purged from
/// time to time.
struct StaleRowTracker: ~Copyable {
    /// Rises with every note.
    private(set) var serial: UInt64 = 0
    private var serials = IdentifierTable()
    /// Everything noted up to here concerns all rows.
    private var allSerial: UInt64 = 0
    let holders: RowHolders
    /// The number of notes at which those without a row are purged.
    private var limit = StaleRowTracker.minimumLimit
    private static let minimumLimit = 256

    init(of holders: RowHolders) { self.holders = holders }

    /// The number of objects noted, for tests.
    var count: Int { serials.count }

    /// Whether any rows are held.
    var areHeld: Bool { !holders.isEmpty }

    /// Marks rows of an object as stale.
    @inline(__always)
    mutating func note(_ bits: UInt64) {
        if holders.isEmpty { return removeAll() }
        serial += 1
        serials.set(serial, for: bits)
        if serials.count > limit { removeUnneeded() }
    }

    /// Marks all rows as stale.
    mutating func noteAll() {
        if holders.isEmpty { return removeAll() }
        serial += 1
        allSerial = serial
        serials.removeAll()
    }

    /// Whether a row was noted since a serial number.
    func contains(_ bits: UInt64, since: UInt64) -> Bool {
        if since == serial { return false }
        return allSerial > since || (serials[bits] ?? 0) > since
    }

    @inline(__always)
    private mutating func removeAll() {
        if serials.count == 0 { return }
        serials.removeAll()
        limit = Self.minimumLimit
    }

    /// Calls a closure with the identifier of each object of which a row is held.
    ///
    /// - Returns: Whether these are all; not while rows are being read on another thread.
    borrowing func forEachHeldRow(_ body: (UInt64) -> Void) -> Bool {
        var isComplete = true
        holders.forEach { holder in
            isComplete = isComplete && holder.isComplete
            holder.forEachRow { bits, _ in body(bits) }
        }
        return isComplete
    }

    /// Removes the notes without a row. Its cost is amortized over the notes.
    @inline(never)
    private mutating func removeUnneeded() {
        var needed = IdentifierTable()
        var heldCount = 0
        holders.forEach { holder in
            holder.forEachRow { bits, read in
                heldCount += 1
                if let noted = serials[bits], noted > read { needed.set(noted, for: bits) }
            }
        }
        limit = needed.count + max(Self.minimumLimit, heldCount / 4)
        serials = needed
    }
}

/// The holders of a context's rows, which are not retained. Holders of results end on any thread, as the last reference to them
/// does: their deinit waits while their rows are being examined.
// Unchecked, because the addresses are only used under the lock.
final class RowHolders: @unchecked Sendable {
    private let lock = Lock(())
    private var addresses = IdentifierTable()
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Adds a holder, which must remove itself before it is freed.
    func add(_ holder: RowHolder) {
        lock.withLock { _ in _ = addresses.set(0, for: Self.address(of: holder)) }
        count.add(1, ordering: .relaxed)
    }

    func remove(_ holder: RowHolder) {
        lock.withLock { _ in _ = addresses.remove(Self.address(of: holder)) }
        count.subtract(1, ordering: .relaxed)
    }

    private static func address(of holder: RowHolder) -> UInt64 {
        UInt64(UInt(bitPattern: Unmanaged.passUnretained(holder).toOpaque()))
    }

    /// Calls a closure with every holder. It must not add or release any.
    func forEach(_ body: (RowHolder) -> Void) {
        lock.withLock { _ in
            addresses.forEach { address, _ in
                guard let pointer = UnsafeRawPointer(bitPattern: UInt(address)) else { return }
                // Its deinit may have begun, so no reference may outlive the call.
                body(Unmanaged<RowHolder>.fromOpaque(pointer).takeUnretainedValue())
            }
        }
    }
}

// MARK: - Rows that children hold

/// A context's children, to query them for the rows they hold. Identified by numbers, not retained.
final class ContextChildren: Sendable {
    /// A child, which may be queried on any thread and answers on its queue.
    private struct Child: @unchecked Sendable {
        // Only dereferenced on the child's queue.
        weak var context: ManagedObjectContext?
        let marker: QueueMarker
    }

    private struct State {
        var children: [UInt32: Child] = [:]
        /// The queries from this context or one above it that not all children have answered.
        var questions: [RetainedRowsQuery] = []
    }

    private let state = Lock(State())

    var isEmpty: Bool { state.withLock { $0.children.isEmpty } }

    /// The queries that the children may not have answered.
    var questions: [RetainedRowsQuery] { state.withLock { $0.questions } }

    func add(_ context: ManagedObjectContext) {
        let child = Child(context: context, marker: context.queueMarker)
        let number = context.number
        state.withLock { $0.children[number] = child }
    }

    func remove(_ number: UInt32) {
        let questions = state.withLock { state in
            state.children[number] = nil
            return state.questions
        }
        for question in questions { question.remove(number) }
    }

    /// Sends a query to all children, which answer on their queues, or when they save.
    func ask(_ question: RetainedRowsQuery) {
        let children = state.withLock { state -> [Child] in
            if state.children.isEmpty { return [] }
            state.questions.removeAll(where: \.isComplete)
            state.questions.append(question)
            for number in state.children.keys { question.add(number) }
            return Array(state.children.values)
        }
        for child in children {
            child.marker.async { child.context?.answer(question) }
        }
    }
}

/// The identifiers of the objects of which a context's children, and theirs, hold rows: complete when all have answered.
///
/// Rows fetched after the answer are newer than the query, or known to the querying context, so they need not be reported. A
/// context queries its children after it has answered itself, because they may read rows that it holds.
final class RetainedRowsQuery: Sendable {
    private struct State {
        /// The contexts that have not answered.
        var missing: Set<UInt32> = []
        var identifiers: [ContiguousArray<UInt64>] = []
    }

    private let state = Lock(State())

    var isComplete: Bool { state.withLock { $0.missing.isEmpty } }

    /// Returns the answers, when all contexts have answered.
    func take() -> [ContiguousArray<UInt64>] {
        state.withLock { state in
            defer { state.identifiers = [] }
            return state.identifiers
        }
    }

    func add(_ number: UInt32) { state.withLock { _ = $0.missing.insert(number) } }

    func remove(_ number: UInt32) { state.withLock { _ = $0.missing.remove(number) } }

    /// Whether a context has not answered the query yet.
    func isMissing(_ number: UInt32) -> Bool { state.withLock { $0.missing.contains(number) } }

    func add(_ identifiers: ContiguousArray<UInt64>, of number: UInt32) {
        state.withLock { state in
            guard state.missing.remove(number) != nil else { return }
            state.identifiers.append(identifiers)
        }
    }
}

extension ManagedObjectContext {
    /// Answers the parent's pending queries.
    func answerRetainedRowsQueries() {
        guard let parent else { return }
        for question in parent.children.questions { answer(question) }
    }

    /// Answers a query with the rows that the context holds, in its objects and in fetch results, unless it has answered.
    /// During a background fetch its rows are unknown, and the answer is delayed until they are read.
    func answer(_ question: RetainedRowsQuery) {
        guard question.isMissing(number) else { return }
        var identifiers: ContiguousArray<UInt64> = []
        identityMap.forEach { identifiers.append($0.objectID.bits) }
        guard staleRows.forEachHeldRow({ identifiers.append($0) }) else { return }
        // Before this context has answered, so that the question is not complete in between.
        children.ask(question)
        question.add(identifiers, of: number)
    }

    /// Removes the entries of saved objects of which no child holds an older row.
    func removeUnneededSavedVersions() {
        let hasChildren = !children.isEmpty
        let question = writeBehindBuffer.withState { state -> RetainedRowsQuery? in
            if hasChildren { return state.savedVersions.ask() }
            state.savedVersions.removeAll()
            return nil
        }
        if let question { children.ask(question) }
    }
}
