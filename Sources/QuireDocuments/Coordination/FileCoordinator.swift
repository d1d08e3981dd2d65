import Foundation
public import Quire

/// Coordinates reading and writing of files and folders in this process, and asks their presenters to relinquish them.
///
/// ```swift
/// let coordinator = FileCoordinator()
/// let data = try await coordinator.coordinate(readingItemAt: path) { path in
///     try FileSystem.contents(of: path)       // Editors of the file have saved it, and nothing writes to it.
/// }
/// ```
///
/// Guarantees
/// ==========
///
/// - An item is a path with everything below it. Readers share it, a writer has exclusive access; first come, first served.
/// - Before a reader gets an item, its presenters save it and relinquish it to a reader. Before a writer gets it, they relinquish
///   it to a writer; ``WritingPurpose`` determines whether they save first. The coordinator's own presenter is not asked.
/// - Before a reader gets a document that **another process** has open for writing, that process saves it. It may continue to
///   write, but a reader of the package does not see that.
/// - Every wait ends: after ``timeout``, with an error of code `timedOut` that names the obstacle, or when the task, or every access
///   with ``cancel()``, is cancelled.
/// - The body runs once or not at all. It gets the item's current path.
///
/// An access in the body of another one is granted if the outer one covers it; one that would wait for the outer one fails
/// immediately with code `invalidState`.
///
/// It does not coordinate accesses that do not use it, or writes of several processes; for documents ``DocumentPackage`` has a
/// lock.
public final class FileCoordinator: Sendable {
    /// Options of reading an item.
    public struct ReadingOptions: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: Int

