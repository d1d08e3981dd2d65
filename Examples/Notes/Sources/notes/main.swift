import Foundation
import Quire

let usage = """
    notes add TEXT        add a note; words like #home are its tags
    notes list [TAG]      list the notes, the latest first
    notes search WORDS    list the notes that contain some words
    notes tags            list the tags
    notes delete NUMBER   delete a note
    """

func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data((message + "\n").utf8))
    exit(1)
}

func show(_ notes: [Note]) {
    for note in notes { print("\(note.number)  \(note.text)") }
}

let arguments = CommandLine.arguments.dropFirst()
let text = arguments.dropFirst().joined(separator: " ")
do {
    let notebook = try await Notebook()
    switch arguments.first {
    case "add" where !text.isEmpty: show([try notebook.add(text)])
    case "list": show(try notebook.notes(taggedWith: text.isEmpty ? nil : text))
    case "search" where !text.isEmpty: show(try notebook.notes(containing: text))
    case "tags": for tag in try notebook.tags() { print("#\(tag.name)  \(tag.count)") }
    case "delete":
        guard let number = Int(text), try notebook.deleteNote(number) else {
            fail("There is no note \(text).")
        }
    default: fail(usage)
    }
} catch let error as QuireError {
    fail(error.message)
}
