import Foundation
import Quire
import Testing

/// Methods of classes that change, insert, delete, fetch or count while the context works.
@MainActor @Suite struct CallbackSituationTests {
    /// A task in a numbered list, which notes in a journal what happens to it.
    final class Task: ManagedObject {
        var title: String? { self["title", as: String.self] }

        private var all: [ManagedObject] {
            guard let context = managedObjectContext else { return [] }
            let request = FetchRequest<ManagedObject>(
                "Task", sortOrderings: [SortOrdering("position")])
            return (try? context.fetch(request)) ?? []
        }

        override func awakeFromInsert() {
            self["position"] = ((all.compactMap { $0["position"] as? Int }).max() ?? 0) + 1
            self["created"] = Date(timeIntervalSince1970: 1000)
        }

        override func awakeFromFetch() { self["shout"] = title?.uppercased() }

        override func awake(fromSnapshotEvents events: SnapshotEvents) {
            self["shout"] = title?.uppercased()
        }

        override func willSave() {
            guard let context = managedObjectContext else { return }
            if isDeleted {
                _ = try? context.insert("Entry", ["text": "deleted"])
                return
            }
            let revision = (self["revision"] as? Int ?? 0)
            let saved =
                (try? committedValues(forKeys: ["revision"])["revision"]).map { "\($0)" } ?? ""
            // Once in each save, however often it is called.
            if isInserted ? revision == 0 : saved.contains("(\(revision))") {
                self["revision"] = revision + 1
                _ = try? context.insert("Entry", ["text": "saved \(title ?? "-")", "task": self])
            }
            // A task without a list has no place: it deletes itself.
            if title == "orphan" { context.delete(self) }
        }

        override func didSave() {
            guard !isDeleted, title == "restless", self["note"] as? String == nil else { return }
            self["note"] = "set by didSave"
        }

        override func prepareForDeletion() {
            let position = self["position"] as? Int ?? 0
            for other in all where other !== self && !other.isDeleted {
                if let theirs = other["position"] as? Int, theirs > position {
                    other["position"] = theirs - 1
                }
            }
        }

        override func validateForInsert() throws {
            try super.validateForInsert()
            try checkTitle()
        }

        override func validateForUpdate() throws {
            try super.validateForUpdate()
            try checkTitle()
        }

        override func validateForDelete() throws {
            try super.validateForDelete()
            if self["note"] as? String == "keep" {
                throw QuireError(.validation, "A task to keep cannot be deleted.")
            }
        }

        /// Looks for another task of the same title.
        private func checkTitle() throws {
            guard let title, let context = managedObjectContext else { return }
            let same = try QueryPredicate(format: "title == %@ AND SELF != %@", title, self)
            if try context.count(for: FetchRequest<ManagedObject>("Task", predicate: same)) > 0 {
                throw QuireError(.validation, "There are two tasks named \(title).")
            }
        }

        override func validateValue(_ value: inout AttributeValue, forKey key: String) throws {
            if key == "title", case .string(let text) = value {
                value = .string(text.trimmingCharacters(in: .whitespaces))
            }
            try super.validateValue(&value, forKey: key)
        }
    }

    private static let model: ManagedObjectModel = {
        var model = ManagedObjectModel {
            Entity("Task") {
                Attribute("title", .string).required()
                Attribute("note", .string)
                Attribute("shout", .string).transient()
                Attribute("position", .integer32).default(0)
                Attribute("revision", .integer32).default(0)
                Attribute("created", .date)
                ToMany("entries", "Entry", inverse: "task").deleteRule(.nullify)
            }
            Entity("Entry") {
                Attribute("text", .string)
                ToOne("task", "Task", inverse: "entries")
            }
        }
        do { try model.bind(Task.self, to: "Task") } catch { Issue.record(error) }
        return model
    }()

    private func positions(_ context: ManagedObjectContext) throws -> [String: Int] {
        let tasks: [ManagedObject] = try context.fetch(FetchRequest<ManagedObject>("Task"))
        return Dictionary(
            uniqueKeysWithValues: tasks.map {
                ($0["title"] as? String ?? "", $0["position"] as? Int ?? -1)
            })
    }

