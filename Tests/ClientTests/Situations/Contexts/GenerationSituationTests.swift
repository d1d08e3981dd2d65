import Foundation
import Quire
import Testing

/// Contexts that read one state of the store, or that wait for each other.
@MainActor @Suite struct GenerationSituationTests {
    // The screen's context is pinned, because messages disappear while they are shown; others delete and change what it shows,
    // and the user changes some of it too. wireapp/wire-ios-data-model pull request #505.
    @Test func aPinnedScreenReadsOneStateUntilItMovesOn() async throws {
        try await withSituation(.sqlite, AlbumModel.model) { container in
            let main = container.viewContext
            let sea = try main.insert("Album", ["name": "Sea"])
            for name in ["a", "b", "c"] { try main.insert("Photo", ["name": name, "album": sea]) }
            try main.save()
            main.reset()
            try main.setQueryGeneration(from: .current)
            #expect(try main.texts("Album") == ["Sea"])  // Pins.
            let ids: [String: ManagedObjectID] = try container.newBackgroundContext().performAndWait
            {
                other in
                var ids: [String: ManagedObjectID] = [:]
                for photo: ManagedObject in try other.fetch(FetchRequest<ManagedObject>("Photo")) {
                    ids[photo["name"] as? String ?? ""] = photo.objectID
                }
                if let id = ids["a"] { other.delete(try other.existingObject(with: id)) }
                if let id = ids["b"] { try other.existingObject(with: id)["name"] = "bb" }
                try other.insert("Photo", ["name": "d"])
                try other.save()
                return ids
            }
            let (a, b, c) = (
                try #require(ids["a"]), try #require(ids["b"]), try #require(ids["c"])
            )
            #expect(try main.texts("Photo") == ["a", "b", "c"])
            #expect(main.object(with: a)["name"] as? String == "a")
            #expect(try main.existingObject(with: b)["name"] as? String == "b")
            let album = try #require(try main.fetch(FetchRequest<ManagedObject>("Album")).first)
            #expect(album.objects("photos").count == 3)
            // An unrelated change is saved, and the context moves on.
            try main.existingObject(with: c)["stars"] = 5
            try main.save()
            #expect(try main.texts("Photo") == ["bb", "c", "d"])
            main.refreshAllObjects()
            #expect(throws: QuireError.self) { try main.existingObject(with: a) }
            #expect(main.object(with: b)["name"] as? String == "bb")
            #expect(album.objects("photos").count == 2)
            // A change of what was deleted meanwhile is a conflict.
            #expect(try main.texts("Photo").count == 3)
            try container.newBackgroundContext().performAndWait { other throws in
                other.delete(try other.existingObject(with: b))
                try other.save()
            }
            main.object(with: b)["stars"] = 4
            let error = #expect(throws: QuireError.self) { try main.save() }
            #expect(error?.code == .mergeConflict)
            main.rollback()
            main.refreshAllObjects()
            #expect(try main.texts("Photo") == ["c", "d"])
        }
    }

