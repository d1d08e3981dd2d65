import Foundation
import Quire
import Testing

/// The store types of a program: what happens to a user of one must be right for the users of all.
enum SituationStore: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case sqlite = "SQLite"
    case xml = "XML"
    case binary = "Binary"
    case inMemory = "InMemory"

    /// Those whose files are read again at the next start.
    static let files: [Self] = [.sqlite, .xml, .binary]

    var testDescription: String { rawValue }

    /// Opens a container whose store is in a folder; again, if one was opened there before.
    @MainActor func container(
        _ model: ManagedObjectModel, in folder: URL, named name: String = "Situation",
        configure: (inout PersistentStoreDescription) -> Void = { _ in }
    ) async throws -> PersistentContainer {
        let container = try PersistentContainer(name: name, managedObjectModel: model)
        var description = PersistentStoreDescription(
            url: folder.appendingPathComponent("\(name).\(rawValue.lowercased())"))
        description.type = StoreType(rawValue: rawValue)
        configure(&description)
        container.persistentStoreDescriptions = [description]
        try await container.loadPersistentStores()
        return container
    }
}

/// Runs a program with a container in a folder of its own, which is closed and removed afterwards.
@MainActor func withSituation(
    _ store: SituationStore, _ model: ManagedObjectModel,
    _ program: @MainActor (PersistentContainer) async throws -> Void
) async throws {
    try await withProgramFolder { folder in
        let container = try await store.container(model, in: folder)
        try await program(container)
        try container.close()
    }
}
