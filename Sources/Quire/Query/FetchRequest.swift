/// Says how to order objects: by the value at a key path.
public struct SortOrdering: Sendable, Hashable {
    /// The key path, written with dots; it may lead through to-one relationships. `SELF` is the object itself, which
    /// is ordered by primary key.
    public var keyPath: String
    /// Whether small values come first. Missing values come before all others when ascending.
    public var ascending: Bool
    /// How texts are compared.
    public var options: QueryComparison.Options

    /// Orders by a key path.
    public init(
        _ keyPath: String, ascending: Bool = true, options: QueryComparison.Options = []
    ) {
        self.keyPath = keyPath
        self.ascending = ascending
        self.options = options
    }
}

/// Says which objects to find, and in what order.
///
/// ```swift
/// var request = FetchRequest("Book")
/// request.predicate = try QueryPredicate(format: "author.name == %@ AND year < %d", "Jane Austen", 1815)
/// request.sortOrderings = [SortOrdering("title")]
/// let books = try context.fetch(request)
/// ```
public struct FetchRequest: Sendable, Hashable {
    /// The entity whose objects to find.
    public var entityName: String
    /// The condition they satisfy; `nil` for none.
    public var predicate: QueryPredicate?
    /// Their order, most significant first. Objects that are equal in it come by primary key, new ones last.
    public var sortOrderings: [SortOrdering]
    /// The greatest number of objects to find; 0 for no bound.
    public var fetchLimit = 0
    /// The number of objects to skip.
    public var fetchOffset = 0
    /// How many objects to read at a time; 0 for all at once.
    ///
    /// With a batch size a fetch reads only identifiers, and the results read the rows of so many neighbours when an
    /// object is touched. They keep few batches, so that going through any number of objects takes little memory.
    public var fetchBatchSize = 0
    /// Relationships to read ahead: key paths such as `author` or `tags.books`, through relationships of any kind.
    /// Related objects are read with one query or two for each relationship on the way, not one for each object, and
    /// are no faults while the results are held.
    public var relationshipKeyPathsForPrefetching: [String] = []
    /// Whether values are read along with the objects. If not, they are faults, and results hold no more than their
    /// identifiers. Reading relationships ahead reads values.
    public var includesPropertyValues = true
    /// Whether objects of sub-entities are found too.
    public var includesSubentities = true
    /// Whether unsaved changes are taken into account.
    public var includesPendingChanges = true

    /// Finds the objects of an entity that satisfy a condition.
    public init(
        _ entityName: String, predicate: QueryPredicate? = nil, sortOrderings: [SortOrdering] = []
    ) {
        self.entityName = entityName
        self.predicate = predicate
        self.sortOrderings = sortOrderings
    }
}
