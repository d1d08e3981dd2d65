import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Random sequences of what can be done with a document and happen to it, against a reference that knows only which notes
/// are in memory and on disk.
@Suite @MainActor struct DocumentSequenceTests {
    /// 5,000 in the long form.
    private nonisolated static let isLong =
        ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
    private nonisolated static let groups = isLong ? 100 : 3
    private nonisolated static let sequencesPerGroup = isLong ? 50 : 25

    @Test(arguments: 0..<groups)
    func everySequenceKeepsThePromises(_ group: Int) async throws {
        for index in 0..<Self.sequencesPerGroup {
            let seed = SeededRandom.baseSeed + UInt64(group * Self.sequencesPerGroup + index)
            let run = try SequenceRun(seed: seed)
            do {
                try await run.run(steps: 14)
            } catch {
                Issue.record("seed \(seed): \(error)\n\(run.log.joined(separator: "\n"))")
                return
            }
        }
    }
}

/// What is wrong with a document.
private struct Discrepancy: Error, CustomStringConvertible {
    var description: String
}

/// One sequence.
@MainActor
private final class SequenceRun {
    private(set) var log: [String] = []
    private let folder: TemporaryFolder
    private var random: SeededRandom
    private var document: NoticingDocument
    // What must be.
    private var path: String
    private var isOpen = false
    private var memory: [String] = []
    private var disk: [String] = []
    private var undone: [[String]] = []
    private var done: [[String]] = []
    private var hasSavingError = false
    /// What other packages contain.
    private var others: [String: [String]] = [:]
    private var isDeleted = false
    private var nextName = 0

    init(seed: UInt64) throws {
        folder = try TemporaryFolder()
        random = SeededRandom(seed: seed)
        path = folder.path("0.quire")
        document = NoticingDocument(path: path)
        document.autosavePolicy = .never
    }

    func run(steps: Int) async throws {
        try await document.create(model: notesModel)
        isOpen = true
        for _ in 0..<steps where !isDeleted {
            try await step()
            // What it notices late of what others did, it meets with editing disabled.
            while document.documentState.contains(.editingDisabled) {
                await document.wait { !$0.documentState.contains(.editingDisabled) }
            }
            try check()
        }
        note("end")
        if isOpen { try await expect(.close(discarding: true)) }
        if !isDeleted { try await checkDisk(path, disk) }
        for (path, notes) in others { try await checkDisk(path, notes) }
        try await checkNothingIsLeft()
    }

    private func note(_ text: String) { log.append(text) }

    private func require(_ condition: Bool, _ message: @autoclosure () -> String) throws {
        if !condition { throw Discrepancy(description: message()) }
    }

    private var isInvalid: Bool { memory.contains { $0.count > 40 } }

    private func newPath() -> String {
        nextName += 1
        return folder.path("\(nextName).quire")
    }

    // MARK: Steps

    private enum Request: CustomStringConvertible {
        case open, save, saveTo, autosave, revert
        case close(discarding: Bool)

        var description: String {
            switch self {
            case .open: "open"
            case .save: "save"
            case .saveTo: "save to its path"
            case .autosave: "autosave"
            case .revert: "revert"
            case .close(let discarding): discarding ? "close, discarding" : "close"
            }
        }
    }

    private func step() async throws {
        switch Int.random(in: 0..<27, using: &random) {
        case 0..<6: edit()
        case 6: undo()
        case 7: redo()
        case 8: edit(String(repeating: "x", count: 41))
        case 9..<18: try await burst()
        case 18: try await saveAs()
        case 19: try await saveTo()
        case 20: try await revertToOther()
        case 21: try await moveOutside()
        case 22: try await moveHere()
        case 23: try await replaceStoreOutside()
        case 24: try await closeInsideUndoGroup()
        case 25: try await closeWithLateEdit()
        default: if Int.random(in: 0..<4, using: &random) == 0 { try await deleteOutside() }
        }
    }

