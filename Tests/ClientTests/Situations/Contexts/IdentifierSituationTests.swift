import Foundation
import Quire
import Testing

/// Identifiers that were temporary, wherever a program may have kept them.
@MainActor @Suite struct IdentifierSituationTests {
    // A new photo is put into a category and saved; “all photos that are not in this category” still lists it, because the
    // request was made with an identifier from before the save. magicalpanda/MagicalRecord #174.
    @Test func theComplementOfAPredicateOnANewObjectLeavesItOut() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            let album = try context.insert("Album", ["name": "Sea"])
            try context.insert("Photo", ["name": "in", "album": album])
            try context.insert("Photo", ["name": "out"])
            let other = try context.insert("Album", ["name": "Hills"])
            try context.insert("Photo", ["name": "other", "album": other])
            let early = album.objectID
            func check(_ when: Comment) throws {
                for value: any QueryArgument in [album, early, album.objectID] {
                    func texts(_ format: String) throws -> [String] {
                        try context.texts("Photo", where: format, value)
                    }
                    #expect(try texts("album == %@") == ["in"], when)
                    #expect(try texts("album != %@") == ["other", "out"], when)
                    #expect(try texts("NOT album == %@") == ["other", "out"], when)
                    #expect(
                        try context.texts("Photo", where: "NOT album IN {%@}", value)
                            == ["other", "out"], when)
                    #expect(
                        try context.texts("Album", where: "SELF == %@", value) == ["Sea"], when)
                    #expect(
                        try context.texts("Album", where: "NOT SELF IN {%@}", value) == ["Hills"],
                        when)
                }
            }
            try check("unsaved")
            try context.save()
            try check("saved to the parent")
            try await work.save()
            try check("saved")
            album["name"] = "Sea"
            try context.insert("Photo", ["name": "in"])["album"] = other
            context.rollback()
            try check("after a rollback")
            context.reset()
            #expect(try context.texts("Photo", where: "album == %@", early) == ["in"])
            #expect(try context.texts("Photo", where: "album != %@", early) == ["other", "out"])
        }
    }

    // An object is created and saved on the main thread; the background's lookup by the identifier that was kept returns nil.
    // magicalpanda/MagicalRecord #184 and #312 (“MR_inContext returns nil for just-created (and saved) object”).
    @Test func theIdentifierFromBeforeTheSaveWorksInEveryContext() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, others in
            let photo = try work.context.insert("Photo", ["name": "a"])
            let early = photo.objectID
            let background = try others.newBackgroundContext()
            // No other context can see it yet: an error, not a crash.
            background.performAndWait { other in
                #expect(throws: QuireError.self) { try other.existingObject(with: early) }
                #expect(other.registeredObject(for: early) == nil)
                #expect(throws: QuireError.self) {
                    try other.existingObject(with: early)["name"] = "b"
                }
            }
            try await work.save()
            let late = photo.objectID
            #expect(!late.isTemporaryID)
            try background.performAndWait { other throws in
                let found = try other.existingObject(with: early)
                #expect(found["name"] as? String == "a")
                #expect(found === other.object(with: late))
                #expect(found === other.object(with: early))
                #expect(found === other.registeredObject(for: early))
                found["name"] = "b"
                try other.save()
            }
            #expect(work.context.object(with: early) === photo)
            #expect(try work.context.existingObject(with: early) === photo)
            work.main?.refreshAllObjects()
            background.performAndWait { $0.refreshAllObjects() }
            work.background?.performAndWait { $0.refreshAllObjects() }
            work.context.refresh(photo, mergeChanges: true)
            #expect(photo["name"] as? String == "b")
        }
    }

    // The id of a new object changes with an autosave, so the sheet that shows it is dismissed and the selected row is lost.
    // feedback-assistant/reports #654 (FB17585928); SwiftKickMobile/TLIndexPathTools #48 (“call obtainPermanentIDs”).
    @Test func aPermanentIdentifierObtainedBeforeTheSaveStays() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            let album = try context.insert("Album", ["name": "Sea"])
            let photo = try context.insert("Photo", ["name": "a", "album": album])
            let early = photo.objectID
            try context.obtainPermanentIDs(for: [album, photo])
            let ids = [album.objectID, photo.objectID]
            #expect(ids.allSatisfy { !$0.isTemporaryID })
            var selection = [photo.objectID: "selected"]
            #expect(photo.isInserted && photo.hasChanges)
            #expect(context.registeredObject(for: early) === photo)
            #expect(try context.texts("Photo", where: "album == %@", album) == ["a"])
            try context.obtainPermanentIDs(for: [album, photo])
            #expect([album.objectID, photo.objectID] == ids)
            try context.save()
            #expect([album.objectID, photo.objectID] == ids)
            try await work.save()
            #expect([album.objectID, photo.objectID] == ids)
            #expect(selection.removeValue(forKey: photo.objectID) == "selected")
            #expect(try context.existingObject(with: early) === photo)
            context.reset()
            let again = try context.existingObject(with: ids[1])
            #expect((again["album"] as? ManagedObject)?.objectID == ids[0])
        }
    }

    // Identifiers were made permanent, but the object was never saved: it was discarded, or its context was reset. Lookups must
    // fail, and the number must not become another object's. magicalpanda/MagicalRecord pull request #1181.
    @Test(arguments: ["rollback", "delete", "reset"])
    func aPermanentIdentifierThatWasNeverSavedFindsNothing(_ way: String) async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, others in
            let context = work.context
            let photo = try context.insert("Photo", ["name": "gone"])
            try context.obtainPermanentIDs(for: [photo])
            let id = photo.objectID
            switch way {
            case "rollback": context.rollback()
            case "reset": context.reset()
            default: context.delete(photo)
            }
            #expect(throws: QuireError.self, "\(way)") { try context.existingObject(with: id) }
            try await work.save()
            #expect(throws: QuireError.self, "\(way)") { try context.existingObject(with: id) }
            let next = try context.insert("Photo", ["name": "next"])
            try await work.save()
            #expect(next.objectID != id)
            #expect(throws: QuireError.self) { try context.existingObject(with: id) }
            try others.newBackgroundContext().performAndWait { other throws in
                #expect(throws: QuireError.self) { try other.existingObject(with: id) }
                #expect(other.object(with: id)["name"] as? String == nil)
                #expect(try other.texts("Photo") == ["next"])
                #expect(try other.texts("Photo", where: "SELF == %@", id) == [])
            }
        }
    }

    // One child saves a new object to the main context, which is not saved; another child finds it there, changes it and saves;
    // the first child and the main context must all mean the same object. magicalpanda/MagicalRecord pull request #1181.
    @Test(arguments: SituationStore.allCases)
    func siblingsMeanTheSameObjectBeforeItIsInTheStore(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let first = ManagedObjectContext.mainQueue(parent: main)
            let second = ManagedObjectContext.mainQueue(parent: main)
            let photo = try first.insert("Photo", ["name": "a"])
            let early = photo.objectID
            try first.save()
            let found = try #require(try second.fetch(FetchRequest("Photo")).first)
            #expect(found.objectID == photo.objectID)
            #expect(try second.existingObject(with: early) === found)
            found["name"] = "b"
            try second.save()
            #expect(main.insertedObjects.count == 1)
            let parents = try #require(main.insertedObjects.first)
            #expect(parents["name"] as? String == "b")
            #expect(try main.existingObject(with: early) === parents)
            first.refresh(photo, mergeChanges: false)
            #expect(photo["name"] as? String == "b")
            photo["stars"] = 5
            try first.save()
            try main.save()
            #expect(try main.texts("Photo") == ["b"])
            #expect(photo.objectID == parents.objectID && found.objectID == parents.objectID)
            #expect(try second.existingObject(with: early) === found)
            second.refresh(found, mergeChanges: true)
            #expect(found["stars"] as? Int == 5)
        }
    }

    // The id of the last opened item is archived in the preferences, and after the next start it finds the item; an id that was
    // archived before the save is an error at once instead of a dangling one later. Apple, “Core Data Programming Guide”,
    // managed object IDs and URIs (“the last selected group could be stored in the user defaults through its ID”).
    @Test(arguments: SituationStore.files)
    func anArchivedIdentifierFindsItsObjectAfterTheNextStart(_ store: SituationStore) async throws {
        struct Preferences: Codable {
            var last: ManagedObjectID; var recent: [String: ManagedObjectID]
        }
        try await withProgramFolder { folder in
            let container = try await store.container(AlbumModel.model, in: folder)
            let album = try container.viewContext.insert("Album", ["name": "Sea"])
            let early = album.objectID
            let encoder = JSONEncoder()
            #expect(throws: (any Error).self) { try encoder.encode([early]) }
            #expect(throws: QuireError.self) {
                try container.persistentStoreCoordinator.objectID(for: early.uriRepresentation)
            }
            try container.viewContext.save()
            // The program has kept the identifier from before the save.
            let data = try encoder.encode(
                Preferences(last: early, recent: ["sea": early]))
            let uri = early.uriRepresentation
            #expect(
                try container.persistentStoreCoordinator.objectID(for: uri) == album.objectID)
            let kept = album.objectID.uriRepresentation
            try container.close()

            let next = try await store.container(AlbumModel.model, in: folder)
            let decoder = JSONDecoder()
            decoder.userInfo[.persistentStoreCoordinator] = next.persistentStoreCoordinator
            let preferences = try decoder.decode(Preferences.self, from: data)
            let found = try next.viewContext.existingObject(with: preferences.last)
            #expect(found["name"] as? String == "Sea")
            #expect(preferences.recent["sea"] == found.objectID)
            #expect(found.objectID.uriRepresentation == kept)
            try next.close()
        }
    }

    // A batch request gets identifiers that a list has collected: of unsaved, saved and deleted rows.
    // justeat/JustPersist pull request #9; brave/brave-ios pull request #884.
    @Test(arguments: SituationStore.allCases)
    func batchRequestsTakeTheIdentifiersThatAListHasKept(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let context = container.viewContext
            let album = try context.insert("Album", ["name": "Sea"])
            let photos = try ["a", "b", "c"].map {
                try context.insert("Photo", ["name": $0, "album": album])
            }
            let early = photos.map(\.objectID)
            try context.save()
            var update = try BatchUpdateRequest(
                entityName: "Photo",
                predicate: QueryPredicate(
                    format: "album == %@ AND SELF IN %@", album, Array(early[1...])),
                propertiesToUpdate: ["stars": 5])
            update.resultType = .objectIDs
            let updated = try context.execute(update)
            #expect(updated.count == 2)
            context.mergeChanges(from: updated.changes)
            #expect(photos.map { $0["stars"] as? Int } == [3, 5, 5])
            let unsaved = try context.insert("Photo", ["name": "d"])
            var delete = BatchDeleteRequest(objectIDs: [early[0], early[1]])
            delete.resultType = .objectIDs
            let deleted = try context.execute(delete)
            #expect(deleted.count == 2)
            context.mergeChanges(from: deleted.changes)
            #expect(photos[0].managedObjectContext == nil || photos[0].isDeleted)
            #expect((album["photos"] as? Set<ManagedObject>) == [photos[2]])
            #expect(unsaved.isInserted)
            try context.save()
            #expect(try context.texts("Photo") == ["c", "d"])
        }
    }
}
