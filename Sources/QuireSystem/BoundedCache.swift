/// Keeps values that take long to make, by keys, and the one asked for last at hand.
///
/// When it is full it is emptied: programs that ask for few values again and again keep them, others must not fill the
/// memory. Inlinable, because it is asked once per object that is tested in memory.
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

    /// The value of a key, which is made if it is not there.
    @inlinable package func value(for key: Key, make: () throws -> Value) rethrows -> Value {
        if let known = self[key] { return known }
        let made = try make()
        self[key] = made
        return made
    }
}
