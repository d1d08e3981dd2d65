public import Foundation
import QuireSystem

/// An observer of a domain that saves before the domain is locked, and drops what it has in memory afterwards.
///
/// Calls are not serialized: if the domain is unlocked while a responder is saving, it is notified then, and if it is locked
/// and unlocked in quick succession, calls may come late. ``ProtectionDomain/isUnlocked`` is the current state.
package protocol ProtectedDataResponder: AnyObject, Sendable {
    /// Called before the domain is locked, to save pending changes. The domain waits for it, but not longer than its grace
    /// period.
    func protectedDataWillBecomeUnavailable() async
    /// The domain is locked: releases data that is cached. Called on the thread that locks, so it must not wait.
    func protectedDataDidBecomeUnavailable()
    /// The domain was unlocked, or is not locked after all.
    func protectedDataDidBecomeAvailable() async
}

extension ProtectedDataResponder {
    package func protectedDataWillBecomeUnavailable() async {}
    package func protectedDataDidBecomeUnavailable() {}
    package func protectedDataDidBecomeAvailable() async {}
}

extension ProtectionDomain {
    /// Posted when the domain is about to be locked, with the domain as its object: open documents can still be saved. Posted
    /// on the thread that locks.
    public static let protectedDataWillBecomeUnavailableNotification = Notification.Name(
        "QuireProtectedDataWillBecomeUnavailable")

    /// Posted when the domain has been unlocked, or a pending lock has been cancelled, with the domain as its object. Posted on
    /// the thread that unlocks.
    public static let protectedDataDidBecomeAvailableNotification = Notification.Name(
        "QuireProtectedDataDidBecomeAvailable")

    /// A change of a domain's lock state.
    public enum Event: Sendable, Hashable {
        /// The domain is about to be locked; open documents can still be saved.
        case willBecomeUnavailable
        /// It is locked.
        case didBecomeUnavailable
        /// It is unlocked, or a pending lock has been cancelled.
        case didBecomeAvailable
    }

    /// The future events of the domain, in order.
    ///
    /// Every call returns a separate sequence. It ends when the domain is deallocated, and does not retain it.
    public var events: AsyncStream<Event> { broadcast.stream() }

    /// Locks the domain, and the domains that were unlocked through it.
    ///
    /// Open documents save first, within the grace period; unsaved changes then stay in memory. Then the keys are wiped, and
    /// cached pages and rows of class `complete` are released. Unlocking before that cancels the lock. A document's domain that
    /// is locked individually stays locked until it, or the domain of its person, is unlocked.
    ///
    /// If the task is cancelled, the domain is locked at once.
    ///
    /// - Returns: Whether it is locked: `false` if it was unlocked in the meantime.
    @discardableResult
    public func lock(after grace: Duration = .seconds(10)) async -> Bool {
        await lock(after: grace) { try? await Task.sleep(for: $0) }
    }

    /// Locks the domain, with a clock given by the caller.
    ///
    /// - Parameter sleep: Returns after some time, or when its task is cancelled.
    @discardableResult
    package func lock(
        after grace: Duration, sleep: @escaping @Sendable (Duration) async -> Void
    ) async -> Bool {
        let (waiting, end) = AsyncStream.makeStream(of: Void.self)
        let children = state.withLock { $0.children.objects }.filter(\.isUnlocked)
        let begun: (number: Int, isFirst: Bool)? = state.withLock { state in
            state.isLockedByItself = true
            // A locked domain has unlocked children if they were created since.
            if state.unlocked == nil, children.isEmpty { return nil }
            let isFirst = state.pendingLocks.isEmpty
            state.lastLock += 1
            state.pendingLocks[state.lastLock] = end
            return (state.lastLock, isFirst)
        }
        guard let begun else { return true }
        let domains = ([self] + children).filter(\.isUnlocked)
        if begun.isFirst { for domain in domains { domain.postUnavailable() } }
        // A lock begun meanwhile ends with this one, if not before.
        if begun.isFirst {
            // Responders of a document's domain are registered with the person's too.
            var told: Set<ObjectIdentifier> = []
            let responders = domains.flatMap(\.responders)
                .filter { told.insert(ObjectIdentifier($0)).inserted }
            // Responders that exceed the grace period continue, but are not awaited.
            Task {
                await Self.call(responders) { await $0.protectedDataWillBecomeUnavailable() }
                end.finish()
            }
        }
        let timer = Task {
            await sleep(grace)
            end.finish()
        }
        for await _ in waiting {}
        timer.cancel()
        return removeKeys(endingLock: begun.number)
    }

