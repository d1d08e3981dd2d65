package import QuireModel
package import QuireQuery
internal import QuireSystem

/// Evaluates a dictionary request in memory, on objects that satisfy its predicate: for stores without a query language, and
/// for expressions that SQL cannot express.
///
/// Equivalent to `DictionaryStatement`, which compiles to SQL.
package struct DictionaryEvaluation {
    package let query: ResolvedDictionaryQuery
    /// The objects, by primary key.
    package let subjects: [any QuerySubject]

    package init(query: ResolvedDictionaryQuery, subjects: [any QuerySubject]) {
        self.query = query
        self.subjects = subjects
    }

    /// The value of an object as a dictionary of a store has it.
    typealias Row = (values: [AttributeValue], order: [AttributeValue], rank: [AttributeValue])

    /// The dictionaries, in the request's order, within its limit and offset.
    package func dictionaries() throws -> FetchedDictionaries {
        var rows: [Row] = []
        for group in try groups() {
            guard let row = try row(of: group) else { continue }
            rows.append(row)
        }
        rows = Self.sorted(rows, query.orderings)
        if query.isDistinct { rows = Self.distinct(rows) }
        let request = query.query.request
        let rest = rows.dropFirst(max(request.fetchOffset, 0))
        let bounded = request.fetchLimit > 0 ? rest.prefix(request.fetchLimit) : rest
        var values: ContiguousArray<AttributeValue> = []
        for row in bounded {
            for (column, value) in zip(query.columns, row.values) {
                values.append(column.form.converting(value))
            }
        }
        return FetchedDictionaries(names: query.columns.map(\.name), values: values)
    }

    // MARK: - Groups

    /// The objects of each dictionary.
    private func groups() throws -> [[any QuerySubject]] {
        if !query.isGrouped { return subjects.map { [$0] } }
        if query.groups.isEmpty { return [subjects] }
        let keyed = try subjects.map { subject in
            let evaluator = PredicateEvaluator(subject: subject)
            return (subject, try query.groups.map { try evaluator.value(of: $0).loadedIfReadable })
        }
        let sorted = keyed.enumerated().sorted { left, right in
            let order = Self.compare(left.element.1, right.element.1)
            return order != 0 ? order < 0 : left.offset < right.offset
        }
        var groups: [[any QuerySubject]] = []
        var last: [AttributeValue]?
        for (_, (subject, key)) in sorted {
            if let last, Self.compare(last, key) == 0 {
                groups[groups.count - 1].append(subject)
            } else {
                groups.append([subject])
            }
            last = key
        }
        return groups
    }

    /// The dictionary of a group; `nil` if the group does not satisfy the HAVING predicate.
    private func row(of group: [any QuerySubject]) throws -> Row? {
        var values: [QueryExpression: AttributeValue] = [:]
        for aggregate in query.aggregates {
            values[aggregate] = try aggregated(aggregate, of: group)
        }
        let evaluator = PredicateEvaluator(subject: group.first)
        func value(of expression: QueryExpression) throws -> AttributeValue {
            try evaluator.value(of: values.isEmpty ? expression : expression.replacing(values))
        }
        if let having = query.having {
            let replaced = having.mappingExpressions { $0.replacing(values) }
            guard try evaluator.holds(replaced) else { return nil }
        }
        let columns = try query.columns.map { try value(of: $0.expression).loadedIfReadable }
        let order = try query.orderings.map { ordering in
            let value = try value(of: ordering.expression)
            guard !ordering.options.isEmpty, let text = value.text else { return value }
            return .string(TextFolding.fold(text, ordering.options))
        }
        let rank =
            query.isDistinct ? columns : query.isGrouped ? try query.groups.map(value) : []
        return (columns, order, rank)
    }

    private func aggregated(
        _ aggregate: QueryExpression, of group: [any QuerySubject]
    ) throws -> AttributeValue {
        guard case .function(let function, let arguments) = aggregate else { return .null }
        var argument = arguments[0]
        var isDistinct = false
        if case .function(.distinct, let inner) = argument {
            (argument, isDistinct) = (inner[0], true)
        }
        let values = try group.map { try PredicateEvaluator(subject: $0).value(of: argument) }
        return AggregateFunctions.value(
            of: function, isDistinct ? AggregateFunctions.distinct(values) : values)
    }

    // MARK: - Order

    private static let ascending = SortOrdering("SELF")

    private static func sorted(_ rows: [Row], _ orderings: [SortOrdering]) -> [Row] {
        rows.enumerated().sorted { left, right in
            for (index, ordering) in orderings.enumerated() {
                let order = compare(left.element.order[index], right.element.order[index])
                if order != 0 { return ordering.ascending ? order < 0 : order > 0 }
            }
            let order = compare(left.element.rank, right.element.rank)
            return order != 0 ? order < 0 : left.offset < right.offset
        }.map(\.element)
    }

    /// Equal rows stand side by side.
    private static func distinct(_ rows: [Row]) -> [Row] {
        var result: [Row] = []
        for row in rows where result.last.map({ compare($0.values, row.values) != 0 }) ?? true {
            result.append(row)
        }
        return result
    }

    private static func compare(_ left: [AttributeValue], _ right: [AttributeValue]) -> Int {
        for (left, right) in zip(left, right) {
            let order = compare(left, right)
            if order != 0 { return order }
        }
        return 0
    }

    private static func compare(_ left: AttributeValue, _ right: AttributeValue) -> Int {
        switch (left, right) {
        case (.objectID(let left), .objectID(let right)):
            return ValueOrder.compareObjects(left, right)
        // Unreadable values sort last, and are distinct if their files are.
        case (.external(let left), .external(let right)):
            let paths = (left.path ?? "", right.path ?? "")
            return paths.0 == paths.1 ? 0 : paths.0 < paths.1 ? -1 : 1
        case (.external, _): return 1
        case (_, .external): return -1
        default: return ascending.compare(left, right)
        }
    }
}

