import Foundation
import Quire
import QuireDocuments

/// A window that shows a notebook: it observes the document, and performs the user's actions.
///
/// Nothing here waits on the main thread. Requests to the document are awaited in tasks, and the user goes on typing.
@MainActor
final class NotebookWindow {
    /// The open windows.
    private(set) static var all: [NotebookWindow] = []

    let application: Application
    let document: NotebookDocument
    let window: Window
    let typing = TypingGroup()
    let list = NoteList()
    let editor: NoteEditor
    let undoButton = Button(icon: "edit-undo-symbolic", toolTip: "Undo", action: "win.undo")
    let redoButton = Button(icon: "edit-redo-symbolic", toolTip: "Redo", action: "win.redo")
    private var observations: [Task<Void, Never>] = []
    private var isClosing = false

    /// Opens or creates a notebook, and shows it. A notebook that is open already comes to the front.
    static func open(_ path: String, of application: Application) async {
        let document = NotebookDocument(path: path)
        if let window = all.first(where: { $0.document.path == document.path }) {
            return window.window.present()
        }
        do {
            try await Keys.unlocking(document.path, by: application.askForPassphrase) {
                try await document.openOrCreate()
            }
            all.append(try NotebookWindow(document, of: application))
        } catch is CancellationError {
        } catch {
            await application.show(error, "The notebook could not be opened.")
        }
    }

    /// Shows a document that is open.
    private init(_ document: NotebookDocument, of application: Application) throws {
        (self.document, self.application) = (document, application)
        let state = document.window
        window = Window(of: application, size: (state.width, state.height))
        editor = NoteEditor(typing: typing)
        list.selectionDidChange = { [weak self] in self?.showSelection() }
        editor.export = { [weak self] in self?.export($0) }
        document.didLoad = { [weak self] in self?.showContent() }
        document.editingDidChange = { [weak self] in self?.window.isSensitive = $0 }
        document.willSave = { [weak self] in self?.noteWindowState() }
        document.afterSave = { [weak self] in self?.showState() }
        addActions()
        window.instead(of: "close-request") { [weak self] in self?.close() }
        showContent()
        window.show(Split(Scroll(list.list), editor.widget, position: 270))
    }

    /// Shows the notes from the start: objects of a document that was reverted, or opened again, are others.
    private func showContent() {
        typing.end()
        let context = document.managedObjectContext
        do { try list.show(context) } catch { show(error, "The notes could not be read.") }
        // Made here and not in the tasks, which run later: they have all that happens from now on.
        let (changes, states) = (context.changes, document.stateChanges)
        for observation in observations { observation.cancel() }
        observations = [
            Task { [weak self] in for await _ in changes { self?.showState() } },
            Task { [weak self] in for await change in states { self?.stateDidChange(change) } },
        ]
    }

    private func showSelection() {
        editor.show(list.selection)
        showState()
    }

    // MARK: - Observing the document

    private func stateDidChange(_ change: DocumentStateChange) {
        if change.current.contains(.closed), !isClosing { return packageIsGone() }
        showState()
    }

    /// Shows whether all is saved, and what can be undone.
    private func showState() {
        guard document.isOpen else { return }
        let isProtected = document.fileProtection != FileProtection.none
        let state =
            if let error = document.lastSaveError {
                "Not saved: \(error.message)"
            } else {
                document.hasUnsavedChanges ? "Edited" : "Saved"
            }
        window.setTitle(document.localizedName, isProtected ? "\(state), protected" : state)
        if let manager = document.undoManager {
            window.enableAction("undo", manager.canUndo)
            window.enableAction("redo", manager.canRedo)
            undoButton.setToolTip(manager.undoMenuItemTitle)
            redoButton.setToolTip(manager.redoMenuItemTitle)
        }
        for name in ["delete-note", "attach"] {
            window.enableAction(name, list.selection != nil)
        }
    }

    /// Another program has deleted the package, and the document was closed.
    private func packageIsGone() {
        isClosing = true
        show(nil, "“\(document.localizedName)” was deleted, and is closed.") { [weak self] in
            self?.remove()
        }
    }

    private func noteWindowState() {
        let size = window.size
        document.window = .init(width: size.width, height: size.height)
    }

    // MARK: - Closing

    /// Saves the notebook, and closes the window if that has succeeded, or if the user does without.
    func close() {
        if isClosing { return }
        typing.end()
        guard document.isOpen else { return remove() }
        isClosing = true
        Task {
            do {
                try await document.close()
                remove()
            } catch {
                isClosing = false
                let answer = await window.ask(
                    "The notebook could not be saved.", error.localizedDescription,
                    answers: ["Discard Changes", "Keep Open"])
                guard answer == "Discard Changes" else { return }
                isClosing = true
                try? await document.close(discardingChanges: true)
                remove()
            }
        }
    }

    /// Runs a body while the document is closed, and opens it again.
    func whileClosed(_ body: () async throws -> Void) async throws {
        isClosing = true
        defer { isClosing = false }
        try await document.close()
        let result: Result<Void, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        try await document.openOrCreate()
        try result.get()
    }

    private func remove() {
        for observation in observations { observation.cancel() }
        window.destroy()
        Self.all.removeAll { $0 === self }
    }

    // MARK: - Tasks

    /// Performs a request of the user, and shows what is wrong if it fails.
    func perform(_ failure: String, _ body: @escaping @MainActor () async throws -> Void) {
        typing.end()
        Task { do { try await body() } catch { show(error, failure) } }
    }

    func show(
        _ error: (any Error)?, _ failure: String, then body: @escaping @MainActor () -> Void = {}
    ) {
        Task {
            let reason = error?.localizedDescription ?? ""
            _ = await window.ask(failure, reason, answers: ["Close"])
            body()
        }
    }
}

extension Application {
    func show(_ error: any Error, _ failure: String) async {
        _ = await ask(failure, error.localizedDescription, answers: ["Close"])
    }

    /// Asks for the passphrase that unlocks protected notebooks.
    func askForPassphrase(_ reason: String) async throws -> String {
        let field = TextField("Passphrase", isSecret: true)
        let answer = await ask("Unlock Notebook", reason, field, answers: ["Cancel", "Unlock"])
        guard answer == "Unlock" else { throw CancellationError() }
        return field.text
    }
}