    // willSave() sets a modification date, or counts revisions, and adds to a journal: once in each save, also if a child saves to
    // its parent, and everything is part of the save. Apple, NSManagedObject.willSave() (“if you continue to modify a value in
    // willSave, willSave will continue to be called until your program crashes”).
    @Test func willSaveCountsRevisionsAndWritesAJournal() async throws {
        try await ContextStack.inAll(Self.model) { work, others in
            let context = work.context
            let task = try context.insert("Task", ["title": "a"])
            try await work.save()
            #expect(task["revision"] as? Int == 1)
            #expect(!context.hasChanges)
            task["note"] = "x"
            try await work.save()
            #expect(task["revision"] as? Int == 2)
            try await work.save()
            #expect(task["revision"] as? Int == 2)
            #expect(try context.texts("Entry", "text") == ["saved a", "saved a"])
            context.delete(task)
            try await work.save()
            // A deletion is saved in the child, and in its parent.
            let entries =
                Array(repeating: "deleted", count: work.savingContextCount) + [
                    "saved a", "saved a",
                ]
            #expect(try context.texts("Entry", "text") == entries)
            try others.newBackgroundContext().performAndWait { other throws in
                #expect(try other.texts("Entry", "text") == entries)
                #expect(try other.texts("Entry", "text", where: "task != nil") == [])
            }
        }
    }

    // An object deletes itself in willSave() because nobody refers to it any more, a usual recipe for orphans. Apple,
    // NSManagedObject.willSave() (“you can find out if an object is marked for deletion with isDeleted”).
    @Test func anObjectMayDeleteItselfInWillSave() async throws {
        try await ContextStack.inAll(Self.model) { work, _ in
            let context = work.context
            let first = try context.insert("Task", ["title": "first"])
            let orphan = try context.insert("Task", ["title": "orphan"])
            let last = try context.insert("Task", ["title": "last"])
            try await work.save()
            #expect(orphan.managedObjectContext == nil)
            #expect(try context.texts("Task", "title") == ["first", "last"])
            #expect([first, last].map { $0["position"] as? Int } == [1, 2])
            // A saved one that becomes an orphan.
            first["title"] = "orphan"
            try await work.save()
            #expect(first.managedObjectContext == nil)
            #expect(try positions(context) == ["last": 1])
            #expect(!context.hasChanges)
        }
    }

    // didSave() changes a model object: a change for the next save, which neither gets lost nor loops.
    // wordpress-mobile/WordPress-iOS pull request #19765 (“triggers the didSave method that updates another model”).
    @Test func aChangeInDidSaveIsUnsaved() async throws {
        try await ContextStack.inAll(Self.model) { work, others in
            let context = work.context
            let task = try context.insert("Task", ["title": "restless"])
            try context.save()
            #expect(task["note"] as? String == "set by didSave")
            #expect(context.hasChanges && task.isUpdated)
            for _ in 0..<3 { try await work.save() }
            #expect(!context.hasChanges)
            let id = task.objectID
            try others.newBackgroundContext().performAndWait { other throws in
                #expect(try other.existingObject(with: id)["note"] as? String == "set by didSave")
            }
        }
    }

