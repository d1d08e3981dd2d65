import ArgumentParser
import Quire
import QuireDocuments
import QuireRescue

/// `quire check PATH`
struct CheckVerb: DocumentVerb {
    static let name = "check"
    static let abstract =
        "Checks a document: its database, values, references, ordering, files and metadata."
    static let discussion = """
        Exit code 0 if there are no problems, 4 if data is damaged, lost, or has not arrived from \
        another machine. Checks the document as last saved: first its tables against its model, \
        then every value, reference, ordering and file. Lines that begin with Note report harmless \
        irregularities, such as those that Core Data leaves in its own stores, and do not change \
        the exit code. Pages of an unprotected document have no checksum, so a flipped bit inside \
        a value can go unnoticed. A lost table or column cannot be repaired; recover saves the rest.

        EXAMPLES:
          quire check Library.quire
          quire check Library.quire --json
        """

    @OptionGroup var color: ColorOption

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        var report = try ProgressBar.showing("Checking \(document.path)", of: .bytes) {
            try StoreCheck.run(on: document.store, progress: $0)
        }
        report.add(
            try ProgressBar.showing("Checking the files of \(document.path)", of: .fraction) {
                try document.packageProblems(progress: $0)
            })
        return Reply { [report] output in
            try report.print(output)
            try output.flush()
            if !report.isWhole {
                throw Failure.invalidData(
                    "“\(document.path)” has \(Count.of(report.problemCount, "problem")).")
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
        let files = externalFiles > 0 ? ", \(Count.of(externalFiles, "external file"))" : ""
        let verdict =
            "Checked \(Count.of(objects, "object")), \(Count.of(values, "value")), "
            + "\(Count.of(references, "reference"))\(files): "
            + (isWhole ? "all is well." : "\(Count.of(problemCount, "problem")).")
        if output.json { return try output.print(json, levels: 2) }
        for problem in problems { try output.print(problem.message, .red) }
        if unlistedProblems > 0 {
            try output.print("\(Count.of(unlistedProblems, "more problem")) of these kinds.", .red)
        }
        for note in notes { try output.print("Note: \(note.message)") }
        try output.print(verdict, isWhole ? .green : .bold)
    }

    private var json: JSONValue {
        .object([
            "ok": .boolean(isWhole),
            "objects": .integer(Int64(objects)),
            "values": .integer(Int64(values)),
            "references": .integer(Int64(references)),
            "externalFiles": .integer(Int64(externalFiles)),
            "problems": .array(problems.map(\.json)),
            "notes": .array(notes.map(\.json)),
            "unlisted": .integer(Int64(unlistedProblems)),
        ])
    }
}
