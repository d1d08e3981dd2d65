import ArgumentParser
import Quire

/// `quire model templates`
struct ModelTemplatesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates",
        abstract:
            "Lists the templates for classes, or exports copies to change.",
        discussion: """
            Use a copy with quire model generate --template FOLDER/NAME. \
            Sources/QuireCommand/TEMPLATES.md describes the variables of templates.

            EXAMPLES:
              quire model templates
              quire model templates --export ClassTemplates
            """)

    @Option(
        help: ArgumentHelp(
            "Copy them into this folder, each into one of its own.", valueName: "FOLDER"))
    var export: String?

    @Flag(help: "Overwrite existing templates.")
    var force = false

    @Flag(help: "Print JSON.")
    var json = false

    @MainActor
    func run() async throws {
        if let export {
            var files = GeneratedFiles(in: export)
            for template in ClassTemplate.builtIn {
                for (name, text) in template.sources.sorted(by: { $0.key < $1.key }) {
                    files.add(template.title + "/" + name, text + "\n")
                }
            }
            let written = try files.write(force: force)
            return try Output.printResult(
                json: json, reportsChanges: false,
                written.map { "\($0.path) \($0.status.rawValue)" }
            ) { .array(written.map(ModelGenerateCommand.json)) }
        }
        let templates = ClassTemplate.builtIn
        try Output.printResult(
            json: json, reportsChanges: false,
            TextTable.lines(templates.map { ($0.title, $0.summary) })
        ) {
            .array(
                templates.map {
                    .object([
                        "name": .string($0.title), "description": .string($0.summary),
                        "files": .array($0.sources.keys.sorted().map { .string($0) }),
                    ])
                })
        }
    }
}
