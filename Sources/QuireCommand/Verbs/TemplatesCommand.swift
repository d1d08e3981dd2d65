import ArgumentParser
import Quire
import QuireDocuments

/// `quire templates`
struct TemplatesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates",
        abstract: "Lists the templates for new documents, or makes one from a document.",
        discussion: """
            Templates are searched in QUIRE_TEMPLATES; otherwise in quire/Templates of XDG_DATA_HOME or ~/.local/share, \
            and beside the program.

            EXAMPLES:
              quire templates
              quire templates make Library.quire 'My Library'
            """,
        subcommands: [TemplatesListCommand.self, TemplatesMakeCommand.self],
        defaultSubcommand: TemplatesListCommand.self)
}

/// `quire templates list`
struct TemplatesListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Lists the templates for new documents.",
        discussion: """
            EXAMPLES:
              quire templates list --json
            """)

    @Flag(help: "Print JSON.")
    var json = false

    @MainActor
    func run() async throws {
        let templates = try DocumentTemplate.all()
        try Output.printResult(
            json: json, reportsChanges: false,
            TextTable.lines(templates.map { ($0.name, $0.summary) })
        ) { .array(templates.map(\.json)) }
    }
}

extension DocumentTemplate {
    /// The template as JSON.
    var json: JSONValue {
        .object([
            "name": .string(name), "description": .string(summary), "path": .string(path),
        ])
    }
}
