import Foundation
import Quire

/// One coordinated access. Its steps:
///
/// 1. Enter the queue, and wait for the turn.
/// 2. Ask presenters to save, if the access requires it, and to relinquish the items; ask another process to save a document.
/// 3. Run the body.
/// 4. Return the items to presenters, and notify them of the changes.
/// 5. Grant the next requests.
///
/// If a step fails, steps 4 and 5 still undo the steps before it.
final class FileAccess: Sendable {
    /// An item and its intended use.
    struct Item: Sendable {
        enum Use: Sendable, Equatable {
            case reading(FileCoordinator.ReadingOptions)
            case writing(FileCoordinator.WritingPurpose)
        }

        var path: String
        var use: Use

        init(_ path: String, reading options: FileCoordinator.ReadingOptions) {
            self.path = standardized(path)
            use = .reading(options)
        }

        init(_ path: String, writing purpose: FileCoordinator.WritingPurpose) {
            self.path = standardized(path)
            use = .writing(purpose)
        }

        var isWriting: Bool {
            if case .writing = use { return true }
            return false
        }

        /// Whether presenters must save before.
        var needsSave: Bool {
            switch use {
            case .reading(let options): !options.contains(.withoutChanges)
            case .writing(let purpose): purpose == .moving || purpose == .merging
            }
        }

        /// The kind of access, for error messages.
        var phrase: String {
            switch use {
            case .reading: "reading “\(path)”"
            case .writing(.changing): "writing to “\(path)”"
            case .writing(.deleting): "deleting “\(path)”"
            case .writing(.moving): "moving “\(path)”"
            case .writing(.merging): "merging into “\(path)”"
            case .writing(.replacing): "replacing “\(path)”"
            }
        }
    }

    /// The accesses whose bodies the current task is running.
    @TaskLocal private static var outer: [FileAccess] = []

    private let items: [Item]
    private let presenter: (any FilePresenter)?
    private let timeout: Duration
    private let registry: FileAccessRegistry
    private struct State {
        /// The number in the registry; `nil` if an outer access covers this one.
        var number: AccessQueue.Number?
        var isCancelled = false
        /// Ends the wait for a presenter.
        var failEarly: (@Sendable (any Error) -> Void)?
    }

    private let state = Lock(State())

    init(
        items: [Item], presenter: (any FilePresenter)?, timeout: Duration,
        registry: FileAccessRegistry
    ) {
        self.items = items
        self.presenter = presenter
        self.timeout = timeout
        self.registry = registry
    }

    /// The path by which items are compared: absolute, without `.` and `..`, with symbolic links to its folder resolved.
    static func standardized(_ path: String) -> String {
        let path = FileSystem.absolute(path)
        let folder = FileSystem.resolved(FileSystem.folder(of: path))
        return FileSystem.path(folder, FileSystem.name(of: path))
    }

    /// Enters the queue immediately. ``run(_:)`` must follow in any case.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if it would wait for an access that encloses it.
    func enter() throws {
        if try isCoveredByOuter() { return }
        let number = registry.add(
            items.map { AccessQueue.Item(path: $0.path, isWriting: $0.isWriting) },
            for: presenter, name: phrase)
        state.withLock { $0.number = number }
    }

    /// Runs the steps after entering the queue.
    func run<Result: Sendable>(
        _ body: @Sendable ([String]) async throws -> Result
    ) async throws -> Result {
        let (queued, isCancelled) = state.withLock { ($0.number, $0.isCancelled) }
        guard let number = queued else { return try await body(items.map(\.path)) }
        defer { registry.remove(number) }
        if isCancelled { throw cancelled }
        try await waitForTurn(number)
        let reacquirers = ReacquirerList()
        do {
            let result = try await runInTurn(number, reacquirers, body)
            await reacquirers.call(timeout)
            await notifyOfChanges(number)
            return result
        } catch {
            await reacquirers.call(timeout)
            throw error
        }
    }

    /// Cancels the access if it is waiting, now or later.
    func cancel() {
        let (number, failEarly) = state.withLock { state in
            state.isCancelled = true
            return (state.number, state.failEarly)
        }
        if let number { registry.abandon(number) { _ in cancelled } }
        failEarly?(cancelled)
    }

    private var phrase: String { items.map(\.phrase).joined(separator: " and ") }

    private var cancelled: QuireError {
        QuireError(.cancelled, "\(sentence) was cancelled.", file: items[0].path)
    }

    private var sentence: String { phrase.prefix(1).uppercased() + phrase.dropFirst() }

    // MARK: Steps

    private func isCoveredByOuter() throws -> Bool {
        let outer = Self.outer.filter { $0.registry === registry }
        if outer.isEmpty { return false }
        let held = outer.flatMap(\.items)
        if items.allSatisfy({ item in
            held.contains {
                AccessQueue.Item.isPath(item.path, in: $0.path)
                    && ($0.isWriting || !item.isWriting)
            }
        }) {
            return true
        }
        let own = items.map { AccessQueue.Item(path: $0.path, isWriting: $0.isWriting) }
        for item in held {
            let other = AccessQueue.Item(path: item.path, isWriting: item.isWriting)
            if own.contains(where: { $0.disturbs(other) }) {
                throw QuireError(
                    .invalidState,
                    "\(sentence) would deadlock, because it was requested while \(item.phrase); "
                        + "request all items in one call.",
                    file: items[0].path)
            }
        }
        return false
    }

