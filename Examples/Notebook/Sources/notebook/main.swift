import Dispatch
import Foundation
import Quire
import QuireDocuments

let usage = """
    notebook                  open the notebook in the user's folder for data
    notebook FILE.notebook …  open notebooks, or create them
    notebook --list FILE      print a notebook, also while it is open
    """

/// Prints the notes of a notebook. It is opened for reading only, which works while a window has it open.
@MainActor
func list(_ path: String) async throws {
    let document = NotebookDocument(path: path)
    let readPassphrase: Keys.Prompt = { reason in
        guard let line = readLine() else { throw QuireError(.protectedDataUnavailable, reason) }
        return line
    }
    try await Keys.unlocking(document.path, by: readPassphrase) {
        try await document.open(readOnly: true)
    }
    for note in try document.notes() {
        print("# \(note.title)\n\(note.text)")
        for attachment in note.sortedAttachments {
            print("[\(attachment.name), \(attachment.size)]")
        }
    }
    try await document.close()
}

let arguments = Array(CommandLine.arguments.dropFirst())
switch arguments.first {
case "--list" where arguments.count == 2:
    Task {
        do { try await list(arguments[1]) } catch {
            FileHandle.standardError.write(Data((error.localizedDescription + "\n").utf8))
            exit(1)
        }
        exit(0)
    }
    dispatchMain()
case let option? where option.hasPrefix("-"):
    print(usage)
    exit(option == "--help" ? 0 : 1)
default:
    // A process that is asked to end saves first.
    ManagedDocument.saveOnTermination()
    let application = Application(identifier: "org.example.notebook")
    exit(
        application.run {
            var paths = arguments
            if paths.isEmpty {
                try? FileManager.default.createDirectory(
                    at: Keys.dataFolder, withIntermediateDirectories: true)
                paths = [Keys.dataFolder.appendingPathComponent("Notes.notebook").path]
            }
            for path in paths { await NotebookWindow.open(path, of: application) }
        })
}
