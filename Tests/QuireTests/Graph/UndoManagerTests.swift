import Foundation
import Quire
import QuireTestSupport
import Testing

/// The undo manager by itself, taking back changes of a number.
@MainActor @Suite struct UndoManagerTests {
    @MainActor final class Counter {
        var value = 0
        let undoManager: Quire.UndoManager

        init(_ undoManager: Quire.UndoManager) { self.undoManager = undoManager }

        func set(_ new: Int) {
            let old = value
            value = new
            undoManager.registerUndo(withTarget: self) { counter in
                MainActor.assumeIsolated { counter.set(old) }
            }
        }
    }

    let undoManager = Quire.UndoManager()
    let counter: Counter

    init() {
        undoManager.groupsByEvent = false
        counter = Counter(undoManager)
    }

    private func step(_ value: Int, _ name: String = "") {
        undoManager.beginUndoGrouping()
        if !name.isEmpty { undoManager.setActionName(name) }
        counter.set(value)
        undoManager.endUndoGrouping()
    }

    @Test func namesGoWithTheirGroups() {
        #expect(undoManager.undoMenuItemTitle == "Undo")
        step(1, "One")
        step(2, "Two")
        #expect(undoManager.undoMenuItemTitle == "Undo Two")
        undoManager.undo()
        #expect(undoManager.undoActionName == "One")
        #expect(undoManager.redoMenuItemTitle == "Redo Two")
        undoManager.setActionName("First")
        #expect(undoManager.undoMenuItemTitle == "Undo First")
        #expect(undoManager.redoActionName == "Two")
    }

    @Test func nestedGroupsAreUndoneAsOne() {
        undoManager.beginUndoGrouping()
        step(1)
        undoManager.beginUndoGrouping()
        #expect(undoManager.groupingLevel == 2)
        step(2)
        counter.set(3)
        undoManager.endUndoGrouping()
        undoManager.endUndoGrouping()
        #expect(undoManager.undoCount == 1)
        undoManager.undo()
        #expect(counter.value == 0)
        undoManager.redo()
        #expect(counter.value == 3)
    }

    @Test func aNestedGroupCanBeUndoneAlone() {
        undoManager.beginUndoGrouping()
        counter.set(1)
        step(2)
        step(3)
        undoManager.undoNestedGroup()
        #expect(counter.value == 2)
        undoManager.undoNestedGroup()
        #expect(counter.value == 1)
        #expect(undoManager.canRedo)
        undoManager.endUndoGrouping()
        undoManager.undoNestedGroup()
        #expect(counter.value == 0)
        undoManager.redo()
        #expect(counter.value == 1)
    }

    @Test func undoClosesTheOutermostGroup() {
        undoManager.beginUndoGrouping()
        counter.set(1)
        undoManager.undo()
        #expect(counter.value == 0)
        #expect(undoManager.groupingLevel == 0)
    }

    @Test(arguments: [false, true])
    func undoWithinNestedGroupsOpensThemAgain(groupsByEvent: Bool) {
        undoManager.groupsByEvent = groupsByEvent
        step(1, "One")
        undoManager.beginUndoGrouping()
        undoManager.setActionName("Two")
        counter.set(2)
        undoManager.beginUndoGrouping()
        counter.set(3)
        let level = undoManager.groupingLevel
        undoManager.undo()
        #expect(counter.value == (groupsByEvent ? 0 : 1))
        #expect(undoManager.groupingLevel == level)
        undoManager.redo()
        #expect(counter.value == 3 && undoManager.redoCount == 0)
        undoManager.undo()
        counter.set(4)
        #expect(!undoManager.canRedo)
        undoManager.endUndoGrouping()
        undoManager.endUndoGrouping()
        #expect(undoManager.undoActionName == "Two")
        undoManager.undo()
        #expect(counter.value == (groupsByEvent ? 0 : 1))
        #expect(undoManager.groupingLevel == 0)
    }

    @Test func emptyGroupsAreNotKept() {
        undoManager.beginUndoGrouping()
        undoManager.beginUndoGrouping()
        undoManager.endUndoGrouping()
        undoManager.endUndoGrouping()
        #expect(!undoManager.canUndo)
    }

    @Test func registrationIsDisabledAsOftenAsItIsEnabled() {
        undoManager.disableUndoRegistration()
        undoManager.disableUndoRegistration()
        undoManager.enableUndoRegistration()
        step(1)
        #expect(!undoManager.canUndo)
        undoManager.enableUndoRegistration()
        step(2)
        undoManager.undo()
        #expect(counter.value == 1)
    }

