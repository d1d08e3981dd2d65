import ArgumentParser
import Quire

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
