package import Foundation
import Quire
import QuireSQLite
package import QuireStore

/// Writes the objects of a store to a SQLite database that other tools understand, with the tables of ``RelationalSchema``.
///
/// Invariants
/// ==========
///
/// - The database is built beside its destination and synchronized before it gets its name, so it appears whole or not at all.
/// - Equal objects with equal keys produce equal bytes with the same version of SQLite: rows are inserted in the order of their
///   keys in one transaction; if rows had to be changed afterwards, the database is rewritten (`VACUUM INTO`). Values in files
///   follow, in the order of keys.
/// - Every foreign key refers to a row. A reference to an object that does not exist becomes NULL, or is left out of a join table.
/// - One batch of objects of each entity of a hierarchy is in memory at a time, and one block of a value kept in a file.
///
/// The values: integers, and truth values as 0 and 1, in INTEGER columns; floating-point numbers in REAL ones; decimals exactly,
/// dates in ISO 8601 in UTC, UUIDs and URIs as TEXT; binary values as BLOB, and so are transformable ones, as they are stored;
/// derived attributes as the store has computed them. Tables are `STRICT` if SQLite knows that (3.37), and foreign keys `DEFERRABLE INITIALLY DEFERRED`
/// and indexed. Rules of the model, such as required attributes and uniqueness constraints, are not constraints here.
package struct DatabaseExport {
    /// The store, which must not change meanwhile.
    package var store: any PersistentStore
    /// The database to create.
    package var destination: String
    /// Whether an existing file may be replaced.
    package var replacesExisting: Bool
    /// Counts the objects, and is checked for cancellation. Without one the export cannot be cancelled.
    package var progress: Progress?
    /// The maximum permissions of the database; `nil` for those of any new file.
    package var permissions: UInt32?
    /// The number of times that the progress counts each object; once by this export.
    var passes = 1

    package init(
        store: any PersistentStore, destination: String, replacesExisting: Bool = false,
        progress: Progress? = nil, permissions: UInt32? = nil
    ) {
        self.store = store
        self.destination = FileSystem.absolute(destination)
        self.replacesExisting = replacesExisting
        self.progress = progress
        self.permissions = permissions
    }

    /// Writes the database.
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists`, also if there is a journal of another database beside the destination;
    ///   `invalidValue` if the destination is the store itself, or a value is larger than SQLite allows; `cancelled`; or errors of
    ///   reading and writing. No database is left then.
    package func run() throws {
        if !replacesExisting, FileSystem.exists(destination) {
            throw FileSystem.failure("create", destination, errno: EEXIST)
        }
        let place = replacesExisting ? FileSystem.resolvingLink(destination) : destination
        try checkPlace(place)
        try TemporarySibling.buildingFile(beside: place) { temporary in
            try write(to: temporary)
            let file = try OpenFile.open(temporary, for: .updating)
            defer { file.close() }
            let usual = try file.information().permissions
            try file.setPermissionsIfPossible(usual & (permissions ?? 0o777))
            try file.synchronize()
            try TerminationCleanup.uninterrupted {
                if replacesExisting {
                    try FileSystem.rename(temporary, to: place)
                } else {
                    try FileSystem.renameWithoutReplacing(temporary, to: place)
                }
            }
            try FileSystem.synchronizeFolder(containing: place)
        }
    }

    /// Checks that the database would neither replace the store nor be changed by a journal of the file that it replaces.
    private func checkPlace(_ place: String) throws {
        if let path = store.path, let own = try FileSystem.information(at: path),
            try FileSystem.information(at: place)?.isSameFile(as: own) == true
        {
            throw QuireError(
                .invalidValue,
                "“\(destination)” is the store itself, which its export cannot replace; choose another name.",
                file: destination)
        }
        for suffix in ["-journal", "-wal"] where FileSystem.exists(place + suffix) {
            throw QuireError(
                .alreadyExists,
                "“\(place)\(suffix)” exists, and SQLite would apply it to the exported database. Close the program that uses it, or choose another name.",
                file: place + suffix)
        }
    }

    /// Builds the database at a path in a folder of the caller's. Not synchronized.
    func write(to path: String) throws {
        do {
            try DatabaseWriter(self, path: path).run()
        } catch let failure as SQLiteFailure {
            throw failure.error(path: path)
        }
    }

    /// The error if the export is cancelled.
    func checkCancelled() throws {
        try progress?.checkCancelled(
            "The export to “\(destination)” was cancelled.", file: destination)
    }
}

// MARK: - Writing

/// Fills one database.
private final class DatabaseWriter {
    private let export: DatabaseExport
    private let path: String
    private var connection: SQLiteConnection
    private let schema: RelationalSchema
    /// The numbers of root entities that have values in files.
    private var rootsWithLargeValues: Set<Int> = []
    /// Whether rows have been changed after their insertion.
    private var hasChangedRows = false

    private var store: any PersistentStore { export.store }

    init(_ export: DatabaseExport, path: String) throws {
        self.export = export
        self.path = path
        schema = try RelationalSchema(export.store)
        connection = try SQLiteConnection(path: path, mode: .creating)
    }

    func run() throws {
        defer { connection.close() }
        try begin()
        for statement in schema.creation { try connection.execute(statement) }
        try countObjects()
        for table in schema.tables { try insertRows(of: table) }
        try removeDanglingReferences()
        try insertRelationships()
        for statement in schema.indexes {
            try export.checkCancelled()
            try connection.execute(statement)
        }
        try connection.execute("COMMIT")
        if hasChangedRows { try pack() }
        // Last, so that no row that has one is changed or copied afterwards.
        for table in schema.tables where rootsWithLargeValues.contains(table.root.number) {
            try insertLargeValues(of: table)
        }
    }

    /// Begins a transaction. If it is interrupted, the database is discarded.
    private func begin() throws {
        try connection.execute("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF")
        try connection.execute("BEGIN")
    }

    /// Rewrites the database, as if its rows had never been changed.
    private func pack() throws {
        try export.checkCancelled()
        let packed = path + "-packed"
        try connection.run("VACUUM INTO ?", packed)
        connection.close()
        try FileSystem.rename(packed, to: path)
        connection = try SQLiteConnection(path: path, mode: .writing)
    }

    private func countObjects() throws {
        guard let progress = export.progress else { return }
        var count = 0
        for table in schema.tables {
            count += try store.count(matching: FetchSpecification(table.root.name))
        }
        progress.totalUnitCount = Int64(count * export.passes)
        progress.completedUnitCount = 0
    }

    // MARK: Objects

    private func insertRows(of table: RelationalSchema.Table) throws {
        let fixed = table.hasEntityColumn ? 2 : 1
        let marks = Array(repeating: "?", count: fixed + table.columns.count)
        let statement = try connection.prepare(
            "INSERT INTO \(quoted(table.name)) VALUES (\(marks.joined(separator: ", ")))")
        let objects = try HierarchyCursor(table.root, of: store)
        var count: Int64 = 0
        while let object = try objects.next() {
            if count & 0x7F == 0 {
                try export.checkCancelled()
                export.progress?.completedUnitCount += min(count, 0x80)
            }
            count += 1
            let key = object.objectID.primaryKey
            try statement.bind(key, at: 1)
            if table.hasEntityColumn { try statement.bind(object.entity.name, at: 2) }
            for (slot, position) in schema.columns(of: object.entity).enumerated() {
                guard let position else { continue }
                let value = try object.valueWithoutLoading(at: slot)
                if case .external = value { rootsWithLargeValues.insert(table.root.number) }
                try bind(
                    value, for: table.columns[position], to: statement,
                    at: Int32(position + fixed + 1))
            }
            try statement.run()
            statement.reset()
        }
        export.progress?.completedUnitCount += count == 0 ? 0 : (count - 1) & 0x7F + 1
    }

    private func bind(
        _ value: AttributeValue, for column: RelationalSchema.Column, to statement: SQLiteStatement,
        at index: Int32
    ) throws {
        switch value {
        // As cleared by the last reset. Values in files are inserted later; a slot has no composite value.
        case .null, .external, .composite: break
        case .integer(let integer): try statement.bind(integer, at: index)
        case .boolean(let truth): try statement.bind(Int64(truth ? 1 : 0), at: index)
        case .double(let number):
            let type = column.attributeType ?? .double
            try statement.bind(AttributeValue.shortest(number, as: type), at: index)
        case .binary(let data): try statement.bind(data, at: index)
        case .objectID(let id):
            guard let destination = column.destination,
                store.layout.entity(number: id.entityNumber).rootNumber == destination.rootNumber
            else { break }
            try statement.bind(id.primaryKey, at: index)
        case .decimal(let decimal):
            try statement.bind(AttributeValue.text(ofCompacted: decimal), at: index)
        case .date(let date):
            try statement.bind(AttributeValue.text(ofDate: date), at: index)
        case .string(let text): try statement.bind(text, at: index)
        case .uuid(let uuid): try statement.bind(uuid.uuidString, at: index)
        case .uri(let uri): try statement.bind(uri.absoluteString, at: index)
        }
    }

    /// Inserts the values that are in files, in blocks, each verified by its digest.
    ///
    /// SQLite makes a row with zeros in place of a value without having them in memory, but only if nothing else than such values
    /// comes after them in the row. So the other values of the large columns are written in the same way.
    private func insertLargeValues(of table: RelationalSchema.Table) throws {
        try begin()
        let columns = table.columns.filter(\.isLarge)
        let assignments = columns.map { "\(quoted($0.name)) = ?" }.joined(separator: ", ")
        let statement = try connection.prepare(
            "UPDATE \(quoted(table.name)) SET \(assignments) WHERE \"id\" = ?")
        let start = table.columns.count - columns.count
        let objects = try HierarchyCursor(table.root, of: store)
        while let object = try objects.next() {
            var values = Array<ExternalData?>(repeating: nil, count: columns.count)
            var hasFile = false
            for (slot, position) in schema.columns(of: object.entity).enumerated() {
                guard let position, position >= start else { continue }
                switch try object.valueWithoutLoading(at: slot) {
                case .external(let data):
                    values[position - start] = data
                    hasFile = true
                case .binary(let data): values[position - start] = ExternalData(data)
                default: break
                }
            }
            guard hasFile else { continue }
            try export.checkCancelled()
            let key = object.objectID.primaryKey
            for (index, value) in values.enumerated() {
                if let value { try statement.bindZeros(count: value.size, at: Int32(index + 1)) }
            }
            try statement.bind(key, at: Int32(columns.count + 1))
            try statement.run()
            statement.reset()
            for (column, value) in zip(columns, values) {
                guard let value else { continue }
                let blob = try SQLiteBlob(
                    connection, table: table.name, column: column.name, row: key, isWritable: true)
                var offset = 0
                try value.forEachVerifiedBlock { block in
                    try export.checkCancelled()
                    try blob.write(block, at: offset)
                    offset += block.count
                }
            }
        }
        try connection.execute("COMMIT")
    }

    private func removeDanglingReferences() throws {
        for table in schema.tables {
            for column in table.columns {
                guard let destination = column.destination else { continue }
                let name = quoted(column.name)
                try connection.execute(
                    """
                    UPDATE \(quoted(table.name)) SET \(name) = NULL WHERE \(name) IS NOT NULL AND NOT EXISTS \
                    (SELECT 1 FROM \(quoted(schema.table(of: destination).name)) d WHERE d."id" = \(name))
                    """)
                if connection.changeCount > 0 { hasChangedRows = true }
            }
        }
    }

    // MARK: Relationships

    /// A statement to run for each member of a to-many relationship of each object, in the order of the relationship.
    private struct RelationshipStep {
        var entity: ResolvedEntity
        var relationship: ResolvedEntity.Relationship
        /// Takes the keys of owner and member, and the position if there is one. Changes a row only if the member exists.
        var statement: SQLiteStatement
        var takesPosition: Bool
    }

    /// Inserts the rows of join tables, and sets the positions that are in other rows.
    private func insertRelationships() throws {
        try run(
            schema.joinTables.map { table in
                var columns = [table.ownerColumn, table.memberColumn]
                if let position = table.ownerPositionColumn { columns.append(position) }
                let names = columns.map(quoted).joined(separator: ", ")
                let values = ["?1", "?2", "?3"].prefix(columns.count).joined(separator: ", ")
                return RelationshipStep(
                    entity: table.entity, relationship: table.relationship,
                    statement: try connection.prepare(
                        """
                        INSERT OR IGNORE INTO \(quoted(table.name)) (\(names)) SELECT \(values) WHERE EXISTS \
                        (SELECT 1 FROM \(quoted(schema.table(of: table.destination).name)) WHERE "id" = ?2)
                        """),
                    takesPosition: table.ownerPositionColumn != nil)
            })
        // After all rows are inserted: those of an inverse may be inserted with another table's objects.
        let lists = try schema.orderedLists.map { list in
            let members = schema.table(of: list.memberRoot)
            let (reference, position) = (
                quoted(members.columns[list.column].name),
                quoted(members.columns[list.column + 1].name)
            )
            return RelationshipStep(
                entity: list.entity, relationship: list.relationship,
                statement: try connection.prepare(
                    """
                    UPDATE \(quoted(members.name)) SET \(position) = ?3 WHERE "id" = ?2 AND \(reference) = ?1
                    """), takesPosition: true)
        }
        let inverses = try schema.joinTables.compactMap { table -> RelationshipStep? in
            guard let inverse = table.orderedInverse, let position = table.memberPositionColumn
            else { return nil }
            return RelationshipStep(
                entity: store.layout.entity(number: inverse.ownerNumber), relationship: inverse,
                statement: try connection.prepare(
                    """
                    UPDATE \(quoted(table.name)) SET \(quoted(position)) = ?3 \
                    WHERE \(quoted(table.ownerColumn)) = ?2 AND \(quoted(table.memberColumn)) = ?1
                    """), takesPosition: true)
        }
        if try run(lists + inverses) { hasChangedRows = true }
    }

    /// - Returns: Whether a row was inserted or changed.
    @discardableResult
    private func run(_ steps: [RelationshipStep]) throws -> Bool {
        var hasChanged = false
        for table in schema.tables {
            let steps = steps.filter { $0.entity.rootNumber == table.root.number }
            if steps.isEmpty { continue }
            let owners = try HierarchyCursor(table.root, of: store) { entity in
                steps.filter { $0.entity.subtree.contains(entity.number) }.map {
                    entity.relationships[$0.relationship.index]
                }
            }
            var count = 0
            while let owner = try owners.next() {
                if count & 0x7F == 0 { try export.checkCancelled() }
                count += 1
                for step in steps where step.entity.subtree.contains(owner.entity.number) {
                    var position: Int64 = 0
                    for member in owners.members(owner, step.relationship) {
                        try step.statement.bind(owner.objectID.primaryKey, at: 1)
                        try step.statement.bind(member.primaryKey, at: 2)
                        if step.takesPosition { try step.statement.bind(position, at: 3) }
                        try step.statement.run()
                        guard connection.changeCount > 0 else { continue }
                        position += 1
                        hasChanged = true
                    }
                }
            }
        }
        return hasChanged
    }

    private func quoted(_ name: String) -> String { RelationalSchema.quoted(name) }
}

// MARK: - Reading

/// The objects of an entity and its sub-entities in the order of their primary keys.
private final class HierarchyCursor {
    /// The cursors of the entities, each with its next object; `nil` at the end.
    private var cursors: [(objects: ObjectCursor, next: ObjectSnapshot?)] = []
    /// The position of the cursor that returned the last object, and still has its members.
    private var current: Int?

    /// Begins before the first object.
    ///
    /// - Parameter toMany: The relationships of an entity that ``members(_:_:)`` is asked for.
    init(
        _ entity: ResolvedEntity, of store: any PersistentStore,
        toMany: (ResolvedEntity) -> [ResolvedEntity.Relationship] = { _ in [] }
    ) throws {
        for number in entity.subtree {
            let entity = store.layout.entity(number: number)
            let objects = try ObjectCursor(entity, of: store, toMany: toMany(entity))
            cursors.append((objects, try objects.next()))
        }
    }

    /// The next object, or `nil` at the end.
    func next() throws -> ObjectSnapshot? {
        // Not before the last object was used: its members are those of the cursor's present batch.
        if let current { cursors[current].next = try cursors[current].objects.next() }
        current = nil
        var first: ObjectSnapshot?
        for (index, cursor) in cursors.enumerated() {
            guard let object = cursor.next else { continue }
            if let first, first.objectID.primaryKey < object.objectID.primaryKey { continue }
            (first, current) = (object, index)
        }
        return first
    }

    /// The members of a relationship of the object that ``next()`` returned last: in their order, or by their keys.
    func members(
        _ object: ObjectSnapshot, _ relationship: ResolvedEntity.Relationship
    ) -> [ManagedObjectID] {
        guard let current else { return [] }
        let members = cursors[current].objects.members(object, relationship)
        if relationship.isOrdered { return members }
        return members.sorted { $0.primaryKey < $1.primaryKey }
    }
}
