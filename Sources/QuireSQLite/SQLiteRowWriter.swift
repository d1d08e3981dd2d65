import CSQLite
import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Writes the rows of objects within a transaction.
final class SQLiteRowWriter {
    private let store: SQLiteStore
    private let writer: SQLiteWriter
    /// The files of external values in the rows.
    var files: SQLiteExternalDataWriter
    private let dropsExternalData: Bool
    private let arena = SQLiteBindingArena()
    /// The object whose row was written last, for error messages.
    @exclusivity(unchecked) private(set) var currentObject: ManagedObjectID?
    /// Objects that failed the optimistic-lock check.
    private(set) var conflicts: [(id: ManagedObjectID, change: MergeConflict.Change)] = []
    /// Files dereferenced by the written rows.
    private(set) var droppedFiles: Set<String> = []

    init(
        store: SQLiteStore, writer: SQLiteWriter, files: SQLiteExternalDataWriter,
        dropsExternalData: Bool
    ) {
        self.store = store
        self.writer = writer
        self.files = files
        self.dropsExternalData = dropsExternalData
    }

    private var connection: SQLiteConnection { writer.connection }

    func insert(_ change: UnsafePointer<ObjectChange>) throws {
        currentObject = change.pointee.objectID
        let prepared = try writer.insert(change.pointee.entity)
        let statement = prepared.statement
        try statement.bind(
            change.pointee.objectID.primaryKey, at: SQLRowStatement.primaryKeyIndex)
        try bind(change, prepared.row.bindings, to: statement)
        try bind(change, prepared.row.derivedTexts, to: statement)
        try statement.run()
        arena.reset()
    }

    func update(_ change: UnsafePointer<ObjectChange>) throws {
        guard change.pointee.writesRow else { return }
        let objectID = change.pointee.objectID
        currentObject = objectID
        if dropsExternalData { try noteFiles(of: objectID, slots: change.pointee.changedSlots) }
        let prepared = try writer.update(
            change.pointee.entity, slots: change.pointee.changedSlots)
        let statement = prepared.statement
        let version = change.pointee.version
        try statement.bind(objectID.primaryKey, at: SQLRowStatement.primaryKeyIndex)
        try statement.bind(Int64(version &+ 1), at: SQLRowStatement.newVersionIndex)
        try statement.bind(Int64(version), at: SQLRowStatement.oldVersionIndex)
        try bind(change, prepared.row.bindings, to: statement)
        try bind(change, prepared.row.derivedTexts, to: statement)
        try statement.run()
        arena.reset()
        if connection.changeCount == 0 { conflicts.append((objectID, .update)) }
    }

    func delete(_ deletion: ObjectDeletion) throws {
        currentObject = deletion.objectID
        let entity = store.layout.entity(number: deletion.objectID.entityNumber)
        if dropsExternalData { try noteFiles(of: deletion.objectID, slots: nil) }
        let prepared = try writer.delete(entity, checkingVersion: deletion.version != nil)
        try prepared.statement.bind(
            deletion.objectID.primaryKey, at: SQLRowStatement.primaryKeyIndex)
        if let version = deletion.version { try prepared.statement.bind(Int64(version), at: 2) }
        try prepared.statement.run()
        if connection.changeCount == 0, deletion.version != nil, try exists(deletion.objectID) {
            conflicts.append((deletion.objectID, .deletion))
        }
    }

    /// Whether an object's row exists. An object already deleted elsewhere need not be deleted again.
    func exists(_ objectID: ManagedObjectID) throws -> Bool {
        let table = store.schema.entity(number: objectID.entityNumber).tableName
        return try connection.integer(
            "SELECT 1 FROM \(SQLName.quoted(table)) WHERE Z_PK = ?", objectID.primaryKey) != nil
    }

    /// Invalidates the bindings of a failed statement.
    func discardBindings() { arena.reset() }

    // MARK: - Binding

    @inline(__always)
    private func bind(
        _ change: UnsafePointer<ObjectChange>,
        _ bindings: ContiguousArray<SQLRowStatement.Binding>, to statement: SQLiteStatement
    ) throws {
        for binding in bindings {
            try bind(change.pointee.values[binding.slot], binding, of: change, to: statement)
        }
    }

    private func bind(
        _ change: UnsafePointer<ObjectChange>, _ texts: [SQLRowStatement.DerivedText],
        to statement: SQLiteStatement
    ) throws {
        for derived in texts {
            if case .string(let text) = change.pointee.values[derived.source] {
                try statement.bind(derived.function.apply(to: text), at: derived.index)
            } else {
                try statement.bindNull(at: derived.index)
            }
        }
    }

