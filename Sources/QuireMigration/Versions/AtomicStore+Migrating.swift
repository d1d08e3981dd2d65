import Foundation
package import QuireAtomicStores
package import QuireModel
internal import QuireProtection
internal import QuireStore
internal import QuireSystem

extension AtomicStore {
    /// Migrates a store in a file that was made with another model. All steps are done in memory, then the file is replaced:
    /// the store is as it was, or migrated as a whole.
    ///
    /// UUID, identifiers, records and application metadata stay. Afterwards the store carries the new model.
    ///
    /// - Throws: As ``SQLiteStore/open(at:model:options:migrating:)``, and `mergeConflict` if somebody else saves meanwhile.
    package static func migrate(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions,
        _ options: AtomicStoreOptions
    ) throws {
        let path = FileSystem.absolute(path)
        let steps = try steps(at: path, to: model, migration, options)
        guard let first = steps.first else { return }
        if options.isReadOnly { throw StoreMigrationOptions.readOnlyError(path) }
        let source = try open(at: path, model: first.source, options: options)
        defer { try? source.close() }
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

    /// What it takes to bring a store to a model; nothing if it opens with it as it is.
    private static func steps(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions,
        _ options: AtomicStoreOptions
    ) throws -> [MigrationPath.Step] {
        let metadata = try loadMetadata(from: read(path).data, path: path)
        let carried = try metadata.carriedModel(path: path)
        let hashes = metadata.entityVersionHashes
        func isCompatible(_ model: ManagedObjectModel) -> Bool {
            if let carried { return model.isSameVersion(as: carried) }
            if let known = model.knownVersionHashes {
                return hashes.allSatisfy { known[$0.key] == $0.value }
            }
            // Hashes of Core Data's cannot be computed: the objects tell.
            return (try? open(at: path, model: model, options: options).close()) != nil
        }
        if isCompatible(model) { return [] }
        return try migration.steps(ofStoreAt: path, to: model) {
            let versions = migration.versions.sorted { $0.key < $1.key }
            return carried ?? versions.first { isCompatible($0.value) }?.value
        }
    }

    /// A store in memory with the objects of another one, as a step makes them.
    private static func migrated(
        _ store: AtomicStore, by step: MigrationPath.Step, _ migration: StoreMigrationOptions,
        _ options: AtomicStoreOptions
    ) throws -> Self {
        let layout = try step.destination.layout()
        try check(layout)
        let kept = try layout.entityNumbers(ofConfiguration: options.configuration)
            .map { layout.entity(number: $0).name }
        var contents = AtomicContents(
            layout: layout,
            metadata: try store.metadata().replacingModel(step.destination, keeping: Set(kept)),
            identity: StoreIdentity(
                uuid: store.identity.uuid, entityNames: layout.entities.map(\.name)))
        contents.carriesModel = true
        contents.greatestKey = try store.currentContents().greatestKey
        var options = options
        options.isReadOnly = false
        let result = Self(AtomicStoreOpening(contents: contents, file: nil, options: options))
        try migration.manager(for: step).migrateStore(from: store, to: result)
        return result
    }
}