    @Test func theActionsOfATargetCanBeRemoved() {
        let other = Counter(undoManager)
        step(1)
        undoManager.beginUndoGrouping()
        counter.set(2)
        other.set(2)
        undoManager.endUndoGrouping()
        step(3)
        undoManager.removeAllActions(withTarget: counter)
        #expect(undoManager.undoCount == 1)
        undoManager.undo()
        #expect((counter.value, other.value) == (3, 0))
        undoManager.removeAllActions()
        #expect(!undoManager.canUndo && !undoManager.canRedo)
    }

    @Test func targetsAreNotRetained() {
        weak var target: Counter?
        do {
            let counter = Counter(undoManager)
            target = counter
            undoManager.beginUndoGrouping()
            counter.set(1)
            undoManager.endUndoGrouping()
        }
        #expect(target == nil)
        undoManager.undo()
        #expect(!undoManager.canUndo)
    }

    @Test func levelsForgetTheOldest() {
        for value in 1...5 { step(value) }
        undoManager.levelsOfUndo = 3
        #expect(undoManager.undoCount == 3)
        step(6)
        #expect(undoManager.undoCount == 3)
        while undoManager.canUndo { undoManager.undo() }
        #expect(counter.value == 3)
        #expect(undoManager.redoCount == 3)
        while undoManager.canRedo { undoManager.redo() }
        #expect(counter.value == 6)
    }

    @Test func discardableGroupsAreMarked() {
        step(1)
        undoManager.beginUndoGrouping()
        counter.set(2)
        undoManager.setActionIsDiscardable(true)
        undoManager.endUndoGrouping()
        #expect(undoManager.undoActionIsDiscardable)
        undoManager.undo()
        #expect(!undoManager.undoActionIsDiscardable)
        #expect(undoManager.redoActionIsDiscardable)
    }

    @Test func notificationsTellWhatHappens() {
        let names: [(Notification.Name, String)] = [
            (Quire.UndoManager.checkpointNotification, "checkpoint"),
            (Quire.UndoManager.didOpenUndoGroupNotification, "open"),
            (Quire.UndoManager.willCloseUndoGroupNotification, "will close"),
            (Quire.UndoManager.didCloseUndoGroupNotification, "close"),
            (Quire.UndoManager.willUndoChangeNotification, "will undo"),
            (Quire.UndoManager.didUndoChangeNotification, "undo"),
            (Quire.UndoManager.willRedoChangeNotification, "will redo"),
            (Quire.UndoManager.didRedoChangeNotification, "redo"),
        ]
        nonisolated(unsafe) var told: [String] = []
        let observers = names.map { name, text in
            NotificationCenter.default.addObserver(forName: name, object: undoManager, queue: nil) {
                _ in told.append(text)
            }
        }
        defer { for observer in observers { NotificationCenter.default.removeObserver(observer) } }
        step(1)
        #expect(told == ["open", "checkpoint", "will close", "close"])
        told = []
        undoManager.undo()
        #expect(
            told == ["checkpoint", "will undo", "open", "will close", "close", "undo"])
        told = []
        undoManager.redo()
        #expect(
            told == ["checkpoint", "will redo", "open", "will close", "close", "redo"])
    }

    @Test(arguments: ["register", "end", "undo in undo", "enable"])
    func misuseStopsTheProgram(kind: String) async {
        let result: ExitTest.Result?
        switch kind {
        case "register":
            result = await #expect(
                processExitsWith: .failure, observing: [\.standardErrorContent]
            ) {
                let undoManager = Quire.UndoManager()
                undoManager.groupsByEvent = false
                undoManager.registerUndo(withTarget: undoManager) { _ in }
            }
        case "end":
            result = await #expect(
                processExitsWith: .failure, observing: [\.standardErrorContent]
            ) { Quire.UndoManager().endUndoGrouping() }
        case "undo in undo":
            result = await #expect(
                processExitsWith: .failure, observing: [\.standardErrorContent]
            ) {
                let undoManager = Quire.UndoManager()
                undoManager.registerUndo(withTarget: undoManager) { $0.undo() }
                undoManager.undo()
            }
        default:
            result = await #expect(
                processExitsWith: .failure, observing: [\.standardErrorContent]
            ) { Quire.UndoManager().enableUndoRegistration() }
        }
        let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
        let words = [
            "register": "beginUndoGrouping() first", "end": "without beginUndoGrouping()",
            "undo in undo": "during undo or redo", "enable": "without disableUndoRegistration()",
        ]
        #expect(text.contains(words[kind] ?? "?"))
    }
}