    private func edit(_ text: String = "") {
        guard isOpen else { return }
        let title = "\(log.count)\(text)"
        note("edit \(title.prefix(8))")
        _ = try? document.addNote(title)
        document.managedObjectContext.processPendingChanges()
        done.append(memory)
        undone = []
        memory.append(title)
    }

    private func undo() {
        guard isOpen, let last = done.popLast() else { return }
        note("undo")
        document.undoManager?.undo()
        undone.append(memory)
        memory = last
    }

    private func redo() {
        guard isOpen, let next = undone.popLast() else { return }
        note("redo")
        document.undoManager?.redo()
        done.append(memory)
        memory = next
    }

    private func expect(_ request: Request) async throws { try await burst([request]) }

    private func burst() async throws {
        var requests: [Request] = []
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let all: [Request] = [
                .open, .save, .saveTo, .autosave, .autosave, .revert, .close(discarding: false),
                .close(discarding: true),
            ]
            requests.append(all[Int.random(in: all.indices, using: &random)])
        }
        try await burst(requests)
    }

    /// Makes requests without waiting, and compares the answers, and their order, with what must come.
    private func burst(_ requests: [Request]) async throws {
        note(requests.map(\.description).joined(separator: " & "))
        var answers: [(number: Int, code: QuireError.Code?)] = []
        await withCheckedContinuation { (all: CheckedContinuation<Void, Never>) in
            var left = requests.count
            for (number, request) in requests.enumerated() {
                let answer: DocumentCompletionHandler = { error in
                    answers.append((number, error?.code))
                    left -= 1
                    if left == 0 { all.resume() }
                }
                switch request {
                case .open: document.open(completionHandler: answer)
                case .save: document.submit(.save, answer: answer)
                case .saveTo:
                    document.save(
                        to: document.fileURL, for: .forOverwriting, completionHandler: answer)
                case .autosave: document.autosave(completionHandler: answer)
                case .revert: document.revert(completionHandler: answer)
                case .close(let discarding):
                    document.close(discardingChanges: discarding, completionHandler: answer)
                }
            }
        }
        // A completion handler that is called twice would be seen by now.
        await Task.yield()
        try require(
            answers.map(\.number) == Array(requests.indices), "order of answers \(answers)")
        var joins: QuireError.Code??
        for (number, request) in requests.enumerated() {
            var expected = outcome(of: request, followedBy: requests[(number + 1)...])
            // Those who open behind an opening get its answer.
            if case .open = request {
                if let joined = joins {
                    expected = joined
                } else if expected != nil {
                    joins = .some(expected)
                }
            } else {
                joins = nil
            }
            try require(
                answers[number].code == expected,
                "\(request) ended with \(answers[number].code?.rawValue ?? "success"), "
                    + "not with \(expected?.rawValue ?? "success")")
        }
    }

    private func outcome(of request: Request, followedBy rest: ArraySlice<Request>)
        -> QuireError.Code?
    {
        switch request {
        case .open:
            if isOpen { return nil }
            isOpen = true
            forgetEdits()
            return isTakenBack(rest) ? .cancelled : nil
        case .save, .saveTo, .autosave:
            guard isOpen else { return .invalidState }
            if case .autosave = request, memory == disk, !hasSavingError { return nil }
            return save()
        case .revert:
            guard isOpen else { return .invalidState }
            forgetEdits()
            return nil
        case .close(let discarding):
            guard isOpen else { return nil }
            if !discarding, memory != disk || hasSavingError, let error = save() { return error }
            isOpen = false
            hasSavingError = false
            memory = []
            return nil
        }
    }

    /// Whether the next request, but for further ones to open, is to close.
    private func isTakenBack(_ rest: ArraySlice<Request>) -> Bool {
        for request in rest {
            switch request {
            case .open: continue
            case .close: return true
            default: return false
            }
        }
        return false
    }

    private func save() -> QuireError.Code? {
        if isInvalid {
            hasSavingError = true
            return .validation
        }
        hasSavingError = false
        disk = memory
        return nil
    }

    private func forgetEdits() {
        memory = disk
        (done, undone) = ([], [])
        hasSavingError = false
    }

    private func attempt(
        _ expected: QuireError.Code?, _ body: () async throws -> Void
    ) async throws {
        do {
            try await body()
            try require(expected == nil, "it succeeded, not failed with \(expected as Any)")
        } catch let error as QuireError {
            try require(error.code == expected, "\(error)")
        }
    }

    private func saveAs() async throws {
        let new = newPath()
        note("save as \(FileSystem.name(of: new))")
        let expected: QuireError.Code? = !isOpen ? .invalidState : isInvalid ? .validation : nil
        try await attempt(expected) { try await document.save(as: URL(fileURLWithPath: new)) }
        if expected != nil { return }
        others[path] = disk
        path = new
        disk = memory
        hasSavingError = false
    }

    private func saveTo() async throws {
        let new = newPath()
        note("save to \(FileSystem.name(of: new))")
        let expected: QuireError.Code? = !isOpen ? .invalidState : isInvalid ? .validation : nil
        try await attempt(expected) { try await document.writeCopy(to: URL(fileURLWithPath: new)) }
        if expected == nil { others[new] = memory }
    }

    private func revertToOther() async throws {
        guard let other = others.keys.sorted().randomElement(using: &random) else { return }
        note("revert to \(FileSystem.name(of: other))")
        try await attempt(isOpen ? nil : .invalidState) {
            try await document.revert(to: URL(fileURLWithPath: other))
        }
        guard isOpen else { return }
        disk = others[other] ?? []
        forgetEdits()
    }

    private func moveOutside() async throws {
        guard isOpen else { return }
        let new = newPath()
        note("moved outside to \(FileSystem.name(of: new))")
        try FileSystem.rename(path, to: new)
        path = new
        // What it has not noticed of a replacement before, it meets with editing disabled.
        await document.wait {
            $0.path == new && !$0.documentState.contains(.editingDisabled)
        }
    }

    private func moveHere() async throws {
        let new = newPath()
        note("move to \(FileSystem.name(of: new))")
        try await attempt(isOpen ? nil : .invalidState) {
            try await document.move(to: URL(fileURLWithPath: new))
        }
        if isOpen { path = new }
    }

    /// Another program replaces the store by another state of the document; the next save finds out.
    private func replaceStoreOutside() async throws {
        // A save of what is invalid fails before it looks at the store.
        guard isOpen, !isInvalid else { return }
        let other = newPath()
        let theirs = "\(log.count) theirs"
        let keepsOwn = Bool.random(using: &random)
        note("store replaced, keeping \(keepsOwn ? "own" : "theirs")")
        let reader = try DocumentPackage.open(at: path, readOnly: true)
        try reader.writeCopy(to: other)
        try reader.close()
        let copy = ManagedDocument(path: other)
        try await copy.open()
        try copy.addNote(theirs)
        try await copy.close()
        try FileSystem.rename(
            DocumentPackageLayout(path: other).store, to: DocumentPackageLayout(path: path).store)
        try FileSystem.removeTree(other)
        let isUnsaved = memory != disk
        try await attempt(isUnsaved ? .mergeConflict : nil) { try await document.save() }
        let (inserted, deleted) = (Set(memory).subtracting(disk), Set(disk).subtracting(memory))
        disk.append(theirs)
        memory = disk.filter { !deleted.contains($0) } + inserted.sorted()
        (done, undone) = (isUnsaved ? [disk] : [], [])
        hasSavingError = false
        guard isUnsaved else { return }
        try require(document.documentState.contains(.inConflict), "it is not in conflict")
        let kept = try await document.unresolvedConflictVersions()
        try require(kept.count == 1, "what was saved is not kept as a version")
        try require(try document.titles() == memory.sorted(), "unsaved changes are lost")
        if keepsOwn {
            try await document.resolveConflict(keeping: .current)
            _ = save()
        } else {
            try await document.resolveConflict(keeping: .other)
            forgetEdits()
        }
    }

    private func closeInsideUndoGroup() async throws {
        guard isOpen, let undoManager = document.undoManager else { return }
        note("begin undo group")
        undoManager.beginUndoGrouping()
        edit()
        edit()
        try await expect(.close(discarding: false))
        undoManager.endUndoGrouping()
        if isOpen {
            // Both edits are one step.
            document.managedObjectContext.processPendingChanges()
            done.removeLast()
        }
    }

    /// Edits while a close that has nothing to save waits for files.
    private func closeWithLateEdit() async throws {
        guard isOpen, memory == disk, !hasSavingError else { return }
        let late = "\(log.count) late"
        note("close, and edit meanwhile")
        var isEdited = false
        document.willDescribe = { [document] in
            document.willDescribe = {}
            Task { isEdited = document.isOpen && (try? document.addNote(late)) != nil }
        }
        try await expect(.close(discarding: false))
        document.willDescribe = {}
        if isEdited { disk.append(late) }
    }

    private func deleteOutside() async throws {
        guard isOpen else { return }
        note("deleted outside")
        try FileSystem.removeTree(path)
        await document.wait { !$0.isOpen }
        try require(!FileSystem.exists(path), "it was made again")
        (isOpen, isDeleted) = (false, true)
    }

    // MARK: Checks

    private func check() throws {
        try require(document.isOpen == isOpen, "open is \(document.isOpen)")
        if isDeleted { return }
        try require(document.path == path, "its path is \(document.path)")
        let state: DocumentState = !isOpen ? .closed : hasSavingError ? .savingError : .normal
        try require(document.documentState == state, "its state is \(document.documentState)")
        guard isOpen else { return }
        try require(
            document.hasUnsavedChanges == (memory != disk),
            "unsaved is \(document.hasUnsavedChanges)")
        let titles = try document.titles()
        try require(titles == memory.sorted(), "in memory is \(titles)")
        try require(
            (document.lastSaveError != nil) == hasSavingError, "the last error is wrong")
    }

    private func checkDisk(_ path: String, _ notes: [String]) async throws {
        let found = try await ManagedDocument.titles(at: path)
        try require(found == notes.sorted(), "\(path) has \(found), not \(notes)")
    }

    /// No descriptor is open, and only documents are in the folder.
    private func checkNothingIsLeft() async throws {
        let deadline = ContinuousClock.now + .seconds(5)
        while true {
            let open = try FileSystem.names(in: "/proc/self/fd").compactMap {
                try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
            }
            .filter { $0.hasPrefix(folder.path) }
            if open.isEmpty { break }
            // What nobody waits for is closed a moment later.
            try require(.now < deadline, "still open: \(open)")
            await Task.yield()
        }
        for name in try FileSystem.names(in: folder.path) {
            let package = folder.path(name)
            let left = try FileSystem.contentsOfTree(package).map(\.path).filter {
                $0.hasSuffix("-wal") || $0.hasSuffix("-shm") || $0 == ".lock"
            }
            let sizes = try left.map {
                try FileSystem.information(at: package + "/" + $0)?.size ?? -1
            }
            try require(
                name.hasSuffix(".quire") && left.isEmpty, "\(name) has \(left) of \(sizes) bytes")
        }
    }
}

/// Lets a test wait for what happens to its package.
private final class NoticingDocument: ManagedDocument {
    /// Called when the document is asked what a library is to show of it, before that is written.
    var willDescribe: () -> Void = {}
    private var waiting:
        (condition: (ManagedDocument) -> Bool, continuation: CheckedContinuation<Void, Never>)?

    required init(fileURL: URL) {
        super.init(fileURL: fileURL)
        stateChangeHandler = { [weak self] _ in self?.notice() }
    }

    func wait(until condition: @escaping (ManagedDocument) -> Bool) async {
        if condition(self) { return }
        await withCheckedContinuation { waiting = (condition, $0) }
    }

    override func presentedItemDidMove(to newURL: URL) { notice() }

    override func libraryMetadata() -> LibraryMetadata {
        willDescribe()
        return LibraryMetadata()
    }

    private func notice() {
        guard let waiting, waiting.condition(self) else { return }
        self.waiting = nil
        waiting.continuation.resume()
    }
}