extension DictionaryEvaluation {
    /// The dictionaries of a store's objects.
    init(
        _ query: ResolvedDictionaryQuery, of store: any PersistentStore,
        _ request: FetchSpecification
    ) throws {
        let objects = StoredObjects(store: store)
        self.query = query
        subjects = try store.rows(matching: request.forObjects).map {
            StoredObject(snapshot: $0, objects: objects)
        }
    }
}

extension DictionaryEvaluation {
    /// The number of objects in memory at a time if each produces one dictionary.
    private static let batchSize = 1000

    /// Calls a closure with the values of each dictionary of a store's objects, as ``dictionaries()`` has them. All objects
    /// are in memory only if they are grouped, or their dictionaries ordered or compared.
    package static func forEach(
        _ query: ResolvedDictionaryQuery, of store: any PersistentStore,
        _ request: FetchSpecification,
        _ body: (ArraySlice<AttributeValue>) throws -> Void
    ) throws {
        guard !query.isGrouped, !query.isDistinct, query.orderings.isEmpty else {
            let found = try DictionaryEvaluation(query, of: store, request).dictionaries()
            for row in found { try body(row.values) }
            return
        }
        var toSkip = max(request.fetchOffset, 0)
        var isLeft = request.fetchLimit > 0 ? request.fetchLimit : .max
        let bits = try store.objectIDs(matching: request.forObjects).bits
        for start in stride(from: 0, to: bits.count, by: batchSize) where isLeft > 0 {
            let wanted = bits[start..<min(start + batchSize, bits.count)]
            let rows = try store.rows(
                for: wanted.map { ManagedObjectID(bits: $0, store: store.identity) })
            var places = IdentifierTable(minimumCapacity: rows.count)
            for place in rows.indices {
                places.set(UInt64(place), for: rows.identifierBits(at: place))
            }
            let objects = StoredObjects(store: store)
            for bits in wanted {
                guard isLeft > 0, let place = places[bits] else { continue }
                let subject = StoredObject(snapshot: rows[Int(place)], objects: objects)
                let evaluation = DictionaryEvaluation(query: query, subjects: [])
                guard let row = try evaluation.row(of: [subject]) else { continue }
                if toSkip > 0 {
                    toSkip -= 1
                    continue
                }
                isLeft -= 1
                try body(
                    zip(query.columns, row.values).map { $0.form.converting($1) }[...])
            }
        }
    }
}

extension FetchSpecification {
    /// The request for all objects that dictionaries are computed from, by primary key.
    package var forObjects: FetchSpecification {
        var request = FetchSpecification(entityName, predicate: predicate)
        request.includesSubentities = includesSubentities
        request.affectedStores = affectedStores
        request.monitor = monitor
        return request
    }
}

extension ResultColumnType {
    /// A value of memory in this form.
    fileprivate func converting(_ value: AttributeValue) -> AttributeValue {
        switch (self, value) {
        case (.object, _), (.externalCapable, _), (.decimal, .decimal): value
        default: self.value(of: value.stored)
        }
    }
}

// MARK: - Streams

/// The dictionaries of a request, streamed as they are read; earlier ones are not retained.
///
/// A read transaction is open during iteration; without a write-ahead log it blocks saves to the store.
package struct DictionaryStream {
    /// Takes the values of a dictionary, in the order of the names.
    package typealias Body = (ArraySlice<AttributeValue>) throws -> Void

    /// The names of the columns.
    package let names: [String]
    private let read: (Body) throws -> Void

    /// A stream of the dictionaries that a closure reads.
    package init(names: [String], reading read: @escaping (Body) throws -> Void) {
        self.names = names
        self.read = read
    }

    /// A stream of the dictionaries of a request, all of which are in memory by default.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `unsupported`, or as
    ///   ``PersistentStore/dictionaries(matching:)``.
    package init(_ request: FetchSpecification, of store: any PersistentStore) throws {
        if let source = store as? any DictionarySource {
            self = try source.dictionaryStream(matching: request)
        } else {
            self.init(try store.dictionaries(matching: request))
        }
    }

    /// A stream of dictionaries that have been read.
    package init(_ fetched: FetchedDictionaries) {
        self.init(names: fetched.names) { body in for row in fetched { try body(row.values) } }
    }

    /// Calls a closure with the values of each dictionary, in the order of the names.
    ///
    /// - Throws: Errors of the closure, which end the reading, or as ``PersistentStore/dictionaries(matching:)``.
    package func forEach(_ body: (ArraySlice<AttributeValue>) throws -> Void) throws {
        try read(body)
    }
}

/// A store that can stream the dictionaries of a request.
package protocol DictionarySource {
    /// Validates a request, and returns a stream of its dictionaries, in its order, within its limit and offset.
    func dictionaryStream(matching request: FetchSpecification) throws -> DictionaryStream
}
