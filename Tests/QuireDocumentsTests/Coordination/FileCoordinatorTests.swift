import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

/// Notes what it is asked, in order with what a test notes.
private final class RecordingPresenter: FilePresenter {
    let path: Lock<String?>
    let log: EventRecorder<String>
    let name: String
    /// What saving does beyond being noted.
    let saving: Lock<(@Sendable () async throws -> Void)?> = Lock(nil)
    let closing: Lock<(@Sendable () async throws -> Void)?> = Lock(nil)

    init(_ path: String?, _ log: EventRecorder<String>, name: String = "P") {
        self.path = Lock(path)
        self.log = log
        self.name = name
    }

    var presentedItemPath: String? { path.withLock { $0 } }
    var presenterName: String { name }

    func savePresentedItemChanges() async throws {
        log.record("\(name) save")
        try await saving.withLock { $0 }?()
    }

    func relinquishPresentedItemToReader() async -> FileReacquirer? {
        log.record("\(name) to reader")
        return { [log, name] in log.record("\(name) back") }
    }

    func relinquishPresentedItemToWriter() async -> FileReacquirer? {
        log.record("\(name) to writer")
        return { [log, name] in log.record("\(name) back") }
    }

    func accommodatePresentedItemDeletion() async throws {
        log.record("\(name) delete")
        try await closing.withLock { $0 }?()
        path.withLock { $0 = nil }
    }

    func presentedItemDidMove(to newPath: String) async {
        log.record("\(name) moved")
        path.withLock { $0 = newPath }
    }

    func presentedItemDidChange() async { log.record("\(name) changed") }
}

@Suite struct FileCoordinatorTests {
    private let registry = FileAccessRegistry()
    private let log = EventRecorder<String>()

    private func coordinator(
        _ presenter: (any FilePresenter)? = nil, timeout: Duration = .seconds(600)
    ) -> FileCoordinator {
        FileCoordinator(presenter: presenter, timeout: timeout, registry: registry)
    }

    private func presenter(_ path: String, name: String = "P") -> RecordingPresenter {
        let presenter = RecordingPresenter(path, log, name: name)
        registry.add(presenter)
        return presenter
    }

    // MARK: What presenters are asked

    @Test func beforeAReaderPresentersSaveAndMakeWay() async throws {
        _ = presenter("/x/doc")
        try await coordinator().coordinate(readingItemAt: "/x/doc") { _ in log.record("read") }
        #expect(log.events == ["P save", "P to reader", "read", "P back"])
        #expect(registry.isIdle)
    }

    @Test func aReaderMayDoWithWhatIsOnDisk() async throws {
        _ = presenter("/x/doc")
        try await coordinator().coordinate(readingItemAt: "/x/doc", options: .withoutChanges) { _ in
            log.record("read")
        }
        #expect(log.events == ["P to reader", "read", "P back"])
    }

    @Test(arguments: [
        (
            FileCoordinator.WritingPurpose.changing,
            ["P to writer", "write", "P back", "P changed"]
        ),
        (.merging, ["P save", "P to writer", "write", "P back", "P changed"]),
        (.replacing, ["P to writer", "write", "P back", "P changed"]),
        (.moving, ["P save", "P to writer", "write", "P back"]),
        (.deleting, ["P delete", "write"]),
    ])
    func beforeAWriterPresentersMakeWay(
        purpose: FileCoordinator.WritingPurpose, expected: [String]
    ) async throws {
        _ = presenter("/x/doc")
        try await coordinator().coordinate(writingItemAt: "/x/doc", for: purpose) { _ in
            log.record("write")
        }
        #expect(log.events == expected)
    }

    @Test func theCoordinatorsOwnPresenterIsNotAsked() async throws {
        let own = presenter("/x/doc", name: "own")
        _ = presenter("/x/doc", name: "other")
        try await coordinator(own).coordinate(writingItemAt: "/x/doc") { _ in log.record("write") }
        #expect(log.events == ["other to writer", "write", "other back", "other changed"])
    }