    /// Locks the domain, and those that were unlocked through it, at once. Notifies observers without waiting for them.
    package func lockNow() {
        let children = state.withLock { state in
            state.isLockedByItself = true
            return state.children.objects
        }
        for domain in [self] + children where domain.isUnlocked { domain.postUnavailable() }
        removeKeys()
    }

    /// Adds a responder, also to the domain that this one was unlocked through. It is not retained. Adding it twice has no
    /// effect.
    package func addResponder(_ responder: any ProtectedDataResponder) {
        let parent = state.withLock { state in
            state.responders.remove(responder)
            state.responders.append(responder)
            return state.parent
        }
        parent?.addResponder(responder)
    }

    /// Removes a responder.
    package func removeResponder(_ responder: any ProtectedDataResponder) {
        let parent = state.withLock { state in
            state.responders.remove(responder)
            return state.parent
        }
        parent?.removeResponder(responder)
    }

    // MARK: - Keys

    /// Removes the keys from this domain and those that were unlocked through it.
    ///
    /// - Parameter number: The pending lock that ends; `nil` for all.
    /// - Returns: Whether the domain is locked: `false` if that lock was cancelled.
    @discardableResult
    func removeKeys(endingLock number: Int? = nil) -> Bool {
        let (isLocked, wasUnlocked, children, pending) = state.withLock { state in
            let wasUnlocked = state.unlocked != nil
            if let number, wasUnlocked, state.pendingLocks[number] == nil {
                return (false, true, [ProtectionDomain](), state.pendingLocks)
            }
            state.unlocked = nil
            for key in state.fileKeys.objects { key.revoke() }
            state.fileKeys = WeakList()
            defer { state.pendingLocks = [:] }
            return (true, wasUnlocked, state.children.objects, state.pendingLocks)
        }
        if !isLocked { return false }
        for lock in pending.values { lock.finish() }
        if wasUnlocked {
            for responder in responders { responder.protectedDataDidBecomeUnavailable() }
            broadcast.send(.didBecomeUnavailable)
        }
        for child in children where child.state.withLock({ $0.parent === self }) {
            child.removeKeys()
        }
        return true
    }

    // MARK: - Notifications

    private var responders: [any ProtectedDataResponder] {
        state.withLock { $0.responders.objects }
    }

    private func postUnavailable() {
        broadcast.send(.willBecomeUnavailable)
        NotificationCenter.default.post(
            name: Self.protectedDataWillBecomeUnavailableNotification, object: self)
    }

    func postAvailable() {
        broadcast.send(.didBecomeAvailable)
        NotificationCenter.default.post(
            name: Self.protectedDataDidBecomeAvailableNotification, object: self)
    }

    func callRespondersAvailable() async {
        await Self.call(responders) { await $0.protectedDataDidBecomeAvailable() }
    }

    /// Notifies observers that the domain is unlocked, without waiting for them.
    func tellAvailable() {
        postAvailable()
        let responders = responders
        Task { await Self.call(responders) { await $0.protectedDataDidBecomeAvailable() } }
    }

    /// Calls responders concurrently.
    private static func call(
        _ responders: [any ProtectedDataResponder],
        _ body: @escaping @Sendable (any ProtectedDataResponder) async -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            for responder in responders { group.addTask { await body(responder) } }
        }
    }
}
