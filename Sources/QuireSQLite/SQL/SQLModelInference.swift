internal import QuireModel
internal import QuireSystem

/// The facts about one column, gathered from the rows of its table.
struct SQLColumnFacts {
    /// The store numbers of the entities whose rows have a value.
    var entities: Set<Int> = []
    var hasIntegers = false
    var hasReals = false
    var hasTexts = false
    var hasBlobs = false
    /// The least integer.
    var least: Int64?
    /// Whether every non-numeric value has 16 bytes.
    var areSixteenBytes = true
    /// Whether every non-numeric value has the form of a possibly external one.
    var areTagged = true

    var hasValues: Bool { hasIntegers || hasReals || hasTexts || hasBlobs }
}

/// The store's interface for model inference.
protocol SQLInferenceSource {
    /// The facts about a table's columns, by column name.
    func facts(of table: SQLCatalog.Table) throws -> [String: SQLColumnFacts]
    /// Whether every value of a column is the primary key of a row of another table.
    func holdsKeys(_ column: String, of table: String, in target: String) throws -> Bool
    /// Whether an index exists, case-insensitively.
    func hasIndex(_ name: String) -> Bool
}

/// Infers a model from a store's tables alone, sufficient to read their content.
///
/// Sources of the inferred model:
///
/// - **Entities**, their names and hierarchy are in `Z_PRIMARYKEY`. None is abstract.
/// - **Properties** are named after their columns in lower case, like in Core Data's XML stores: `ZPAGECOUNT` is
///   `pagecount`. A reserved name, such as `description`, stays in upper case. A property belongs to the lowest common
///   ancestor of the entities with a value, or to the root if no row has one.
/// - **Attributes** have the column's declared type, corrected by its content. Integers stay integers: Booleans cannot be
///   told apart. Bytes are UUIDs if every value has 16 of them, and possibly external if every value has that form.
///   All attributes are optional.
/// - **To-one relationships** are columns with an entity column (`Z4_OWNER`), an order column (`Z_FOK_OWNER`) or an index
///   (`ZBOOK_ZOWNER_INDEX`), or that have an entity's name and hold only its keys. Only an ordered one gets an inverse, named
///   after both: `book_shelf`. Other to-many sides leave no trace.
/// - **Many-to-many relationships** are join tables, which name both sides.
/// - **To-many relationships without inverse** are columns with their owner's number: `Z3FAVOURITES`.
struct SQLModelInference {
    /// An inferred model and the part of the catalog that it covers.
    struct Result {
        var model: ManagedObjectModel
        var catalog: SQLCatalog
    }

    private let source: any SQLInferenceSource
    /// The entities with a table, with the names that match them.
    private let catalog: SQLCatalog
    private let parents: [Int: Int]
    private let depths: [Int: Int]
    private var descriptions: [Int: EntityDescription] = [:]
    /// The property names in use in a root's hierarchy.
    private var taken: [Int: Set<String>] = [:]

    private init(catalog: SQLCatalog, source: any SQLInferenceSource) throws {
        self.source = source
        let tree = try SQLEntityTree(catalog, source: source)
        self.catalog = SQLCatalog(entities: tree.entities, tables: Array(catalog.tables.values))
        parents = tree.parents
        depths = tree.depths
        for entity in tree.entities {
            var description = EntityDescription(name: entity.name)
            description.superentityName = tree.parents[entity.number].flatMap { parent in
                tree.entities.first { $0.number == parent }?.name
            }
            descriptions[entity.number] = description
        }
    }

    /// Infers the model.
    ///
    /// - Complexity: O(*n*) in the rows: all are examined.
    /// - Throws: ``QuireError`` with code `invalidFormat` if there are no entities with tables, or their names or hierarchy
    ///   are inconsistent.
    static func run(catalog: SQLCatalog, source: any SQLInferenceSource) throws -> Result {
        var inference = try SQLModelInference(catalog: catalog, source: source)
        return try inference.result()
    }

    private mutating func result() throws -> Result {
        for entity in catalog.entities where parents[entity.number] == nil {
            guard let table = catalog.table("Z" + entity.name.uppercased()) else { continue }
            try addProperties(of: table, root: entity.number)
        }
        for table in catalog.tables.values.sorted(by: { $0.name < $1.name }) {
            addManyToMany(table)
        }
        let model = ManagedObjectModel(
            entities: catalog.entities.compactMap { descriptions[$0.number] })
        return Result(model: model, catalog: catalog)
    }

