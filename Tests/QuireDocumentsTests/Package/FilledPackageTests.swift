import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

/// Packages that are created with their objects: whole, or not at all.
@Suite @MainActor struct FilledPackageTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func addNote(_ title: String, picture: Data? = nil, to store: any PersistentStore)
        throws
    {
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let note = try context.insertObject(entityName: "Note")
        note["title"] = title
        note["picture"] = picture
        try context.save()
    }

    private func titles(ofPackageAt path: String) throws -> [String] {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? package.close() }
        #expect(try package.packageProblems().isEmpty)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        return try context.fetch(FetchRequest<ManagedObject>("Note")).compactMap {
            $0["title"] as? String
        }
    }

    @Test func packageIsFilledBeforeItGetsItsName() throws {
        let path = folder.path("N.quire")
        let package = try DocumentPackage.create(at: path, model: notesModel) { store in
            #expect(!FileManager.default.fileExists(atPath: path))
            try addNote("first", to: store)
        }
        try package.close()
        #expect(try titles(ofPackageAt: path) == ["first"])
    }

    @Test func failedFillingLeavesNothing() throws {
        let error = failure {
            _ = try DocumentPackage.create(at: folder.path("N.quire"), model: notesModel) { store in
                try addNote("first", to: store)
                try addNote(String(repeating: "x", count: 50), to: store)
            }
        }
        #expect(error?.code == .validation)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary])
    func packageOfAStoreHasItsObjectsAndExternalData(_ type: StoreType) throws {
        let file = folder.path("Store")
        let picture = Data(repeating: 7, count: 300_000)
        try StoreFile.create(at: file, type: type, model: notesModel) {
            try addNote("kept", picture: picture, to: $0)
        }
        let path = folder.path("N.quire")
        try DocumentPackage.create(at: path, from: StoreFile(at: file))
        #expect(try titles(ofPackageAt: path) == ["kept"])
        let externals = try FileSystem.names(in: DocumentPackageLayout(path: path).externalData)
        #expect(externals.count == 1)
        let again = failure { try DocumentPackage.create(at: path, from: StoreFile(at: file)) }
        #expect(again?.code == .alreadyExists)
    }

    @Test func damagedStoreMakesNoPackage() throws {
        let file = folder.path("Store")
        try StoreFile.create(at: file, type: .sqlite, model: notesModel) {
            try addNote("kept", to: $0)
        }
        let data = try Data(contentsOf: URL(fileURLWithPath: file))
        try data.prefix(5000).write(to: URL(fileURLWithPath: file))
        #expect(
            failure {
                try DocumentPackage.create(at: folder.path("N.quire"), from: StoreFile(at: file))
            }
                != nil)
        #expect(!FileManager.default.fileExists(atPath: folder.path("N.quire")))
    }
}
