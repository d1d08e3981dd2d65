public import CLinux

/// For tables of objects that remove themselves in their deinit: another thread may have released the last reference, and the
/// deinit may not have removed the object yet. Its memory must still be allocated.
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
