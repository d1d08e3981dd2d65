internal import QuireSystem

/// The permanent identifiers of objects that a program may still refer to by temporary ones.
///
/// Temporary identifiers may be retained forever, so only the latest are kept, and the latest of those that were looked up:
/// one in use, as in a list's predicate, outlasts an import of any size.
package final class ReplacedIdentifiers: Sendable {
    /// A table that drops its oldest entries.
    private struct Ring: ~Copyable {
        var permanent = IdentifierTable()
        /// The temporary identifiers; when it is full, from the oldest at `next` on.
        private var temporary: ContiguousArray<UInt64> = []
        private var next = 0

        mutating func set(_ new: UInt64, for key: UInt64, maximumCount: Int) {
            // A failed save has withdrawn the identifier; its entry is still in the list.
            if permanent.set(new, for: key) != nil { return }
            if temporary.count < maximumCount {
                temporary.append(key)
            } else {
                permanent.remove(temporary[next])
                temporary[next] = key
                next = (next + 1) % maximumCount
            }
        }

        /// Changes an entry, if there is one. Its place is kept, so that the order is.
        mutating func update(_ new: UInt64, for key: UInt64) {
            if permanent[key] != nil { permanent.set(new, for: key) }
        }
    }

    private struct State: ~Copyable {
        var latest = Ring()
        /// Those that were looked up.
        var used = Ring()
    }

    private let state = Lock(State())
    /// The maximum number of identifiers of either kind.
    private let maximumCount: Int

    package init(maximumCount: Int = 1 << 16) { self.maximumCount = maximumCount }

    /// The number of latest identifiers that are kept, for tests.
    package var count: Int { state.withLock { $0.latest.permanent.count } }

    /// The bits of the permanent identifier of an object, by those of its temporary one.
    package subscript(temporary: UInt64) -> UInt64? {
        state.withLock { state in
            if let bits = state.used.permanent[temporary] { return bits == 0 ? nil : bits }
            guard let bits = state.latest.permanent[temporary], bits != 0 else { return nil }
            state.used.set(bits, for: temporary, maximumCount: maximumCount)
            return bits
        }
    }

    /// Adds the permanent identifiers that have replaced temporary ones.
    package func add(_ replaced: [(temporary: UInt64, permanent: UInt64)]) {
        state.withLock { state in
            for (temporary, permanent) in replaced.suffix(maximumCount) {
                state.latest.set(permanent, for: temporary, maximumCount: maximumCount)
                state.used.update(permanent, for: temporary)
            }
        }
    }

    /// Removes the permanent identifiers of objects that have their temporary ones again.
    package func remove(_ temporary: [UInt64]) {
        state.withLock { state in
            for bits in temporary {
                state.latest.update(0, for: bits)
                state.used.update(0, for: bits)
            }
        }
    }
}
