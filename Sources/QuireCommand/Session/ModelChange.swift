import ArgumentParser
import Foundation
import Quire

/// The options of commands that change the model of a document.
struct ModelChangeOptions: ParsableArguments {
    @Flag(help: "Print the changes without making them.")
    var dryRun = false

    @Flag(
        name: .shortAndLong, help: "Do not ask, and remove values that the new model cannot store.")
    var yes = false

    @Flag(help: "Do not keep a backup: a version of the document, or a copy of the store.")
    var noBackup = false

    @OptionGroup var opening: OpeningOptions
    @OptionGroup var wait: WaitOption
}

/// A change of the model of a document, which is migrated at once.
@MainActor
struct ModelChange {
    let path: String
    let options: ModelChangeOptions
    /// The model that the document has.
    let model: ManagedObjectModel

    /// Reads the model of a document.
    init(of path: String, _ options: ModelChangeOptions) async throws {
        self.path = path
        self.options = options
        if try DocumentPath.kind(of: path) == .archive { throw DocumentPath.archiveError(path) }
        try options.opening.unlock.unlock(path)
        model = try ModelSource.model(at: path)
    }

    /// Shows the differences of the new model, and migrates the document to it.
    ///
    /// - Parameter asks: Whether to ask on a terminal even if nothing is removed.
    /// - Throws: `QuireError` with code `invalidModel` or `incompatibleModel`, or `removalDenied` if values would be removed
    ///   and nobody allowed it.
    func migrate(to new: ManagedObjectModel, asking asks: Bool = false) throws {
        try new.validate()
        let difference = ModelDifference(from: model, to: new)
        var migration = StoreMigrationOptions()
        migration.keepsVersion = !options.noBackup
        migration.versions = ["new": new]
        var plan = try DocumentMigration(of: path, to: new, migration, waiting: options.wait)
        let changes = difference.changes.map(\.description)
        let json = options.opening.json
        let isSame = new == model
        if !json {
            let output = Output(json: false)
            for line in isSame ? ["The model is unchanged."] : changes { try output.print(line) }
            if options.dryRun, !plan.removals.isEmpty {
                try output.print("This would remove \(plan.removals.list).")
            }
            try output.flush()
        }
        var backup: String?
        let isMade = !isSame && !options.dryRun
        if isMade {
            guard try isAllowed(plan.removals, asks) else { return }
            backup = try plan.run(allowingRemoval: !plan.removals.isEmpty)
        }
        try options.opening.printResult(
            reportsChanges: isMade, levels: 2, isMade ? plan.losses(backup: backup) : []
        ) {
            .object([
                "path": .string(path), "dryRun": .boolean(options.dryRun),
                "changes": .array(changes.map { .string($0) }),
                "removals": .array(plan.removals.map { .string($0.description) }),
                "backup": JSONValue(backup),
            ])
        }
    }

    private func isAllowed(_ removals: [MigrationRemoval], _ asks: Bool) throws -> Bool {
        if options.yes { return true }
        if Confirmation.isPossible, asks || !removals.isEmpty {
            let loss = removals.isEmpty ? "" : " and remove \(removals.list)"
            return Confirmation.ask(
                "Change the model of \(path)\(loss)?", default: removals.isEmpty)
        }
        if removals.isEmpty { return true }
        throw QuireError(
            .removalDenied,
            "The change would remove \(removals.list) from “\(path)”. Specify --yes to allow it.",
            file: path)
    }
}

// MARK: - Questions

/// Asks the user questions on the terminal.
enum Confirmation {
    /// Whether questions can be asked.
    static var isPossible: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks a question that yes or no answers.
    ///
    /// - Parameter absent: The answer of an empty line.
    static func ask(_ question: String, default absent: Bool) -> Bool {
        while true {
            Output.writeError(TerminalText.line("\(question) [\(absent ? "Y/n" : "y/N")] "))
            guard let answer = readLine()?.trimmingCharacters(in: .whitespaces).lowercased() else {
                Output.writeError("\n")
                return false
            }
            switch answer {
            case "": return absent
            case "y", "yes": return true
            case "n", "no": return false
            default: continue
            }
        }
    }
}
