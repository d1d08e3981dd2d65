import Foundation
public import QuireModel
public import QuireModelFiles
public import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// The degree to which a model fits a store without comparable version hashes.
struct StoreFit: Comparable {
    /// Columns that the model lacks, or whose type differs from the model's.
    let strangeColumns: Int
    /// Relationships without storage in the store.
    let missing: Int
    /// Whether the store names the model's version identifiers.
    let hasIdentifiers: Bool

    /// Whether the model may be the store's.
    var isExact: Bool { strangeColumns == 0 && missing == 0 }

    static func < (left: StoreFit, right: StoreFit) -> Bool {
        (left.strangeColumns, left.missing, left.hasIdentifiers ? 0 : 1)
            < (right.strangeColumns, right.missing, right.hasIdentifiers ? 0 : 1)
    }

    /// Compares a model with a store; `nil` if the store lacks something of it, or it something of the store.
    init?(_ model: ManagedObjectModel, catalog: SQLCatalog, metadata: StoreMetadata) {
        guard let layout = try? model.layout(),
            let schema = try? SQLSchema(layout, catalog: catalog, hasStrays: true)
        else { return nil }
        var strange = 0
        for table in schema.tables {
            let root = layout.entity(number: table.rootNumber)
            var types: [String: String] = [:]
            for number in root.subtree {
                let entity = layout.entity(number: number)
                for (slot, column) in zip(entity.slots, schema.entity(number: number).columns) {
                    guard let column else { continue }
                    types[column.name] =
                        slot.attribute.map {
                            SQLColumnNaming.declaredType(of: $0.type)
                        } ?? "INTEGER"
                    for name in [column.entityColumn, column.orderColumn].compactMap({ $0 }) {
                        types[name] = "INTEGER"
                    }
                }
            }
            for entity in layout.entities {
                for case .foreignKey(let key)? in schema.entity(entity).toMany
                where !key.isInverse && key.tableName == table.name {
                    for name in [key.column, key.entityColumn, key.orderColumn].compactMap({ $0 }) {
                        types[name] = "INTEGER"
                    }
                }
            }
            for column in table.columns where !["Z_PK", "Z_ENT", "Z_OPT"].contains(column.name) {
                // Old stores declare some types differently; texts and blobs are distinct in all of them.
                let type = types[column.name]
                if type == nil || Self.family(type ?? "") != Self.family(column.type) {
                    strange += 1
                }
            }
        }
        strangeColumns = strange
        missing = schema.missing.count
        let identifiers = metadata.modelVersionIdentifiers.filter { !$0.isEmpty }
        hasIdentifiers =
            !identifiers.isEmpty && Set(identifiers) == Set(model.versionIdentifiers)
    }

    private static func family(_ type: String) -> String {
        switch type.uppercased() {
        case "VARCHAR": "text"
        case "BLOB": "bytes"
        case "TIMESTAMP": "date"
        case "INTEGER": "integer"
        default: "number"
        }
    }
}

/// A store that is not open, looked at.
struct StoreExamination {
    let metadata: StoreMetadata
    let catalog: SQLCatalog
    /// Whether the store was created or migrated by Quire.
    let isOurs: Bool
    /// The model that the store carries, in our form or in Core Data's.
    let carriedModel: ManagedObjectModel?
    /// The store's records.
    let records: [String: String]

    init(_ path: String) throws {
        let path = FileSystem.absolute(path)
        try FileSystem.requireStoreFile(at: path)
        let source = try SQLiteDatabaseFile(path: path, isReadOnly: true)
        defer { source.release() }
        do {
            let connection = try source.connect(.reading, options: SQLiteStoreOptions())
            defer { connection.close() }
            let reader = SQLiteCatalogReader(connection: connection)
            let tables = try reader.storeTables(path: path)
            metadata = try SQLiteMetadataReader(connection: connection, path: path).metadata()
            catalog = try reader.catalog()
            isOurs = tables.contains(SQLiteTables.model)
            carriedModel = try connection.carriedModel(path: path)
            records = try connection.records()
        } catch let failure as SQLiteFailure {
            throw failure.openingError(path: path)
        }
    }

    /// Whether the store opens with a model as it is.
    func isCompatible(with model: ManagedObjectModel) -> Bool {
        if let known = model.knownVersionHashes, known == metadata.entityVersionHashes {
            return true
        }
        if isOurs { return metadata.entityVersionHashes == model.entityVersionHashes() }
        // The model is known to differ.
        if model.knownVersionHashes != nil { return false }
        return StoreFit(model, catalog: catalog, metadata: metadata)?.isExact ?? false
    }

    /// The names of the models that may be the store's; if none fits exactly, the best ones.
    ///
    /// - Parameter exactly: Whether to require an exact fit.
    func versions(
        among models: [String: ManagedObjectModel], exactly: Bool = false
    ) -> [String] {
        let same = models.filter {
            $0.value.knownVersionHashes == metadata.entityVersionHashes
                || isOurs && $0.value.entityVersionHashes() == metadata.entityVersionHashes
        }
        if isOurs || !same.isEmpty { return same.keys.sorted() }
        let fits = models.compactMap { name, model in
            StoreFit(model, catalog: catalog, metadata: metadata).map { (name, $0) }
        }
        let best = fits.map(\.1).min()
        if exactly, best?.isExact != true { return [] }
        return fits.filter { $0.1 == best }.map(\.0).sorted()
    }
}

