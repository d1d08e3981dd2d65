import Foundation
import Quire
import QuireDocuments

/// What the user can do, with the keys for it.
extension NotebookWindow {
    func addActions() {
        add("new-note", key: "<Control>n") { $0.addNote() }
        add("delete-note", key: "<Control>d") { $0.deleteNote() }
        add("attach", key: "<Control><Shift>a") { $0.attach() }
        add("undo", key: "<Control>z") { $0.document.undoManager?.undo() }
        add("redo", key: "<Control><Shift>z") { $0.document.undoManager?.redo() }
        add("save", key: "<Control>s") { $0.save() }
        add("new") { $0.newNotebook() }
        add("open", key: "<Control>o") { $0.openNotebook() }
        add("keep-version", key: "<Control>k") { $0.keepVersion() }
        add("versions", key: "<Control>r") { $0.showVersions() }
        add("export", key: "<Control>e") { $0.exportNotebook() }
        add("protect", key: "<Control>p") { $0.changeProtection() }
        window.addAction("close", key: "<Control>w") { [weak self] in self?.close() }
        let menu = Window.menuButton([
            [("_New Notebook…", "win.new"), ("_Open…", "win.open")],
            [("_Keep Version…", "win.keep-version"), ("_Versions…", "win.versions")],
            [("_Export…", "win.export"), ("_Protection…", "win.protect")],
            [("_Delete Note", "win.delete-note"), ("_Close", "win.close")],
        ])
        let newNote = Button(icon: "list-add-symbolic", toolTip: "New Note", action: "win.new-note")
        window.addToHeader(start: [newNote], end: [menu, redoButton, undoButton])
    }

    /// Adds an action. Before it is performed typing ends; while the document is closed it is not.
    private func add(
        _ name: String, key: String? = nil, _ body: @escaping @MainActor (NotebookWindow) -> Void
    ) {
        window.addAction(name, key: key) { [weak self] in
            guard let self, document.isOpen else { return }
            typing.end()
            body(self)
        }
    }

    // MARK: - Notes

    private func addNote() {
        let note = Note(context: document.managedObjectContext)
        document.undoManager?.setActionName("New Note")
        // Ends the user event now and not after this turn of the main queue, so that the list has the note.
        document.managedObjectContext.processPendingChanges()
        list.select(note)
        editor.focus()
    }

    private func deleteNote() {
        guard let note = list.selection else { return }
        document.managedObjectContext.delete(note)
        document.undoManager?.setActionName("Delete Note")
    }

    private func attach() {
        guard let note = list.selection else { return }
        perform("The file could not be attached.") { [self] in
            guard let path = await window.choose("Attach", .file) else { return }
            try await Attachment.attach(URL(fileURLWithPath: path), to: note, in: document)
        }
    }

    func export(_ attachment: Attachment) {
        perform("The attachment could not be exported.") { [self] in
            let path = await window.choose("Export", .newFile(name: attachment.name))
            if let path { try await attachment.export(to: URL(fileURLWithPath: path)) }
        }
    }

    // MARK: - Notebooks

    private func save() {
        perform("The notebook could not be saved.") { try await self.document.save() }
    }

    private func newNotebook() {
        perform("The notebook could not be created.") { [self] in
            let path = await window.choose("New Notebook", .newFile(name: "Notes.notebook"))
            if let path { await NotebookWindow.open(path, of: application) }
        }
    }

    private func openNotebook() {
        perform("The notebook could not be opened.") { [self] in
            let path = await window.choose("Open", .folder)
            if let path { await NotebookWindow.open(path, of: application) }
        }
    }

    /// Exports the notebook as of now to an archive. Of a protected one the user decides whether the archive is sealed too.
    private func exportNotebook() {
        perform("The notebook could not be exported.") { [self] in
            let name = "\(document.localizedName).zip"
            let path = await window.choose(
                "Export as .zip or .tar.zst", .newFile(name: name))
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
                "Versions", "", Scroll(list, minimum: (360, 220)), answers: ["Cancel", "Restore"])
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
