public import Quire

// What users ask a document for. Each request has an async form, and one with a completion handler that is called
// exactly once, later, on the main queue.

/// Called once on the main queue, with `nil` if the request was carried out.
public typealias DocumentCompletionHandler = @MainActor @Sendable (QuireError?) -> Void

extension ManagedDocument {
    // MARK: Creating and opening

    /// Makes the package and opens it for writing. It is on disk when this returns.
    ///
    /// - Parameter model: The model of the objects, which the package will carry; `nil` for ``managedObjectModel``.
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is anything at the path, `invalidModel` if the model
    ///   cannot be used or there is none, `invalidState` if the document is open, or what writing throws.
    public func create(model: ManagedObjectModel? = nil) async throws {
        try await request(.open(requests.name(of: Opening(model: model, creates: true))))
    }

    /// Makes the package and opens it for writing.
    public func create(
        model: ManagedObjectModel? = nil, completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(
            .open(requests.name(of: Opening(model: model, creates: true))),
            answer: completionHandler)
    }

    /// Opens the package. If it is open or being opened in the same way, that will do.
    ///
    /// - Parameters:
    ///   - model: The model, if it shall not be the one that the package carries.
    ///   - readOnly: Whether to open it for reading only, which leaves no trace and works beside somebody who writes.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat`, `unsupported`, `locked` if somebody else has it open
    ///   for writing, `cancelled` if it is closed meanwhile, or `invalidState` if it is open in another way.
    public func open(model: ManagedObjectModel? = nil, readOnly: Bool = false) async throws {
        try await request(.open(requests.name(of: Opening(model: model, isReadOnly: readOnly))))
    }

    /// Opens the package.
    public func open(
        model: ManagedObjectModel? = nil, readOnly: Bool = false,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(
            .open(requests.name(of: Opening(model: model, isReadOnly: readOnly))),
            answer: completionHandler)
    }

    // MARK: Saving

    /// Saves the document as it is now: objects, external data and additional content, all or nothing.
    ///
    /// The snapshot is taken before this first suspends, or when the saves before it have ended. Main-queue work is O(*n*)
    /// in what changed; writing happens off the main queue.
    ///
    /// A package that was moved or renamed meanwhile is saved where it is now.
    ///
    /// - Throws: ``QuireError`` with code `validation`, `constraintConflict`, `mergeConflict`, `outOfSpace`, `readOnly`,
    ///   `inputOutput`, `notFound` if the package was deleted, or `invalidState` if the document is not open.
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
    public func revert() async throws { try await request(.revert(0)) }

    /// Makes the document what it was when it was saved last.
    public func revert(completionHandler: @escaping DocumentCompletionHandler) {
        submit(.revert(0), answer: completionHandler)
    }

    /// Makes the document's content that of another package as of its last save, or of an archive's: objects, external data
    /// and additional content, all or nothing, on disk as well. The document keeps its place. Unsaved changes are dropped.
    /// Objects that are held belong to no context afterwards.
    ///
    /// - Parameter path: The other package. Others may have it open.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat`, `incompatibleModel` if it has another model and
    ///   ``migrationOptions`` do not help, `readOnly`, `invalidState` if the document is not open, or what reading and writing
    ///   throw; then nothing has changed.
    public func revert(to path: String) async throws {
        let path = FileSystem.absolute(path)
        let migration = migrationOptions
        try await request(
            .revert(
                requests.addWork { [self] _ in
                    {
                        try await self.performRevert { open in
                            try await open.replaceContent(with: path, migrating: migration)
                        }
                    }
                }))
    }

    // MARK: Closing

    /// Saves unsaved changes and closes the document. Closing a closed document does nothing.
    ///
    /// Afterwards nothing is left beside the package's files: no log, no lock. ``managedObjectContext`` has no objects then,
    /// and those that are held belong to no context. It takes no new ones: `insertObject` throws an error with code
    /// `invalidState`, and so does saving an object that an initializer has made in it. Opened again, the document has another
    /// context.
    ///
    /// - Parameter discardingChanges: Whether to drop unsaved changes instead.
    /// - Throws: As ``save()``; then the document stays open and nothing is lost. If what cannot be saved is in no draft either,
    ///   because the disk is full, the message says so, and ``draftError`` says why.
    public func close(discardingChanges: Bool = false) async throws {
        try await request(.close(discardingChanges: discardingChanges))
    }

    /// Saves unsaved changes and closes the document.
    public func close(
        discardingChanges: Bool = false, completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(.close(discardingChanges: discardingChanges), answer: completionHandler)
    }
}
