import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Versions of an open document.
@Suite @MainActor struct DocumentVersionsTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    private func make() async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.addNote("first", picture: Data(repeating: 3, count: 200_000))
        try document.additionalContent.write(Data([1]), at: "a")
        try await document.save()
        return document
    }

    @Test func keepingSavesFirst() async throws {
        let document = try await make()
        try document.addNote("unsaved")
        let version = try await document.keepVersion(named: "now")
        #expect(!document.hasUnsavedChanges)
        #expect(try await document.versions() == [version])
        let checkout = try await document.checkOut(version.id)
        #expect(try await ManagedDocument.titles(at: checkout.path) == ["first", "unsaved"])
        checkout.close()
        try await document.close()
    }

    /// Saves that are requested later are neither in the version nor in the archive.
    @Test(arguments: ["version", "archive", "archive with a handler"])
    func whatIsKeptIsOfTheTimeItWasAskedFor(kind: String) async throws {
        let document = try await make()
        let folder = folder.path("kept")
        var kept: [Task<Set<String>, any Error>] = []
        for number in 1...5 {
            try document.addNote("\(number)")
            kept.append(
                Task {
                    if kind == "version" {
                        let checkout = try await document.checkOut(document.keepVersion().id)
                        return try await Set(ManagedDocument.titles(at: checkout.path))
                    }
                    let archive = "\(folder)\(number).zip"
                    let url = URL(fileURLWithPath: archive)
                    if kind == "archive" {
                        try await document.export(to: url, protection: .keep)
                    } else {
                        try await withCheckedThrowingContinuation { continuation in
                            document.export(to: url, protection: .keep) { error in
                                continuation.resume(
                                    with: error.map { .failure($0) } ?? .success(()))
                            }
                        }
                    }
                    try DocumentPackage.extract(archive, to: "\(folder)\(number).quire")
                    return try await Set(ManagedDocument.titles(at: "\(folder)\(number).quire"))
                })
            await Task.yield()
            try document.addNote("after \(number)")
            try await document.save()
        }
        for (index, task) in kept.enumerated() {
            let earlier = (1..<index + 1).flatMap { ["\($0)", "after \($0)"] }
            #expect(try await task.value == Set(["first", "\(index + 1)"] + earlier))
        }
        try await document.close()
    }

    @Test func restoringShowsTheVersionAndKeepsWhatWasThere() async throws {
        let document = try await make()
        let version = try await document.keepVersion()
        for note in try document.managedObjectContext.fetch(FetchRequest("Note")) {
            document.managedObjectContext.delete(note)
        }
        try document.addNote("second")
        try document.additionalContent.write(Data([2]), at: "a")
        try await document.restore(version.id)
        #expect(try document.titles() == ["first"])
        #expect(try document.additionalContent.data(at: "a") == Data([1]))
        let picture = try document.managedObjectContext.fetch(FetchRequest("Note"))[0][
            "picture", as: Data.self]
        #expect(picture == Data(repeating: 3, count: 200_000))
        #expect(!document.hasUnsavedChanges && document.documentState == .normal)
        let versions = try await document.versions()
        #expect(versions.map(\.reason) == [.beforeRestoring, .requested])
        // The document goes on as ever.
        try document.addNote("third")
        try await document.save()
        try await document.restore(versions[0].id)
        #expect(try document.titles() == ["second"])
        #expect(try document.additionalContent.data(at: "a") == Data([2]))
        #expect(try await document.check() == [])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["second"])
    }

    @Test func failedRestoringChangesNothing() async throws {
        let document = try await make()
        let version = try await document.keepVersion()
        try document.addNote("second")
        let error = await failure {
            try await document.restore("20200101T000000000Z-00000000")
        }
        #expect(error?.code == .notFound)
        #expect(try document.titles() == ["first", "second"])
        try await document.deleteVersion(version.id)
        #expect(try await document.versions() == [])
        try await document.close()
    }

    @Test func beforeTheFirstChangeAVersionIsKept() async throws {
        let document = try await make()
        try await document.close()
        document.versionPolicy = VersionPolicy(occasion: .beforeFirstChange)
        try await document.open()
        #expect(try await document.versions() == [])
        try document.addNote("second")
        try await document.save()
        try document.addNote("third")
        try await document.save()
        let version = try #require(try await document.versions().first)
        #expect(try await document.versions().count == 1)
        #expect(version.reason == .beforeChanges)
        let checkout = try await document.checkOut(version.id)
        #expect(try await ManagedDocument.titles(at: checkout.path) == ["first"])
        checkout.close()
        try await document.close()
        // Opened and closed without changes, there is nothing to keep.
        try await document.open()
        try await document.close()
        #expect(try DocumentPackage.versions(at: path) == [version])
    }

    @Test func nowAndThenAVersionIsKeptAfterASave() async throws {
        let document = try await make()
        document.versionPolicy = VersionPolicy(occasion: .every(.seconds(3600)))
        try document.addNote("second")
        try await document.save()
        try document.addNote("third")
        try await document.save()
        // Closing waits for versions that are being kept.
        try await document.close()
        let versions = try DocumentPackage.versions(at: path)
        #expect(versions.count <= 1)
        #expect(versions.allSatisfy { $0.reason == .periodic })
    }

    @Test func policyOfZeroSecondsKeepsEachSaveOnce() async throws {
        let document = try await make()
        let package = document.package
        let policy = VersionPolicy(occasion: .every(.zero), retention: nil)
        package.keepVersionAfterSave(policy)
        package.keepVersionAfterSave(policy)
        #expect(try package.versions().count == 1)
        try document.addNote("second")
        try await document.save()
        package.keepVersionAfterSave(policy)
        #expect(try package.versions().count == 2)
        try await document.close()
    }

    @Test func readOnlyDocumentOnlyLooks() async throws {
        let document = try await make()
        let version = try await document.keepVersion()
        let reader = ManagedDocument(path: path)
        try await reader.open(readOnly: true)
        #expect(try await reader.versions() == [version])
        #expect(await failure { try await reader.keepVersion() }?.code == .readOnly)
        #expect(await failure { try await reader.restore(version.id) }?.code == .readOnly)
        try await reader.close()
        try await document.close()
        #expect(await failure { _ = try await document.versions() }?.code == .invalidState)
    }
}
