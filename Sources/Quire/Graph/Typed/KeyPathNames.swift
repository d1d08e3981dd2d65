extension EntityClass where Self: ManagedObject {
    /// The model's names of the properties that a key path leads through, first to last: `["author", "name"]` for
    /// `\Book.author?.name`.
    ///
    /// `nil` if it does not lead through properties marked `@Attribute` and `@Relationship` only. The identifier of an
    /// object is named `objectID`. A computed property on the way is tried out on an object without a context, once; it
    /// must not need one.
    ///
    /// - Complexity: O(1) for a key path that was asked about before.
    public static func propertyNames(for keyPath: PartialKeyPath<Self>) -> [String]? {
        PropertyProbe.names(of: keyPath)
    }

    /// The names of ``propertyNames(for:)`` with dots between them, as requests and predicates take them.
    public static func propertyName(for keyPath: PartialKeyPath<Self>) -> String? {
        propertyNames(for: keyPath)?.joined(separator: ".")
    }

    fileprivate static func requireName(_ keyPath: PartialKeyPath<Self>) -> String {
        guard let name = propertyName(for: keyPath) else {
            preconditionFailure(
                "\(keyPath) leads through something that is neither @Attribute nor @Relationship.")
        }
        return name
    }
}

extension SortOrdering {
    /// Orders by a key path of a typed class.
    ///
    /// Stops the program with a sentence if it leads through something that is neither `@Attribute` nor
    /// `@Relationship`.
    public init<Object: ManagedObject>(
        _ keyPath: PartialKeyPath<Object>, ascending: Bool = true,
        options: QueryComparison.Options = []
    ) {
        self.init(Object.requireName(keyPath), ascending: ascending, options: options)
    }
}

extension QueryExpression {
    /// The value at a key path of a typed class.
    ///
    /// Stops the program with a sentence if it leads through something that is neither `@Attribute` nor
    /// `@Relationship`.
    public static func key<Object: ManagedObject>(
        _ keyPath: PartialKeyPath<Object>
    ) -> QueryExpression {
        .key(Object.requireName(keyPath))
    }
}

// MARK: - To-many relationships

/// Changes of a to-many relationship that read nothing and cost the same however many objects it leads to. Each sets
/// the other side too, and stops the program with a sentence if the object is of another context or was deleted.
extension EntityClass where Self: ManagedObject {
    /// Adds an object to a to-many relationship.
    public func add<Destination: ManagedObject>(
        _ object: Destination, to keyPath: KeyPath<Self, Set<Destination>>
    ) {
        add(object, to: Self.requireName(keyPath))
    }

    /// Adds an object to an ordered to-many relationship, as the last.
    public func add<Destination: ManagedObject>(
        _ object: Destination, to keyPath: KeyPath<Self, [Destination]>
    ) {
        add(object, to: Self.requireName(keyPath))
    }

    /// Inserts an object into an ordered to-many relationship at a position. An object that is there already moves.
    ///
    /// - Complexity: O(*n*).
    public func insert<Destination: ManagedObject>(
        _ object: Destination, into keyPath: KeyPath<Self, [Destination]>, at index: Int
    ) {
        insert(object, into: Self.requireName(keyPath), at: index)
    }

    /// Takes an object out of a to-many relationship.
    public func remove<Destination: ManagedObject>(
        _ object: Destination, from keyPath: KeyPath<Self, Set<Destination>>
    ) {
        remove(object, from: Self.requireName(keyPath))
    }

    /// Takes an object out of an ordered to-many relationship.
    public func remove<Destination: ManagedObject>(
        _ object: Destination, from keyPath: KeyPath<Self, [Destination]>
    ) {
        remove(object, from: Self.requireName(keyPath))
    }
}