    // MARK: - Entities

    private func root(of number: Int) -> Int {
        var number = number
        while let parent = parents[number] { number = parent }
        return number
    }

    /// The lowest common ancestor of entities within a root's hierarchy.
    private func owner(of entities: Set<Int>, root: Int) -> Int {
        var result: Int?
        for number in entities where descriptions[number] != nil && self.root(of: number) == root {
            guard var common = result else {
                result = number
                continue
            }
            var other = number
            while common != other {
                if depths[common, default: 0] >= depths[other, default: 0] {
                    common = parents[common] ?? root
                } else {
                    other = parents[other] ?? root
                }
            }
            result = common
        }
        return result ?? root
    }

    private mutating func add(_ property: PropertyDescription, to entity: Int) {
        descriptions[entity]?.properties.append(property)
    }

    /// Claims a name, unless it is in use in the hierarchy or not a valid property name.
    private mutating func take(_ name: String, root: Int) -> Bool {
        ModelNames.objection(toPropertyName: name) == nil
            && taken[root, default: []].insert(name.lowercased()).inserted
    }

    /// The property name for a column name.
    private func propertyName(_ upper: Substring) -> String {
        let name = upper.lowercased()
        return ModelNames.reservedPropertyNames.contains(name) ? upper.uppercased() : name
    }

    // MARK: - Columns

    private mutating func addProperties(of table: SQLCatalog.Table, root: Int) throws {
        let facts = try source.facts(of: table)
        let fixed = [SQLName.primaryKey, SQLName.entity, SQLName.version]
        var companions: Set<String> = []
        for column in table.columns where !fixed.contains(column.name.uppercased()) {
            let upper = column.name.uppercased()
            if upper.hasPrefix("Z_FOK_") || Self.numbered(upper)?.rest.first == "_" {
                companions.insert(upper)
            }
        }
        for column in table.columns where !fixed.contains(column.name.uppercased()) {
            let upper = column.name.uppercased()
            guard upper.hasPrefix("Z"), !companions.contains(upper) else { continue }
            let known = facts[column.name] ?? SQLColumnFacts()
            if let lone = Self.numbered(upper) {
                addLone(lone, companions: companions, known, root: root)
            } else {
                try addProperty(column, of: table, companions: companions, known, root: root)
            }
        }
    }

    /// The number after the Z of a column name, and the rest.
    private static func numbered(_ upper: String) -> (number: Int, rest: Substring)? {
        let digits = upper.dropFirst().prefix { $0.isASCII && $0.isNumber }
        guard upper.hasPrefix("Z"), let number = Int(digits) else { return nil }
        let rest = upper.dropFirst(1 + digits.count)
        return rest.isEmpty ? nil : (number, rest)
    }

    private mutating func addLone(
        _ lone: (number: Int, rest: Substring), companions: Set<String>, _ facts: SQLColumnFacts,
        root: Int
    ) {
        guard descriptions[lone.number] != nil, !facts.hasReals, !facts.hasTexts, !facts.hasBlobs
        else { return }
        let name = propertyName(lone.rest)
        guard take(name, root: self.root(of: lone.number)) else { return }
        let destination = owner(of: facts.entities, root: root)
        add(
            toMany(
                name, to: destination, inverse: nil,
                isOrdered: companions.contains("Z_FOK_\(lone.number)\(lone.rest)")),
            to: lone.number)
    }

