import Foundation
internal import QuireModel
internal import QuireModelFiles
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

extension StoreCheck {
    /// What the store says of itself.
    mutating func checkMetadata() throws {
        let rows = try connection.integer("SELECT count(*) FROM Z_METADATA") ?? 0
        if rows != 1 { add(.metadata, "Z_METADATA has \(rows) rows instead of one.") }
        let metadata = try SQLiteMetadataReader(connection: connection, path: store.storePath)
            .metadata()
        if UUID(uuidString: metadata.storeUUID) == nil {
            add(.metadata, "The store's UUID “\(metadata.storeUUID)” is none.")
        }
        if metadata.values.isEmpty {
            add(.metadata, "Z_METADATA says nothing: its property list is empty.", isNote: true)
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
                .metadata, "\(sum) in Z_METADATA is not that of the entities' version hashes.",
                isRepairable: true)
        }
        if store.carriesModel, !store.hasInferredModel {
            let missing = schema.keptEntities.map(\.name).filter { hashes[$0] == nil }
            for name in missing {
                add(
                    .metadata, "There is no version hash of the entity “\(name)” in Z_METADATA.",
                    isRepairable: true)
            }
        }
    }

    /// The models that the store carries.
    mutating func checkModel() throws {
        try checkModelCache()
        if try connection.hasTable(SQLiteTables.model) {
            let texts = try connection.withStatement(
                "SELECT Z_CONTENT FROM \(SQLiteTables.model)"
            ) { statement in
                var texts: [Data] = []
                while try statement.step() { texts.append(statement.data(0)) }
                return texts
            }
            let model =
                texts.count == 1
                ? try? ManagedObjectModel(modelXML: texts[0], name: SQLiteTables.model) : nil
            if model == nil || (try? model?.layout()) == nil {
                add(
                    .model, "The model that the store carries cannot be read.",
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
                // An archive that is whole, but says what is not understood here, is no damage.
                let isForeign =
                    !$0.store.carriesModel
                    && ManagedObjectModel.isArchive(modelCache: data, name: SQLiteTables.modelCache)
                $0.add(
                    .model,
                    "The model that Core Data has put into the store cannot be read: \(error.message)",
                    isRepairable: !$0.store.hasInferredModel,
                    isNote: isForeign || error.code == .unsupported)
            }
        }
    }

    /// Whether derived attributes are what they are derived from. Times of saves are not derived from anything that is
    /// still there.
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
                        .derived, "“\(slot.name)” is not what it is derived from.",
                        object: check.id(row.integer(0), storeNumber: row.integer(1), in: entity),
                        isRepairable: true, isNote: check.schema.hasStrays)
                }
            }
        }
    }
}

/// What a derived attribute should be, in SQL.
struct DerivedExpression {
    let table: String
    let column: String
    let numbers: String
    /// The condition that it is something else, for rows called `t`.
    let isWrong: String

    /// - Returns: `nil` if SQL cannot say it.
    init?(
        _ derivation: EntityLayout.Derivation, _ entity: EntityLayout, _ schema: SQLSchema
    ) {
        let place = schema.entity(entity)
        guard let name = place.columns[derivation.slot]?.name else { return nil }
        table = SQLName.quoted(place.tableName)
        column = "t.\(SQLName.quoted(name))"
        numbers = StoredForm.list(place.subtreeStoreNumbers)
        func related(_ index: Int, _ what: (String) -> String) -> String? {
            let destination = schema.layout.destination(of: entity.relationships[index])
            let target = SQLName.quoted(schema.entity(destination).tableName)
            let targets = StoredForm.list(schema.entity(destination).subtreeStoreNumbers)
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
            // Sums of other than whole numbers depend on the order they are added in.
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

/// The sums over version hashes that metadata hold.
enum StoreHashes {
    static let digestKey = StoreMetadata.Key.digest
    static let checksumKey = StoreMetadata.Key.checksum

    /// The names of those that are there and wrong.
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

    /// The metadata of a new store with what applications have put into an old one's.
    static func merged(_ old: StoreMetadata, into new: StoreMetadata) throws -> Data {
        let values = new.values.merging(old.values) { new, _ in new }
        return try StoreMetadata(storeUUID: new.storeUUID, values: values).propertyList
    }

    /// The metadata with sums that are right, and, if they are given, hashes.
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
