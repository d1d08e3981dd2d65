/// What a request of any result type has found.
public enum FetchResult {
    /// The objects.
    case objects(FetchedObjects)
    /// The identifiers of the objects.
    case objectIDs([ManagedObjectID])
    /// Values of the objects, or of groups of them.
    case dictionaries(FetchedDictionaries)
    /// The number of the objects.
    case count(Int)
}

@available(*, unavailable, message: "Fetched objects are used on their context's queue.")
extension FetchResult: Sendable {}

extension ManagedObjectContext {
    /// What a request finds, as its ``FetchRequest/resultType`` says.
    ///
    /// - Throws: As ``fetch(_:)-(FetchRequest)``.
    public func execute(_ request: FetchRequest) throws -> FetchResult {
        switch request.resultType {
        case .objects: .objects(try fetch(request))
        case .objectIDs: .objectIDs(try fetchObjectIDs(request))
        case .dictionaries: .dictionaries(try fetchDictionaries(request))
        case .count: .count(try count(for: request))
        }
    }

    /// The identifiers of the objects that a request finds, unsaved changes of this context and its parents included.
    ///
    /// - Throws: As ``fetch(_:)-(FetchRequest)``.
    public func fetchObjectIDs(_ request: FetchRequest) throws -> [ManagedObjectID] {
        checkQueue()
        return try objectIDs(matching: request).bits.map { objectID(bits: $0) }
    }

    /// Values of the objects that a request finds, or of groups of them, by the names of columns.
    ///
    /// As in Core Data they are about what is saved: unsaved changes of this context and its parents do not count,
    /// whatever ``FetchRequest/includesPendingChanges`` says. Values are what they are of: dates for the least of
    /// dates, identifiers for objects.
    ///
    /// ```swift
    /// var request = FetchRequest("Book")
    /// request.propertiesToGroupBy = ["author.name"]
    /// request.propertiesToFetch = ["author.name", try ExpressionDescription("n", format: "count(title)")]
    /// request.havingPredicate = try QueryPredicate(format: "n > 3")
    /// request.sortOrderings = [SortOrdering("n", ascending: false)]
    /// ```
    ///
    /// Dictionaries that are equal in the order come by primary key, groups by what they have in common, and distinct
    /// ones by their values.
    ///
    /// - Complexity: One statement, or two if SQL cannot say the predicate. What SQL cannot say of the columns is
    ///   computed in memory, of all rows.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `storeUnavailable`.
    public func fetchDictionaries(_ request: FetchRequest) throws -> FetchedDictionaries {
        checkQueue()
        return try persistentStoreCoordinator.store.dictionaries(matching: request)
    }

    /// What ``fetchDictionaries(_:)-(FetchRequest)`` gives, one dictionary after the other as they are read.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey` or `invalidQuery`.
    package func streamDictionaries(_ request: FetchRequest) throws -> DictionaryStream {
        checkQueue()
        return try DictionaryStream(request, of: persistentStoreCoordinator.store)
    }

    /// How the store finds what a request asks for: the statement, its values and SQLite's plan. Unsaved changes, which
    /// contexts lay over what is found, have no part in it.
    ///
    /// - Throws: As ``fetch(_:)-(FetchRequest)``, and with code `unsupported` if the store has no plans.
    public func explain(_ request: FetchRequest) throws -> FetchExplanation {
        checkQueue()
        return try persistentStoreCoordinator.store.explain(request)
    }
}

extension ManagedObjectContext {
    /// The identifiers of the objects of a class that a request finds.
    ///
    /// - Throws: As ``fetch(_:)-(TypedFetchRequest<Object>)``.
    public func fetchObjectIDs<Object: ManagedObject>(
        _ request: TypedFetchRequest<Object>
    ) throws -> [ManagedObjectID] {
        try fetchObjectIDs(request.request(in: layout))
    }

    /// Values of the objects of a class that a request finds, or of groups of them.
    ///
    /// - Throws: As ``fetchDictionaries(_:)-(FetchRequest)``.
    public func fetchDictionaries<Object: ManagedObject>(
        _ request: TypedFetchRequest<Object>
    ) throws -> FetchedDictionaries {
        try fetchDictionaries(request.request(in: layout))
    }
}
