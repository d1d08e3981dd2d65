import Foundation
import Quire
import Testing

/// Where the context that a program works in stands: what happens in one must be right in all.
enum ContextStack: String, CaseIterable, Sendable, CustomTestStringConvertible {
    /// The container's view context.
    case view
    /// A main-queue child of the view context, for an editor.
    case editor
    /// A main-queue child of a private-queue context, as UIManagedDocument has it.
    case overPrivate

    var testDescription: String { rawValue }

    @MainActor func work(in container: PersistentContainer) -> WorkContext {
        switch self {
        case .view: WorkContext(context: container.viewContext)
        case .editor:
            WorkContext(
                context: .mainQueue(parent: container.viewContext), main: container.viewContext)
        case .overPrivate:
            {
                let parent = container.newBackgroundContext()
                return WorkContext(context: .mainQueue(parent: parent), background: parent)
            }()
        }
    }

    /// Runs a program in each store with each stack.
    @MainActor static func inAll(
        _ model: ManagedObjectModel, _ stores: [SituationStore] = SituationStore.allCases,
        _ program: @MainActor (WorkContext, PersistentContainer) throws -> Void
    ) async throws {
        for store in stores {
            for stack in allCases {
                try await withSituation(store, model) { container in
                    do { try program(stack.work(in: container), container) } catch {
                        Issue.record("\(store), \(stack): \(error)")
                    }
                }
            }
        }
    }
}

/// A context, and the contexts on the way from it to the store.
@MainActor struct WorkContext {
    let context: ManagedObjectContext
    var main: ManagedObjectContext?
    var background: QueueConfinedContext?

    /// Saves up to the store.
    func save() throws {
        try context.save()
        try main?.save()
        try background?.performAndWait { try $0.save() }
    }
}

/// Albums with photos, a person who owns them, and labels.
enum AlbumModel {
    static let model = ManagedObjectModel {
        Entity("Album") {
            Attribute("name", .string)
            Attribute("rank", .integer32).default(0)
            ToMany("photos", "Photo", inverse: "album").deleteRule(.cascade)
            ToMany("labels", "Label", inverse: "albums")
        }
        Entity("Photo") {
            Attribute("name", .string).required()
            Attribute("stars", .integer16).default(3).minimum(0).maximum(5)
            Attribute("cached", .string).transient()
            ToOne("album", "Album", inverse: "photos")
        }
        Entity("Label") {
            Attribute("word", .string)
            ToMany("albums", "Album", inverse: "labels")
            Unique("word")
        }
    }
}

extension ManagedObjectContext {
    @discardableResult
    func insert(_ entity: String, _ values: [String: Any]) throws -> ManagedObject {
        let object = try insertObject(entityName: entity)
        for (key, value) in values { try object.setValue(value, forKey: key) }
        return object
    }

    /// The sorted texts of a property of all objects that a request finds.
    func texts(
        _ entity: String, _ key: String = "name", where format: String? = nil,
        _ arguments: (any QueryArgument)?...
    ) throws -> [String] {
        let predicate = try format.map { try QueryPredicate(format: $0, arguments: arguments) }
        let request = FetchRequest<ManagedObject>(entity, predicate: predicate)
        let found = try fetch(request).compactMap { $0[key] as? String }.sorted()
        let count = try count(for: request)
        #expect(count == found.count, "count and fetch differ")
        return found
    }
}

/// Returns after blocks that are in the main queue have run: merges into contexts of the view, one level each time.
@MainActor func turnOfMainQueue() async {
    await withCheckedContinuation { continuation in
        DispatchQueue.main.async { continuation.resume() }
    }
}
