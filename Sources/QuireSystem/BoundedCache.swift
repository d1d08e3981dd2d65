/// A cache of values that are expensive to compute, with a fast path for the last key.
///
/// Emptied when full: a working set that fits stays cached, a larger one does not grow memory. Inlinable, because it is
/// called once per object that a predicate is evaluated on.
@usableFromInline
package final class BoundedCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    @usableFromInline struct Content {
        @usableFromInline var last: (key: Key, value: Value)?
        @usableFromInline var values: [Key: Value] = [:]

        init() {}
    }

    @usableFromInline let maximumCount: Int
    @usableFromInline let content = Lock(Content())

    package init(maximumCount: Int) { self.maximumCount = maximumCount }

    @inlinable package subscript(key: Key) -> Value? {
        get {
            content.withLock { content in
                if let last = content.last, last.key == key { return last.value }
                guard let value = content.values[key] else { return nil }
                content.last = (key, value)
                return value
            }
        }
        set {
            content.withLock { content in
                if content.values.count >= maximumCount { content.values.removeAll() }
                content.values[key] = newValue
                content.last = newValue.map { (key, $0) }
            }
        }
    }

    /// The value for a key, computed on a miss.
    @inlinable package func value(for key: Key, make: () throws -> Value) rethrows -> Value {
        if let known = self[key] { return known }
        let made = try make()
        self[key] = made
        return made
    }
}
