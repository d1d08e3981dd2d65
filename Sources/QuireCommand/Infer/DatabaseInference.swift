import Foundation
import Quire
import QuireDocuments

/// Infers a model from the tables of a SQLite database.
///
/// A table becomes an entity, a column an attribute, by its declared type and its values, and a foreign key a relationship with
/// an inverse. A table of two foreign keys and nothing else becomes a to-many relationship with a to-many inverse. Primary keys
/// stay attributes, with a uniqueness constraint.
struct DatabaseInference {
    private let database: DatabaseTables
    private var result = InferredImport()
    /// The entities of tables, in the order of the tables.
    private var entities: [Entity] = []
    /// The indexes of entities, by the names of their tables.
    private var indexes: [String: Int] = [:]

    private struct Entity {
        let table: DatabaseTables.Table
        let name: String
        let types: [ColumnType]
        var names = UniqueNames()
        /// The attributes, by column.
        var attributes: [String: AttributeDescription] = [:]
        var relationships: [RelationshipDescription] = []
        var links: [Link] = []
    }

    /// A foreign key that becomes a relationship.
    private struct Link {
        let key: DatabaseTables.ForeignKey
        let destination: Int
        /// The column of the other table.
        let column: String
        var relationship = ""
        var inverse = ""
    }

    /// - Throws: `QuireError` with code `invalidFormat`, or `unsupported` if the database is too large for a model.
    static func infer(from path: String) throws -> InferredImport {
        var inference = DatabaseInference(database: try DatabaseTables(at: path))
        try inference.build()
        return inference.result
    }

    private init(database: DatabaseTables) { self.database = database }

    private mutating func build() throws {
        let path = database.path
        guard !database.tables.isEmpty else {
            throw QuireError(.invalidFormat, "“\(path)” has no tables.", file: path)
        }
        guard database.tables.count <= InferredImport.maximumEntityCount else {
            throw tooLarge("has \(database.tables.count) tables", InferredImport.maximumEntityCount)
        }
        for name in database.otherNames {
            result.notes.append("“\(name)” is a view or a virtual table and is omitted.")
        }
        let joins = database.tables.filter(isJoin)
        var names = UniqueNames()
        for table in database.tables where !joins.contains(where: { $0.name == table.name }) {
            try addEntity(of: table, named: names.add(InferredNames.entity(table.name)))
        }
        for index in entities.indices { try findLinks(of: index) }
        let order = self.order()
        for index in entities.indices { addAttributes(of: index) }
        for index in entities.indices { try addRelationships(of: index, order) }
        for index in order { addPass(for: index, order) }
        for index in order { addLaterPass(for: index, order) }
        for table in joins { try addJoin(table) }
        result.model.entities = entities.map(description)
    }

    private func tooLarge(_ sentence: String, _ limit: Int) -> QuireError {
        QuireError(
            .unsupported, "“\(database.path)” \(sentence); at most \(limit) can be imported.",
            file: database.path)
    }

    // MARK: - Tables

    private mutating func addEntity(
        of table: DatabaseTables.Table, named name: String
    ) throws {
        if table.columns.count > InferredImport.maximumColumnCount {
            throw tooLarge(
                "has \(table.columns.count) columns in the table “\(table.name)”",
                InferredImport.maximumColumnCount)
        }
        var types = table.columns.map(ColumnType.init)
        try database.forEachRow(of: table.name, table.columns.map(\.name)) { values in
            for index in values.indices { types[index].add(values[index]) }
        }
        indexes[table.name] = entities.count
        entities.append(Entity(table: table, name: name, types: types))
    }

