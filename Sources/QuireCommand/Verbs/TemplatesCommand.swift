import ArgumentParser
import QuireDocuments

/// `quire templates`
struct TemplatesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates",
        abstract: "Lists the templates for new documents.",
        discussion: """
            Templates are searched in QUIRE_TEMPLATES, or beside the program.

            EXAMPLES:
              quire templates
            """)

    @Flag(help: "Print JSON.")
    var json = false

    @MainActor
    func run() async throws {
        let templates = try DocumentTemplate.all()
        let output = Output(json: json)
        if json {
            let list = templates.map { template in
                JSONValue.object([
                    "name": .string(template.name), "description": .string(template.summary),
                    "path": .string(template.path),
                ])
            }
            try output.print(.array(list), levels: 1)
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
