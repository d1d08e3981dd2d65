import Foundation
import Quire
import QuireDocuments

/// A notebook: notes, and two files beside them in the package.
///
/// `Notes.txt` has all notes as plain text, so that they can be read without Quire, now or in thirty years. `Window.json` has the
/// size of the window. Both are saved with the notes or not at all, and sealed if the notebook is protected.
final class NotebookDocument: ManagedDocument {
    /// What the window was like when the notebook was saved last. Changing it makes nothing unsaved.
    var window = WindowState()
    /// Called after the notebook was opened, or has other content because it was reverted, here or by others.
    var didLoad: (() -> Void)?
    /// Called when the notebook may not be edited, because it is being reverted or closed, and when it may again.
    var editingDidChange: ((Bool) -> Void)?
    /// Called before each save, to note the state of the window.
    var willSave: (() -> Void)?
    /// Called after each save.
    var afterSave: (() -> Void)?

    struct WindowState: Codable {
        var width: Int32 = 880
        var height: Int32 = 560
    }

    /// What is written beside the objects: values, which can leave the main actor.
    private struct Content {
        var pages: [(title: String, date: Date, text: String, attachments: [String])]
        var window: WindowState
    }

    override var managedObjectModel: ManagedObjectModel? {
        try? ManagedObjectModel(classes: [Note.self])
    }

    /// Opens the notebook, or creates it if there is none.
    func openOrCreate() async throws {
        autosavePolicy = AutosavePolicy(delay: .seconds(3), quietTime: .seconds(1))
        versionPolicy = VersionPolicy(occasion: .every(.seconds(3600)))
        if FileManager.default.fileExists(atPath: path) {
            try await open()
        } else {
            try await create()
        }
    }

    func notes() throws -> [Note] {
        Array(
            try managedObjectContext.fetch(
                Note.self, sortBy: [SortDescriptor(\.modified, order: .reverse)]))
    }

    // MARK: - Additional content

    override func additionalContent(for absoluteURL: URL) throws -> (any Sendable)? {
        willSave?()
        let pages = try notes().map {
            ($0.heading, $0.modified, $0.text, $0.sortedAttachments.map(\.name))
        }
        return Content(pages: pages, window: window)
    }

    override nonisolated func writeAdditionalContent(
        _ content: any Sendable, to absoluteURL: URL, originalContentsURL: URL?
    ) throws {
        guard let content = content as? Content else { return }
        let pages = content.pages.map { page in
            let attachments = page.attachments.map { "[\($0)]\n" }.joined()
            let date = page.date.formatted(.iso8601)
            return "\(page.title)\n\(date)\n\n\(page.text)\n\(attachments)"
        }
        try Data(pages.joined(separator: "\n\u{2014}\n\n").utf8)
            .write(to: absoluteURL.appendingPathComponent("Notes.txt"))
        try JSONEncoder().encode(content.window)
            .write(to: absoluteURL.appendingPathComponent("Window.json"))
    }

    override nonisolated func readAdditionalContent(from absoluteURL: URL) throws -> (any Sendable)?
    {
        let data = try Data(contentsOf: absoluteURL.appendingPathComponent("Window.json"))
        return try JSONDecoder().decode(WindowState.self, from: data)
    }

    override func load(fromContents contents: (any Sendable)?) throws {
        if let state = contents as? WindowState { window = state }
        didLoad?()
    }

    // MARK: - What happens to the document

    override func disableEditing() { editingDidChange?(false) }

    override func enableEditing() { editingDidChange?(true) }

    override func didSave() { afterSave?() }
}
