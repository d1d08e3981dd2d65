import Foundation
internal import QuireModel
internal import QuireModelFiles
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

extension StoreCheck {
    /// Checks the store's metadata.
    mutating func checkMetadata() throws {
        let rows = try connection.integer("SELECT count(*) FROM Z_METADATA") ?? 0
        if rows != 1 { add(.metadata, "Z_METADATA has \(rows) rows instead of one.") }
        let metadata = try SQLiteMetadataReader(connection: connection, path: store.storePath)
            .metadata()
        if UUID(uuidString: metadata.storeUUID) == nil {
            add(.metadata, "The store's UUID “\(metadata.storeUUID)” is not a UUID.")
        }
        if metadata.values.isEmpty {
            add(.metadata, "The property list in Z_METADATA is empty.", isNote: true)
        }
        let hashes = metadata.entityVersionHashes
        for (name, hash) in hashes.sorted(by: { $0.key < $1.key }) where hash.count != 32 {
            add(
                .metadata,
                "The version hash of “\(name)” has \(hash.count) bytes instead of 32.",
                isRepairable: store.carriesModel)
        }
        for sum in StoreHashes.wrongSums(in: metadata) {
            add(
                .metadata, "\(sum) in Z_METADATA does not match the entities' version hashes.",
                isRepairable: true)
        }
        if store.carriesModel, !store.hasInferredModel {
            let missing = schema.keptEntities.map(\.name).filter { hashes[$0] == nil }
            for name in missing {
                add(
                    .metadata, "Z_METADATA has no version hash for the entity “\(name)”.",
                    isRepairable: true)
            }
        }
    }

    /// The models that the store carries.
    mutating func checkModel() throws {
        try checkModelCache()
        if try connection.hasTable(SQLiteTables.model) {
            let texts = try connection.rows("SELECT Z_CONTENT FROM \(SQLiteTables.model)") {
                $0.data(0)
            }
            let model =
                texts.count == 1
                ? try? ManagedObjectModel(modelXML: texts[0], name: SQLiteTables.model) : nil
            if model == nil || (try? model?.layout()) == nil {
                add(
                    .model, "The model in the store cannot be read.",
                    isRepairable: !store.hasInferredModel)
            }
        }
    }

    private mutating func checkModelCache() throws {
        guard try connection.hasTable(SQLiteTables.modelCache) else { return }
        // A row without a model is as good as none.
        try each("SELECT Z_CONTENT FROM \(SQLiteTables.modelCache) WHERE Z_CONTENT IS NOT NULL") {
            let data = $1.data(0)
            do {
                _ = try ManagedObjectModel(modelCache: data, name: SQLiteTables.modelCache)
            } catch let error as QuireError {
                // An intact archive of an unknown format is not damage.
                let isForeign =
                    !$0.store.carriesModel
                    && ManagedObjectModel.isArchive(modelCache: data, name: SQLiteTables.modelCache)
                $0.add(
                    .model,
                    "The model that Core Data saved in the store cannot be read: \(error.message)",
                    isRepairable: !$0.store.hasInferredModel,
                    isNote: isForeign || error.code == .unsupported)
            }
        }
    }

    /// Checks that what other machines have sent is there.
    mutating func checkSynchronization() throws {
        if let missing = try connection.missingSynchronizedValues() { add(.externalData, missing) }
    }

    /// Checks derived attributes against their sources. Times of saves have no source that is still stored.
    mutating func checkDerived() throws {
        for entity in schema.keptEntities {
            for derivation in schema.layout.derivations[entity]
            where entity.slots[derivation.slot].ownerNumber == entity.number {
                guard let expression = DerivedExpression(derivation, entity, schema) else {
                    continue
                }
                let slot = entity.slots[derivation.slot]
                try each(
                    "SELECT t.Z_PK, t.Z_ENT FROM \(expression.table) t WHERE t.Z_ENT IN \(expression.numbers) "
                        + "AND \(expression.isWrong)"
                ) { check, row in
                    check.add(
                        .derived, "“\(slot.name)” does not have its derived value.",
                        object: check.id(row.integer(0), storeNumber: row.integer(1), in: entity),
                        isRepairable: true, isNote: check.schema.hasStrays)
                }
            }
        }
    }
}

