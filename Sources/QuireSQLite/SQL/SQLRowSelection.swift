internal import QuireModel

/// Which columns a fetch of an entity's objects selects, and which slot each one fills.
///
/// A table holds the objects of a whole hierarchy, so a row's entity decides what its columns mean: there is a
/// plan for each entity that the rows may be of.
package struct SQLRowSelection: Sendable {
    /// How a column becomes a slot's value.
    enum Kind: Sendable {
        case integer, double, boolean, decimal, string, uri, date, binary, externalCapable, uuid
        /// The primary key of an object of an entity without sub-entities, whose bits are given.
        case reference(entityBits: UInt64)
        /// The primary key of an object whose entity is in another column.
        case polymorphicReference(entityColumn: Int32, destination: Int)
        /// The primary key of an object whose entity has to be looked up.
        case lookedUpReference(destination: Int)
    }

    /// A column and the slot that it fills.
    struct Cell: Sendable {
        let slot: Int
        let column: Int32
        let kind: Kind
    }

    /// The cells of the rows of one entity.
    final class Plan: Sendable {
        let entity: ResolvedEntity
        let cells: ContiguousArray<Cell>

        init(entity: ResolvedEntity, cells: ContiguousArray<Cell>) {
            self.entity = entity
            self.cells = cells
        }
    }

    /// The entity whose objects, and sub-entities' objects, are selected.
    let entity: ResolvedEntity
    /// What stands between `SELECT` and `FROM`: primary key, entity and version, then the columns. The table's alias
    /// is `t0`.
    package let list: String
    /// The plans by store number; `nil` where a number is no entity that the rows may be of.
    let plans: ContiguousArray<Plan?>

    /// The alias of the table whose rows are selected.
    static let alias = "t0"

    /// Selects everything that the objects of an entity and its sub-entities store.
    init(_ entity: ResolvedEntity, schema: SQLSchema) {
        self.entity = entity
        var columns = Columns()
        for name in [SQLName.primaryKey, SQLName.entity, SQLName.version] {
            _ = columns.position(of: name)
        }
        let greatest = entity.subtree.map { schema.entity(number: $0).storeNumber }.max() ?? 0
        var plans = ContiguousArray<Plan?>(repeating: nil, count: greatest + 1)
        for number in entity.subtree {
            let concrete = schema.layout.entity(number: number)
            let place = schema.entity(number: number)
            var cells: ContiguousArray<Cell> = []
            for slot in concrete.slots {
                guard let column = place.columns[slot.index] else { continue }
                let position = columns.position(of: column.name)
                let kind: Kind
                switch slot.storage {
                case .integer: kind = .integer
                case .double: kind = .double
                case .boolean: kind = .boolean
                case .decimal: kind = .decimal
                case .string: kind = .string
                case .uri: kind = .uri
                case .date: kind = .date
                case .uuid: kind = .uuid
                case .binary: kind = slot.isExternalCapable ? .externalCapable : .binary
                case .reference:
                    guard let index = slot.relationshipIndex else { continue }
                    let destination = schema.layout.destination(of: concrete.relationships[index])
                    if !destination.hasSubentities {
                        kind = .reference(entityBits: UInt64(destination.number) << 48)
                    } else if let entityColumn = column.entityColumn {
                        kind = .polymorphicReference(
                            entityColumn: columns.position(of: entityColumn),
                            destination: destination.number)
                    } else {
                        kind = .lookedUpReference(destination: destination.number)
                    }
                case .transient: continue
                }
                cells.append(Cell(slot: slot.index, column: position, kind: kind))
            }
            plans[place.storeNumber] = Plan(entity: concrete, cells: cells)
        }
        self.plans = plans
        list = columns.names.map { "\(Self.alias).\(SQLName.quoted($0))" }.joined(separator: ", ")
    }

    /// Columns in the order in which they were first asked for.
    private struct Columns {
        var names: [String] = []
        private var positions: [String: Int32] = [:]

        mutating func position(of name: String) -> Int32 {
            if let position = positions[name] { return position }
            let position = Int32(names.count)
            names.append(name)
            positions[name] = position
            return position
        }
    }
}

// MARK: - Statements that write rows

/// A statement that writes one row, and which value each of its parameters takes.
struct SQLRowStatement: Sendable {
    /// A slot whose value is bound. Without references, as there is one for each value written.
    struct Binding: Sendable {
        /// The slot's position in its entity.
        let slot: Int
        /// The form of its value.
        let storage: ResolvedEntity.Slot.Storage
        /// Whether the value may be kept in a file.
        let isExternalCapable: Bool
        /// The parameter of the value.
        let index: Int32
        /// The parameter of the target's entity; 0 if the store does not keep it.
        let entityIndex: Int32
    }

    /// A derived text to bind: a function of the value of another slot of the row.
    struct DerivedText: Sendable {
        let function: AttributeDerivation.TextFunction
        /// The slot that it is derived from.
        let source: Int
        /// The parameter.
        let index: Int32
    }