    private mutating func findLinks(of index: Int) throws {
        let table = entities[index].table
        if table.compositeKeyCount > 0 {
            result.notes.append(
                "The columns of \(Count.of(table.compositeKeyCount, "multi-column foreign key")) of “\(table.name)” remain attributes."
            )
        }
        for key in table.foreignKeys
        where !entities[index].links.contains(where: { $0.key.column == key.column }) {
            func leaveOut(_ reason: String) {
                result.notes.append(
                    "The foreign key “\(key.column)” of “\(table.name)” remains an attribute: \(reason)."
                )
            }
            guard let other = database.table(named: key.table),
                let destination = indexes[other.name]
            else {
                leaveOut("“\(key.table)” is not a table")
                continue
            }
            guard let column = other.target(of: key) else {
                leaveOut("it does not refer to a single column of “\(other.name)”")
                continue
            }
            guard try database.hasUniqueValues(other.name, column) else {
                leaveOut("values of “\(column)” of “\(other.name)” are not unique")
                continue
            }
            entities[index].links.append(
                Link(key: key, destination: destination, column: column))
        }
    }

    /// The order of the tables in which rows come after those that they refer to, as far as that is possible. Of others the
    /// foreign keys become attributes if their rows cannot be found again.
    private mutating func order() -> [Int] {
        var order: [Int] = []
        var rest = Array(entities.indices)
        while !rest.isEmpty {
            let ready = rest.firstIndex { index in
                entities[index].links.allSatisfy {
                    $0.destination == index || order.contains($0.destination)
                }
            }
            let index = rest.remove(at: ready ?? 0)
            if entities[index].table.rowKey == nil {
                let table = entities[index].table.name
                entities[index].links.removeAll { link in
                    let isLate = link.destination != index && !order.contains(link.destination)
                    if isLate {
                        result.notes.append(
                            "The foreign key “\(link.key.column)” of “\(table)” remains an attribute: the tables refer to each other."
                        )
                    }
                    return isLate
                }
            }
            order.append(index)
        }
        return order
    }

    // MARK: - Properties

    /// Whether a column becomes a relationship only: it is not part of a key.
    private func isReplaced(_ column: String, of index: Int) -> Bool {
        entities[index].links.contains { $0.key.column == column }
            && !entities[index].table.primaryKey.contains(column)
            && !entities.contains { entity in
                entity.links.contains { $0.destination == index && $0.column == column }
            }
    }

    private mutating func addAttributes(of index: Int) {
        let table = entities[index].table
        for (column, type) in zip(table.columns, entities[index].types)
        where !isReplaced(column.name, of: index) {
            let name = entities[index].names.add(InferredNames.property(column.name))
            if name.lowercased() != column.name.lowercased() {
                result.notes.append(
                    "The column “\(column.name)” of \(entities[index].name) becomes \(name).")
            }
            var attribute = AttributeDescription(name: name, type: type.type)
            attribute.isOptional =
                type.hasNull || !column.isRequired && table.primaryKey != [column.name]
            attribute.allowsExternalBinaryDataStorage = type.type == .binary && type.isLarge
            entities[index].attributes[column.name] = attribute
        }
    }

    private mutating func addRelationships(of index: Int, _ order: [Int]) throws {
        let source = entities[index]
        for (position, link) in source.links.enumerated() {
            let destination = entities[link.destination]
            let name = entities[index].names.add(
                InferredNames.relationship(link.key.column, to: destination.name))
            let isOneToOne = source.table.isUnique(link.key.column)
            var inverseName = InferredNames.property(
                isOneToOne ? source.name : InferredNames.plural(of: source.name))
            if source.links.count(where: { $0.destination == link.destination }) > 1 {
                inverseName += "By" + name.prefix(1).uppercased() + name.dropFirst()
            }
            inverseName = entities[link.destination].names.add(inverseName)
            var relationship = RelationshipDescription(
                name: name, destination: destination.name, inverse: inverseName)
            let dangling = try database.danglingCount(
                source.table.name, link.key.column, to: destination.table.name, link.column)
            if dangling > 0 {
                result.notes.append(
                    "\(Count.of(dangling, "row")) of “\(source.table.name)” \(dangling == 1 ? "refers" : "refer") by “\(link.key.column)” to missing rows of “\(destination.table.name)”; the relationship \(name) is empty there."
                )
            }
            let column = source.table.columns.firstIndex { $0.name == link.key.column }
            relationship.isOptional =
                dangling > 0 || isLate(link, of: index, order)
                || column.map {
                    source.types[$0].hasNull || !source.table.columns[$0].isRequired
                } ?? true
            var inverse = RelationshipDescription(
                name: inverseName, destination: source.name, inverse: name)
            inverse.isToMany = !isOneToOne
            inverse.deleteRule = link.key.deleteRule
            entities[index].relationships.append(relationship)
            entities[link.destination].relationships.append(inverse)
            entities[index].links[position].relationship = name
            entities[index].links[position].inverse = inverseName
        }
    }

