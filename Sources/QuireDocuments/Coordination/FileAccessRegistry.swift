import Quire

/// Who presents what, and who reads and writes what, in this process.
final class FileAccessRegistry: Sendable {
    /// The process's.
    static let shared = FileAccessRegistry()

    private typealias Waiter = CheckedContinuation<Result<Void, QuireError>, Never>

    private struct State {
        var queue = AccessQueue()
        var presenters: [any FilePresenter] = []
        /// Those who wait for their turn.
        var waiting: [AccessQueue.Number: Waiter] = [:]
        /// Whose turn came, or who was given up, before they waited.
        var early: [AccessQueue.Number: Result<Void, QuireError>] = [:]
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
        // Freed after the lock is given back, if it is the last that holds it.
        _ = state.withLock { state in
            state.presenters.firstIndex { $0 === presenter }
                .map { state.presenters.remove(at: $0) }
        }
    }

    /// The presenters of an item, of what is in it, and of folders that it is in.
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

    /// Lines up for items.
    func add(
        _ items: [AccessQueue.Item], for presenter: (any FilePresenter)?, name: String
    ) -> AccessQueue.Number {
        state.withLock { state in
            let (number, mayBegin) = state.queue.add(
                items, for: presenter.map { ObjectIdentifier($0) }, name: name)
            if mayBegin { state.early[number] = .success(()) }
            return number
        }
    }

    /// Waits for the turn of a request.
    ///
    /// - Throws: What it is given up with.
    func turn(of number: AccessQueue.Number) async throws {
        // Errors come as values, as in ``FileQueue/run(_:)``.
        try await withCheckedContinuation { (continuation: Waiter) in
            let early = state.withLock { state -> Result<Void, QuireError>? in
                if let early = state.early.removeValue(forKey: number) { return early }
                state.waiting[number] = continuation
                return nil
            }
            if let early { continuation.resume(returning: early) }
        }.get()
    }

    /// Has a request that waits fail. One whose turn has come goes on.
    func giveUp(_ number: AccessQueue.Number, with error: (_ obstacles: [String]) -> QuireError) {
        let (waiter, failure) = state.withLock { state in
            guard state.queue[number]?.stage == .waiting else {
                return (Waiter?.none, QuireError?.none)
            }
            let failure = error(state.queue.obstacles(of: number).map(\.name))
            let waiter = state.waiting.removeValue(forKey: number)
            if waiter == nil { state.early[number] = .failure(failure) }
            return (waiter, failure)
        }
        if let failure { waiter?.resume(returning: .failure(failure)) }
    }

    /// A request asks presenters.
    func ask(_ presenters: [any FilePresenter], for number: AccessQueue.Number) {
        let asked = Set(presenters.map { ObjectIdentifier($0) })
        begin { $0.ask(asked, for: number) }
    }

    /// A request has its items for itself now.
    func run(_ number: AccessQueue.Number) { state.withLock { $0.queue.run(number) } }

    /// The items of a request, which may have been moved.
    func paths(of number: AccessQueue.Number) -> [String] {
        state.withLock { $0.queue[number]?.items.map(\.path) ?? [] }
    }

    /// A request is through.
    func remove(_ number: AccessQueue.Number) {
        state.withLock { _ = $0.early.removeValue(forKey: number) }
        begin { $0.remove(number) }
    }

    /// Whether nobody reads, writes or waits, for tests.
    var isIdle: Bool { state.withLock { $0.queue.requests.isEmpty && $0.waiting.isEmpty } }
    /// How many wait for their turn, for tests.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    private func begin(_ change: (inout AccessQueue) -> [AccessQueue.Number]) {
        let begun = state.withLock { state in
            change(&state.queue).compactMap { number -> Waiter? in
                if let waiter = state.waiting.removeValue(forKey: number) { return waiter }
                state.early[number] = .success(())
                return nil
            }
        }
        for waiter in begun { waiter.resume(returning: .success(())) }
    }
}
