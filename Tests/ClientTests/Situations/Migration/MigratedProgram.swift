import Foundation
import Quire
import QuireRescue
import Testing

/// A program in several versions, which finds the store of the version before.
@MainActor struct MigratedProgram {
    let store: SituationStore
    let folder: URL

    /// The file of the store.
    var url: URL { folder.appendingPathComponent("Situation.\(store.rawValue.lowercased())") }

    /// Starts a version of the program, which closes its store in the end. The store must be consistent then.
    func run(
        _ model: ManagedObjectModel, migration: StoreMigrationOptions? = StoreMigrationOptions(),
        configure: (inout PersistentStoreDescription) -> Void = { _ in },
        _ program: @MainActor (ManagedObjectContext) async throws -> Void
    ) async throws {
        let container = try await store.container(model, in: folder) {
            $0.migration = migration
            configure(&$0)
        }
        do { try await program(container.viewContext) } catch {
            try? container.close()
            throw error
        }
        for opened in container.persistentStoreCoordinator.persistentStores {
            let problems = try StoreCheck.run(on: opened).problems.filter {
                $0.kind != .validation
            }
            #expect(problems.isEmpty, "\(problems)")
        }
        try container.close()
    }

    /// Starts a version of the program that must not open the store, which must stay as it is to the last byte.
    @discardableResult func refused(
        _ model: ManagedObjectModel, migration: StoreMigrationOptions? = StoreMigrationOptions(),
        configure: (inout PersistentStoreDescription) -> Void = { _ in },
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> QuireError {
        let before = try contents()
        let error = await #expect(throws: QuireError.self, sourceLocation: sourceLocation) {
            let container = try await store.container(model, in: folder) {
                $0.migration = migration
                configure(&$0)
            }
            try container.close()
        }
        #expect(try contents() == before, sourceLocation: sourceLocation)
        return try #require(error, sourceLocation: sourceLocation)
    }

    /// All files of the folder.
    func contents() throws -> [String: Data] {
        var result: [String: Data] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
            let url = folder.appendingPathComponent(path)
            if let data = try? Data(contentsOf: url) { result[path] = data }
        }
        return result
    }
}

/// Runs a program in several versions, in a folder of its own.
@MainActor func withMigration(
    _ store: SituationStore, _ program: @MainActor (MigratedProgram) async throws -> Void
) async throws {
    try await withProgramFolder { try await program(MigratedProgram(store: store, folder: $0)) }
}

extension ManagedObjectContext {
    /// Inserts an object with values.
    @MainActor @discardableResult func add(
        _ entity: String, _ values: [String: Any] = [:]
    ) throws -> ManagedObject {
        let object = try insertObject(entityName: entity)
        for (key, value) in values { object[key] = value }
        return object
    }

    /// The objects of an entity, by a text.
    @MainActor func sorted(_ entity: String, by key: String) throws -> [ManagedObject] {
        var request = FetchRequest(entity)
        request.sortOrderings = [SortOrdering(key)]
        return Array(try fetch(request))
    }

    /// The only object of an entity for which a predicate is true.
    @MainActor func one(_ entity: String, _ format: String) throws -> ManagedObject {
        var request = FetchRequest(entity)
        request.predicate = try QueryPredicate(format: format)
        let found = try fetch(request)
        #expect(found.count == 1)
        return try #require(found.first)
    }
}