/// The SQL expression of a derived attribute.
struct DerivedExpression {
    let table: String
    let column: String
    let numbers: String
    /// The condition that the stored value differs, for rows of alias `t`.
    let isWrong: String

    /// - Returns: `nil` if SQL cannot express it.
    init?(
        _ derivation: ResolvedEntity.Derivation, _ entity: ResolvedEntity, _ schema: SQLSchema
    ) {
        let place = schema.entity(entity)
        guard let name = place.columns[derivation.slot]?.name else { return nil }
        table = SQLName.quoted(place.tableName)
        column = "t.\(SQLName.quoted(name))"
        numbers = StorageClassCheck.list(place.subtreeStoreNumbers)
        func related(_ index: Int, _ what: (String) -> String) -> String? {
            let destination = schema.layout.destination(of: entity.relationships[index])
            let target = SQLName.quoted(schema.entity(destination).tableName)
            let targets = StorageClassCheck.list(schema.entity(destination).subtreeStoreNumbers)
            switch place.toMany[index] {
            case .foreignKey(let key)?:
                return
                    "(SELECT \(what("d")) FROM \(target) d WHERE d.\(SQLName.quoted(key.column)) = t.Z_PK "
                    + "AND d.Z_ENT IN \(targets))"
            case .join(let join)?:
                return
                    "(SELECT \(what("d")) FROM \(SQLName.quoted(join.tableName)) j JOIN \(target) d "
                    + "ON d.Z_PK = j.\(SQLName.quoted(join.targetColumn)) "
                    + "WHERE j.\(SQLName.quoted(join.sourceColumn)) = t.Z_PK AND d.Z_ENT IN \(targets))"
            case .nowhere?, nil: return nil
            }
        }
        switch derivation.form {
        case .count(let index):
            guard let count = related(index, { _ in "count(*)" }) else { return nil }
            isWrong = "coalesce(\(column), 0) <> \(count)"
        case .sum(let index, let slot):
            let destination = schema.layout.destination(of: entity.relationships[index])
            guard let source = schema.entity(destination).columns[slot]?.name,
                let sum = related(index, { "total(\($0).\(SQLName.quoted(source)))" })
            else { return nil }
            // Floating-point sums depend on the order of addition.
            isWrong =
                "abs(coalesce(\(column), 0) - \(sum)) > 1e-6 * max(1, abs(\(sum)))"
        case .copy(nil, let slot):
            guard let source = place.columns[slot]?.name else { return nil }
            isWrong = "\(column) IS NOT t.\(SQLName.quoted(source))"
        case .copy(let index?, let slot):
            let destination = schema.layout.destination(of: entity.relationships[index])
            guard let source = schema.entity(destination).columns[slot]?.name,
                let reference = entity.relationships[index].slot,
                let key = place.columns[reference]?.name
            else { return nil }
            isWrong =
                "\(column) IS NOT (SELECT d.\(SQLName.quoted(source)) FROM "
                + "\(SQLName.quoted(schema.entity(destination).tableName)) d WHERE d.Z_PK = t.\(SQLName.quoted(key)))"
        case .text, .now: return nil
        }
    }
}

/// The checksums over version hashes in metadata.
enum StoreHashes {
    static let digestKey = StoreMetadata.Key.digest
    static let checksumKey = StoreMetadata.Key.checksum

    /// The names of present but incorrect checksums.
    static func wrongSums(in metadata: StoreMetadata) -> [String] {
        let hashes = metadata.entityVersionHashes
        var wrong: [String] = []
        if let digest = metadata[digestKey],
            digest.string != ManagedObjectModel.versionHashesDigest(of: hashes)
        {
            wrong.append(digestKey)
        }
        if let checksum = metadata[checksumKey],
            checksum.string != ManagedObjectModel.versionChecksum(of: hashes)
        {
            wrong.append(checksumKey)
        }
        return wrong
    }

