package import QuireSystem
import Synchronization

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
    /// Whether unsaved changes are taken into account. Those for dictionaries never are: what they give is what is
    /// saved. Of objects this decides which are found; their values are those that the context has, or the parent it
    /// reads from. A child does not find what its parent has deleted.
    public var includesPendingChanges = true
    /// What ``ManagedObjectContext/execute(_:)-(FetchRequest)`` gives.
    public var resultType = ResultType.objects
    /// The columns of a request for dictionaries: key paths through to-one relationships, and expressions under a name.
    /// Without any they are the attributes of the entity, or what the objects are grouped by.
    public var propertiesToFetch: [ExpressionDescription] = []
    /// Whether equal dictionaries are given once only.
    public var returnsDistinctResults = false
    /// What the objects of a request for dictionaries have in common that make one dictionary: key paths, expressions
    /// or names of columns.
    public var propertiesToGroupBy: [ExpressionDescription] = []
    /// The condition that a group satisfies. It may be about what is computed of the group's objects, and name
    /// columns, as `n > 3` or, if the entity has a property of the same name, as `$n > 3`.
    public var havingPredicate: QueryPredicate?
    /// The UUIDs of the stores to look into; `nil` for all.
    public var affectedStores: [String]?
    /// Whether objects that the context has already take over what the store has by now, unsaved changes kept, as by
    /// ``ManagedObjectContext/refresh(_:mergeChanges:)``.
    public var shouldRefreshRefetchedObjects = false
    /// What watches it while it runs on another thread.
    package var watch = FetchWatch()

    /// Finds the objects of an entity that satisfy a condition.
    public init(
        _ entityName: String, predicate: QueryPredicate? = nil, sortOrderings: [SortOrdering] = []
    ) {
        self.entityName = entityName
        self.predicate = predicate
        self.sortOrderings = sortOrderings
    }

    /// What a request gives.
    public enum ResultType: Sendable, Hashable, CaseIterable {
        /// The objects.
        case objects
        /// Their identifiers.
        case objectIDs
        /// Values of the objects, or of groups of them; see ``propertiesToFetch``.
        case dictionaries
        /// How many objects there are.
        case count
    }
}

// MARK: - Sort orders

/// Says how to order objects: by the value at a key path, or by what an expression gives.
public struct SortOrdering: Sendable, Hashable {
    /// What is compared, as it is written: a key path with dots, which may lead through to-one relationships, or any
    /// expression of the predicate format language that gives one value, such as `books.@count` or `length(title)`.
    /// `SELF` is the object itself, which is ordered by primary key. In a request for dictionaries it may be the name
    /// of a column.
    public var keyPath: String { didSet { parsed = Self.parse(keyPath) } }
    /// Whether small values come first. Missing values come before all others when ascending.
    public var ascending: Bool
    /// How texts are compared.
    public var options: QueryComparison.Options
    /// What ``keyPath`` says; `nil` if it cannot be read.
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

    /// Orders by what an expression gives.
    public init(
        _ expression: QueryExpression, ascending: Bool = true,
        options: QueryComparison.Options = []
    ) {
        keyPath = expression.description
        self.ascending = ascending
        self.options = options
        parsed = expression
    }

    /// What is compared.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject if ``keyPath`` cannot be read.
    public var expression: QueryExpression {
        get throws { try parsed ?? QueryExpression(format: keyPath) }
    }

    private static func parse(_ text: String) -> QueryExpression? {
        // What looks like a key path is one, even if a key is a word of the language.
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

/// Watches a request that runs on another thread: counts the rows that it has read, and can stop it.
package final class FetchMonitor: Sendable {
    private let cancelled = Atomic(false)
    private let report: @Sendable (_ rows: Int) -> Void

    /// After how many rows a report is made.
    package static let interval = 256

    /// Watches a request.
    ///
    /// - Parameter report: Called now and then, on the request's thread, with the number of rows read.
    package init(report: @escaping @Sendable (_ rows: Int) -> Void) { self.report = report }

    /// Whether the request has been stopped; whoever carries it out asks now and then.
    package var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    /// Stops the request, now or when it begins.
    package func cancel() { cancelled.store(true, ordering: .relaxed) }

    /// Throws if the request has been stopped.
    package func check() throws {
        if isCancelled { throw Self.cancelledError }
    }

    /// Called with the number of rows read so far, from 1.
    package func didRead(rows: Int) { if rows % Self.interval == 0 { report(rows) } }

    package static var cancelledError: QuireError {
        QuireError(.cancelled, "The request was cancelled.")
    }
}

/// A request's monitor, which is no part of what it asks for: requests that differ in nothing else are equal.
package struct FetchWatch: Sendable, Hashable {
    package var monitor: FetchMonitor?

    package static func == (left: Self, right: Self) -> Bool { true }

    package func hash(into hasher: inout Hasher) {}
}
