import ArgumentParser
import Quire
import QuireSQLite

/// `quire migrate DOCUMENT --model M …`
struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Migrates a document, or a store, to another version of its model.",
        discussion: """
            The mapping is inferred from the two models, or given by mapping models. The document \
            is migrated completely or not at all, even if the process is killed.

            If the new model has no place for existing objects or values, the migration fails, \
            unless you specify --allow-removal. A mapping model may remove data without it. The old \
            state of a document is kept as a version (quire versions list), and that of a store as \
            a backup beside it.

            An app that uses Core Data recognizes its stores by hashes that only compiled models contain. If the app must \
            open the store afterwards, specify its .momd or .mom.

            EXAMPLES:
              quire migrate Library.quire --model Library.xcdatamodeld --dry-run
              quire migrate Library.quire --model Library.xcdatamodeld
              quire migrate Moods.sqlite --model Moody.xcdatamodeld --version 'Moody 5'
            """)

    @Argument(help: ArgumentHelp("The package or store.", valueName: "PATH"))
    var path: String

    @Option(
        help: ArgumentHelp(
            "The model to migrate to: all of its versions, a single version, or a document or store that contains it.",
            valueName: "M"))
    var model: String

    @Option(
        help: ArgumentHelp("The version to migrate to, instead of the current one.", valueName: "V")
    )
    var version: String?

    @Option(
        help: ArgumentHelp(
            "A mapping model between two of the versions; may be repeated.",
            valueName: "M.xcmappingmodel"))
    var mapping: [String] = []

    @Flag(help: "Allow the removal of data that the new model has no place for.")
    var allowRemoval = false

    @Flag(help: "Do not keep a version of the document, or a backup of the store.")
    var noBackup = false

    @Flag(help: "Print the changes and what they remove, without making them.")
    var dryRun = false

    @OptionGroup var opening: OpeningOptions
    @OptionGroup var wait: WaitOption

    @MainActor
    func run() async throws {
        if try DocumentPath.kind(of: path) == .archive { throw DocumentPath.archiveError(path) }
        try opening.unlock.unlock(path)
        let (destination, name, versions) = try readModel()
        var options = StoreMigrationOptions()
        options.versions = try versions?.models() ?? [name: destination]
        options.mappings = try mapping.map {
            guard let versions else { throw versionsNeeded("--mapping") }
            return try CustomMapping(contentsOf: $0, among: versions)
        }
        options.allowsRemoval = allowRemoval
        options.keepsVersion = !noBackup
        var migration = try DocumentMigration(
            of: path, to: destination, options, waiting: wait)
        let losesApp = try losesApp(migration, destination)
        var backup: String?
        if !dryRun && !migration.steps.isEmpty {
            do {
                backup = try migration.run()
            } catch var error as QuireError where error.code == .removalDenied {
                error.message += " Add --allow-removal to remove it."
                throw error
            } catch let error as QuireError {
                // What failed may have come after the migration.
                guard migration.isDone else { throw error }
                Output.report("\(error.message) “\(path)” had already been migrated.")
            }
        }
        try report(migration, name, backup)
        if losesApp {
            Output.report(
                "The app that “\(path)” belongs to \(dryRun ? "would" : "will") no longer open it: the model does not contain Core Data's version hashes; only a compiled model (.momd or .mom) does."
            )
        }
    }

    /// The model to come to, its name, and its versions if it has any.
    private func readModel() throws -> (ManagedObjectModel, String, ModelVersions?) {
        if let versions = try ModelSource.versions(at: model) {
            let name = version ?? versions.currentName
            return (try versions.model(named: name), name, versions)
        }
        if version != nil { throw versionsNeeded("--version") }
        return (try ModelSource.model(at: model), ModelSource.versionName(of: model), nil)
    }

    private func versionsNeeded(_ option: String) -> Failure {
        Failure.usage(
            "\(option) requires all versions of the model, and “\(model)” is a single version; specify the .xcdatamodeld or .momd folder."
        )
    }

    /// Whether a store has Core Data's version hashes, and a migration gives it others, which its app does not know.
    private func losesApp(
        _ migration: DocumentMigration, _ destination: ManagedObjectModel
    ) throws -> Bool {
        guard let source = migration.steps.first?.source, destination.knownVersionHashes == nil
        else { return false }
        let hashes = try SQLiteStore.metadata(at: migration.store).entityVersionHashes
        return hashes != source.entityVersionHashes()
    }

    // MARK: - Reporting

    private func report(
        _ migration: DocumentMigration, _ name: String, _ backup: String?
    ) throws {
        try opening.printResult(
            reportsChanges: !dryRun, levels: 4, lines(of: migration, name, backup)
        ) {
            .object([
                "path": .string(path), "version": .string(name), "dryRun": .boolean(dryRun),
                "steps": .array(migration.steps.map(Self.json)),
                "removals": .array(migration.removals.map(Self.json)),
                "backup": JSONValue(backup),
            ])
        }
    }

    private func lines(
        of migration: DocumentMigration, _ name: String, _ backup: String?
    ) -> [String] {
        let (steps, removals) = (migration.steps, migration.removals)
        if steps.isEmpty { return ["\(path) already has the model \(name)."] }
        let way = steps.map(\.name).joined(separator: ", then to ")
        var lines = ["\(path) \(dryRun ? "would be" : "was") migrated to \(way)."]
        if !dryRun {
            return lines + migration.losses(backup: backup)
        }
        for step in steps {
            if steps.count > 1 { lines.append("To \(step.name):") }
            let changes = step.mapping.entityMappings.compactMap(Self.line).map { "  \($0)" }
            lines +=
                changes.isEmpty
                ? ["  The stored data of all entities does not change."] : changes
        }
        if removals.isEmpty { return lines }
        let permission = allowRemoval ? "" : ", which requires --allow-removal"
        return lines + ["It would remove \(removals.list)\(permission)."]
    }

    private static func json(_ removal: MigrationRemoval) -> JSONValue {
        .object([
            "entity": .string(removal.entityName), "property": JSONValue(removal.propertyName),
            "count": .integer(Int64(removal.count)), "part": JSONValue(removal.schemaPart),
        ])
    }

    /// The description of a mapping; `nil` if it changes nothing.
    private static func line(_ mapping: EntityMapping) -> String? {
        let policy = mapping.entityMigrationPolicyName.map { ", by the policy \($0)" } ?? ""
        switch (mapping.sourceEntityName, mapping.destinationEntityName) {
        case (let old?, nil): return "\(old) is removed\(policy)"
        case (nil, let new?): return "\(new) is new\(policy)"
        case (let old?, let new?):
            if mapping.mappingType == .copy && old == new && policy.isEmpty { return nil }
            return (old == new ? "\(new) changes" : "\(old) becomes \(new)") + policy
        case (nil, nil): return nil
        }
    }

    private static func json(_ step: MigrationPath.Step) -> JSONValue {
        .object([
            "version": .string(step.name),
            "mapping": .string(step.isCustom ? "given" : "inferred"),
            "entities": .array(
                step.mapping.entityMappings.map { mapping in
                    .object([
                        "name": .string(mapping.name),
                        "type": .string("\(mapping.mappingType)"),
                        "source": mapping.sourceEntityName.map { .string($0) } ?? .null,
                        "destination": mapping.destinationEntityName.map { .string($0) } ?? .null,
                    ])
                }),
        ])
    }
}