    private func description(of entity: Entity) -> EntityDescription {
        var description = EntityDescription(name: entity.name)
        description.properties =
            entity.table.columns.compactMap { entity.attributes[$0.name] }.map { .attribute($0) }
            + entity.relationships.map { .relationship($0) }
        for columns in [entity.table.primaryKey] + entity.table.uniqueColumns {
            let names = columns.compactMap { entity.attributes[$0]?.name }
            if !names.isEmpty, names.count == columns.count,
                !description.uniquenessConstraints.contains(names)
            {
                description.uniquenessConstraints.append(names)
            }
        }
        return description
    }

    // MARK: - Rows

    /// The column of an import for a foreign key: the attribute by which the other object is found.
    private func path(of link: Link) -> String {
        "\(link.relationship).\(entities[link.destination].attributes[link.column]?.name ?? "")"
    }

    private mutating func addPass(for index: Int, _ order: [Int]) {
        let entity = entities[index]
        var columns: [(name: String, column: String)] = entity.table.columns.compactMap { column in
            entity.attributes[column.name].map { ($0.name, column.name) }
        }
        columns += entity.links.filter { !isLate($0, of: index, order) }
            .map { (path(of: $0), $0.key.column) }
        result.passes.append(
            InferredImport.Pass(
                entity: entity.name,
                source: .table(database, entity.table.name, columns, isJoin: false)))
    }

    /// Whether rows may refer to rows that are imported after them, apart from rows of the same table.
    private func isLate(_ link: Link, of index: Int, _ order: [Int]) -> Bool {
        let (own, other) = (order.firstIndex(of: index), order.firstIndex(of: link.destination))
        return (own ?? 0) < (other ?? 0)
    }

    /// Completes rows that refer to rows after them.
    private mutating func addLaterPass(for index: Int, _ order: [Int]) {
        let entity = entities[index]
        guard let key = entity.table.rowKey, let name = entity.attributes[key]?.name else { return }
        for link in entity.links where isLate(link, of: index, order) {
            result.passes.append(
                InferredImport.Pass(
                    entity: entity.name,
                    source: .table(
                        database, entity.table.name,
                        [(name, key), (path(of: link), link.key.column)], isJoin: true),
                    key: name))
        }
    }

    // MARK: - Join tables

    /// Whether a table has two foreign keys to columns that are declared unique, and nothing else.
    private func isJoin(_ table: DatabaseTables.Table) -> Bool {
        let columns = Set(table.foreignKeys.map(\.column))
        guard table.foreignKeys.count == 2, columns.count == 2,
            Set(table.columns.map(\.name)) == columns
        else { return false }
        let isReferredTo = database.tables.contains { other in
            other.foreignKeys.contains { $0.table.lowercased() == table.name.lowercased() }
        }
        return !isReferredTo
            && table.foreignKeys.allSatisfy { key in
                guard let other = database.table(named: key.table),
                    let column = other.target(of: key)
                else { return false }
                return other.isUnique(column)
            }
    }

