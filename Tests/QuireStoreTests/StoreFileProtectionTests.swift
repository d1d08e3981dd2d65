import Foundation
import QuireProtection
import QuireTestSupport
import Testing

@testable import Quire

/// The protection of stores that exist, which are not in documents.
@MainActor @Suite struct StoreFileProtectionTests {
    private nonisolated static let types: [StoreType] = [.sqlite, .xml, .binary]
    private static let canary = "CANARY-5e7d"
    private static let picture = Data((Self.canary + String(repeating: "-", count: 300_000)).utf8)
    private static let model = ManagedObjectModel {
        Entity("Book") {
            Attribute("title", .string)
            Attribute("cover", .binary).externalStorage()
        }
    }

    private let folder: TemporaryFolder
    private let path: String
    private let domain: ProtectionDomain

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Books.store")
        try Data(repeating: 7, count: 32).write(to: URL(fileURLWithPath: folder.path("key")))
        chmod(folder.path("key"), 0o600)
        domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
    }

    /// Makes a store in clear, with a book.
    private func make(_ type: StoreType, _ protection: FileProtection? = nil) throws {
        let container = try open(type, protection)
        let book = try container.viewContext.insertObject(entityName: "Book")
        book["title"] = Self.canary
        book["cover"] = Self.picture
        try container.viewContext.save()
        try container.close()
    }

    private func open(
        _ type: StoreType, _ protection: FileProtection? = nil, at path: String? = nil
    ) throws -> PersistentContainer {
        var description = PersistentStoreDescription(path: path ?? self.path, type: type)
        description.fileProtection = protection
        if protection != nil { description.protectionDomain = domain }
        return try PersistentContainer(
            managedObjectModel: Self.model, persistentStoreDescriptions: [description])
    }

    private func expectBook(
        _ type: StoreType, at path: String? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let container = try open(type, at: path)
        let books = try container.viewContext.fetch(FetchRequest("Book"))
        #expect(
            books.map { $0["title", as: String.self] } == [Self.canary],
            sourceLocation: sourceLocation)
        #expect(
            books.first?["cover", as: Data.self] == Self.picture, sourceLocation: sourceLocation)
        try container.close()
    }

    /// The files in which something of the book can be read.
    private func readableFiles() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { name in
            let bytes = FileManager.default.contents(atPath: folder.path(name))
            return bytes?.range(of: Data(Self.canary.utf8)) != nil
        }
    }

    private func expectNothingLeft(
        _ names: Set<String>, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let found = Set(try FileManager.default.contentsOfDirectory(atPath: folder.path))
        #expect(
            found.subtracting(["me.keybag", "key", ".Books_SUPPORT"]) == names,
            sourceLocation: sourceLocation)
    }

    @Test(arguments: types)
    func aStoreInClearIsSealedAndInClearAgain(_ type: StoreType) throws {
        try make(type)
        chmod(path, 0o640)
        #expect(try !readableFiles().isEmpty)
        #expect(try StoreFile(at: path).fileProtection == .none)
        try StoreFile(at: path).setFileProtection(.complete, domain: domain)
        #expect(try readableFiles() == [])
        #expect(try StoreFile(at: path).fileProtection == .complete)
        #expect(try StoreFile(at: path).protectionDomain != nil)
        try expectBook(type)
        try expectNothingLeft(["Books.store", "Books.store.keybag"])
        for name in ["Books.store", "Books.store.keybag"] {
            var information = stat()
            stat(folder.path(name), &information)
            #expect(information.st_mode & 0o777 == 0o640, "\(name)")
        }
        // Another class, the same slots.
        try StoreFile(at: path).setFileProtection(.completeUnlessOpen)
        #expect(try StoreFile(at: path).fileProtection == .completeUnlessOpen)
        #expect(try readableFiles() == [])
        try expectBook(type)
        try StoreFile(at: path).setFileProtection(.none)
        #expect(try StoreFile(at: path).fileProtection == .none)
        try expectBook(type)
        try expectNothingLeft(["Books.store"])
    }

    @Test(arguments: types)
    func newKeysOpenTheStoreAndFormerOnesDoNot(_ type: StoreType) throws {
        try make(type, .complete)
        let former = try Data(contentsOf: URL(fileURLWithPath: path + ".keybag"))
        try StoreFile(at: path).rotateKeys(slots: [])
        try expectBook(type)
        try former.write(to: URL(fileURLWithPath: path + ".keybag"))
        #expect(throws: QuireError.self) { try expectBook(type) }
    }

    @Test(arguments: types)
    func whatCannotBeProtectedStaysAsItWas(_ type: StoreType) throws {
        try make(type)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        #expect(throws: QuireError.self) {
            try StoreFile(at: path).setFileProtection(.complete)
        }
        if type == .sqlite {
            let container = try open(type)
            let error = #expect(throws: QuireError.self) {
                try StoreFile(at: path).setFileProtection(.complete, domain: domain)
            }
            #expect(error?.code == .locked)
            try container.close()
        } else {
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        }
        #expect(try StoreFile(at: path).fileProtection == .none)
        try expectBook(type)
        try expectNothingLeft(["Books.store"])
    }

    /// The store is closed, or what another program saves is refused: nothing of it is lost.
    @Test(arguments: [StoreType.xml, .binary])
    func aStoreThatIsOpenElsewhereIsNotSavedInClear(_ type: StoreType) throws {
        try make(type)
        let container = try open(type)
        try StoreFile(at: path).setFileProtection(.complete, domain: domain)
        try container.viewContext.insertObject(entityName: "Book")["title"] = Self.canary
        let error = #expect(throws: QuireError.self) { try container.viewContext.save() }
        #expect(error?.code == .mergeConflict)
        #expect(try readableFiles() == [])
        try container.close()
        try expectBook(type)
    }

    /// Two stores may have one folder of external data.
    @Test func externalDataOfAStoreOfTheSameNameStay() throws {
        try make(.sqlite)
        let twin = folder.path("Books.other")
        let container = try open(.sqlite, at: twin)
        let book = try container.viewContext.insertObject(entityName: "Book")
        (book["title"], book["cover"]) = (Self.canary, Self.picture)
        try container.viewContext.save()
        try container.close()
        try StoreFile(at: path).setFileProtection(.complete, domain: domain)
        try expectBook(.sqlite)
        try expectBook(.sqlite, at: twin)
    }

    @Test func aStoreInADocumentIsProtectedWithIt() throws {
        let package = folder.path("D.quire/StoreContent")
        try FileManager.default.createDirectory(
            atPath: package, withIntermediateDirectories: true)
        let store = package + "/persistentStore"
        try open(.sqlite, at: store).close()
        let error = #expect(throws: QuireError.self) {
            try StoreFile(at: store).setFileProtection(.complete, domain: domain)
        }
        #expect(error?.code == .unsupported)
    }

    /// Only files of the store's are moved, and only into its own places.
    @Test func aFolderOfAChangeThatSomebodyElseMadeMovesNothingElse() throws {
        try make(.sqlite)
        let change = folder.path(".Books.store.protection")
        try FileManager.default.createDirectory(
            atPath: change + "/.Books_SUPPORT/_EXTERNAL_DATA", withIntermediateDirectories: true)
        for name in ["key", "Books.store-wal", ".Books_SUPPORT/_EXTERNAL_DATA/x"] {
            try Data("other".utf8).write(to: URL(fileURLWithPath: change + "/" + name))
        }
        try FileManager.default.createSymbolicLink(
            atPath: change + "/Books.store", withDestinationPath: folder.path("key"))
        try FileManager.default.createSymbolicLink(
            atPath: change + "/Books.store.keybag", withDestinationPath: folder.path("me.keybag"))
        try expectBook(.sqlite)
        #expect(
            try Data(contentsOf: URL(fileURLWithPath: folder.path("key")))
                == Data(repeating: 7, count: 32))
        try expectNothingLeft(["Books.store"])
    }

    // MARK: - Other ways to a new store

    @Test(arguments: types, [FileProtection.complete, .none])
    func aStoreIsConvertedToTheClassThatIsAskedFor(
        _ type: StoreType, _ protection: FileProtection
    ) throws {
        for (index, present) in [nil, FileProtection.completeUnlessOpen].enumerated() {
            try make(.sqlite, present)
            let copy = folder.path("Copy\(index)")
            try StoreFile(at: path).convert(
                to: copy, type: type, fileProtection: protection, protectionDomain: domain)
            #expect(try StoreFile(at: copy).fileProtection == protection)
            #expect(
                try readableFiles().contains { $0.hasPrefix("Copy") } == (protection == .none))
            try expectBook(type, at: copy)
            try StoreFile(at: path).destroy()
        }
    }

    @Test(arguments: types)
    func migratingAStoreObeysTheDescription(_ type: StoreType) throws {
        try make(.sqlite)
        let container = try open(.sqlite)
        let coordinator = container.persistentStoreCoordinator
        var description = PersistentStoreDescription(path: folder.path("New"), type: type)
        description.fileProtection = .complete
        // Without a domain it is not protected, and there is no store.
        #expect(throws: QuireError.self) {
            try coordinator.migratePersistentStore(
                coordinator.persistentStores[0], to: description)
        }
        try expectNothingLeft(["Books.store", "Books.store-wal", "Books.store-shm"])
        description.protectionDomain = domain
        try coordinator.migratePersistentStore(coordinator.persistentStores[0], to: description)
        try container.close()
        #expect(try StoreFile(at: description.path ?? "").fileProtection == .complete)
        #expect(try readableFiles().allSatisfy { !$0.contains("New") })
        try expectBook(type, at: description.path)
    }
}
