internal import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// Values by key, in their own types.
///
/// | property | read as | set with |
/// |---|---|---|
/// | integer, of any width | `Int` | any integer |
/// | double, float | `Double` | a floating-point number or an integer |
/// | decimal, boolean, string, date, binary, UUID, URI | `Decimal`, `Bool`, `String`, `Date`, `Data`, `UUID`, `URL` | the same |
/// | composite | `[String: Any]` | the same |
/// | to-one relationship | ``ManagedObject`` | an object or its identifier |
/// | to-many relationship | `Set<ManagedObject>` | a set, an array or fetched objects |
/// | ordered to-many relationship | `[ManagedObject]` | an array or fetched objects |
/// | fetched property | `[ManagedObject]` | |
///
/// A missing value is `nil`, which `NSNull` sets too. A value of a type that conforms to ``AttributeRepresentable`` is set as its
/// ``AttributeRepresentable/attributeValue``, and an enumeration as its raw value. `as:` converts to a type, unlike `as?`:
///
/// ```swift
/// book["title"] = "Emma"
/// book["author"] = author
/// if let title = book["title"] as? String { print(title) }
/// if let year = book["year", as: Int16.self] { print(year) }
/// for book in author["books", as: Set<ManagedObject>.self] { print(book["title"] ?? "") }
/// ```
extension ManagedObject {
    /// The value of a property; see the table above.
    ///
    /// Traps if the key names no property, or the new value is of a kind that the property never has, such as a text for a
    /// number. A number or date that the attribute cannot represent, such as 40,000 in 16 bits, is kept, and validating or
    /// saving the object fails; not-a-number is a missing value. A value that cannot be read is `nil`, and a change
    /// rejected because an object does not exist, or is locked, is not made; both are reported as the context's
    /// ``ManagedObjectContext/lastFaultError``.
    public final subscript(
        key: String, file file: StaticString = #fileID, line line: UInt = #line
    ) -> Any? {
        get { read(else: nil, file: file, line: line) { try value(forKey: key) } }
        set {
            trapping(file: file, line: line) {
                switch try resolvedEntity.requireProperty(key) {
                case .attribute(let slot):
                    try assign(attributeValue(newValue, forKey: key), at: slot)
                case .composite: try assign(attributeValue(newValue, forKey: key), forKey: key)
                case .relationship, .fetched: try setValue(newValue, forKey: key)
                }
            }
        }
    }

    /// The value of an attribute, converted to a type; `nil` if it is missing or not representable in the type.
    ///
    /// Traps as `subscript(_:)`.
    public final subscript<Value: AttributeRepresentable>(
        key: String, as type: Value.Type, file file: StaticString = #fileID, line line: UInt = #line
    ) -> Value? {
        get {
            if isProbe { return PropertyProbe.attribute(key, of: self) }
            return Value(attributeValue: self[key, as: AttributeValue.self, file: file, line: line])
        }
        set {
            self[key, as: AttributeValue.self, file: file, line: line] =
                newValue?.attributeValue ?? .null
        }
    }

    /// The value of an attribute, converted to an enumeration; `nil` if it is missing or not a raw value of the enumeration.
    ///
    /// Traps as `subscript(_:)`.
    public final subscript<Value: RawRepresentable>(
        key: String, as type: Value.Type, file file: StaticString = #fileID, line line: UInt = #line
    ) -> Value? where Value.RawValue: AttributeRepresentable {
        get {
            guard let raw = self[key, as: Value.RawValue.self, file: file, line: line] else {
                return nil
            }
            if let value = Value(rawValue: raw) { return value }
            return isProbe ? PropertyProbe.answer(Value.anyCase) : nil
        }
        set { self[key, as: Value.RawValue.self, file: file, line: line] = newValue?.rawValue }
    }

    /// The destination of a to-one relationship; `nil` also if it is of another class.
    ///
    /// Traps as `subscript(_:)`.
    public final subscript<Destination: ManagedObject>(
        key: String, as type: Destination.Type, file file: StaticString = #fileID,
        line line: UInt = #line
    ) -> Destination? {
        get {
            if isProbe {
                return PropertyProbe.related(Destination.self, isToMany: false, key, of: self)
                    as? Destination
            }
            return object(key, file: file, line: line) as? Destination
        }
        set { self[key, file: file, line: line] = newValue }
    }

    /// The objects of a class in a to-many relationship.
    ///
    /// Traps as `subscript(_:)`.
    ///
    /// - Complexity: O(*n*), and one fetch if the relationship is a fault.
    public final subscript<Destination: ManagedObject>(
        key: String, as type: Set<Destination>.Type, file file: StaticString = #fileID,
        line line: UInt = #line
    ) -> Set<Destination> {
        get { Set(members(key, file: file, line: line) as [Destination]) }
        set { self[key, file: file, line: line] = newValue }
    }

    /// The objects of a class in a to-many relationship: in its order if it is ordered, else as in `objectIDs(_:)`.
    ///
    /// Traps as `subscript(_:)`.
    ///
    /// - Complexity: O(*n*), and one fetch if the relationship is a fault.
    public final subscript<Destination: ManagedObject>(
        key: String, as type: [Destination].Type, file file: StaticString = #fileID,
        line line: UInt = #line
    ) -> [Destination] {
        get { members(key, file: file, line: line) }
        set { self[key, file: file, line: line] = newValue }
    }

