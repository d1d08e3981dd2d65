public import Foundation
package import QuireAtomicStores
public import QuireModel
internal import QuireProtection
public import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// Options for migrating a store when it is opened with another model.
public struct StoreMigrationOptions: Sendable {
    /// Whether the store is migrated. If not, opening it fails.
    public var migratesAutomatically = true
    /// Whether mappings may be inferred. If not, only ``mappings`` are used.
    public var infersMappingModel = true
    /// Custom mappings.
    public var mappings: [CustomMapping] = []
    /// The possible models of the store, by name. Not required for a store that contains its model.
    public var versions: [String: ManagedObjectModel] = [:]
    /// Factories for the policies in mappings.
    public var policies: [String: @Sendable () -> EntityMigrationPolicy] = [:]

    /// Whether inferred mappings may remove data without a destination. If not, such a migration fails with code
    /// `removalDenied`, and the error lists the removals: a wrong model must not empty a store.
    ///
    /// Data is: objects; values of attributes other than null and the attribute's default, except computed ones; links
    /// between objects, unless the other side of the relationship stays; integers that a floating-point number would round.
    /// Custom mappings are not checked: they, and their policies, may remove any data that they do not name.
    public var allowsRemoval = false
    /// The path of a copy of the store, with its external data, written before the migration; `nil` for none. It must not
    /// exist yet; ``copyPath(beside:date:)`` returns a path. If the migration fails the copy is removed.
    public var copyPath: String?
    /// The progress of the migration, in steps from one version of the model to the next. Cancelling it makes the migration fail
    /// with code `cancelled`; the running step is undone then. Use a new one for each migration.
    public var progress: Progress?
    /// Whether a document keeps a version before it is migrated.
    public var keepsVersion = true

    /// Gives the bytes of a draft the names that a step of the migration gives to entities and properties. A draft that it
    /// cannot read it returns as it is.
    package typealias DraftMigration = @Sendable (Data, MappingModel) -> Data
    /// How the draft of a document's unsaved changes is migrated, with the objects; `nil` if a migration that renames anything
    /// is refused while there is one.
    package var draftMigration: DraftMigration?

    /// Migrates by inferred mappings, without removing data.
    public init() {}

    /// A path beside a store for its copy, such as `Library.before-migration-20260102-030405.sqlite`.
    ///
    /// - Parameter date: The date in the path, in local time, to the second.
    public static func copyPath(beside path: String, date: Date = Date()) -> String {
        let name = FileSystem.name(of: path)
        let folder = path.dropLast(name.count)
        let dot = name.dropFirst().lastIndex(of: ".") ?? name.endIndex
        let parts = Calendar(identifier: .gregorian).dateComponents(
            [.year, .month, .day, .hour, .minute, .second], from: date)
        func digits(_ number: Int?, _ count: Int = 2) -> String {
            let text = String(number ?? 0)
            return String(repeating: "0", count: max(count - text.count, 0)) + text
        }
        let day = digits(parts.year, 4) + digits(parts.month) + digits(parts.day)
        let time = digits(parts.hour) + digits(parts.minute) + digits(parts.second)
        var number = 1
        while true {
            let ending = number == 1 ? "" : "-\(number)"
            let path =
                "\(folder)\(name[..<dot]).before-migration-\(day)-\(time)\(ending)\(name[dot...])"
            if !FileSystem.exists(path) { return path }
            number += 1
        }
    }

    /// The manager of a step. Inferred mappings are inferred again, as a custom mapping may remove data.
    func manager(for step: MigrationPath.Step) -> MigrationManager {
        let manager = MigrationManager(mappingModel: step.isCustom ? step.mapping : nil)
        manager.allowsRemoval = allowsRemoval
        manager.draftMigration = draftMigration
        for (name, policy) in policies { manager.policies[name] = policy }
        progress?.addChild(manager.progress, withPendingUnitCount: 1)
        return manager
    }

    /// The steps that migrate a store to a model; empty if it is compatible.
    ///
    /// - Parameter source: Returns the model of the store, if known.
    func steps(
        ofStoreAt path: String, to model: ManagedObjectModel,
        from source: () throws -> ManagedObjectModel?
    ) throws -> [MigrationPath.Step] {
        func fail(_ what: String) -> QuireError {
            QuireError(
                .incompatibleModel,
                "“\(path)” was created with another version of the model; \(what).", file: path)
        }
        guard migratesAutomatically else { throw fail("migrate it before you open it") }
        guard let source = try source() else {
            throw fail("that version is unknown; specify the existing versions")
        }
        var versions = versions
        let name = versions.first { $0.value == model }?.key ?? "the model"
        versions[name] = model
        do {
            return try MigrationPath(
                from: source, to: name, among: versions, mappings: mappings,
                infers: infersMappingModel
            ).steps
        } catch var error as QuireError {
            error.subject.file = error.subject.file ?? path
            throw error
        }
    }

