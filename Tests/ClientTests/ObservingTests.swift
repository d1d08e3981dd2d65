import Foundation
import Observation
import Quire
import QuireMacros
import Testing

@Entity final class Errand: ManagedObject {
    @Attribute var title: String
    @Attribute(default: false) var isDone: Bool
}

/// Views and other observers that follow objects.
@MainActor @Suite struct ObservingTests {
    private let container: PersistentContainer
    private var context: ManagedObjectContext { container.viewContext }

    init() throws {
        container = try PersistentContainer(
            managedObjectModel: ManagedObjectModel(classes: [Errand.self]),
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
        container.viewContext.automaticallyMergesChangesFromParent = true
    }

    /// A view: text of an errand, drawn again when that changes.
    @MainActor private final class Label {
        private(set) var text = ""
        private(set) var isStale = false

        func draw(_ errand: Errand) {
            isStale = false
            withObservationTracking {
                text = errand.isDone ? "✓ \(errand.title)" : errand.title
            } onChange: {
                MainActor.assumeIsolated { self.isStale = true }
            }
        }
    }

    @Test func aViewIsDrawnAgainWhenItsErrandChanges() async throws {
        let errand = Errand(context: context)
        errand.title = "Post"
        try context.save()
        let label = Label()
        label.draw(errand)
        #expect(label.text == "Post")
        #expect(!label.isStale)
        errand.isDone = true
        #expect(label.isStale)
        label.draw(errand)
        #expect(label.text == "✓ Post")

        // A change of another context.
        let id = errand.objectID
        try context.save()
        try await container.performBackgroundTask { context in
            (try context.existingObject(with: id) as? Errand)?.title = "Post office"
            try context.save()
        }
        #expect(label.isStale)
        label.draw(errand)
        #expect(label.text == "✓ Post office")
    }

    @Test func observationsAreASequence() async throws {
        let errand = Errand(context: context)
        errand.title = "Post"
        let titles = Observations { errand.title }
        var seen: [String] = []
        for await title in titles {
            seen.append(title)
            if seen.count == 1 { errand.title = "Bank" } else { break }
        }
        #expect(seen == ["Post", "Bank"])
    }

    @Test func notificationsSayWhatWasChangedAndSaved() throws {
        final class Counts: @unchecked Sendable {
            var changed = 0
            var saved: [String] = []
        }
        let counts = Counts()
        let center = NotificationCenter.default
        let tokens = [
            center.addObserver(
                forName: ManagedObjectContext.didChangeObjectsNotification, object: context,
                queue: nil
            ) { notification in
                counts.changed += notification.insertedObjects.count
            },
            center.addObserver(
                forName: ManagedObjectContext.didSaveObjectsNotification, object: context,
                queue: nil
            ) { notification in
                counts.saved += notification.insertedObjects.compactMap { ($0 as? Errand)?.title }
            },
        ]
        defer { for token in tokens { center.removeObserver(token) } }
        Errand(context: context).title = "Post"
        context.processPendingChanges()
        #expect(counts.changed == 1)
        try context.save()
        #expect(counts.saved == ["Post"])
    }

    @Test func savesOfAllContextsAreASequence() async throws {
        context.automaticallyMergesChangesFromParent = false
        let errand = Errand(context: context)
        errand.title = "Post"
        try context.save()
        var saves = container.saves.makeAsyncIterator()
        let id = errand.objectID
        try await container.performBackgroundTask { context in
            (try context.existingObject(with: id) as? Errand)?.title = "Bank"
            try context.save()
        }
        #expect(errand.title == "Post")
        let changes = try #require(await saves.next())
        #expect(changes.updated == [id])
        context.mergeChanges(from: changes)
        #expect(errand.title == "Bank")
    }

    @Test func savesAreASequence() async throws {
        var saves = context.saves.makeAsyncIterator()
        let errand = Errand(context: context)
        errand.title = "Post"
        try context.save()
        #expect(await saves.next()?.inserted == [errand.objectID])
        context.delete(errand)
        try context.save()
        #expect(await saves.next()?.deleted.count == 1)
    }
}