    private final func members<Destination: ManagedObject>(
        _ key: String, file: StaticString, line: UInt
    ) -> [Destination] {
        let objects =
            isProbe
            ? PropertyProbe.related(Destination.self, isToMany: true, key, of: self).map { [$0] }
                ?? []
            : objects(key, file: file, line: line)
        return objects.compactMap { $0 as? Destination }
    }

    /// The value of an attribute, or the destination's identifier of a to-one relationship, as stores exchange it: for tools
    /// that handle values of any type.
    ///
    /// Traps as `subscript(_:)`.
    public final subscript(
        key: String, as type: AttributeValue.Type, file file: StaticString = #fileID,
        line line: UInt = #line
    ) -> AttributeValue {
        get { read(else: .null, file: file, line: line) { try attributeValue(forKey: key) } }
        set { trapping(file: file, line: line) { try assign(newValue, forKey: key) } }
    }

    /// The value of a property; see the table above.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the property does not exist, or errors of reading the store or the
    ///   value's file.
    public final func value(forKey key: String) throws -> Any? {
        if isProbe { return PropertyProbe.value(key, of: self) }
        switch try resolvedEntity.requireProperty(key) {
        case .attribute(let slot): return try readValue(at: slot).nativeValue
        case .composite: return try attributeValue(forKey: key).nativeValue
        case .relationship(let index):
            let relationship = resolvedEntity.relationships[index]
            if !relationship.isToMany { return object(key) }
            let objects = objects(through: relationship)
            return relationship.isOrdered ? objects : Set(objects)
        case .fetched: return try fetchedObjects(key)
        }
    }

    /// As ``setAttributeValue(_:forKey:)``, for accessors that cannot throw; see ``assign(_:at:)``.
    final func assign(_ value: AttributeValue, forKey key: String) throws {
        switch try resolvedEntity.requireProperty(key) {
        case .attribute(let slot): try assign(value, at: slot)
        case .composite(let slots):
            for element in try resolvedEntity.elements(of: value, forKey: key, in: slots) {
                try assign(element.value, at: element.slot)
            }
        case .relationship, .fetched: try setAttributeValue(value, forKey: key)
        }
    }

    /// Sets an attribute or a relationship, and the relationship's inverse; see the table above.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the property does not exist, `invalidValue` if the property cannot have
    ///   the value, or `notFound` if an object does not exist; nothing is changed then.
    public final func setValue(_ value: Any?, forKey key: String) throws {
        let index: Int
        switch try resolvedEntity.requireProperty(key) {
        case .attribute(let slot):
            return try setValue(attributeValue(value, forKey: key), at: slot)
        case .relationship(let found): index = found
        case .composite, .fetched:
            return try setAttributeValue(attributeValue(value, forKey: key), forKey: key)
        }
        let relationship = resolvedEntity.relationships[index]
        if !relationship.isToMany {
            if let object = value as? ManagedObject {
                try setObject(object, through: relationship)
            } else {
                try setAttributeValue(attributeValue(value, forKey: key), forKey: key)
            }
        } else {
            try setObjects(objects(value, for: relationship), through: relationship)
        }
    }

    /// The value at a key path: `author.name`, `books.title`, `books.@avg.year`.
    ///
    /// It has the same meaning as in a predicate, whose expressions are also accepted. Through a to-many relationship it
    /// is an array, without missing values.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` or `invalidQuery` if the key path is invalid, `notFound` if the object's
    ///   context no longer exists, or errors of reading the store.
    public final func value(forKeyPath keyPath: String) throws -> Any? {
        if resolvedEntity.properties[keyPath] != nil { return try value(forKey: keyPath) }
        switch try SortOrdering(keyPath).expression.operand(for: self) {
        case .one(let value): return value.nativeValue
        case .list(let values): return values.compactMap(\.nativeValue)
        case .many(let values): return values.compactMap(\.nativeValue)
        }
    }

    // MARK: Mutable to-many relationships

    /// The objects in a to-many relationship without an order, as a view that changes it.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the property does not exist, or `invalidValue` if it is not a to-many
    ///   relationship or is ordered.
    public final func mutableSetValue(forKey key: String) throws -> MutableObjectSet {
        let relationship = try toManyRelationship(forKey: key)
        if relationship.isOrdered {
            throw noMutableValue(
                key, "is an ordered relationship; use mutableOrderedSetValue(forKey:)")
        }
        return MutableObjectSet(self, relationship)
    }

    /// The objects in an ordered to-many relationship, as a view that changes it.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the property does not exist, or `invalidValue` if it is not an ordered
    ///   to-many relationship.
    public final func mutableOrderedSetValue(forKey key: String) throws -> MutableOrderedObjectSet {
        let relationship = try toManyRelationship(forKey: key)
        if !relationship.isOrdered {
            throw noMutableValue(key, "is not ordered; use mutableSetValue(forKey:)")
        }
        return MutableOrderedObjectSet(self, relationship)
    }

