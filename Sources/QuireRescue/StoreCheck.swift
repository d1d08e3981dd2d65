public import Foundation
internal import QuireAtomicStores
internal import QuireModel
internal import QuireQuery
public import QuireSQLite
public import QuireStore
internal import QuireSystem

/// Checks a SQLite store completely and reports problems. Changes nothing.
///
/// ```swift
/// let report = try StoreCheck.run(store)
/// for problem in report.problems { print(problem.message) }
/// ```
///
/// It checks: tables, columns and indexes against the model; the file itself; the number of objects; values against their types
/// and the model; relationships for dangling references and inverses; orders; entity numbers, versions and keys; uniqueness;
/// files with external data; metadata; derived attributes.
///
/// Memory is bounded: rows are read in batches, and the number of listed problems of one kind per place is limited.
public struct StoreCheck {
    /// The maximum number of listed problems of one kind for each entity, property or table.
    public static let maximumListCount = 100

    let store: SQLiteStore
    let schema: SQLSchema
    let connection: SQLiteConnection
    private var report = StoreCheckReport()
    /// Counts bytes; see ``advance(_:bytes:)``.
    let progress: Progress?
    private let databaseSize: Int64

    private init(store: SQLiteStore, connection: SQLiteConnection, progress: Progress?) {
        self.store = store
        self.connection = connection
        self.progress = progress
        schema = store.schema
        // Files that cannot be examined are reported when they are checked.
        databaseSize =
            progress == nil ? 0 : (try? FileSystem.information(at: store.storePath)?.size) ?? 0
        progress?.totalUnitCount = max((try? store.byteCount()) ?? 0, databaseSize)
        progress?.completedUnitCount = 0
    }

    /// Checks a store as of its last save.
    ///
    /// It may be called from any thread. Reads and saves may continue: the check uses one snapshot.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - progress: Counts the bytes of the store's files, including external data. Cancelling it stops the check before the
    ///     next statement or file.
    /// - Complexity: O(*n*) in the size of the store, which is read completely.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the file is too damaged to be checked, `cancelled`, or
    ///   `storeUnavailable`.
    public static func run(
        _ store: SQLiteStore, progress: Progress? = nil
    ) throws -> StoreCheckReport {
        try store.read { connection in
            // One transaction, so that all queries see one snapshot.
            try connection.execute("BEGIN")
            defer { try? connection.execute("ROLLBACK") }
            var check = StoreCheck(store: store, connection: connection, progress: progress)
            do {
                try check.checkAll()
                progress.map { $0.completedUnitCount = $0.totalUnitCount }
            } catch let failure as SQLiteFailure {
                // The problems found so far explain the failure.
                guard !check.report.isWhole else { throw failure }
                check.add(.integrity, failure.error(path: store.storePath).message)
            }
            return check.report
        }
    }

    private mutating func checkAll() throws {
        try checkSchema()
        try checkIntegrity()
        try advance(0.25)
        try checkRows()
        try advance(0.3)
        try checkObjects()
        try advance(0.7)
        try checkReferences()
        try advance(0.8)
        try checkInverses()
        try advance(0.85)
        try checkJoinTables()
        try checkOrders()
        try advance(0.9)
        try checkUniqueness()
        try advance(1)
        try checkExternalData()
        try checkMetadata()
        try checkModel()
        try checkDerived()
        try checkSynchronization()
    }

    // MARK: - Progress

    /// Advances the progress to a part of the database, from 0 to 1, estimated by the time that it takes to check it.
    ///
    /// - Parameter bytes: The bytes of external data that have been checked, after the database.
    /// - Throws: ``QuireError`` with code `cancelled`.
    func advance(_ part: Double, bytes: Int64 = 0) throws {
        guard let progress else { return }
        progress.completedUnitCount = Int64(Double(databaseSize) * part) + bytes
        try progress.checkCancelled(
            "The check of “\(store.storePath)” was cancelled.", file: store.storePath)
    }

    // MARK: - Reporting

    mutating func add(
        _ kind: StoreProblem.Kind, _ message: String, object: ManagedObjectID? = nil,
        table: String? = nil, isRepairable: Bool = false, isNote: Bool = false
    ) {
        let problem = StoreProblem(
            kind: kind, object: object?.uriRepresentation, table: table,
            message: object.map { "\($0.shortDescription): \(message)" } ?? message,
            isRepairable: isRepairable)
        if isNote { report.notes.append(problem) } else { report.problems.append(problem) }
    }

    /// Runs a query for problems, and passes each row to list, up to the limit.
    ///
    /// - Parameter isProblem: Selects the rows that are problems.
    mutating func each(
        _ sql: String,
        isProblem: (StoreCheck, SQLiteStatement) throws -> Bool = { _, _ in true },
        _ body: (inout StoreCheck, SQLiteStatement) throws -> Void
    ) throws {
        let statement = try connection.prepare(sql)
        var count = 0
        while try statement.step() {
            guard try isProblem(self, statement) else { continue }
            count += 1
            if count <= Self.maximumListCount {
                try body(&self, statement)
            } else {
                report.unlistedProblems += 1
            }
        }
    }

