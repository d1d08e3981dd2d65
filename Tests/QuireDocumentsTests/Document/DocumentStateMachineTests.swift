import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite struct DocumentStateMachineTests {
    typealias Machine = DocumentStateMachine<Int, Int>
    let existing = OpenRequest()

    private func openMachine(dirty: Bool = false) -> Machine {
        var machine = Machine()
        _ = machine.submit(.open(existing), for: 0)
        _ = machine.finish(succeeded: true)
        machine.hasUnsavedChanges = dirty
        return machine
    }

    @Test func openingGoesFromClosedToNormal() {
        var machine = Machine()
        #expect(machine.state == .closed)
        #expect(
            machine.submit(.open(existing), for: 1) == [
                .stateChanged(.closed, [.closed, .progressAvailable]), .start(.open(existing)),
            ])
        #expect(
            machine.finish(succeeded: true) == [
                .answer([1], .done), .stateChanged([.closed, .progressAvailable], .normal),
            ])
        #expect(machine.isOpen)
    }

    @Test func failedOpeningMayBeTriedAgain() {
        var machine = Machine()
        _ = machine.submit(.open(existing), for: 1)
        #expect(machine.finish(succeeded: false).contains(.answer([1], .failed)))
        #expect(machine.state == .closed)
        #expect(machine.submit(.open(existing), for: 2).contains(.start(.open(existing))))
    }

    @Test func openingTwiceIsOneOpening() {
        var machine = Machine()
        _ = machine.submit(.open(existing), for: 1)
        #expect(machine.submit(.open(existing), for: 2) == [])
        #expect(machine.finish(succeeded: true).contains(.answer([1, 2], .done)))
        #expect(machine.submit(.open(existing), for: 3) == [.answer([3], .done)])
    }

    @Test func creationNeverJoins() {
        var machine = Machine()
        let creation = OpenRequest(isCreation: true)
        _ = machine.submit(.open(creation), for: 1)
        #expect(machine.submit(.open(creation), for: 2) == [])
        let effects = machine.finish(succeeded: true)
        #expect(effects.contains(.answer([1], .done)))
        #expect(effects.contains(.answer([2], .alreadyOpen)))
        #expect(machine.submit(.open(existing), for: 3) == [.answer([3], .done)])
        let reading = OpenRequest(isReadOnly: true)
        #expect(machine.submit(.open(reading), for: 4) == [.answer([4], .alreadyOpen)])
    }

    @Test func closeDuringCreationLeavesIt() {
        var machine = Machine()
        _ = machine.submit(.open(.init(isCreation: true)), for: 1)
        _ = machine.submit(.close(discardingChanges: false), for: 2)
        #expect(machine.finish(succeeded: true).contains(.answer([1], .done)))
        #expect(machine.finish(succeeded: true).contains(.answer([2], .done)))
        #expect(machine.state == .closed)
    }

    @Test func saveToPathIsDecidedWhenItsTurnComes() {
        func target(_ path: String, _ operation: SaveOperation) -> Machine.SaveTarget {
            .init(
                path: path, operation: operation,
                creation: OpenRequest(isCreation: true, path: path), work: 1)
        }
        func started(_ target: Machine.SaveTarget, _ machine: inout Machine) -> Machine.Operation? {
            for case .start(let operation) in machine.submit(.saveTo(target), for: 1) {
                return operation
            }
            return nil
        }
        var closed = Machine()
        closed.path = "/A"
        #expect(started(target("/A", .forOverwriting), &closed) == nil)
        let creation = target("/B", .forCreating)
        #expect(started(creation, &closed) == .open(creation.creation))

        var machine = openMachine()
        machine.path = "/A"
        #expect(started(target("/A", .forOverwriting), &machine) == .save)
        // The path that it has by then counts, and whether it is still open.
        #expect(machine.submit(.saveTo(target("/A", .forOverwriting)), for: 2) == [])
        machine.path = "/B"
        #expect(machine.finish(succeeded: true).contains(.start(.saveAs(1))))
        #expect(machine.submit(.close(discardingChanges: false), for: 3) == [])
        #expect(machine.submit(.saveTo(creation), for: 4) == [])
        #expect(machine.finish(succeeded: true).contains(.start(.close)))
        #expect(machine.finish(succeeded: true).contains(.start(.open(creation.creation))))
    }

    @Test func saveAndRevertLetsNoOtherRequestIn() {
        var machine = openMachine(dirty: true)
        #expect(machine.submit(.saveAndRevert(1), for: 1).contains(.start(.save)))
        #expect(machine.submit(.close(discardingChanges: true), for: 2) == [])
        machine.hasUnsavedChanges = false
        #expect(machine.finish(succeeded: true).contains(.start(.revert(1))))
        #expect(machine.finish(succeeded: true).contains(.answer([1], .done)))

        var failing = openMachine(dirty: true)
        _ = failing.submit(.saveAndRevert(1), for: 1)
        let effects = failing.finish(succeeded: false)
        #expect(effects.contains(.answer([1], .failed)))
        #expect(!effects.contains(.start(.revert(1))))
    }

    @Test func closeDuringOpenCancelsIt() {
        var machine = Machine()
        _ = machine.submit(.open(existing), for: 1)
        #expect(machine.submit(.close(discardingChanges: false), for: 2) == [])
        let effects = machine.finish(succeeded: true)
        #expect(effects.contains(.answer([1], .cancelled)))
        #expect(effects.contains(.start(.close)))
        #expect(machine.finish(succeeded: true).contains(.answer([2], .done)))
        #expect(machine.state == .closed)
    }

    @Test func savesThatWaitBecomeOneButNotTheOneThatRuns() {
        var machine = openMachine(dirty: true)
        #expect(machine.submit(.save, for: 1).contains(.start(.save)))
        #expect(machine.submit(.autosave, for: 2) == [])
        #expect(machine.submit(.save, for: 3) == [])
        #expect(machine.submit(.autosave, for: 4) == [])
        let effects = machine.finish(succeeded: true)
        #expect(effects.contains(.answer([1], .done)))
        #expect(effects.contains(.start(.save)))
        #expect(machine.finish(succeeded: true).contains(.answer([2, 3, 4], .done)))
    }

    @Test func saveBehindRevertIsNotJoinedWithOneBeforeIt() {
        var machine = openMachine(dirty: true)
        _ = machine.submit(.revert(nil), for: 1)
        _ = machine.submit(.save, for: 2)
        _ = machine.submit(.revert(nil), for: 3)
        _ = machine.submit(.save, for: 4)
        #expect(machine.finish(succeeded: true).contains(.start(.save)))
        #expect(machine.finish(succeeded: true).contains(.answer([2], .done)))
        #expect(machine.finish(succeeded: true).contains(.start(.save)))
        #expect(machine.finish(succeeded: true).contains(.answer([4], .done)))
    }

    @Test func autosaveWithoutChangesSucceedsAtOnce() {
        var machine = openMachine()
        #expect(machine.submit(.autosave, for: 1) == [.answer([1], .done)])
        #expect(machine.submit(.save, for: 2).contains(.start(.save)))
    }

    @Test func failedSaveLeavesSavingErrorUntilOneSucceeds() {
        var machine = openMachine(dirty: true)
        _ = machine.submit(.save, for: 1)
        #expect(machine.finish(succeeded: false).contains(.answer([1], .failed)))
        #expect(machine.state == .savingError)
        _ = machine.submit(.save, for: 2)
        #expect(machine.state == [.savingError, .progressAvailable])
        _ = machine.finish(succeeded: true)
        #expect(machine.state == .normal)
    }

    @Test func closingSavesFirstAndStaysOpenIfThatFails() {
        var machine = openMachine(dirty: true)
        #expect(machine.submit(.close(discardingChanges: false), for: 1).contains(.start(.save)))
        #expect(machine.state.contains(.editingDisabled))
        #expect(
            machine.finish(succeeded: false) == [
                .answer([1], .failed),
                .stateChanged([.progressAvailable, .editingDisabled], .savingError),
            ])
        #expect(machine.isOpen)
        #expect(machine.submit(.close(discardingChanges: true), for: 2).contains(.start(.close)))
    }

    @Test func whatIsChangedWhileClosingIsSavedToo() {
        var machine = openMachine(dirty: true)
        _ = machine.submit(.close(discardingChanges: false), for: 1)
        machine.hasUnsavedChanges = true
        #expect(machine.finish(succeeded: true).contains(.start(.save)))
        machine.hasUnsavedChanges = false
        #expect(machine.finish(succeeded: true).contains(.start(.close)))
        #expect(machine.finish(succeeded: true).contains(.answer([1], .done)))
    }

    @Test func whatIsChangedWhileTheCloseIsPreparedIsSavedToo() {
        var machine = openMachine()
        #expect(machine.submit(.close(discardingChanges: false), for: 1).contains(.start(.close)))
        #expect(!machine.isDiscardingChanges)
        _ = machine.submit(.save, for: 2)
        machine.hasUnsavedChanges = true
        #expect(
            machine.repeatClose() == [
                .stateChanged(.editingDisabled, [.progressAvailable, .editingDisabled]),
                .start(.save),
            ])
        machine.hasUnsavedChanges = false
        #expect(machine.finish(succeeded: true).contains(.start(.close)))
        let effects = machine.finish(succeeded: true)
        #expect(effects.contains(.answer([1], .done)) && effects.contains(.answer([2], .notOpen)))
    }

    @Test func requestsOfAClosedDocumentAreRefused() {
        var machine = Machine()
        #expect(machine.submit(.save, for: 1) == [.answer([1], .notOpen)])
        #expect(machine.submit(.autosave, for: 2) == [.answer([2], .notOpen)])
        #expect(machine.submit(.revert(nil), for: 3) == [.answer([3], .notOpen)])
        #expect(
            machine.submit(.close(discardingChanges: false), for: 4) == [.answer([4], .done)])
        #expect(machine.finish(succeeded: true) == [])
    }

    /// Random requests and endings, against what must always hold and a reference that knows only what a document is: open
    /// or not, saved or not.
    @Test func randomSequencesKeepTheRules() {
        for seed in SeededRandom.baseSeed..<SeededRandom.baseSeed + 300 {
            var random = SeededRandom(seed: seed)
            var run = RandomRun()
            for step in 0..<120 {
                run.step(&random)
                if let broken = run.broken {
                    Issue.record("seed \(seed), step \(step): \(broken)")
                    return
                }
            }
            run.drain()
            #expect(run.broken == nil, "seed \(seed)")
            #expect(run.unanswered.isEmpty, "seed \(seed)")
        }
    }
}

