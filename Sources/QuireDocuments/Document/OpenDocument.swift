import Foundation
import Quire

/// The parts of a document that exist only while it is open: the package, the contexts, and unsaved changes.
///
/// `ManagedDocument+Saving` saves it, `OpenDocument+Package` copies, replaces and moves its package.
@MainActor
final class OpenDocument {
    /// Replaced when the document is saved as another package, or moved.
    var package: DocumentPackage { didSet { synchronizeFiles() } }
    /// The additional content of the package, as synchronization changes it.
    private var files: DocumentFiles?
    private weak var document: ManagedDocument?
    let contexts: DocumentContexts

    /// The paths of all files of additional content, unsaved changes included.
    var contentNames: AdditionalContentNames
    var generation: Int?
    var unsavedContent = AdditionalContentChanges()
    /// The changes of the running save.
    var contentBeingSaved = AdditionalContentChanges()
    /// The draft in the store of unsaved changes; see `DocumentDraft`.
    var draftInStore: DocumentDraft?
    var draftStatus = DocumentDraftStatus.none
    /// The reason why unsaved changes could not be kept as a draft; see ``ManagedDocument/draftError``.
    var draftError: QuireError?
    /// Whether the parent may have a record of an abandoned generation.
    var mustRecordGeneration = false
    /// Changes reported by ``ManagedDocument/updateChangeCount(_:)``.
    private var otherChanges = ChangeCounter()
    /// The token of the running save; 0 if none runs.
    var tokenBeingSaved = 0
    /// The number of edits that did not change objects.
    private var otherEditCount = 0
    /// Whether the files of the store are no longer at their path, and were not replaced.
    var isStoreMissing = false
    /// The version with the last save before the package was replaced, until the conflict is resolved.
    var conflictVersion: DocumentVersion.ID?

    init(_ loaded: OpenedPackage) {
        package = loaded.package
        generation = loaded.content.generation
        contentNames = loaded.content.names
        contexts = DocumentContexts(loaded.coordinator)
    }

    /// Lets synchronization change the files of the package between two requests of the document.
    func synchronizeFiles(of document: ManagedDocument? = nil) {
        if let document { self.document = document }
        guard let document = self.document else { return }
        let files = DocumentFiles(package, of: document)
        package.store.use(files)
        self.files = files
    }

    var coordinator: PersistentStoreCoordinator { contexts.coordinator }
    var parent: QueueConfinedContext { contexts.parent }
    var context: ManagedObjectContext { contexts.context }

    // MARK: Changes

    /// The number of edits of any kind.
    var editCount: Int { contexts.editCount + otherEditCount }

    /// Whether anything differs from the last save.
    var hasUnsavedChanges: Bool {
        contexts.hasUnsavedChanges || otherChanges.hasChanges
            || !unsavedContent.isEmpty || !contentBeingSaved.isEmpty || isStoreMissing
    }

    /// Whether a save might write anything, also after undoing all changes, which the context may not detect. Check it before
    /// dropping changes.
    var mayHaveUnsavedChanges: Bool { needsSave || contexts.mayHaveUnsavedChanges }

    /// Whether a save would write anything, also if it would only remove the draft, because all changes were undone.
    var needsSave: Bool { hasUnsavedChanges || draftInStore != nil }

    /// The unsaved changes of additional content, including those that a save is writing.
    var allUnsavedContent: AdditionalContentChanges {
        unsavedContent.following(contentBeingSaved)
    }

    func count(_ change: DocumentChange) {
        otherEditCount += 1
        otherChanges.count(change)
    }

    /// A token of the document's present state, for ``didSave(_:)`` or ``didFailToSave(_:)``.
    func takeChangeToken() -> ChangeCounter.Token {
        let token = contexts.takeChangeToken()
        otherChanges.beginSave(token)
        return token
    }

