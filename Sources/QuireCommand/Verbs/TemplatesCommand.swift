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
        let output = Output(json: json)
        if json {
            try output.print(.array(templates.map(\.json)), levels: 1)
        } else {
            // A description is read, not compared: it is printed whole.
            let width = templates.map(\.name.count).max() ?? 0
            for template in templates {
                let space = String(repeating: " ", count: width - template.name.count + 2)
                try output.print(template.name + space + template.summary)
            }
        }
        try output.flush()
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
