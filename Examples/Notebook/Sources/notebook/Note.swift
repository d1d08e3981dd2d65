import Foundation
import Quire
import QuireMacros

/// A note. Its attachments are deleted with it.
@Entity final class Note: ManagedObject {
    @Attribute var title: String = ""
    @Attribute var text: String = ""
    @Attribute(.indexed) var modified: Date
    @Relationship(deleteRule: .cascade, inverse: \Attachment.note) var attachments: Set<Attachment>

    override func awakeFromInsert() {
        super.awakeFromInsert()
        modified = Date()
    }

    /// The title to show for a note, which may have none.
    var heading: String { title.isEmpty ? "Untitled" : title }

    var sortedAttachments: [Attachment] { attachments.sorted { $0.name < $1.name } }
}

/// A file that belongs to a note. Large ones are files in the package, and never in memory as a whole.
@Entity final class Attachment: ManagedObject {
    @Attribute var name: String = ""
    @Attribute var size: Int = 0
    @Attribute(.externalStorage) var data: Data?
    @Relationship var note: Note?

    /// Copies a file into the document, off the main queue, and then attaches it to a note, in one step of undo.
    @MainActor
    static func attach(_ file: URL, to note: Note, in document: NotebookDocument) async throws {
        let coordinator = document.persistentStoreCoordinator
        let content = try await coordinator.makeExternalData(
            contentsOf: file, forEntity: "Attachment")
        // The note may have been deleted meanwhile, or the document reverted; then the copy is removed.
        guard let context = note.managedObjectContext, !note.isDeleted else { return }
        let attachment = Attachment(context: context)
        attachment.name = file.lastPathComponent
        attachment.size = content.size
        try attachment.setExternalData(content, forKey: "data")
        attachment.note = note
        note.modified = Date()
        context.undoManager?.setActionName("Attach \(attachment.name)")
    }

    /// Copies the content to a file, off the main queue.
    @MainActor
    func export(to file: URL) async throws {
        let content = try externalData(forKey: "data")
        try await Task.detached { try content?.copy(to: file, replacing: true) }.value
    }
}