    private mutating func addJoin(_ table: DatabaseTables.Table) throws {
        let ends = table.foreignKeys.compactMap {
            key -> (key: DatabaseTables.ForeignKey, index: Int, attribute: String)? in
            guard let other = database.table(named: key.table), let index = indexes[other.name],
                let column = other.target(of: key),
                let attribute = entities[index].attributes[column]
            else { return nil }
            return (key, index, attribute.name)
        }
        guard ends.count == 2 else {
            result.notes.append(
                "The table “\(table.name)” is omitted: it joins tables by columns that are themselves foreign keys."
            )
            return
        }
        let isReflexive = ends[0].index == ends[1].index
        func add(_ end: Int, to owner: Int) -> String {
            let entity = entities[ends[end].index].name
            let name =
                isReflexive
                ? InferredNames.relationship(ends[end].key.column, to: entity) : entity
            return entities[ends[owner].index].names.add(
                InferredNames.property(InferredNames.plural(of: name)))
        }
        let names = [add(1, to: 0), add(0, to: 1)]
        for (end, other) in [(0, 1), (1, 0)] {
            var relationship = RelationshipDescription(
                name: names[end], destination: entities[ends[other].index].name,
                inverse: names[other])
            relationship.isToMany = true
            entities[ends[end].index].relationships.append(relationship)
        }
        result.passes.append(
            InferredImport.Pass(
                entity: entities[ends[0].index].name,
                source: .table(
                    database, table.name,
                    [
                        (ends[0].attribute, ends[0].key.column),
                        ("\(names[0]).\(ends[1].attribute)", ends[1].key.column),
                    ], isJoin: true),
                key: ends[0].attribute))
    }
}

// MARK: - Types of columns

/// Infers the type of a column from its declaration and all its values.
private struct ColumnType {
    private let declaration: String
    private(set) var hasNull = false
    /// Whether a value is large enough for a file of its own.
    private(set) var isLarge = false
    private var hasIntegers = false
    private var hasNumbers = false
    private var hasTexts = false
    private var hasData = false
    private var areTruths = true
    private var areDates = true
    private var areShort = true

    init(_ column: DatabaseTables.Column) { declaration = column.type }

    private func declares(_ words: String...) -> Bool {
        words.contains { declaration.contains($0) }
    }

    var type: AttributeType {
        switch (hasIntegers, hasNumbers, hasTexts, hasData) {
        case (_, _, _, true): return .binary
        case (false, false, true, _):
            return areDates && declares("DATE", "TIME") ? .date : .string
        case (_, _, true, _): return .string
        case (_, true, _, _):
            return areShort && declares("DEC", "NUMERIC") ? .decimal : .double
        case (true, _, _, _):
            return areTruths && declares("BOOL")
                ? .boolean : declares("DEC", "NUMERIC") && areShort ? .decimal : .integer64
        default: return declared
        }
    }

    /// The type of a column without values.
    private var declared: AttributeType {
        if declares("BOOL") { return .boolean }
        if declares("INT") { return .integer64 }
        if declares("DATE", "TIME") { return .date }
        if declares("REAL", "FLOA", "DOUB") { return .double }
        if declares("DEC", "NUMERIC") { return .decimal }
        return declares("BLOB") ? .binary : .string
    }

    mutating func add(_ value: AttributeValue) {
        switch value {
        case .integer(let integer):
            hasIntegers = true
            if integer != 0 && integer != 1 { areTruths = false }
            if integer.magnitude > 999_999_999_999_999 { areShort = false }
        case .double(let number):
            hasNumbers = true
            // Stores keep 15 digits of a decimal number.
            if areShort {
                areShort = number.description.utf8.count { $0 >= 0x30 && $0 <= 0x39 } <= 15
            }
        case .string(let text):
            hasTexts = true
            if areDates { areDates = (try? AttributeValue(parsing: text, as: .date)) != nil }
        case .binary(let data):
            hasData = true
            if data.count > 100_000 { isLarge = true }
        default: hasNull = true
        }
    }
}
