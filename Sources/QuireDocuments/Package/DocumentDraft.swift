public import Foundation
import Logging
public import Quire

/// The changes that a document could not save: those of its objects, valid or not, and of its additional content.
///
/// It is kept in the package's store, separate from the saved state, until a save has written its changes.
public struct DocumentDraft: Sendable, Hashable {
    /// When it was created.
    public var date: Date
    /// The changes of objects.
    public var objects: ObjectDraft
    /// The changes of additional content by path: the new bytes, or `nil` if the file is removed. Bytes of paths that are not
    /// composed UTF-8 are escaped. Files of more than 64 MiB are stored in a folder of the package instead.
    public var content: [String: Data?]
    /// The names of large files in that folder, by their paths in the additional content.
    var largeFiles: [String: String] = [:]

    /// The version of the format. Drafts without large files have the first version.
    private static let format = 2

    private enum Key {
        static let format = "format"
        static let date = "date"
        static let objects = "objects"
        static let files = "files"
        static let removedFiles = "removedFiles"
        static let largeFiles = "largeFiles"
    }

    /// Creates a draft.
    public init(date: Date = Date(), objects: ObjectDraft, content: [String: Data?] = [:]) {
        self.date = date
        self.objects = objects
        self.content = content
    }

    /// Whether it has no changes.
    public var isEmpty: Bool { objects.isEmpty && content.isEmpty && largeFiles.isEmpty }

    /// Whether another draft, of any date, has the same changes.
    func hasSameChanges(as other: DocumentDraft) -> Bool {
        objects == other.objects && content == other.content && largeFiles == other.largeFiles
    }

    /// The draft as bytes: a binary property list.
    func encoded() throws -> Data {
        try PropertyListSerialization.data(
            fromPropertyList: [
                Key.format: largeFiles.isEmpty ? 1 : Self.format, Key.date: date,
                Key.objects: objects.encoded(), Key.largeFiles: largeFiles,
                Key.files: content.compactMapValues { $0 },
                Key.removedFiles: content.filter { $0.value == nil }.keys.sorted(),
            ] as [String: Any],
            format: .binary, options: 0)
    }

    /// Reads a draft.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the bytes are not valid, `unsupported` if a newer version has
    ///   created them.
    init(decoding bytes: Data) throws {
        let list: [String: PropertyListValue]?
        do {
            list = try PropertyListValue(propertyList: bytes, name: "draft").dictionary
        } catch {
            throw Self.damaged(error)
        }
        guard let list, let format = list[Key.format]?.integer else { throw Self.damaged(nil) }
        guard format <= Self.format else {
            throw QuireError.newerFormat("The draft", format, readable: Self.format)
        }
        guard case .date(let date)? = list[Key.date], let objects = list[Key.objects]?.data,
            let files = list[Key.files]?.dictionary, let removed = list[Key.removedFiles]?.array
        else { throw Self.damaged(nil) }
        self.date = date
        self.objects = try ObjectDraft(decoding: objects)
        content = [:]
        for (path, bytes) in files {
            guard let bytes = bytes.data else { throw Self.damaged(nil) }
            content.updateValue(bytes, forKey: path)
        }
        for path in removed {
            guard let path = path.string else { throw Self.damaged(nil) }
            content.updateValue(nil, forKey: path)
        }
        largeFiles = (list[Key.largeFiles]?.dictionary ?? [:]).compactMapValues(\.string)
        // Only generated names are accepted, none that leads out of the folder.
        guard largeFiles.values.allSatisfy({ UUID(uuidString: $0) != nil }) else {
            throw Self.damaged(nil)
        }
    }

    private static func damaged(_ error: (any Error)?) -> QuireError {
        QuireError(.invalidFormat, "The draft is damaged and cannot be read.", underlying: error)
    }
}

extension StoreMigrationOptions {
    /// These options, extended to migrate the draft of a document with its objects.
    var migratingDraft: StoreMigrationOptions {
        var options = self
        options.draftMigration = { bytes, mapping in
            do {
                var draft = try DocumentDraft(decoding: bytes)
                draft.objects.migrate(by: mapping)
                return try draft.encoded()
            } catch {
                // Opening the document reports that it cannot be read.
                return bytes
            }
        }
        return options
    }
}

extension DocumentPackage {
    /// Saves a draft in the store, replacing the current one. The saved state does not change. When this returns, the draft
    /// survives power loss.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`; then the current draft is kept.
    public func writeDraft(_ draft: DocumentDraft) throws {
        try store.writeDraft(draft.encoded())
    }

    /// The draft, or `nil` if there is none.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is damaged, `unsupported` if a newer version has created it, or
    ///   errors of reading.
    public func draft() throws -> DocumentDraft? {
        do {
            return try store.draft().map(DocumentDraft.init(decoding:))
        } catch var error as QuireError {
            if error.subject.file == nil { error.subject.file = layout.store }
            throw error
        }
    }

