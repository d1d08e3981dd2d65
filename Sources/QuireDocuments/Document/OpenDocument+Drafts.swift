public import Foundation
import Logging
public import Quire

/// What became of the draft that a package had when its document was opened.
public enum DocumentDraftStatus: Sendable {
    /// There was none.
    case none
    /// Its changes are the document's unsaved changes now. Sentences say what could not be put back.
    case restored(from: Date, omissions: [String])
    /// It stays where it is, because the document was opened for reading only.
    case ignored
    /// It could not be read or put back; the error says why. It stays until another one takes its place.
    case unreadable(QuireError)
}

extension ManagedDocument {
    /// What became of the draft that the package had when it was opened: of changes that could not be saved, because
    /// objects were invalid or in conflict, before the process ended. None while the document is closed.
    public var draftStatus: DocumentDraftStatus {
        openDocument?.draftStatus ?? DocumentDraftStatus.none
    }

    /// Why what the last save could not save is in no draft either, so that it is lost if the process ends; `nil` if it is in
    /// one, or if that save succeeded.
    ///
    /// The error of that save says so too. The document stays open with its changes.
    public var draftError: QuireError? { openDocument?.draftError }
}

/// The draft of an open document.
///
/// When a save fails for what the objects are, its changes, those of earlier saves that failed, and what was changed since
/// go to a draft in the store. The next save that succeeds removes it in its transaction. If there is none before the
/// process ends, opening the document again makes the draft's changes its unsaved changes.
extension OpenDocument {
    private nonisolated static let logger = Logger(label: "quire.document")

    /// Keeps what is unsaved in a draft after a save has failed, if there is any use in it.
    ///
    /// - Returns: The error to report: that of the save, which says also if there is no draft.
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
                " What is unsaved could not be kept in a draft either, and is only in memory: \(failure.message)"
        }
        return error
    }

    /// Collects what is unsaved, of which any queue may make a draft.
    func collectDraft() -> @Sendable () throws -> UnsavedDraft {
        let own = context.unsavedChanges()
        let pushed = parent.performAndWait { $0.unsavedChanges() }
        let content = allUnsavedContent
        let path = package.layout.path
        return {
            let (files, large, omitted) = content.forDraft()
            for file in omitted {
                Self.logger.error("“\(file)” cannot be read for the draft of “\(path)”.")
            }
            var draft = DocumentDraft(objects: ObjectDraft([pushed, own]), content: files)
            draft.largeFiles = large.mapValues(\.id)
            return UnsavedDraft(draft: draft, largeFiles: large)
        }
    }

    /// Keeps what is unsaved in a draft. When it returns, the draft survives power loss.
    ///
    /// What there is to keep is collected before this first suspends; on the main queue that is O(*n*) in changed
    /// objects, and no value is copied or encoded there. No save may run: nothing moves from one context to the other
    /// meanwhile.
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
    func restoreDraft(_ loaded: LoadedPackage.Draft) {
        switch loaded {
        case .none: draftStatus = .none
        case .ignored: draftStatus = .ignored
        case .unreadable(let error): draftStatus = .unreadable(error)
        case .found(let draft, let largeFiles):
            do {
                var omissions = try context.apply(draft.objects).map(\.message)
                omissions += restoreContent(draft.content, largeFiles)
                omissions += draft.largeFiles.keys.filter { largeFiles[$0] == nil }.sorted().map {
                    "The new bytes of “\($0)” are missing."
                }
                context.undoManager?.setActionName("Restore Unsaved Changes")
                draftInStore = draft
                draftStatus = .restored(from: draft.date, omissions: omissions)
            } catch {
                draftStatus = .unreadable(QuireError(wrapping: error, path: package.layout.path))
            }
        }
        if case .unreadable(let error) = draftStatus {
            Self.logger.error("The draft of “\(package.layout.path)” stays: \(error.message)")
        }
    }

    /// Gives the sentences about what could not be put back.
    private func restoreContent(
        _ content: [String: Data?], _ largeFiles: [String: SpooledFile]
    ) -> [String] {
        var omissions: [String] = []
        var changes = content.mapValues { $0.map(AdditionalContentChange.data) ?? .removal }
        for (path, file) in largeFiles { changes[path] = .file(file) }
        for (path, change) in changes.sorted(by: { $0.key < $1.key }) {
            if change.isRemoval {
                if contentNames.contains(path) { changeContent(.removal, at: path) }
                continue
            }
            if let problem = contentNames.problem(with: path) {
                omissions.append("“\(path)” cannot be additional content any more: it \(problem).")
            } else {
                changeContent(change, at: path)
            }
        }
        return omissions
    }

    /// Gives up the draft with the changes that it stands for. What cannot be removed is only logged.
    func removeDraft() async {
        guard draftInStore != nil else { return }
        draftInStore = nil
        let package = package
        do {
            try await FileQueue.shared.run { try package.removeDraft() }
        } catch {
            Self.logger.error("The draft of “\(package.layout.path)” was not removed: \(error)")
        }
    }
}

extension LoadedPackage {
    /// What there is of a draft.
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
