import CSQLite
import Foundation
internal import QuireModel
public import QuireQuery
public import QuireStore
internal import QuireSystem

/// Values of objects and of groups of them, without the objects.
extension SQLiteStore: DictionarySource {
    /// The dictionaries that a request asks for, in its order, within its limit and offset.
    public func dictionaries(matching request: FetchRequest) throws -> FetchedDictionaries {
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        var values: ContiguousArray<AttributeValue> = []
        try forEachDictionary(of: query, request) { values += $0 }
        return FetchedDictionaries(names: query.columns.map(\.name), values: values)
    }

    package func dictionaryStream(matching request: FetchRequest) throws -> DictionaryStream {
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        return DictionaryStream(names: query.columns.map(\.name)) {
            try self.forEachDictionary(of: query, request, $0)
        }
    }

    private func forEachDictionary(
        of query: ResolvedDictionaryQuery, _ request: FetchRequest,
        _ body: (ArraySlice<AttributeValue>) throws -> Void
    ) throws {
        guard let statement = try statement(for: query, request) else {
            return try DictionaryEvaluation.forEach(query, of: self, request, body)
        }
        try read(watchedBy: request.watch.monitor) { connection in
            try connection.withStatement(statement.sql) { row in
                try row.bind(statement.bindings)
                var count = 0
                while try row.step() {
                    try body(try statement.columns.map { try value(row, $0) }[...])
                    count += 1
                    request.watch.monitor?.didRead(rows: count)
                }
            }
        }
    }

    /// The statement that makes dictionaries; `nil` if SQL cannot say what they hold. If it cannot say which objects
    /// they are made of, these are found first.
    private func statement(
        for query: ResolvedDictionaryQuery, _ request: FetchRequest
    ) throws -> DictionaryStatement? {
        do {
            let context = FetchContext(query: query.query, schema: schema, store: identity)
            let split = try SplitPredicate(query.query.predicate) { try context.canSay($0) }
            if split.remainder == nil {
                return try DictionaryStatement(query, schema: schema, store: identity)
            }
            // Before anything is read, whether the rest can be said.
            _ = try DictionaryStatement(
                query.about(split.translatable), schema: schema, store: identity)
            let found = try objectIDs(matching: request.forObjects)
            let among = QueryPredicate.comparison(
                QueryComparison(
                    .evaluatedObject, .in, .collection(found.map { .constant(.objectID($0)) })))
            return try DictionaryStatement(query.about(among), schema: schema, store: identity)
        } catch is UntranslatableExpression {
            return nil
        }
    }

    // MARK: - Values

    private func value(
        _ row: SQLiteStatement, _ column: SQLDictionaryColumn
    ) throws -> AttributeValue {
        let index = column.index
        switch sqlite3_column_type(row.handle, index) {
        case SQLITE_NULL: return .null
        case SQLITE_INTEGER:
            let integer = row.integer(index)
            guard case .object(let number) = column.form else {
                return column.form.value(of: .integer(integer))
            }
            return try object(integer, layout.entity(number: number), row, column)
        case SQLITE_FLOAT:
            return column.form.value(of: .double(sqlite3_column_double(row.handle, index)))
        case SQLITE_TEXT: return column.form.value(of: .string(row.text(index)))
        default:
            let bytes = row.data(index)
            guard column.form == .externalCapable else {
                return column.form.value(of: .binary(bytes))
            }
            return try bytes.withUnsafeBytes { try content(of: $0) }
        }
    }

    private func object(
        _ key: Int64, _ entity: EntityLayout, _ row: SQLiteStatement, _ column: SQLDictionaryColumn
    ) throws -> AttributeValue {
        guard key > 0, key <= ManagedObjectID.greatestPrimaryKey else {
            throw QuireError(
                .invalidFormat,
                "The store refers to an object of “\(entity.name)” by the primary key \(key), which is out of range; "
                    + "it is damaged.", subject: .init(entity: entity.name, file: storePath))
        }
        var number = entity.number
        if let index = column.entityIndex, !row.isNull(index),
            let found = schema.modelNumber(ofStoreNumber: row.integer(index)),
            entity.subtree.contains(found)
        {
            number = found
        }
        return .objectID(ManagedObjectID(entityNumber: number, primaryKey: key, store: identity))
    }

    /// The value of an attribute that may be kept in a file. If that cannot be read, it stands for the file, and the others
    /// are found all the same.
    private func content(of bytes: UnsafeRawBufferPointer) throws -> AttributeValue {
        if bytes.first == ExternalDataTag.inline { return .binary(Data(bytes.dropFirst())) }
        guard let name = SQLiteExternalData.fileName(in: bytes) else {
            throw QuireError(
                .invalidFormat,
                "A binary value that may be kept in a file has an unknown form; the store is damaged.",
                subject: .init(file: storePath))
        }
        return AttributeValue.external(try externalData.externalData(named: name)).loadedIfReadable
    }
}
