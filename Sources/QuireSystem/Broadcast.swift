internal import Synchronization

/// Multicasts elements to any number of consumers, each with its own sequence.
///
/// A consumer receives every element sent after it requested its sequence, in order, however slow it is. The sequences finish
/// when the broadcast is deallocated. Thread-safe.
package final class Broadcast<Element: Sendable>: Sendable {
    private struct State {
        var consumers: [UInt64: AsyncStream<Element>.Continuation] = [:]
        var lastNumber: UInt64 = 0
    }

    private let state = Lock(State())
    /// Whether `state` has consumers: a lock-free check for senders.
    private let hasConsumers = Atomic<Bool>(false)

    package init() {}

    deinit {
        for consumer in state.withLock({ $0.consumers.values }) { consumer.finish() }
    }

    /// A sequence of the elements sent from now on, after an optional initial element.
    package func stream(
        beginningWith first: Element? = nil,
        bufferingPolicy: AsyncStream<Element>.Continuation.BufferingPolicy = .unbounded
    ) -> AsyncStream<Element> {
        let (stream, consumer) = AsyncStream.makeStream(
            of: Element.self, bufferingPolicy: bufferingPolicy)
        if let first { consumer.yield(first) }
        let number = state.withLock { state in
            state.lastNumber += 1
            state.consumers[state.lastNumber] = consumer
            hasConsumers.store(true, ordering: .releasing)
            return state.lastNumber
        }
        // Called when the consumer's task is cancelled and when the sequence is deallocated.
        consumer.onTermination = { [weak self] _ in self?.remove(number) }
        return stream
    }

    private func remove(_ number: UInt64) {
        // Released after unlocking, because that may end a sequence.
        _ = state.withLock { state in
            let consumer = state.consumers.removeValue(forKey: number)
            hasConsumers.store(!state.consumers.isEmpty, ordering: .releasing)
            return consumer
        }
    }

    /// Sends an element, which is only evaluated if there are consumers.
    package func send(_ element: @autoclosure () -> Element) {
        guard hasConsumers.load(ordering: .acquiring) else { return }
        let element = element()
        for consumer in state.withLock({ $0.consumers.values }) { consumer.yield(element) }
    }
}