    let sql: String
    /// What is bound after the parameters that every statement of its kind has.
    let bindings: ContiguousArray<Binding>
    /// The derived texts to bind; other derived values are the work of triggers, or of ``SQLiteDerivedRows``.
    var derivedTexts: [DerivedText] = []

    /// The parameter of the primary key in every statement.
    static let primaryKeyIndex: Int32 = 1
    /// The parameter of the version that the row is to get, in updates.
    static let newVersionIndex: Int32 = 2
    /// The parameter of the version that the row must have, in updates; in deletions it is the second.
    static let oldVersionIndex: Int32 = 3

    /// Inserts an object with its slots, as version 1.
    static func insert(
        _ entity: ResolvedEntity, schema: SQLSchema
    ) -> SQLRowStatement {
        let place = schema.entity(entity)
        var columns = [SQLName.primaryKey, SQLName.entity, SQLName.version]
        var values = ["?1", String(place.storeNumber), "1"]
        var bindings: ContiguousArray<Binding> = []
        var count: Int32 = 1
        for slot in entity.slots where !slot.isDerived {
            guard let column = place.columns[slot.index] else { continue }
            count += 1
            columns.append(column.name)
            values.append("?\(count)")
            let index = count
            if let entityColumn = column.entityColumn {
                count += 1
                columns.append(entityColumn)
                values.append("?\(count)")
            }
            bindings.append(
                Binding(
                    slot: slot.index, storage: slot.storage,
                    isExternalCapable: slot.isExternalCapable, index: index,
                    entityIndex: count > index ? count : 0))
        }
        let derived = derivedTexts(of: entity, schema: schema)
        for (column, text) in derived {
            columns.append(column)
            values.append("?\(count + text.index)")
        }
        let names = columns.map(SQLName.quoted).joined(separator: ", ")
        return SQLRowStatement(
            sql: "INSERT INTO \(SQLName.quoted(place.tableName)) (\(names)) VALUES "
                + "(\(values.joined(separator: ", ")))",
            bindings: bindings, derivedTexts: derived.map { $0.text.moved(by: count) })
    }

    /// Changes some slots of an object that has the version expected.
    static func update(
        _ entity: ResolvedEntity, schema: SQLSchema, slots: SlotMask
    ) -> SQLRowStatement {
        let place = schema.entity(entity)
        var assignments = ["\(SQLName.version) = ?2"]
        var bindings: ContiguousArray<Binding> = []
        var count: Int32 = 3
        for slot in entity.slots where slots.contains(slot.index) && !slot.isDerived {
            guard let column = place.columns[slot.index] else { continue }
            count += 1
            let index = count
            let name = SQLName.quoted(column.name)
            assignments.append("\(name) = ?\(index)")
            if let entityColumn = column.entityColumn {
                count += 1
                assignments.append("\(SQLName.quoted(entityColumn)) = ?\(count)")
            }
            if let order = column.orderColumn.map(SQLName.quoted) {
                // An object that goes elsewhere has no place there yet.
                assignments.append("\(order) = CASE WHEN \(name) IS ?\(index) THEN \(order) END")
            }
            bindings.append(
                Binding(
                    slot: slot.index, storage: slot.storage,
                    isExternalCapable: slot.isExternalCapable, index: index,
                    entityIndex: count > index ? count : 0))
        }
        let derived = derivedTexts(of: entity, schema: schema)
            .filter { slots.contains($0.text.source) }
        for (column, text) in derived {
            assignments.append("\(SQLName.quoted(column)) = ?\(count + text.index)")
        }
        return SQLRowStatement(
            sql:
                "UPDATE \(SQLName.quoted(place.tableName)) SET \(assignments.joined(separator: ", "))"
                + " WHERE Z_PK = ?1 AND ifnull(Z_OPT, 0) = ?3",
            bindings: bindings, derivedTexts: derived.map { $0.text.moved(by: count) })
    }

    /// The derived texts that a row's own values give, with parameters numbered from 1.
    private static func derivedTexts(
        of entity: ResolvedEntity, schema: SQLSchema
    ) -> [(column: String, text: DerivedText)] {
        var result: [(column: String, text: DerivedText)] = []
        for derivation in schema.layout.derivations[entity] {
            guard case .text(let function, nil, let source) = derivation.form,
                let column = schema.entity(entity).columns[derivation.slot]
            else { continue }
            let index = Int32(result.count + 1)
            result.append(
                (column.name, DerivedText(function: function, source: source, index: index)))
        }
        return result
    }

    /// Deletes an object, if it has the version expected or, without one, whatever it is.
    static func delete(
        _ entity: ResolvedEntity, schema: SQLSchema, checkingVersion: Bool
    ) -> SQLRowStatement {
        let table = SQLName.quoted(schema.entity(entity).tableName)
        return SQLRowStatement(
            sql: "DELETE FROM \(table) WHERE Z_PK = ?1"
                + (checkingVersion ? " AND ifnull(Z_OPT, 0) = ?2" : ""), bindings: [])
    }
}

extension SQLRowStatement.DerivedText {
    /// The same with another parameter.
    fileprivate func moved(by count: Int32) -> Self {
        Self(function: function, source: source, index: index + count)
    }
}
