import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// A store of covers, whose images may be kept in files.
struct ExternalDataFixture {
    let folder: TemporaryFolder
    let path: String
    let coordinator: PersistentStoreCoordinator

    init(threshold: Int = 100 * 1024) throws {
        folder = try TemporaryFolder()
        path = folder.path("test.sqlite")
        var options = SQLiteStoreOptions()
        options.externalDataThreshold = threshold
        coordinator = PersistentStoreCoordinator(
            store: try SQLiteStore.create(at: path, model: Self.model, options: options))
    }

    /// Books with covers; two books cannot have the same title.
    static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Book", unique: [["title"]], FixtureModels.attribute("title", .string)),
        FixtureModels.entity(
            "Cover",
            FixtureModels.attribute("image", .binary) { $0.allowsExternalBinaryDataStorage = true },
            FixtureModels.attribute("small", .binary), FixtureModels.attribute("name", .string)),
    ])

    var store: SQLiteStore {
        get throws { try #require(coordinator.store as? SQLiteStore) }
    }

    /// The names of the files with values.
    var files: [String] {
        get throws {
            let folder = try store.externalData.folder
            return FileSystem.exists(folder) ? try FileSystem.names(in: folder) : []
        }
    }

    /// The path of the only file.
    var onlyFile: String {
        get throws {
            let files = try files
            try #require(files.count == 1)
            return FileSystem.path(try store.externalData.folder, files[0])
        }
    }

    @MainActor func context() -> ManagedObjectContext { .mainQueue(coordinator: coordinator) }

    /// A cover in a context.
    @MainActor func cover(_ context: ManagedObjectContext) throws -> ManagedObject {
        try context.insertObject(entityName: "Cover")
    }

    /// The only cover as a fresh context reads it. Keep the context.
    @MainActor func stored() throws -> (ManagedObjectContext, ManagedObject) {
        let context = context()
        return (context, try #require(try context.fetch(FetchRequest("Cover")).first))
    }

    /// Opens the store again.
    func reopened(_ adjust: (inout SQLiteStoreOptions) -> Void = { _ in }) throws
        -> PersistentStoreCoordinator
    {
        var options = SQLiteStoreOptions()
        adjust(&options)
        return PersistentStoreCoordinator(store: try SQLiteStore.open(at: path, options: options))
    }

    /// Bytes that tell where they are.
    static func bytes(_ count: Int, seed: UInt8 = 1) -> Data {
        var state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 | 1
        var data = Data(capacity: count + 8)
        while data.count < count {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            withUnsafeBytes(of: state) { data.append(contentsOf: $0) }
        }
        return data.prefix(count)
    }

    /// A file with bytes.
    func file(_ data: Data, _ name: String = "source") throws -> String {
        let path = folder.path(name)
        try data.write(to: URL(fileURLWithPath: path))
        return path
    }
}

/// Pieces of bytes, one after another.
struct Pieces: AsyncSequence, Sendable {
    var count: Int
    var piece: Data
    var failsAtEnd = false

    struct Broken: Error {}

    struct AsyncIterator: AsyncIteratorProtocol {
        var rest: Int
        let piece: Data
        let failsAtEnd: Bool

        mutating func next() async throws -> Data? {
            if rest == 0 {
                if failsAtEnd { throw Broken() }
                return nil
            }
            rest -= 1
            return piece
        }
    }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(rest: count, piece: piece, failsAtEnd: failsAtEnd)
    }
}
