import ArgumentParser
import Quire

/// `quire model print PATH …`
struct ModelPrintCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "print",
        abstract: "Prints a model as text, from a file, a document or a store.",
        discussion: """
            PATH is an .xcdatamodeld or .momd folder, one version of it, a .quiremodel file, or a document or \
            store that contains its model. Warnings on standard error list parts that cannot be printed.

            --model and the other commands accept the text if it is saved as a .quiremodel file.

            --mermaid and --dot print a class diagram for Mermaid, as in Markdown files, or for Graphviz.

            EXAMPLES:
              quire model print Library.xcdatamodeld
              quire model print Library.quire > Library.quiremodel
              quire model print Library.quire --dot | dot -Tsvg > library.svg
              quire model print Library.momd Book --version 'Library 2' --json
            """)

    @Argument(help: ArgumentHelp("A model, a document or a store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("Only this entity.", valueName: "ENTITY"))
    var entity: String?

    @Option(help: ArgumentHelp("This version instead of the current one.", valueName: "NAME"))
    var version: String?

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Print a Mermaid class diagram.")
    var mermaid = false

    @Flag(help: "Print a Graphviz diagram.")
    var dot = false

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions

    func validate() throws {
        if [json, mermaid, dot].count(where: \.self) > 1 {
            throw ValidationError("Specify only one of --json, --mermaid and --dot.")
        }
    }

    @MainActor
    func run() async throws {
        let output = Output(json: json)
        let source = try await ModelSource.read(path, version: version, unlock)
        for remark in source.remarks.withoutRepeats { Output.report("Warning: \(remark)") }
        let layout = try source.model.layout()
        if mermaid {
            try ModelDiagram(layout, entity: entity).printMermaid(output)
        } else if dot {
            try ModelDiagram(layout, entity: entity).printDot(output)
        } else if json {
            try ModelListing(layout, entity: entity).print(output)
        } else {
            let name = try entity.map { try layout.requireEntity(named: $0).name }
            try output.print(
                raw: name.map { source.model.modelText(ofEntity: $0) } ?? source.model.modelText())
        }
        try output.flush()
    }
}
