import Foundation
import Quire
import Testing

/// Programs whose keys are locked while they work: forms, imports, lists, undo, editors.
@MainActor @Suite struct LockedWorkSituationTests {
    private func withStore(
        _ store: SituationStore,
        _ program: @MainActor (ProtectedStore, PersistentContainer) async throws -> Void
    ) async throws {
        try await withProgramFolder { folder in
            let protected = try ProtectedStore(in: folder)
            let container = try await protected.container(store)
            try await program(protected, container)
            try container.close()
        }
    }

    private func code(_ body: @MainActor () throws -> Void) -> QuireError.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? QuireError)?.code ?? .init(rawValue: "not a QuireError")
        }
    }

    // A form is filled in, the screen locks, and what was entered is gone. Kunzisoft/KeePassDX 764, PhilippC/keepass2android 2114,
    // bitwarden/desktop 389.
    @Test(arguments: SituationStore.files)
    func unsavedWorkOutlivesALock(store: SituationStore) async throws {
        try await withStore(store) { protected, container in
            let context = container.viewContext
            let edited = try context.addList("edited", tasks: ["kept", "deleted"])
            try context.save()
            let tasks = edited["tasks"] as? Set<ManagedObject> ?? []
            edited["name"] = "before"
            try context.addList("new")
            for task in tasks where task["title"] as? String == "deleted" { context.delete(task) }
            await protected.lock()
            for _ in 0..<2 {
                #expect(code { try context.save() } == .protectedDataUnavailable)
                #expect(context.insertedObjects.count == 1)
                #expect(context.deletedObjects.count == 1)
                #expect(edited["name"] as? String == "before")
            }
            edited["name"] = "locked"
            try context.addList("newer", tasks: ["written while locked"])
            try await protected.unlock()
            #expect(edited["name"] as? String == "locked")
            try context.save()
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            #expect(try other.names() == ["locked", "new", "newer"])
            #expect(try other.titles() == ["kept", "written while locked"])
            #expect(!protected.isReadable("while locked"))
        }
    }

    // A background refresh runs while the device is locked: it fails, and does its work later.
    // Apple Developer Forums thread 18118, “Data Protection Entitlements”.
    @Test(arguments: SituationStore.files)
    func anImportThatIsLockedOutGoesOnAfterwards(store: SituationStore) async throws {
        try await withStore(store) { protected, container in
            try container.viewContext.addList("first", tasks: ["one"])
            try container.viewContext.save()
            let background = container.newBackgroundContext()
            try await background.perform { context in
                try context.insertObject(entityName: "List")["name"] = "imported"
            }
            await protected.lock()
            let codes: [QuireError.Code?] = await background.perform { context in
                var codes: [QuireError.Code?] = []
                func note(_ body: () throws -> Void) {
                    do {
                        try body()
                        codes.append(nil)
                    } catch { codes.append((error as? QuireError)?.code) }
                }
                note { try context.save() }
                note { _ = try context.count(for: FetchRequest<ManagedObject>("Task")) }
                note { _ = try context.execute(BatchDeleteRequest(entityName: "Task")) }
                note {
                    _ = try context.execute(
                        BatchInsertRequest(
                            entityName: "Task", objects: [["title": .string("batch")]]))
                }
                return codes
            }
            #expect(codes == Array(repeating: .protectedDataUnavailable, count: 4))
            try await protected.unlock()
            try await background.perform { try $0.save() }
            #expect(try container.viewContext.names() == ["first", "imported"])
            #expect(try container.viewContext.titles() == ["one"])
        }
    }

    // A list on the screen while the keys are locked: its rows stay, a reload fails, and it follows changes again afterwards.
    // Apple, “Encrypting Your App's Files” (protected data becomes unavailable while the app runs).
    @Test(arguments: SituationStore.files)
    func aListOutlivesALock(store: SituationStore) async throws {
        try await withStore(store) { protected, container in
            let context = container.viewContext
            let list = try context.addList("first")
            try context.save()
            var request = FetchRequest<ManagedObject>("List")
            request.sortOrderings = [SortOrdering("name")]
            let results = FetchedResultsController(
                fetchRequest: request, managedObjectContext: context)
            try results.performFetch()
            await protected.lock()
            #expect(results.fetchedObjects?.map { $0 } == [list])
            #expect(code { try results.performFetch() } == .protectedDataUnavailable)
            try await protected.unlock()
            try context.addList("second")
            list["name"] = "third"
            try context.save()
            try results.performFetch()
            #expect(
                results.fetchedObjects?.compactMap { $0["name", as: String.self] } == [
                    "second", "third",
                ])
        }
    }

    // A folder is deleted while its items cannot be read: none of them may be left behind.
    // Apple Developer Forums thread 18118, “Data Protection Entitlements”.
    @Test(arguments: SituationStore.files, [false, true])
    func aDeletionWhileLockedLeavesNoOrphans(
        store: SituationStore, isFault: Bool
    ) async throws {
        try await withStore(store) { protected, container in
            try container.viewContext.addList("list", tasks: ["one", "two"])
            try container.viewContext.addList("other", tasks: ["three"])
            try container.viewContext.save()
            let context = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let list = try #require(try context.list("list"))
            if isFault { context.refresh(list, mergeChanges: false) }
            await protected.lock()
            _ = context.takeFaultError()
            context.delete(list)
            #expect(context.takeFaultError()?.code == .protectedDataUnavailable)
            #expect(!list.isDeleted && !context.hasChanges)
            try await protected.unlock()
            context.delete(list)
            try context.save()
            let reader = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            #expect(try reader.names() == ["other"])
            #expect(try reader.titles() == ["three"])
        }
    }

    // An editor saves to its parent while the keys are locked, and its user undoes and discards there.
    // bitwarden/mobile 669, PhilippC/keepass2android 320.
    @Test(arguments: SituationStore.files)
    func anEditorSavesToItsParentWhileLocked(store: SituationStore) async throws {
        try await withStore(store) { protected, container in
            let context = container.viewContext
            let list = try context.addList("saved", tasks: ["one"])
            try context.save()
            context.undoManager = UndoManager()
            let child = ManagedObjectContext.mainQueue(parent: context)
            let copy = child.object(with: list.objectID)
            #expect(copy["name"] as? String == "saved")
            await protected.lock()
            copy["name"] = "edited"
            try child.save()
            context.processPendingChanges()
            #expect(list["name"] as? String == "edited")
            #expect(code { try context.save() } == .protectedDataUnavailable)
            context.undo()
            #expect(list["name"] as? String == "saved")
            context.redo()
            try await protected.unlock()
            try context.save()
            list["name"] = "discarded"
            await protected.lock()
            context.rollback()
            try await protected.unlock()
            _ = context.takeFaultError()
            #expect(list["name"] as? String == "edited")
            #expect(try context.titles() == ["one"])
        }
    }

    // A picture in a file of its own is changed while the keys are locked. taourl.com/read-1862608.html.
    @Test(arguments: SituationStore.files)
    func aPictureIsChangedWhileLocked(store: SituationStore) async throws {
        try await withStore(store) { protected, container in
            let context = container.viewContext
            let first = Data(String(repeating: "first picture ", count: 20_000).utf8)
            let second = Data(String(repeating: "second picture ", count: 20_000).utf8)
            let list = try context.addList("list", picture: first)
            try context.save()
            context.refresh(list, mergeChanges: false)
            #expect(list["name"] as? String == "list")
            await protected.lock()
            list["picture"] = second
            #expect(code { try context.save() } == .protectedDataUnavailable)
            #expect(!protected.isReadable("second picture"))
            try await protected.unlock()
            #expect(list["picture"] as? Data == second)
            try context.save()
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            #expect(try other.list("list")?["picture"] as? Data == second)
            #expect(!protected.isReadable("first picture"))
            #expect(!protected.isReadable("second picture"))
        }
    }

    // Two persons with keys of their own in one program: the lock of one is not that of the other, and neither opens the other's
    // store. realm/realm-swift 4257 (the wrong key for a file).
    @Test(arguments: SituationStore.files)
    func twoPersonsLockForThemselves(store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let (me, you) = (
                try ProtectedStore(in: folder), try ProtectedStore(in: folder, named: "you")
            )
            let (mine, yours) = (
                try await me.container(store, named: "Mine"),
                try await you.container(store, named: "Yours")
            )
            try mine.viewContext.addList("mine")
            try mine.viewContext.save()
            await you.lock()
            #expect(try mine.viewContext.names() == ["mine"])
            try mine.viewContext.addList("more")
            try mine.viewContext.save()
            #expect(code { _ = try yours.viewContext.names() } == .protectedDataUnavailable)
            do {
                try await you.domain.unlock(keyFile: me.keyFile)
                Issue.record("a key of another person unlocked it")
            } catch let error as QuireError { #expect(error.code == .wrongKey) }
            await me.lock()
            try await you.unlock()
            try yours.viewContext.addList("yours")
            try yours.viewContext.save()
            #expect(code { _ = try mine.viewContext.names() } == .protectedDataUnavailable)
            try await me.unlock()
            #expect(try mine.viewContext.names() == ["mine", "more"])
            #expect(try yours.viewContext.names() == ["yours"])
            try mine.close()
            try yours.close()
        }
    }

    // A new version of the program starts while the keys are locked, and has to migrate the store.
    // “Work with background location updates and Core Data file protection” (geek-answers.imtqy.com, 791796).
    @Test(arguments: SituationStore.files)
    func aMigrationWaitsForTheKeys(store: SituationStore) async throws {
        let newer = ManagedObjectModel {
            Entity("List") {
                Attribute("name", .string)
                Attribute("picture", .binary).externalStorage()
                Attribute("color", .string).default("red")
                ToMany("tasks", "Task", inverse: "list").deleteRule(.cascade)
            }
            Entity("Task") {
                Attribute("title", .string)
                ToOne("list", "List", inverse: "tasks")
            }
        }
        try await withProgramFolder { folder in
            let protected = try ProtectedStore(in: folder)
            let former = try await protected.container(store)
            try former.viewContext.addList("kept", tasks: ["in the old version"])
            try former.viewContext.save()
            try former.close()
            await protected.lock()
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            do {
                try await protected.container(store, model: newer).close()
                Issue.record("opened without its keys")
            } catch let error as QuireError { #expect(error.code == .protectedDataUnavailable) }
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == names)
            try await protected.unlock()
            let migrated = try await protected.container(store, model: newer)
            let list = try #require(try migrated.viewContext.list("kept"))
            #expect(list["color"] as? String == "red")
            #expect(try migrated.viewContext.titles() == ["in the old version"])
            #expect(!protected.isReadable("in the old version"))
            try migrated.close()
        }
    }
}