    /// The error of a store that is to be migrated and is opened for reading only.
    static func readOnlyError(_ path: String) -> QuireError {
        QuireError(
            .readOnly,
            "“\(path)” was created with another version of the model and is opened read-only, so it cannot be "
                + "migrated; open it for writing.",
            file: path)
    }
}

extension SQLiteStore {
    /// Opens a store, after migrating it if it has another model.
    ///
    /// If no direct mapping is given or can be inferred, the store is migrated through intermediate versions; each step is
    /// atomic.
    ///
    /// ```swift
    /// let store = try SQLiteStore.open(at: path, model: model, migrating: StoreMigrationOptions())
    /// ```
    ///
    /// - Throws: As ``open(at:model:options:)`` and ``migrate(at:from:to:manager:options:)``; with code `incompatibleModel`
    ///   if a required migration is not allowed, or the store's model is unknown.
    public static func open(
        at path: String, model: ManagedObjectModel, options: SQLiteStoreOptions = .init(),
        migrating migration: StoreMigrationOptions
    ) throws -> SQLiteStore {
        let isMigrated = try migrate(at: path, to: model, migration, options)
        do {
            return try open(at: path, model: model, options: options)
        } catch var error as QuireError where isMigrated {
            error.message =
                "“\(path)” has been migrated, but cannot be opened: \(error.message)"
            throw error
        }
    }

    /// Migrates a store that has another model.
    ///
    /// - Returns: Whether a migration was necessary.
    @discardableResult
    package static func migrate(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions,
        _ options: SQLiteStoreOptions
    ) throws -> Bool {
        let steps = try steps(at: path, to: model, migration, configuration: options.configuration)
        if !steps.isEmpty && options.isReadOnly {
            throw StoreMigrationOptions.readOnlyError(path)
        }
        // The models of the steps have only the entities of the configuration.
        var options = options
        options.configuration = nil
        // Each step refuses to remove data, but a refusal must leave the store unchanged, not partly migrated.
        if steps.count > 1 { try checkRemovals(at: path, by: steps, migration, options) }
        if !steps.isEmpty { migration.progress?.totalUnitCount = Int64(steps.count) }
        for (index, step) in steps.enumerated() {
            var run = SQLiteMigration(
                path: path, sourceModel: step.source, model: step.destination,
                manager: migration.manager(for: step), options: options)
            if index == 0 { run.copyPath = migration.copyPath }
            if index == steps.count - 1 { run.carriedModel = model }
            do {
                try run.run()
            } catch var error as QuireError where index > 0 {
                error.message =
                    "“\(path)” has been migrated to \(steps[index - 1].name), but no further: \(error.message)"
                throw error
            }
        }
        return !steps.isEmpty
    }

