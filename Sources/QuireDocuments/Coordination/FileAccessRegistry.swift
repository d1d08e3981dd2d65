import Quire

/// The presenters and accesses of this process.
final class FileAccessRegistry: Sendable {
    /// The registry of the process.
    static let shared = FileAccessRegistry()

    private typealias Waiter = CheckedContinuation<Result<Void, QuireError>, Never>

    private struct State {
        var queue = AccessQueue()
        var presenters: [any FilePresenter] = []
        /// Waiting requests.
        var waiting: [AccessQueue.Number: Waiter] = [:]
        /// Requests that were granted or abandoned before they waited.
        var earlyResults: [AccessQueue.Number: Result<Void, QuireError>] = [:]
    }

    private let state = Lock(State())

    // MARK: Presenters

    var presenters: [any FilePresenter] { state.withLock { $0.presenters } }

    func add(_ presenter: any FilePresenter) {
        state.withLock { state in
            if !state.presenters.contains(where: { $0 === presenter }) {
                state.presenters.append(presenter)
            }
        }
    }

    func remove(_ presenter: any FilePresenter) {
        // The last reference is released after the lock.
        _ = state.withLock { state in
            state.presenters.firstIndex { $0 === presenter }
                .map { state.presenters.remove(at: $0) }
        }
    }

    /// The presenters of an item, of its contents, and of folders that contain it.
    func presenters(of path: String, except own: (any FilePresenter)?) -> [any FilePresenter] {
        presenters.filter { presenter in
            guard presenter !== own, let presented = presenter.presentedItemPath else {
                return false
            }
            return AccessQueue.Item.overlap(FileAccess.standardized(presented), path)
        }
    }

    func didMove(
        _ path: String, to newPath: String, except own: (any FilePresenter)?, _ timeout: Duration
    ) async {
        begin { $0.move(path, to: newPath) }
        for presenter in presenters where presenter !== own {
            guard let presented = presenter.presentedItemPath.map(FileAccess.standardized),
                AccessQueue.Item.isPath(presented, in: path)
            else { continue }
            let moved = newPath + presented.dropFirst(path.count)
            await waitBounded(timeout) { await presenter.presentedItemDidMove(to: moved) }
        }
    }

    // MARK: Turns

    /// Queues a request for items.
    func add(
        _ items: [AccessQueue.Item], for presenter: (any FilePresenter)?, name: String
    ) -> AccessQueue.Number {
        state.withLock { state in
            let (number, mayBegin) = state.queue.add(
                items, for: presenter.map { ObjectIdentifier($0) }, name: name)
            if mayBegin { state.earlyResults[number] = .success(()) }
            return number
        }
    }

    /// Waits for the turn of a request.
    ///
    /// - Throws: The error with which the request is abandoned.
    func turn(of number: AccessQueue.Number) async throws {
        // Errors are passed as values, as in ``FileQueue/run(_:)``.
        try await withCheckedContinuation { (continuation: Waiter) in
            let earlyResults = state.withLock { state -> Result<Void, QuireError>? in
                if let earlyResults = state.earlyResults.removeValue(forKey: number) {
                    return earlyResults
                }
                state.waiting[number] = continuation
                return nil
            }
            if let earlyResults { continuation.resume(returning: earlyResults) }
        }.get()
    }

    /// Makes a waiting request fail. A granted one continues.
    func abandon(_ number: AccessQueue.Number, with error: (_ obstacles: [String]) -> QuireError) {
        let (waiter, failure) = state.withLock { state in
            guard state.queue[number]?.stage == .waiting else {
                return (Waiter?.none, QuireError?.none)
            }
            let failure = error(state.queue.obstacles(of: number).map(\.name))
            let waiter = state.waiting.removeValue(forKey: number)
            if waiter == nil { state.earlyResults[number] = .failure(failure) }
            return (waiter, failure)
        }
        if let failure { waiter?.resume(returning: .failure(failure)) }
    }

    /// Records that a request is asking presenters.
    func ask(_ presenters: [any FilePresenter], for number: AccessQueue.Number) {
        let asked = Set(presenters.map { ObjectIdentifier($0) })
        begin { $0.ask(asked, for: number) }
    }

    /// Records that presenters have relinquished the items of a request.
    func run(_ number: AccessQueue.Number) { state.withLock { $0.queue.run(number) } }

    /// The items of a request, which may have been moved.
    func paths(of number: AccessQueue.Number) -> [String] {
        state.withLock { $0.queue[number]?.items.map(\.path) ?? [] }
    }

    /// Removes a request that has ended.
    func remove(_ number: AccessQueue.Number) {
        state.withLock { _ = $0.earlyResults.removeValue(forKey: number) }
        begin { $0.remove(number) }
    }