extension SQLiteStore {
    /// Whether a store that is not open is compatible with a model, rather than requiring migration.
    ///
    /// A store created or migrated by Quire has hashes that are compared with the model's. Those of Core Data's stores cannot
    /// be computed: they are compared if the model has known hashes, otherwise the tables must match the model.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `storeUnavailable`.
    public static func isStore(
        at path: String, compatibleWith model: ManagedObjectModel
    ) throws -> Bool {
        let examination = try StoreExamination(path)
        return try examination.isCompatible(with: examination.configuration().reduce(model))
    }
}

extension ModelVersions {
    /// The name of the version of a store; `nil` if none matches.
    ///
    /// Stores created or migrated by Quire are identified by their hashes, Core Data's by their tables. Of versions with the
    /// same tables, the current one is preferred, else the last by name; migrating from any of these is equivalent.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `storeUnavailable`, or as ``models()``.
    public func version(ofStoreAt path: String) throws -> String? {
        let examination = try StoreExamination(path)
        let names = try examination.versions(
            among: models().mapValues(examination.configuration().reduce))
        return names.contains(currentName) ? currentName : names.last
    }
}

// MARK: - Paths

/// A custom mapping between two models.
public struct CustomMapping: Sendable {
    /// The model that it maps from.
    public var source: ManagedObjectModel
    /// The model that it maps to.
    public var destination: ManagedObjectModel
    /// The mapping.
    public var mapping: MappingModel

    /// Describes a mapping.
    public init(
        from source: ManagedObjectModel, to destination: ManagedObjectModel, mapping: MappingModel
    ) {
        self.source = source
        self.destination = destination
        self.mapping = mapping
    }
}

/// The sequence of models in a migration.
public struct MigrationPath: Sendable {
    /// A migration from one model to the next.
    public struct Step: Sendable {
        /// The name of the new model.
        public let name: String
        /// The old model.
        public let source: ManagedObjectModel
        /// The new model.
        public let destination: ManagedObjectModel
        /// The mapping of the step.
        public let mapping: MappingModel
        /// Whether the mapping is custom.
        public let isCustom: Bool
    }

    /// The steps, in their order; none if nothing is to be done.
    public let steps: [Step]

    /// Finds the shortest path: direct if a mapping is given or can be inferred, else through as few versions as possible.
    ///
    /// - Parameters:
    ///   - source: The model of the store.
    ///   - name: The name of the target version.
    ///   - versions: The available models, by name.
    ///   - mappings: Custom mappings. They take precedence over inferred ones.
    ///   - infers: Whether mappings are inferred.
    /// - Throws: ``QuireError`` with code `incompatibleModel`, with the reason against a direct migration if no
    ///   path exists, or `notFound` if the version does not exist.
    public init(
        from source: ManagedObjectModel, to name: String,
        among versions: [String: ManagedObjectModel],
        mappings: [CustomMapping] = [], infers: Bool = true
    ) throws {
        guard let destination = versions[name] else {
            throw QuireError(
                .notFound,
                "The version “\(name)” does not exist; the versions are: \(versions.keys.sorted().joined(separator: ", "))."
            )
        }
        var failure: QuireError?
        func step(
            _ old: ManagedObjectModel, _ new: ManagedObjectModel, _ name: String
        ) -> Step? {
            let custom = mappings.first {
                $0.source.isSameVersion(as: old) && $0.destination.isSameVersion(as: new)
            }
            if let custom {
                return Step(
                    name: name, source: old, destination: new, mapping: custom.mapping,
                    isCustom: true)
            }
            guard infers else { return nil }
            do {
                return Step(
                    name: name, source: old, destination: new,
                    mapping: try .inferred(from: old, to: new), isCustom: false)
            } catch {
                // The first is that of the straight way.
                if failure == nil { failure = error as? QuireError }
                return nil
            }
        }
        if let straight = step(source, destination, name) {
            steps = [straight]
            return
        }
        var open: [[Step]] = [[]]
        var seen: Set<String> = []
        while !open.isEmpty {
            let path = open.removeFirst()
            let model = path.last?.destination ?? source
            if !path.isEmpty, let last = step(model, destination, name) {
                steps = path + [last]
                return
            }
            for (next, version) in versions.sorted(by: { $0.key < $1.key })
            where next != name && !seen.contains(next) && !version.isSameVersion(as: model) {
                guard let step = step(model, version, next) else { continue }
                seen.insert(next)
                open.append(path + [step])
            }
        }
        throw failure
            ?? QuireError(
                .incompatibleModel,
                "No mapping to “\(name)” was found; specify one, or allow inferred mappings.")
    }
}

extension ManagedObjectModel {
    /// Whether stores of one model are compatible with the other.
    func isSameVersion(as other: ManagedObjectModel) -> Bool {
        self == other || entityVersionHashes() == other.entityVersionHashes()
    }
}
