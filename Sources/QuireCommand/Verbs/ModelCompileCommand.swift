import ArgumentParser
import Foundation
import Quire

/// `quire model compile PATH -o OUT`
struct ModelCompileCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compile",
        abstract: "Compiles a model, as Xcode does, or writes it in another form.",
        discussion: """
            The extension of OUT determines the form. A .momd folder contains all versions of the model, \
            which PATH must contain too; a .mom file contains one. An .xcdatamodeld or .xcdatamodel folder \
            is for Xcode; a .quiremodel file is text. Warnings on standard error list parts that are not \
            written.

            EXAMPLES:
              quire model compile Library.xcdatamodeld -o Library.momd
              quire model compile Library.quire -o Library.mom
              quire model compile Library.quiremodel -o Library.xcdatamodeld
            """)

    @Argument(help: ArgumentHelp("A model, a document or a store.", valueName: "PATH"))
    var path: String

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("The new file; it must not exist.", valueName: "OUT"))
    var output: String

    @Option(help: ArgumentHelp("This version instead of the current one.", valueName: "NAME"))
    var version: String?

    @OptionGroup var opening: OpeningOptions

    private static let endings = [".momd", ".mom", ".xcdatamodeld", ".xcdatamodel", ".quiremodel"]

    func validate() throws {
        guard Self.endings.contains(where: output.hasSuffix) else {
            throw ValidationError(
                "OUT must end in .momd (all versions), .mom (one model), .xcdatamodeld, .xcdatamodel or .quiremodel."
            )
        }
        if version != nil && output.hasSuffix(".momd") {
            throw ValidationError("A .momd folder contains all versions; omit --version.")
        }
    }

    @MainActor
    func run() async throws {
        var warnings: [String]
        var count = 1
        if output.hasSuffix(".momd") {
            guard let versions = try ModelSource.versions(at: path) else {
                throw Failure.invalidData(
                    "“\(path)” contains only one model; compile it to a .mom file.")
            }
            count = versions.names.count
            warnings = try versions.compile(to: output)
        } else {
            let source = try await ModelSource.read(path, version: version, opening.unlock)
            warnings = source.remarks
            if output.hasSuffix(".mom") {
                let (data, omissions) = try source.model.compiledModel()
                warnings += omissions + source.model.partsNotCompiled
                try FileSystem.writeNewFile(data, at: output)
            } else if output.hasSuffix(".quiremodel") {
                try FileSystem.writeNewFile(Data(source.model.modelText().utf8), at: output)
            } else {
                if FileSystem.exists(output) { throw QuireError.alreadyExists(at: output) }
                try source.model.write(to: output)
            }
        }
        warnings = warnings.withoutRepeats
        for warning in warnings { Output.report("Warning: \(warning)") }
        try opening.printResult(
            levels: 2, ["Created \(output) from \(path): \(Count.of(count, "version"))."]
        ) {
            .object([
                "path": .string(output), "versions": .integer(Int64(count)),
                "warnings": .array(warnings.map { .string($0) }),
            ])
        }
    }
}
