import Quire

extension ManagedDocument {
    /// Makes the package with a template's model, objects and additional content, and opens it for writing.
    ///
    /// It is on disk, with all of that, when this returns; if anything fails there is no package.
    ///
    /// ```swift
    /// let document = ManagedDocument(path: "Library.quire")
    /// try await document.create(from: .named("Library"))
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is anything at the path, `invalidModel`,
    ///   `invalidFormat` or `validation` if the template is at fault, or what writing throws.
    public func create(from template: DocumentTemplate) async throws {
        let model = try template.model()
        let content = try template.additionalContent()
        try await create(model: model)
        do {
            try template.insertSeed(into: managedObjectContext)
            for file in content { try additionalContent.write(file.data, at: file.path) }
            try await save()
            // Taking back what the template brought makes no sense.
            undoManager?.removeAllActions()
        } catch {
            // What was made a moment ago holds nothing of the user's.
            try? await close(discardingChanges: true)
            try? FileSystem.removeTree(path)
            throw error
        }
    }
}
