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
        let kind = try DocumentPath.kind(of: path)
        if kind == .archive { throw DocumentPath.archiveError(path) }
        self.path = path
        self.model = model
        self.options = options
        self.wait = wait
        isPackage = kind == .package
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

    /// What has been removed, and the backup, a sentence each.
    func losses(backup: String?) -> [String] {
        let lines = removals.isEmpty ? [] : ["Removed \(removals.list)."]
        return lines + (backup.map { ["As it was: \(isPackage ? "version " : "")\($0)"] } ?? [])
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
