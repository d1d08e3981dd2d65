import ArgumentParser
import Quire
import QuireDocuments
import QuireRescue

/// `quire check PATH`
struct CheckVerb: DocumentVerb {
    static let name = "check"
    static let abstract =
        "Checks that a document is whole: tables, file, values, references, orders, files, books."
    static let discussion = """
        Exit code 0 if nothing is wrong, 4 if something is damaged or lost, or has not arrived from another machine. What is checked is the document as \
        it was last saved: its tables against its model first. A line that begins with Note is about something \
        unusual that does no harm, such as what Core Data leaves in its own stores; it does not change the exit \
        code. A lost table or column cannot be repaired; recover brings back the rest.

        EXAMPLES:
          quire check Library.quire
          quire check Library.quire --json
        """
    static let access = DocumentSession.Access.read

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let report = try DocumentCheck(document: document).run()
        return Reply { output in
            try report.print(output)
            try output.flush()
            if !report.isWhole {
                throw Failure(
                    sentence:
                        "“\(document.path)” has \(Count.of(report.problemCount, "problem")).",
                    status: .invalidData)
            }
        }
    }
}

extension StoreProblem {
    /// The problem as JSON.
    var json: JSONValue {
        var members: [String: JSONValue] = [
            "kind": .string(kind.rawValue), "object": JSONValue(object),
            "message": .string(message), "repairable": .boolean(isRepairable),
        ]
        if let table { members["table"] = .string(table) }
        return .object(members)
    }
}

extension StoreCheckReport {
    /// The number of problems, whether they are listed or not.
    var problemCount: Int { problems.count + unlistedProblems }

    /// Prints the report.
    @MainActor
    func print(_ output: Output) throws {
        if output.json {
            try output.print(
                .object([
                    "ok": .boolean(isWhole),
                    "objects": .integer(Int64(objects)),
                    "values": .integer(Int64(values)),
                    "references": .integer(Int64(references)),
                    "externalFiles": .integer(Int64(externalFiles)),
                    "problems": .array(problems.map(\.json)),
                    "notes": .array(notes.map(\.json)),
                    "unlisted": .integer(Int64(unlistedProblems)),
                ]), levels: 2)
            return
        }
        for problem in problems { try output.print(problem.message) }
        if unlistedProblems > 0 {
            try output.print("There are \(unlistedProblems) more problems of these kinds.")
        }
        for note in notes { try output.print("Note: \(note.message)") }
        let files = externalFiles > 0 ? ", \(Count.of(externalFiles, "external file"))" : ""
        try output.print(
            "Checked \(Count.of(objects, "object")), \(Count.of(values, "value")), "
                + "\(Count.of(references, "reference"))\(files): "
                + (isWhole ? "all is well." : "\(Count.of(problemCount, "problem")).")
        )
    }
}

// MARK: - The check

/// Checks a document: its store, and for a package the files beside it.
@MainActor
struct DocumentCheck {
    let document: DocumentSession

    /// Checks everything.
    ///
    /// - Throws: What reading the store throws where it makes going on pointless.
    func run() throws -> StoreCheckReport {
        var report = try StoreCheck.run(on: document.store)
        report.add(try document.packageProblems())
        return report
    }
}