/// Drives a machine at random and checks what it does.
private struct RandomRun {
    typealias Machine = DocumentStateMachine<Int, Int>

    var machine = Machine()
    var unanswered: [Int] = []
    var broken: String?
    private var requests: [Int: Machine.Request] = [:]
    private var running: Machine.Operation?
    private var isOpen = false
    private var isDirty = false
    private var state = DocumentState.closed
    private var next = 0
    /// Unsaved changes may only be dropped by a request that says so, or by a revert.
    private var mayDrop = false

    mutating func step(_ random: inout SeededRandom) {
        switch Int.random(in: 0..<10, using: &random) {
        case 0...4:
            let choices: [Machine.Request] = [
                .open(.init()), .open(.init(isReadOnly: true)),
                .open(.init(isCreation: true)), .save, .save, .autosave, .autosave,
                .revert(nil), .revert(1), .saveAs(2), .access(3), .close(discardingChanges: false),
                .close(discardingChanges: true), .saveAndRevert(4),
                .saveTo(
                    .init(
                        path: "/A",
                        operation: Bool.random(using: &random)
                            ? .forCreating : .forOverwriting,
                        creation: OpenRequest(isCreation: true, path: "/A"), work: 5)),
            ]
            submit(choices[Int.random(in: choices.indices, using: &random)])
        case 5...6:
            // Editing is possible while saving, and, as nobody enforces it, while closing.
            if isOpen { isDirty = true }
        default: if running != nil { finish(succeeded: Int.random(in: 0..<4, using: &random) > 0) }
        }
    }

