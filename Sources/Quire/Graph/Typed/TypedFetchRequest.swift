/// A fetch request for the objects of a class: a ``FetchRequest`` with typed results.
///
/// ```swift
/// var request = Book.fetchRequest()
/// request.predicate = try QueryPredicate(format: "year < %d", 1815)
/// request.sortOrderings = [SortOrdering(\Book.title)]
/// for book in try context.fetch(request) { print(book.title) }
/// ```
///
/// The entity is the one that the context's model binds to the class.
@dynamicMemberLookup
public struct TypedFetchRequest<Object: ManagedObject>: Sendable, Hashable {
    /// The request; the name of its entity is filled in by the context.
    var untyped: FetchRequest

    /// Finds the objects of the class that satisfy a condition.
    public init(predicate: QueryPredicate? = nil, sortOrderings: [SortOrdering] = []) {
        untyped = FetchRequest("", predicate: predicate, sortOrderings: sortOrderings)
    }

    /// A request whose entity is the one of the class.
    init(_ untyped: FetchRequest) { self.untyped = untyped }

    /// The other properties of ``FetchRequest``.
    public subscript<Value>(
        dynamicMember keyPath: WritableKeyPath<FetchRequest, Value>
    ) -> Value {
        get { untyped[keyPath: keyPath] }
        set { untyped[keyPath: keyPath] = newValue }
    }

    /// The request for a model, with the name of the entity bound to the class.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if there is none, or more than one.
    public func request(in layout: ResolvedModel) throws -> FetchRequest {
        guard let entity = layout.entity(of: Object.self) else {
            throw QuireError(
                .unknownEntity,
                "The model has no entity, or several, whose class is \(Object.self); bind it to one by "
                    + "ManagedObjectModel.bind(_:to:) before the store is opened.",
                subject: .init(entity: Object.entityDeclaration?.name))
        }
        var request = untyped
        request.entityName = entity.name
        return request
    }
}

extension EntityClass where Self: ManagedObject {
    /// A request for all objects of the class.
    public static func fetchRequest() -> TypedFetchRequest<Self> { TypedFetchRequest() }
}

extension ManagedObjectContext {
    /// The objects of a class that a request finds, unsaved changes of this context and its parents included.
    ///
    /// - Complexity: As ``fetch(_:)-(FetchRequest)``.
    /// - Throws: ``QuireError`` with code `unknownEntity` if the class is bound to no entity of the model, `unknownKey`,
    ///   `invalidQuery` or `storeUnavailable`.
    public func fetch<Object: ManagedObject>(
        _ request: TypedFetchRequest<Object>
    ) throws -> TypedFetchedObjects<Object> {
        TypedFetchedObjects(try fetch(request.request(in: layout)))
    }

    /// The number of objects of a class that a request finds, unsaved changes included.
    ///
    /// - Throws: As ``fetch(_:)-(TypedFetchRequest<Object>)``.
    public func count<Object: ManagedObject>(
        for request: TypedFetchRequest<Object>
    ) throws -> Int {
        try count(for: request.request(in: layout))
    }
}

/// The objects of a class that a fetch found: ``FetchedObjects`` with a type.
public struct TypedFetchedObjects<Object: ManagedObject>: RandomAccessCollection {
    /// The same objects without their type.
    public let untyped: FetchedObjects

    @usableFromInline
    init(_ untyped: FetchedObjects) { self.untyped = untyped }

    /// The first position: 0.
    @inlinable public var startIndex: Int { 0 }
    /// The number of objects.
    @inlinable public var endIndex: Int { untyped.endIndex }

    /// The object at a position.
    ///
    /// - Complexity: O(1); no access to the store.
    @inlinable public subscript(position: Int) -> Object {
        guard let object = ManagedObject.object(untyped[position], as: Object.self) else {
            preconditionFailure(
                "\(untyped[position]) is no \(Object.self), although its entity is bound to that.")
        }
        return object
    }

    /// The identifiers of the objects, without making them.
    public var objectIDs: [ManagedObjectID] { untyped.objectIDs }
}

@available(*, unavailable, message: "Fetched objects are used on their context's queue.")
extension TypedFetchedObjects: Sendable {}
