public import Foundation

/// A request for objects of an entity.
///
/// ```swift
/// var request = try FetchRequest<Book>(predicate: #Predicate { $0.year < 1815 }, sortBy: [SortDescriptor(\.title)])
/// request.fetchLimit = 10
/// for book in try context.fetch(request) { print(book.title) }
///
/// var other = Book.fetchRequest()
/// other.predicate = try QueryPredicate(format: "author.name == %@ AND year < %d", "Jane Austen", 1815)
/// other.sortOrderings = [SortOrdering(\Book.title)]
/// ```
///
/// It has the properties of ``FetchSpecification``. The entity is the named one, or the entity that the context's model binds to
/// the class `Object`.
@dynamicMemberLookup
public struct FetchRequest<Object: ManagedObject>: Sendable, Hashable {
    /// The request as stores get it, without the ``sortDescriptors``. If its entity has no name, the context fills in the name
    /// of the class's entity.
    public var specification: FetchSpecification
    /// The order by Foundation's sort descriptors, applied after the ``FetchSpecification/sortOrderings``.
    ///
    /// A fetch throws if a store cannot express a descriptor; see ``SortOrdering/init(_:)``.
    public var sortDescriptors: [SortDescriptor<Object>] = []

    /// Finds the objects of an entity that satisfy a condition.
    ///
    /// The entity must be bound to the class or a subclass; otherwise contexts throw an error.
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

    /// Finds the objects of the class that satisfy a condition, in the order of sort descriptors.
    public init(predicate: QueryPredicate? = nil, sortBy descriptors: [SortDescriptor<Object>]) {
        self.init(entityName: "", predicate: predicate)
        sortDescriptors = descriptors
    }

    /// Finds the objects of the class that satisfy a Foundation predicate, in the order of sort descriptors.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if a query cannot express the predicate; see ``QueryPredicate/init(_:)``.
    public init(
        predicate: Predicate<Object>, sortBy descriptors: [SortDescriptor<Object>] = []
    ) throws {
        self.init(predicate: try QueryPredicate(predicate), sortBy: descriptors)
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
    /// - Throws: ``QuireError`` with code `unknownEntity` if there is none, or several are bound to the class,
    ///   `invalidQuery` if the named entity is bound to another class, and `unsupported` for a sort descriptor.
    func specification(in layout: ResolvedModel) throws -> FetchSpecification {
        let specification = try sortedSpecification
        if specification.entityName.isEmpty {
            guard let entity = layout.entity(of: Object.self) else {
                throw QuireError(
                    .unknownEntity,
                    "The model does not have exactly one entity whose class is \(Object.self); bind it to one with "
                        + "ManagedObjectModel.bind(_:to:) before the store is opened.",
                    entity: Object.entityDeclaration?.name)
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
                "The objects of \(entity.name) are not of the requested class \(Object.self); bind the class with "
                    + "ManagedObjectModel.bind(_:to:) before the store is opened.",
                entity: entity.name)
        }
        return specification
    }

    /// The specification, ordered by the sort descriptors too.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if one cannot be translated.
    private var sortedSpecification: FetchSpecification {
        get throws {
            if sortDescriptors.isEmpty { return specification }
            var specification = specification
            specification.sortOrderings += try sortDescriptors.map { try SortOrdering($0) }
            return specification
        }
    }

    /// The specification without a model: its entity is the one named, or the one that the class declares.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` for a sort descriptor.
    var declaredSpecification: FetchSpecification {
        get throws {
            var specification = try sortedSpecification
            if specification.entityName.isEmpty {
                specification.entityName = Object.entityDeclaration?.name ?? ""
            }
            return specification
        }
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
    /// Deletes the objects that match a request. Its entity is the named one, or the one that the class declares.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` for a sort descriptor that a store cannot express.
    public init<Object>(fetchRequest: FetchRequest<Object>) throws {
        self.init(fetchRequest: try fetchRequest.declaredSpecification)
    }
}