    mutating func drain() {
        for _ in 0..<200 where running != nil { finish(succeeded: true) }
        check(running == nil, "it never comes to rest")
    }

    private mutating func submit(_ request: Machine.Request) {
        next += 1
        requests[next] = request
        unanswered.append(next)
        machine.hasUnsavedChanges = isDirty
        machine.path = next.isMultiple(of: 2) ? "/A" : "/B"
        carryOut(machine.submit(request, for: next))
    }

    private mutating func finish(succeeded: Bool) {
        guard let operation = running else { return }
        running = nil
        switch operation {
        case .open: if succeeded { isOpen = true; isDirty = false }
        case .save: if succeeded { isDirty = false }
        case .saveAs, .revert: if succeeded { isDirty = false }
        case .access: break
        case .close: isOpen = false; isDirty = false
        }
        machine.hasUnsavedChanges = isDirty
        carryOut(machine.finish(succeeded: succeeded))
        check(machine.isOpen == isOpen, "it is wrong about being open after \(operation)")
    }

    private mutating func carryOut(_ effects: [Machine.Effect]) {
        for effect in effects {
            switch effect {
            case .answer(let waiters, let answer):
                for waiter in waiters {
                    check(unanswered.first == waiter, "\(waiter) is answered out of turn or twice")
                    unanswered.removeAll { $0 == waiter }
                    check(fits(answer, requests[waiter]), "\(answer) to \(requests[waiter] as Any)")
                }
            case .stateChanged(let old, let new):
                check(old == state && old != new, "the state jumps from \(old) to \(new)")
                state = new
            case .start(let operation):
                check(running == nil, "\(operation) starts while another runs")
                running = operation
                if case .open = operation {
                    check(!isOpen, "it opens an open document")
                } else {
                    check(isOpen, "\(operation) of a closed document")
                }
                if operation == .close, isDirty {
                    let dropping = unanswered.first.flatMap { requests[$0] }
                    check(
                        dropping == .close(discardingChanges: true),
                        "unsaved changes are dropped for \(dropping as Any)")
                }
            }
        }
        check(state == machine.state, "a change of state was not told")
        check(
            state.contains(.closed) == !machine.isOpen, "the state does not say that it is closed")
    }