    /// Refuses a migration that would remove data and may not.
    package static func checkRemovals(
        at path: String, by steps: [MigrationPath.Step], _ migration: StoreMigrationOptions,
        _ options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws {
        if migration.allowsRemoval { return }
        let removals = try removals(at: path, by: steps, options: options)
        if !removals.isEmpty { throw QuireError.removalDenied(removals, path: path) }
    }

    /// The data that the inferred steps of a migration would remove from a store. Removals by a custom mapping, and by steps
    /// after it, cannot be determined in advance.
    ///
    /// - Parameters:
    ///   - path: The path of the store's file.
    ///   - steps: The result of ``steps(at:to:_:)``.
    ///   - options: Options for opening the file, which is only read.
    /// - Complexity: O(*n*) in the objects of the entities that lose something.
    /// - Throws: As ``open(at:model:options:)``.
    public static func removals(
        at path: String, by steps: [MigrationPath.Step],
        options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws -> [MigrationRemoval] {
        guard let first = steps.first, let omissions = try steps.omissions() else { return [] }
        var options = options
        options.isReadOnly = true
        options.configuration = nil
        let store = try open(at: path, model: first.source, options: options)
        defer { try? store.close() }
        return try omissions.removals(in: store)
            + store.read { try omissions.leftOutParts($0, store.schema) }
    }

    /// The steps that migrate a store to a model; empty if it is compatible.
    ///
    /// - Throws: As ``open(at:model:options:migrating:)``.
    public static func steps(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions
    ) throws -> [MigrationPath.Step] {
        try steps(at: path, to: model, migration, configuration: nil)
    }

    /// As ``steps(at:to:_:)``, for a store of a configuration; `nil` for the one that the store has.
    private static func steps(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions,
        configuration: String?
    ) throws -> [MigrationPath.Step] {
        let examination = try StoreExamination(path)
        let configuration = examination.configuration(configuration)
        let model = try configuration.reduceNewest(model)
        let migration = try configuration.reduce(migration)
        if examination.isCompatible(with: model) { return [] }
        return try migration.steps(ofStoreAt: path, to: model) {
            let carried = try examination.carriedModel.map(
                examination.configuration().reduce)
            func version(exactly: Bool) -> ManagedObjectModel? {
                examination.versions(among: migration.versions, exactly: exactly).last
                    .flatMap { migration.versions[$0] }
            }
            // A model that is only similar to the store's lacks some of its data.
            return version(exactly: true) ?? carried ?? version(exactly: false)
        }
    }
}

extension [MigrationPath.Step] {
    /// The combined omissions of the inferred steps before the first custom one; `nil` if there are no such steps.
    fileprivate func omissions() throws -> MappingOmissions? {
        let inferred = prefix { !$0.isCustom }
        guard let first = inferred.first, let last = inferred.last else { return nil }
        let mapping = inferred.dropFirst().reduce(first.mapping) { $0.followed(by: $1.mapping) }
        return MappingOmissions(
            mapping, from: try first.source.layout(), to: try last.destination.layout())
    }
}

// MARK: - Atomic stores

extension AtomicStore {
    /// Migrates a store in a file to another model. All steps are performed in memory, then the file is replaced atomically.
    ///
    /// UUID, identifiers, records and application metadata are preserved. Afterwards the store carries the new model.
    ///
    /// - Throws: As ``SQLiteStore/open(at:model:options:migrating:)``, and `mergeConflict` if another process saves
    ///   meanwhile.
    package static func migrate(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions,
        _ options: AtomicStoreOptions
    ) throws {
        let path = FileSystem.absolute(path)
        let steps = try steps(at: path, to: model, migration, options)
        guard let first = steps.first else { return }
        if options.isReadOnly { throw StoreMigrationOptions.readOnlyError(path) }
        var sourceOptions = options
        if !first.source.configurations.contains(where: { $0.name == options.configuration }) {
            sourceOptions.configuration = nil
        }
        let source = try open(at: path, model: first.source, options: sourceOptions)
        defer { try? source.close() }
        // An attribute that one step removes may be added by a later one, with a default value.
        if steps.count > 1, !migration.allowsRemoval,
            let removals = try steps.omissions()?.removals(in: source), !removals.isEmpty
        {
            throw QuireError.removalDenied(removals, path: path)
        }
        // The models of the steps have only the entities of the configuration.
        var options = options
        options.configuration = nil
        migration.progress?.totalUnitCount = Int64(steps.count)
        var store: AtomicStore = source
        for step in steps { store = try migrated(store, by: step, migration, options) }
        let data = try store.fileContents()
        let copy = migration.copyPath.map(FileSystem.absolute)
        if let copy {
            try source.protection?.writeKeybag(forStoreAt: copy)
            try FileSystem.writeNewFile(FileSystem.contents(of: path), at: copy)
        }
        do { try source.replaceFile(with: data) } catch {
            if let copy {
                _ = try? FileSystem.removeFileIfPresent(copy)
                try? StoreProtection.removeKeybag(ofStoreAt: copy)
            }
            throw error
        }
    }

    /// The steps that migrate a store to a model; empty if it is compatible.
    private static func steps(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions,
        _ options: AtomicStoreOptions
    ) throws -> [MigrationPath.Step] {
        let configuration = StoreConfiguration(name: options.configuration)
        let model = try configuration.reduceNewest(model)
        let migration = try configuration.reduce(migration)
        let metadata = try loadMetadata(from: read(path).data, path: path)
        let carried = try metadata.carriedModel(path: path).map(configuration.reduce)
        let hashes = metadata.entityVersionHashes
        func isCompatible(_ model: ManagedObjectModel) throws -> Bool {
            if let carried { return model.isSameVersion(as: carried) }
            if let known = model.knownVersionHashes {
                return hashes.allSatisfy { known[$0.key] == $0.value }
            }
            // Hashes of Core Data's cannot be computed: the objects tell.
            do {
                try open(at: path, model: model, options: options).close()
                return true
            } catch let error as QuireError where Self.isMismatch(error) {
                return false
            }
        }
        if try isCompatible(model) { return [] }
        return try migration.steps(ofStoreAt: path, to: model) {
            let versions = migration.versions.sorted { $0.key < $1.key }
            return try carried ?? versions.first { try isCompatible($0.value) }?.value
        }
    }

    /// Whether a store cannot be opened because of its model. Any other error says nothing about the model.
    private static func isMismatch(_ error: QuireError) -> Bool {
        [.incompatibleModel, .invalidModel, .invalidFormat].contains(error.code)
    }

    /// A store in memory with the migrated objects of another one.
    private static func migrated(
        _ store: AtomicStore, by step: MigrationPath.Step, _ migration: StoreMigrationOptions,
        _ options: AtomicStoreOptions
    ) throws -> Self {
        let layout = try step.destination.layout()
        try check(layout)
        var contents = AtomicContents(
            layout: layout,
            metadata: try store.metadata().replacingModel(step.destination),
            identity: StoreIdentity(
                uuid: store.identity.uuid, entityNames: layout.entities.map(\.name)))
        contents.carriesModel = true
        contents.maximumKey = try store.currentContents().maximumKey
        var options = options
        options.isReadOnly = false
        let result = Self(AtomicStoreOpening(contents: contents, file: nil, options: options))
        try migration.manager(for: step).migrateStore(from: store, to: result)
        return result
    }
}
