import Foundation
import Quire
import Testing

/// Texts that look the same and have other bytes: composed accents, and the decomposed ones that names of files of a Mac have.
@MainActor @Suite struct TextFormSituationTests {
    private static let composed = "\u{E9}"
    private static let decomposed = "e\u{301}"
    private static let model = ManagedObjectModel {
        Entity("File") {
            Attribute("number", .integer32)
            Attribute("name", .string)
            Attribute("code", .string)
            Unique("code")
        }
    }

    /// The names as they are stored, in the order of the numbers.
    private func names(_ context: ManagedObjectContext) throws -> [[Unicode.Scalar]] {
        try context.fetch(
            FetchRequest<ManagedObject>("File", sortOrderings: [SortOrdering("number")])
        ).map { Array(($0["name"] as? String ?? "").unicodeScalars) }
    }

    private func add(
        _ number: Int, _ name: String, code: String? = nil, _ context: ManagedObjectContext
    ) throws {
        let file = try context.insertObject(entityName: "File")
        file["number"] = number
        file["name"] = name
        file["code"] = code
    }

    // A name read from a Mac's disk and the same name typed in a form were mixed up, and the file was not found any more.
    // sindresorhus/filenamify#40, nodejs/node#2165
    @Test(arguments: SituationStore.files)
    func bothFormsStayInOneStore(_ store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let container = try await store.container(Self.model, in: folder)
            try add(1, Self.decomposed, container.viewContext)
            try add(2, Self.composed, container.viewContext)
            try container.viewContext.save()
            try container.close()
            let again = try await store.container(Self.model, in: folder)
            #expect(try names(again.viewContext) == [["e", "\u{301}"], ["\u{E9}"]])
            try again.close()
        }
    }

    // A program composed the accents of all names; the save wrote nothing.
    // sindresorhus/filenamify#40, unmade/shelf-back#50
    @Test(arguments: SituationStore.files)
    func composingTheAccentsOfANameIsSaved(_ store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let container = try await store.container(Self.model, in: folder)
            try add(1, Self.decomposed, container.viewContext)
            try container.viewContext.save()
            let file = try #require(
                try container.viewContext.fetch(FetchRequest<ManagedObject>("File")).first)
            file["name"] = Self.composed
            #expect(container.viewContext.hasChanges)
            try container.viewContext.save()
            try container.close()
            let again = try await store.container(Self.model, in: folder)
            #expect(try names(again.viewContext) == [["\u{E9}"]])
            try again.close()
        }
    }

    // Two names that differ only in their form are two unique values, on every type of store.
    // rurban/ctl#23
    @Test(arguments: SituationStore.allCases)
    func bothFormsAreUniqueValues(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            try add(1, "a", code: Self.decomposed, container.viewContext)
            try container.viewContext.save()
            try add(2, "b", code: Self.composed, container.viewContext)
            try container.viewContext.save()
            #expect(try container.viewContext.count(for: FetchRequest<ManagedObject>("File")) == 2)
        }
    }
}
