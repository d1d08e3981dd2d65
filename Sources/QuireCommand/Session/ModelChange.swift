import ArgumentParser
import Foundation
import Quire
import QuireDocuments
import QuireSQLite

/// A migration of a package or a bare store to a model.
struct DocumentMigration {
    let path: String
    let model: ManagedObjectModel
    /// The options; with a backup unless ``StoreMigrationOptions/keepsVersion`` is false.
    private(set) var options: StoreMigrationOptions
    /// The steps; empty if the document has a model of the same hashes.
    let steps: [MigrationPath.Step]
    /// The contents that would be removed.
    private(set) var removals: [MigrationRemoval] = []
    /// Whether the document is a package, of which a version is kept, instead of a copy.
    let isPackage: Bool
    private let wait: WaitOption

    /// Plans a migration, and changes nothing.
    ///
    /// - Throws: `QuireError` with code `incompatibleModel` if no mapping can be inferred, and others.
    init(
        of path: String, to model: ManagedObjectModel, _ options: StoreMigrationOptions,
        waiting wait: WaitOption
    ) throws {
        self.path = path
        self.model = model
        self.options = options
        self.wait = wait
        isPackage = try DocumentPath.kind(of: path) == .package
        store = isPackage ? DocumentPackageLayout(path: path).store : path
        if let type = try? StoreFile(at: store).type, type != .sqlite {
            throw QuireError(
                .unsupported,
                "“\(path)” is a store of type \(type.rawValue), which cannot be migrated; first convert it with “quire convert --to sqlite”.",
                file: path)
        }
        steps = try SQLiteStore.steps(at: store, to: model, options)
        if !steps.isEmpty { removals = try SQLiteStore.removals(at: store, by: steps) }
    }

    /// The path of the store.
    let store: String

    /// Migrates, with a progress bar, and allows the removal of contents if that is given. Without steps the document only gets
    /// the model.
    ///
    /// - Returns: The identifier of a document's version, or the path of a store's copy, from before.
    mutating func run(allowingRemoval: Bool? = nil) throws -> String? {
        if let allowingRemoval { options.allowsRemoval = allowingRemoval }
        return try ProgressBar.showing("Migrating \(path)", of: .fraction) {
            options.progress = $0
            return try migrate()
        }
    }

    private mutating func migrate() throws -> String? {
        let keepsBackup = options.keepsVersion
        if isPackage {
            let package = try DocumentPackage.open(
                at: path, model: model, migrating: options, waiting: wait.lockWait(for: path))
            defer { package.closeSaved() }
            if steps.isEmpty { try package.store.writeCarriedModel() }
            // The migration has succeeded, even if its version cannot be named.
            return keepsBackup && !steps.isEmpty ? (try? package.versions())?.first?.id : nil
        }
        if keepsBackup, !steps.isEmpty {
            options.copyPath = StoreMigrationOptions.copyPath(beside: path)
        }
        var storeOptions = SQLiteStoreOptions()
        storeOptions.lockWait = wait.fileLockWait(for: path)
        let opened = try SQLiteStore.open(
            at: path, model: model, options: storeOptions, migrating: options)
        defer { opened.closeSaved() }
        if steps.isEmpty { try opened.writeCarriedModel() }
        return options.copyPath
    }

    /// A sentence about the removed data, and one about the backup.
    func losses(backup: String?) -> [String] {
        let lines = removals.isEmpty ? [] : ["Removed \(removals.list)."]
        return lines + (backup.map { ["Backup: \(isPackage ? "version " : "")\($0)"] } ?? [])
    }

    /// Whether the document has a model of the same hashes.
    var isDone: Bool {
        (try? SQLiteStore.steps(at: store, to: model, options))?.isEmpty == true
    }
}

extension [MigrationRemoval] {
    /// The contents, in a sentence.
    var list: String { map(\.description).joined(separator: ", ") }
}

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