    private mutating func addProperty(
        _ column: SQLColumn, of table: SQLCatalog.Table, companions: Set<String>,
        _ facts: SQLColumnFacts, root: Int
    ) throws {
        let bare = column.name.uppercased().dropFirst()
        let name = propertyName(bare)
        guard take(name, root: root) else { return }
        let owner = owner(of: facts.entities, root: root)
        let isOrdered = companions.contains("Z_FOK_\(bare)")
        let entityNumber = companions.lazy.compactMap { Self.numbered($0) }
            .first { $0.rest == "_\(bare)" }?.number
        if let destination = try destination(
            of: column, in: table, entityNumber: entityNumber, isOrdered: isOrdered, facts)
        {
            var relationship = RelationshipDescription(
                name: name, destination: self.name(of: destination))
            if isOrdered, let ownerName = descriptions[owner]?.name {
                let inverse = "\(ownerName.lowercased())_\(name)"
                if take(inverse, root: self.root(of: destination)) {
                    relationship.inverseName = inverse
                    add(
                        toMany(inverse, to: owner, inverse: name, isOrdered: true),
                        to: destination)
                }
            }
            add(.relationship(relationship), to: owner)
            return
        }
        var attribute = AttributeDescription(name: name, type: Self.type(of: column, facts))
        if attribute.type == .binary, facts.hasBlobs, facts.areTagged {
            attribute.allowsExternalBinaryDataStorage = true
        }
        add(.attribute(attribute), to: owner)
    }

    private func name(of number: Int) -> String { descriptions[number]?.name ?? "" }

    private static func type(of column: SQLColumn, _ facts: SQLColumnFacts) -> AttributeType {
        let hasNumbers = facts.hasIntegers || facts.hasReals
        // NaN is a text in a column of decimal numbers.
        if facts.hasTexts, !facts.hasBlobs, column.type.uppercased() == "DECIMAL" {
            return .decimal
        }
        if facts.hasTexts && !hasNumbers && !facts.hasBlobs { return .string }
        if facts.hasBlobs && !hasNumbers {
            return facts.areSixteenBytes && !facts.hasTexts ? .uuid : .binary
        }
        switch column.type.uppercased() {
        case "INTEGER": return facts.hasReals ? .double : .integer64
        case "TIMESTAMP": return .date
        case "FLOAT": return .double
        case "DECIMAL": return .decimal
        default:
            if !hasNumbers { return column.type.uppercased() == "BLOB" ? .binary : .string }
            if facts.hasTexts { return .decimal }
            return facts.hasReals ? .double : .integer64
        }
    }

    // MARK: - Relationships

    /// The destination entity of a column; `nil` if it holds an attribute.
    private func destination(
        of column: SQLColumn, in table: SQLCatalog.Table, entityNumber: Int?, isOrdered: Bool,
        _ facts: SQLColumnFacts
    ) throws -> Int? {
        guard column.type.uppercased() == "INTEGER", !facts.hasReals, !facts.hasTexts,
            !facts.hasBlobs, facts.least.map({ $0 > 0 }) ?? true
        else { return nil }
        if let entityNumber, descriptions[entityNumber] != nil { return entityNumber }
        let bare = column.name.uppercased().dropFirst()
        let stem = bare.reversed().drop { $0.isASCII && $0.isNumber }.reversed()
        let namesake = catalog.entities.first {
            $0.name.uppercased() == String(bare) || $0.name.uppercased() == String(stem)
        }
        let isIndexed = source.hasIndex("\(table.name)_\(column.name)_INDEX")
        if let namesake, isIndexed || isOrdered { return namesake.number }
        guard facts.hasValues else { return nil }
        if let namesake {
            return try leads(column, of: table, to: namesake.number) ? namesake.number : nil
        }
        guard isIndexed || isOrdered else { return nil }
        // No entity has its name: if all its values are keys of exactly one table, that is the destination.
        let suffix = catalog.entities.filter { bare.hasSuffix($0.name.uppercased()) }
            .max { $0.name.utf8.count < $1.name.utf8.count }
        if let suffix, try leads(column, of: table, to: suffix.number) { return suffix.number }
        var found: Int?
        for entity in catalog.entities where parents[entity.number] == nil {
            guard try leads(column, of: table, to: entity.number) else { continue }
            if found != nil { return nil }
            found = entity.number
        }
        return found
    }

    private func leads(
        _ column: SQLColumn, of table: SQLCatalog.Table, to entity: Int
    ) throws -> Bool {
        let target = "Z" + name(of: root(of: entity)).uppercased()
        return try source.holdsKeys(column.name, of: table.name, in: target)
    }

    private func toMany(
        _ name: String, to destination: Int, inverse: String?, isOrdered: Bool
    ) -> PropertyDescription {
        var relationship = RelationshipDescription(
            name: name, destination: self.name(of: destination), inverse: inverse)
        relationship.isToMany = true
        relationship.maximumCount = 0
        relationship.isOrdered = isOrdered
        return .relationship(relationship)
    }