    private func fits(_ answer: Machine.Answer, _ request: Machine.Request?) -> Bool {
        switch (answer, request) {
        case (.done, _), (.failed, _): true
        case (.cancelled, .open), (.alreadyOpen, .open): true
        case (.notOpen, .save), (.notOpen, .autosave), (.notOpen, .revert), (.notOpen, .saveAs),
            (.notOpen, .access), (.notOpen, .saveTo), (.notOpen, .saveAndRevert):
            !isOpen
        default: false
        }
    }

    private mutating func check(_ condition: Bool, _ message: String) {
        if !condition && broken == nil { broken = message }
    }
}

@Suite struct ChangeCounterTests {
    @Test func undoingToWhatWasSavedIsClean() {
        var counter = ChangeCounter()
        #expect(!counter.hasChanges)
        counter.count(.done)
        counter.count(.done)
        #expect(counter.hasChanges)
        counter.count(.undone)
        counter.count(.undone)
        #expect(!counter.hasChanges)
        counter.count(.redone)
        #expect(counter.hasChanges)
    }

    @Test func undoingPastASaveIsDirtyAndRedoingCleanAgain() {
        var counter = ChangeCounter()
        counter.count(.done)
        counter.beginSave()
        counter.finishSave()
        #expect(!counter.hasChanges)
        counter.count(.undone)
        #expect(counter.hasChanges)
        counter.count(.redone)
        #expect(!counter.hasChanges)
    }

    @Test func otherChangeAfterUndoPutsWhatWasSavedOutOfReach() {
        var counter = ChangeCounter()
        counter.count(.done)
        counter.beginSave()
        counter.finishSave()
        counter.count(.undone)
        counter.count(.done)
        #expect(counter.hasChanges)
        counter.count(.undone)
        #expect(counter.hasChanges)
    }

    @Test func changeDuringSaveStaysUnsaved() {
        var counter = ChangeCounter()
        counter.count(.done)
        counter.beginSave()
        counter.count(.done)
        counter.finishSave()
        #expect(counter.hasChanges)
        counter.count(.undone)
        #expect(!counter.hasChanges)
    }

    @Test func undoAndOtherChangeDuringSaveLeaveItDirty() {
        var counter = ChangeCounter()
        counter.count(.done)
        counter.beginSave()
        counter.count(.undone)
        counter.count(.done)
        counter.finishSave()
        #expect(counter.hasChanges)
    }

    @Test func failedSaveChangesNothing() {
        var counter = ChangeCounter()
        counter.count(.done)
        counter.beginSave()
        counter.failSave()
        #expect(counter.hasChanges)
        counter.count(.undone)
        #expect(!counter.hasChanges)
    }

    @Test func changeForGoodIsCleanOnlyAfterASave() {
        var counter = ChangeCounter()
        counter.count(.done)
        counter.countIrreversibleChange()
        counter.count(.undone)
        #expect(counter.hasChanges)
        counter.beginSave()
        counter.finishSave()
        #expect(!counter.hasChanges)
        counter.beginSave()
        counter.countIrreversibleChange()
        counter.finishSave()
        #expect(counter.hasChanges)
    }
}
