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
        let output = Output(json: json)
        if let export {
            var files = GeneratedFiles(in: export)
            for template in ClassTemplate.builtIn {
                for (name, text) in template.sources.sorted(by: { $0.key < $1.key }) {
                    files.add(template.title + "/" + name, text + "\n")
                }
            }
            let written = try files.write(force: force)
            if json {
                try output.print(.array(written.map(ModelGenerateCommand.json)), levels: 1)
            } else {
                for file in written { try output.print("\(file.path) \(file.status.rawValue)") }
            }
        } else if json {
            let list = ClassTemplate.builtIn.map { template in
                JSONValue.object([
                    "name": .string(template.title), "description": .string(template.summary),
                    "files": .array(template.sources.keys.sorted().map { .string($0) }),
                ])
            }
            try output.print(.array(list), levels: 1)
        } else {
            let width = ClassTemplate.builtIn.map(\.title.count).max() ?? 0
            for template in ClassTemplate.builtIn {
                let space = String(repeating: " ", count: width - template.title.count + 2)
                try output.print(template.title + space + template.summary)
            }
        }
        try output.flush()
    }
}