    /// Adds the relationship of a join table: `Z_1TAGS (Z_1BOOKS, Z_2TAGS)`.
    private mutating func addManyToMany(_ table: SQLCatalog.Table) {
        func side(_ name: String) -> (number: Int, name: Substring)? {
            guard name.hasPrefix("Z_"), let side = Self.numbered("Z" + name.dropFirst(2)),
                descriptions[side.number] != nil, side.rest.first != "_"
            else { return nil }
            return (side.number, side.rest)
        }
        guard let naming = side(table.name.uppercased()) else { return }
        let keys = table.columns.map { $0.name.uppercased() }.filter { !$0.hasPrefix("Z_FOK_") }
        guard keys.count == 2, let first = side(keys[0]), first.number == naming.number else {
            return
        }
        func isOrdered(_ key: String) -> Bool { table.column("Z_FOK_\(key.dropFirst(2))") != nil }
        let name = propertyName(naming.name)
        if keys[1] == "REFLEXIVE" {
            guard take(name, root: root(of: naming.number)) else { return }
            let isOrdered = table.column("Z_FOK_REFLEXIVE") != nil
            add(
                toMany(name, to: naming.number, inverse: name, isOrdered: isOrdered),
                to: naming.number)
            return
        }
        guard let second = side(keys[1]) else { return }
        let inverse = propertyName(first.name)
        guard take(name, root: root(of: naming.number)) else { return }
        guard take(inverse, root: root(of: second.number)) else {
            taken[root(of: naming.number)]?.remove(name.lowercased())
            return
        }
        add(
            toMany(
                name, to: second.number, inverse: inverse, isOrdered: isOrdered(keys[1])),
            to: naming.number)
        add(
            toMany(
                inverse, to: naming.number, inverse: name, isOrdered: isOrdered(keys[0])),
            to: second.number)
    }
}

/// The entities of a catalog with tables.
private struct SQLEntityTree {
    private(set) var entities: [SQLCatalog.Entity] = []
    private(set) var parents: [Int: Int] = [:]
    private(set) var depths: [Int: Int] = [:]

    init(_ catalog: SQLCatalog, source: any SQLInferenceSource) throws {
        let all = Dictionary(
            catalog.entities.map { ($0.number, $0) }, uniquingKeysWith: { first, _ in first })
        func root(of entity: SQLCatalog.Entity) throws -> (root: SQLCatalog.Entity, depth: Int) {
            var entity = entity
            for depth in 0...ModelValidation.maximumDepth {
                guard entity.superentityNumber != 0 else { return (entity, depth) }
                // An entity with a dangling superentity is treated as a root.
                guard let parent = all[entity.superentityNumber] else { return (entity, depth) }
                entity = parent
            }
            throw QuireError(
                .invalidFormat,
                "The entity “\(entity.name)” is its own superentity; the table Z_PRIMARYKEY is damaged.",
                entity: entity.name)
        }
        var names: [Int: String] = [:]
        var seen: Set<String> = []
        for entity in catalog.entities where all[entity.number]?.name == entity.name {
            let (top, depth) = try root(of: entity)
            guard catalog.table("Z" + top.name.uppercased()) != nil,
                ModelNames.objection(toEntityName: entity.name) == nil,
                seen.insert(entity.name.lowercased()).inserted
            else { continue }
            names[entity.number] = entity.name
            depths[entity.number] = depth
            if entity.number != top.number { parents[entity.number] = entity.superentityNumber }
        }
        for entity in catalog.entities {
            guard let name = names.removeValue(forKey: entity.number) else { continue }
            entities.append(
                SQLCatalog.Entity(
                    number: entity.number, name: name,
                    superentityNumber: parents[entity.number] ?? 0))
        }
        let kept = Set(entities.map(\.number))
        if let orphan = entities.first(where: { entity in
            parents[entity.number].map { !kept.contains($0) } ?? false
        }) {
            throw QuireError(
                .invalidFormat,
                "The superentity of “\(orphan.name)” has no usable name; the table Z_PRIMARYKEY is damaged.",
                entity: orphan.name)
        }
        if entities.isEmpty {
            throw QuireError(
                .invalidFormat,
                "None of the entities in Z_PRIMARYKEY has a table, so the store contains no objects."
            )
        }
    }
}
