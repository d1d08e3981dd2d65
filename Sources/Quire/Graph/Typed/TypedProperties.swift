internal import Synchronization

/// Determines the properties in a key path of a class.
///
/// A key path does not expose its names, so it is evaluated on an object of its class without a context, whose entity has no
/// property table. Accessors of macros that find no entry in the table call the probe, so that reading ordinary objects costs
/// nothing extra, and so do reads by key: the access is recorded, and returns an unlikely value, or another such object. The key path consists of these
/// properties if each was read from the previous result, and the last result is the key path's value; so `\Book.title.count`
/// and a computed property that does more than return a value have no names.
@usableFromInline
final class PropertyProbe: @unchecked Sendable {
    // Unchecked: it is only used by the thread that made it, while it reads the key path.

    /// A recorded access.
    private struct Step {
        let object: ManagedObject
        let key: String
        /// The returned object, if it was one and can be read further.
        let answer: ManagedObject?
        /// The type of the returned value, if it is a composite.
        var composite: (any CompositeRepresentable.Type)?
        /// Whether a value is the returned one.
        let isAnswer: (Any) -> Bool
    }

    @TaskLocal private static var current: PropertyProbe?
    private var steps: [Step] = []
    /// The type of the key path's value, for reads by key that do not say theirs.
    private let valueType: Any.Type
    /// The answer for a composite attribute, when its elements are probed.
    private var composite: (any CompositeRepresentable)?

    private init(_ keyPath: AnyKeyPath) {
        let type = type(of: keyPath).valueType
        valueType = (type as? any OptionalType.Type)?.wrapped ?? type
    }

    // MARK: Key paths

    /// The model's names of a key path's properties; `nil` if it contains properties other than those of typed classes.
    static func names(of keyPath: AnyKeyPath) -> [String]? {
        let key = Key(keyPath: keyPath)
        if let known = cache.withLock({ $0[key] }) { return known }
        guard let names = findNames(of: keyPath) else { return nil }
        cache.withLock { $0[key] = names }
        return names
    }

    private static func findNames(of keyPath: AnyKeyPath) -> [String]? {
        let rootType = type(of: keyPath).rootType
        if let composite = rootType as? any CompositeRepresentable.Type {
            return composite.elementNames(of: keyPath, in: "\\\(rootType)") { $0[keyPath: keyPath] }
        }
        guard let rootClass = rootType as? ManagedObject.Type else { return nil }
        let root = object(of: rootClass)
        let probe = PropertyProbe(keyPath)
        guard let value = probe.value(of: root, at: keyPath) else { return nil }
        if let names = probe.names(from: root, to: value) { return names }
        guard let composite = probe.steps.last?.composite, let names = probe.names(from: root),
            let owner = names.keys.last,
            let elements = composite.elementNames(
                of: keyPath, in: ".\(owner)",
                { composite in
                    let probe = PropertyProbe(keyPath)
                    probe.composite = composite
                    return probe.value(of: root, at: keyPath)
                })
        else { return nil }
        return names.keys + elements
    }

    private func value(of root: ManagedObject, at keyPath: AnyKeyPath) -> Any? {
        Self.$current.withValue(self) { root[keyPath: keyPath] }
    }

    /// A key path as a key of the cache.
    private struct Key: Hashable, @unchecked Sendable {
        // Unchecked: only those are kept that name properties, and these have captured nothing.
        let keyPath: AnyKeyPath
    }

    private static let cache = Lock<[Key: [String]]>([:])

    /// The names of the properties that were read, each from the previous result, and the last result if it is an object.
    private func names(
        from root: ManagedObject
    ) -> (keys: [String], object: ManagedObject?)? {
        var object: ManagedObject? = root
        for step in steps {
            guard let owner = object, step.object === owner else { return nil }
            object = step.answer
        }
        return (steps.map(\.key), object)
    }

    private func names(from root: ManagedObject, to value: Any) -> [String]? {
        guard let (names, object) = names(from: root) else { return nil }
        // Every object has an identifier, and queries know it by this name.
        if let object, value as? ManagedObjectID == object.objectID { return names + ["objectID"] }
        return steps.last?.isAnswer(value) == true ? names : nil
    }

    // MARK: Objects

    private static let entity = ResolvedEntity(
        number: 0, description: EntityDescription(name: "Probe"), superentity: nil, subtreeEnd: 0,
        slots: [], relationships: [], properties: [:], propertyNames: [])
    private static let identity = StoreIdentity(uuid: "", entityNames: [])
    private static let serial = Atomic<UInt64>(0)

