internal import Dispatch

/// Which of the rows that fetch results hold must not make objects any more, because the context has saved,
/// refreshed or forgotten their objects since.
///
/// An object that is alive is the truth; its row in a list of results matters only once the object has been
/// released. What is noted here is asked for anew then. Nothing is noted while no results are held, and from time to time
/// notes are removed of objects of which no row is held.
struct StaleRowTracker: ~Copyable {
    /// Rises with every note.
    private(set) var serial: UInt64 = 0
    private var serials = IdentifierTable()
    /// Everything noted up to here concerns all rows.
    private var allSerial: UInt64 = 0
    /// The addresses of the holders, which are not retained.
    private var holders = IdentifierTable()
    /// How many notes there may be until those are removed that concern no row.
    private var limit = StaleRowTracker.minimumLimit
    private static let minimumLimit = 256

    /// The number of objects noted, for tests.
    var count: Int { serials.count }

    /// Whether any rows are held.
    var areHeld: Bool { !holders.isEmpty }

    /// Notes that rows of an object are out of date.
    @inline(__always)
    mutating func note(_ bits: UInt64) {
        if holders.isEmpty { return }
        serial += 1
        serials.set(serial, for: bits)
        if serials.count > limit { removeUnneeded() }
    }

    /// Notes that all rows are out of date.
    mutating func noteAll() {
        if holders.isEmpty { return }
        serial += 1
        allSerial = serial
        serials.removeAll()
    }

    /// Whether a row was noted since a serial number.
    func contains(_ bits: UInt64, since: UInt64) -> Bool {
        if since == serial { return false }
        return allSerial > since || (serials[bits] ?? 0) > since
    }

    /// Adds a holder of rows, which must remove itself before it is freed.
    mutating func addHolder(_ holder: RowHolder) {
        holders.set(0, for: Self.address(of: holder))
    }

    mutating func removeHolder(_ holder: RowHolder) {
        holders.remove(Self.address(of: holder))
        if holders.isEmpty {
            serials.removeAll()
            limit = Self.minimumLimit
        }
    }

    private static func address(of holder: RowHolder) -> UInt64 {
        UInt64(UInt(bitPattern: Unmanaged.passUnretained(holder).toOpaque()))
    }

    private borrowing func forEachHolder(_ body: (RowHolder) -> Void) {
        holders.forEach { address, _ in
            guard let pointer = UnsafeRawPointer(bitPattern: UInt(address)) else { return }
            body(Unmanaged<RowHolder>.fromOpaque(pointer).takeUnretainedValue())
        }
    }

    /// Calls a closure with the identifier of each object of which a row is held.
    ///
    /// - Returns: Whether these are all; not while rows are being read on another thread.
    borrowing func forEachHeldRow(_ body: (UInt64) -> Void) -> Bool {
        var isComplete = true
        forEachHolder { holder in
            isComplete = isComplete && holder.isComplete
            holder.forEachRow { bits, _ in body(bits) }
        }
        return isComplete
    }

    /// Removes the notes that concern no row. Each has cost its part of it by then.
    @inline(never)
    private mutating func removeUnneeded() {
        var needed = IdentifierTable()
        var heldCount = 0
        forEachHolder { holder in
            holder.forEachRow { bits, read in
                heldCount += 1
                if let noted = serials[bits], noted > read { needed.set(noted, for: bits) }
            }
        }
        limit = needed.count + max(Self.minimumLimit, heldCount / 4)
        serials = needed
    }
}

// MARK: - Rows that children hold

/// The children of a context, to ask them which rows they hold. They are told by their numbers and not retained.
final class ContextChildren: Sendable {
    /// A child, which may be asked on any thread and answers on its queue.
    private struct Child: @unchecked Sendable {
        // Only dereferenced on the child's queue.
        weak var context: ManagedObjectContext?
        let marker: QueueMarker
    }

    private struct State {
        var children: [UInt32: Child] = [:]
        /// What they have been asked, by this context or one above it, and have not all answered.
        var questions: [RetainedRowsQuery] = []
    }

    private let state = Lock(State())

    var isEmpty: Bool { state.withLock { $0.children.isEmpty } }

    /// What the children have been asked and may not have answered.
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

    /// Asks all children, who answer when their queues come to it, or when they save.
    func ask(_ question: RetainedRowsQuery) {
        let children = state.withLock { state -> [Child] in
            if state.children.isEmpty { return [] }
            state.questions.removeAll(where: \.isComplete)
            state.questions.append(question)
            for number in state.children.keys { question.add(number) }
            return Array(state.children.values)
        }
        for child in children {
            child.marker.queue.async { child.context?.answer(question) }
        }
    }
}

/// The identifiers of the objects of which the children of a context, and theirs, hold rows: asked by the context, and
/// complete when all have answered.
///
/// What a child reads after its answer was saved before the question, or after it and is known to whoever asked. A child is
/// asked by its parent when that has answered, because it may read rows that its parent holds.
final class RetainedRowsQuery: Sendable {
    private struct State {
        /// The contexts that have not answered.
        var missing: Set<UInt32> = []
        var identifiers: [ContiguousArray<UInt64>] = []
    }

    private let state = Lock(State())

    var isComplete: Bool { state.withLock { $0.missing.isEmpty } }

    /// Takes the answers, when all have answered.
    func take() -> [ContiguousArray<UInt64>] {
        state.withLock { state in
            defer { state.identifiers = [] }
            return state.identifiers
        }
    }

    func add(_ number: UInt32) { state.withLock { _ = $0.missing.insert(number) } }

    func remove(_ number: UInt32) { state.withLock { _ = $0.missing.remove(number) } }

    /// Whether a context has been asked and has not answered.
    func isMissing(_ number: UInt32) -> Bool { state.withLock { $0.missing.contains(number) } }

    func add(_ identifiers: ContiguousArray<UInt64>, of number: UInt32) {
        state.withLock { state in
            guard state.missing.remove(number) != nil else { return }
            state.identifiers.append(identifiers)
        }
    }
}

extension ManagedObjectContext {
    /// Answers what the parent has asked, if anything.
    func answerRetainedRowsQueries() {
        guard let parent else { return }
        for question in parent.children.questions { answer(question) }
    }

    /// Answers which rows the context holds, in its objects and in results of fetches, unless it has. While it is reading
    /// rows on another thread it does not know, and answers when they are read.
    func answer(_ question: RetainedRowsQuery) {
        guard question.isMissing(number) else { return }
        var identifiers: ContiguousArray<UInt64> = []
        identityMap.forEach { identifiers.append($0.objectID.bits) }
        guard staleRows.forEachHeldRow({ identifiers.append($0) }) else { return }
        // Before this context has answered, so that the question is not complete in between.
        children.ask(question)
        question.add(identifiers, of: number)
    }

    /// Removes what is known of objects that were saved, if no child holds their rows as they were before.
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
