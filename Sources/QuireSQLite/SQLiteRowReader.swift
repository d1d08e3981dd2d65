import CSQLite
import Foundation
internal import QuireModel
package import QuireStore
internal import QuireSystem

/// Copies rows of a running statement into packed rows, directly from SQLite's columns.
package struct SQLiteRowReader {
    let connection: SQLiteConnection
    let selection: SQLRowSelection
    let schema: SQLSchema
    /// The bits of the store's identifiers other than entity and primary key.
    let storeBits: UInt64

    package init(connection: SQLiteConnection, selection: SQLRowSelection, store: SQLiteStore) {
        self.connection = connection
        self.selection = selection
        schema = store.schema
        storeBits = store.identity.numberBits
    }

    /// Steps through a statement that selects ``SQLRowSelection/list``, and calls a closure after each row.
    @inline(__always)
    package func readAll(
        _ statement: SQLiteStatement, into builder: inout RowSetBuilder,
        then body: (OpaquePointer) -> Void = { _ in }
    ) throws {
        // Usually all rows are of one entity: its plan is looked up once.
        var number: Int64 = 0
        var plan: SQLRowSelection.Plan?
        while try statement.step() {
            let row = statement.handle
            let found = sqlite3_column_int64(row, 1)
            if found != number {
                number = found
                plan =
                    found > 0 && found < selection.plans.count ? selection.plans[Int(found)] : nil
            }
            guard let plan else { throw unknownEntity(found, key: sqlite3_column_int64(row, 0)) }
            try readRow(row, plan, into: &builder)
            body(row)
        }
    }

    /// Copies the current row.
    @inline(__always)
    private func readRow(
        _ row: OpaquePointer, _ plan: SQLRowSelection.Plan, into builder: inout RowSetBuilder
    ) throws {
        let key = sqlite3_column_int64(row, 0)
        guard key > 0, key <= ManagedObjectID.maximumPrimaryKey else {
            throw invalid(plan.entity, key, "its primary key is out of range")
        }
        let version = sqlite3_column_int64(row, 2)
        guard version >= 0, version <= Int64(UInt32.max) else {
            throw invalid(plan.entity, key, "its version is out of range")
        }
        builder.beginRow(
            UInt64(plan.entity.number) << 48 | storeBits | UInt64(key), entity: plan.entity,
            version: UInt32(truncatingIfNeeded: version))
        try plan.cells.withUnsafeBufferPointer { cells in
            for index in cells.indices {
                // One access to the statement instead of three. The value is unprotected and valid until the next step; SQLite
                // requires exclusive use of the connection, which we have.
                let column = cells[index].column
                guard let value = sqlite3_column_value(row, column) else { continue }
                let type = sqlite3_value_type(value)
                if type == SQLITE_NULL { continue }
                let slot = cells[index].slot
                let isRead =
                    switch cells[index].kind {
                    case .string, .uri: try readText(value, type, slot, into: &builder)
                    case .integer: readInteger(value, type, slot, into: &builder)
                    case .double, .date: readDouble(value, type, slot, into: &builder)
                    case .boolean: readBoolean(value, type, slot, into: &builder)
                    case .reference(let entityBits):
                        readReference(value, type, slot, entityBits, into: &builder)
                    default:
                        try readOther(value, type, cells[index], row, into: &builder)
                    }
                if !isRead { throw wrongType(type, cells[index], plan.entity, key) }
            }
        }
        builder.endRow()
    }

    // MARK: - Values

    // Each returns whether the slot can hold a value of the type.

    @inline(__always)
    private func readText(
        _ value: OpaquePointer, _ type: Int32, _ slot: Int, into builder: inout RowSetBuilder
    ) throws -> Bool {
        guard type == SQLITE_TEXT else { return false }
        // The order of the calls matters: reading the text may convert the value.
        let start = sqlite3_value_text(value)
        try builder.setBytes(
            UnsafeRawBufferPointer(start: start, count: Int(sqlite3_value_bytes(value))), at: slot)
        return true
    }

    @inline(__always)
    private func readInteger(
        _ value: OpaquePointer, _ type: Int32, _ slot: Int, into builder: inout RowSetBuilder
    ) -> Bool {
        guard type == SQLITE_INTEGER else { return false }
        builder.setInteger(sqlite3_value_int64(value), at: slot)
        return true
    }

    @inline(__always)
    private func readBoolean(
        _ value: OpaquePointer, _ type: Int32, _ slot: Int, into builder: inout RowSetBuilder
    ) -> Bool {
        guard type == SQLITE_INTEGER else { return false }
        builder.setInteger(sqlite3_value_int64(value) == 0 ? 0 : 1, at: slot)
        return true
    }

    @inline(__always)
    private func readDouble(
        _ value: OpaquePointer, _ type: Int32, _ slot: Int, into builder: inout RowSetBuilder
    ) -> Bool {
        guard type == SQLITE_FLOAT || type == SQLITE_INTEGER else { return false }
        builder.setDouble(sqlite3_value_double(value), at: slot)
        return true
    }

    @inline(__always)
    private func readReference(
        _ value: OpaquePointer, _ type: Int32, _ slot: Int, _ entityBits: UInt64,
        into builder: inout RowSetBuilder
    ) -> Bool {
        guard let target = targetKey(value, type) else { return false }
        builder.setReference(entityBits | storeBits | UInt64(target), at: slot)
        return true
    }

    @inline(__always)
    private func targetKey(_ value: OpaquePointer, _ type: Int32) -> Int64? {
        let target = sqlite3_value_int64(value)
        return type == SQLITE_INTEGER && target > 0 && target <= ManagedObjectID.maximumPrimaryKey
            ? target : nil
    }

    @inline(never)
    private func readOther(
        _ value: OpaquePointer, _ type: Int32, _ cell: SQLRowSelection.Cell, _ row: OpaquePointer,
        into builder: inout RowSetBuilder
    ) throws -> Bool {
        switch cell.kind {
        case .polymorphicReference(let entityColumn, let destination):
            guard let target = targetKey(value, type) else { return false }
            let number = schema.modelNumber(
                ofStoreNumber: sqlite3_column_int64(row, entityColumn))
            let subtree = schema.layout.entity(number: destination).subtree
            let found =
                try number.flatMap { subtree.contains($0) ? $0 : nil }
                ?? lookedUp(target, destination: destination)
            builder.setReference(UInt64(found) << 48 | storeBits | UInt64(target), at: cell.slot)
        case .lookedUpReference(let destination):
            guard let target = targetKey(value, type) else { return false }
            let found = try lookedUp(target, destination: destination)
            builder.setReference(UInt64(found) << 48 | storeBits | UInt64(target), at: cell.slot)
        case .binary:
            guard type == SQLITE_BLOB || type == SQLITE_TEXT else { return false }
            try builder.setBytes(blob(value), at: cell.slot)
        case .externalCapable:
            let bytes = blob(value)
            guard type == SQLITE_BLOB, ExternalDataTag.isWellFormed(bytes) else { return false }
            try builder.setBytes(bytes, at: cell.slot)
        case .uuid:
            let bytes = blob(value)
            guard type == SQLITE_BLOB, bytes.count == 16 else { return false }
            try builder.setBytes(bytes, at: cell.slot)
        case .decimal:
            guard var decimal = decimal(value, type) else { return false }
            try withUnsafeBytes(of: &decimal) { try builder.setBytes($0, at: cell.slot) }
        case .string, .uri, .integer, .double, .date, .boolean, .reference: return false
        }
        return true
    }

    private func blob(_ value: OpaquePointer) -> UnsafeRawBufferPointer {
        // The order of the calls matters: reading the blob may convert the value.
        let start = sqlite3_value_blob(value)
        return UnsafeRawBufferPointer(
            start: start, count: start == nil ? 0 : Int(sqlite3_value_bytes(value)))
    }

    private func decimal(_ value: OpaquePointer, _ type: Int32) -> Decimal? {
        switch type {
        case SQLITE_INTEGER: Decimal(sqlite3_value_int64(value))
        case SQLITE_FLOAT: SQLiteDecimal.decimal(sqlite3_value_double(value))
        case SQLITE_TEXT: SQLiteDecimal.decimal(String(cString: sqlite3_value_text(value)))
        default: nil
        }
    }

    /// The entity of a referenced object that has no entity column. The destination entity if the object does not exist.
    private func lookedUp(_ target: Int64, destination: Int) throws -> Int {
        let place = schema.entity(number: destination)
        let number = try connection.integer(
            "SELECT Z_ENT FROM \(SQLName.quoted(place.tableName)) WHERE Z_PK = ?", target)
        guard let number, let found = schema.modelNumber(ofStoreNumber: number),
            schema.layout.entity(number: destination).subtree.contains(found)
        else { return destination }
        return found
    }

    // MARK: - Errors

    @inline(never)
    private func unknownEntity(_ number: Int64, key: Int64) -> QuireError {
        let table = schema.entity(selection.entity).tableName
        return QuireError(
            .invalidFormat,
            "The row \(key) of the table \(table) has the entity number \(number), which is neither “"
                + "\(selection.entity.name)” nor one of its sub-entities; the store is damaged.",
            entity: selection.entity.name, object: "\(table)/p\(key)", file: connection.path)
    }

    @inline(never)
    private func invalid(_ entity: ResolvedEntity, _ key: Int64, _ what: String) -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(entity.name)/p\(key)” cannot be read: \(what); the store is damaged.",
            entity: entity.name, object: "\(entity.name)/p\(key)", file: connection.path)
    }

    @inline(never)
    private func wrongType(
        _ type: Int32, _ cell: SQLRowSelection.Cell, _ entity: ResolvedEntity, _ key: Int64
    ) -> QuireError {
        let slot = entity.slots[cell.slot]
        let found =
            switch type {
            case SQLITE_INTEGER: "an integer"
            case SQLITE_FLOAT: "a floating-point number"
            case SQLITE_TEXT: "text"
            default: "bytes"
            }
        var error = invalid(
            entity, key, "“\(slot.name)” contains \(found), not a valid \(slot.storage)")
        error.subject.property = slot.name
        return error
    }
}
