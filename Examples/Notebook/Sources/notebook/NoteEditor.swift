import Foundation
import Quire

/// The right side of the window: title, text and attachments of a note.
@MainActor
final class NoteEditor {
    let widget: Widget
    /// Called to export an attachment.
    var export: ((Attachment) -> Void)?
    private let title = TextField("Title", style: "title-field")
    private let date = Label(style: "note-date")
    private let text = TextArea()
    private let files = Box(vertical: true, spacing: 0)
    private let content: Box
    private let placeholder = Label("No note is selected.", style: "dim-label").centered()
    private let typing: TypingGroup
    private var note: Note?
    /// The attachments that there are rows for.
    private var shownAttachments: [Attachment] = []
    private var isShowing = false

    init(typing: TypingGroup) {
        self.typing = typing
        let page = Box(
            vertical: true, spacing: 4, margin: 18, title, date, Scroll(text).expanding())
        let attach = Button("_Attach…", style: "text", action: "win.attach")
        let foot = Box(
            vertical: true, style: "attachments",
            Box(vertical: true, margin: 16, files, attach.aligned(atEnd: false)))
        content = Box(vertical: true, spacing: 0, page, foot)
        widget = Box(vertical: true, style: "editor", placeholder.expanding(), content)
        title.on("changed") { [unowned self] in
            edit("Change Title") { $0.title = self.title.text }
        }
        text.onChange { [unowned self] in edit("Change Text") { $0.text = self.text.text } }
    }

    /// Shows a note as it is now.
    func show(_ note: Note?) {
        isShowing = true
        defer { isShowing = false }
        self.note = note
        content.isVisible = note != nil
        placeholder.isVisible = note == nil
        title.text = note?.title ?? ""
        text.text = note?.text ?? ""
        date.text = note?.modified.formatted(date: .complete, time: .shortened) ?? ""
        let attachments = note?.sortedAttachments ?? []
        if attachments != shownAttachments { showAttachments(attachments) }
    }

    func focus() { title.focus() }

    /// Changes the note by what was typed. GTK reports what `show(_:)` changes as well.
    private func edit(_ name: String, _ change: (Note) -> Void) {
        guard !isShowing, let note else { return }
        typing.type(name, note.managedObjectContext?.undoManager)
        change(note)
        note.modified = Date()
    }

    private func showAttachments(_ attachments: [Attachment]) {
        files.removeAll()
        shownAttachments = attachments
        for attachment in attachments {
            let size = Int64(attachment.size).formatted(.byteCount(style: .file))
            files.append(
                Box(
                    Icon("mail-attachment-symbolic"), Label(attachment.name),
                    Label(size, style: "dim-label").expanding(vertically: false),
                    Button(icon: "document-save-symbolic", toolTip: "Export") {
                        [unowned self] in export?(attachment)
                    },
                    Button(icon: "user-trash-symbolic", toolTip: "Remove") {
                        [unowned self] in remove(attachment)
                    }))
        }
    }

    private func remove(_ attachment: Attachment) {
        typing.end()
        let context = attachment.managedObjectContext
        attachment.note?.modified = Date()
        context?.delete(attachment)
        context?.undoManager?.setActionName("Remove \(attachment.name)")
    }
}
