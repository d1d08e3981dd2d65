import CSQLite
import Foundation

/// Copies rows from a running statement into packed rows, straight from the library's columns.
struct SQLiteRowReader {
    let connection: SQLiteConnection
    let selection: SQLRowSelection
    let schema: SQLSchema

    /// Steps to the end of a statement that selects ``SQLRowSelection/list``.
    func readAll(_ statement: SQLiteStatement, into builder: inout RowSetBuilder) throws {
        while try statement.step() { try readRow(statement.handle, into: &builder) }
    }

    /// Copies the current row.
    @inline(__always)
    func readRow(_ statement: OpaquePointer, into builder: inout RowSetBuilder) throws {
        let key = sqlite3_column_int64(statement, 0)
        let number = sqlite3_column_int64(statement, 1)
        guard number > 0, number < selection.plans.count,
            let plan = selection.plans[Int(number)]
        else {
            if schema.hasStrays { return }
            throw unknownEntity(number, key: key)
        }
        guard key > 0, key <= ManagedObjectID.greatestPrimaryKey else {
            throw invalid(plan.entity, key, "its primary key is out of range")
        }
        let version = sqlite3_column_int64(statement, 2)
        guard version >= 0, version <= Int64(UInt32.max) else {
            throw invalid(plan.entity, key, "its version is out of range")
        }
        builder.beginRow(
            UInt64(plan.entity.number) << 48 | UInt64(key), entity: plan.entity,
            version: UInt32(version))
        for cell in plan.cells {
            let type = sqlite3_column_type(statement, cell.column)
            if type == SQLITE_NULL { continue }
            try read(cell, type, statement, plan.entity, key, into: &builder)
        }
        builder.endRow()
    }

    @inline(__always)
    private func read(
        _ cell: SQLRowSelection.Cell, _ type: Int32, _ statement: OpaquePointer,
        _ entity: EntityLayout, _ key: Int64, into builder: inout RowSetBuilder
    ) throws {
        switch cell.kind {
        case .string, .uri:
            guard type == SQLITE_TEXT else { throw wrongType(type, cell, entity, key) }
            let bytes = UnsafeRawBufferPointer(
                start: sqlite3_column_text(statement, cell.column),
                count: Int(sqlite3_column_bytes(statement, cell.column)))
            builder.setBytes(bytes, at: cell.slot)
        case .integer:
            guard type == SQLITE_INTEGER else { throw wrongType(type, cell, entity, key) }
            builder.setInteger(sqlite3_column_int64(statement, cell.column), at: cell.slot)
        case .double, .date:
            guard type == SQLITE_FLOAT || type == SQLITE_INTEGER else {
                throw wrongType(type, cell, entity, key)
            }
            builder.setDouble(sqlite3_column_double(statement, cell.column), at: cell.slot)
        case .boolean:
            guard type == SQLITE_INTEGER else { throw wrongType(type, cell, entity, key) }
            builder.setInteger(
                sqlite3_column_int64(statement, cell.column) == 0 ? 0 : 1, at: cell.slot)
        case .reference(let entityBits):
            let target = try targetKey(cell, type, statement, entity, key)
            builder.setReference(entityBits | UInt64(target), at: cell.slot)
        case .polymorphicReference(let entityColumn, let destination):
            let target = try targetKey(cell, type, statement, entity, key)
            let number = schema.modelNumber(
                ofStoreNumber: sqlite3_column_int64(statement, entityColumn))
            let subtree = schema.layout.entity(number: destination).subtree
            let found =
                try number.flatMap { subtree.contains($0) ? $0 : nil }
                ?? lookedUp(target, destination: destination)
            builder.setReference(UInt64(found) << 48 | UInt64(target), at: cell.slot)
        case .lookedUpReference(let destination):
            let target = try targetKey(cell, type, statement, entity, key)
            let found = try lookedUp(target, destination: destination)
            builder.setReference(UInt64(found) << 48 | UInt64(target), at: cell.slot)
        case .binary:
            guard type == SQLITE_BLOB || type == SQLITE_TEXT else {
                throw wrongType(type, cell, entity, key)
            }
            builder.setBytes(blob(statement, cell.column), at: cell.slot)
        case .externalCapable:
            let bytes = blob(statement, cell.column)
            guard type == SQLITE_BLOB, SQLiteExternalData.isWellFormed(bytes) else {
                throw wrongType(type, cell, entity, key)
            }
            builder.setBytes(bytes, at: cell.slot)
        case .uuid:
            let bytes = blob(statement, cell.column)
            guard type == SQLITE_BLOB, bytes.count == 16 else {
                throw wrongType(type, cell, entity, key)
            }
            builder.setBytes(bytes, at: cell.slot)
        case .decimal:
            var decimal = try decimal(cell, type, statement, entity, key)
            withUnsafeBytes(of: &decimal) { builder.setBytes($0, at: cell.slot) }
        }
    }

