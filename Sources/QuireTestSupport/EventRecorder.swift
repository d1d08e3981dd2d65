import Dispatch
internal import QuireSystem

/// Keeps events and lets a test wait for them.
public final class EventRecorder<Event: Sendable>: Sendable {
    private struct State {
        var events: [Event] = []
        /// The number handed out by ``next()``.
        var taken = 0
        var waiter: (number: Int, continuation: CheckedContinuation<Event?, Never>)?
        var lastWaiter = 0
    }

    private let state = Lock(State())

    /// Creates a recorder without events.
    public init() {}

    /// All events so far.
    public var events: [Event] { state.withLock { $0.events } }

    /// Keeps an event.
    public func record(_ event: Event) {
        let waiter = state.withLock { state in
            state.events.append(event)
            guard let waiter = state.waiter else { return CheckedContinuation<Event?, Never>?.none }
            state.waiter = nil
            state.taken += 1
            return waiter.continuation
        }
        waiter?.resume(returning: event)
    }

    /// The next event that was not handed out; `nil` if none comes within some minutes, which a busy machine may need.
    public func next(within seconds: Double = 600) async -> Event? {
        await withCheckedContinuation { continuation in
            let (event, number) = state.withLock { state -> (Event?, Int) in
                if state.taken < state.events.count {
                    state.taken += 1
                    return (state.events[state.taken - 1], 0)
                }
                state.lastWaiter += 1
                state.waiter = (state.lastWaiter, continuation)
                return (nil, state.lastWaiter)
            }
            if let event { return continuation.resume(returning: event) }
            DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { [self] in
                let late = state.withLock { state in
                    guard state.waiter?.number == number else {
                        return CheckedContinuation<Event?, Never>?.none
                    }
                    defer { state.waiter = nil }
                    return state.waiter?.continuation
                }
                late?.resume(returning: nil)
            }
        }
    }

    /// The next event that fits.
    public func next(where fits: (Event) -> Bool) async -> Event? {
        while let event = await next() { if fits(event) { return event } }
        return nil
    }
}