    /// Makes the state of a token the saved one.
    func didSave(_ token: ChangeCounter.Token) {
        contexts.didSave(token)
        otherChanges.finishSave(token)
    }

    /// Drops a token whose state was not saved.
    func didFailToSave(_ token: ChangeCounter.Token) {
        contexts.didFailToSave(token)
        otherChanges.failSave(token)
    }

    // MARK: Additional content

    func contentData(at path: FileName) throws -> Data? {
        if let unsaved = unsavedContent.files[path] ?? contentBeingSaved.files[path] {
            return try unsaved.data()
        }
        guard contentNames.contains(path) || package.isReadOnly else { return nil }
        // A document opened for reading shows the current save of the writer; the writer knows its generation.
        return package.isReadOnly
            ? try package.additionalContent(at: path.text)
            : try package.content.data(at: path, in: generation)
    }

    /// A handle for a file, at its start.
    func contentFile(at path: FileName) throws -> FileHandle? {
        switch unsavedContent.files[path] ?? contentBeingSaved.files[path] {
        case .data(let data): return try OpenFile.temporary(holding: data).fileHandle()
        case .file(let file): return try file.open().openedInClear().fileHandle()
        case .removal: return nil
        case nil: break
        }
        guard contentNames.contains(path) || package.isReadOnly else { return nil }
        let file =
            package.isReadOnly
            ? try package.additionalContentFile(at: path.text)
            : try package.content.file(at: path, in: generation)
        return try file?.openedInClear().fileHandle()
    }

    /// The path of a file on disk.
    func contentPath(at path: FileName) throws -> String? {
        if package.store.protection != nil { return nil }
        switch unsavedContent.files[path] ?? contentBeingSaved.files[path] {
        case .data, .removal: return nil
        case .file(let file): return file.path
        case nil: break
        }
        let live = package.isReadOnly ? try package.liveGeneration() : generation
        guard let live else { return nil }
        let layout = package.layout
        let file = FileSystem.path(layout.additionalContent(generation: live), path.text)
        guard let found = try FileSystem.information(at: file, beneath: layout.path) else {
            return nil
        }
        try found.require(.regular, at: file)
        return file
    }

    func changeContent(_ change: AdditionalContentChange, at path: FileName) {
        otherEditCount += 1
        unsavedContent.files[path] = change
        if change.isRemoval { contentNames.remove(path) } else { contentNames.insert(path) }
    }

    // MARK: Reverting and closing

    /// - Returns: The additional content that a subclass has read.
    func revert(reading: @escaping ContentReader) async throws -> (any Sendable)? {
        let package = package
        let loaded = try await FileQueue.shared.run {
            try OpenedContent(package, reading: reading)
        }
        await removeDraft()
        await contexts.reset()
        generation = loaded.generation
        contentNames = loaded.names
        unsavedContent = AdditionalContentChanges()
        mustRecordGeneration = false
        otherChanges = ChangeCounter()
        return loaded.contents
    }

    /// The error of saving to a closed document.
    var closedError: QuireError {
        QuireError(
            .invalidState,
            "“\(package.layout.path)” was closed, so this context can no longer save to it; open it again, and make "
                + "the changes in a new context.",
            file: package.layout.path)
    }

    /// Releases the objects: those that are still referenced belong to no context afterwards.
    func detach() { contexts.detach(closedError) }
}

// MARK: - Opening

/// A request to open or create a package.
struct OpenRequest: Sendable, Equatable {
    /// The model of a new package, or a replacement for the one stored in the package.
    var model: ManagedObjectModel?
    var isReadOnly = false
    var isCreation = false
    /// The path of a new package, if it is not the document's.
    var path: String?
    /// The template of a new package.
    var template: DocumentTemplate?

    /// Whether a document opened by another request satisfies this one.
    func isSatisfied(by other: OpenRequest) -> Bool {
        !isCreation && isReadOnly == other.isReadOnly && (model == nil || self == other)
    }

