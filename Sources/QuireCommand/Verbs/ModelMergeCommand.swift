import ArgumentParser
import Quire

/// `quire model merge A B … -o OUT`
struct ModelMergeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Merges models into one.",
        discussion: """
            The models may share identical entities. If entities with the same name differ, they \
            are listed, and nothing is written. OUT is an .xcdatamodel folder, which Xcode opens.

            EXAMPLES:
              quire model merge Library.xcdatamodeld Loans.momd -o All.xcdatamodel
            """)

    @Argument(help: ArgumentHelp("Models, documents or stores.", valueName: "PATH"))
    var paths: [String]

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("The new model; an existing one is replaced.", valueName: "OUT"))
    var output: String

    @OptionGroup var opening: OpeningOptions

    func validate() throws {
        if paths.count < 2 { throw ValidationError("Specify two or more models to merge.") }
        if !output.hasSuffix(".xcdatamodel") {
            throw ValidationError("OUT must end in .xcdatamodel.")
        }
    }

    @MainActor
    func run() async throws {
        var models: [ManagedObjectModel] = []
        for path in paths {
            let source = try await ModelSource.read(path, opening.unlock)
            for remark in source.remarks.withoutRepeats {
                Output.report("Warning: \(path): \(remark)")
            }
            models.append(source.model)
        }
        let merged = try ManagedObjectModel.merging(models)
        try merged.write(to: output)
        let entities = merged.entities.map(\.name)
        try Output.printResult(
            json: opening.json, reportsChanges: true, levels: 2,
            [
                "Merged \(Count.of(models.count, "model")) into \(output): "
                    + "\(Count.of(entities.count, "entity", "entities"))."
            ]
        ) { .object(["path": .string(output), "entities": .array(entities.map { .string($0) })]) }
    }
}
