import Foundation
import Quire
import QuireRescue
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Recovery of protected documents.
@Suite @MainActor struct ProtectedRescueTests {
    private typealias Fixture = ProtectedDocumentFixture

    /// Overwrites the first page of a store with zeros.
    private func damage(_ store: String) throws {
        let file = try OpenFile.open(store, for: .updating)
        try file.write([UInt8](repeating: 0, count: 4096), at: 0)
        file.close()
    }

    @Test(arguments: Fixture.classes) func aRecoveredDocumentIsWholeAndSealed(
        protection: FileProtection
    ) async throws {
        let fixture = try await Fixture(protection)
        let new = fixture.folder.path("New.quire")
        try damage(DocumentPackageLayout(path: fixture.path).store)
        let before = try contents(ofFolder: fixture.path)
        let report = try DocumentPackage.recover(fixture.path, to: new)
        #expect(report.lacksSchema)
        #expect(report.objects["Note"] == 1)
        #expect(report.problems.isEmpty, "\(report.problems)")
        #expect(try contents(ofFolder: fixture.path) == before)
        #expect(try DocumentPackage.fileProtection(at: new) == protection)
        try await fixture.requireWhole(new)
        #expect(try Fixture.filesInClear(in: fixture.folder.path) == [])
        #expect(try fixture.names() == ["New.quire", "Notes.quire", "key", "me.keybag"])
        // What a library shows is stored in clear.
        #expect(
            LibraryMetadata(readingFrom: DocumentPackageLayout(path: new)).objectCounts.isEmpty)
    }

    @Test func aBareStoreBecomesAProtectedDocument() async throws {
        let fixture = try await Fixture(.complete)
        let (bare, new) = (fixture.folder.path("bare"), fixture.folder.path("New.quire"))
        let package = try DocumentPackage.open(at: fixture.path, readOnly: true)
        try package.store.writeCopy(to: bare)
        try package.close()
        try damage(bare)
        let report = try DocumentPackage.recover(bare, to: new)
        #expect(report.objects["Note"] == 1)
        #expect(try DocumentPackage.fileProtection(at: new) == .complete)
        #expect(try Fixture.filesInClear(in: fixture.folder.path) == [])
        let reader = try DocumentPackage.open(at: new, readOnly: true)
        #expect(try reader.check().isEmpty)
        try reader.close()
    }

    @Test func aLockedDocumentIsNotRecovered() async throws {
        let fixture = try await Fixture(.complete)
        await fixture.domain.lock(after: .zero)
        let error = failure {
            _ = try DocumentPackage.recover(fixture.path, to: fixture.folder.path("New.quire"))
        }
        #expect(error?.code == .protectedDataUnavailable)
        #expect(error?.message.contains("“\(fixture.path)”") == true)
        #expect(try fixture.names() == ["Notes.quire", "key", "me.keybag"])
    }
}
