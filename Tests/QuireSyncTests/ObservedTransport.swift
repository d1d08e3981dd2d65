import Foundation
import Quire

@testable import QuireSync

/// A transport whose calls are observed, and may fail, or be preceded by something else that happens.
struct ObservedTransport: SyncTransport {
    enum Call: Sendable {
        case listing(SyncFileName)
        case reading(SyncFileName)
        case read(SyncFileName, count: Int)
        case creating(SyncFileName)
        case removing(SyncFileName)
    }

    let transport: CarriedTransport
    let body: @MainActor (Call) throws -> Void

    func fileNames(in folder: SyncFileName) async throws -> [String] {
        try await body(.listing(folder))
        return try await transport.fileNames(in: folder)
    }

    func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data? {
        try await body(.reading(file))
        let contents = try await transport.contents(of: file, maximumSize: maximumSize)
        if let contents { try await body(.read(file, count: contents.count)) }
        return contents
    }

    func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool {
        try await body(.creating(file))
        return try await transport.create(file, contents)
    }

    func remove(_ file: SyncFileName) async throws {
        try await body(.removing(file))
        try await transport.remove(file)
    }

    var changes: AsyncStream<Void> { transport.changes }
}

extension SyncSite {
    /// Another synchronization of the store, which runs something at each call of its transport.
    func container(
        _ sites: SyncSites,
        _ body: @escaping @MainActor (ObservedTransport.Call) throws -> Void
    ) throws -> SyncContainer {
        let coordinator = context.persistentStoreCoordinator
        let clock = sites.clock
        return try SyncContainer(
            coordinator: coordinator, store: SyncContainer.store(of: coordinator),
            transport: ObservedTransport(
                transport: CarriedTransport(folder: folder, machine: machine), body: body),
            clock: { clock.tick(0) })
    }
}
