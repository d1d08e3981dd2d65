import Foundation
public import Quire

/// Reads and writes files and folders in turn with others in this process, and asks who shows them to make way.
///
/// ```swift
/// let coordinator = FileCoordinator()
/// let data = try await coordinator.coordinate(readingItemAt: path) { path in
///     try FileSystem.contents(of: path)       // Editors of the file have saved it, and no one writes to it.
/// }
/// ```
///
/// Guarantees
/// ==========
///
/// - An item is a path with everything below it. Readers share it, a writer has it alone; first come, first served.
/// - Before a reader gets an item, its presenters save it and make way for a reader. Before a writer gets it, they make
///   way for a writer; whether they save before, ``WritingPurpose`` says. The coordinator's own presenter is not asked.
/// - Before a reader gets a document that **another process** has open for writing, that process saves it. It goes on
///   writing meanwhile, which a reader of the package does not see.
/// - Every wait ends: by ``timeout``, with an error of code `timedOut` that says for whom was waited; or because the
///   task, or everything by ``cancel()``, is cancelled.
/// - The body runs once or not at all. It is called with where the item is by then.
///
/// An access in the body of another one is let through if the outer one covers it; one that would wait for the outer one
/// fails at once with code `invalidState`.
///
/// It does not order accesses that do not use it, or writes of several processes; for documents ``DocumentPackage``
/// has a lock.
public final class FileCoordinator: Sendable {
    /// Options of reading an item.
    public struct ReadingOptions: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: Int

        /// Makes options of bits.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Presenters need not save: what is on disk will do.
        public static let withoutChanges = ReadingOptions(rawValue: 1 << 0)
    }

    /// The purpose of writing an item.
    public enum WritingPurpose: Sendable, Hashable {
        /// To change it. Presenters make way, and look at it afterwards.
        case changing
        /// To delete it. Presenters close it, without saving; one that refuses makes the deletion fail.
        case deleting
        /// To move it. Presenters save it, and are notified of its new path; the body calls
        /// ``FileCoordinator/item(at:didMoveTo:)``.
        case moving
        /// To change parts of it. Presenters save it before.
        case merging
        /// To put something else in its place. Presenters do not save it.
        case replacing
    }

    /// The longest time to wait: for others who have the item, and for each presenter.
    public let timeout: Duration
    let presenter: (any FilePresenter)?
    private let registry: FileAccessRegistry
    /// Holds the accesses that are under way, to cancel them.
    private let accesses = CancellableAccesses()

    /// Makes a coordinator.
    ///
    /// - Parameters:
    ///   - presenter: On whose behalf it reads and writes; it is not asked to make way.
    ///   - timeout: The longest time to wait.
    public convenience init(
        presenter: (any FilePresenter)? = nil, timeout: Duration = .seconds(30)
    ) {
        self.init(presenter: presenter, timeout: timeout, registry: .shared)
    }

    /// For tests: with a registry of its own.
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

    /// Unregisters a presenter. An access that is asking it goes on doing so.
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
    ///   - options: How it is going to be read.
    ///   - body: Reads it. It gets the path at which the item is by then.
    /// - Throws: What the body throws, what a presenter's saving throws, or ``QuireError`` with code `timedOut`,
    ///   `cancelled` or `invalidState`.
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

    /// Writes to two items: for moving one to where the other is or was.
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

    /// Enters the queue before it returns, so that requests come in the order in which they are made.
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

    /// Reports that an item was moved: to presenters of it and its contents, and to waiting requests. To be called
    /// in the body of an access for moving.
    public func item(at path: String, didMoveTo newPath: String) async {
        await registry.didMove(
            FileAccess.standardized(path), to: FileAccess.standardized(newPath), except: presenter,
            timeout)
    }

    /// Gives up every access that waits, for others or for a presenter. A body that has begun goes on.
    public func cancel() { accesses.cancelAll() }

    private func access<Result: Sendable>(
        _ items: [FileAccess.Item], _ body: @Sendable ([String]) async throws -> Result
    ) async throws -> Result {
        try await run(begin(items), body)
    }

    /// Begins an access that ``run(_:_:)`` ends.
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

/// An object that shows or edits a file or folder, and is notified before others in this process read or write it.
///
/// ```swift
/// FileCoordinator.addFilePresenter(editor)        // From now on it is asked.
/// defer { FileCoordinator.removeFilePresenter(editor) }
/// ```
///
/// Each method is called on no particular queue, one at a time for a presenter and an access; an actor or a `@MainActor`
/// class hops to its own. It has to return: the accessor gives up after a while, with an error that names
/// ``presenterName``. What a presenter reads or writes meanwhile by a coordinator of its own, made with itself, is let
/// through.
public protocol FilePresenter: AnyObject, Sendable {
    /// The item that it shows; a folder includes everything in it. Asked from any thread, often; it must not wait.
    var presentedItemPath: String? { get }
    /// Its name in error messages.
    var presenterName: String { get }

    /// Called before others read or write the item, to save unsaved changes. An error makes the access fail.
    func savePresentedItemChanges() async throws
    /// Called before others read the item: do not write to it.
    ///
    /// - Returns: What to call when they are through, so that it may be written to again.
    func relinquishPresentedItemToReader() async -> FileReacquirer?
    /// Called before others write to the item: neither read nor write it.
    ///
    /// - Returns: What to call when they are through. Then look at what the item is now.
    func relinquishPresentedItemToWriter() async -> FileReacquirer?
    /// Called before others delete the item: close it without saving. An error makes the deletion fail.
    func accommodatePresentedItemDeletion() async throws
    /// The item, or a folder that it is in, was moved.
    func presentedItemDidMove(to path: String) async
    /// Called after others have written to the item.
    func presentedItemDidChange() async
}

/// Called when an access for which a presenter has made way is over.
public typealias FileReacquirer = @Sendable () async -> Void

/// Optional requirements.
extension FilePresenter {
    /// The name of the type.
    public var presenterName: String { "\(type(of: self))" }
    /// There is nothing to save.
    public func savePresentedItemChanges() async throws {}
    /// It does not write anyway.
    public func relinquishPresentedItemToReader() async -> FileReacquirer? { nil }
    /// It does not use the item meanwhile anyway.
    public func relinquishPresentedItemToWriter() async -> FileReacquirer? { nil }
    /// It does not mind.
    public func accommodatePresentedItemDeletion() async throws {}
    /// It asks for the path when it needs it.
    public func presentedItemDidMove(to path: String) async {}
    /// It does not mind.
    public func presentedItemDidChange() async {}
}
