import ArgumentParser
import Quire

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
            // A model that is wrong is not compiled; then its problems are what there is to say.
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
