import Foundation
import Quire

/// A model of notes, and short names for what the programs of this folder read.
@MainActor enum UndoSituation {
    static let model = ManagedObjectModel {
        Entity("Folder") {
            Attribute("name", .string).required()
            ToMany("notes", "Note", inverse: "folder").deleteRule(.cascade)
        }
        Entity("Note") {
            Attribute("text", .string)
            Attribute("pages", .integer32).default(0).minimum(0).maximum(100)
            Attribute("picture", .binary).externalStorage()
            Attribute("cursor", .integer32).transient()
            ToOne("folder", "Folder", inverse: "notes")
            ToMany("lines", "Line", inverse: "note").ordered().deleteRule(.cascade)
            ToMany("tags", "Tag", inverse: "notes")
        }
        Entity("Line") {
            Attribute("text", .string)
            ToOne("note", "Note", inverse: "lines")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("notes", "Note", inverse: "tags")
            Unique("name")
        }
        Entity("Shelf") {
            Attribute("name", .string)
            ToMany("boxes", "Box", inverse: "shelf").deleteRule(.deny)
        }
        Entity("Box") { ToOne("shelf", "Shelf", inverse: "boxes") }
    }

    /// A note with a text.
    static func note(
        _ text: String, in context: ManagedObjectContext, folder: ManagedObject? = nil
    ) throws -> ManagedObject {
        let note = try context.insertObject(entityName: "Note")
        note["text"] = text
        note["folder"] = folder
        return note
    }

    /// A named object of an entity.
    static func named(
        _ entity: String, _ name: String, in context: ManagedObjectContext
    ) throws -> ManagedObject {
        let object = try context.insertObject(entityName: entity)
        object["name"] = name
        return object
    }

    /// Texts of an entity's objects in the stores, as another context sees them.
    static func stored(
        _ container: PersistentContainer, _ entity: String = "Note", _ key: String = "text"
    ) throws -> [String] {
        try texts(
            ManagedObjectContext.mainQueue(coordinator: container.persistentStoreCoordinator),
            entity, key)
    }

    /// Texts of an entity's objects, sorted.
    static func texts(
        _ context: ManagedObjectContext, _ entity: String = "Note", _ key: String = "text"
    ) throws -> [String] {
        try context.fetch(FetchRequest<ManagedObject>(entity)).map { $0[key] as? String ?? "nil" }
            .sorted()
    }
}

extension ManagedObject {
    /// The text, or the name.
    var label: String? {
        (self[entity.name == "Note" || entity.name == "Line" ? "text" : "name"]) as? String
    }

    /// The labels of a to-many relationship: sorted, or in the order of an ordered one.
    func labels(_ key: String) -> [String] {
        if let array = self[key] as? [ManagedObject] { return array.map { $0.label ?? "nil" } }
        return (self[key] as? Set<ManagedObject> ?? []).map { $0.label ?? "nil" }.sorted()
    }
}

/// Runs a program whose view context has an undo manager; see `withSituation`.
@MainActor func withUndo(
    _ store: SituationStore, _ model: ManagedObjectModel = UndoSituation.model,
    _ program:
        @MainActor (PersistentContainer, ManagedObjectContext, UndoManager) async throws -> Void
) async throws {
    try await withSituation(store, model) { container in
        let (context, undoManager) = (container.viewContext, UndoManager())
        context.undoManager = undoManager
        try await program(container, context, undoManager)
    }
}
