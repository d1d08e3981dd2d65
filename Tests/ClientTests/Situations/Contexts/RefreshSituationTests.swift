import Foundation
import Quire
import Testing

/// Refreshing, resetting and rolling back with unsaved work, in contexts of every kind.
@MainActor @Suite struct RefreshSituationTests {
    // A form is cancelled: one object loses its unsaved changes by refresh(_:mergeChanges: false), on both sides of its
    // relationships, while those of others stay. JohnEstropia/CoreStore #144 (“Discard Changes/Refresh Object”).
    @Test func refreshingOneObjectDiscardsItsChangesOnly() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            let sea = try context.insert("Album", ["name": "Sea"])
            let hills = try context.insert("Album", ["name": "Hills"])
            let photo = try context.insert("Photo", ["name": "a", "album": sea])
            let other = try context.insert("Photo", ["name": "b", "album": sea])
            let label = try context.insert("Label", ["word": "red"])
            try await work.save()
            sea["labels"] = Set([label])
            photo["name"] = "x"
            photo["stars"] = 1
            photo["album"] = hills
            photo["cached"] = "scratch"
            other["name"] = "y"
            context.refresh(photo, mergeChanges: false)
            #expect(photo.isFault)
            #expect(photo["name"] as? String == "a" && photo["stars"] as? Int == 3)
            #expect(photo["cached"] as? String == nil)
            #expect(photo["album"] as? ManagedObject === sea)
            #expect(sea["photos"] as? Set<ManagedObject> == [photo, other])
            #expect((hills["photos"] as? Set<ManagedObject>)?.isEmpty == true)
            #expect(other["name"] as? String == "y")
            #expect(label["albums"] as? Set<ManagedObject> == [sea])
            #expect(try context.texts("Photo", where: "album == %@", sea) == ["a", "y"])
            #expect(!photo.hasChanges && context.hasChanges)
            context.refresh(sea, mergeChanges: false)
            #expect((label["albums"] as? Set<ManagedObject>)?.isEmpty == true)
            try await work.save()
            #expect(try context.texts("Photo", where: "album == %@", sea) == ["a", "y"])
        }
    }

    // A new, unsaved object is refreshed by code that refreshes everything on screen: it must keep its values, and be saved.
    // Apple, refresh(_:mergeChanges:).
    @Test(arguments: [false, true])
    func refreshingANewOrDeletedObjectIsHarmless(_ merges: Bool) async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            let sea = try context.insert("Album", ["name": "Sea"])
            let old = try context.insert("Photo", ["name": "old", "album": sea])
            try await work.save()
            let new = try context.insert("Photo", ["name": "new", "album": sea])
            context.refresh(new, mergeChanges: merges)
            context.refresh(sea, mergeChanges: true)
            context.refreshAllObjects()
            #expect(new.isInserted)
            #expect(new["name"] as? String == "new" && new["album"] as? ManagedObject === sea)
            #expect(sea["photos"] as? Set<ManagedObject> == [old, new])
            context.delete(old)
            context.refresh(old, mergeChanges: merges)
            #expect(old.isDeleted == merges)
            if !merges { context.delete(old) }
            try await work.save()
            context.refresh(old, mergeChanges: merges)
            #expect(!context.hasChanges)
            #expect(sea["photos"] as? Set<ManagedObject> == [new])
            #expect(try context.texts("Photo") == ["new"])
        }
    }

    // A child refreshes an object: it must show its parent's unsaved values, not the store's older ones.
    // drewmccormack/ensembles #74 (“Do changes in the parent context get merged into the child context automatically?”).
    @Test(arguments: SituationStore.allCases)
    func aChildRefreshesFromItsParentsUnsavedState(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let sea = try main.insert("Album", ["name": "Sea"])
            let photo = try main.insert("Photo", ["name": "a", "album": sea])
            try main.save()
            let child = ManagedObjectContext.mainQueue(parent: main)
            let copy = try child.existingObject(with: sea.objectID)
            let photoCopy = try child.existingObject(with: photo.objectID)
            #expect(copy.objects("photos") == [photoCopy])
            copy["rank"] = 9
            sea["name"] = "Ocean"
            let hills = try main.insert("Album", ["name": "Hills"])
            photo["album"] = hills
            main.processPendingChanges()
            for _ in 0..<2 {
                child.refresh(copy, mergeChanges: true)
                child.refresh(photoCopy, mergeChanges: true)
                #expect(copy["name"] as? String == "Ocean" && copy["rank"] as? Int == 9)
                #expect(copy.objects("photos").isEmpty)
                #expect(photoCopy.object("album")?["name"] as? String == "Hills")
                child.refreshAllObjects()
            }
            main.rollback()
            child.refreshAllObjects()
            #expect(copy["name"] as? String == "Sea" && copy["rank"] as? Int == 9)
            #expect(photoCopy.object("album") === copy)
            try child.save()
            try main.save()
            #expect(sea["name"] as? String == "Sea" && sea["rank"] as? Int == 9)
        }
    }

    // Logging out resets the main context while screens still hold objects and an editor in a child still has unsaved work.
    // GetStream/stream-chat-swift pull request #2880 (“crash when calling startObserving after clearing the database”);
    // RestKit/RestKit #848.
    @Test(arguments: SituationStore.allCases)
    func aResetParentServesItsChildren(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let sea = try main.insert("Album", ["name": "Sea"])
            try main.save()
            let unsaved = try main.insert("Album", ["name": "unsaved"])
            let seaID = sea.objectID
            let child = ManagedObjectContext.mainQueue(parent: main)
            let copies: [ManagedObject] = try child.fetch(
                FetchRequest<ManagedObject>("Album", sortOrderings: [SortOrdering("name")]))
            try #require(copies.count == 2)
            let photo = try child.insert("Photo", ["name": "a", "album": copies[0]])
            let lost = try child.insert("Photo", ["name": "b", "album": copies[1]])
            main.reset()
            for object in [sea, unsaved] {
                #expect(object.managedObjectContext == nil)
                #expect(!object.isDeleted && !object.hasChanges)
            }
            // The child goes on with what exists.
            #expect(photo.object("album") === copies[0])
            lost["album"] = nil
            #expect(try child.texts("Album") == ["Sea"])
            try child.save()
            try main.save()
            #expect(try main.texts("Photo") == ["a", "b"])
            #expect(try main.texts("Photo", where: "album == %@", seaID) == ["a"])
            child.reset()
            #expect(try child.texts("Photo", where: "album.name == 'Sea'") == ["a"])
        }
    }

    // Screens go on showing, and changing, objects of a context that was reset, or new ones that were rolled back: a change is
    // refused with an error, nothing crashes, and nothing says that they were deleted. RestKit/RestKit #848;
    // meshtastic/Meshtastic-Apple pull request #1891.
    @Test(arguments: SituationStore.allCases, [false, true])
    func objectsThatHaveLeftTheirContextAreHarmless(
        _ store: SituationStore, resets: Bool
    ) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let context = container.viewContext
            let old = try context.insert("Album", ["name": "Sea"])
            try context.insert("Photo", ["name": "old", "album": old])
            if resets { try context.save() }
            let fault = try context.insert("Photo", ["name": "fault", "album": old])
            let unread = try context.insert("Label", ["word": "unread"])
            if resets {
                try context.save()
                context.refreshAllObjects()
                #expect(old["name"] as? String == "Sea")
            }
            let photo = try context.insert("Photo", ["name": "a", "album": old])
            if resets { context.reset() } else { context.rollback() }
            let other = try context.insert("Album", ["name": "other"])
            for object in [old, fault, unread, photo] {
                let isAlbum = object.entity.name == "Album"
                func check(_ when: Comment) {
                    #expect(object.managedObjectContext == nil, when)
                    #expect(!object.isDeleted && !object.isInserted && !object.isUpdated, when)
                    #expect(!object.hasChanges, when)
                }
                check("at once")
                _ = object.description
                _ = object.changedValues()
                _ = try? object.committedValues(forKeys: nil)
                let key = object.entity.name == "Label" ? "word" : "name"
                _ = object[key, as: String.self]
                check("after a read")
                if isAlbum {
                    #expect(object.objects("photos").allSatisfy { $0.managedObjectContext == nil })
                    _ = try? object.value(forKeyPath: "photos.@count")
                    _ = try? object.mutableSetValue(forKey: "photos").count
                    _ = object.hasFault(forRelationshipNamed: "photos")
                    #expect(throws: QuireError.self) {
                        try object.setValue(Set<ManagedObject>(), forKey: "photos")
                    }
                    object["photos"] = Set<ManagedObject>()
                    object.add(photo, to: "photos")
                    object.remove(photo, from: "photos")
                } else if object.entity.name == "Photo" {
                    _ = object.object("album")
                    _ = try? object.value(forKeyPath: "album.name")
                    #expect(throws: QuireError.self) { try object.setValue(other, forKey: "album") }
                    object["album"] = nil
                }
                #expect(throws: QuireError.self) { try object.setValue("x", forKey: key) }
                #expect(throws: QuireError.self) { try object.setPrimitiveValue("x", forKey: key) }
                object[key] = "x"
                object.willChangeValue(forKey: key)
                #expect(object[key] as? String != "x")
                _ = try? QueryPredicate(format: "\(key) == 'x'").evaluate(with: object)
                context.refresh(object, mergeChanges: true)
                context.refresh(object, mergeChanges: false)
                context.delete(object)
                try context.obtainPermanentIDs(for: [object])
                #expect(throws: QuireError.self) {
                    try other.setValue(
                        Set([object]), forKey: object.entity.name == "Label" ? "labels" : "photos")
                }
                check("after all")
            }
            #expect(context.insertedObjects.count == 1)
            try context.save()
            #expect(
                try context.texts("Photo") == (resets ? ["fault", "old"] : []))
        }
    }

    // An import saves and resets its context every 100 rows, and goes on with objects that it kept from before the reset: an
    // error to see, or a lookup by identifier, but no crash. magicalpanda/MagicalRecord #533; Apple, “Efficiently Importing
    // Data”.
    @Test(arguments: SituationStore.allCases)
    func anImportThatResetsItsContextGoesOnByIdentifiers(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let background = container.newBackgroundContext()
            try background.performAndWait { context in
                let album = try context.insert("Album", ["name": "Sea"])
                for batch in 0..<3 {
                    let owner = try context.existingObject(with: album.objectID)
                    for number in 0..<10 {
                        try context.insert(
                            "Photo", ["name": "\(batch)\(number)", "album": owner])
                    }
                    try context.save()
                    context.reset()
                    #expect(context.registeredObjects.isEmpty)
                    #expect(album.managedObjectContext == nil)
                    // Objects of before do not enter the context again.
                    let stray = try context.insert("Photo", ["name": "stray"])
                    let error = #expect(throws: QuireError.self) {
                        try stray.setValue(album, forKey: "album")
                    }
                    #expect(error?.code == .notFound)
                    context.rollback()
                }
                #expect(try context.texts("Photo").count == 30)
                #expect(
                    try context.existingObject(with: album.objectID).objects("photos").count == 30)
            }
        }
    }

    // Rolling back after a failed save, and going on with the same objects, also new ones that screens still show.
    // meshtastic/Meshtastic-Apple pull request #1891.
    @Test func workGoesOnAfterARollback() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            let sea = try context.insert("Album", ["name": "Sea"])
            let photo = try context.insert("Photo", ["name": "a", "album": sea])
            let label = try context.insert("Label", ["word": "red"])
            sea["labels"] = Set([label])
            try await work.save()
            let new = try context.insert("Photo", ["album": sea])  // Lacks its name.
            let early = new.objectID
            context.delete(photo)
            label["albums"] = Set<ManagedObject>()
            sea["name"] = "Ocean"
            #expect(throws: QuireError.self) { try context.save() }
            context.rollback()
            #expect(!context.hasChanges)
            #expect(new.managedObjectContext == nil && new["name"] as? String == nil)
            #expect(throws: QuireError.self) { try new.setValue("late", forKey: "name") }
            #expect(throws: QuireError.self) { try context.existingObject(with: early) }
            #expect(sea["photos"] as? Set<ManagedObject> == [photo])
            #expect(label["albums"] as? Set<ManagedObject> == [sea])
            #expect(sea["labels"] as? Set<ManagedObject> == [label])
            #expect(photo["album"] as? ManagedObject === sea && !photo.isDeleted)
            #expect(try context.texts("Photo", where: "album == %@", sea) == ["a"])
            sea["name"] = "Lake"
            try await work.save()
            #expect(try context.texts("Album") == ["Lake"])
        }
    }
}