    /// Whether a draft exists, readable or not.
    public func hasDraft() throws -> Bool { try store.hasDraft() }

    /// Removes the draft, if any; its changes are lost.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`.
    public func removeDraft() throws {
        try store.removeDraft()
        removeDraftFiles()
    }
}

// MARK: - Large files

/// A draft to be written, with the files that are too large for the store.
struct UnsavedDraft: Sendable {
    var draft: DocumentDraft
    /// By the paths that they get.
    var largeFiles: [String: SpooledFile]
}

extension DocumentPackage {
    /// Keeps a draft, as ``writeDraft(_:)``, with its large files.
    func writeDraft(_ unsaved: UnsavedDraft) throws -> DocumentDraft {
        if !unsaved.largeFiles.isEmpty {
            let root = layout.path
            try FileSystem.makeFolder(layout.draftFiles, beneath: root, withIntermediates: true)
            for file in unsaved.largeFiles.values {
                let target = FileSystem.path(layout.draftFiles, file.id)
                if FileSystem.exists(target, beneath: root) { continue }
                // The final name shows that the file is complete.
                let temporary = FileSystem.temporarySibling(of: target, for: "new")
                if try file.linkOrCopy(to: temporary, within: root) {
                    try OpenFile.open(temporary, beneath: root, for: .reading).synchronize()
                }
                try FileSystem.rename(temporary, to: target, beneath: root)
            }
            try FileSystem.synchronizeFolder(layout.draftFiles, beneath: root)
            try FileSystem.synchronizeFolder(root)
        }
        try writeDraft(unsaved.draft)
        removeDraftFiles(except: Set(unsaved.draft.largeFiles.values))
        return unsaved.draft
    }

    /// A draft's large files by path, with additional names, because the draft may be removed while they are needed. Missing files are
    /// omitted.
    func draftFiles(of draft: DocumentDraft) throws -> [String: SpooledFile] {
        var files: [String: SpooledFile] = [:]
        for (path, id) in draft.largeFiles {
            let file = FileSystem.path(layout.draftFiles, id)
            if FileSystem.exists(file, beneath: layout.path) {
                files[path] = try SpooledFile(linking: file, id: id, in: self)
            }
        }
        return files
    }

    /// Removes large files that no draft needs. Files that cannot be removed are removed when the package is opened.
    func removeDraftFiles(except kept: Set<String> = []) {
        for path in draftFiles(except: kept) {
            try? FileSystem.removeTree(path, beneath: layout.path)
        }
    }

    /// The large files that the draft does not need; none if the draft cannot be read.
    func unusedDraftFiles() -> [String] {
        guard FileSystem.exists(layout.draftFiles, beneath: layout.path) else { return [] }
        do {
            return draftFiles(except: Set((try draft()?.largeFiles ?? [:]).values))
        } catch {
            return []
        }
    }

    /// The paths of all large files but some, or of their folder.
    private func draftFiles(except kept: Set<String>) -> [String] {
        guard FileSystem.exists(layout.draftFiles, beneath: layout.path) else { return [] }
        if kept.isEmpty { return [layout.draftFiles] }
        let names = (try? FileSystem.names(in: layout.draftFiles, beneath: layout.path)) ?? []
        return names.filter { !kept.contains($0) }.map { FileSystem.path(layout.draftFiles, $0) }
    }
}

// MARK: - Drafts of an open document

/// The status of the draft that a package had when its document was opened.
public enum DocumentDraftStatus: Sendable {
    /// The package had no draft.
    case none
    /// Its changes are now the document's unsaved changes. `omissions` describes changes that could not be restored.
    case restored(from: Date, omissions: [String])
    /// It was not restored, because the document was opened for reading only.
    case ignored
    /// It could not be read or restored, with the reason. It is kept until another draft replaces it.
    case unreadable(QuireError)
}

extension ManagedDocument {
    /// The status of the draft that the package had when it was opened: changes that could not be saved before the process ended,
    /// because objects were invalid or in conflict. `none` while the document is closed.
    public var draftStatus: DocumentDraftStatus {
        openDocument?.draftStatus ?? DocumentDraftStatus.none
    }

    /// The reason why the changes of a failed save could not be kept as a draft either, so that they are lost if the process
    /// ends; `nil` if they are in a draft, or if the last save succeeded.
    ///
    /// The error of that save contains it too. The document stays open with its changes.
    public var draftError: QuireError? { openDocument?.draftError }
}

/// The draft of an open document.
///
/// If a save fails because of the state of the objects, its changes, those of earlier failed saves, and later changes are
/// written to a draft in the store. The next successful save removes it in its transaction. If the process ends before that,
/// opening the document again restores the draft as unsaved changes.
extension OpenDocument {
    private nonisolated static let logger = Logger(label: "quire.document")

