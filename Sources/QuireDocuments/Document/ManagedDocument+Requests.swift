public import Foundation
public import Quire

// What users ask a document for. Each request has an async form, and one with a completion handler that is called
// exactly once, later, on the main queue.

/// Called once on the main queue, with `nil` if the request was carried out.
public typealias DocumentCompletionHandler = @MainActor @Sendable (QuireError?) -> Void

extension ManagedDocument {
    // MARK: Creating and opening

    /// Makes the package and opens it for writing. It is on disk when this returns.
    ///
    /// - Parameter model: The model of the objects, which the package will carry.
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is anything at the path, `invalidModel`, `invalidState`
    ///   if the document is open, or what writing throws.
    public func create(model: ManagedObjectModel) async throws {
        try await request(.open(opening(Opening(model: model, creates: true))))
    }

    /// Makes the package and opens it for writing.
    public func create(
        model: ManagedObjectModel, completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(.open(opening(Opening(model: model, creates: true))), answer: completionHandler)
    }

    /// Opens the package. If it is open or being opened in the same way, that will do.
    ///
    /// - Parameters:
    ///   - model: The model, if it shall not be the one that the package carries.
    ///   - readOnly: Whether to open it for reading only, which leaves no trace and works beside somebody who writes.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat`, `unsupported`, `locked` if somebody else has it open
    ///   for writing, `cancelled` if it is closed meanwhile, or `invalidState` if it is open in another way.
    public func open(model: ManagedObjectModel? = nil, readOnly: Bool = false) async throws {
        try await request(.open(opening(Opening(model: model, isReadOnly: readOnly))))
    }

    /// Opens the package.
    public func open(
        model: ManagedObjectModel? = nil, readOnly: Bool = false,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(
            .open(opening(Opening(model: model, isReadOnly: readOnly))), answer: completionHandler)
    }

    // MARK: Saving

    /// Saves the document as it is now: objects, external data and additional content, all or nothing.
    ///
    /// The snapshot is taken before this first suspends, or when the saves before it have ended. Main-queue work is O(*n*)
    /// in what changed; writing happens off the main queue.
    ///
    /// - Throws: ``QuireError`` with code `validation`, `constraintConflict`, `mergeConflict`, `outOfSpace`, `readOnly`,
    ///   `inputOutput`, or `invalidState` if the document is not open.
    public func save() async throws { try await request(.save) }

    /// Saves the document as it is now.
    public func save(completionHandler: @escaping DocumentCompletionHandler) {
        submit(.save, answer: completionHandler)
    }

    /// Saves the document if it has unsaved changes.
    ///
    /// - Throws: As ``save()``.
    public func autosave() async throws { try await request(.autosave) }

    /// Saves the document if it has unsaved changes.
    public func autosave(completionHandler: @escaping DocumentCompletionHandler) {
        submit(.autosave, answer: completionHandler)
    }

    /// Makes the document what it was when it was saved last. Objects that are held belong to no context afterwards.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or what reading throws; then nothing
    ///   has changed.
    public func revert() async throws { try await request(.revert) }

    /// Makes the document what it was when it was saved last.
    public func revert(completionHandler: @escaping DocumentCompletionHandler) {
        submit(.revert, answer: completionHandler)
    }

    // MARK: Closing

    /// Saves unsaved changes and closes the document. Closing a closed document does nothing.
    ///
    /// Afterwards nothing is left beside the package's files: no log, no lock.
    ///
    /// - Parameter discardingChanges: Whether to drop unsaved changes instead.
    /// - Throws: As ``save()``; then the document stays open and nothing is lost.
    public func close(discardingChanges: Bool = false) async throws {
        try await request(.close(discardingChanges: discardingChanges))
    }

    /// Saves unsaved changes and closes the document.
    public func close(
        discardingChanges: Bool = false, completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(.close(discardingChanges: discardingChanges), answer: completionHandler)
    }

    // MARK: Copies

    /// Saves unsaved changes, and exports the document to an archive, `.zip` or `.tar.zst` as the path says.
    ///
    /// Exporting an unchanged document again gives an equal archive. Editing and saving may go on meanwhile;
    /// closing makes the export fail.
    ///
    /// - Parameters:
    ///   - path: The archive to make.
    ///   - replacing: Whether to replace a file that is there.
    ///   - progress: Gets the bytes to write as its total; cancelling it stops the export and leaves nothing.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported`, `cancelled`, or as ``save()``.
    public func export(
        to path: String, replacing: Bool = false, progress: Progress? = nil
    ) async throws {
        try await writeAway { try $0.export(to: path, replacing: replacing, progress: progress) }
    }

    /// Saves unsaved changes, and writes a copy of the document to another package.
    ///
    /// - Parameters:
    ///   - path: The package to make.
    ///   - replacing: Whether to replace a document that is there.
    /// - Throws: ``QuireError`` with code `alreadyExists`, or as ``save()``.
    public func writeCopy(to path: String, replacing: Bool = false) async throws {
        try await writeAway { try $0.writeCopy(to: path, replacing: replacing) }
    }

    /// Looks at everything in the package, as of the last save. Changes nothing.
    public func check() async throws -> [DocumentProblem] {
        let package = try openPackage()
        return try await FileQueue.copies.run { try package.check() }
    }

    private func writeAway(
        _ body: @escaping @Sendable (DocumentPackage) throws -> Void
    ) async throws {
        if !isReadOnly { try await autosave() }
        let package = try openPackage()
        try await FileQueue.copies.run { try body(package) }
    }

    private func openPackage() throws -> DocumentPackage {
        guard let package = openDocument?.package else {
            throw QuireError(
                .invalidState, "“\(path)” is not open; open the document first.",
                subject: .init(file: path))
        }
        return package
    }

    private func request(_ request: DocumentStateMachine.Request) async throws {
        try await withCheckedThrowingContinuation {
            (continuation: CheckedContinuation<Void, any Error>) in
            submit(request) { error in
                if let error {
                    continuation.resume(throwing: error)
                } else {
                    continuation.resume()
                }
            }
        }
    }
}
