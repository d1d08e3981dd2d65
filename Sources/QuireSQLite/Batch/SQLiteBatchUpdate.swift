import CSQLite
import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// Runs a batch update.
struct SQLiteBatchUpdate {
    let store: SQLiteStore
    let request: BatchUpdateRequest

    func run() throws -> BatchResult {
        var request = request
        if let ids = try store.objectsBeyondSQL(request.objects) {
            request.predicate = .comparison(
                QueryComparison(
                    .evaluatedObject, .in, .collection(ids.map { .constant(.objectID($0)) })))
        }
        let plan = try SQLBatchUpdate(request, schema: store.schema, store: store.identity)
        if store.options.refusesInexactDecimals {
            for case (let slot, .decimal(let number)) in plan.constants {
                try SQLiteDecimal.checkIsExact(number, for: slot, of: plan.entity)
            }
        }
        return try SQLiteBatch.run(on: store) { batch in
            try check(plan, batch.connection)
            try batch.noteFiles(of: plan.slots, in: plan.entity, where: "Z_PK IN (\(plan.keys))")
            return try update(plan, batch.connection)
        }
    }

    private func update(_ plan: SQLBatchUpdate, _ connection: SQLiteConnection) throws
        -> BatchResult
    {
        guard request.resultType == .objectIDs else {
            try connection.withStatement(plan.update.sql) {
                try $0.bind(plan.update.bindings)
                try $0.run()
            }
            return BatchResult(count: connection.changeCount)
        }
        var updated: [ManagedObjectID] = []
        try connection.withStatement(plan.update.sql + " RETURNING Z_PK, Z_ENT") { statement in
            try statement.bind(plan.update.bindings)
            while try statement.step() { updated.append(objectID(in: statement, plan)) }
        }
        return BatchResult(count: updated.count, changes: ObjectIDChanges(updated: updated))
    }

    private func objectID(in statement: SQLiteStatement, _ plan: SQLBatchUpdate) -> ManagedObjectID
    {
        ManagedObjectID(
            entityNumber: store.schema.modelNumber(ofStoreNumber: statement.integer(1))
                ?? plan.entity.number, primaryKey: statement.integer(0), store: store.identity)
    }

    // MARK: - Computed values

    /// Validates computed values before they are written.
    private func check(_ plan: SQLBatchUpdate, _ connection: SQLiteConnection) throws {
        guard let check = plan.check else { return }
        try connection.withStatement(check.sql) { statement in
            try statement.bind(check.bindings)
            while try statement.step() {
                for (index, slot) in plan.computed.enumerated() {
                    do {
                        try self.check(statement, Int32(index + 2), slot, plan.entity)
                    } catch var error as QuireError {
                        let id = objectID(in: statement, plan)
                        error.message += " The object is \(id.shortDescription)."
                        error.subject.object = id.uriRepresentation
                        throw error
                    }
                }
            }
        }
    }

    private func check(
        _ statement: SQLiteStatement, _ column: Int32, _ slot: ResolvedEntity.Slot,
        _ entity: ResolvedEntity
    ) throws {
        let type = sqlite3_column_type(statement.handle, column)
        guard let value = value(statement, column, type, slot.storage),
            case let kept = try slot.coerce(value, in: entity), kept == value
        else {
            let text = type == SQLITE_BLOB ? "bytes" : "“\(statement.text(column))”"
            throw QuireError(
                .invalidValue,
                "“\(entity.name).\(slot.name)” cannot be set to \(text), which was computed for it and is not of its "
                    + "type.", subject: .init(entity: entity.name, property: slot.name))
        }
        try slot.attribute?.validate(kept, entity: entity.name)
    }

    /// The slot value that a column would be read as; `nil` if it would not be valid.
    private func value(
        _ statement: SQLiteStatement, _ column: Int32, _ type: Int32,
        _ storage: ResolvedEntity.Slot.Storage
    ) -> AttributeValue? {
        let isNumber = type == SQLITE_INTEGER || type == SQLITE_FLOAT
        let number = sqlite3_column_double(statement.handle, column)
        switch storage {
        case _ where type == SQLITE_NULL: return .null
        case .integer where type == SQLITE_INTEGER: return .integer(statement.integer(column))
        // Integer affinity converts a whole number to an integer.
        case .integer where isNumber: return Int64(exactly: number).map { .integer($0) }
        case .boolean where isNumber:
            return number == 0 ? .boolean(false) : number == 1 ? .boolean(true) : nil
        case .double where isNumber: return .double(number)
        case .date where isNumber:
            return .date(Date(timeIntervalSinceReferenceDate: number))
        case .decimal where type == SQLITE_INTEGER:
            return .decimal(Decimal(statement.integer(column)))
        case .decimal where isNumber: return SQLiteDecimal.decimal(number).map { .decimal($0) }
        case .string where type == SQLITE_TEXT: return .string(statement.text(column))
        case .uri where type == SQLITE_TEXT:
            return URL(string: statement.text(column)).map { .uri($0) }
        case .uuid where type == SQLITE_BLOB:
            let bytes = statement.data(column)
            return bytes.count == 16
                ? .uuid(bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) })
                : nil
        case .binary where type == SQLITE_BLOB: return .binary(statement.data(column))
        default: return nil
        }
    }
}
