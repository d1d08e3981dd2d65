/// Weak references to objects, such as observers, which may be known by a protocol only.
package struct WeakList<Object> {
    private var references: [WeakReference] = []
    private var pruningCount = 16

    package init() {}

    /// Whether there are no references; those to released objects count until they are removed.
    package var isEmpty: Bool { references.isEmpty }

    /// The objects that have not been released.
    package var objects: [Object] { references.compactMap { $0.object as? Object } }

    /// Removes the references to released objects.
    package mutating func prune() { references.removeAll { $0.object == nil } }

    /// Adds an object, and removes released ones when the count has doubled.
    package mutating func append(_ object: Object) {
        references.append(WeakReference(object: object as AnyObject))
        if references.count < pruningCount { return }
        prune()
        pruningCount = max(16, 2 * references.count)
    }

    /// Removes an object, and released ones.
    package mutating func remove(_ object: Object) {
        references.removeAll { $0.object == nil || $0.object === object as AnyObject }
    }
}

// Unchecked, because the references are to objects of this type only.
extension WeakList: @unchecked Sendable where Object: Sendable {}

private struct WeakReference {
    weak var object: AnyObject?
}
