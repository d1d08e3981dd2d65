import ArgumentParser
import Quire
import QuireDocuments

/// `quire templates`
struct TemplatesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates",
        abstract: "Lists the templates for new documents, or creates one from a document.",
        discussion: """
            The folder of templates is QUIRE_TEMPLATES. If that is not set, templates are found in quire/Templates in \
            XDG_DATA_HOME or ~/.local/share, beside the program, and in the program itself.

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

    @OptionGroup var printing: RowOptions

    @MainActor
    func run() async throws {
        let templates = try DocumentTemplate.all()
        try printing.print { output in
            var rows = RowOutput(
                [("name", .left), ("description", .left)],
                members: ["name", "description", "path"], isList: true, to: output)
            for template in templates {
                try rows.add([template.name, template.summary], template.json)
            }
            try rows.finish()
        }
    }
}

extension DocumentTemplate {
    /// The template as JSON.
    var json: JSONValue {
        .object([
            "name": .string(name), "description": .string(summary),
            "path": path.isEmpty ? .null : .string(path),
        ])
    }
}
