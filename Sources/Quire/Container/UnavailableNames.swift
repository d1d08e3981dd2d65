// Names that programs written for Core Data use and that have no counterpart under the same name: the compiler says what to write.
// None is in a class that programs inherit from, because it would collide with members of the subclass.

extension ManagedObjectContext {
    /// Unavailable; a main-queue context is used directly, others through ``QueueConfinedContext``.
    @available(
        *, unavailable,
        message:
            "use a main-queue context directly on the main actor; for work in the background, use 'perform' of 'container.newBackgroundContext()'"
    )
    public func perform<Result>(_ body: () throws -> Result) rethrows -> Result { try body() }

    /// Unavailable; a main-queue context is used directly, others through ``QueueConfinedContext``.
    @available(
        *, unavailable,
        message:
            "use a main-queue context directly on the main actor; for work in the background, use 'performAndWait' of 'container.newBackgroundContext()'"
    )
    public func performAndWait<Result>(_ body: () throws -> Result) rethrows -> Result {
        try body()
    }

    /// Unavailable; containers and ``mainQueue(coordinator:)`` create contexts.
    @available(
        *, unavailable,
        message:
            "use 'container.viewContext', 'container.newBackgroundContext()' or 'ManagedObjectContext.mainQueue(coordinator:)'"
    )
    public convenience init(concurrencyType: ConcurrencyType) { fatalError() }
}

extension ManagedObjectContext.ConcurrencyType {
    /// Core Data's name of ``mainQueue``.
    @available(*, unavailable, renamed: "mainQueue")
    public static var mainQueueConcurrencyType: Self { .mainQueue }
    /// Core Data's name of ``privateQueue``.
    @available(*, unavailable, renamed: "privateQueue")
    public static var privateQueueConcurrencyType: Self { .privateQueue }
}

extension FetchSpecification {
    /// Core Data's name of ``sortOrderings``.
    @available(*, unavailable, renamed: "sortOrderings")
    public var sortDescriptors: [SortOrdering] {
        get { sortOrderings }
        set { sortOrderings = newValue }
    }
}