    // A token of a generation is kept, and used after its store was taken away, or with another stack: an error that says so.
    // objcio/core-data #53 (“Invalid generation token: this persistent store coordinator does not have any of the referenced
    // stores”).
    @Test func aTokenOfAnotherStackIsAnError() async throws {
        try await withSituation(.sqlite, AlbumModel.model) { container in
            try container.viewContext.setQueryGeneration(from: .current)
            try container.viewContext.insert("Album", ["name": "Sea"])
            #expect(try container.viewContext.texts("Album") == ["Sea"])
            let token = try #require(container.viewContext.queryGenerationToken)
            try await withSituation(.sqlite, AlbumModel.model) { second throws in
                let error = #expect(throws: QuireError.self) {
                    try second.viewContext.setQueryGeneration(from: token)
                }
                #expect(error?.code == .invalidValue)
                #expect(try second.viewContext.texts("Album") == [])
            }
            try container.newBackgroundContext().performAndWait { other throws in
                try other.setQueryGeneration(from: token)
                #expect(try other.texts("Album") == [])
            }
            try container.viewContext.save()
            #expect(try container.viewContext.texts("Album") == ["Sea"])
        }
    }

    // The main thread waits for a child in a loop while the child saves to its parent on the main queue: a deadlock.
    // jessesquires/JSQCoreDataKit #68; lionheart/openradar-mirror #4759 (radar 14354117).
    @Test(arguments: SituationStore.allCases)
    func waitingForAChildThatSavesToTheMainContextIsNoDeadlock(
        _ store: SituationStore
    ) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let child = QueueConfinedContext(parent: main)
            async let saving: Void = child.perform { context in
                for number in 0..<5 {
                    try context.insert("Photo", ["name": "child \(number)"])
                    try context.save()
                }
            }
            for number in 0..<5 {
                try main.insert("Photo", ["name": "main \(number)"])
                try await child.perform { context in
                    #expect(try context.texts("Photo").contains("main \(number)"))
                    try context.insert("Photo", ["name": "nested \(number)"])
                    try context.save()
                }
            }
            try await saving
            #expect(main.insertedObjects.count == 15)
            try main.save()
            #expect(try main.texts("Photo").count == 15)
            try await child.perform { context throws in
                #expect(try context.texts("Photo").count == 15)
                #expect(!context.hasChanges)
            }
        }
    }

    // performAndWait within performAndWait of the same context, of its parent and of a sibling, with changes, saves and errors in
    // the inner blocks. Apple, NSManagedObjectContext.performAndWait (“reentrant”); magicalpanda/MagicalRecord pull request #1254.
    @Test(arguments: SituationStore.allCases)
    func nestedBlocksWorkOnTheContextTheyName(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let parent = container.newBackgroundContext()
            let child = QueueConfinedContext(parent: parent)
            let sibling = container.newBackgroundContext()
            let names: [[String]] = try child.performAndWait { context in
                let photo = try context.insert("Photo", ["name": "a"])
                try child.performAndWait { again in
                    #expect(again === context)
                    photo["stars"] = 5
                    #expect(throws: QuireError.self) {
                        try child.performAndWait { _ in throw QuireError(.invalidValue, "inner") }
                    }
                    try again.save()
                }
                let inParent: [String] = try parent.performAndWait { parent in
                    #expect(parent !== context)
                    let names = try parent.texts("Photo", where: "stars == 5")
                    try parent.save()
                    return names
                }
                let id = photo.objectID
                let inSibling: [String] = try sibling.performAndWait { other throws in
                    try other.existingObject(with: id)["name"] = "b"
                    try other.save()
                    return try parent.performAndWait { parent in
                        parent.refreshAllObjects()
                        return try parent.texts("Photo")
                    }
                }
                context.refresh(photo, mergeChanges: true)
                return [inParent, inSibling, [photo["name"] as? String ?? ""]]
            }
            #expect(names == [["a"], ["b"], ["b"]])
            // Blocks of one context run in order.
            let order = Order()
            for number in 0..<5 {
                let isLast = number == 4
                if isLast {
                    await child.perform { _ in order.numbers.append(number) }
                } else {
                    Task { await child.perform(schedule: .enqueued) { _ in order.count += 1 } }
                }
            }
            await turnOfMainQueue()
            while await child.perform({ _ in order.count }) < 4 { await Task.yield() }
            #expect(await child.perform { _ in order.numbers } == [4])
        }
    }

    /// Used on a context's queue.
    private final class Order: @unchecked Sendable {
        var numbers: [Int] = []
        var count = 0
    }

    // A program goes through thousands of objects and holds none of them: what the context keeps, what it releases, and what it
    // keeps if told to. Duplicate objects for one row: alecrim/AlecrimCoreData #114; Apple, retainsRegisteredObjects.
    @Test func aRowIsOneObjectHoweverItIsReached() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            let sea = try context.insert("Album", ["name": "Sea"])
            let photo = try context.insert("Photo", ["name": "a", "album": sea])
            let early = photo.objectID
            func check(_ when: Comment) throws {
                #expect(context.object(with: early) === photo, when)
                #expect(context.object(with: photo.objectID) === photo, when)
                #expect(try context.existingObject(with: photo.objectID) === photo, when)
                #expect(context.registeredObject(for: early) === photo, when)
                #expect(sea.objects("photos").first === photo, when)
                #expect(try context.fetch(FetchRequest<ManagedObject>("Photo")).first === photo)
                var batches = FetchRequest<ManagedObject>("Photo")
                batches.fetchBatchSize = 1
                #expect(try context.fetch(batches).first === photo, when)
                #expect(
                    try context.fetchObjectIDs(FetchRequest<ManagedObject>("Photo"))
                        == [photo.objectID], when)
                #expect(context.registeredObjects.contains(photo), when)
            }
            try check("unsaved")
            try context.save()
            try check("saved to the parent")
            try await work.save()
            try check("saved")
            photo["name"] = "b"
            try check("dirty")
            context.refreshAllObjects()
            try check("refreshed")
            context.rollback()
            context.refreshAllObjects()
            try check("a fault")
            context.delete(photo)
            context.rollback()
            try check("deleted and restored")
        }
    }

    @Test(arguments: SituationStore.allCases)
    func registeredObjectsAreKeptWhileTheContextIsTold(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let context = container.viewContext
            for number in 0..<20 { try context.insert("Photo", ["name": "\(number)"]) }
            try context.save()
            #expect(context.registeredObjects.isEmpty)
            for retains in [true, false] {
                context.retainsRegisteredObjects = retains
                for photo in try context.fetch(FetchRequest<ManagedObject>("Photo")) {
                    _ = photo["name"] as? String
                }
                #expect(context.registeredObjects.count == (retains ? 20 : 0))
            }
            // What has changes is kept without that.
            for photo in try context.fetch(FetchRequest<ManagedObject>("Photo")).prefix(3) {
                photo["stars"] = 1
            }
            #expect(context.registeredObjects.count == 3)
            context.refreshAllObjects()
            #expect(context.updatedObjects.count == 3)
            context.rollback()
            #expect(context.registeredObjects.isEmpty)
            #expect(try context.texts("Photo", where: "stars == 1") == [])
        }
    }
}
