public import Quire

// Work on a document's objects off the main queue.

extension ManagedDocument {
    /// Makes a context on a queue of its own, for work on the document's objects that takes long: an import, a computation.
    ///
    /// What it saves goes to the parent of ``managedObjectContext``, in memory, and is then a change of the document like
    /// any other: ``hasUnsavedChanges`` is true, it is autosaved, saved by ``save()`` and by closing, and shown in
    /// ``managedObjectContext`` from the next turn of the main queue on. It is no step of undo, and undoing other changes
    /// works on. Of a property that is changed in both contexts, what is saved last counts.
    ///
    /// The context sees what was saved to the parent by then, and merges automatically what is saved to it later; edits
    /// of ``managedObjectContext`` get there when the document is saved.
    ///
    /// ```swift
    /// let background = try document.newBackgroundContext()
    /// try await background.perform { context in
    ///     for title in titles {
    ///         try context.insertObject(entityName: "Book")["title"] = .string(title)
    ///     }
    ///     try context.save()          // The document has unsaved changes now, and shows the books.
    /// }
    /// ```
    ///
    /// Once the document was closed, or shows another package, saving the context is an error with code `invalidState`.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open.
    public func newBackgroundContext() throws -> PrivateQueueContext {
        guard let openDocument else { throw notOpenError }
        let context = PrivateQueueContext(parent: openDocument.parent)
        context.performAndWait { $0.automaticallyMergesChangesFromParent = true }
        return context
    }

    /// Runs a closure in a new context on a queue of its own; see ``newBackgroundContext()``. The closure saves the context
    /// itself; what it has not saved is dropped.
    ///
    /// ```swift
    /// let count = try await document.performBackgroundTask { context in
    ///     let books = try context.fetch(FetchRequest("Book"))
    ///     for book in books { book["pages"] = .integer(countPages(of: book)) }
    ///     try context.save()
    ///     return books.count
    /// }
    /// ```
    ///
    /// What the closure has saved is shown in ``managedObjectContext`` when this returns.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or what the closure throws.
    public func performBackgroundTask<Result>(
        _ body: sending @escaping (ManagedObjectContext) throws -> sending Result
    ) async throws -> sending Result {
        let context = try newBackgroundContext()
        defer { openDocument?.context.mergePendingSaves() }
        return try await context.perform(body)
    }
}
