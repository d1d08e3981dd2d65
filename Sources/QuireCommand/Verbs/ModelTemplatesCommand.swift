import ArgumentParser
import Quire

/// `quire model templates`
struct ModelTemplatesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates",
        abstract:
            "Lists the templates for classes, or exports copies to edit.",
        discussion: """
            Use a copy with quire model generate --template FOLDER/NAME. \
            Sources/QuireCommand/TEMPLATES.md describes the variables of templates.

            EXAMPLES:
              quire model templates
              quire model templates --export ClassTemplates
            """)

    @Option(
        help: ArgumentHelp(
            "Copy each template into a subfolder of this folder.", valueName: "FOLDER"))
    var export: String?

    @Flag(help: "Overwrite existing templates.")
    var force = false

    @OptionGroup var printing: RowOptions

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
            return try printing.print { output in
                var rows = RowOutput(
                    [("path", .left), ("status", .left)], members: ["path", "status"],
                    isList: true, to: output)
                for file in written {
                    try rows.add(
                        [file.path, file.status.rawValue], ModelGenerateCommand.json(file))
                }
                try rows.finish()
            }
        }
        try printing.print { output in
            var rows = RowOutput(
                [("name", .left), ("description", .left)],
                members: ["name", "description", "files"], isList: true, to: output)
            for template in ClassTemplate.builtIn {
                try rows.add(
                    [template.title, template.summary],
                    .object([
                        "name": .string(template.title), "description": .string(template.summary),
                        "files": .array(template.sources.keys.sorted().map { .string($0) }),
                    ]))
            }
            try rows.finish()
        }
    }
}
