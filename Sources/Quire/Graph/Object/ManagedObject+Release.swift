internal import Dispatch
internal import QuireSystem
internal import Synchronization

/// The end of objects. The last reference to one may be given up on any thread: where an asynchronous function that has it has come
/// to, or where a result is thrown away.
///
/// - On its context's queue, an object takes itself out of the context's tables.
/// - Elsewhere, the queue does that later. Until then the object's memory stays, and ``IdentityMap`` passes over it.
/// - The context may end at the same moment, on a third thread. So an object takes a reference to it under a lock, which the context
///   takes before it clears the objects' references to itself.
extension ManagedObject {
    /// Takes the object out of its context's tables; for the deinit.
    final func leaveContext() {
        guard let seen = contextReference.load(ordering: .relaxed) else { return }
        let isContextThere = ReleaseLock.ofContext(at: seen).pointee.withLock { _ in
            // The context may have ended before.
            guard let context = contextReference.load(ordering: .relaxed) else { return false }
            if context.retainUnlessEnding() { return true }
            // It waits for the lock.
            context.takeUnretainedValue().identityMap.remove(objectID.bits, ObjectIdentifier(self))
            return false
        }
        if !isContextThere { return }
        // The context is retained here, and retains its marker. Retaining that as well is slow, because there are weak references to
        // it.
        let isCurrent = seen._withUnsafeGuaranteedRef { $0.queueMarker.isCurrentAtRelease }
        if isCurrent {
            let context = seen.takeRetainedValue()
            context.forget(
                ObjectIdentifier(self), objectID.bits, isObserved: state.contains(.observed))
        } else {
            EndedObject(self, of: seen).leave()
        }
    }
}

/// The pending removal of an object that was released on a queue other than its context's.
// Unchecked, because after its creation it is used on the context's queue only.
private final class EndedObject: @unchecked Sendable {
    /// Keeps the object's memory.
    private unowned let object: ManagedObject
    /// Retained, and released on its queue.
    private let context: Unmanaged<ManagedObjectContext>
    private let identifier: ObjectIdentifier
    private let bits: UInt64
    private let isObserved: Bool

    init(_ object: ManagedObject, of context: Unmanaged<ManagedObjectContext>) {
        self.object = object
        self.context = context
        identifier = ObjectIdentifier(object)
        bits = object.objectID.bits
        isObserved = object.state.contains(.observed)
    }

    func leave() {
        let marker = context.takeUnretainedValue().queueMarker
        marker.async { [self] in
            context.takeRetainedValue().forget(identifier, bits, isObserved: isObserved)
        }
    }
}

/// The locks between the ends of contexts and of their objects. There are several, so that contexts in use at the same time seldom
/// have the same.
private enum ReleaseLock {
    private static let count = 64
    /// The locks are a cache line apart.
    private static let stride = 16
    // Initialized once, and never moved.
    nonisolated(unsafe) private static let locks: UnsafeMutablePointer<Lock<Void>> = {
        let locks = UnsafeMutablePointer<Lock<Void>>.allocate(capacity: count * stride)
        for index in 0..<count { (locks + index * stride).initialize(to: Lock(())) }
        return locks
    }()

    static func ofContext(
        at reference: Unmanaged<ManagedObjectContext>
    ) -> UnsafeMutablePointer<Lock<Void>> {
        let address = UInt(bitPattern: reference.toOpaque())
        return locks + Int((address >> 8) % UInt(count)) * stride
    }
}

extension ManagedObjectContext {
    /// Clears the objects' references to the context, for its deinit.
    func leaveObjects() {
        ReleaseLock.ofContext(at: .passUnretained(self)).pointee.withLock { _ in
            identityMap.forEachEvenIfEnding { $0.context = nil }
        }
    }

    /// Takes an object out of the context's tables that has ended.
    fileprivate func forget(_ object: ObjectIdentifier, _ bits: UInt64, isObserved: Bool) {
        unregister(object, bits)
        if !fetchedPropertyValues.isEmpty, identityMap.find(bits) == nil {
            fetchedPropertyValues[bits] = nil
            fetchedPropertyValues.giveBackMemory()
        }
        if isObserved { observation?.forget(object) }
    }
}

/// References, possibly the last ones, to be released on their context's queue. The creator must drop its own references before it
/// calls ``release()``.
// Unchecked, because after its creation it is used on the queue only.
final class LastReferences: @unchecked Sendable {
    private var values: [Any]
    private var context: ManagedObjectContext?

    init(_ values: [Any], of context: ManagedObjectContext) {
        self.values = values
        self.context = context
    }

    func release() {
        context?.queueMarker.async { [self] in
            values = []
            // Last, because they refer to it.
            context = nil
        }
    }
}
