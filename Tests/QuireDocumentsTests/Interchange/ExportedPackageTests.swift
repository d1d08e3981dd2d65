import Foundation
import Quire
import QuireSQLite
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Plain databases and tables of packages.
@Suite(.inClear) @MainActor struct ExportedPackageTests {
    private let folder: TemporaryFolder
    private var document: String { folder.path("Graph.quire") }
    private var database: String { folder.path("out.sqlite") }

    init() throws { folder = try TemporaryFolder() }

    private func make() throws -> DocumentPackage {
        let package = try DocumentPackage.create(at: document, model: ExportedGraph.model)
        try ExportedGraph.fill(
            .mainQueue(coordinator: PersistentStoreCoordinator(store: package.store)))
        return package
    }

    @Test func exportIsAsOfTheLastSaveAndLeavesThePackageAlone() throws {
        try make().close()
        let before = try contents(ofFolder: document)
        let reader = try DocumentPackage.open(at: document, readOnly: true)
        try reader.exportDatabase(to: database)
        try reader.exportTables(to: folder.path("csv"), format: .csv)
        // A bare store of the same objects gives the same bytes.
        try DatabaseExport(store: reader.store, destination: folder.path("2")).run()
        #expect(
            try FileSystem.contents(of: database) == FileSystem.contents(of: folder.path("2")))
        try reader.close()
        #expect(try contents(ofFolder: document) == before)
        #expect(
            try FileSystem.names(in: folder.path).sorted()
                == ["2", "Graph.quire", "csv", "out.sqlite"])
    }

    @Test func exportIsNeverInsideAPackage() throws {
        let package = try make()
        defer { try? package.close() }
        let inside = FileSystem.path(document, "out.sqlite")
        #expect(failure { try package.exportDatabase(to: inside) }?.code == .invalidValue)
        #expect(
            failure { try package.exportTables(to: inside, format: .csv) }?.code == .invalidValue)
        #expect(!FileSystem.exists(inside))
    }

    @Test func missingLargeValueIsAnError() throws {
        let package = try make()
        defer { try? package.close() }
        let file = try #require(try package.store.externalFiles().first)
        try FileSystem.removeFile(file.path)
        #expect(failure { try package.exportDatabase(to: database) }?.code == .invalidFormat)
        #expect(try FileSystem.names(in: folder.path) == ["Graph.quire"])
    }

    @Test func otherUsersMayReadTheExportIfTheyMayReadTheDocument() throws {
        let package = try make()
        defer { try? package.close() }
        try OpenFile.open(document, for: .folder).setPermissions(0o700)
        try package.exportDatabase(to: database)
        try package.exportTables(to: folder.path("json"), format: .jsonLines)
        #expect(try FileSystem.information(at: database)?.permissions == 0o600)
        #expect(try FileSystem.information(at: folder.path("json"))?.permissions == 0o700)
    }

    @Test func protectedDocumentIsExportedOnlyIfThatIsConfirmed() async throws {
        let fixture = try await ProtectedDocumentFixture(.complete)
        let path = fixture.folder.path("out.sqlite")
        let before = try fixture.names()
        let package = try DocumentPackage.open(at: fixture.path, readOnly: true)
        defer { try? package.close() }
        #expect(failure { try package.exportDatabase(to: path) }?.code == .protectionUnavailable)
        #expect(try fixture.names() == before)
        try package.exportDatabase(to: path, removingProtection: true)
        let connection = try SQLiteConnection(path: path, mode: .reading)
        defer { connection.close() }
        #expect(try connection.integer("SELECT count(*) FROM Note") ?? 0 > 0)
        // Nothing else is in clear.
        #expect(try fixture.names() == (before + ["out.sqlite"]).sorted())
        #expect(try ProtectedDocumentFixture.filesInClear(in: fixture.path) == [])
    }
}