    /// Opens or creates a package, and reads the data that a document needs first. Do not call it on the main queue.
    ///
    /// - Parameter predecessor: The open package, if only its store has been replaced.
    func load(
        path: String, options: SQLiteStoreOptions, migrating migration: StoreMigrationOptions?,
        waiting: LockWait? = nil,
        succeeding predecessor: DocumentPackage? = nil, reading: ContentReader,
        configuring: (PersistentStoreCoordinator, URL) throws -> Void
    ) throws -> OpenedPackage {
        let package: DocumentPackage
        if let predecessor {
            package = try predecessor.succeedingByStoreInPlace(model: model, migrating: migration)
        } else if isCreation {
            guard let model else {
                throw QuireError(
                    .invalidModel,
                    "“\(path)” cannot be created without a model, and the program's bundle contains none; pass a model, or override managedObjectModel.",
                    file: path)
            }
            package = try DocumentPackage.create(
                at: path, model: model, options: options, template: template)
        } else {
            package = try DocumentPackage.open(
                at: path, model: model, readOnly: isReadOnly, options: options,
                migrating: migration, waiting: waiting)
        }
        let coordinator = PersistentStoreCoordinator(store: package.store)
        do {
            try configuring(coordinator, URL(fileURLWithPath: package.layout.store))
            return OpenedPackage(
                package: package, coordinator: coordinator,
                content: try OpenedContent(package, reading: reading))
        } catch {
            if let predecessor {
                predecessor.resume(insteadOf: package)
            } else {
                // No other process can have opened it: only closing releases the lock.
                if isCreation { DocumentPackage.removeUnused(package.layout.path) }
                try? package.close()
            }
            try? coordinator.close()
            throw error
        }
    }
}

/// Reads additional content in a subclass's own way, from a folder.
typealias ContentReader = @Sendable (URL) throws -> (any Sendable)?

/// An open package, with the data that a document reads from it.
struct OpenedPackage: Sendable {
    var package: DocumentPackage
    var coordinator: PersistentStoreCoordinator
    var content: OpenedContent
    var draft: Draft
    /// When it was saved last.
    var modificationDate: Date?

    init(
        package: DocumentPackage, coordinator: PersistentStoreCoordinator, content: OpenedContent
    ) {
        self.package = package
        self.coordinator = coordinator
        self.content = content
        draft = Draft(in: package)
        modificationDate = package.modificationDate
    }
}

/// The additional content of a package, as a document needs it.
struct OpenedContent: Sendable {
    var generation: Int?
    var names: AdditionalContentNames
    /// The contents that a subclass has read.
    var contents: (any Sendable)?

    init(_ package: DocumentPackage, reading: ContentReader) throws {
        generation = try package.liveGeneration()
        do {
            names = AdditionalContentNames(try package.content.files(in: generation).map(\.path))
            contents = try generation.flatMap { try Self.contents(of: $0, package, reading) }
        } catch let error as QuireError where error.code == .notFound {
            // The rows can still be read; reading the files will report that they are missing.
            names = AdditionalContentNames([])
        }
    }

    /// The content that a subclass reads from a generation; for a protected document from a folder in memory, if the class has written
    /// the files.
    private static func contents(
        of generation: Int, _ package: DocumentPackage, _ reading: ContentReader
    ) throws -> (any Sendable)? {
        func read(_ folder: String) throws -> (any Sendable)? {
            try reading(URL(fileURLWithPath: folder, isDirectory: true))
        }
        guard package.store.protection != nil else {
            return try read(package.layout.additionalContent(generation: generation))
        }
        if try package.store.records()[AdditionalContentStore.folderRecordKey] == nil { return nil }
        let memory = try TemporarySibling.makeFolderInMemory()
        defer { memory.remove() }
        let folder = FileSystem.path(memory.path, "content")
        try package.content.unseal(generation, to: folder)
        return try read(folder)
    }
}