    @Test func presentersOfWhatIsInAFolderAndOfFoldersAboveAreAsked() async throws {
        _ = presenter("/x", name: "above")
        _ = presenter("/x/doc/part", name: "in")
        _ = presenter("/x/doc2", name: "beside")
        try await coordinator().coordinate(readingItemAt: "/x/doc") { _ in }
        #expect(log.events.filter { $0.hasSuffix("save") } == ["above save", "in save"])
    }

    @Test func aRemovedPresenterIsNotAsked() async throws {
        let removed = presenter("/x/doc")
        registry.add(removed)
        registry.remove(removed)
        try await coordinator().coordinate(readingItemAt: "/x/doc") { _ in }
        #expect(log.events == [])
    }

    @Test func presentersAreToldOfMoves() async throws {
        let whole = presenter("/x/a", name: "whole")
        let part = presenter("/x/a/part", name: "part")
        let coordinator = coordinator()
        try await coordinator.coordinate(
            writingItemAt: "/x/a", for: .moving, writingItemAt: "/x/b", for: .replacing
        ) { old, new in
            await coordinator.item(at: old, didMoveTo: new)
        }
        #expect(whole.presentedItemPath == "/x/b")
        #expect(part.presentedItemPath == "/x/b/part")
    }

    @Test func whoWaitsReadsWhereTheItemIsByThen() async throws {
        let mover = coordinator()
        let reader = coordinator()
        async let path = try mover.coordinate(writingItemAt: "/x/a", for: .moving) { old in
            log.record("moving")
            while registry.waitingCount == 0 { await Task.yield() }
            await mover.item(at: old, didMoveTo: "/x/b")
        }
        while log.events.isEmpty { await Task.yield() }
        let read = try await reader.coordinate(readingItemAt: "/x/a/part") { $0 }
        try await path
        #expect(read == "/x/b/part")
    }

    // MARK: Failures

    @Test func whatCannotBeSavedIsNotRead() async throws {
        let presenter = presenter("/x/doc")
        presenter.saving.withLock {
            $0 = { throw QuireError(.validation, "The title is missing.") }
        }
        let error = await coordinationFailure {
            try await coordinator().coordinate(readingItemAt: "/x/doc") { _ in log.record("read") }
        }
        #expect(error?.code == .validation)
        #expect(log.events == ["P save"])
        #expect(registry.isIdle)
    }

    @Test func aPresenterMayRefuseDeletion() async throws {
        let presenter = presenter("/x/doc")
        presenter.closing.withLock { $0 = { throw QuireError(.locked, "No.") } }
        let error = await coordinationFailure {
            try await coordinator().coordinate(writingItemAt: "/x/doc", for: .deleting) { _ in
                log.record("deleted")
            }
        }
        #expect(error?.code == .locked)
        #expect(!log.events.contains("deleted"))
    }

