/// A request for objects of an entity.
///
/// ```swift
/// var request = Book.fetchRequest()
/// request.predicate = try QueryPredicate(format: "author.name == %@ AND year < %d", "Jane Austen", 1815)
/// request.sortOrderings = [SortOrdering(\Book.title)]
/// for book in try context.fetch(request) { print(book.title) }
/// ```
///
/// Its properties are those of ``FetchSpecification``. The entity is the one that the context's model binds to the class
/// `Object`, or the one named.
@dynamicMemberLookup
public struct FetchRequest<Object: ManagedObject>: Sendable, Hashable {
    /// The request as stores get it. If its entity has no name, the context fills in the name of the class's entity.
    public var specification: FetchSpecification

    /// Finds the objects of an entity that satisfy a condition.
    ///
    /// The entity must be bound to the class or a subclass of it; contexts throw otherwise.
    public init(
        entityName: String, predicate: QueryPredicate? = nil, sortOrderings: [SortOrdering] = []
    ) {
        specification = FetchSpecification(
            entityName, predicate: predicate, sortOrderings: sortOrderings)
    }

    /// Finds the objects of the class that satisfy a condition.
    public init(predicate: QueryPredicate? = nil, sortOrderings: [SortOrdering] = []) {
        self.init(entityName: "", predicate: predicate, sortOrderings: sortOrderings)
    }

    /// Finds the objects of a specification, such as one of a template of the model.
    public init(_ specification: FetchSpecification) { self.specification = specification }

    /// The properties of the ``specification``.
    public subscript<Value>(
        dynamicMember keyPath: WritableKeyPath<FetchSpecification, Value>
    ) -> Value {
        get { specification[keyPath: keyPath] }
        set { specification[keyPath: keyPath] = newValue }
    }

    /// The specification for a model, with the name of the entity.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if there is none, or several are bound to the class, and
    ///   `invalidQuery` if the named entity is bound to another class.
    func specification(in layout: ResolvedModel) throws -> FetchSpecification {
        if specification.entityName.isEmpty {
            guard let entity = layout.entity(of: Object.self) else {
                throw QuireError(
                    .unknownEntity,
                    "The model has no entity, or several, whose class is \(Object.self); bind it to one by "
                        + "ManagedObjectModel.bind(_:to:) before the store is opened.",
                    subject: .init(entity: Object.entityDeclaration?.name))
            }
            var named = specification
            named.entityName = entity.name
            return named
        }
        if Object.self == ManagedObject.self { return specification }
        let entity = try layout.requireEntity(named: specification.entityName)
        guard entity.objectClass is Object.Type else {
            throw QuireError(
                .invalidQuery,
                "The objects of \(entity.name) are no \(Object.self), which are requested; bind the class by "
                    + "ManagedObjectModel.bind(_:to:) before the store is opened.",
                subject: .init(entity: entity.name))
        }
        return specification
    }
}

extension FetchRequest where Object == ManagedObject {
    /// Finds the objects of an entity that satisfy a condition.
    public init(
        _ entityName: String, predicate: QueryPredicate? = nil, sortOrderings: [SortOrdering] = []
    ) {
        self.init(entityName: entityName, predicate: predicate, sortOrderings: sortOrderings)
    }
}

extension EntityClass where Self: ManagedObject {
    /// A request for all objects of the class.
    public static func fetchRequest() -> FetchRequest<Self> { FetchRequest() }
}

extension BatchDeleteRequest {
    /// Deletes the objects that a request finds. Its entity is the one named, or the one that the class declares.
    public init<Object>(fetchRequest: FetchRequest<Object>) {
        var specification = fetchRequest.specification
        if specification.entityName.isEmpty {
            specification.entityName = Object.entityDeclaration?.name ?? ""
        }
        self.init(fetchRequest: specification)
    }
}