    mutating func addUnlisted() { report.unlistedProblems += 1 }

    mutating func count(objects: Int = 0, values: Int = 0, references: Int = 0, files: Int = 0) {
        report.objects += objects
        report.values += values
        report.references += references
        report.externalFiles += files
    }

    /// The identifier of a row; if its entity number is invalid, as an object of the given entity.
    func id(_ key: Int64, storeNumber: Int64, in entity: ResolvedEntity) -> ManagedObjectID {
        ManagedObjectID(
            entityNumber: schema.modelNumber(ofStoreNumber: storeNumber) ?? entity.number,
            primaryKey: min(max(key, 0), ManagedObjectID.maximumPrimaryKey), store: store.identity)
    }

    // MARK: - File

    private mutating func checkIntegrity() throws {
        let problems = try connection.texts("PRAGMA integrity_check")
        for problem in problems where problems != ["ok"] {
            // Damage to indexes alone is repaired by rebuilding them from the tables.
            let isIndex =
                problem.hasPrefix("row ") || problem.hasPrefix("wrong # of entries in index")
            add(
                .integrity,
                "The database “\(store.storePath)” is damaged: \(problem.split(separator: "\n").joined(separator: " ")).",
                isRepairable: isIndex)
        }
    }

    // MARK: - Rows

    private mutating func checkRows() throws {
        for table in schema.tables {
            let root = schema.layout.entity(number: table.rootNumber)
            let name = SQLName.quoted(table.name)
            let numbers = StorageClassCheck.list(schema.entity(root).subtreeStoreNumbers)
            // In stores created elsewhere such rows are unused.
            let isNote = schema.hasStrays
            try each(
                "SELECT Z_PK, Z_ENT FROM \(name) WHERE Z_ENT IS NULL OR Z_ENT NOT IN \(numbers)"
            ) {
                $0.add(
                    .entity,
                    "The row \($1.integer(0)) of \(table.name) has the entity number "
                        + "\($1.isNull(1) ? "NULL" : $1.text(1)), which is neither “\(root.name)” nor one of its sub-entities.",
                    table: table.name, isRepairable: !root.hasSubentities && !isNote,
                    isNote: isNote)
            }
            try each(
                "SELECT Z_PK, Z_ENT, Z_OPT FROM \(name) WHERE Z_ENT IN \(numbers) AND (typeof(Z_OPT) <> 'integer' "
                    + "OR Z_OPT NOT BETWEEN 1 AND \(UInt32.max))"
            ) {
                $0.add(
                    .version,
                    "the version is \($1.isNull(2) ? "missing" : $1.text(2)).",
                    object: $0.id($1.integer(0), storeNumber: $1.integer(1), in: root),
                    table: table.name, isRepairable: true)
            }
            try checkKeys(of: table)
            try checkGreatestKey(of: table, root)
        }
    }

    /// Objects are looked up by keys from 1; a row with another key is unreachable.
    private mutating func checkKeys(of table: SQLTable) throws {
        try each(
            "SELECT Z_PK FROM \(SQLName.quoted(table.name)) WHERE NOT \(StorageClassCheck.isKey("Z_PK"))"
        ) {
            $0.add(
                .primaryKey,
                "The row \($1.isNull(0) ? "NULL" : $1.text(0)) of \(table.name) has an invalid primary key.",
                table: table.name)
        }
    }

    private mutating func checkGreatestKey(of table: SQLTable, _ root: ResolvedEntity) throws {
        let greatest =
            try connection.integer(
                "SELECT max(Z_PK) FROM \(SQLName.quoted(table.name)) WHERE \(StorageClassCheck.isKey("Z_PK"))"
            )
            ?? 0
        let recorded = try connection.integer(
            "SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_ENT = ?",
            Int64(schema.entity(root).storeNumber))
        guard (recorded ?? 0) < greatest else { return }
        add(
            .primaryKey,
            "Z_PRIMARYKEY has \(recorded.map(String.init) ?? "no number") as the greatest key of \(table.name), whose greatest key is \(greatest).",
            table: table.name, isRepairable: true, isNote: schema.hasStrays)
    }
}

// MARK: - Reading

extension StoreCheck {
    /// Checks a store of any type as of its last save: a SQLite store as ``run(_:progress:)`` does, any other store through its
    /// reading interface.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - progress: As in ``run(_:progress:)``. For a store of another type, which is in memory, it stays indeterminate.
    /// - Complexity: O(*n*) in the size of the store; identifiers of all objects are in memory.
    /// - Throws: ``QuireError`` with code `invalidFormat`, `cancelled` or `storeUnavailable`.
    public static func run(
        on store: any PersistentStore, progress: Progress? = nil
    ) throws -> StoreCheckReport {
        if let store = store as? SQLiteStore { return try run(store, progress: progress) }
        return try StoreReadingCheck(store).run()
    }
}

