import ArgumentParser
import Quire

/// `quire model print PATH …`
struct ModelPrintCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "print",
        abstract: "Prints a model, from a file, a document or a store.",
        discussion: """
            PATH is an .xcdatamodeld or .momd folder, one version of it, or a document or store that carries \
            its model. Parts that cannot be shown are warnings on standard error.

            EXAMPLES:
              quire model print Library.xcdatamodeld
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

    @OptionGroup var unlock: UnlockOptions

    @MainActor
    func run() async throws {
        let output = Output(json: json)
        let source = try await ModelSource.read(path, version: version, unlock)
        for remark in source.remarks.withoutRepeats { Output.report("Warning: \(remark)") }
        try ModelListing(source.model.layout(), entity: entity).print(output)
        try output.flush()
    }
}