    private final func toManyRelationship(
        forKey key: String
    ) throws -> ResolvedEntity.Relationship {
        if case .relationship(let index) = try resolvedEntity.requireProperty(key),
            resolvedEntity.relationships[index].isToMany
        {
            return resolvedEntity.relationships[index]
        }
        throw noMutableValue(
            key, "is not a to-many relationship; read it with value(forKey:)")
    }

    private final func noMutableValue(_ key: String, _ reason: String) -> QuireError {
        QuireError(
            .invalidValue, "“\(key)” of \(resolvedEntity.name) \(reason).",
            entity: resolvedEntity.name, property: key, object: objectID.uriRepresentation)
    }

    // MARK: Conversions

    private final func read<Value>(
        else missing: Value, file: StaticString, line: UInt, _ body: () throws -> Value
    ) -> Value {
        do {
            return try body()
        } catch let error as QuireError where error.code == .unknownKey {
            fatalError(error.message, file: file, line: line)
        } catch {
            context?.reportFault(error)
            return missing
        }
    }

    final func attributeValue(_ value: Any?, forKey key: String) throws -> AttributeValue {
        guard let value else { return .null }
        if let found = AttributeValue(native: value) { return found }
        throw invalidValue(value, forKey: key)
    }

    private final func objects(
        _ value: Any?, for relationship: ResolvedEntity.Relationship
    ) throws -> [ManagedObject] {
        let key = relationship.name
        guard let value, !(value is NSNull) else { return [] }
        guard let elements = value as? any Sequence else {
            throw invalidValue(value, forKey: key)
        }
        let objects = try Self.array(elements).map {
            guard let object = $0 as? ManagedObject else { throw invalidValue($0, forKey: key) }
            return object
        }
        guard value is any SetAlgebra else { return objects }
        if relationship.isOrdered { throw invalidValue(value, forKey: key) }
        // Sorted, so that a program does the same in every run.
        return objects.sorted { $0.objectID.bits < $1.objectID.bits }
    }

    private static func array(_ elements: some Sequence) -> [Any] { Array(elements) }

    private final func invalidValue(_ value: Any, forKey key: String) -> QuireError {
        QuireError(
            .invalidValue,
            "“\(key)” of \(resolvedEntity.name) cannot be set to a value of type \(type(of: value)).",
            entity: resolvedEntity.name, property: key, object: objectID.uriRepresentation)
    }
}

extension AttributeValue {
    /// The value in Swift's own type; `nil` if it is missing.
    var nativeValue: Any? {
        switch self {
        case .null: nil
        case .integer(let integer): Int(integer)
        case .double(let number): number
        case .boolean(let truth): truth
        case .decimal(let number): number
        case .string(let text): text
        case .date(let date): date
        case .binary(let data): data
        case .external(let data): data
        case .uuid(let uuid): uuid
        case .uri(let uri): uri
        case .objectID(let id): id
        case .composite(let elements): elements.compactMapValues(\.nativeValue)
        }
    }

    /// The attribute value of a value in Swift's own type; `nil` if no attribute can keep it.
    init?(native value: Any) {
        if let common = AttributeValue(common: value) {
            self = common
            return
        }
        switch value {
        case let value as AttributeValue: self = value
        case let value as any AttributeRepresentable: self = value.attributeValue
        case let value as any RawRepresentable: self.init(native: value.rawValue)
        case let value as any BinaryInteger:
            guard let integer = Int64(exactly: value) else { return nil }
            self = .integer(integer)
        case let value as ManagedObjectID: self = .objectID(value)
        case let value as ManagedObject: self = .objectID(value.objectID)
        case let value as ExternalData: self = .external(value)
        case is NSNull: self = .null
        case let elements as [String: Any]:
            var values: [String: AttributeValue] = [:]
            for (name, element) in elements {
                guard let element = AttributeValue(native: element) else { return nil }
                values[name] = element
            }
            self = .composite(values)
        default:
            // An optional within `Any`.
            let mirror = Mirror(reflecting: value)
            guard mirror.displayStyle == .optional, mirror.children.isEmpty else { return nil }
            self = .null
        }
    }
}

extension AttributeValue {
    /// The attribute value of the types that most values are of. Comparing types is much cheaper than a cast that fails, or that
    /// looks up a conformance.
    @inline(__always)
    fileprivate init?(common value: Any) {
        let type = type(of: value)
        if type == String.self, let text = value as? String {
            self = .string(text)
        } else if type == Int.self, let integer = value as? Int {
            self = .integer(Int64(integer))
        } else if type == Int64.self, let integer = value as? Int64 {
            self = .integer(integer)
        } else if type == Double.self, let number = value as? Double {
            self = .double(number)
        } else if type == Bool.self, let truth = value as? Bool {
            self = .boolean(truth)
        } else if type == Date.self, let date = value as? Date {
            self = .date(date)
        } else {
            return nil
        }
    }
}

extension QueryValue {
    fileprivate var nativeValue: Any? {
        switch self {
        case .value(let value): value.nativeValue
        case .object(let object): object
        case .objects(let objects): objects
        }
    }
}