/// Checks a store through its interface: the checked values are those that contexts read.
private struct StoreReadingCheck {
    private let store: any PersistentStore
    private let layout: ResolvedModel
    private var report = StoreCheckReport()
    /// Every object, by entity number.
    private var objects: [Int: Set<ManagedObjectID>] = [:]
    /// Pairs of a relationship, by the number of its declaring entity and its index there.
    private var pairs: [[Int]: Set<Pair>] = [:]

    private struct Pair: Hashable {
        var from: ManagedObjectID
        var to: ManagedObjectID
    }

    init(_ store: any PersistentStore) {
        self.store = store
        layout = store.layout
    }

    func run() throws -> StoreCheckReport {
        var check = self
        let entities = layout.entities.filter { !$0.isAbstract }
        for entity in entities { try check.list(entity) }
        for entity in entities { try check.read(entity) }
        check.compareInverses()
        return check.report
    }

    private func request(_ entity: ResolvedEntity) -> FetchSpecification {
        FetchSpecification(only: entity.name)
    }

    private mutating func list(_ entity: ResolvedEntity) throws {
        let ids = Set(try store.objectIDs(matching: request(entity)))
        let count = try store.count(matching: request(entity))
        if ids.count != count {
            add(.count, "\(entity.name) has \(count) objects by count but \(ids.count) by list.")
        }
        objects[entity.number] = ids
        report.objects += ids.count
    }

    private mutating func read(_ entity: ResolvedEntity) throws {
        for row in try store.rows(matching: request(entity)) {
            for slot in entity.slots where slot.isStored {
                do {
                    let value = try row.value(at: slot.index)
                    if slot.attribute != nil && !value.isNull { report.values += 1 }
                    try slot.attribute?.validate(value, entity: entity.name)
                    if case .objectID(let target) = value, let index = slot.relationshipIndex {
                        follow(entity.relationships[index], from: row.objectID, to: target)
                    }
                } catch let error as QuireError where error.code == .validation {
                    add(.validation, error.message, row.objectID)
                } catch {
                    add(.value, "“\(slot.name)” cannot be read: \(error)", row.objectID)
                }
            }
            for index in entity.toManyRelationships
            where !entity.relationships[index].description.isTransient {
                let relationship = entity.relationships[index]
                let related = try store.relatedObjects(of: [row.objectID], through: relationship)
                for position in related.owners.indices {
                    for bits in related.members(at: position) {
                        follow(
                            relationship, from: row.objectID,
                            to: ManagedObjectID(bits: bits, store: store.identity))
                    }
                }
            }
        }
    }

    private mutating func follow(
        _ relationship: ResolvedEntity.Relationship, from object: ManagedObjectID,
        to target: ManagedObjectID
    ) {
        report.references += 1
        let destination = layout.destination(of: relationship)
        guard destination.subtree.contains(target.entityNumber) else {
            return add(
                .reference,
                "“\(relationship.name)” refers to \(target.shortDescription), which is not of entity \(destination.name).",
                object)
        }
        guard objects[target.entityNumber]?.contains(target) == true else {
            return add(
                .reference,
                "“\(relationship.name)” refers to \(target.shortDescription), which does not exist.",
                object)
        }
        guard relationship.inverseIndex != nil else { return }
        pairs[[relationship.ownerNumber, relationship.index], default: []]
            .insert(Pair(from: object, to: target))
    }

    private mutating func compareInverses() {
        for (key, forward) in pairs.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            let relationship = layout.entity(number: key[0]).relationships[key[1]]
            guard let inverse = layout.inverse(of: relationship) else { continue }
            let backward = pairs[[inverse.ownerNumber, inverse.index]] ?? []
            let missing = forward.filter { !backward.contains(Pair(from: $0.to, to: $0.from)) }
            // As in SQLite stores created elsewhere.
            let isNote =
                !relationship.isToMany && !inverse.isToMany
                && (store as? AtomicStore)?.carriesModel == false
            for pair in missing.sorted(by: { $0.from.bits < $1.from.bits }) {
                add(
                    .inverse,
                    "“\(relationship.name)” refers to \(pair.to.shortDescription), whose “\(inverse.name)” does not "
                        + "refer back.", pair.from, isNote: isNote)
            }
        }
    }

    private mutating func add(
        _ kind: StoreProblem.Kind, _ sentence: String, _ object: ManagedObjectID? = nil,
        isNote: Bool = false
    ) {
        let problem = StoreProblem(
            kind: kind, object: object?.uriRepresentation, table: nil,
            message: object.map { "\($0.shortDescription): \(sentence)" } ?? sentence,
            isRepairable: false)
        if isNote { report.notes.append(problem) } else { report.problems.append(problem) }
    }
}
