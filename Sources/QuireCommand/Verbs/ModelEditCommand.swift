import ArgumentParser
import Foundation
import Quire

/// `quire model edit DOCUMENT`
struct ModelEditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edit",
        abstract:
            "Opens the model of a document as text in your editor, and migrates the document.",
        discussion: """
            VISUAL or EDITOR specifies the editor, vi by default. Afterwards the differences are shown, and on a \
            terminal you are asked before anything changes. To rename a part and keep its values, change its name and add \
            “was OLD”. Text with a mistake can be edited again; otherwise it is kept, and its path is printed.

            EXAMPLES:
              quire model edit Library.quire
              EDITOR=nano quire model edit Library.quire
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @OptionGroup var options: ModelChangeOptions

    @MainActor
    func run() async throws {
        let change = try await ModelChange(of: path, options)
        let text = change.model.modelText()
        let file = FileSystem.path(
            FileManager.default.temporaryDirectory.path,
            "quire-\(UUID().uuidString).quiremodel")
        try FileSystem.writeNewFile(Data(text.utf8), at: file)
        while true {
            try Self.edit(file)
            do {
                try change.migrate(to: ManagedObjectModel(contentsOf: file), asking: true)
                return try FileSystem.removeFile(file)
            } catch let error as QuireError {
                if Confirmation.isPossible {
                    Output.report(error.message)
                    if Confirmation.ask("Edit again?", default: true) { continue }
                }
                var kept = error
                kept.message += " The text is kept in “\(file)”."
                throw kept
            }
        }
    }

    /// Opens a file in the editor, and waits until it is closed.
    private static func edit(_ path: String) throws {
        let environment = ProcessInfo.processInfo.environment
        let named = [environment["VISUAL"], environment["EDITOR"]].compactMap(\.self)
        let editor = named.first { !$0.isEmpty } ?? "vi"
        // The editor may be a command with options.
        let program = try ChildProgram(
            running: "/bin/sh", ["-c", "\(editor) \"$1\"", editor, path])
        let status = program.wait() ?? 1
        if status != 0 {
            throw Failure(
                sentence:
                    "The editor “\(editor)” failed (\(status)), and nothing was changed. Set VISUAL or EDITOR to another one. The text is kept in “\(path)”.",
                status: .failed)
        }
    }
}