    /// The metadata of a new store, with applications' values of an old one.
    static func merged(_ old: StoreMetadata, into new: StoreMetadata) throws -> Data {
        let values = new.values.merging(old.values) { new, _ in new }
        return try StoreMetadata(storeUUID: new.storeUUID, values: values).propertyList
    }

    /// The metadata with correct checksums and, if given, hashes.
    static func corrected(_ metadata: StoreMetadata, hashes: [String: Data]?) throws -> Data {
        var metadata = metadata
        let hashes = hashes ?? metadata.entityVersionHashes
        metadata.values[StoreMetadata.Key.hashes] = .dictionary(hashes.mapValues { .data($0) })
        if metadata[digestKey] != nil {
            metadata.values[digestKey] = .string(ManagedObjectModel.versionHashesDigest(of: hashes))
        }
        if metadata[checksumKey] != nil {
            metadata.values[checksumKey] = .string(ManagedObjectModel.versionChecksum(of: hashes))
        }
        return try metadata.propertyList
    }
}

// MARK: - The schema

extension StoreCheck {
    /// Compares tables, columns and indexes with the model. Permitted differences of Core Data's own stores are notes; a
    /// store created by Quire has exactly the tables of its model.
    mutating func checkSchema() throws {
        try checkTriggers()
        switch store.inferenceReason {
        case nil: break
        case .noModel:
            return add(
                .schema,
                "The store does not contain a model, so its tables were not compared with one.",
                isNote: true)
        case .unusableModel(let error):
            // Parts that cannot be read are reported by the check of the model itself.
            let cause = error.underlying == nil ? "used: \(error.message)" : "read."
            return add(
                .schema,
                "The store's tables were not compared with its model, which cannot be \(cause)",
                isNote: true)
        case .misfit(let error):
            for failure in error.causes {
                add(.schema, "The tables do not match the store's model: \(failure.message)")
            }
            return
        }
        checkRelationshipTables()
        for missing in schema.missingColumns {
            add(
                .schema, "The table \(missing.table) has no column \(missing.column.name).",
                table: missing.table, isNote: !store.carriesModel)
        }
        for table in schema.tables {
            try checkKeyColumns([SQLName.primaryKey], of: table.name, isNote: false)
            checkColumnTypes(of: table)
        }
        for join in schema.joinTables {
            try checkKeyColumns(
                [join.firstColumn, join.secondColumn], of: join.name, isNote: !store.carriesModel)
        }
        try checkParts()
    }

    /// Reports triggers that prevent writing to the store. Without the model, derived attributes are unknown.
    private mutating func checkTriggers() throws {
        let check = SQLiteTriggerCheck(connection: connection, schema: schema)
        for problem in try check.problems() {
            add(
                .schema,
                "The store cannot be written: \(problem.message); \(problem.advice).",
                table: problem.table, isNote: store.hasInferredModel)
        }
    }

    /// Whether the store has storage for every to-many relationship. With a model given by the caller, the store may be older
    /// than the relationship.
    private mutating func checkRelationshipTables() {
        let isOwnModel = store.carriesModel || store.usesOwnModel
        for key in schema.missing {
            let entity = schema.layout.entity(number: key.entityNumber)
            let relationship = entity.relationships[key.index]
            let isKept =
                schema.entity(schema.layout.destination(of: relationship)).storeNumber > 0
                && schema.entity(entity).storeNumber > 0
            let name = "“\(entity.name).\(relationship.name)”"
            if isOwnModel && isKept {
                add(.schema, "The store has no table or column for \(name), which is in its model.")
            } else {
                add(
                    .schema,
                    "The store contains no data for \(name): it was created with another model.",
                    isNote: true)
            }
        }
    }

