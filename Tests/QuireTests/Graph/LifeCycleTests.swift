import Quire
import QuireTestSupport
import Testing

/// Objects that write down which of their methods are called.
@MainActor @Suite struct LifeCycleTests {
    @MainActor static var calls: [String] = []

    class Noted: ManagedObject {
        var title: String { self["title", as: String.self] ?? "" }

        func note(_ call: String) {
            let title = isFault ? "fault" : self.title
            MainActor.assumeIsolated { LifeCycleTests.calls.append("\(title).\(call)") }
        }

        override func awakeFromInsert() { note("insert") }
        override func awakeFromFetch() {
            note("fetch")
            self["cache"] = title.uppercased()
        }
        override func awake(fromSnapshotEvents events: SnapshotEvents) {
            note("snapshot \(events.rawValue)")
            self["cache"] = title.uppercased()
        }
        override func willSave() { note("willSave") }
        override func didSave() { note("didSave") }
        override func prepareForDeletion() {
            note("prepareForDeletion \(object("parent")?["title", as: String.self] ?? "-")")
        }
        override func willTurnIntoFault() { note("willTurnIntoFault") }
        override func didTurnIntoFault() { note("didTurnIntoFault") }
    }

    /// Counts its saves.
    final class Counting: ManagedObject {
        var step: Int64 = 1
        var isPrimitive = false
        override func willSave() {
            let saves = (self["saves", as: Int64.self] ?? 0) + step
            if step == 0 { return }
            if isPrimitive {
                try? setPrimitiveValue(saves, forKey: "saves")
            } else {
                self["saves"] = saves
                if step > 0 && step < 100 { step = 0 }
            }
        }
    }

    /// Saves its context when it is about to be saved, or validated.
    final class Impatient: ManagedObject {
        var savesInValidation = false
        var error: QuireError?

        private func saveContext() {
            do { try managedObjectContext?.save() } catch { self.error = error as? QuireError }
        }

        override func willSave() { if !savesInValidation { saveContext() } }
        override func validateForInsert() throws {
            if savesInValidation { saveContext() }
            try super.validateForInsert()
        }
    }

