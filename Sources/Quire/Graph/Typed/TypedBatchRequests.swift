public import Foundation

// Batch requests for the objects of a typed class. The entity is the one that the class declares; requests for a class that is
// bound to another entity are made with that entity's name.

extension BatchUpdateRequest {
    /// Updates the objects of a class that satisfy one of Foundation's predicates, or all.
    ///
    /// ```swift
    /// var update = try BatchUpdateRequest(Book.self, where: #Predicate { $0.year < 1800 })
    /// try update.set(\Book.genre, to: .history)
    /// try update.set(\Book.year, to: QueryExpression(format: "year + 100"))
    /// try context.execute(update)
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if the class declares none, or `unsupported` for what a query cannot
    ///   express; see ``QueryPredicate/init(_:)``.
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

    /// Sets an optional attribute of all objects to a value, or to none.
    ///
    /// - Throws: As for attributes that are not optional.
    public mutating func set<Object: ManagedObject, Value>(
        _ keyPath: KeyPath<Object, Value?>, to value: Value?
    ) throws {
        try set(keyPath, to: .constant(value.map { try storedValue(of: $0) } ?? .null))
    }

    /// Sets an attribute of all objects to what an expression computes from each, as it was before the request.
    ///
    /// - Throws: As for values.
    public mutating func set<Object: ManagedObject>(
        _ keyPath: PartialKeyPath<Object>, to expression: QueryExpression
    ) throws {
        propertiesToUpdate[try Object.requiredPropertyName(for: keyPath)] = expression
    }
}

extension BatchDeleteRequest {
    /// Deletes the objects of a class that satisfy one of Foundation's predicates, or all.
    ///
    /// ```swift
    /// try context.execute(BatchDeleteRequest(Book.self, where: #Predicate { $0.year < 1800 }))
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if the class declares none, or `unsupported` for what a query cannot
    ///   express; see ``QueryPredicate/init(_:)``.
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
    /// - Throws: What the closure throws, and ``QuireError`` with code `unknownEntity` if the class declares none.
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
    /// - Throws: ``QuireError`` with code `unknownKey` if the key path contains something that is neither `@Attribute` nor
    ///   `@Relationship`. Executing the request throws where the property cannot be set.
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
                "\(Self.self) declares no entity; mark it @Entity, or make the request with the entity's name."
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
            "A batch request cannot set “\(keyPath)”: it leads through something of \(Self.self) that is neither "
                + "@Attribute nor @Relationship.",
            subject: .init(entity: entityDeclaration?.name))
    }
}

/// The value of a typed property as stores exchange it.
///
/// - Throws: ``QuireError`` with code `invalidValue` if no attribute or to-one relationship has such values.
private func storedValue(of value: Any) throws -> AttributeValue {
    if let found = AttributeValue(native: value) { return found }
    throw QuireError(
        .invalidValue,
        "A batch request cannot set a property to a \(type(of: value)); to-many relationships are set from their "
            + "other side.")
}
