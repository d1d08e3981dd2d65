import Foundation
import Quire
import Testing

/// Objects that another context or process has deleted.
@MainActor @Suite struct DeletedObjectSituationTests {
    /// A context, and a fault in it of a photo whose row another context has deleted.
    private func withDeletedFault(
        _ store: SituationStore, reads: Bool, merges: Bool,
        _ program: @MainActor (ManagedObjectContext, ManagedObject, ManagedObject) throws -> Void
    ) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let context = container.viewContext
            let album = try context.insert("Album", ["name": "Sea"])
            let photo = try context.insert("Photo", ["name": "a", "album": album])
            try context.insert("Photo", ["name": "b", "album": album])
            try context.save()
            context.refreshAllObjects()
            if reads {
                #expect(photo["name"] as? String == "a")
                #expect(album.objects("photos").count == 2)
            }
            context.automaticallyMergesChangesFromParent = merges
            let id = photo.objectID
            try await container.newBackgroundContext().perform { other in
                other.delete(try other.existingObject(with: id))
                try other.save()
            }
            try program(context, photo, album)
        }
    }

    // “CoreData could not fulfill a fault”: a comment that the server has deleted is moderated.
    // wordpress-mobile/WordPress-iOS #2690; robbiehanson/XMPPFramework #1086.
    @Test(arguments: SituationStore.allCases, [false, true])
    func changingAnObjectThatIsGoneIsAnErrorNotACrash(
        _ store: SituationStore, reads: Bool
    ) async throws {
        try await withDeletedFault(store, reads: reads, merges: false) { context, photo, album in
            photo["stars"] = 5
            _ = photo["album"] as? ManagedObject
            if context.hasChanges {
                let error = #expect(throws: QuireError.self) { try context.save() }
                #expect(error?.code == .mergeConflict || error?.code == .notFound)
                context.rollback()
            }
            context.refreshAllObjects()
            #expect(throws: QuireError.self) { try context.existingObject(with: photo.objectID) }
            #expect(photo["name"] as? String == nil)
            #expect(album.objects("photos").map { $0["name"] as? String } == ["b"])
            album["rank"] = 1
            try context.save()
            #expect(try context.texts("Photo") == ["b"])
        }
    }

    // The same with automatic merging: the screen keeps the object, reads it, changes it, and saves something else.
    // brightdigit/DataThespian #49; JohnEstropia/CoreStore #86.
    @Test(arguments: SituationStore.allCases, [false, true])
    func aScreenMayKeepAnObjectThatWasDeletedElsewhere(
        _ store: SituationStore, reads: Bool
    ) async throws {
        try await withDeletedFault(store, reads: reads, merges: true) { context, photo, album in
            #expect(photo.managedObjectContext == nil || photo.isDeleted)
            _ = photo["name"] as? String
            _ = photo.object("album")
            photo["stars"] = 5
            context.delete(photo)
            context.refresh(photo, mergeChanges: true)
            context.refresh(photo, mergeChanges: false)
            #expect(album.objects("photos").map { $0["name"] as? String } == ["b"])
            #expect(try context.texts("Photo", where: "album == %@", album) == ["b"])
            #expect(try context.texts("Photo", where: "SELF == %@", photo) == [])
            try context.insert("Photo", ["name": "c", "album": album])
            try context.save()
            #expect(try context.texts("Photo", where: "album == %@", album) == ["b", "c"])
        }
    }

    // Both have deleted the note; after the merge the next save deletes it a second time, and fails.
    // drewmccormack/ensembles #148.
    @Test(arguments: SituationStore.allCases, [false, true])
    func deletingWhatOthersHaveDeletedIsNoFailure(
        _ store: SituationStore, merges: Bool
    ) async throws {
        try await withDeletedFault(store, reads: true, merges: merges) { context, photo, album in
            context.delete(photo)
            try context.insert("Photo", ["name": "c", "album": album])
            try context.save()
            #expect(!context.hasChanges)
            #expect(photo.managedObjectContext == nil)
            #expect(try context.texts("Photo", where: "album == %@", album) == ["b", "c"])
            album["rank"] = 2
            try context.save()
        }
    }

    // A background import deletes an album with its photos while an editor, in a child, adds a photo to it and saves.
    // ioscake.com, “How to correctly propagate delete from main thread's NSManagedObjectContext to child context on a background
    // thread?” (from Stack Overflow).
    @Test(arguments: SituationStore.allCases, [false, true])
    func anEditorOfADeletedObjectLeavesNothingBehind(
        _ store: SituationStore, merges: Bool
    ) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let main = container.viewContext
            let album = try main.insert("Album", ["name": "Sea"])
            try main.insert("Photo", ["name": "a", "album": album])
            let other = try main.insert("Album", ["name": "Hills"])
            try main.save()
            let editor = ManagedObjectContext.mainQueue(parent: main)
            editor.automaticallyMergesChangesFromParent = merges
            let copy = try editor.existingObject(with: album.objectID)
            copy["name"] = "Ocean"
            let photo = try editor.insert("Photo", ["name": "b", "album": copy])
            let moved = try editor.existingObject(with: other.objectID)
            moved["rank"] = 4
            main.delete(album)
            try main.save()
            try editor.save()
            try main.save()
            #expect(try main.texts("Album") == ["Hills"])
            #expect(other["rank"] as? Int == 4)
            // The new photo is either gone with its album or has none; no dangling reference.
            for photo in try main.fetch(FetchRequest<ManagedObject>("Photo")) as [ManagedObject] {
                #expect(photo["album"] as? ManagedObject == nil)
            }
            #expect(try main.texts("Photo", where: "album != nil") == [])
            if let context = photo.managedObjectContext {
                #expect(context === editor)
                #expect(photo["album"] as? ManagedObject == nil || !merges)
            }
            editor.refreshAllObjects()
            #expect(try editor.texts("Photo") == main.texts("Photo"))
            #expect(try editor.texts("Photo", where: "album != nil") == [])
        }
    }

    // After a batch delete the objects are still in memory: a save that changes one of them, or relates another to it, must be
    // an error or leave it out, and never bring back half of it. brave/brave-ios pull request #884;
    // oreillymedia/flapjack pull request #60.
    @Test(arguments: SituationStore.allCases)
    func objectsInMemoryAfterABatchDelete(_ store: SituationStore) async throws {
        try await withSituation(store, AlbumModel.model) { container in
            let context = container.viewContext
            let album = try context.insert("Album", ["name": "Sea"])
            let photos = try ["a", "b"].map {
                try context.insert("Photo", ["name": $0, "album": album])
            }
            try context.save()
            _ = album.objects("photos")
            let request = BatchDeleteRequest(entityName: "Album")
            #expect(try context.execute(request).count == 3)
            photos[0]["stars"] = 1
            let fresh = try context.insert("Photo", ["name": "c", "album": album])
            let error = #expect(throws: QuireError.self) { try context.save() }
            #expect(error?.code == .mergeConflict)
            #expect(error?.failures.isEmpty == false)
            fresh["album"] = nil
            context.refresh(photos[0], mergeChanges: false)
            context.refresh(album, mergeChanges: false)
            try context.save()
            #expect(try context.texts("Photo") == ["c"])
            #expect(try context.texts("Album") == [])
            context.refreshAllObjects()
            #expect(throws: QuireError.self) {
                try context.existingObject(with: photos[1].objectID)
            }
        }
    }

    // Delete and insert with the same unique value in one save; then undo of a mistake by rollback.
    // objcio/core-data #2 (“Crash on adding new moody after delete”).
    @Test func aNewObjectMayTakeADeletedOnesUniqueValue() async throws {
        try await ContextStack.inAll(AlbumModel.model) { work, _ in
            let context = work.context
            let first = try context.insert("Label", ["word": "red"])
            try await work.save()
            context.delete(first)
            let second = try context.insert("Label", ["word": "red"])
            try await work.save()
            #expect(try context.texts("Label", "word") == ["red"])
            context.delete(second)
            let third = try context.insert("Label", ["word": "red"])
            context.rollback()
            #expect(third.managedObjectContext == nil && !second.isDeleted)
            #expect(try context.texts("Label", "word") == ["red"])
            try context.insert("Label", ["word": "red"])
            await #expect(throws: QuireError.self) { try await work.save() }
            context.rollback()
            work.main?.rollback()
            work.background?.performAndWait { $0.rollback() }
            #expect(try context.texts("Label", "word") == ["red"])
            second["word"] = "blue"
            try await work.save()
            #expect(try context.texts("Label", "word") == ["blue"])
        }
    }
}
