public import Foundation

extension QueryPredicate {
    /// The condition that one of Foundation's predicates states of objects of a typed class.
    ///
    /// ```swift
    /// let era = 1790..<1820
    /// let predicate = #Predicate<Book> {
    ///     era.contains($0.year) && $0.author?.name.localizedStandardContains("austen") == true
    /// }
    /// try context.fetch(Book.fetchRequest(where: predicate, sortBy: [SortDescriptor(\.title)]))
    /// ```
    ///
    /// The condition is tested by the store, as any other; to put several together, use `.and([…])` and `.or([…])`.
    /// It may ask for properties marked `@Attribute` and `@Relationship`, follow relationships, compare, calculate,
    /// and ask about the elements of to-many relationships with `contains`, `allSatisfy`, `filter`, `count` and
    /// `isEmpty`. What it captures must be `Codable`, which Foundation asks for, and of a type that attributes may
    /// have, an enumeration over one, a list or a range of these; instead of an object, capture its `objectID`.
    ///
    /// It means what Foundation finds when it evaluates the predicate itself, with few differences: texts compare by
    /// their bytes, not by canonical equivalence; types of a program's own compare as they are kept; a property without
    /// a value is missing, even if it reads as 0 or an empty text for not being optional; and where Foundation fails,
    /// as `!` does on a missing value, the value is missing.
    ///
    /// - Throws: ``QuireError`` with code `unsupported`, quoting the part of the predicate that a query cannot say.
    public init<Object: ManagedObject>(_ predicate: Predicate<Object>) throws {
        self = try PredicateTranslation.condition(
            of: predicate,
            PredicateTranslation.Vocabulary(
                names: { PropertyProbe.names(of: $0) },
                value: { ($0 as? any AttributeRepresentable)?.attributeValue }))
    }
}

extension SortOrdering {
    /// The order that one of Foundation's sort descriptors states for objects of a typed class.
    ///
    /// Texts are ordered by their bytes, which is what `.lexical` asks for but for texts that differ and are canonically
    /// equivalent. Missing values are the smallest, as for Foundation.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the key path leads through something that is neither
    ///   `@Attribute` nor `@Relationship`, or if texts are to be compared otherwise.
    public init<Object: ManagedObject>(_ descriptor: SortDescriptor<Object>) throws {
        guard let keyPath = descriptor.keyPath, let names = PropertyProbe.names(of: keyPath) else {
            throw QuireError(
                .unsupported,
                "Objects cannot be sorted by “\(descriptor.keyPath?.debugDescription ?? "\(descriptor)")”: it "
                    + "leads through something of \(Object.self) that is neither @Attribute nor @Relationship."
            )
        }
        if let comparator = descriptor.stringComparator, comparator != .lexical {
            throw QuireError(
                .unsupported,
                "Objects cannot be sorted by “\(names.joined(separator: "."))” with \(comparator): a store compares "
                    + "texts by .lexical; or use SortOrdering with options.",
                subject: .init(property: names.joined(separator: ".")))
        }
        self.init(
            names.joined(separator: "."), ascending: descriptor.order == .forward)
    }
}

extension EntityClass where Self: ManagedObject {
    /// A request for the objects of the class that satisfy one of Foundation's predicates, in the order of its sort
    /// descriptors.
    ///
    /// ```swift
    /// let early = try context.fetch(
    ///     Book.fetchRequest(where: #Predicate { $0.year < 1800 }, sortBy: [SortDescriptor(\.title)]))
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `unsupported`, as ``QueryPredicate/init(_:)`` and ``SortOrdering/init(_:)``.
    public static func fetchRequest(
        where predicate: Predicate<Self>? = nil, sortBy descriptors: [SortDescriptor<Self>] = []
    ) throws -> TypedFetchRequest<Self> {
        TypedFetchRequest(
            predicate: try predicate.map { try QueryPredicate($0) },
            sortOrderings: try descriptors.map { try SortOrdering($0) })
    }
}
