import Foundation
import Quire
import QuireDocuments

/// Has a document of notes open for writing and does what lines on standard input say, so that a test can look at what
/// one process sees of another.
///
/// | line | what it does |
/// |---|---|
/// | `add TITLE` | adds a note, which is not saved |
/// | `remove TITLE` | removes a note, which is not saved |
/// | `write PATH TEXT` | writes a file of additional content, which is not saved |
/// | `save` | saves |
/// | `stall` | does nothing any more, not even for other processes |
/// | `close` | closes the document and ends |
///
/// Each is answered with a line: `done LINE`, or `failed CODE SENTENCE`. Before the first there is `open`.
@MainActor
struct CommandedWriter {
    let path: String

    func run() async {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        do {
            try await document.open()
        } catch {
            return report("failed \(error)")
        }
        report("open")
        for await line in Self.lines {
            if line == "stall" {
                report("done stall")
                while true { sleep(1) }
            }
            do {
                try await perform(line.split(separator: " ").map(String.init), document)
                report("done \(line)")
            } catch {
                report("failed \((error as? QuireError)?.code.rawValue ?? "") \(error)")
            }
            if line == "close" { return }
        }
    }

    private func perform(_ words: [String], _ document: ManagedDocument) async throws {
        let context = document.managedObjectContext
        switch words.first {
        case "add":
            let note = try context.insertObject(entityName: "Note")
            note["title"] = words[1]
        case "remove":
            for note in try context.fetch(FetchRequest("Note"))
            where note["title", as: String.self] == words[1] {
                context.delete(note)
            }
        case "write":
            try document.additionalContent.write(Data(words[2].utf8), at: words[1])
        case "save": try await document.save()
        case "close": try await document.close()
        default: break
        }
    }

    /// The lines of standard input. Whoever waits for them does not hold the main queue up.
    private static var lines: AsyncStream<String> {
        AsyncStream { continuation in
            DispatchQueue.global().async {
                while let line = readLine() { continuation.yield(line) }
                continuation.finish()
            }
        }
    }

    private func report(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }
}
