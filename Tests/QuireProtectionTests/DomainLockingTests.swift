import Foundation
import QuireSystem
import Synchronization
import Testing

@testable import QuireProtection

@Suite struct DomainLockingTests {
    private let folder: TestFolder
    private let domain: ProtectionDomain
    private let clock = ManualClock()

    init() throws {
        folder = try TestFolder()
        domain = try folder.person()
    }

    private func beginLock() -> Task<Bool, Never> {
        Task { await domain.lock(after: .seconds(10), sleep: clock.sleep) }
    }

    @Test func respondersCloseBeforeTheKeysGo() async throws {
        let patience = ManualClock()
        let responder = Responder(waitingFor: patience)
        domain.addResponder(responder)
        let (key, _) = try domain.classKey().makeFileKey()
        let lock = beginLock()
        #expect(await responder.next() == "will")
        #expect(domain.isUnlocked && key.isAvailable)
        #expect(code { _ = try domain.classKey().makeFileKey() } == nil)
        patience.fire()
        // Its time is not over: the clock stands still.
        #expect(await lock.value)
        #expect(responder.calls.withLock { $0 } == ["will", "closed"])
        #expect(!domain.isUnlocked && !key.isAvailable)
        #expect(domain.wasUnlockedOnce)
    }

    @Test func respondersAreNotAwaitedLongerThanTheGracePeriod() async throws {
        let never = ManualClock()
        let responder = Responder(waitingFor: never)
        domain.addResponder(responder)
        let lock = beginLock()
        #expect(await responder.next() == "will")
        #expect(domain.isUnlocked)
        clock.fire()
        #expect(await lock.value)
        #expect(!domain.isUnlocked)
        #expect(responder.calls.withLock { $0 } == ["will"])
        never.fire()
        #expect(await responder.next() == "closed")
    }

    @Test func withoutRespondersNothingIsAwaited() async {
        #expect(await domain.lock(after: .seconds(10), sleep: clock.sleep))
        #expect(!domain.isUnlocked)
        // What is locked is not locked again.
        #expect(await domain.lock(after: .seconds(10), sleep: clock.sleep))
    }

    @Test func unlockingDuringTheGracePeriodTakesTheLockBack() async throws {
        let never = ManualClock()
        let responder = Responder(waitingFor: never)
        domain.addResponder(responder)
        let (key, _) = try domain.classKey().makeFileKey()
        let lock = beginLock()
        #expect(await responder.next() == "will")
        try domain.unlock(.keyFile(.keyFile))
        #expect(await lock.value == false)
        #expect(await responder.next() == "available")
        clock.fire()
        #expect(domain.isUnlocked && key.isAvailable)
        never.fire()
    }

    @Test func wrongKeyDoesNotTakeTheLockBack() async throws {
        let never = ManualClock()
        let responder = Responder(waitingFor: never)
        domain.addResponder(responder)
        let lock = beginLock()
        #expect(await responder.next() == "will")
        #expect(code { try domain.unlock(.passphrase("no")) } == .wrongKey)
        clock.fire()
        #expect(await lock.value)
        #expect(!domain.isUnlocked)
        never.fire()
    }

    @Test func twoLocksEndTogether() async {
        let never = ManualClock()
        let responder = Responder(waitingFor: never)
        domain.addResponder(responder)
        let first = beginLock()
        #expect(await responder.next() == "will")
        let secondClock = ManualClock()
        secondClock.fire()
        #expect(await domain.lock(after: .zero, sleep: secondClock.sleep))
        #expect(await first.value)
        #expect(responder.calls.withLock { $0 } == ["will"])
        never.fire()
    }

    @Test func cancelledTaskLocksAtOnce() async {
        let never = ManualClock()
        let responder = Responder(waitingFor: never)
        domain.addResponder(responder)
        let lock = beginLock()
        #expect(await responder.next() == "will")
        lock.cancel()
        #expect(await lock.value)
        #expect(!domain.isUnlocked)
        never.fire()
    }

    @Test func respondersAreNotKept() async {
        weak var gone: Responder?
        func add() {
            let responder = Responder()
            gone = responder
            domain.addResponder(responder)
        }
        add()
        #expect(gone == nil)
        let removed = Responder()
        domain.addResponder(removed)
        domain.removeResponder(removed)
        #expect(await domain.lock(after: .seconds(10), sleep: clock.sleep))
        #expect(removed.calls.withLock { $0.isEmpty })
    }

    @Test func unlockingAwaitsWhatOpensAgain() async throws {
        let responder = Responder()
        domain.addResponder(responder)
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        try domain.addKeyFile(folder.path("key"))
        await domain.lock(after: .seconds(10), sleep: clock.sleep)
        try await domain.unlock(keyFile: folder.path("key"))
        #expect(responder.calls.withLock { $0 } == ["will", "closed", "available"])
        // Unlocking what is unlocked tells nobody.
        try await domain.unlock(keyFile: folder.path("key"))
        #expect(responder.calls.withLock { $0.count } == 3)
    }

    @Test func notificationsAndEventsSayWhatHappens() async throws {
        let seen = Mutex<[String]>([])
        let names = [
            ProtectionDomain.protectedDataWillBecomeUnavailableNotification,
            ProtectionDomain.protectedDataDidBecomeAvailableNotification,
        ]
        let observed = ObjectIdentifier(domain)
        let observers = names.map { name in
            NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) {
                guard let sender = $0.object as? ProtectionDomain,
                    ObjectIdentifier(sender) == observed
                else { return }
                let note = "\(name.rawValue) \(sender.isUnlocked)"
                seen.withLock { $0.append(note) }
            }
        }
        defer { for observer in observers { NotificationCenter.default.removeObserver(observer) } }
        var events = domain.events.makeAsyncIterator()
        await domain.lock(after: .seconds(10), sleep: clock.sleep)
        try domain.unlock(.keyFile(.keyFile))
        #expect(
            seen.withLock { $0 } == [
                "QuireProtectedDataWillBecomeUnavailable true",
                "QuireProtectedDataDidBecomeAvailable true",
            ])
        #expect(await events.next() == .willBecomeUnavailable)
        #expect(await events.next() == .didBecomeUnavailable)
        #expect(await events.next() == .didBecomeAvailable)
    }

    @Test func manyAtOnceEndInOneState() async throws {
        let classKey = try domain.classKey()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                group.addTask {
                    switch number % 4 {
                    case 0: domain.lockNow()
                    case 1: try? domain.unlock(.keyFile(.keyFile))
                    default:
                        let found = code { _ = try classKey.makeFileKey() }
                        #expect([nil, .protectedDataUnavailable].contains(found))
                    }
                }
            }
        }
        let (key, _) = try {
            try domain.unlock(.keyFile(.keyFile))
            return try classKey.makeFileKey()
        }()
        domain.lockNow()
        #expect(!key.isAvailable)
    }
}