    private static let model: ManagedObjectModel = {
        var model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "Node", FixtureModels.attribute("title", .string),
                FixtureModels.attribute("cache", .string) { $0.isTransient = true },
                FixtureModels.toOne("parent", "Node", "children"),
                FixtureModels.toMany("children", "Node", "parent", .cascade)),
            FixtureModels.entity("Counter", FixtureModels.attribute("saves", .integer64)),
            FixtureModels.entity("Impatient", FixtureModels.attribute("text", .string)),
        ])
        model.entities[0].objectClass = Noted.self
        model.entities[1].objectClass = Counting.self
        model.entities[2].objectClass = Impatient.self
        return model
    }()

    let stack: TestStack

    init() throws {
        stack = try TestStack(Self.model)
        Self.calls = []
    }

    private func calls() -> [String] {
        defer { Self.calls = [] }
        return Self.calls
    }

    private func node(_ title: String, in context: ManagedObjectContext) -> Noted {
        let node = Noted(context: context)
        node["title"] = title
        return node
    }

    @Test func aLifeInOneContext() throws {
        let context = stack.mainContext()
        let node = node("a", in: context)
        #expect(calls() == [".insert"])
        try context.save()
        #expect(calls() == ["a.willSave", "a.didSave"])
        try context.save()
        #expect(calls().isEmpty)
        node["title"] = "b"
        context.rollback()
        #expect(calls() == ["a.snapshot 16"])
        context.delete(node)
        try context.save()
        #expect(calls() == ["a.prepareForDeletion -", "a.willSave", "a.didSave"])
    }

    @Test func valuesSetOnArrivalChangeNothing() throws {
        let first = stack.mainContext()
        _ = node("a", in: first)
        try first.save()
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        _ = calls()
        let read = try #require(try context.fetch(FetchRequest("Node")).first)
        #expect(calls() == ["a.fetch"])
        #expect(read["cache", as: String.self] == "A")
        #expect(!read.hasChanges && !context.hasChanges)
        context.processPendingChanges()
        #expect(context.undoManager?.canUndo == false)
        read["title"] = "b"
        context.undo()
        #expect(calls() == ["a.snapshot 8"])
        #expect(read["cache", as: String.self] == "A")
        #expect(!read.hasPersistentChangedValues)
        // A fault that fires wakes too.
        let other = stack.mainContext()
        let fault = other.object(with: read.objectID)
        #expect(calls().isEmpty)
        #expect(fault["title", as: String.self] == "a")
        #expect(calls() == ["a.fetch"])
    }

    @Test func cascadedObjectsPrepareWhileTheirOwnerIsStillThere() throws {
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        let (root, child, leaf) = (
            node("root", in: context), node("child", in: context), node("leaf", in: context)
        )
        root.add(child, to: "children")
        child.add(leaf, to: "children")
        try context.save()
        _ = calls()
        context.delete(root)
        #expect(
            calls() == [
                "root.prepareForDeletion -", "child.prepareForDeletion root",
                "leaf.prepareForDeletion child",
            ])
        context.undo()
        #expect(calls().sorted() == ["child.snapshot 12", "leaf.snapshot 12", "root.snapshot 4"])
        context.redo()
        #expect(calls().sorted() == ["child.snapshot 10", "leaf.snapshot 10", "root.snapshot 2"])
    }

    @Test func aChildsObjectsArriveInTheParent() throws {
        let context = stack.nestedContext()
        let node = node("a", in: context)
        _ = calls()
        try context.save()
        // In the parent it comes as from a fetch; its own cache does not go up.
        #expect(calls() == ["a.willSave", "a.fetch", "a.didSave"])
        try #require(context.parent).performAndWait { try $0.save() }
        #expect(calls() == ["a.willSave", "a.didSave"])
        #expect(node["cache", as: String.self] == nil)
    }

    @Test func changesOfWillSaveArePartOfTheSave() throws {
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        let counter = Counting(context: context)
        try context.save()
        #expect(!context.hasChanges)
        #expect(try stack.stored("Counter", "saves") == ["integer(1)"])
        counter.isPrimitive = true
        counter.step = 5
        counter["saves"] = 2
        try context.save()
        #expect(try stack.stored("Counter", "saves") == ["integer(7)"])
    }

    @Test func willSaveWithoutEndIsAnError() throws {
        let context = stack.mainContext()
        let counter = Counting(context: context)
        counter.step = 100
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .invalidState)
        #expect(error?.subject.entity == "Counter")
        #expect(counter["saves", as: Int64.self] == 100_000)
        #expect(context.hasChanges)
    }

    @Test func relationshipsCannotBeChangedOnArrival() async {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            try await MainActor.run {
                final class Linking: ManagedObject {
                    override func awakeFromFetch() { self["parent"] = nil }
                }
                var model = ManagedObjectModel(entities: [
                    FixtureModels.entity("Node", FixtureModels.toOne("parent", "Node", nil))
                ])
                model.entities[0].objectClass = Linking.self
                let stack = try TestStack(model)
                let context = stack.mainContext()
                _ = Linking(context: context)
                try context.save()
                let other = stack.mainContext()
                for node in try other.fetch(FetchRequest("Node")) { _ = node.object("parent") }
            }
        }
        let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
        #expect(text.contains("must not change relationships"))
    }

    @Test func redoDoesNotInsertTwice() throws {
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        _ = node("a", in: context)
        context.undo()
        context.redo()
        #expect(calls() == [".insert", ".snapshot 10", "a.snapshot 12"])
    }

    @Test(arguments: [false, true])
    func saveWithinASaveIsAnError(savesInValidation: Bool) throws {
        let context = stack.mainContext()
        let object = Impatient(context: context)
        object.savesInValidation = savesInValidation
        object["text"] = "a"
        try context.save()
        #expect(object.error?.code == .invalidState)
        #expect(try stack.stored("Impatient", "text") == ["string(\"a\")"])
        object["text"] = "b"
        try context.save()
        #expect(!context.hasChanges)
    }
}
