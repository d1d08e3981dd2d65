import Foundation
import Quire
import QuireMacros
import Testing

enum Importance: Int16, Codable, CaseIterable { case low, normal, high }

@Entity final class Note: ManagedObject {
    @Attribute(length: 1...) var title: String
    @Attribute var text: String?
    @Attribute var created: Date
    @Attribute(default: Importance.normal) var importance: Importance
    @Relationship var folder: Folder?

    override func awakeFromInsert() {
        super.awakeFromInsert()
        created = Date()
    }
}

@Entity final class Folder: ManagedObject {
    @Attribute(.unique) var name: String
    @Relationship(deleteRule: .cascade, inverse: \Note.folder) var notes: Set<Note>
}

/// Notes in folders, written as with SwiftData.
@MainActor @Suite struct TypedNotesTests {
    private let container: PersistentContainer
    private var context: ManagedObjectContext { container.viewContext }

    init() throws {
        let model = try ManagedObjectModel(classes: [Note.self, Folder.self])
        container = try PersistentContainer(
            managedObjectModel: model,
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
    }

    @discardableResult
    private func addNote(
        _ title: String, importance: Importance = .normal, to folder: Folder? = nil
    ) -> Note {
        let note = Note(context: context)
        note.title = title
        note.importance = importance
        note.folder = folder
        return note
    }

    @Test func notesAreFoundByPredicates() throws {
        let home = Folder(context: context)
        home.name = "Home"
        addNote("Milk", to: home)
        addNote("Bread", importance: .high, to: home)
        addNote("Thesis", importance: .high)
        try context.save()

        let high = Importance.high
        let urgent = try context.fetch(
            Note.self, where: #Predicate { $0.importance == high },
            sortBy: [SortDescriptor(\.title)])
        #expect(urgent.map(\.title) == ["Bread", "Thesis"])
        let atHome = try context.fetch(
            Note.self, where: #Predicate { $0.folder?.name == "Home" && $0.title.contains("ea") })
        #expect(atHome.map(\.title) == ["Bread"])
        let folders = try context.fetch(
            Folder.self, where: #Predicate { $0.notes.contains { $0.title == "Milk" } })
        #expect(folders.first === home)

        var request = try FetchRequest<Note>(
            predicate: #Predicate { $0.folder == nil },
            sortBy: [SortDescriptor(\.created, order: .reverse)])
        request.fetchLimit = 10
        #expect(try context.fetch(request).map(\.title) == ["Thesis"])
        #expect(try context.count(for: Note.self) == 3)

        context.delete(home)
        try context.save()
        #expect(try context.fetch(Note.self).map(\.title) == ["Thesis"])
    }

    @Test func editsAreUndoneAndRedone() throws {
        let note = addNote("Milk")
        try context.save()
        context.undoManager = UndoManager()

        note.title = "Oat milk"
        note.importance = .low
        context.undoManager?.setActionName("Edit Note")
        #expect(context.undoManager?.undoMenuItemTitle == "Undo Edit Note")
        context.undoManager?.undo()
        #expect(note.title == "Milk")
        #expect(note.importance == .normal)
        #expect(!context.hasChanges)
        context.undoManager?.redo()
        #expect(note.title == "Oat milk")

        context.processPendingChanges()
        context.delete(note)
        context.undo()
        #expect(!note.isDeleted)
        context.rollback()
        #expect(note.title == "Milk")
    }

    @Test func aNameIsUnique() throws {
        for _ in 0..<2 { Folder(context: context).name = "Home" }
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .constraintConflict)
        context.mergePolicy = .mergeByPropertyObjectTrump
        try context.save()
        #expect(try context.count(for: Folder.self) == 1)
    }

    @Test func aTitleHasALength() throws {
        let note = addNote("")
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .validation)
        #expect(error?.subject.rule == .minimumLength)
        note.title = "Milk"
        try context.save()
    }
}
