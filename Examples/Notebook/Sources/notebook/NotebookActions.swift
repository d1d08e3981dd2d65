import CGTK
import Foundation
import Quire
import QuireDocuments

/// What the user can do, with the keys for it.
extension NotebookWindow {
    func addActions() {
        window.addAction("new-note", key: "<Control>n") { [unowned self] in addNote() }
        window.addAction("delete-note", key: "<Control>d") { [unowned self] in deleteNote() }
        window.addAction("attach", key: "<Control><Shift>a") { [unowned self] in attach() }
        window.addAction("undo", key: "<Control>z") { [unowned self] in
            typing.end()
            document.undoManager?.undo()
        }
        window.addAction("redo", key: "<Control><Shift>z") { [unowned self] in
            typing.end()
            document.undoManager?.redo()
        }
        window.addAction("save", key: "<Control>s") { [unowned self] in
            perform("The notebook could not be saved.") { try await self.document.save() }
        }
        window.addAction("new") { [unowned self] in newNotebook() }
        window.addAction("open", key: "<Control>o") { [unowned self] in openNotebook() }
        window.addAction("keep-version", key: "<Control>k") { [unowned self] in keepVersion() }
        window.addAction("versions", key: "<Control>r") { [unowned self] in showVersions() }
        window.addAction("export", key: "<Control>e") { [unowned self] in exportNotebook() }
        window.addAction("protect", key: "<Control>p") { [unowned self] in changeProtection() }
        window.addAction("close", key: "<Control>w") { [unowned self] in close() }
        window.addToHeader(
            start: [Button(icon: "list-add-symbolic", toolTip: "New Note", action: "win.new-note")],
            end: [
                Window.menuButton([
                    [("_New Notebook…", "win.new"), ("_Open…", "win.open")],
                    [("_Keep Version…", "win.keep-version"), ("_Versions…", "win.versions")],
                    [("_Export…", "win.export"), ("_Protection…", "win.protect")],
                    [("_Delete Note", "win.delete-note"), ("_Close", "win.close")],
                ]),
                Button(icon: "edit-redo-symbolic", toolTip: "Redo", action: "win.redo"),
                Button(icon: "edit-undo-symbolic", toolTip: "Undo", action: "win.undo"),
            ])
    }

    // MARK: - Notes

    private func addNote() {
        typing.end()
        list.select(Note(context: document.managedObjectContext))
        document.undoManager?.setActionName("New Note")
        document.managedObjectContext.processPendingChanges()
        editor.focus()
    }

    private func deleteNote() {
        guard let note = list.selection else { return }
        typing.end()
        document.managedObjectContext.delete(note)
        document.undoManager?.setActionName("Delete Note")
    }

    private func attach() {
        guard let note = list.selection else { return }
        perform("The file could not be attached.") { [self] in
            guard let path = await window.choose("Attach", GTK_FILE_CHOOSER_ACTION_OPEN) else {
                return
            }
            try await Attachment.attach(URL(fileURLWithPath: path), to: note, in: document)
        }
    }

    func export(_ attachment: Attachment) {
        perform("The attachment could not be exported.") { [self] in
            let path = await window.choose(
                "Export", GTK_FILE_CHOOSER_ACTION_SAVE, name: attachment.name)
            if let path { try await attachment.export(to: URL(fileURLWithPath: path)) }
        }
    }

    // MARK: - Notebooks

    private func newNotebook() {
        perform("The notebook could not be created.") { [self] in
            let path = await window.choose(
                "New Notebook", GTK_FILE_CHOOSER_ACTION_SAVE, name: "Notes.notebook")
            if let path { await NotebookWindow.open(path, of: application) }
        }
    }

    private func openNotebook() {
        perform("The notebook could not be opened.") { [self] in
            let path = await window.choose("Open", GTK_FILE_CHOOSER_ACTION_SELECT_FOLDER)
            if let path { await NotebookWindow.open(path, of: application) }
        }
    }

    /// Exports the notebook as of now to an archive. Of a protected one the user decides whether the archive is sealed too.
    private func exportNotebook() {
        perform("The notebook could not be exported.") { [self] in
            let name = "\(document.localizedName).zip"
            let path = await window.choose(
                "Export as .zip or .tar.zst", GTK_FILE_CHOOSER_ACTION_SAVE, name: name)
            guard let path else { return }
            var protection: ArchiveProtection?
            if document.fileProtection != FileProtection.none {
                let answer = await window.ask(
                    "Should the archive be protected?", "Its keys are then those of the notebook.",
                    answers: ["Not Protected", "Protected"])
                guard let answer else { return }
                protection = answer == "Protected" ? .keep : .remove
            }
            try await document.export(to: path, replacing: true, protection: protection)
        }
    }

    // MARK: - Versions

    private func keepVersion() {
        perform("No version could be kept.") { [self] in
            let name = TextField("Name")
            let answer = await window.ask(
                "Keep Version", "Versions share what has not changed.", name,
                answers: ["Cancel", "Keep"])
            if answer == "Keep" {
                try await document.keepVersion(named: name.text.isEmpty ? nil : name.text)
            }
        }
    }

    /// Lists the versions, and restores the one that the user selects. What is there now is kept as a version first.
    private func showVersions() {
        perform("The version could not be restored.") { [self] in
            let versions = try await document.versions()
            if versions.isEmpty {
                _ = await window.ask("There are no versions yet.", answers: ["Close"])
                return
            }
            let list = List(style: "boxed-list") { _ in }
            for (index, version) in versions.enumerated() {
                let date = version.date.formatted(date: .abbreviated, time: .standard)
                let row = Box(
                    margin: 6, Label(version.name ?? version.reason.words, style: "row-title"),
                    Label(date, style: "dim-label"))
                list.insert(row, at: index)
            }
            list.selection = 0
            let answer = await window.ask(
                "Versions", "", Scroll(list, minimumHeight: 220), answers: ["Cancel", "Restore"])
            guard answer == "Restore", let index = list.selection else { return }
            try await document.restore(versions[index].id)
        }
    }

    // MARK: - Protection

    /// Protects the notebook, or removes its protection. The class changes while it is closed.
    private func changeProtection() {
        perform("The protection could not be changed.") { [self] in
            let isProtected = document.fileProtection != FileProtection.none
            let field = TextField("Passphrase", isSecret: true)
            let answer = await window.ask(
                isProtected ? "Remove Protection" : "Protect Notebook",
                isProtected
                    ? "Everybody who can read the folder can read the notes then."
                    : Keys.exist
                        ? "Enter the passphrase of your protected notebooks."
                        : "Choose a passphrase for your protected notebooks. It cannot be recovered.",
                isProtected ? nil : field,
                answers: ["Cancel", isProtected ? "Remove" : "Protect"])
            guard let answer, answer != "Cancel" else { return }
            try await whileClosed {
                if isProtected {
                    try await Keys.removeProtection(self.document.path)
                } else {
                    try await Keys.protect(self.document.path, passphrase: field.text)
                }
            }
        }
    }
}

extension DocumentVersion.Reason {
    /// What to show for a version without a name.
    fileprivate var words: String {
        switch self {
        case .requested: "Kept"
        case .beforeChanges: "Before changes"
        case .periodic: "Automatic"
        case .beforeRestoring: "Before restoring"
        case .beforeMigrating: "Before migrating"
        case .conflict: "Conflict"
        }
    }
}
