internal import QuireModel

/// The reference objects of an incremental store, and the primary keys that stand for them.
///
/// Integers in the lower half of the range are primary keys themselves. The upper half numbers the others, in the order of
/// their first use, for all hierarchies; nothing is forgotten, because identifiers may be kept anywhere.
///
/// Unchecked because `AnyHashable` is not `Sendable`; it only wraps reference objects that are.
struct ReferenceObjects: @unchecked Sendable {
    private struct Reference: Hashable {
        let root: Int
        let object: AnyHashable
    }

    /// The first primary key of those that are no integers.
    static let firstMappedKey: Int64 = 1 << 39

    private var keys: [Reference: Int64] = [:]
    private var objects: [any Hashable & Sendable] = []

    mutating func primaryKey(for object: some Hashable & Sendable, root: Int) -> Int64 {
        if let integer = object as? any BinaryInteger, let key = Int64(exactly: integer), key > 0,
            key < Self.firstMappedKey
        {
            return key
        }
        let reference = Reference(root: root, object: AnyHashable(object))
        if let key = keys[reference] { return key }
        let key = Self.firstMappedKey + Int64(objects.count)
        precondition(
            key <= ManagedObjectID.maximumPrimaryKey, "A store has too many reference objects.")
        keys[reference] = key
        objects.append(object)
        return key
    }

    /// The reference object; `nil` for one that is the primary key itself.
    func referenceObject(for key: Int64) -> (any Hashable & Sendable)? {
        guard key >= Self.firstMappedKey else { return nil }
        let index = Int(key - Self.firstMappedKey)
        return objects.indices.contains(index) ? objects[index] : nil
    }
}
