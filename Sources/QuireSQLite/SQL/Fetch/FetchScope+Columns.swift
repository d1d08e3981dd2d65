internal import QuireModel
internal import QuireQuery

/// Where a column of a request for dictionaries is among those of a statement.
struct SQLDictionaryColumn: Sendable {
    let form: ColumnForm
    let index: Int32
    /// The column with the number of the object's entity, if it may be of several.
    let entityIndex: Int32?
}

extension FetchScope {
    /// The column stage: what stands between `SELECT` and `FROM` of a request for dictionaries.
    ///
    /// - Throws: ``UntranslatableExpression`` if SQL cannot say a column.
    func columns(
        _ columns: [ResolvedDictionaryQuery.Column]
    ) throws -> (list: [SQLFragment], places: [SQLDictionaryColumn]) {
        var list: [SQLFragment] = []
        var places: [SQLDictionaryColumn] = []
        for column in columns {
            let operand = try operand(column.expression)
            if operand.isList { throw UntranslatableExpression(column.expression) }
            let index = Int32(list.count)
            list.append(operand.plain)
            guard case .object(let place) = operand, place.entity.hasSubentities else {
                places.append(.init(form: column.form, index: index, entityIndex: nil))
                continue
            }
            list.append(entityNumber(of: place))
            places.append(.init(form: column.form, index: index, entityIndex: index + 1))
        }
        return (list, places)
    }

    /// The group stage: what follows `GROUP BY`.
    func groups(_ expressions: [QueryExpression]) throws -> [SQLFragment] {
        try expressions.map { expression in
            let operand = try operand(expression)
            if operand.isList { throw UntranslatableExpression(expression) }
            return operand.plain
        }
    }

    /// The order stage of a request for dictionaries: what follows `ORDER BY`, if anything. Dictionaries that are equal
    /// in it come by `rest`.
    func order(_ orderings: [SortOrdering], then rest: [SQLFragment]) throws -> SQLFragment? {
        var parts: [SQLFragment] = []
        for ordering in orderings {
            let direction: SQLFragment = ordering.ascending ? "" : " DESC"
            switch try operand(ordering.expression) {
            case .value(let value, _):
                parts.append("\(FetchComparison.folded(value, ordering.options))\(direction)")
            case .object(let place): parts.append("\(place.key)\(direction)")
            case .constant, .list: continue
            }
        }
        // An integer that is written out would be the number of a column.
        parts += rest.filter { $0.sql != "?" }
        return parts.isEmpty ? nil : parts.joined(by: ", ")
    }
}
