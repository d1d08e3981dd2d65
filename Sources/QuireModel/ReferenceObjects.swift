internal import Foundation
internal import QuireSystem

/// The reference objects of an incremental store (what its source knows objects by: texts, UUIDs, data, integers), and the primary
/// keys that stand for them in identifiers.
///
/// Integers in the lower half of the range are primary keys themselves. The upper half numbers the others, in the order of
/// their first use, for all hierarchies; nothing is forgotten, because identifiers may be kept anywhere. The numbers mean nothing
/// in another process: URIs have the names instead.
package final class ReferenceObjects: Sendable {
    /// A reference object of a hierarchy, by the name of its root entity.
    ///
    /// Unchecked because `AnyHashable` is not `Sendable`; it only wraps reference objects that are.
    private struct Reference: Hashable, @unchecked Sendable {
        let root: String
        let object: AnyHashable
    }

    private struct State: Sendable {
        var keys: [Reference: Int64] = [:]
        var objects: [any Hashable & Sendable] = []
    }

    /// The first primary key of those that are not integers.
    static let firstMappedKey: Int64 = 1 << 39

    private let state = Lock(State())

    // MARK: - Stores

    private struct Weak: Sendable { weak let objects: ReferenceObjects? }
    private static let known = Lock<[String: Weak]>([:])

    /// Those of an incremental store that is open, or still referenced; `nil` for any other store.
    static func existing(forStore uuid: String) -> ReferenceObjects? {
        known.withLock { $0[uuid]?.objects }
    }

    /// Those of an incremental store. One that is opened twice shares them, so that its identifiers are equal.
    package static func make(forStore uuid: String) -> ReferenceObjects {
        known.withLock { known in
            if let objects = known[uuid]?.objects { return objects }
            known = known.filter { $0.value.objects != nil }
            let objects = ReferenceObjects()
            known[uuid] = Weak(objects: objects)
            return objects
        }
    }

    // MARK: - Primary keys

    /// The primary key that stands for an object.
    package func primaryKey(for object: some Hashable & Sendable, root: String) -> Int64 {
        if let integer = object as? any BinaryInteger, let key = Int64(exactly: integer), key > 0,
            key < Self.firstMappedKey
        {
            return key
        }
        let reference = Reference(root: root, object: AnyHashable(object))
        return state.withLock { state in
            if let key = state.keys[reference] { return key }
            let key = Self.firstMappedKey + Int64(state.objects.count)
            precondition(
                key <= ManagedObjectID.maximumPrimaryKey,
                "A store has too many reference objects.")
            state.keys[reference] = key
            state.objects.append(object)
            return key
        }
    }

    /// The reference object; `nil` for one that is the primary key itself.
    package func object(for key: Int64) -> (any Hashable & Sendable)? {
        guard key >= Self.firstMappedKey else { return nil }
        return state.withLock { state in
            let index = Int(key - Self.firstMappedKey)
            return state.objects.indices.contains(index) ? state.objects[index] : nil
        }
    }

    // MARK: - Names

    private static let unescaped = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

    /// What URIs call the object of a primary key: `text:lyon`; `nil` if its number does.
    func name(of key: Int64) -> String? {
        let (kind, value): (String, String)
        switch object(for: key) {
        case let text as String: (kind, value) = ("text", text)
        case let uuid as UUID: (kind, value) = ("uuid", uuid.uuidString)
        case let data as Data: (kind, value) = ("data", data.base64EncodedString())
        case let integer as any BinaryInteger: (kind, value) = ("integer", "\(integer)")
        default: return nil
        }
        return value.addingPercentEncoding(withAllowedCharacters: Self.unescaped).map {
            "\(kind):\($0)"
        }
    }

    /// The reference object of a name.
    static func object(named name: Substring) -> (any Hashable & Sendable)? {
        guard let colon = name.firstIndex(of: ":"),
            let value = name[name.index(after: colon)...].removingPercentEncoding
        else { return nil }
        switch name[..<colon] {
        case "text": return value
        case "uuid": return UUID(uuidString: value)
        case "data": return Data(base64Encoded: value)
        case "integer": return Int(value) ?? UInt64(value)
        default: return nil
        }
    }
}