    // awakeFromInsert() looks up the highest position, with unsaved and saved tasks, in every context; an insertion that is
    // saved through a parent is not numbered again. SwiftLee, “NSManagedObject events: handling state in Core Data”.
    @Test func awakeFromInsertMayFetch() async throws {
        try await ContextStack.inAll(Self.model) { work, _ in
            let context = work.context
            for title in ["a", "b"] { try context.insert("Task", ["title": title]) }
            try await work.save()
            for title in ["c", "d"] { try context.insert("Task", ["title": title]) }
            if let main = work.main { try main.insert("Task", ["title": "main"]) }
            try await work.save()
            var expected = ["a": 1, "b": 2, "c": 3, "d": 4]
            // Neither context knew of the other's unsaved insertions, or the child of its parent's.
            if work.main != nil { expected["main"] = 3 }
            #expect(try positions(context) == expected)
            #expect(
                try context.texts(
                    "Task", "title", where: "created == %@",
                    Date(timeIntervalSince1970: 1000)
                ).count == expected.count)
        }
    }

    // prepareForDeletion() renumbers what comes after, which is fetched; several are deleted in one event, and one of them is
    // taken back. the-blue-alliance/the-blue-alliance-ios #593 (crash in prepareForDeletion while a merge deletes).
    @Test func prepareForDeletionRenumbersTheRest() async throws {
        try await ContextStack.inAll(Self.model) { work, others in
            let context = work.context
            for title in ["a", "b", "c", "d", "e"] { try context.insert("Task", ["title": title]) }
            try await work.save()
            let tasks: [ManagedObject] = try context.fetch(
                FetchRequest<ManagedObject>("Task", sortOrderings: [SortOrdering("position")]))
            context.delete(tasks[1])
            context.delete(tasks[3])
            #expect(try positions(context) == ["a": 1, "c": 2, "e": 3])
            try await work.save()
            #expect(try positions(context) == ["a": 1, "c": 2, "e": 3])
            // Another context that merges the deletion does not renumber again.
            let other = ManagedObjectContext.mainQueue(
                coordinator: others.persistentStoreCoordinator)
            let theirs: [ManagedObject] = try other.fetch(FetchRequest<ManagedObject>("Task"))
            let id = tasks[0].objectID
            context.delete(tasks[0])
            try await work.save()
            other.mergeChanges(
                from: ObjectIDChanges(
                    updated: [tasks[2].objectID, tasks[4].objectID], deleted: [id]))
            #expect(theirs.count == 3)
            #expect(!other.hasChanges)
            #expect(try positions(other) == ["c": 1, "e": 2])
        }
    }

    // Validation that looks at other objects, and a rule against deletion. A failed save leaves everything as it was before,
    // in every context. Apple, “Core Data Programming Guide”, validateForInsert/Update/Delete.
    @Test func validationMayFetchAndRefuseADeletion() async throws {
        try await ContextStack.inAll(Self.model) { work, _ in
            let context = work.context
            let first = try context.insert("Task", ["title": "a"])
            try await work.save()
            let second = try context.insert("Task", ["title": "a"])
            let error = #expect(throws: QuireError.self) { try context.save() }
            #expect(error?.code == .validation)
            second["title"] = "  b "
            try await work.save()
            #expect(second["title"] as? String == "b")
            #expect(try context.texts("Task", "title") == ["a", "b"])
            first["title"] = "b"
            #expect(throws: QuireError.self) { try context.save() }
            context.refresh(first, mergeChanges: false)
            #expect(first["title"] as? String == "a")
            first["note"] = "keep"
            try await work.save()
            context.delete(first)
            #expect(throws: QuireError.self) { try context.save() }
            #expect(first.isDeleted)
            #expect(work.main?.hasChanges != true)
            context.rollback()
            #expect(try positions(context) == ["a": 1, "b": 2])
            try await work.save()
            context.reset()
            #expect(try positions(context) == ["a": 1, "b": 2])
        }
    }

    // A transient value is computed when an object is fetched, and again after a refresh, a merge, a rollback and undo; it never
    // makes the object dirty, and a save keeps it. Apple, refresh(_:mergeChanges:) (“transient properties are disposed of”).
    @Test func aTransientValueFollowsWhatItIsComputedFrom() async throws {
        try await ContextStack.inAll(Self.model) { work, others in
            let context = work.context
            context.undoManager = UndoManager()
            let task = try context.insert("Task", ["title": "a"])
            try await work.save()
            context.refresh(task, mergeChanges: false)
            #expect(task["shout"] as? String == "A")
            #expect(!context.hasChanges && !task.hasChanges)
            task["title"] = "b"
            task["shout"] = "B"
            #expect(task.changedValues().keys.contains("title"))
            context.processPendingChanges()
            context.undo()
            #expect(task["title"] as? String == "a" && task["shout"] as? String == "A")
            context.redo()
            #expect(task["title"] as? String == "b" && task["shout"] as? String == "B")
            try await work.save()
            #expect(task["shout"] as? String == "B")
            #expect(!context.hasChanges)
            task["title"] = "c"
            context.rollback()
            #expect(task["shout"] as? String == "B")
            let id = task.objectID
            try others.newBackgroundContext().performAndWait { other throws in
                let task = try other.existingObject(with: id)
                #expect(task["shout"] as? String == "B")
                task["title"] = "d"
                try other.save()
            }
            work.main?.refreshAllObjects()
            work.background?.performAndWait { $0.refreshAllObjects() }
            context.refresh(task, mergeChanges: true)
            #expect(task["title"] as? String == "d" && task["shout"] as? String == "D")
            #expect(!context.hasChanges)
            #expect(try context.texts("Task", "shout").first == "D")
        }
    }

    /// Prepares an editable copy of its text when it is read, and takes an old form of it into a new one.
    final class Draft: ManagedObject {
        override func awakeFromFetch() {
            self["draft"] = self["text", as: String.self]
            if self["format"] as? Int == 1 {
                self["text"] = (self["text", as: String.self] ?? "") + " (converted)"
                self["format"] = 2
            }
        }
    }

    // The very first value that is read of a fault is one that awakeFromFetch() sets; or the fault is changed before anything is
    // read of it, and awakeFromFetch() comes after. Apple, NSManagedObject.awakeFromFetch() (“use this method to establish
    // transient properties … when an object is retrieved from a persistent store”).
    @Test(arguments: SituationStore.allCases)
    func theFirstReadOfAFaultSeesWhatAwakeFromFetchSets(_ store: SituationStore) async throws {
        var model = ManagedObjectModel {
            Entity("Page") { ToMany("drafts", "Draft", inverse: "page") }
            Entity("Draft") {
                Attribute("text", .string)
                Attribute("draft", .string).transient()
                Attribute("format", .integer16).default(1)
                ToOne("page", "Page", inverse: "drafts")
            }
        }
        try model.bind(Draft.self, to: "Draft")
        try await withSituation(store, model) { container in
            let context = container.viewContext
            let page = try context.insertObject(entityName: "Page")
            let draft = try context.insert("Draft", ["text": "a", "page": page])
            try context.save()
            let (id, pageID) = (draft.objectID, page.objectID)
            var others: [ManagedObjectContext] = []
            /// A fault, however it came to be one.
            @MainActor func fault(_ way: Int) -> ManagedObject {
                switch way {
                case 0: context.refresh(draft, mergeChanges: false)
                case 1: context.refreshAllObjects()
                case 2:
                    context.mergeChanges(from: ObjectIDChanges(updated: [id]))
                default:
                    let other = ManagedObjectContext.mainQueue(
                        coordinator: container.persistentStoreCoordinator)
                    others.append(other)
                    if way == 3 { return other.object(with: id) }
                    return other.object(with: pageID).objects("drafts")[0]
                }
                return draft
            }
            for way in 0..<5 {
                #expect(fault(way)["draft"] as? String == "a", "\(way)")
                #expect(fault(way)["text"] as? String == "a (converted)", "\(way)")
                #expect(fault(way)["format"] as? Int == 2, "\(way)")
                #expect(try fault(way).value(forKey: "draft") as? String == "a", "\(way)")
                #expect(fault(way)["draft", as: String.self] == "a", "\(way)")
                #expect(
                    try QueryPredicate(format: "draft == 'a'").evaluate(with: fault(way)), "\(way)")
                #expect(!context.hasChanges)

                let changed = fault(way)
                changed["draft"] = "mine"
                #expect(changed["text"] as? String == "a (converted)")
                #expect(changed["draft"] as? String == "mine", "\(way)")
                let other = try #require(changed.managedObjectContext)
                other.rollback()
                let again = fault(way)
                again["page"] = nil
                #expect(again["draft"] as? String == "a")
                again.managedObjectContext?.rollback()
                #expect(again["draft"] as? String == "a", "\(way)")
                #expect(again["text"] as? String == "a (converted)", "\(way)")
            }
            // What awakeFromFetch() has set does not count as a change, but goes with the next one.
            #expect(!context.hasChanges)
            draft["draft"] = "b"
            draft["page"] = nil
            try context.save()
        }
    }
}
