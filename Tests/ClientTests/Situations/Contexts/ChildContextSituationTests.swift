import Foundation
import Quire
import Testing

/// Editors, imports and scratch pads in child contexts.
@MainActor @Suite struct ChildContextSituationTests {
    // A child's save fails validation; the parent must not have received a part of it. drewmccormack/ensembles #54
    // (“changes made in the willSave delegate method cause the child context to fail to save”); griddynamics-archive/MMRecord #96.
    @Test(arguments: SituationStore.allCases)
    func aFailedSaveOfAChildLeavesTheParentAsItWas(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let album = try main.insert("Album", ["name": "Sea"])
            let kept = try main.insert("Photo", ["name": "kept", "album": album])
            try main.save()
            let child = ManagedObjectContext.mainQueue(parent: main)
            let copy = try child.existingObject(with: album.objectID)
            copy["name"] = "Ocean"
            let unnamed = try child.insert("Photo", ["album": copy])
            let named = try child.insert("Photo", ["name": "new", "album": copy])
            child.delete(try child.existingObject(with: kept.objectID))
            let ids = [unnamed.objectID, named.objectID]
            for _ in 0..<2 {
                let error = #expect(throws: QuireError.self) { try child.save() }
                #expect(error?.code == .validation)
                #expect(!main.hasChanges)
                #expect(album["name"] as? String == "Sea")
                #expect(album["photos"] as? Set<ManagedObject> == [kept])
                #expect(!kept.isDeleted)
                #expect(try main.texts("Photo") == ["kept"])
                #expect([unnamed.objectID, named.objectID] == ids)
            }
            #expect(child.insertedObjects.count == 2 && child.deletedObjects.count == 1)
            // The user corrects it, and saves all the way.
            unnamed["name"] = "named"
            try child.save()
            #expect(try main.texts("Photo") == ["named", "new"])
            try main.save()
            #expect(try main.texts("Photo", where: "album == %@", album) == ["named", "new"])
            #expect(try child.texts("Photo", where: "album == %@", ids[0]) == [])
        }
    }

    // The child's save goes through, the parent's fails on a unique value. The parent keeps the changes; after a rollback it has
    // none of them, and the child, which the user corrects, can save again. meshtastic/Meshtastic-Apple pull request #1891
    // (rollback after a failed save); objcio/core-data #2.
    @Test(arguments: SituationStore.allCases)
    func aParentThatRefusesToSaveCanBeRolledBack(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            try main.insert("Label", ["word": "red"])
            try main.save()
            let child = ManagedObjectContext.mainQueue(parent: main)
            let album = try child.insert("Album", ["name": "Sea"])
            let label = try child.insert("Label", ["word": "red"])
            label["albums"] = Set([album])
            try child.save()
            let error = #expect(throws: QuireError.self) { try main.save() }
            #expect(error?.code == .constraintConflict)
            #expect(main.insertedObjects.count == 2)
            #expect(try child.texts("Label", "word") == ["red", "red"])
            // Correcting the value in the child repairs the parent.
            label["word"] = "blue"
            try child.save()
            try main.save()
            #expect(try main.texts("Label", "word", where: "ANY albums == %@", album) == ["blue"])

            let second = try child.insert("Label", ["word": "red"])
            try child.save()
            #expect(throws: QuireError.self) { try main.save() }
            main.rollback()
            #expect(!main.hasChanges)
            #expect(try main.texts("Label", "word") == ["blue", "red"])
            #expect(try child.texts("Label", "word") == ["blue", "red"])
            child.refreshAllObjects()
            #expect(throws: QuireError.self) { try child.existingObject(with: second.objectID) }
            try child.insert("Label", ["word": "green"])
            try child.save()
            try main.save()
            #expect(try main.texts("Label", "word") == ["blue", "green", "red"])
        }
    }

    // An editor works on a child context; Cancel throws the context away. JohnEstropia/CoreStore #34 and #144.
    @Test(arguments: SituationStore.allCases)
    func anEditorThatIsCancelledChangesNothing(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let album = try main.insert("Album", ["name": "Sea"])
            let photo = try main.insert("Photo", ["name": "a", "album": album])
            try main.save()
            // Both the list and the editor have unsaved work.
            album["name"] = "Ocean"
            let draft = try main.insert("Photo", ["name": "draft", "album": album])
            do {
                let editor = ManagedObjectContext.mainQueue(parent: main)
                let copy = try editor.existingObject(with: album.objectID)
                #expect(copy["name"] as? String == "Ocean")
                #expect((copy["photos"] as? Set<ManagedObject>)?.count == 2)
                copy["name"] = "Lake"
                try editor.insert("Photo", ["name": "b", "album": copy])
                for photo in copy.objects("photos") where photo["name"] as? String == "draft" {
                    editor.delete(photo)
                }
                #expect(try editor.texts("Photo") == ["a", "b"])
                // A single object is taken back.
                editor.refresh(copy, mergeChanges: false)
                #expect(copy["name"] as? String == "Ocean")
            }
            #expect(album["name"] as? String == "Ocean")
            #expect(album["photos"] as? Set<ManagedObject> == [photo, draft])
            #expect(main.insertedObjects.count == 1 && main.updatedObjects.count >= 1)
            try main.save()
            #expect(try main.texts("Photo") == ["a", "draft"])
        }
    }

    // An object is deleted in a child and saved to the store; looking it up still finds it, and it is deleted again with every
    // later save. RestKit/RestKit #1351.
    @Test func aDeletionGoesUpOnce() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, others in
            let context = work.context
            let album = try context.insert("Album", ["name": "Sea"])
            let photo = try context.insert("Photo", ["name": "a", "album": album])
            try await work.save()
            let saves = Saves()
            let token = saves.observe(context.persistentStoreCoordinator)
            defer { NotificationCenter.default.removeObserver(token) }
            let id = photo.objectID
            context.delete(photo)
            try await work.save()
            #expect(
                saves.take().filter { $0.deleted.contains(id) }.count == work.savingContextCount)
            #expect(throws: QuireError.self) { try context.existingObject(with: id) }
            if let main = work.main {
                #expect(throws: QuireError.self) { try main.existingObject(with: id) }
            }
            album["rank"] = 1
            try await work.save()
            #expect(saves.take().allSatisfy { $0.deleted.isEmpty })
            #expect(try context.texts("Photo") == [])
            #expect((album["photos"] as? Set<ManagedObject>)?.isEmpty == true)
        }
    }

    // Values of an object that a child has inserted, defaults among them, do not arrive in the parent, so that the parent's
    // save fails validation. lionheart/openradar-mirror #1400 (radar 20667995).
    @Test func allValuesOfANewObjectArriveInTheParent() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, others in
            let album = try work.context.insert("Album", ["name": "Sea"])
            let photo = try work.context.insertObject(entityName: "Photo")
            photo["name"] = "a"
            photo["stars"] = nil
            photo["stars"] = 3  // The default, set by hand.
            photo["album"] = album
            let plain = try work.context.insert("Photo", ["name": "b"])
            plain["stars"] = nil
            try work.context.save()
            for object in [photo, plain] {
                let parents = try work.main?.existingObject(with: object.objectID)
                if let parents {
                    #expect(parents["stars"] as? Int == object["stars"] as? Int)
                    #expect(parents["name"] as? String == object["name"] as? String)
                    #expect(parents.isInserted)
                }
            }
            try await work.save()
            let id = photo.objectID
            try others.newBackgroundContext().performAndWait { other in
                let found = try other.existingObject(with: id)
                #expect(found["stars"] as? Int == 3)
                #expect((found["album"] as? ManagedObject)?["name"] as? String == "Sea")
                #expect(try other.texts("Photo", where: "stars == nil") == ["b"])
            }
        }
    }

    // A fetch that leaves unsaved changes out, between the insertion and the save, loses the new object's relationship.
    // feedback-assistant/reports #658 (FB17593538, of SwiftData).
    @Test func aFetchWithoutUnsavedChangesChangesNothing() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            let album = try context.insert("Album", ["name": "Sea"])
            try await work.save()
            let photo = try context.insert("Photo", ["name": "a", "album": album])
            album["name"] = "Ocean"
            var request = FetchRequest<ManagedObject>("Album")
            request.includesPendingChanges = false
            request.predicate = try QueryPredicate(format: "name == 'Sea'")
            #expect(try Array(context.fetch(request)) == [album])
            #expect(album["name"] as? String == "Ocean")
            #expect(photo["album"] as? ManagedObject == album)
            request = FetchRequest("Photo")
            request.includesPendingChanges = false
            #expect(try context.count(for: request) == 0)
            #expect(photo["album"] as? ManagedObject == album)
            try await work.save()
            #expect(photo["album"] as? ManagedObject == album)
            #expect(try context.texts("Photo", where: "album.name == 'Ocean'") == ["a"])
        }
    }

    // Fetching in batches through a child returns everything, or nothing, when the parent has unsaved changes.
    // jessesquires/JSQCoreDataKit #57 (“Batchsize and child context bug?”).
    @Test func batchesOfAChildIncludeTheParentsUnsavedChanges() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            for number in 10..<40 { try context.insert("Photo", ["name": "\(number)"]) }
            try await work.save()
            let parent = work.main ?? context
            try parent.insert("Photo", ["name": "15a"])
            for photo in try parent.fetch(FetchRequest<ManagedObject>("Photo")) as [ManagedObject] {
                if photo["name"] as? String == "20" { parent.delete(photo) }
                if photo["name"] as? String == "21" { photo["name"] = "99" }
            }
            var request = FetchRequest<ManagedObject>(
                "Photo", sortOrderings: [SortOrdering("name")])
            request.fetchBatchSize = 4
            let names = try context.fetch(request).map { $0["name"] as? String ?? "" }
            let expected =
                ((10..<40).filter { $0 != 20 && $0 != 21 }.map(String.init) + ["15a", "99"])
                .sorted()
            #expect(names == expected)
            request.fetchOffset = 5
            request.fetchLimit = 3
            #expect(
                try context.fetch(request).map { $0["name"] as? String ?? "" }
                    == Array(expected[5..<8]))
            try await work.save()
        }
    }

    // A parent merges what others have saved to the store; its children, and theirs, show it too.
    // kylef-archive/KFData #18; drewmccormack/ensembles #74.
    @Test(arguments: SituationStore.allCases)
    func grandchildrenFollowTheStore(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let child = ManagedObjectContext.mainQueue(parent: main)
            let grandchild = ManagedObjectContext.mainQueue(parent: child)
            for context in [main, child, grandchild] {
                context.automaticallyMergesChangesFromParent = true
            }
            let album = try main.insert("Album", ["name": "Sea"])
            let photo = try main.insert("Photo", ["name": "a", "album": album])
            try main.save()
            let seen = try grandchild.existingObject(with: album.objectID)
            let seenPhoto = try grandchild.existingObject(with: photo.objectID)
            #expect((seen["photos"] as? Set<ManagedObject>) == [seenPhoto])
            seen["rank"] = 7  // Unsaved in the grandchild.
            let (albumID, photoID) = (album.objectID, photo.objectID)
            try await container.newBackgroundContext().perform { other in
                let album = try other.existingObject(with: albumID)
                album["name"] = "Ocean"
                try other.insert("Photo", ["name": "b", "album": album])
                other.delete(try other.existingObject(with: photoID))
                try other.save()
            }
            await turnOfMainQueue()
            await turnOfMainQueue()
            for context in [main, child, grandchild] {
                let album = try context.existingObject(with: albumID)
                #expect(album["name"] as? String == "Ocean")
                #expect(album.objects("photos").map { $0["name"] as? String } == ["b"])
                #expect(throws: QuireError.self) { try context.existingObject(with: photoID) }
            }
            #expect(seen["rank"] as? Int == 7)
            #expect(!main.hasChanges && grandchild.hasChanges)
            for context in [grandchild, child, main] { try context.save() }
            #expect(album["rank"] as? Int == 7)
        }
    }
}

/// The saves of all contexts of a coordinator, from whichever queue.
private final class Saves: @unchecked Sendable {
    // Read while no context is being saved.
    private var list: [ObjectIDChanges] = []

    func take() -> [ObjectIDChanges] {
        defer { list = [] }
        return list
    }

    func observe(_ coordinator: PersistentStoreCoordinator) -> any NSObjectProtocol {
        NotificationCenter.default.addObserver(
            forName: ManagedObjectContext.didSaveObjectsNotification, object: nil, queue: nil
        ) { [self] notification in
            guard let context = notification.object as? ManagedObjectContext,
                context.persistentStoreCoordinator === coordinator,
                let changes = notification.objectIDChanges
            else { return }
            list.append(changes)
        }
    }
}
