import Foundation
import Quire

/// All notes, in `~/.local/share/notes/Notes.sqlite`.
@MainActor
struct Notebook {
    private let container: PersistentContainer
    private var context: ManagedObjectContext { container.viewContext }

    init() async throws {
        let model = try ManagedObjectModel(classes: [Note.self, Tag.self])
        container = try PersistentContainer(name: "Notes", managedObjectModel: model)
        try await container.loadPersistentStores()
    }

    /// Adds a note and saves it.
    func add(_ text: String) throws -> Note {
        let note = Note(context: context)
        note.text = text
        note.number = try nextNumber()
        for word in text.split(separator: " ") where word.hasPrefix("#") && word.count > 1 {
            note.tags.insert(try tag(named: word.dropFirst().lowercased()))
        }
        try context.save()
        return note
    }

    /// The notes, or those with a tag, the latest first.
    func notes(taggedWith name: String? = nil) throws -> [Note] {
        var request = FetchRequest<Note>(sortBy: [SortDescriptor(\.number, order: .reverse)])
        if let name {
            request.predicate = try QueryPredicate(format: "ANY tags.name == %@", name)
        }
        return Array(try context.fetch(request))
    }

    /// The notes whose text contains some words, in upper or lower case, the latest first.
    func notes(containing words: String) throws -> [Note] {
        Array(
            try context.fetch(
                Note.self, where: #Predicate { $0.text.localizedStandardContains(words) },
                sortBy: [SortDescriptor(\.number, order: .reverse)]))
    }

    /// The tags and how many notes have them.
    func tags() throws -> [(name: String, count: Int)] {
        try context.fetch(Tag.self, sortBy: [SortDescriptor(\.name)])
            .map { ($0.name, $0.notes.count) }
    }

    /// Deletes a note, and the tags that no other note has. Returns whether there was one.
    func deleteNote(_ number: Int) throws -> Bool {
        guard
            let note = try context.fetch(Note.self, where: #Predicate { $0.number == number }).first
        else { return false }
        for tag in note.tags where tag.notes.count == 1 { context.delete(tag) }
        context.delete(note)
        try context.save()
        return true
    }

    private func tag(named name: String) throws -> Tag {
        if let tag = try context.fetch(Tag.self, where: #Predicate { $0.name == name }).first {
            return tag
        }
        let tag = Tag(context: context)
        tag.name = name
        return tag
    }

    private func nextNumber() throws -> Int { (try notes().first?.number ?? 0) + 1 }
}
