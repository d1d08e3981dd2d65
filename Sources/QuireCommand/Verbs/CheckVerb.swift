import ArgumentParser
import Quire

/// `quire check PATH`
struct CheckVerb: DocumentVerb {
    static let name = "check"
    static let abstract =
        "Checks that a document is whole: file, counts, values, references, inverses."
    static let discussion = """
        Exit code 4 if anything is wrong. What is checked is the document as it was last saved.

        EXAMPLES:
          quire check Library.quire
        """
    static let access = DocumentSession.Access.read

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let check = try DocumentCheck(document).run()
        return Reply { output in
            try check.print(output)
            try output.flush()
            if !check.problems.isEmpty {
                throw Failure(
                    sentence:
                        "“\(document.path)” has \(Count.of(check.problems.count, "problem")).",
                    status: .invalidData)
            }
        }
    }
}

extension DocumentCheck.Report {
    /// Prints the report.
    @MainActor
    func print(_ output: Output) throws {
        if output.json {
            try output.print(
                .object([
                    "ok": .boolean(problems.isEmpty),
                    "objects": .integer(Int64(objects)),
                    "values": .integer(Int64(values)),
                    "references": .integer(Int64(references)),
                    "externalFiles": .integer(Int64(externalFiles)),
                    "problems": .array(
                        problems.map {
                            .object([
                                "kind": .string($0.kind.rawValue), "object": JSONValue($0.object),
                                "message": .string($0.message),
                            ])
                        }),
                ]), levels: 2)
            return
        }
        for problem in problems { try output.print(problem.message) }
        let files = externalFiles > 0 ? ", \(Count.of(externalFiles, "external file"))" : ""
        try output.print(
            "Checked \(Count.of(objects, "object")), \(Count.of(values, "value")), "
                + "\(Count.of(references, "reference"))\(files): "
                + (problems.isEmpty ? "all is well." : "\(Count.of(problems.count, "problem")).")
        )
    }
}