    @Test func aPresenterThatDoesNotAnswerIsNamed() async throws {
        let presenter = presenter("/x/doc", name: "the editor")
        let gate = Gate()
        presenter.saving.withLock { $0 = { await gate.wait() } }
        let error = await coordinationFailure {
            try await coordinator(timeout: .milliseconds(30)).coordinate(readingItemAt: "/x/doc") {
                _ in log.record("read")
            }
        }
        #expect(error?.code == .timedOut)
        #expect(
            error?.message
                == "Reading “/x/doc” failed, because the editor did not save within 0.03 seconds."
        )
        #expect(registry.isIdle)
        gate.open()
    }

    @Test func whoIsWaitedForInVainIsNamed() async throws {
        let gate = Gate()
        let writer = coordinator()
        async let held: Void = writer.coordinate(writingItemAt: "/x/doc") { _ in
            log.record("writing")
            await gate.wait()
        }
        while log.events.isEmpty { await Task.yield() }
        let error = await coordinationFailure {
            try await coordinator(timeout: .milliseconds(30)).coordinate(readingItemAt: "/x/doc") {
                _ in
            }
        }
        #expect(error?.code == .timedOut)
        #expect(
            error?.message
                == "Reading “/x/doc” timed out after 0.03 seconds, waiting for: writing to “/x/doc”."
        )
        gate.open()
        try await held
        #expect(registry.isIdle)
    }

    @Test func cancellingTheTaskEndsTheWait() async throws {
        let gate = Gate()
        let writer = coordinator()
        async let held: Void = writer.coordinate(writingItemAt: "/x/doc") { _ in
            log.record("writing")
            await gate.wait()
        }
        while log.events.isEmpty { await Task.yield() }
        let waiting = Task { [registry] in
            try await FileCoordinator(presenter: nil, timeout: .seconds(600), registry: registry)
                .coordinate(readingItemAt: "/x/doc") { _ in }
        }
        while registry.waitingCount == 0 { await Task.yield() }
        waiting.cancel()
        let error = await coordinationFailure { try await waiting.value }
        #expect(error?.code == .cancelled)
        gate.open()
        try await held
        #expect(registry.isIdle)
    }

    @Test func cancellingTheCoordinatorEndsTheWaitForAPresenter() async throws {
        let presenter = presenter("/x/doc")
        let gate = Gate()
        presenter.saving.withLock { $0 = { await gate.wait() } }
        let reader = coordinator()
        let waiting = Task { try await reader.coordinate(readingItemAt: "/x/doc") { _ in } }
        while log.events.isEmpty { await Task.yield() }
        var error: QuireError?
        // What is being asked for may not be registered yet.
        let canceller = Task {
            while !Task.isCancelled {
                reader.cancel()
                await Task.yield()
            }
        }
        error = await coordinationFailure { try await waiting.value }
        canceller.cancel()
        #expect(error?.code == .cancelled)
        #expect(registry.isIdle)
        gate.open()
    }

    // MARK: No deadlocks

    @Test func aPresenterSavesByACoordinatorOfItsOwn() async throws {
        let presenter = presenter("/x/doc")
        presenter.saving.withLock {
            $0 = { [registry, log, weak presenter] in
                try await FileCoordinator(
                    presenter: presenter, timeout: .seconds(600), registry: registry
                ).coordinate(writingItemAt: "/x/doc") { _ in log.record("saved") }
            }
        }
        try await coordinator().coordinate(readingItemAt: "/x/doc") { _ in log.record("read") }
        #expect(log.events == ["P save", "saved", "P to reader", "read", "P back"])
    }

    @Test func anAccessInAnotherOneThatCoversItIsLetThrough() async throws {
        let coordinator = coordinator()
        try await coordinator.coordinate(writingItemAt: "/x/doc") { _ in
            try await coordinator.coordinate(readingItemAt: "/x/doc/part") { _ in
                log.record("read")
            }
        }
        #expect(log.events == ["read"])
    }

    @Test func anAccessThatWouldWaitForItselfFails() async throws {
        let coordinator = coordinator()
        let error = await coordinationFailure {
            try await coordinator.coordinate(readingItemAt: "/x/doc") { _ in
                try await coordinator.coordinate(writingItemAt: "/x/doc") { _ in }
            }
        }
        #expect(error?.code == .invalidState)
        #expect(registry.isIdle)
    }

    @Test func twoThatMoveCrosswiseDoNotBlockEachOther() async throws {
        for _ in 0..<100 {
            let (first, second) = (coordinator(), coordinator())
            async let one: Void = first.coordinate(
                writingItemAt: "/x/a", for: .moving, writingItemAt: "/x/b", for: .replacing
            ) { _, _ in await Task.yield() }
            async let two: Void = second.coordinate(
                writingItemAt: "/x/b", for: .moving, writingItemAt: "/x/a", for: .replacing
            ) { _, _ in await Task.yield() }
            _ = try await (one, two)
        }
        #expect(registry.isIdle)
    }

    @Test func manyAccessesKeepToTheRules() async throws {
        let tally = Tally()
        let registry = registry
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<400 {
                group.addTask {
                    let coordinator = FileCoordinator(
                        presenter: nil, timeout: .seconds(600), registry: registry)
                    if number.isMultiple(of: 4) {
                        try await coordinator.coordinate(writingItemAt: "/x/doc") { _ in
                            tally.begin(writing: true)
                            await Task.yield()
                            tally.end(writing: true)
                        }
                    } else {
                        try await coordinator.coordinate(readingItemAt: "/x/doc/part") { _ in
                            tally.begin(writing: false)
                            await Task.yield()
                            tally.end(writing: false)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(!tally.isBroken)
        #expect(registry.isIdle)
    }

    /// Counts who reads and writes.
    private final class Tally: Sendable {
        private let state = Lock((readers: 0, writers: 0, isBroken: false))

        var isBroken: Bool { state.withLock { $0.isBroken } }

        func begin(writing: Bool) {
            state.withLock { state in
                if writing { state.writers += 1 } else { state.readers += 1 }
                if state.writers > 1 || state.writers == 1 && state.readers > 0 {
                    state.isBroken = true
                }
            }
        }

        func end(writing: Bool) {
            state.withLock { if writing { $0.writers -= 1 } else { $0.readers -= 1 } }
        }
    }

    @Test @MainActor func requestsWithCompletionHandlersEnterTheQueueAtOnce() async throws {
        let bodies = EventRecorder<Int>()
        let ended = EventRecorder<Void>()
        for number in 0..<50 {
            coordinator().coordinate(writingItemAt: "/x/doc") { _ in
                bodies.record(number)
            } completionHandler: { _ in
                ended.record(())
            }
        }
        #expect(!registry.isIdle)
        for _ in 0..<50 { _ = await ended.next() }
        #expect(bodies.events == Array(0..<50))
    }

    @Test @MainActor func cancellingTheCoordinatorReachesRequestsThatWereJustMade() async throws {
        let gate = Gate()
        let holder = coordinator()
        async let held: Void = holder.coordinate(writingItemAt: "/x/doc") { _ in
            log.record("writing")
            await gate.wait()
        }
        while log.events.isEmpty { await Task.yield() }
        let writer = coordinator()
        let results = EventRecorder<QuireError.Code?>()
        for _ in 0..<10 {
            writer.coordinate(writingItemAt: "/x/doc") { _ in
            } completionHandler: { result in
                if case .failure(let error) = result {
                    results.record((error as? QuireError)?.code)
                } else {
                    results.record(nil)
                }
            }
        }
        writer.cancel()
        var codes: [QuireError.Code?] = []
        for _ in 0..<10 { codes.append(await results.next() ?? nil) }
        #expect(codes.allSatisfy { $0 == .cancelled })
        gate.open()
        try await held
        #expect(registry.isIdle)
    }

    @Test @MainActor func completionHandlersAreCalledOnceOnTheMainQueue() async throws {
        let results = EventRecorder<String>()
        for number in 0..<20 {
            coordinator().coordinate(readingItemAt: "/x/doc") { _ in
                if number.isMultiple(of: 2) { throw QuireError(.notFound, "No.") }
                return number
            } completionHandler: { result in
                MainActor.preconditionIsolated()
                results.record("\(number) \((try? result.get()) ?? -1)")
            }
        }
        var seen: [String] = []
        for _ in 0..<20 { seen.append(await results.next() ?? "") }
        #expect(Set(seen) == Set((0..<20).map { "\($0) \($0.isMultiple(of: 2) ? -1 : $0)" }))
        try await coordinator().coordinate(writingItemAt: "/x/doc") { _ in }
        #expect(results.events.count == 20)
    }
}

/// Holds tasks up until it is opened.
private final class Gate: Sendable {
    private let recorder = EventRecorder<Void>()

    func open() { recorder.record(()) }

    func wait() async { _ = await recorder.next() }
}

/// The error that a body throws.
private func coordinationFailure(_ body: () async throws -> Void) async -> QuireError? {
    do {
        try await body()
        return nil
    } catch {
        return error as? QuireError
    }
}