        /// Creates options from raw bits.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Presenters need not save: the state on disk is sufficient.
        public static let withoutChanges = ReadingOptions(rawValue: 1 << 0)
    }

    /// The purpose of writing an item.
    public enum WritingPurpose: Sendable, Hashable {
        /// To change it. Presenters relinquish it, and examine it afterwards.
        case changing
        /// To delete it. Presenters close it without saving; an error of a presenter makes the deletion fail.
        case deleting
        /// To move it. Presenters save it, and are notified of its new path; the body calls
        /// ``FileCoordinator/item(at:didMoveTo:)``.
        case moving
        /// To change parts of it. Presenters save it first.
        case merging
        /// To replace it. Presenters do not save it.
        case replacing
    }

    /// The maximum time to wait for other accesses to the item, and for each presenter.
    public let timeout: Duration
    let presenter: (any FilePresenter)?
    private let registry: FileAccessRegistry
    /// The pending accesses, to cancel them.
    private let accesses = CancellableAccesses()

    /// Creates a coordinator.
    ///
    /// - Parameters:
    ///   - presenter: The presenter that uses the coordinator; it is not asked to relinquish items.
    ///   - timeout: The maximum time to wait.
    public convenience init(
        presenter: (any FilePresenter)? = nil, timeout: Duration = .seconds(30)
    ) {
        self.init(presenter: presenter, timeout: timeout, registry: .shared)
    }

    /// For tests: with a separate registry.
    init(presenter: (any FilePresenter)?, timeout: Duration, registry: FileAccessRegistry) {
        self.presenter = presenter
        self.timeout = timeout
        self.registry = registry
    }

    // MARK: Presenters

    /// Registers a presenter. Registering it twice does nothing.
    public static func addFilePresenter(_ presenter: any FilePresenter) {
        FileAccessRegistry.shared.add(presenter)
    }

    /// Unregisters a presenter. An access that is already waiting for it continues to wait.
    public static func removeFilePresenter(_ presenter: any FilePresenter) {
        FileAccessRegistry.shared.remove(presenter)
    }

    /// All presenters, in the order in which they were registered.
    public static var filePresenters: [any FilePresenter] { FileAccessRegistry.shared.presenters }

    // MARK: Reading and writing

    /// Reads an item.
    ///
    /// - Parameters:
    ///   - path: The file or folder.
    ///   - options: The options of reading.
    ///   - body: Reads the item at its current path.
    /// - Throws: Errors of the body or of a presenter's save, or ``QuireError`` with code `timedOut`, `cancelled` or
    ///   `invalidState`.
    public func coordinate<Result: Sendable>(
        readingItemAt path: String, options: ReadingOptions = [],
        _ body: @Sendable (String) async throws -> Result
    ) async throws -> Result {
        try await access([FileAccess.Item(path, reading: options)]) { try await body($0[0]) }
    }

    /// Writes to an item.
    ///
    /// - Parameters:
    ///   - path: The file or folder, which need not exist.
    ///   - purpose: The purpose of writing.
    ///   - body: Writes to it.
    /// - Throws: As ``coordinate(readingItemAt:options:_:)``.
    public func coordinate<Result: Sendable>(
        writingItemAt path: String, for purpose: WritingPurpose = .changing,
        _ body: @Sendable (String) async throws -> Result
    ) async throws -> Result {
        try await access([FileAccess.Item(path, writing: purpose)]) { try await body($0[0]) }
    }

    /// Reads an item and writes to another one.
    ///
    /// - Throws: As ``coordinate(readingItemAt:options:_:)``.
    public func coordinate<Result: Sendable>(
        readingItemAt path: String, options: ReadingOptions = [],
        writingItemAt otherPath: String, for purpose: WritingPurpose = .changing,
        _ body: @Sendable (String, String) async throws -> Result
    ) async throws -> Result {
        try await access([
            FileAccess.Item(path, reading: options), FileAccess.Item(otherPath, writing: purpose),
        ]) { try await body($0[0], $0[1]) }
    }

    /// Writes to two items: for moving one to the path of the other.
    ///
    /// - Throws: As ``coordinate(readingItemAt:options:_:)``.
    public func coordinate<Result: Sendable>(
        writingItemAt path: String, for purpose: WritingPurpose = .changing,
        writingItemAt otherPath: String, for otherPurpose: WritingPurpose = .changing,
        _ body: @Sendable (String, String) async throws -> Result
    ) async throws -> Result {
        try await access([
            FileAccess.Item(path, writing: purpose),
            FileAccess.Item(otherPath, writing: otherPurpose),
        ]) { try await body($0[0], $0[1]) }
    }

    /// Reads an item.
    ///
    /// - Parameters:
    ///   - path: The item's path.
    ///   - options: The options of reading.
    ///   - body: Reads it, and gets its path.
    ///   - completionHandler: Called once on the main queue.
    public func coordinate<Result: Sendable>(
        readingItemAt path: String, options: ReadingOptions = [],
        _ body: @escaping @Sendable (String) async throws -> Result,
        completionHandler: @escaping @MainActor @Sendable (Swift.Result<Result, any Error>) -> Void
    ) {
        access(FileAccess.Item(path, reading: options), body, completionHandler)
    }

    /// Writes to an item.
    ///
    /// - Parameters:
    ///   - path: The item's path.
    ///   - purpose: The kind of writing.
    ///   - body: Writes to it, and gets its path.
    ///   - completionHandler: Called once on the main queue.
    public func coordinate<Result: Sendable>(
        writingItemAt path: String, for purpose: WritingPurpose = .changing,
        _ body: @escaping @Sendable (String) async throws -> Result,
        completionHandler: @escaping @MainActor @Sendable (Swift.Result<Result, any Error>) -> Void
    ) {
        access(FileAccess.Item(path, writing: purpose), body, completionHandler)
    }

    /// Enters the queue before it returns, so that requests are queued in the order in which they are made.
    private func access<Result: Sendable>(
        _ item: FileAccess.Item, _ body: @escaping @Sendable (String) async throws -> Result,
        _ handler: @escaping @MainActor @Sendable (Swift.Result<Result, any Error>) -> Void
    ) {
        @Sendable func finish(_ result: Swift.Result<Result, any Error>) {
            DispatchQueue.main.async { MainActor.assumeIsolated { handler(result) } }
        }
        let access: FileAccess
        do { access = try begin([item]) } catch { return finish(.failure(error)) }
        Task {
            do {
                finish(.success(try await run(access) { try await body($0[0]) }))
            } catch {
                finish(.failure(error))
            }
        }
    }

    /// Reports that an item was moved to presenters of it and its contents, and to waiting requests. Call it in the body of an
    /// access for moving.
    public func item(at path: String, didMoveTo newPath: String) async {
        await registry.didMove(
            FileAccess.standardized(path), to: FileAccess.standardized(newPath), except: presenter,
            timeout)
    }

    /// Cancels every access that is waiting, for other accesses or for a presenter. A body that has begun continues.
    public func cancel() { accesses.cancelAll() }

    private func access<Result: Sendable>(
        _ items: [FileAccess.Item], _ body: @Sendable ([String]) async throws -> Result
    ) async throws -> Result {
        try await run(begin(items), body)
    }

    /// Starts an access that ``run(_:_:)`` ends.
    private func begin(_ items: [FileAccess.Item]) throws -> FileAccess {
        let access = FileAccess(
            items: items, presenter: presenter, timeout: timeout, registry: registry)
        try access.enter()
        accesses.add(access)
        return access
    }

    private func run<Result: Sendable>(
        _ access: FileAccess, _ body: @Sendable ([String]) async throws -> Result
    ) async throws -> Result {
        defer { accesses.remove(access) }
        return try await withTaskCancellationHandler {
            try await access.run(body)
        } onCancel: {
            access.cancel()
        }
    }
}