    /// Whether there are no accesses, for tests.
    var isIdle: Bool { state.withLock { $0.queue.requests.isEmpty && $0.waiting.isEmpty } }
    /// The number of waiting requests, for tests.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    private func begin(_ change: (inout AccessQueue) -> [AccessQueue.Number]) {
        let begun = state.withLock { state in
            change(&state.queue).compactMap { number -> Waiter? in
                if let waiter = state.waiting.removeValue(forKey: number) { return waiter }
                state.earlyResults[number] = .success(())
                return nil
            }
        }
        for waiter in begun { waiter.resume(returning: .success(())) }
    }
}

// MARK: - The queue

/// Decides the order of requests for items. It is a pure value: it does not wait and accesses no files.
///
/// Rules
/// =====
///
/// - An item is a path with everything below it.
/// - Readers of an item share it; a writer has exclusive access.
/// - First come, first served: a request waits for earlier conflicting ones, whether they are running or waiting. So neither
///   writers nor readers starve.
/// - A request for several items gets all of them at once or none, so that no two requests wait for each other.
/// - While a request asks presenters to relinquish an item, requests of those presenters are granted: they save before they
///   relinquish it.
struct AccessQueue: Sendable {
    typealias Number = UInt64
    typealias PresenterNumber = ObjectIdentifier

    /// A path, and whether it is written to.
    struct Item: Sendable, Equatable {
        var path: String
        var isWriting: Bool

        /// Whether both conflict.
        func disturbs(_ other: Item) -> Bool {
            (isWriting || other.isWriting) && Self.overlap(path, other.path)
        }

        /// Whether one path equals or contains the other.
        static func overlap(_ path: String, _ other: String) -> Bool {
            isPath(path, in: other) || isPath(other, in: path)
        }

        static func isPath(_ path: String, in folder: String) -> Bool {
            // As bytes, see `FileName`.
            let (path, folder) = (path.utf8, folder.utf8)
            guard path.starts(with: folder) else { return false }
            let slash = UInt8(ascii: "/")
            return path.count == folder.count || folder.last == slash
                || path.dropFirst(folder.count).first == slash
        }
    }

    enum Stage: Sendable, Equatable {
        case waiting
        /// The items are granted, and these presenters are being asked.
        case asking(Set<PresenterNumber>)
        case running
    }

    struct Request: Sendable {
        var number: Number
        var items: [Item]
        /// The presenter that makes the request.
        var presenter: PresenterNumber?
        /// The name, for error messages.
        var name: String
        var stage = Stage.waiting
    }

    /// The requests in the order in which they were made.
    private(set) var requests: [Request] = []
    private var lastNumber: Number = 0

    /// Adds a request.
    ///
    /// - Returns: Its number, and whether it can start now.
    mutating func add(
        _ items: [Item], for presenter: PresenterNumber?, name: String
    ) -> (number: Number, mayBegin: Bool) {
        lastNumber += 1
        requests.append(
            Request(number: lastNumber, items: items, presenter: presenter, name: name))
        return (lastNumber, begin().contains(lastNumber))
    }

    /// Records that a request asks presenters to relinquish its items.
    ///
    /// - Returns: The requests that can start now.
    mutating func ask(_ presenters: Set<PresenterNumber>, for number: Number) -> [Number] {
        set(number, .asking(presenters))
        return begin()
    }

    /// Records that presenters have relinquished the items of a request.
    mutating func run(_ number: Number) { set(number, .running) }

    /// Removes a request that has ended or was abandoned.
    ///
    /// - Returns: The requests that can start now.
    mutating func remove(_ number: Number) -> [Number] {
        requests.removeAll { $0.number == number }
        return begin()
    }

    /// Changes the path of requests for an item that was moved.
    mutating func move(_ path: String, to newPath: String) -> [Number] {
        for request in requests.indices {
            for item in requests[request].items.indices {
                let old = requests[request].items[item].path
                if Item.isPath(old, in: path) {
                    requests[request].items[item].path = newPath + old.dropFirst(path.count)
                }
            }
        }
        return begin()
    }

    /// The request with a number.
    subscript(_ number: Number) -> Request? { requests.first { $0.number == number } }

    /// The requests that a request is waiting for.
    func obstacles(of number: Number) -> [Request] {
        guard let place = requests.firstIndex(where: { $0.number == number }) else { return [] }
        return requests[..<place].filter { isInTheWay($0, of: requests[place]) }
    }

    private mutating func set(_ number: Number, _ stage: Stage) {
        guard let place = requests.firstIndex(where: { $0.number == number }) else { return }
        requests[place].stage = stage
    }

    /// Grants all requests that are not blocked.
    private mutating func begin() -> [Number] {
        var begun: [Number] = []
        for place in requests.indices where requests[place].stage == .waiting {
            let request = requests[place]
            if requests[..<place].contains(where: { isInTheWay($0, of: request) }) { continue }
            requests[place].stage = .asking([])
            begun.append(request.number)
        }
        return begun
    }

    private func isInTheWay(_ other: Request, of request: Request) -> Bool {
        if case .asking(let asked) = other.stage, let presenter = request.presenter,
            asked.contains(presenter)
        {
            return false
        }
        return other.items.contains { item in request.items.contains { $0.disturbs(item) } }
    }
}
