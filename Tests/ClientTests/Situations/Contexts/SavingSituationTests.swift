import Foundation
import Quire
import Testing

/// Saves that lead to other saves, and what contexts say about their changes.
@MainActor @Suite struct SavingSituationTests {
    /// Calls a closure for each notification of a context of the main queue.
    private func observe(
        _ name: Notification.Name, of context: ManagedObjectContext,
        _ react: @escaping @MainActor (Notification) -> Void
    ) -> any NSObjectProtocol {
        return NotificationCenter.default.addObserver(forName: name, object: context, queue: nil) {
            nonisolated(unsafe) let notification = $0
            MainActor.assumeIsolated { react(notification) }
        }
    }

    // An observer of the child's save saves the parent, whose save another observer merges into a sibling; all within the
    // child's save(). jessesquires/JSQCoreDataKit #68 (didReceiveChildContextDidSaveNotification);
    // magicalpanda/MagicalRecord #147.
    @Test(arguments: SituationStore.allCases)
    func savesMayLeadToSaves(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let child = ManagedObjectContext.mainQueue(parent: main)
            let sibling = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            var errors: [any Error] = []
            var inserted: [[String]] = []
            let tokens = [
                observe(ManagedObjectContext.didSaveObjectsNotification, of: child) { note in
                    inserted.append(
                        note.insertedObjects.compactMap { $0["name"] as? String }.sorted())
                    do { try main.save() } catch { errors.append(error) }
                },
                observe(ManagedObjectContext.didSaveObjectsNotification, of: main) { note in
                    sibling.mergeChanges(fromContextDidSave: note)
                    do {
                        try sibling.insert("Label", ["word": "save \(inserted.count)"])
                        try sibling.save()
                    } catch { errors.append(error) }
                },
            ]
            defer { tokens.forEach(NotificationCenter.default.removeObserver) }
            let sea = try child.insert("Album", ["name": "Sea"])
            try child.insert("Photo", ["name": "a", "album": sea])
            try child.save()
            #expect(errors.isEmpty)
            #expect(inserted == [["Sea", "a"]])
            #expect(!child.hasChanges && !main.hasChanges && !sibling.hasChanges)
            let theirs = try sibling.existingObject(with: sea.objectID)
            #expect(theirs.objects("photos").count == 1)
            sea["name"] = "Ocean"
            try child.insert("Photo", ["name": "b", "album": sea])
            try child.save()
            #expect(errors.isEmpty)
            #expect(inserted == [["Sea", "a"], ["b"]])
            #expect(theirs["name"] as? String == "Ocean" && theirs.objects("photos").count == 2)
            #expect(try main.texts("Label", "word") == ["save 1", "save 2"])
        }
    }

    // An observer of willSave completes objects, and one of didSave changes and deletes some: the first is part of the save, the
    // second unsaved. Apple, NSManagedObjectContextWillSave; wordpress-mobile/WordPress-iOS pull request #19765.
    @Test func observersOfASaveMayChangeObjects() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, others in
            let context = work.context
            var saves = 0
            let tokens = [
                observe(ManagedObjectContext.willSaveObjectsNotification, of: context) { _ in
                    for object in context.insertedObjects + context.updatedObjects
                    where object.entity.name == "Photo" && object["name"] as? String == nil {
                        object["name"] = "unnamed"
                    }
                },
                observe(ManagedObjectContext.didSaveObjectsNotification, of: context) { note in
                    saves += 1
                    guard saves == 1 else { return }
                    for object in note.insertedObjects where object.entity.name == "Photo" {
                        if object["stars"] as? Int == 0 {
                            context.delete(object)
                        } else {
                            object["stars"] = 5
                        }
                    }
                },
            ]
            defer { tokens.forEach(NotificationCenter.default.removeObserver) }
            let photo = try context.insertObject(entityName: "Photo")
            let bad = try context.insert("Photo", ["name": "bad", "stars": 0])
            try context.save()
            #expect(photo["name"] as? String == "unnamed")
            #expect(bad.isDeleted && photo.isUpdated && context.hasChanges)
            #expect(try context.texts("Photo") == ["unnamed"])
            try await work.save()
            if context.hasChanges { try await work.save() }
            #expect(!context.hasChanges)
            try others.newBackgroundContext().performAndWait { other throws in
                #expect(try other.texts("Photo", where: "stars == 5") == ["unnamed"])
                #expect(try other.texts("Photo") == ["unnamed"])
            }
        }
    }

    // hasChanges is true although nothing differs, so a program saves, and syncs, again and again.
    // useyourloaf.com, “Core Data Saving Changes” (hasPersistentChangedValues).
    @Test func whatWasSetBackIsNotSaved() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, others in
            let context = work.context
            let sea = try context.insert("Album", ["name": "Sea"])
            let photo = try context.insert("Photo", ["name": "a", "album": sea])
            try await work.save()
            let background = try others.newBackgroundContext()
            let id = photo.objectID
            photo["name"] = "b"
            photo["name"] = "a"
            sea.remove(photo, from: "photos")
            context.processPendingChanges()
            context.rollback()
            photo["name"] = "c"
            photo["name"] = "a"
            photo["cached"] = "x"
            #expect(!photo.hasPersistentChangedValues)
            // Somebody else may change it meanwhile without a conflict.
            try background.performAndWait { other throws in
                try other.existingObject(with: id)["stars"] = 4
                try other.save()
                try other.parent?.performAndWait { try $0.save() }
            }
            try await work.save()
            #expect(!context.hasChanges)
            #expect(photo["cached"] as? String == "x")
            work.main?.refreshAllObjects()
            work.background?.performAndWait { $0.refreshAllObjects() }
            context.refresh(photo, mergeChanges: true)
            #expect(photo["stars"] as? Int == 4 && photo["name"] as? String == "a")
            #expect(photo["cached"] as? String == "x")
        }
    }

    // The user has unsaved changes when another context's save is merged, and then takes them back with rollback(): the merged
    // values must stay, not those from before the merge. JohnEstropia/CoreStore #98 (“changes that sneaked into the context by
    // the time the actual merging occurs”).
    @Test(arguments: SituationStore.allCases)
    func aRollbackAfterAMergeKeepsWhatWasMerged(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            main.automaticallyMergesChangesFromParent = true
            let sea = try main.insert("Album", ["name": "Sea"])
            let hills = try main.insert("Album", ["name": "Hills"])
            let photos = try ["a", "b", "c"].map {
                try main.insert("Photo", ["name": $0, "album": sea])
            }
            try main.save()
            _ = [sea, hills].map { $0.objects("photos") }
            photos[0]["name"] = "mine"
            photos[0]["album"] = hills
            main.delete(photos[1])
            sea["rank"] = 5
            let fresh = try main.insert("Photo", ["name": "fresh", "album": sea])
            let ids = (photos.map(\.objectID), sea.objectID, hills.objectID)
            try await container.newBackgroundContext().perform { other in
                let photos = try ids.0.map { try other.existingObject(with: $0) }
                let (sea, hills) = (
                    try other.existingObject(with: ids.1), try other.existingObject(with: ids.2)
                )
                photos[0]["name"] = "theirs"
                photos[1]["stars"] = 1
                other.delete(photos[2])
                sea["name"] = "Ocean"
                try other.insert("Photo", ["name": "new", "album": hills])
                try other.save()
            }
            #expect(photos[0]["name"] as? String == "mine" && sea["name"] as? String == "Ocean")
            #expect(photos[1].isDeleted && photos[2].managedObjectContext == nil)
            #expect(Set(sea.objects("photos")) == [fresh])
            #expect(try main.texts("Photo", where: "album == %@", hills) == ["mine", "new"])
            main.rollback()
            #expect(!main.hasChanges)
            #expect(photos[0]["name"] as? String == "theirs" && sea["name"] as? String == "Ocean")
            #expect(sea["rank"] as? Int == 0)
            #expect(photos[1]["stars"] as? Int == 1 && !photos[1].isDeleted)
            #expect(photos[2].managedObjectContext == nil && fresh.managedObjectContext == nil)
            #expect(Set(sea.objects("photos")) == [photos[0], photos[1]])
            #expect(hills.objects("photos").map { $0["name"] as? String } == ["new"])
            #expect(try main.texts("Photo", where: "album == %@", sea) == ["b", "theirs"])
            photos[0]["stars"] = 2
            try main.save()
        }
    }

    // An object that is new in the parent is deleted by a child, or the reverse: one that the child has saved is deleted in the
    // parent, while the child still changes it. wordpress-mobile/WordPress-iOS #13867 (“Merge policy failed - unable to complete
    // merging on null”).
    @Test(arguments: SituationStore.allCases)
    func unsavedObjectsAreDeletedOnTheOtherLevel(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let child = ManagedObjectContext.mainQueue(parent: main)
            let sea = try main.insert("Album", ["name": "Sea"])
            let photo = try main.insert("Photo", ["name": "a", "album": sea])
            let copy = try #require(try child.fetch(FetchRequest<ManagedObject>("Album")).first)
            #expect(copy.objects("photos").count == 1)
            child.delete(copy)
            #expect(!sea.isDeleted && main.insertedObjects.count == 2)
            try child.save()
            #expect(sea.isDeleted && photo.isDeleted && !main.hasChanges)
            try main.save()
            #expect(try main.texts("Album") == [] && main.texts("Photo") == [])
            #expect(sea.managedObjectContext == nil)

            let hills = try child.insert("Album", ["name": "Hills"])
            let hike = try child.insert("Photo", ["name": "hike", "album": hills])
            try child.save()
            let parents = try #require(main.registeredObject(for: hills.objectID))
            main.delete(parents)
            hike["stars"] = 1
            hills["rank"] = 3
            let second = try child.insert("Photo", ["name": "second", "album": hills])
            try child.save()
            try main.save()
            #expect(try main.texts("Album") == [])
            #expect(try main.texts("Photo", where: "album != nil") == [])
            child.refreshAllObjects()
            #expect(try child.texts("Album") == [])
            #expect(throws: QuireError.self) { try child.existingObject(with: hills.objectID) }
            _ = second["name"] as? String
            try child.insert("Album", ["name": "Lake"])
            try child.save()
            try main.save()
            #expect(try main.texts("Album") == ["Lake"])
        }
    }

    // Temporary and permanent identifiers of a hierarchy: asked for by the superentity, in predicates of either entity, and in
    // relationships to the superentity. magicalpanda/MagicalRecord #611 (“why after save I have temporary objectID”).
    @Test(arguments: SituationStore.allCases)
    func identifiersOfSubentities(_ store: SituationStore) async throws {
        let model = ManagedObjectModel {
            Entity("Item") {
                Attribute("name", .string)
                ToOne("box", "Box", inverse: "items")
            }
            Entity("Song", inherits: "Item") { Attribute("length", .integer32) }
            Entity("Film", inherits: "Item") { Attribute("year", .integer32) }
            Entity("Box", inherits: "Item") { ToMany("items", "Item", inverse: "box") }
        }
        try await withSituation(store, model) { container in
            let main = container.viewContext
            let child = ManagedObjectContext.mainQueue(parent: main)
            let box = try child.insert("Box", ["name": "box"])
            let song = try child.insert("Song", ["name": "song", "box": box])
            let film = try child.insert("Film", ["name": "film", "box": box])
            let inner = try child.insert("Box", ["name": "inner", "box": box])
            let early = [box, song, film, inner].map(\.objectID)
            func check(_ context: ManagedObjectContext, _ when: Comment) throws {
                #expect(
                    try context.texts("Item", where: "box == %@", early[0])
                        == ["film", "inner", "song"], when)
                #expect(try context.texts("Song", where: "box == %@", early[0]) == ["song"], when)
                #expect(
                    try context.texts("Item", where: "SELF IN {%@, %@}", early[1], early[3])
                        == ["inner", "song"], when)
                #expect(try context.texts("Item", where: "SELF == %@", early[2]) == ["film"], when)
                #expect(
                    try context.texts("Box", where: "ANY items == %@", early[1]) == ["box"], when)
                #expect(
                    try context.texts("Item", where: "NOT SELF IN {%@}", early[0])
                        == ["film", "inner", "song"], when)
            }
            try check(child, "unsaved")
            try child.save()
            try check(child, "saved to the parent")
            try check(main, "in the parent")
            try main.save()
            try check(child, "saved")
            main.reset()
            try check(main, "after a reset")
            #expect(
                [box, song, film, inner].map(\.objectID.entityName) == [
                    "Box", "Song", "Film", "Box",
                ])
            for id in early {
                #expect(try main.existingObject(with: id).entity.name == id.entityName)
            }
        }
    }
}
