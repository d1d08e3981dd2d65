import Foundation
import Quire
import QuireDocuments
import QuireMacros
import Testing

@Entity final class Friend: ManagedObject {
    @Attribute var name: String
}

@Entity final class WindowFrame: ManagedObject {
    @Attribute(default: 600) var width: Int
}

/// A document of contacts, whose windows are remembered on the machine and not in the file.
private final class AddressBook: PersistentDocument {
    private(set) var states: [DocumentState] = []

    override var managedObjectModel: ManagedObjectModel? { try? Self.model() }

    private nonisolated static func model() throws -> ManagedObjectModel {
        var model = try ManagedObjectModel(classes: [Friend.self, WindowFrame.self])
        model.configurations = [
            .init(name: "File", entityNames: ["Friend"]),
            .init(name: "Machine", entityNames: ["WindowFrame"]),
        ]
        return model
    }

    required init(fileURL: URL) {
        super.init(fileURL: fileURL)
        persistentStoreOptions.configuration = "File"
        stateChangeHandler = { [weak self] in self?.states.append($0.current) }
    }

    override nonisolated func configurePersistentStoreCoordinator(
        _ coordinator: PersistentStoreCoordinator, for storeURL: URL, ofType fileType: String,
        modelConfiguration configuration: String?, storeOptions: SQLiteStoreOptions
    ) throws {
        var windows = PersistentStoreDescription(
            url: storeURL.deletingLastPathComponent().appendingPathComponent("windows.sqlite"))
        windows.configuration = "Machine"
        try coordinator.addPersistentStore(windows)
    }
}

/// An app whose documents are single files.
@MainActor @Suite struct OneFileDocumentTests {
    @Test func anAddressBookIsEditedImportedSavedElsewhereAndExported() async throws {
        try await withProgramFolder { folder in
            let file = folder.appendingPathComponent("Friends.sqlite")
            let book = AddressBook(fileURL: file)
            try await book.create()
            Friend(context: book.managedObjectContext).name = "Ada"
            WindowFrame(context: book.managedObjectContext).width = 800
            try await book.performBackgroundTask { context in
                for number in 1...100 { Friend(context: context).name = "Friend \(number)" }
                try context.save()
            }
            #expect(book.hasUnsavedChanges)
            try await book.save()
            #expect(book.documentState == .normal)
            book.undoManager?.removeAllActions()
            let copy = folder.appendingPathComponent("Copy.xml")
            let progress = Progress(totalUnitCount: -1)
            try await book.writeCopy(to: copy, progress: progress)
            try await book.export(to: folder.appendingPathComponent("Friends.zip"))
            try await book.save(as: folder.appendingPathComponent("Moved.sqlite"))
            try await book.close()
            #expect(book.states.last == .closed && book.documentState == .closed)

            let again = AddressBook(fileURL: folder.appendingPathComponent("Moved.sqlite"))
            try await again.open()
            #expect(try again.managedObjectContext.count(for: Friend.self) == 101)
            #expect(try again.managedObjectContext.fetch(WindowFrame.self).map(\.width) == [800])
            try await again.close()
            // The file itself has no windows.
            let container = try PersistentContainer(
                managedObjectModel: ManagedObjectModel(classes: [Friend.self, WindowFrame.self]),
                persistentStoreDescriptions: [PersistentStoreDescription(url: copy, type: .xml)])
            #expect(try container.viewContext.count(for: WindowFrame.self) == 0)
            #expect(try container.viewContext.count(for: Friend.self) == 101)
            try container.close()
        }
    }
}