    /// Keeps unsaved changes in a draft after a save has failed, unless writing the draft would fail too.
    ///
    /// - Returns: The error to report: that of the save, with a second sentence if the draft could not be written.
    func saveDraft(after error: any Error) async -> QuireError {
        var error = QuireError(wrapping: error, path: package.layout.path)
        let hopeless: Set<QuireError.Code> = [
            .readOnly, .outOfSpace, .storeUnavailable, .cancelled, .storeReplaced,
        ]
        if hopeless.contains(error.code) {
            draftError = error
            return error
        }
        do {
            try await saveDraft()
            draftError = nil
        } catch let failure {
            let failure = QuireError(wrapping: failure, path: package.layout.path)
            draftError = failure
            error.message +=
                " The unsaved changes could not be kept as a draft either, and are only in memory: \(failure.message)"
        }
        return error
    }

    /// Collects unsaved changes, from which a draft can be created on any queue.
    func collectDraft() -> @Sendable () throws -> UnsavedDraft {
        let own = context.unsavedChanges()
        let pushed = parent.performAndWait { $0.unsavedChanges() }
        let content = allUnsavedContent
        let path = package.layout.path
        return {
            let (files, large, omitted) = content.forDraft()
            for file in omitted {
                Self.logger.error("Could not read “\(file)” for the draft of “\(path)”.")
            }
            var draft = DocumentDraft(objects: ObjectDraft([pushed, own]), content: files)
            draft.largeFiles = large.mapValues(\.id)
            return UnsavedDraft(draft: draft, largeFiles: large)
        }
    }

    /// Keeps unsaved changes in a draft. When it returns, the draft survives power loss.
    ///
    /// The changes are collected before this first suspends; on the main queue that is O(*n*) in changed
    /// objects, and no value is copied or encoded there. No save may run meanwhile, because it would move changes from one
    /// context to the other.
    func saveDraft() async throws {
        let collected = collectDraft()
        let (package, known) = (package, draftInStore)
        draftInStore = try await FileQueue.shared.run {
            let unsaved = try collected()
            if let known, known.hasSameChanges(as: unsaved.draft) { return known }
            return try package.writeDraft(unsaved)
        }
    }

    /// Makes the changes of the package's draft the document's unsaved changes. Call it once, after opening.
    func restoreDraft(_ loaded: OpenedPackage.Draft) {
        switch loaded {
        case .none: draftStatus = .none
        case .ignored: draftStatus = .ignored
        case .unreadable(let error): draftStatus = .unreadable(error)
        case .found(let draft, let largeFiles):
            do {
                var omissions = try context.apply(draft.objects).map(\.message)
                omissions += restoreContent(draft.content, largeFiles)
                omissions += draft.largeFiles.keys.filter { largeFiles[$0] == nil }.sorted().map {
                    "The unsaved content of “\($0)” is missing."
                }
                context.undoManager?.setActionName("Restore Unsaved Changes")
                draftInStore = draft
                draftStatus = .restored(from: draft.date, omissions: omissions)
            } catch {
                draftStatus = .unreadable(QuireError(wrapping: error, path: package.layout.path))
            }
        }
        if case .unreadable(let error) = draftStatus {
            Self.logger.error(
                "Could not restore the draft of “\(package.layout.path)”: \(error.message)")
        }
    }

    /// Restores additional content, and returns sentences about the omissions.
    private func restoreContent(
        _ content: [String: Data?], _ largeFiles: [String: SpooledFile]
    ) -> [String] {
        var omissions: [String] = []
        var changes = content.mapValues { $0.map(AdditionalContentChange.data) ?? .removal }
        for (path, file) in largeFiles { changes[path] = .file(file) }
        for (key, change) in changes.sorted(by: { $0.key < $1.key }) {
            let path = FileName(key)
            if change.isRemoval {
                if contentNames.contains(path) { changeContent(.removal, at: path) }
                continue
            }
            if let problem = contentNames.problem(with: path) {
                omissions.append("“\(path)” can no longer be additional content: it \(problem).")
            } else {
                changeContent(change, at: path)
            }
        }
        return omissions
    }

    /// Removes the draft and its changes. A failure is only logged.
    func removeDraft() async {
        guard draftInStore != nil else { return }
        draftInStore = nil
        let package = package
        do {
            try await FileQueue.shared.run { try package.removeDraft() }
        } catch {
            Self.logger.error("Could not remove the draft of “\(package.layout.path)”: \(error)")
        }
    }
}

extension OpenedPackage {
    /// The draft of an opened package.
    enum Draft: Sendable {
        case none, ignored
        /// With its large files, by path.
        case found(DocumentDraft, [String: SpooledFile])
        case unreadable(QuireError)

        init(in package: DocumentPackage) {
            do {
                if package.isReadOnly {
                    self = try package.hasDraft() ? .ignored : .none
                } else {
                    self =
                        try package.draft().map {
                            Self.found($0, try package.draftFiles(of: $0))
                        }
                        ?? .none
                }
            } catch {
                self = .unreadable(QuireError(wrapping: error, path: package.layout.path))
            }
        }
    }
}
