import Foundation
import Quire
import Testing

/// Contexts that merge what others save.
@MainActor @Suite struct MergingSituationTests {
    // The main context saves to its private parent, which saves to the store; the parent's notification is merged into the main
    // context again: deleted objects reappear, new ones are there twice. magicalpanda/MagicalRecord pull request #615.
    @Test(arguments: SituationStore.allCases)
    func mergingOnesOwnSaveComingBackFromTheParentChangesNothing(
        _ store: SituationStore
    ) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let root = container.newBackgroundContext()
            let main = ManagedObjectContext.mainQueue(parent: root)
            let sea = try main.insert("Album", ["name": "Sea"])
            let photos = try ["a", "b"].map {
                try main.insert("Photo", ["name": $0, "album": sea])
            }
            try main.save()
            try root.performAndWait { try $0.save() }
            let list = FetchedResultsController(
                fetchRequest: FetchRequest<ManagedObject>(
                    "Photo", sortOrderings: [SortOrdering("name")]), managedObjectContext: main)
            try list.performFetch()
            let gone = photos[0].objectID
            main.delete(photos[0])
            let new = try main.insert("Photo", ["name": "c", "album": sea])
            sea["name"] = "Ocean"
            try main.save()
            // Meanwhile the user goes on.
            photos[1]["name"] = "bb"
            main.delete(new)
            let saved = try root.performAndWait { root in
                let box = Changes()
                let token = NotificationCenter.default.addObserver(
                    forName: ManagedObjectContext.didSaveObjectsNotification, object: root,
                    queue: nil
                ) { box.changes = $0.objectIDChanges }
                defer { NotificationCenter.default.removeObserver(token) }
                try root.save()
                return box.changes
            }
            let changes = try #require(saved)
            #expect(changes.deleted.contains(gone) && changes.inserted.contains(new.objectID))
            for _ in 0..<2 {
                main.mergeChanges(from: changes)
                #expect(photos[0].managedObjectContext == nil)
                #expect(new.isDeleted)
                #expect(photos[1]["name"] as? String == "bb")
                #expect(sea["photos"] as? Set<ManagedObject> == [photos[1]])
                #expect(list.fetchedObjects?.map { $0["name"] as? String } == ["bb"])
                #expect(try main.texts("Photo") == ["bb"])
            }
            try main.save()
            try root.performAndWait { root in
                try root.save()
                #expect(try root.texts("Photo") == ["bb"])
                #expect(try root.texts("Photo", where: "album.name == 'Ocean'") == ["bb"])
            }
        }
    }

    /// What an observer was told.
    private final class Changes: @unchecked Sendable {
        // Used on one queue.
        var changes: ObjectIDChanges?
    }

    // A background save changes an attribute that a list's predicate reads; the list's context has the objects as faults, or not
    // at all: the list does not change. magicalpanda/MagicalRecord #929; RestKit/RestKit pull request #2158.
    @Test(arguments: SituationStore.allCases)
    func aListNoticesObjectsThatItsContextDoesNotHold(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            main.automaticallyMergesChangesFromParent = true
            let ids = try await container.newBackgroundContext().perform { other in
                let sea = try other.insert("Album", ["name": "Sea"])
                let photos = try ["a", "b", "c"].map {
                    try other.insert("Photo", ["name": $0, "stars": 1, "album": sea])
                }
                try other.save()
                return photos.map(\.objectID)
            }
            let best = try QueryPredicate(format: "stars >= 4 AND album.name == 'Sea'")
            let list = FetchedResultsController(
                fetchRequest: FetchRequest<ManagedObject>(
                    "Photo", predicate: best, sortOrderings: [SortOrdering("name")]),
                managedObjectContext: main)
            try list.performFetch()
            #expect(list.fetchedObjects?.isEmpty == true)
            let fault = main.object(with: ids[0])
            try await container.newBackgroundContext().perform { other in
                for id in ids.prefix(2) { try other.existingObject(with: id)["stars"] = 5 }
                try other.save()
            }
            #expect(list.fetchedObjects?.map { $0["name"] as? String } == ["a", "b"])
            #expect(fault["stars"] as? Int == 5)
            #expect(list.fetchedObjects?.first === fault)
            try await container.newBackgroundContext().perform { other in
                let album = try other.existingObject(with: ids[0]).object("album")
                album?["name"] = "Ocean"
                try other.save()
            }
            #expect(try main.count(for: FetchRequest<ManagedObject>("Photo", predicate: best)) == 0)
        }
    }

    // After the merge a fetch returns the old values of updated objects; after a synchronous transaction the next fetch does.
    // lhunath/UbiquityStoreManager #76; JohnEstropia/CoreStore #62 and #65.
    @Test(arguments: SituationStore.allCases, [false, true])
    func aFetchAfterAMergeHasTheNewValues(_ store: SituationStore, byIDs: Bool) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let sea = try main.insert("Album", ["name": "Sea"])
            let photo = try main.insert("Photo", ["name": "a", "album": sea])
            try main.save()
            photo["stars"] = 5  // Unsaved, and to be kept.
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let name =
                byIDs
                ? ManagedObjectContext.didSaveObjectIDsNotification
                : ManagedObjectContext.didSaveObjectsNotification
            let token = NotificationCenter.default.addObserver(
                forName: name, object: other, queue: nil
            ) { notification in
                nonisolated(unsafe) let notification = notification
                MainActor.assumeIsolated {
                    container.viewContext.mergeChanges(fromContextDidSave: notification)
                }
            }
            defer { NotificationCenter.default.removeObserver(token) }
            let theirs = try other.existingObject(with: photo.objectID)
            theirs["name"] = "b"
            theirs["stars"] = 1
            let hills = try other.insert("Album", ["name": "Hills"])
            theirs["album"] = hills
            try other.save()
            let found = try #require(try main.fetch(FetchRequest<ManagedObject>("Photo")).first)
            #expect(found === photo)
            #expect(photo["name"] as? String == "b" && photo["stars"] as? Int == 5)
            #expect(photo.object("album")?["name"] as? String == "Hills")
            #expect((sea["photos"] as? Set<ManagedObject>)?.isEmpty == true)
            #expect(try main.texts("Photo", where: "album.name == 'Hills' AND stars == 5") == ["b"])
            try main.save()
            #expect(!main.hasChanges)
            other.refreshAllObjects()
            #expect(theirs["stars"] as? Int == 5 && theirs["name"] as? String == "b")
        }
    }

    // Two contexts change the same object without merging; each merge policy decides, and afterwards memory and store agree.
    // Sorix/CloudCore #37 (“Merge Conflicts”); lionheart/openradar-mirror #19496 and #19559.
    @Test(
        arguments: SituationStore.allCases,
        [
            MergePolicy.mergeByPropertyObjectTrump, .mergeByPropertyStoreTrump, .overwrite,
            .rollback,
        ])
    func memoryAndStoreAgreeAfterAConflict(
        _ store: SituationStore, policy: MergePolicy
    ) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let context = container.viewContext
            context.mergePolicy = policy
            let sea = try context.insert("Album", ["name": "Sea"])
            let photo = try context.insert("Photo", ["name": "a", "album": sea])
            // Scratch values that are older than the conflict: of the object in conflict, one beside it, and one not changed.
            let beside = try context.insert("Photo", ["name": "beside", "cached": "older"])
            let calm = try context.insert("Photo", ["name": "calm", "cached": "older"])
            let second = try context.insert(
                "Photo", ["name": "x", "album": sea, "cached": "older"])
            try context.save()
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let theirs = try other.existingObject(with: photo.objectID)
            theirs["name"] = "theirs"
            theirs["album"] = nil
            try other.existingObject(with: second.objectID)["album"] = nil
            try other.save()
            second["album"] = nil
            second["stars"] = 2
            beside["stars"] = 2
            photo["name"] = "mine"
            photo["stars"] = 5
            let hills = try context.insert("Album", ["name": "Hills"])
            photo["album"] = hills
            photo["cached"] = "kept"
            try context.save()
            let isMine =
                policy === MergePolicy.mergeByPropertyObjectTrump
                || policy === MergePolicy.overwrite
            let stars = policy === MergePolicy.rollback ? 3 : 5
            #expect(photo["name"] as? String == (isMine ? "mine" : "theirs"))
            #expect(photo["stars"] as? Int == stars)
            #expect(photo.object("album") === (isMine ? hills : nil))
            #expect(photo["cached"] as? String == "kept")
            #expect(
                [beside, calm, second].map { $0["cached"] as? String } == [
                    "older", "older", "older",
                ])
            #expect(hills.objects("photos") == (isMine ? [photo] : []))
            #expect(!context.hasChanges)
            // Nothing that nobody has changed is lost.
            #expect(second["name"] as? String == "x" && calm["name"] as? String == "calm")
            #expect(second["cached"] as? String == "older")
            other.refreshAllObjects()
            #expect(try other.existingObject(with: second.objectID)["name"] as? String == "x")
            for key in ["name", "stars"] {
                #expect("\(photo[key] ?? "")" == "\(theirs[key] ?? "")", "\(key)")
            }
            #expect(theirs.object("album")?.objectID == photo.object("album")?.objectID)
        }
    }

    // An upsert by a unique value in a child with a merge policy, whose parent saves: two rows, or an object that the child no
    // longer knows. Yalantis/FastEasyMapping #64; Pocket/pocket-ios pull request #639.
    @Test(arguments: SituationStore.allCases)
    func anUpsertThroughAChildIsOneObjectForAll(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            main.mergePolicy = .mergeByPropertyObjectTrump
            let red = try main.insert("Label", ["word": "red"])
            let sea = try main.insert("Album", ["name": "Sea", "labels": Set([red])])
            try main.save()
            let child = ManagedObjectContext.mainQueue(parent: main)
            child.mergePolicy = .mergeByPropertyObjectTrump
            child.automaticallyMergesChangesFromParent = true
            let hills = try child.insert("Album", ["name": "Hills"])
            let second = try child.insert("Label", ["word": "red"])
            second["albums"] = Set([hills])
            let early = second.objectID
            try child.save()
            try main.save()
            #expect(try main.texts("Label", "word") == ["red"])
            let only = try #require(try main.fetch(FetchRequest<ManagedObject>("Label")).first)
            #expect(Set(only.objects("albums").map { $0["name"] as? String }) == ["Hills", "Sea"])
            #expect(only === red)
            #expect(sea.objects("labels") == [red])
            await turnOfMainQueue()
            child.refreshAllObjects()
            #expect(try child.texts("Label", "word") == ["red"])
            #expect(
                try child.texts("Album", where: "ANY labels.word == 'red'") == ["Hills", "Sea"])
            #expect(hills.objects("labels").map(\.objectID) == [red.objectID])
            _ = try? child.existingObject(with: early)
            _ = second["word"] as? String
            try child.save()
            try main.save()
            #expect(!main.hasChanges && !child.hasChanges)
        }
    }

    // An object is taken out of a relationship here while another context deletes, or moves, it.
    // colemancda/Pedido #2 (a fault that cannot be fulfilled within _maintainInverseRelationship).
    @Test(arguments: SituationStore.allCases, ["delete", "move"])
    func aRelationshipWhoseOtherSideIsGone(_ store: SituationStore, _ way: String) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let context = container.viewContext
            context.mergePolicy = .mergeByPropertyObjectTrump
            let sea = try context.insert("Album", ["name": "Sea"])
            let photo = try context.insert("Photo", ["name": "a", "album": sea])
            let hills = try context.insert("Album", ["name": "Hills"])
            try context.save()
            context.refreshAllObjects()
            #expect(sea.objectIDs("photos").count == 1)  // The photo itself is a fault.
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let theirs = try other.existingObject(with: photo.objectID)
            if way == "delete" { other.delete(theirs) } else { theirs["album"] = nil }
            try other.save()
            hills["photos"] = Set(sea.objects("photos").filter { !$0.isDeleted })
            sea["photos"] = Set<ManagedObject>()
            sea["rank"] = 1
            try context.save()
            context.refreshAllObjects()
            #expect(sea.objects("photos").isEmpty)
            let names = try context.texts("Photo", where: "album == %@", hills)
            #expect(hills.objects("photos").map { $0["name"] as? String } == names)
            #expect(names == (way == "delete" ? [] : ["a"]) || way == "delete" && names == ["a"])
            #expect(try context.texts("Photo", where: "album == %@", sea) == [])
            #expect(sea["rank"] as? Int == 1)
        }
    }
}