extension QuireError.Code {
    /// A presenter or accessor did not answer in time.
    public static let timedOut = Self(rawValue: "timedOut")
}

// MARK: - Presenters

/// An object that shows or edits a file or folder, and is notified before other code in this process reads or writes it.
///
/// ```swift
/// FileCoordinator.addFilePresenter(editor)        // From now on it is notified.
/// defer { FileCoordinator.removeFilePresenter(editor) }
/// ```
///
/// Methods are called on an arbitrary queue, one at a time for a presenter and an access; an actor or a `@MainActor` class switches
/// to its own. They must return in time: the access fails after the timeout, with an error that contains ``presenterName``.
/// Meanwhile a presenter can read and write with a coordinator created with itself.
public protocol FilePresenter: AnyObject, Sendable {
    /// The item that it shows; a folder includes everything in it. Called often, from any thread; it must not block.
    var presentedItemPath: String? { get }
    /// Its name in error messages.
    var presenterName: String { get }

    /// Called before an access that requires it, to save unsaved changes. An error makes the access fail.
    func savePresentedItemChanges() async throws
    /// Called before other code reads the item: stop writing to it.
    ///
    /// - Returns: A closure to call when the access has ended; from then on the item may be written to again.
    func relinquishPresentedItemToReader() async -> FileReacquirer?
    /// Called before other code writes to the item: stop reading and writing it.
    ///
    /// - Returns: A closure to call when the access has ended; examine the item then.
    func relinquishPresentedItemToWriter() async -> FileReacquirer?
    /// Called before other code deletes the item: close it without saving. An error makes the deletion fail.
    func accommodatePresentedItemDeletion() async throws
    /// Called after the item, or a folder that contains it, was moved.
    func presentedItemDidMove(to path: String) async
    /// Called after other code has written to the item.
    func presentedItemDidChange() async
}

/// Called when the access for which a presenter relinquished its item has ended.
public typealias FileReacquirer = @Sendable () async -> Void

/// Optional requirements.
extension FilePresenter {
    /// The name of the type.
    public var presenterName: String { "\(type(of: self))" }
    /// Does nothing.
    public func savePresentedItemChanges() async throws {}
    /// Does nothing, and returns `nil`.
    public func relinquishPresentedItemToReader() async -> FileReacquirer? { nil }
    /// Does nothing, and returns `nil`.
    public func relinquishPresentedItemToWriter() async -> FileReacquirer? { nil }
    /// Does nothing.
    public func accommodatePresentedItemDeletion() async throws {}
    /// Does nothing.
    public func presentedItemDidMove(to path: String) async {}
    /// Does nothing.
    public func presentedItemDidChange() async {}
}
