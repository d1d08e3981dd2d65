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

/// `quire model check PATH …`
struct ModelCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Lists the problems in a model.",
        discussion: """
            PATH is an .xcdatamodeld or .momd folder, one version of it, or a document or store that contains \
            its model. All versions of a folder are checked. Problems make the model unusable; warnings list \
            parts of the file that are ignored, or that a compiled model would lose. Exit code 4 if there are \
            problems.

            EXAMPLES:
              quire model check Library.xcdatamodeld
              quire model check Library.momd --version 'Library 2'
            """)

    @Argument(help: ArgumentHelp("A model, a document or a store.", valueName: "PATH"))
    var path: String

    @Option(help: ArgumentHelp("Check this version only.", valueName: "NAME"))
    var version: String?

    @OptionGroup var opening: OpeningOptions

    /// The findings in one version.
    private struct Findings {
        var name: String
        var isCurrent: Bool
        var entities = 0
        var problems: [String] = []
        var warnings: [String] = []
    }

    @MainActor
    func run() async throws {
        var all: [Findings] = []
        if version == nil, let versions = try ModelSource.versions(at: path) {
            for name in versions.names {
                all.append(
                    await check(name, isCurrent: name == versions.currentName) {
                        let reading = try versions.reading(named: name)
                        return (reading.model, reading.remarks)
                    })
            }
        } else {
            let source = try await ModelSource.read(path, version: version, opening.unlock)
            all.append(
                await check(version ?? source.name, isCurrent: true) {
                    (source.model, source.remarks)
                })
        }
        try print(all)
        let count = all.reduce(0) { $0 + $1.problems.count }
        if count > 0 {
            throw Failure.invalidData("“\(path)” has \(Count.of(count, "problem")).")
        }
    }

    private func check(
        _ name: String, isCurrent: Bool,
        read: () throws -> (model: ManagedObjectModel, remarks: [String])
    ) async -> Findings {
        var findings = Findings(name: name, isCurrent: isCurrent)
        do {
            let (model, remarks) = try read()
            findings.entities = model.entities.count
            findings.warnings = remarks
            // An invalid model is not compiled; its problems are reported instead.
            findings.warnings += try model.compiledModel().omissions
            findings.warnings = findings.warnings.withoutRepeats
        } catch let error as QuireError {
            let failures = error.failures.isEmpty ? [error] : error.failures
            findings.problems = failures.map(\.message)
        } catch {
            findings.problems = ["\(error)"]
        }
        return findings
    }

    private func print(_ all: [Findings]) throws {
        let lines = all.flatMap { one in
            let verdict =
                one.problems.isEmpty ? "all is well" : Count.of(one.problems.count, "problem")
            let current = one.isCurrent && all.count > 1 ? " (current)" : ""
            let entities = Count.of(one.entities, "entity", "entities")
            return ["\(one.name)\(current): \(entities), \(verdict)."]
                + one.problems.map { "  \($0)" } + one.warnings.map { "  Warning: \($0)" }
        }
        try opening.printResult(reportsChanges: false, levels: 2, lines) {
            .object([
                "ok": .boolean(all.allSatisfy(\.problems.isEmpty)),
                "versions": .array(
                    all.map {
                        .object([
                            "name": .string($0.name), "current": .boolean($0.isCurrent),
                            "entities": .integer(Int64($0.entities)),
                            "problems": .array($0.problems.map { .string($0) }),
                            "warnings": .array($0.warnings.map { .string($0) }),
                        ])
                    }),
            ])
        }
    }
}

/// `quire model diff OLD [NEW] …`
struct ModelDiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Shows the differences between two models, or two versions of a model.",
        discussion: """
            OLD and NEW are models, documents or stores; with --from and --to, versions of them. Without NEW, two \
            versions of OLD are compared. Lines begin with + for additions, - for removals and ~ \
            for changes; renamed parts are recognized by their renaming identifiers.

            EXAMPLES:
              quire model diff Library.quire Library.xcdatamodeld
              quire model diff Library.xcdatamodeld --from Library --to 'Library 2'
            """)

    @Argument(help: ArgumentHelp("A model, a document or a store.", valueName: "OLD"))
    var old: String

    @Argument(
        help: ArgumentHelp("Another model, document or store; OLD by default.", valueName: "NEW"))
    var new: String?

    @Option(
        help: ArgumentHelp("The version of OLD; the current one by default.", valueName: "NAME"))
    var from: String?

    @Option(
        help: ArgumentHelp("The version of NEW; the current one by default.", valueName: "NAME"))
    var to: String?

    @OptionGroup var opening: OpeningOptions

    func validate() throws {
        if new == nil && from == nil && to == nil {
            throw ValidationError("Specify what to compare with: another model, or a version.")
        }
    }

    @MainActor
    func run() async throws {
        let before = try await ModelSource.read(old, version: from, opening.unlock)
        let after = try await ModelSource.read(new ?? old, version: to, opening.unlock)
        let difference = ModelDifference(from: before.model, to: after.model)
        try opening.printResult(
            reportsChanges: false, levels: 2,
            difference.changes.map(\.description) + [Self.verdict(difference)]
        ) { Self.json(difference) }
    }

    private static func verdict(_ difference: ModelDifference) -> String {
        if difference.changes.isEmpty && !difference.changesStores {
            return "The models are the same."
        }
        return difference.changesStores
            ? "A store of the first model must be migrated to the second."
            : "A store of the first model opens with the second without migration."
    }

    private static func json(_ difference: ModelDifference) -> JSONValue {
        .object([
            "changesStores": .boolean(difference.changesStores),
            "changes": .array(
                difference.changes.map {
                    .object([
                        "kind": .string($0.kind.rawValue), "noun": .string($0.noun),
                        "entity": JSONValue($0.entity), "property": JSONValue($0.property),
                        "formerName": JSONValue($0.formerName),
                        "details": .array($0.details.map { .string($0) }),
                    ])
                }),
        ])
    }
}
