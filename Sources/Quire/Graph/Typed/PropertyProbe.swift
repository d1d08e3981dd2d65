internal import Synchronization

/// Finds out which properties a key path of a typed class names.
///
/// A key path cannot tell its names, so it is tried out on an object of its class that belongs to no context and
/// whose entity has no table of properties. Accessors that find no place in the table come here, so that reading
/// ordinary objects costs nothing: what is asked for is written down, and answered with an unlikely value, or with
/// another such object. The key path names these properties if each was asked of the answer before, and the last
/// answer is what came out; so `\Book.title.count` and a computed property that does more than pass on a value name
/// none.
@usableFromInline
final class PropertyProbe: @unchecked Sendable {
    // Unchecked: it is only used by the thread that made it, while it reads the key path.

    /// Something that was asked.
    private struct Step {
        let object: ManagedObject
        let key: String
        /// The object answered, if it was one and can be asked on.
        let answer: ManagedObject?
        /// Whether a value is what was answered.
        let isAnswer: (Any) -> Bool
    }

    @TaskLocal private static var current: PropertyProbe?
    private var steps: [Step] = []

    // MARK: Key paths

    /// The model's names of the properties that a key path leads through; `nil` if it does not lead through properties
    /// of typed classes only.
    static func names(of keyPath: AnyKeyPath) -> [String]? {
        let key = Key(keyPath: keyPath)
        if let known = cache.withLock({ $0[key] }) { return known }
        guard let rootClass = type(of: keyPath).rootType as? ManagedObject.Type else { return nil }
        let root = object(of: rootClass)
        let probe = PropertyProbe()
        let value = $current.withValue(probe) { root[keyPath: keyPath] }
        guard let value, let names = probe.names(from: root, to: value) else { return nil }
        cache.withLock { $0[key] = names }
        return names
    }

    /// A key path as a key of the cache.
    private struct Key: Hashable, @unchecked Sendable {
        // Unchecked: only those are kept that name properties, and these have captured nothing.
        let keyPath: AnyKeyPath
    }

    private static let cache = Lock<[Key: [String]]>([:])

    private func names(from root: ManagedObject, to value: Any) -> [String]? {
        var object: ManagedObject? = root
        for step in steps {
            guard let owner = object, step.object === owner else { return nil }
            object = step.answer
        }
        let names = steps.map(\.key)
        // Every object has an identifier, and queries know it by this name.
        if let object, value as? ManagedObjectID == object.objectID { return names + ["objectID"] }
        return steps.last?.isAnswer(value) == true ? names : nil
    }

    // MARK: Objects

    private static let entity = EntityLayout(
        number: 0, description: EntityDescription(name: "Probe"), superentity: nil, subtreeEnd: 0,
        slots: [], relationships: [], properties: [:], propertyNames: [])
    private static let identity = StoreIdentity(uuid: "", entityNames: [])
    private static let serial = Atomic<UInt64>(0)

    private static func object(of objectClass: ManagedObject.Type) -> ManagedObject {
        let serial = serial.wrappingAdd(1, ordering: .relaxed).newValue
        return objectClass.init(
            ObjectPlace(
                objectID: ManagedObjectID(temporaryOf: 0, serial: serial, model: identity),
                entity: entity, context: nil, state: [.live, .realized]))
    }

    private static func property(
        _ ordinal: Int, of object: ManagedObject
    ) -> EntityDeclaration.Property? {
        let properties = type(of: object).entityDeclaration?.allProperties ?? []
        return ordinal < properties.count ? properties[ordinal] : nil
    }

    // MARK: Answers

    /// Answers for an attribute.
    static func attribute<Value: AttributeRepresentable>(
        _ ordinal: Int, of object: ManagedObject
    ) -> Value? {
        guard let probe = current, let property = property(ordinal, of: object) else { return nil }
        let answer = Value.unlikelyValue
        probe.steps.append(
            Step(object: object, key: property.key, answer: nil) {
                ($0 as? Value)?.attributeValue == answer.attributeValue
            })
        return answer
    }

    /// Changes the answer for an attribute whose raw value was answered, because that is not one of the type's.
    @usableFromInline @inline(never)
    static func answer<Value: RawRepresentable>(
        _ ordinal: Int, of object: ManagedObject, _ answer: Value?
    ) -> Value? where Value.RawValue: AttributeRepresentable {
        guard let probe = current, let step = probe.steps.popLast() else { return nil }
        probe.steps.append(
            Step(object: step.object, key: step.key, answer: nil) { value in
                guard let answer else { return type(of: value) == Value?.self }
                return (value as? Value)?.rawValue.attributeValue == answer.rawValue.attributeValue
            })
        return answer
    }

    /// The object in a set or an array, if it is the only one.
    private static func onlyMember(of collection: some Collection) -> ManagedObject? {
        collection.count == 1 ? collection.first as? ManagedObject : nil
    }

    /// Answers for a relationship of either kind.
    static func object(_ ordinal: Int, of object: ManagedObject) -> ManagedObject? {
        guard let probe = current, let property = property(ordinal, of: object),
            let objectClass = property.destination as? ManagedObject.Type
        else { return nil }
        let answer = Self.object(of: objectClass)
        let isToMany: Bool
        if case .toMany = property.form { isToMany = true } else { isToMany = false }
        probe.steps.append(
            Step(object: object, key: property.key, answer: isToMany ? nil : answer) { value in
                if !isToMany { return value as? ManagedObject === answer }
                return (value as? any Collection).flatMap { onlyMember(of: $0) } === answer
            })
        return answer
    }
}
