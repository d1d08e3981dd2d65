import ArgumentParser
import Quire

/// `quire fetch PATH ENTITY …`
struct FetchVerb: DocumentVerb {
    static let name = "fetch"
    static let abstract = "Prints the objects of an entity, or values computed from them."
    static let discussion = """
        Without --columns, every attribute is printed. A column may be a relationship, or a path such as \
        author.name. With --group-by, --distinct or an expression as a column, the store computes rows of \
        values. Without --group-by that is one row per object, or a single row for all objects if a column \
        is count(), sum(), avg(), min() or max() of a value of each object.

        --template runs a fetch request of the model, which has its own entity, condition, order and limit; \
        --where adds to the condition, --sort and --limit replace the order and limit. The value of a \
        variable has the type that the variable is compared with; separate the values of a list with commas.

        Only tables on a terminal are truncated, to its width. CSV and TSV contain identifiers and whole \
        values, as in JSON: binary values in base64, several values separated by semicolons. In CSV a \
        missing value is an empty field, and an empty text is ""; TSV is escaped as in PostgreSQL.

        EXAMPLES:
          quire fetch Library.quire Book --where 'year < 1800' --sort -year
          quire fetch Library.quire Book --columns title,author.name --json
          quire fetch Library.quire Book --csv -o books.csv
          quire fetch Library.quire Book --where 'author.name LIKE "J*"' --count
          quire fetch Library.quire Author --sort -books.@count --limit 3
          quire fetch Library.quire Book --columns 'author.name,count(*) AS n,average(year)' \
        --group-by author.name --having 'n > 1' --sort -n
          quire fetch Library.quire --template booksBy --set 'NAME=Jane Austen' --sort year
        """
    typealias Printing = RowOptions

    @OptionGroup var query: QueryArguments

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        try query.listingRequest(in: document.layout).reply(on: document)
    }
}

/// The option that selects objects.
struct FilterOption: ParsableArguments {
    @Option(
        name: .customLong("where"), parsing: .unconditional,
        help: ArgumentHelp(
            "A condition in the predicate format language, such as 'year < 1900 AND author.name == "
                + "\"Jane Austen\"'.", valueName: "F"))
    var format: String?

    func validate() throws {
        if let note = format.flatMap(Corrections.note) { Output.report(note) }
    }

    /// The condition, if one is given.
    ///
    /// - Throws: `QuireError` with code `invalidQuery`.
    var predicate: QueryPredicate? {
        get throws { try format.map { try QueryPredicate(format: $0) } }
    }
}

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