    private func bind(
        _ value: AttributeValue, _ binding: SQLRowStatement.Binding,
        of change: UnsafePointer<ObjectChange>, to statement: SQLiteStatement
    ) throws {
        let index = binding.index
        switch (binding.storage, value) {
        case (_, .null):
            try statement.bindNull(at: index)
            if binding.entityIndex > 0 { try statement.bindNull(at: binding.entityIndex) }
        case (.string, .string(var text)):
            try text.withUTF8 {
                try statement.bindText(arena.place(UnsafeRawBufferPointer($0)), at: index)
            }
        case (.integer, .integer(let integer)): try statement.bind(integer, at: index)
        case (.double, .double(let double)): try statement.bind(double, at: index)
        case (.boolean, .boolean(let boolean)):
            try statement.bind(boolean ? 1 : 0 as Int64, at: index)
        case (.date, .date(let date)):
            try statement.bind(date.timeIntervalSinceReferenceDate, at: index)
        case (.reference, .objectID(let id)):
            try statement.bind(id.primaryKey, at: index)
            if binding.entityIndex > 0 {
                let number = store.schema.entity(number: id.entityNumber).storeNumber
                try statement.bind(Int64(number), at: binding.entityIndex)
            }
        case (.uuid, .uuid(let uuid)):
            try withUnsafeBytes(of: uuid.uuid) {
                try statement.bindBlob(arena.place($0), at: index)
            }
        case (.uri, .uri(let url)):
            var text = url.absoluteString
            try text.withUTF8 {
                try statement.bindText(arena.place(UnsafeRawBufferPointer($0)), at: index)
            }
        case (.binary, .binary(let data)):
            try bind(data, binding, of: change, to: statement)
        case (.binary, .external(let data)):
            // An external value has a file name; what remains is small.
            let name = files.name(object: change.pointee.objectID, slot: binding.slot)
            try bind(name == nil ? data.contents() : Data(), binding, of: change, to: statement)
        case (.decimal, .decimal(let decimal)):
            if store.options.refusesInexactDecimals {
                let entity = change.pointee.entity
                try SQLiteDecimal.checkIsExact(
                    decimal, for: entity.slots[binding.slot], of: entity, change.pointee.objectID)
            }
            try SQLiteDecimal.stored(decimal).bind(to: statement, at: index)
        default: throw wrongValue(value, binding.slot, change.pointee)
        }
    }

    private func bind(
        _ data: Data, _ binding: SQLRowStatement.Binding,
        of change: UnsafePointer<ObjectChange>,
        to statement: SQLiteStatement
    ) throws {
        guard binding.isExternalCapable else {
            try data.withUnsafeBytes { try statement.bindBlob(arena.place($0), at: binding.index) }
            return
        }
        if let name = files.name(object: change.pointee.objectID, slot: binding.slot) {
            try statement.bind(ExternalDataTag.reference(toFileNamed: name), at: binding.index)
            return
        }
        let room = arena.allocate(data.count + 1)
        room[0] = ExternalDataTag.inline
        data.copyBytes(to: UnsafeMutableRawBufferPointer(rebasing: room[1...]))
        try statement.bindBlob(UnsafeRawBufferPointer(room), at: binding.index)
    }

    private func wrongValue(
        _ value: AttributeValue, _ index: Int, _ change: ObjectChange
    ) -> QuireError {
        let slot = change.entity.slots[index]
        return QuireError(
            .invalidValue,
            "“\(change.entity.name).\(slot.name)” of \(change.objectID.shortDescription) cannot have the value \(value).",
            entity: change.entity.name, property: slot.name,
            object: change.objectID.uriRepresentation)
    }

    // MARK: - External data

    /// Collects the files that the row refers to before it is updated or deleted.
    private func noteFiles(of objectID: ManagedObjectID, slots: SlotMask?) throws {
        let entity = store.layout.entity(number: objectID.entityNumber)
        let place = store.schema.entity(entity)
        for slot in entity.slots where slot.isExternalCapable && slots?.contains(slot.index) ?? true
        {
            guard let column = place.columns[slot.index] else { continue }
            let value = try connection.row(
                "SELECT substr(\(SQLName.quoted(column.name)), 1, 38) FROM "
                    + "\(SQLName.quoted(place.tableName)) WHERE Z_PK = ?", objectID.primaryKey
            ) { $0.data(0) }
            if let name = value?.withUnsafeBytes(ExternalDataTag.fileName) {
                droppedFiles.insert(name)
            }
        }
    }
}
