public import QuireSystem

/// A named fetch request in a ``ModelBuilder``. Its predicate may hold `$VARIABLES`.
///
/// ```swift
/// FetchTemplate("booksBy", of: "Book", where: "author.name == $NAME").limit(100)
/// ```
public struct FetchTemplate: FetchRequestPart {
    /// The request that is built.
    public var request: FetchRequestTemplate

    /// Makes a request for the objects of an entity that satisfy a predicate.
    public init(_ name: String, of entity: String, where predicate: String? = nil) {
        request = FetchRequestTemplate(name: name, entityName: entity)
        request.predicateFormat = predicate
    }
}

/// A fetched property in an ``Entity``. Its predicate may hold `$FETCH_SOURCE` for the object that owns it.
///
/// ```swift
/// FetchedProperty("contemporaries", of: "Author", where: "born == $FETCH_SOURCE.born")
/// ```
public struct FetchedProperty: FetchRequestPart {
    /// The description that is built.
    public var description: FetchedPropertyDescription

    /// The request that is built.
    public var request: FetchRequestTemplate {
        get { description.fetchRequest }
        set { description.fetchRequest = newValue }
    }

    /// Makes a property whose value is the objects of an entity that satisfy a predicate.
    public init(_ name: String, of entity: String, where predicate: String? = nil) {
        // Xcode gives the requests of all fetched properties this name.
        var request = FetchRequestTemplate(
            name: "fetchedPropertyFetchRequest", entityName: entity)
        request.predicateFormat = predicate
        description = FetchedPropertyDescription(name: name, fetchRequest: request)
    }

    /// Says whether it may be empty.
    public func optional(_ optional: Bool = true) -> FetchedProperty {
        modified(self) { $0.description.isOptional = optional }
    }

    /// Adds keys and values of your own.
    public func userInfo(_ entries: [String: PropertyListValue]) -> FetchedProperty {
        modified(self) { $0.description.userInfo.merge(entries) { $1 } }
    }

    /// Says whether sync services transfer it (of old models).
    public func syncable(_ syncable: Bool = true) -> FetchedProperty {
        modified(self) { $0.description.isSyncable = syncable }
    }
}

/// What ``FetchTemplate`` and ``FetchedProperty`` have in common.
public protocol FetchRequestPart: Sendable {
    /// The request that is built.
    var request: FetchRequestTemplate { get set }
}

extension FetchRequestPart {
    /// Bounds the number of objects found; 0 for no bound.
    public func limit(_ limit: Int) -> Self { modified(self) { $0.request.fetchLimit = limit } }

    /// Sets the number of objects read at a time; 0 for all at once.
    public func batchSize(_ size: Int) -> Self {
        modified(self) { $0.request.fetchBatchSize = size }
    }

    /// Says whether objects of sub-entities are found too.
    public func includesSubentities(_ included: Bool) -> Self {
        modified(self) { $0.request.includesSubentities = included }
    }

    /// Says whether values are read along with the objects.
    public func includesPropertyValues(_ included: Bool) -> Self {
        modified(self) { $0.request.includesPropertyValues = included }
    }

    /// Says whether unsaved changes are taken into account.
    public func includesPendingChanges(_ included: Bool) -> Self {
        modified(self) { $0.request.includesPendingChanges = included }
    }

    /// Says whether the objects found are faults.
    public func returnsObjectsAsFaults(_ faults: Bool) -> Self {
        modified(self) { $0.request.returnsObjectsAsFaults = faults }
    }

    /// Finds equal results once only.
    public func returnsDistinctResults(_ distinct: Bool = true) -> Self {
        modified(self) { $0.request.returnsDistinctResults = distinct }
    }

    /// Names the type of the results in the model file.
    public func resultType(_ name: String) -> Self {
        modified(self) { $0.request.resultType = name }
    }
}
