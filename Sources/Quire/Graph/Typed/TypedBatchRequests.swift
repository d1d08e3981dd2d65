public import Foundation

// Batch requests for the objects of a typed class. The entity is the one that the class declares; requests for a class that is
// bound to another entity are made with that entity's name.

extension BatchUpdateRequest {
    /// Updates the objects of a class that satisfy a Foundation predicate, or all.
    ///
    /// ```swift
    /// var update = try BatchUpdateRequest(Book.self, where: #Predicate { $0.year < 1800 })
    /// try update.set(\Book.genre, to: .history)
    /// try update.set(\Book.year, to: QueryExpression(format: "year + 100"))
    /// try context.execute(update)
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if the class declares none, or `unsupported` if a query cannot express
    ///   the predicate; see ``QueryPredicate/init(_:)``.
    public init<Object: ManagedObject>(
        _ objectClass: Object.Type, where predicate: Predicate<Object>? = nil
    ) throws {
        self.init(
            entityName: try Object.declaredEntityName,
            predicate: try predicate.map { try QueryPredicate($0) })
    }

    /// Sets an attribute of all objects to a value.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key path contains something that is not marked `@Attribute`.
    ///   Executing the request throws where the attribute cannot be set.
    public mutating func set<Object: ManagedObject, Value>(
        _ keyPath: KeyPath<Object, Value>, to value: Value
    ) throws {
        try set(keyPath, to: .constant(storedValue(of: value)))
    }

    /// Sets an optional attribute of all objects to a value, or to null.
    ///
    /// - Throws: As for attributes that are not optional.
    public mutating func set<Object: ManagedObject, Value>(
        _ keyPath: KeyPath<Object, Value?>, to value: Value?
    ) throws {
        try set(keyPath, to: .constant(value.map { try storedValue(of: $0) } ?? .null))
    }

    /// Sets an attribute of all objects to the value of an expression, computed from each object's state before the request.
    ///
    /// - Throws: As for values.
    public mutating func set<Object: ManagedObject>(
        _ keyPath: PartialKeyPath<Object>, to expression: QueryExpression
    ) throws {
        let key = try Object.requiredPropertyName(for: keyPath)
        expressions[key] = expression
        unusableTypes[key] = nil
    }
}

extension BatchUpdateRequest {
    /// Updates the objects of an entity; values are as in ``propertiesToUpdate``.
    public init(
        entityName: String, predicate: QueryPredicate? = nil, propertiesToUpdate: [String: Any]
    ) {
        self.init(entityName: entityName, predicate: predicate)
        self.propertiesToUpdate = propertiesToUpdate
    }

    /// The new values by attribute name, or by composite element: `place.lat`.
    ///
    /// A value is of any type that ``ManagedObject/setValue(_:forKey:)`` accepts for the attribute, `NSNull` or
    /// ``AttributeValue/null`` for none, or a ``QueryExpression`` that computes it from the object's state before the request.
    /// Executing the request throws for other values.
    public var propertiesToUpdate: [String: Any] {
        get {
            var values: [String: Any] = unusableTypes.mapValues { UnusableValue(typeName: $0) }
            for (key, expression) in expressions {
                if case .constant(let value) = expression {
                    values[key] = value.nativeValue ?? AttributeValue.null
                } else {
                    values[key] = expression
                }
            }
            return values
        }
        set {
            expressions = [:]
            unusableTypes = [:]
            for (key, value) in newValue {
                if let expression = value as? QueryExpression {
                    expressions[key] = expression
                } else if let value = AttributeValue(native: value) {
                    expressions[key] = .constant(value)
                } else {
                    unusableTypes[key] =
                        (value as? UnusableValue)?.typeName ?? "\(type(of: value))"
                }
            }
        }
    }

    /// The place of a value that no attribute can have.
    private struct UnusableValue: Sendable {
        let typeName: String
    }
}

extension BatchDeleteRequest {
    /// Deletes the objects of a class that satisfy a Foundation predicate, or all.
    ///
    /// ```swift
    /// try context.execute(BatchDeleteRequest(Book.self, where: #Predicate { $0.year < 1800 }))
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if the class declares none, or `unsupported` if a query cannot express
    ///   the predicate; see ``QueryPredicate/init(_:)``.
    public init<Object: ManagedObject>(
        _ objectClass: Object.Type, where predicate: Predicate<Object>? = nil
    ) throws {
        self.init(
            fetchRequest: FetchSpecification(
                try Object.declaredEntityName,
                predicate: try predicate.map { try QueryPredicate($0) }))
    }
}