    private static func object(of objectClass: ManagedObject.Type) -> ManagedObject {
        let serial = serial.wrappingAdd(1, ordering: .relaxed).newValue
        return objectClass.init(
            ObjectInitializer(
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
        property(ordinal, of: object).flatMap { attribute($0.key, of: object) }
    }

    /// Answers for an attribute that is read by key.
    static func attribute<Value: AttributeRepresentable>(
        _ key: String, of object: ManagedObject
    ) -> Value? {
        guard let probe = current else { return nil }
        let answer = probe.composite as? Value ?? Value.unlikelyValue
        let composite = Value.self as? any CompositeRepresentable.Type
        probe.steps.append(
            Step(object: object, key: key, answer: nil, composite: composite) {
                ($0 as? Value)?.attributeValue == answer.attributeValue
            })
        return answer
    }

    /// Changes the answer for an attribute whose raw value was answered, because that is not one of the type's.
    @usableFromInline @inline(never)
    static func answer<Value: RawRepresentable>(_ answer: Value?) -> Value?
    where Value.RawValue: AttributeRepresentable {
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
        let isToMany: Bool
        if case .toMany = property.form { isToMany = true } else { isToMany = false }
        return probe.object(of: objectClass, isToMany: isToMany, property.key, of: object)
    }

    private func object(
        of objectClass: ManagedObject.Type, isToMany: Bool, _ key: String, of object: ManagedObject
    ) -> ManagedObject {
        let answer = Self.object(of: objectClass)
        steps.append(
            Step(object: object, key: key, answer: isToMany ? nil : answer) { value in
                if !isToMany { return value as? ManagedObject === answer }
                return (value as? any Collection).flatMap { Self.onlyMember(of: $0) } === answer
            })
        return answer
    }

    /// Answers for a relationship that is read by key: an object of a class.
    static func related(
        _ objectClass: ManagedObject.Type, isToMany: Bool, _ key: String, of object: ManagedObject
    ) -> ManagedObject? {
        current?.object(of: objectClass, isToMany: isToMany, key, of: object)
    }

    /// Answers for a property that is read by key without a type: with a value of the type that the key path ends in, or `nil` if no
    /// property has that type.
    static func value(_ key: String, of object: ManagedObject) -> Any? {
        guard let probe = current else { return nil }
        switch probe.valueType {
        case let type as any AttributeRepresentable.Type:
            func answer<Value: AttributeRepresentable>(_ type: Value.Type) -> Value? {
                attribute(key, of: object)
            }
            return answer(type)
        case let objectClass as ManagedObject.Type:
            return probe.object(of: objectClass, isToMany: false, key, of: object)
        case let type as any ObjectCollection.Type:
            return type.containing(
                probe.object(of: type.objectClass, isToMany: true, key, of: object))
        default: return nil
        }
    }

    /// As ``value(_:of:)``, for a to-many relationship.
    static func objects(_ key: String, of object: ManagedObject) -> [ManagedObject] {
        switch value(key, of: object) {
        case let objects as Set<ManagedObject>: Array(objects)
        case let objects as [ManagedObject]: objects
        default: []
        }
    }
}

private protocol OptionalType {
    static var wrapped: Any.Type { get }
}

extension Optional: OptionalType {
    static var wrapped: Any.Type { Wrapped.self }
}

extension RawRepresentable {
    /// One of the type's cases, if they are known.
    static var anyCase: Self? {
        func last<Value: CaseIterable>(_ type: Value.Type) -> Self? {
            Array(Value.allCases).last as? Self
        }
        return (self as? any CaseIterable.Type).flatMap { last($0) }
    }
}

/// A type of to-many relationships.
private protocol ObjectCollection {
    static var objectClass: ManagedObject.Type { get }
    static func containing(_ object: ManagedObject) -> Any
}

extension Set: ObjectCollection where Element: ManagedObject {
    static var objectClass: ManagedObject.Type { Element.self }
    static func containing(_ object: ManagedObject) -> Any { Set<ManagedObject>([object]) }
}

extension Array: ObjectCollection where Element: ManagedObject {
    static var objectClass: ManagedObject.Type { Element.self }
    static func containing(_ object: ManagedObject) -> Any { [object] }
}

// MARK: - Accessors

// The calls that the macros `@Attribute` and `@Relationship` generate. A property is identified by its ordinal (see
// EntityDeclaration). Reading one is a lookup in the entity's table followed by access by slot; nothing here looks up a name.

extension ManagedObject {
    /// Counts the properties that subclasses declare, from zero. The macro `@Entity` generates one for each class, which
    /// continues its superclass's.
    public enum PropertyOrdinals {
        /// The number of properties so far.
        @inlinable public static var propertyCount: Int { 0 }
    }

    /// Whether this is an object by which the names in a key path are found; see ``PropertyProbe``.
    @inline(__always)
    final var isProbe: Bool { resolvedEntity.number == 0 }

    /// The slot of a property, or the position of a to-many relationship; `nil` for the probe of a key path, whose entity has
    /// no table.
    @inline(__always)
    final func position(of ordinal: Int) -> Int? {
        let table = resolvedEntity.classTable
        return ordinal < table.count ? table[ordinal] : nil
    }
}

// MARK: - Attributes

extension ManagedObject {
    /// The value of an optional attribute.
    @inlinable @inline(__always)
    public final func attribute<Value: AttributeRepresentable>(_ ordinal: Int) -> Value? {
        Value.value(of: self, at: ordinal)
    }

    /// The value of an attribute, else the model's default value, else ``AttributeRepresentable/missingValue``.
    @inlinable @inline(__always)
    public final func attribute<Value: AttributeRepresentable>(_ ordinal: Int) -> Value {
        Value.value(of: self, at: ordinal) ?? defaultValue(ordinal)
    }

    /// The value of an attribute, else the class's default value.
    @inlinable @inline(__always)
    public final func attribute<Value: AttributeRepresentable>(
        _ ordinal: Int, default value: @autoclosure () -> Value
    ) -> Value {
        Value.value(of: self, at: ordinal) ?? value()
    }

    /// The value of an optional attribute with raw values; `nil` also for an invalid raw value.
    @inlinable @inline(__always)
    public final func attribute<Value: RawRepresentable>(_ ordinal: Int) -> Value?
    where Value.RawValue: AttributeRepresentable {
        guard let raw = Value.RawValue.value(of: self, at: ordinal) else { return nil }
        return Value(rawValue: raw) ?? PropertyProbe.answer(nil)
    }

    /// The value of an attribute with raw values; if it is missing or an invalid raw value, the class's default value.
    @inlinable @inline(__always)
    public final func attribute<Value: RawRepresentable>(
        _ ordinal: Int, default value: @autoclosure () -> Value
    ) -> Value where Value.RawValue: AttributeRepresentable {
        guard let raw = Value.RawValue.value(of: self, at: ordinal) else { return value() }
        return Value(rawValue: raw) ?? PropertyProbe.answer(value()) ?? value()
    }

    /// Explains that a property needs a default value.
    @available(
        *, unavailable,
        message:
            "the store may contain a value that this type cannot represent; give the attribute a “default:”, or make it optional"
    )
    public final func attribute<Value: RawRepresentable>(_ ordinal: Int) -> Value
    where Value.RawValue: AttributeRepresentable {
        preconditionFailure("Never called: it is unavailable.")
    }

    /// Explains that a property has a type that no attribute can have.
    @available(
        *, unavailable,
        message:
            "an attribute is an integer, Double, Float, Decimal, String, Bool, Date, Data, UUID, URL, an enumeration over one of these, a structure marked @Composite, or a type that conforms to AttributeRepresentable"
    )
    @_disfavoredOverload
    public final func attribute<Value>(_ ordinal: Int, default value: Value? = nil) -> Value {
        preconditionFailure("Never called: it is unavailable.")
    }

    /// Sets an attribute. A value that it cannot represent, such as an integer out of range for an entity whose attribute is
    /// narrower, is kept, and validating the object fails; not-a-number is a missing value.
    @inlinable @inline(__always)
    public final func setAttribute<Value: AttributeRepresentable>(_ ordinal: Int, _ value: Value) {
        setProperty(ordinal, value.attributeValue)
    }

    /// Sets an optional attribute.
    @inlinable @inline(__always)
    public final func setAttribute<Value: AttributeRepresentable>(_ ordinal: Int, _ value: Value?) {
        setProperty(ordinal, value?.attributeValue ?? .null)
    }

    /// Sets an attribute with raw values.
    @inlinable @inline(__always)
    public final func setAttribute<Value: RawRepresentable>(_ ordinal: Int, _ value: Value)
    where Value.RawValue: AttributeRepresentable {
        setProperty(ordinal, value.rawValue.attributeValue)
    }

    /// Sets an optional attribute with raw values.
    @inlinable @inline(__always)
    public final func setAttribute<Value: RawRepresentable>(_ ordinal: Int, _ value: Value?)
    where Value.RawValue: AttributeRepresentable {
        setProperty(ordinal, value?.rawValue.attributeValue ?? .null)
    }

    /// Explains that a property has a type that no attribute can have; see ``attribute(_:default:)``.
    @available(*, unavailable, message: "no attribute can have this type")
    @_disfavoredOverload
    public final func setAttribute<Value>(_ ordinal: Int, _ value: Value) {
        preconditionFailure("Never called: it is unavailable.")
    }

    @usableFromInline
    final func setProperty(_ ordinal: Int, _ value: AttributeValue) {
        guard let slot = position(of: ordinal) else { return }
        trapping { try assign(value, at: slot) }
    }

    @usableFromInline @inline(never)
    final func defaultValue<Value: AttributeRepresentable>(_ ordinal: Int) -> Value {
        guard let slot = position(of: ordinal) else { return Value.missingValue }
        return Value(attributeValue: resolvedEntity.defaultValues[slot]) ?? Value.missingValue
    }
}

// MARK: - Relationships

extension ManagedObject {
    /// The objects of a fetched property, as by ``fetchedObjects(_:)``. If they cannot be fetched, the result is empty and the
    /// context's ``ManagedObjectContext/lastFaultError`` explains it.
    public final func fetchedProperty<Destination: ManagedObject>(_ key: String) -> [Destination] {
        // The probe of a key path has no context.
        guard let context else { return [] }
        do {
            return try fetchedObjects(key).compactMap { $0 as? Destination }
        } catch {
            context.reportFault(error)
            return []
        }
    }

    /// The destination of a to-one relationship.
    @inlinable @inline(__always)
    public final func related<Destination: ManagedObject>(_ ordinal: Int) -> Destination? {
        relatedObject(ordinal).flatMap { Self.object($0, as: Destination.self) }
    }

    /// Sets the destination of a to-one relationship, and its inverse. Traps if the object is of another context; if it does
    /// not exist that is reported as the context's ``ManagedObjectContext/lastFaultError``, and nothing is changed.
    public final func setRelated(_ ordinal: Int, _ object: ManagedObject?) {
        guard let slot = position(of: ordinal),
            let index = resolvedEntity.slots[slot].relationshipIndex
        else { return }
        trapping { try setObject(object, through: resolvedEntity.relationships[index]) }
    }

    /// The objects in an ordered to-many relationship.
    ///
    /// - Complexity: O(*n*), and one fetch if the relationship is a fault.
    @inlinable
    public final func related<Destination: ManagedObject>(_ ordinal: Int) -> [Destination] {
        relatedObjects(ordinal).compactMap { Self.object($0, as: Destination.self) }
    }

    /// The objects in a to-many relationship.
    ///
    /// - Complexity: O(*n*), and one fetch if the relationship is a fault.
    @inlinable
    public final func related<Destination: ManagedObject>(_ ordinal: Int) -> Set<Destination> {
        Set(relatedObjects(ordinal).lazy.compactMap { Self.object($0, as: Destination.self) })
    }

    /// Sets the objects of an ordered to-many relationship. Traps if one is of another context; if one does not exist that is
    /// reported as the context's ``ManagedObjectContext/lastFaultError``, and nothing is changed.
    ///
    /// - Complexity: O(*n*). To change one object, use `add(_:to:)`
    ///   and its siblings.
    @inlinable
    public final func setRelated<Destination: ManagedObject>(
        _ ordinal: Int, _ objects: [Destination]
    ) {
        setRelatedObjects(ordinal, objects)
    }

    /// Sets the objects of a to-many relationship. Traps if one is of another context; if one does not exist that is reported
    /// as the context's ``ManagedObjectContext/lastFaultError``, and nothing is changed.
    ///
    /// - Complexity: O(*n* log *n*).
    @inlinable
    public final func setRelated<Destination: ManagedObject>(
        _ ordinal: Int, _ objects: Set<Destination>
    ) {
        // Sorted, so that a program does the same in every run.
        setRelatedObjects(ordinal, objects.sorted { $0.objectID.bits < $1.objectID.bits })
    }

    /// An object as one of a class. Bindings are checked when a layout is made, so only a damaged store can make it
    /// fail.
    @inlinable @inline(__always)
    static func object<Class: ManagedObject>(_ object: ManagedObject, as _: Class.Type) -> Class? {
        type(of: object) == Class.self
            ? unsafeDowncast(object, to: Class.self) : object as? Class
    }

    @usableFromInline
    final func relatedObject(_ ordinal: Int) -> ManagedObject? {
        guard let slot = position(of: ordinal) else {
            return PropertyProbe.object(ordinal, of: self)
        }
        guard let id = objectID(at: slot) else { return nil }
        return contextUnlessDiscarded?.object(with: id)
    }

    @usableFromInline
    final func relatedObjects(_ ordinal: Int) -> [ManagedObject] {
        guard let index = position(of: ordinal) else {
            return PropertyProbe.object(ordinal, of: self).map { [$0] } ?? []
        }
        guard let context = contextUnlessDiscarded else { return [] }
        return notedMembers(of: resolvedEntity.relationships[index]).map {
            context.object(with: $0)
        }
    }

    @usableFromInline
    final func setRelatedObjects(_ ordinal: Int, _ objects: [ManagedObject]) {
        guard let index = position(of: ordinal) else { return }
        trapping { try setObjects(objects, through: resolvedEntity.relationships[index]) }
    }
}
