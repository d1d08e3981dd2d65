package import QuireSystem
import Synchronization

/// Describes the objects to fetch, and their order.
///
/// ```swift
/// var request = FetchSpecification("Book")
/// request.predicate = try QueryPredicate(format: "author.name == %@ AND year < %d", "Jane Austen", 1815)
/// request.sortOrderings = [SortOrdering("title")]
/// let books = try context.fetch(request)
/// ```
public struct FetchSpecification: Sendable, Hashable {
    /// The entity of the fetched objects.
    public var entityName: String
    /// The condition; `nil` for all objects.
    public var predicate: QueryPredicate?
    /// The order, most significant first. Ties are ordered by primary key, new objects last.
    public var sortOrderings: [SortOrdering]
    /// The maximum number of results; 0 for no limit.
    public var fetchLimit = 0
    /// The number of objects to skip.
    public var fetchOffset = 0
    /// The number of objects in a fetch batch; 0 for no batching.
    ///
    /// With a batch size a fetch reads only identifiers, and accessing an object reads the rows of its batch. Few batches
    /// are kept, so iterating over any number of objects takes little memory.
    public var fetchBatchSize = 0
    /// Relationships to prefetch: key paths such as `author` or `tags.books`, through relationships of any kind. Related
    /// objects are read with one or two queries for each relationship in the path, not one for each object, and are not
    /// faults while the results are retained.
    public var relationshipKeyPathsForPrefetching: [String] = []
    /// Whether values are fetched. If not, the objects are faults, and results retain only their identifiers. Prefetching
    /// reads values.
    public var includesPropertyValues = true
    /// Whether objects of sub-entities are found too.
    public var includesSubentities = true
    /// Whether unsaved changes are taken into account. Requests for dictionaries ignore them: they return saved values. For
    /// objects this determines which are found; their values are those of the context, or of its parent. A child does not
    /// find objects deleted in its parent.
    public var includesPendingChanges = true
    /// The kind of result.
    public var resultType = ResultType.objects
    /// The columns of a request for dictionaries: key paths through to-one relationships, and named expressions. Without any
    /// they are the entity's attributes, or the grouping expressions.
    public var propertiesToFetch: [ExpressionDescription] = []
    /// Whether duplicate dictionaries are removed.
    public var returnsDistinctResults = false
    /// The grouping of a request for dictionaries: key paths, expressions or column names.
    public var propertiesToGroupBy: [ExpressionDescription] = []
    /// The condition on groups. It may use aggregates of the group's objects and refer to columns, as `n > 3` or, if the
    /// entity has a property of the same name, as `$n > 3`.
    public var havingPredicate: QueryPredicate?
    /// The UUIDs of the stores to search; `nil` for all.
    public var affectedStores: [String]?
    /// Whether registered objects are refreshed from the store, keeping unsaved changes, as by
    /// ``ManagedObjectContext/refresh(_:mergeChanges:)``.
    public var shouldRefreshRefetchedObjects = false
    /// Monitors and cancels it while it runs on another thread.
    @Uncompared package var monitor: FetchMonitor? = nil

    /// Fetches the objects of an entity that satisfy a condition.
    public init(
        _ entityName: String, predicate: QueryPredicate? = nil, sortOrderings: [SortOrdering] = []
    ) {
        self.entityName = entityName
        self.predicate = predicate
        self.sortOrderings = sortOrderings
    }

    /// Fetches the objects of an entity, without those of its sub-entities.
    package init(only entityName: String) {
        self.init(entityName)
        includesSubentities = false
    }

    /// The kind of result.
    public enum ResultType: Sendable, Hashable, CaseIterable {
        /// The objects.
        case objects
        /// Their identifiers.
        case objectIDs
        /// Values of the objects, or of groups of them; see ``propertiesToFetch``.
        case dictionaries
        /// The number of objects.
        case count
    }
}

// MARK: - Sort orders

/// An order of objects: by the value of a key path or an expression.
public struct SortOrdering: Sendable, Hashable {
    /// The sort expression as written: a dotted key path, which may traverse to-one relationships, or any single-valued
    /// expression of the predicate format language, such as `books.@count` or `length(title)`. `SELF` is the object itself,
    /// which is ordered by primary key. In a request for dictionaries it may be a column name.
    public var keyPath: String { didSet { parsed = Self.parse(keyPath) } }
    /// Whether the order is ascending. Missing values are the smallest.
    public var ascending: Bool
    /// The text comparison options.
    public var options: QueryComparison.Options
    /// The parsed ``keyPath``; `nil` if it cannot be parsed.
    private var parsed: QueryExpression?

    /// Orders by a key path, or by an expression of the predicate format language.
    public init(
        _ keyPath: String, ascending: Bool = true, options: QueryComparison.Options = []
    ) {
        self.keyPath = keyPath
        self.ascending = ascending
        self.options = options
        parsed = Self.parse(keyPath)
    }

    /// Orders by an expression's value.
    public init(
        _ expression: QueryExpression, ascending: Bool = true,
        options: QueryComparison.Options = []
    ) {
        keyPath = expression.description
        self.ascending = ascending
        self.options = options
        parsed = expression
    }

    /// The sort expression.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject if ``keyPath`` cannot be parsed.
    public var expression: QueryExpression {
        get throws { try parsed ?? QueryExpression(format: keyPath) }
    }

    private static func parse(_ text: String) -> QueryExpression? {
        // Anything with the form of a key path is one, even if a key is a reserved word.
        if text.utf8.allSatisfy(isOfKeyPath) {
            return text.uppercased() == "SELF" ? .evaluatedObject : .key(text)
        }
        return try? QueryExpression(format: text)
    }

    private static func isOfKeyPath(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."), 0x80...:
            true
        default: false
        }
    }
}

// MARK: - Cancellation and progress

/// Monitors a request on another thread: counts the rows read, and can cancel it.
package final class FetchMonitor: Sendable {
    private let cancelled = Atomic(false)
    private let report: @Sendable (_ rows: Int) -> Void
    /// Called periodically while a statement is executed, on its thread.
    package let poll: (@Sendable () -> Void)?

    /// The number of rows between reports.
    package static let interval = 256

    /// Creates a monitor.
    ///
    /// - Parameters:
    ///   - report: Called periodically, on the request's thread, with the number of rows read.
    ///   - poll: Called more often, also by statements that read no rows.
    package init(
        report: @escaping @Sendable (_ rows: Int) -> Void, poll: (@Sendable () -> Void)? = nil
    ) {
        self.report = report
        self.poll = poll
    }

    /// Whether the request has been cancelled; polled while it is executed.
    package var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    /// Cancels the request, now or when it begins.
    package func cancel() { cancelled.store(true, ordering: .relaxed) }

    /// Throws if the request has been cancelled.
    package func check() throws {
        if isCancelled { throw Self.cancelledError }
    }

    /// Called with the number of rows read so far, from 1.
    package func didRead(rows: Int) { if rows % Self.interval == 0 { report(rows) } }

    package static var cancelledError: QuireError {
        QuireError(.cancelled, "The request was cancelled.")
    }
}
