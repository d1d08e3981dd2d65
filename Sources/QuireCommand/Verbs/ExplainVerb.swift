import ArgumentParser
import Quire

/// `quire explain PATH ENTITY …`
struct ExplainVerb: DocumentVerb {
    static let name = "explain"
    static let abstract =
        "Shows how fetch is executed: the SQL, its values and SQLite's plan."
    static let discussion = """
        Accepts the options of fetch. Conditions that SQL cannot express are listed as evaluated in \
        memory.

        EXAMPLES:
          quire explain Library.quire Book --where 'author.name == "Jane Austen"' --sort year
          quire explain Library.quire Book --columns 'count(*) AS n' --group-by year --json
        """
    static let access = DocumentSession.Access.read

    @OptionGroup var query: QueryArguments

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let explanation = try document.context.explain(
            query.listingRequest(in: document.layout).request)
        return Reply { output in
            if output.json {
                try output.print(Self.json(explanation), levels: 2)
            } else {
                try Self.print(explanation, output)
            }
        }
    }

    // MARK: - JSON

    private static func json(_ explanation: FetchExplanation) -> JSONValue {
        .object([
            "sql": .string(explanation.sql),
            "values": .array(explanation.bindings.map { PrintedValue($0).json }),
            "inMemory": JSONValue(explanation.inMemory?.format),
            "sortsInMemory": .boolean(explanation.sortsInMemory),
            "computesInMemory": .boolean(explanation.computesInMemory),
            "plan": .array(explanation.plan.map(json)),
        ])
    }

    private static func json(_ step: FetchExplanation.Step) -> JSONValue {
        .object(["detail": .string(step.detail), "steps": .array(step.children.map(json))])
    }

    // MARK: - Text

    private static func print(_ explanation: FetchExplanation, _ output: Output) throws {
        try output.print("SQL")
        try output.print("  \(explanation.sql)")
        if !explanation.bindings.isEmpty {
            try output.print("Values")
            for (index, value) in explanation.bindings.enumerated() {
                try output.print("  \(index + 1): \(text(value))")
            }
        }
        if let condition = explanation.inMemory {
            try output.print("Tested in memory")
            try output.print("  \(TextTable.line(condition.format))")
        }
        if explanation.sortsInMemory { try output.print("Sorted in memory") }
        if explanation.computesInMemory { try output.print("Computed in memory") }
        try output.print("Plan")
        try print(explanation.plan, indentation: "  ", output)
    }

    private static func print(
        _ steps: [FetchExplanation.Step], indentation: String, _ output: Output
    ) throws {
        for step in steps {
            try output.print(indentation + TextTable.line(step.detail))
            try print(step.children, indentation: indentation + "  ", output)
        }
    }

    /// A value, so that a text differs from a number.
    private static func text(_ value: AttributeValue) -> String {
        switch value {
        case .null: "NULL"
        case .string(let text): JSONValue.string(text).text()
        default: PrintedValue(value).text
        }
    }
}
