import Foundation
import QuireStoreConformance
import QuireTestSupport
import Testing

@testable import Quire

/// The conformance suite, run on all stores.
@Suite struct ConformanceTests {
    @Test func storesInMemoryConform() {
        check(StoreConformance(make: { try InMemoryStore(model: $0) }))
    }

    @Test func sqliteStoresConform() throws {
        let folder = try TemporaryFolder()
        let conformance = StoreConformance(
            make: { try SQLiteStore.create(at: folder.newPath(), model: $0) },
            reopen: { closed, isReadOnly in
                var options = SQLiteStoreOptions()
                options.isReadOnly = isReadOnly
                return try SQLiteStore.open(at: closed.path ?? "", options: options)
            })
        check(conformance)
    }

    @Test func xmlStoresConform() throws { try check(XMLStore.self) }

    @Test func binaryStoresConform() throws { try check(BinaryStore.self) }

    private func check<Store: AtomicStore>(_ type: Store.Type) throws {
        let folder = try TemporaryFolder()
        let conformance = StoreConformance(
            make: { try Store.create(at: folder.newPath(), model: $0) },
            reopen: { closed, isReadOnly in
                var options = AtomicStoreOptions()
                options.isReadOnly = isReadOnly
                return try Store.open(at: closed.path ?? "", options: options)
            })
        check(conformance)
    }

    private func check(
        _ conformance: StoreConformance, location: SourceLocation = #_sourceLocation
    ) {
        let report = conformance.run()
        #expect(report.isConforming, "\n\(report)", sourceLocation: location)
        #expect(report.results.count == StoreConformance.names.count, sourceLocation: location)
    }
}

extension TemporaryFolder {
    /// A path that nothing is at.
    func newPath() -> String { path(UUID().uuidString) }
}
