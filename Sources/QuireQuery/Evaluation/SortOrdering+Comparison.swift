public import Foundation
public import QuireModel

extension SortOrdering {
    /// What an object is sorted by: compute it once for each object and compare with ``compare(_:_:)``.
    ///
    /// - Throws: What a fetch throws: ``QuireError`` with code `invalidQuery` if the key path leads through a to-many
    ///   relationship, `unknownKey` or `unsupported`; `notFound` if the object belongs to no context any more; or what
    ///   reading the store throws.
    public func sortValue(of subject: some QuerySubject) throws -> AttributeValue {
        try ResolutionCache.ordering(self, for: subject).resolvedSortValue(of: subject)
    }

    /// What an object is sorted by, if the ordering has been checked.
    package func resolvedSortValue(of subject: some QuerySubject) throws -> AttributeValue {
        let value = try PredicateEvaluator(subject: subject).value(of: expression)
        guard !options.isEmpty, let text = value.text else { return value }
        return .string(TextFolding.fold(text, options))
    }

    /// Negative, zero or positive as an object with the left value comes before, beside or behind one with the
    /// right value. Missing values are the smallest.
    public func compare(_ left: AttributeValue, _ right: AttributeValue) -> Int {
        let order =
            ValueOrder.compare(left, right)
            ?? {
                switch (ValueOrder.isMissing(left), ValueOrder.isMissing(right)) {
                case (true, false): -1
                case (false, true): 1
                default: 0
                }
            }()
        return ascending ? order : -order
    }
}

extension SortOrdering {
    /// How two objects stand in this ordering.
    ///
    /// - Throws: As ``sortValue(of:)``.
    public func compare(
        _ left: some QuerySubject, _ right: some QuerySubject
    ) throws -> ComparisonResult {
        Self.result(compare(try sortValue(of: left), try sortValue(of: right)))
    }

    /// How two objects stand in this ordering, if it has been checked.
    package func resolvedCompare(
        _ left: some QuerySubject, _ right: some QuerySubject
    ) throws -> ComparisonResult {
        Self.result(compare(try resolvedSortValue(of: left), try resolvedSortValue(of: right)))
    }

    private static func result(_ order: Int) -> ComparisonResult {
        order < 0 ? .orderedAscending : order == 0 ? .orderedSame : .orderedDescending
    }
}

extension Array where Element: QuerySubject {
    /// The objects in the order of orderings, and then of their primary keys, new objects last.
    public func sorted(by orderings: [SortOrdering]) throws -> [Element] {
        let keyed = try map { subject in
            (subject: subject, values: try orderings.map { try $0.sortValue(of: subject) })
        }
        return keyed.sorted { left, right in
            for (index, ordering) in orderings.enumerated() {
                let order = ordering.compare(left.values[index], right.values[index])
                if order != 0 { return order < 0 }
            }
            return ValueOrder.compareObjects(left.subject.objectID, right.subject.objectID) < 0
        }.map(\.subject)
    }
}
