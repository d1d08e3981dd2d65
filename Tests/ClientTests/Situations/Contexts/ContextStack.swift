import Foundation
import Quire
import QuireDocuments
import Testing

/// The kinds of context that a program works in: a situation must have the right outcome in all of them.
enum ContextStack: String, CaseIterable, Sendable, CustomTestStringConvertible {
    /// The container's view context.
    case view
    /// A main-queue child of the view context, for an editor.
    case editor
    /// A main-queue child of a private-queue context, as many programs have it.
    case overPrivate
    /// The context of a document.
    case document

    var testDescription: String { rawValue }

    @MainActor private func work(in container: PersistentContainer) -> WorkContext {
        let view = container.viewContext
        switch self {
        case .editor: return WorkContext(context: .mainQueue(parent: view), main: view)
        case .overPrivate:
            let parent = container.newBackgroundContext()
            return WorkContext(context: .mainQueue(parent: parent), background: parent)
        default: return WorkContext(context: view)
        }
    }

    /// Runs a program in each store with each stack.
    @MainActor static func inAll(
        _ model: ManagedObjectModel,
        _ program: @MainActor (WorkContext, OtherContexts) async throws -> Void
    ) async throws {
        for store in SituationStore.allCases {
            for stack in allCases where stack != .document {
                try await withSituation(store, model) { container in
                    try await run(program, stack.work(in: container), "\(store), \(stack)") {
                        container.newBackgroundContext()
                    }
                }
            }
        }
        try await withProgramFolder { folder in
            let document = StackDocument(fileURL: folder.appendingPathComponent("Situation.quire"))
            document.model = model
            try await document.create()
            let context = document.managedObjectContext
            let parent = try #require(context.parent)
            try await run(
                program, WorkContext(context: context, background: parent, document: document),
                "document"
            ) {
                try document.newBackgroundContext()
            }
            try await document.close()
        }
    }

    @MainActor private static func run(
        _ program: @MainActor (WorkContext, OtherContexts) async throws -> Void,
        _ work: WorkContext,
        _ name: String, background: @escaping () throws -> QueueConfinedContext
    ) async throws {
        let others = OtherContexts(
            persistentStoreCoordinator: work.context.persistentStoreCoordinator,
            background: background)
        do { try await program(work, others) } catch { Issue.record("\(name): \(error)") }
    }

    private final class StackDocument: ManagedDocument {
        var model: ManagedObjectModel?
        override var managedObjectModel: ManagedObjectModel? { model }
    }
}

/// A context, and the contexts on the way from it to the store.
@MainActor struct WorkContext {
    let context: ManagedObjectContext
    var main: ManagedObjectContext?
    var background: QueueConfinedContext?
    /// The document whose context it is; it announces saves once.
    var document: ManagedDocument?

    /// The number of contexts that call `willSave()` and announce their saves on the way to the store.
    var savingContextCount: Int { document != nil || main == nil && background == nil ? 1 : 2 }

    /// Saves up to the store.
    func save() async throws {
        if let document { return try await document.save() }
        try context.save()
        try main?.save()
        try background?.performAndWait { try $0.save() }
    }
}

/// The other contexts of a program.
@MainActor struct OtherContexts {
    let persistentStoreCoordinator: PersistentStoreCoordinator
    let background: () throws -> QueueConfinedContext

    func newBackgroundContext() throws -> QueueConfinedContext { try background() }
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