    /// Waits for running accesses and earlier requests for the items.
    private func waitForTurn(_ number: AccessQueue.Number) async throws {
        let timer = DispatchSource.makeTimerSource(queue: .global())
        timer.schedule(deadline: .now() + timeout.dispatchInterval)
        timer.setEventHandler { [registry, timeout, sentence, items] in
            registry.abandon(number) { obstacles in
                QuireError(
                    .timedOut,
                    "\(sentence) timed out after \(timeout), waiting for: "
                        + "\(obstacles.joined(separator: ", ")).",
                    file: items[0].path)
            }
        }
        timer.resume()
        defer { timer.cancel() }
        try await registry.turn(of: number)
    }

    private func runInTurn<Result: Sendable>(
        _ number: AccessQueue.Number, _ reacquirers: ReacquirerList,
        _ body: @Sendable ([String]) async throws -> Result
    ) async throws -> Result {
        let paths = registry.paths(of: number)
        for (item, path) in zip(items, paths) {
            let presenters = registry.presenters(of: path, except: presenter)
            registry.ask(presenters, for: number)
            for presenter in presenters {
                try await prepare(presenter, for: item, reacquirers)
            }
            if item.needsSave { try await saveElsewhere(path) }
        }
        if state.withLock({ $0.isCancelled }) { throw cancelled }
        registry.run(number)
        return try await Self.$outer.withValue(Self.outer + [self]) { try await body(paths) }
    }

    private func prepare(
        _ presenter: any FilePresenter, for item: Item, _ reacquirers: ReacquirerList
    ) async throws {
        if item.needsSave {
            try await ask(presenter, "save") { try await $0.savePresentedItemChanges() }
        }
        switch item.use {
        case .writing(.deleting):
            try await ask(presenter, "close") { try await $0.accommodatePresentedItemDeletion() }
        case .writing:
            try await ask(presenter, "relinquish it") {
                reacquirers.append(await $0.relinquishPresentedItemToWriter())
            }
        case .reading:
            try await ask(presenter, "relinquish it") {
                reacquirers.append(await $0.relinquishPresentedItemToReader())
            }
        }
    }

    /// Asks one presenter, and waits for its answer.
    private func ask(
        _ presenter: any FilePresenter, _ what: String,
        _ body: @escaping @Sendable (any FilePresenter) async throws -> Void
    ) async throws {
        if state.withLock({ $0.isCancelled }) { throw cancelled }
        let name = presenter.presenterName
        try await waitBounded(timeout) { [sentence, timeout, items] in
            QuireError(
                .timedOut,
                "\(sentence) failed, because \(name) did not \(what) within \(timeout).",
                file: items[0].path)
        } failEarly: { fail in
            state.withLock { $0.failEarly = fail }
        } for: {
            try await body(presenter)
        }
        state.withLock { $0.failEarly = nil }
    }

    /// Asks the process that has a document open to save it.
    private func saveElsewhere(_ path: String) async throws {
        let timeout = timeout
        _ = try await FileQueue.shared.run {
            try DocumentPackage.askOwnerToSave(at: path, timeout: timeout)
        }
    }

    private func notifyOfChanges(_ number: AccessQueue.Number) async {
        for (item, path) in zip(items, registry.paths(of: number)) {
            switch item.use {
            case .reading, .writing(.deleting), .writing(.moving): continue
            case .writing: break
            }
            for presenter in registry.presenters(of: path, except: presenter) {
                await waitBounded(timeout) { await presenter.presentedItemDidChange() }
            }
        }
    }
}

/// The reacquirers to call when an access has ended. A presenter that did not answer in time may add one later, which is then
/// called immediately.
private final class ReacquirerList: Sendable {
    private let list = Lock<[FileReacquirer]?>([])

    func append(_ reacquirer: FileReacquirer?) {
        guard let reacquirer else { return }
        let isLate = list.withLock { list in
            list?.append(reacquirer)
            return list == nil
        }
        if isLate { Task { await reacquirer() } }
    }

    func call(_ timeout: Duration) async {
        let all = list.withLock { list in
            defer { list = nil }
            return list ?? []
        }
        for reacquirer in all { await waitBounded(timeout, for: reacquirer) }
    }
}

/// The pending accesses of a coordinator.
final class CancellableAccesses: Sendable {
    private let accesses = Lock<[ObjectIdentifier: FileAccess]>([:])

    func add(_ access: FileAccess) {
        accesses.withLock { $0[ObjectIdentifier(access)] = access }
    }

    func remove(_ access: FileAccess) {
        accesses.withLock { $0[ObjectIdentifier(access)] = nil }
    }

    func cancelAll() {
        for access in accesses.withLock({ Array($0.values) }) { access.cancel() }
    }
}