extension BatchInsertRequest {
    /// Inserts rows of values in Swift's own types, as ``ManagedObject/setValue(_:forKey:)`` accepts them, such as
    /// dictionaries parsed from JSON.
    ///
    /// ```swift
    /// let rows = try JSONSerialization.jsonObject(with: data) as? [[String: Any]] ?? []
    /// try context.execute(BatchInsertRequest(entityName: "Book", objects: rows))
    /// ```
    ///
    /// They are converted one at a time. `NSNull` is a missing value; a saved object, or its identifier, is the destination of
    /// a to-one relationship. Executing the request throws `invalidValue` for values of other types.
    @_disfavoredOverload
    public init(entityName: String, objects: [[String: Any]]) {
        self.init(
            entityName: entityName,
            makeHandler: {
                var position = 0
                return { row in
                    guard position < objects.count else { return true }
                    position += 1
                    for (key, value) in objects[position - 1] {
                        guard let converted = AttributeValue(native: value) else {
                            throw QuireError(
                                .invalidValue,
                                "Row \(position): “\(key)” of \(entityName) cannot be set to a value of type "
                                    + "\(type(of: value)).",
                                entity: entityName, property: key, position: position)
                        }
                        row[key] = converted
                    }
                    return false
                }
            })
    }

    /// Inserts an object of a class for each element of a sequence. A closure sets its properties.
    ///
    /// ```swift
    /// let insertion = try BatchInsertRequest(Book.self, objects: lines) { row, line in
    ///     try row.set(\.title, to: line.title)
    ///     try row.set(\.author, to: austen)
    /// }
    /// try context.execute(insertion)
    /// ```
    ///
    /// - Throws: Errors of the closure, and ``QuireError`` with code `unknownEntity` if the class declares none.
    public init<Object: ManagedObject, Elements: Sequence>(
        _ objectClass: Object.Type, objects elements: Elements,
        setProperties: (inout BatchRow<Object>, Elements.Element) throws -> Void
    ) throws {
        self.init(
            entityName: try Object.declaredEntityName,
            objects: try elements.map { element in
                var row = BatchRow<Object>()
                try setProperties(&row, element)
                return row.values
            })
    }

    /// Inserts objects of a class whose rows a closure fills in, one at a time; one row at a time is in memory.
    ///
    /// The closure returns `true` at the end, and the row passed then is not inserted. It is called inside the store's transaction
    /// and must not save to the same store, which traps. If it throws, nothing is inserted.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if the class declares none.
    public init<Object: ManagedObject>(
        _ objectClass: Object.Type,
        rowHandler: @escaping (_ row: inout BatchRow<Object>) throws -> Bool
    ) throws {
        self.init(entityName: try Object.declaredEntityName) { values in
            var row = BatchRow<Object>()
            let isAtEnd = try rowHandler(&row)
            values = row.values
            return isAtEnd
        }
    }
}

/// The properties of an object that a ``BatchInsertRequest`` inserts. Those that are not set get their default value.
public struct BatchRow<Object: ManagedObject> {
    /// The values by the names of the properties.
    var values: [String: AttributeValue] = [:]

    /// Sets an attribute.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key path has no name; see
    ///   ``EntityClass/propertyNames(for:)``. Executing the request throws where the property cannot be set.
    public mutating func set<Value>(_ keyPath: KeyPath<Object, Value>, to value: Value) throws {
        values[try Object.requiredPropertyName(for: keyPath)] = try storedValue(of: value)
    }

    /// Sets an optional attribute, or a to-one relationship to a saved object.
    ///
    /// - Throws: As for attributes that are not optional.
    public mutating func set<Value>(_ keyPath: KeyPath<Object, Value?>, to value: Value?) throws {
        values[try Object.requiredPropertyName(for: keyPath)] =
            try value.map { try storedValue(of: $0) } ?? .null
    }

    /// Sets a to-one relationship to the saved object of an identifier.
    ///
    /// - Throws: As for attributes.
    public mutating func set<Destination: ManagedObject>(
        _ keyPath: KeyPath<Object, Destination?>, to objectID: ManagedObjectID
    ) throws {
        values[try Object.requiredPropertyName(for: keyPath)] = .objectID(objectID)
    }
}

extension EntityClass where Self: ManagedObject {
    /// The name of the entity that the class declares.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if it declares none.
    fileprivate static var declaredEntityName: String {
        get throws {
            if let name = entityDeclaration?.name { return name }
            throw QuireError(
                .unknownEntity,
                "\(Self.self) declares no entity; mark it @Entity, or create the request with the entity's name."
            )
        }
    }

    /// - Throws: ``QuireError`` with code `unknownKey`.
    fileprivate static func requiredPropertyName(
        for keyPath: PartialKeyPath<Self>
    ) throws -> String {
        if let name = propertyName(for: keyPath) { return name }
        throw QuireError(
            .unknownKey,
            "A batch request cannot set “\(keyPath)”: it contains a property of \(Self.self) that is not "
                + "in the model.",
            entity: entityDeclaration?.name)
    }
}

/// The value of a typed property as stores exchange it.
///
/// - Throws: ``QuireError`` with code `invalidValue` if no attribute or to-one relationship has such values.
private func storedValue(of value: Any) throws -> AttributeValue {
    if let found = AttributeValue(native: value) { return found }
    throw QuireError(
        .invalidValue,
        "A batch request cannot set a property to a \(type(of: value)); set a to-many relationship through its "
            + "inverse.")
}
