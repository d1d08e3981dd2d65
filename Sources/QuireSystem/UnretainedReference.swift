public import CLinux

/// For tables of objects that take themselves out when they end: another thread may have given up the last reference and not come
/// to that yet. The object's memory must still be there.
extension Unmanaged {
    /// Retains the object, unless its deinit has begun, on whatever thread. Returns whether it was retained.
    @inlinable @inline(__always)
    package func retainUnlessEnding() -> Bool { quire_try_retain(toOpaque()) != nil }

    /// The object, or `nil` if its deinit has begun.
    @inlinable @inline(__always)
    package func takeUnlessEnding() -> Instance? {
        retainUnlessEnding() ? takeRetainedValue() : nil
    }
}
