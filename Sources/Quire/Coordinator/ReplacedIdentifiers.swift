/// The permanent identifiers of objects that may still be known by temporary ones, for all contexts of a coordinator.
///
/// Somebody may keep a temporary identifier for ever, so only the latest are here.
final class ReplacedIdentifiers: Sendable {
    private struct State: ~Copyable {
        var permanent = IdentifierTable()
        /// The temporary identifiers; when it is full, from the oldest at `next` on.
        var temporary: ContiguousArray<UInt64> = []
        var next = 0
    }

    private let state = Lock(State())
    /// How many identifiers are kept.
    private let greatestCount: Int

    init(greatestCount: Int = 1 << 16) { self.greatestCount = greatestCount }

    /// The number of identifiers that are kept, for tests.
    var count: Int { state.withLock { $0.permanent.count } }

    /// The bits of the permanent identifier of an object, by those of its temporary one.
    subscript(temporary: UInt64) -> UInt64? {
        state.withLock { state in state.permanent[temporary].flatMap { $0 == 0 ? nil : $0 } }
    }

    /// Takes over what temporary identifiers have been replaced by.
    func add(_ replaced: some Collection<(temporary: UInt64, permanent: UInt64)>) {
        state.withLock { state in
            for (temporary, permanent) in replaced.suffix(greatestCount) {
                // A save that failed has given the identifier back, and it has its place still.
                if state.permanent.set(permanent, for: temporary) != nil { continue }
                if state.temporary.count < greatestCount {
                    state.temporary.append(temporary)
                } else {
                    state.permanent.remove(state.temporary[state.next])
                    state.temporary[state.next] = temporary
                    state.next = (state.next + 1) % greatestCount
                }
            }
        }
    }

    /// Forgets the permanent identifiers of objects that have their temporary ones again.
    func remove(_ temporary: some Sequence<UInt64>) {
        state.withLock { state in
            // Their places are kept, so that their order is.
            for bits in temporary where state.permanent[bits] != nil {
                state.permanent.set(0, for: bits)
            }
        }
    }
}
