import ArgumentParser
import Quire

/// `quire model PATH …`, `quire model generate …`, `quire model templates`
struct ModelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: ModelVerb.name,
        abstract:
            "Prints, changes, checks, compares, compiles and merges models, and writes classes for them.",
        discussion: """
            If a document has the name of a subcommand, add the folder: ./generate.

            EXAMPLES:
              quire model Library.quire
              quire model Library.quire Book --json
              quire model check Library.xcdatamodeld
              quire model add Library.quire 'Book.notes: string'
              quire model edit Library.quire
              quire model diff Old.momd Library.xcdatamodeld
              quire model generate Library.xcdatamodeld Sources/Library
            """,
        subcommands: [
            OnDocument<ModelVerb>.self, ModelPrintCommand.self, ModelCheckCommand.self,
            ModelDiffCommand.self, ModelCompileCommand.self, ModelMergeCommand.self,
            ModelAddCommand.self, ModelRenameCommand.self, ModelRemoveCommand.self,
            ModelSetCommand.self, ModelEditCommand.self, ModelGenerateCommand.self,
            ModelTemplatesCommand.self,
        ],
        defaultSubcommand: OnDocument<ModelVerb>.self)
}

/// `quire model PATH [ENTITY]`
struct ModelVerb: DocumentVerb {
    static let name = "model"
    static let commandName = "show"
    static let abstract =
        "Prints the model: entities, attributes, relationships and fetch requests."
    static let discussion = """
        --template runs a fetch request of the model, as fetch --template does.

        EXAMPLES:
          quire model Library.quire
          quire model Library.quire Book --json
          quire model Library.quire --template booksBy --set 'NAME=Jane Austen' --sort year
        """
    typealias Printing = RowOptions

    @Argument(help: ArgumentHelp("Only this entity.", valueName: "ENTITY"))
    var entity: String?

    @OptionGroup var template: TemplateOptions
    @OptionGroup var listing: ListingOptions

    func validate() throws {
        try template.validate(entity: entity)
        if template.name == nil && listing.isGiven {
            throw ValidationError("The options of fetch require --template.")
        }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        if let request = try template.request(of: document.layout.model) {
            return try ListingRequest(request, listing, in: document.layout).reply(on: document)
        }
        let listing = try ModelListing(document.layout, entity: entity)
        return Reply { output in
            let isDefault = try output.format == Defaults.current().format
            guard output.json || output.format == .table || isDefault else {
                throw Failure.usage(
                    "A model is printed as text or JSON; other formats require --template.")
            }
            try listing.print(output)
        }
    }
}

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

    @OptionGroup var printing: JSONOption

    @Flag(help: "Print a Mermaid class diagram.")
    var mermaid = false

    @Flag(help: "Print a Graphviz diagram.")
    var dot = false

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions

    func validate() throws {
        if [printing.json, mermaid, dot].count(where: \.self) > 1 {
            throw ValidationError("Specify only one of --json, --mermaid and --dot.")
        }
    }

    @MainActor
    func run() async throws {
        let output = Output(json: printing.json)
        let source = try await ModelSource.read(path, version: version, unlock)
        for remark in source.remarks.withoutRepeats { Output.report("Warning: \(remark)") }
        let layout = try source.model.layout()
        if mermaid {
            try ModelDiagram(layout, entity: entity).printMermaid(output)
        } else if dot {
            try ModelDiagram(layout, entity: entity).printDot(output)
        } else if printing.json {
            try ModelListing(layout, entity: entity).print(output)
        } else {
            let name = try entity.map { try layout.requireEntity(named: $0).name }
            try output.print(
                raw: name.map { source.model.modelText(ofEntity: $0) } ?? source.model.modelText())
        }
        try output.flush()
    }
}