    /// Whether a table's primary key is declared; without it keys can be duplicate, and new rows get none.
    private mutating func checkKeyColumns(
        _ columns: [String], of table: String, isNote: Bool
    ) throws {
        let found = try connection.rows(
            "SELECT upper(name) FROM pragma_table_info(?) WHERE pk > 0", table
        ) { $0.text(0) }
        if Set(found) == Set(columns.map { $0.uppercased() }) { return }
        add(
            .schema,
            "The table \(table) does not declare \(columns.joined(separator: " and ")) as its primary key.",
            table: table, isNote: isNote)
    }

    /// Whether columns preserve values: depending on the declared type, SQLite's affinity converts texts to numbers, or
    /// numbers to texts, on insertion.
    private mutating func checkColumnTypes(of table: SQLTable) {
        var storages: [String: ResolvedEntity.Slot.Storage] = [:]
        for number in schema.layout.entity(number: table.rootNumber).subtree {
            let entity = schema.layout.entity(number: number)
            for (slot, column) in zip(entity.slots, schema.entity(entity).columns) {
                guard let column else { continue }
                storages[column.name] = slot.storage
                for name in [column.entityColumn, column.orderColumn].compactMap({ $0 }) {
                    storages[name] = .integer
                }
            }
        }
        for place in RelationshipColumns(schema: schema).loneColumns
        where place.key.tableName == table.name {
            for name in [place.key.column, place.key.entityColumn, place.key.orderColumn] {
                if let name { storages[name] = .integer }
            }
        }
        for name in [SQLName.entity, SQLName.version] { storages[name] = .integer }
        for column in table.columns {
            guard let storage = storages[column.name],
                !SQLAffinity(declaredType: column.type).keeps(storage)
            else { continue }
            add(
                .schema,
                "The column \(column.name) of \(table.name) is declared as \(column.type), which cannot store "
                    + "every \(storage) value.",
                table: table.name, isNote: !store.carriesModel)
        }
    }

    /// Checks indexes and triggers.
    private mutating func checkParts() throws {
        let synchronization = SQLiteSchemaSynchronization(
            connection: connection, schema: schema, carriesModel: store.carriesModel)
        let plan = try synchronization.plan()
        for part in plan.made {
            add(
                .schema,
                "The \(part.kind.rawValue) \(part.name), which the model requires, is missing; opening the store for writing creates it.",
                isRepairable: true, isNote: true)
        }
        for part in plan.dropped where !plan.made.contains(where: { $0.name == part.name }) {
            add(
                .schema,
                "The model does not require the \(part.kind.rawValue) \(part.name); opening the store for writing drops it.",
                isRepairable: true, isNote: true)
        }
        for part in try synchronization.missingFixedIndexes() {
            add(
                .schema,
                "The \(part.kind.rawValue) \(part.name) is missing, so reading may be slow.",
                isRepairable: true, isNote: true)
        }
    }
}

extension QuireError {
    /// The errors combined in this one, or only itself.
    fileprivate var causes: [QuireError] {
        if !failures.isEmpty { return failures }
        if let cause = underlying as? QuireError { return cause.causes }
        return [self]
    }
}

/// SQLite's type affinity, by the declared type of a column.
private enum SQLAffinity {
    case integer, text, blob, real, numeric

    /// By SQLite's rules, in their order.
    init(declaredType: String) {
        let type = declaredType.uppercased()
        func has(_ words: String...) -> Bool { words.contains { type.contains($0) } }
        if has("INT") {
            self = .integer
        } else if has("CHAR", "CLOB", "TEXT") {
            self = .text
        } else if has("BLOB") || type.isEmpty {
            self = .blob
        } else if has("REAL", "FLOA", "DOUB") {
            self = .real
        } else {
            self = .numeric
        }
    }

    /// Whether every value of a slot round-trips unchanged.
    func keeps(_ storage: ResolvedEntity.Slot.Storage) -> Bool {
        switch storage {
        case .integer, .boolean, .reference: self != .text && self != .real
        case .double, .date, .decimal: self != .text
        case .string, .uri: self == .text || self == .blob
        case .binary, .uuid, .transient: true
        }
    }
}