    private func blob(_ statement: OpaquePointer, _ column: Int32) -> UnsafeRawBufferPointer {
        // The order of the calls matters: asking for the bytes may convert.
        let start = sqlite3_column_blob(statement, column)
        return UnsafeRawBufferPointer(
            start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(statement, column)))
    }

    @inline(__always)
    private func targetKey(
        _ cell: SQLRowSelection.Cell, _ type: Int32, _ statement: OpaquePointer,
        _ entity: EntityLayout, _ key: Int64
    ) throws -> Int64 {
        let target = sqlite3_column_int64(statement, cell.column)
        guard type == SQLITE_INTEGER, target > 0, target <= ManagedObjectID.greatestPrimaryKey
        else { throw wrongType(type, cell, entity, key) }
        return target
    }

    /// The entity of an object that a row refers to without saying so. The destination itself if there is no such
    /// object.
    private func lookedUp(_ target: Int64, destination: Int) throws -> Int {
        let place = schema.entity(number: destination)
        let number = try connection.integer(
            "SELECT Z_ENT FROM \(SQLName.quoted(place.tableName)) WHERE Z_PK = ?", target)
        guard let number, let found = schema.modelNumber(ofStoreNumber: number),
            schema.layout.entity(number: destination).subtree.contains(found)
        else { return destination }
        return found
    }

    private func decimal(
        _ cell: SQLRowSelection.Cell, _ type: Int32, _ statement: OpaquePointer,
        _ entity: EntityLayout, _ key: Int64
    ) throws -> Decimal {
        switch type {
        case SQLITE_INTEGER: return Decimal(sqlite3_column_int64(statement, cell.column))
        case SQLITE_FLOAT:
            let value = sqlite3_column_double(statement, cell.column)
            if let decimal = SQLiteDecimal.decimal(value) { return decimal }
        case SQLITE_TEXT:
            let text = String(cString: sqlite3_column_text(statement, cell.column))
            if let decimal = SQLiteDecimal.decimal(text) { return decimal }
        default: break
        }
        throw wrongType(type, cell, entity, key)
    }

    // MARK: - Errors

    private func unknownEntity(_ number: Int64, key: Int64) -> QuireError {
        let table = schema.entity(selection.entity).tableName
        return QuireError(
            .invalidFormat,
            "The row \(key) of the table \(table) has the entity number \(number), which is none of “"
                + "\(selection.entity.name)” and its sub-entities; the store is damaged.",
            subject: .init(
                entity: selection.entity.name, object: "\(table)/p\(key)", file: connection.path))
    }

    private func invalid(_ entity: EntityLayout, _ key: Int64, _ what: String) -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(entity.name)/p\(key)” cannot be read: \(what); the store is damaged.",
            subject: .init(
                entity: entity.name, object: "\(entity.name)/p\(key)", file: connection.path))
    }

    private func wrongType(
        _ type: Int32, _ cell: SQLRowSelection.Cell, _ entity: EntityLayout, _ key: Int64
    ) -> QuireError {
        let slot = entity.slots[cell.slot]
        let found =
            switch type {
            case SQLITE_INTEGER: "an integer"
            case SQLITE_FLOAT: "a floating-point number"
            case SQLITE_TEXT: "a text"
            default: "bytes"
            }
        var error = invalid(
            entity, key, "“\(slot.name)” holds \(found) that is no valid \(slot.storage) value")
        error.subject.property = slot.name
        return error
    }
}
