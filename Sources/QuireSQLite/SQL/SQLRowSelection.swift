internal import QuireModel

/// The columns that a fetch selects for an entity, and the slots they fill.
///
/// A table holds the objects of a whole hierarchy, so a row's entity decides the meaning of its columns: there is a
/// plan for each possible entity.
package struct SQLRowSelection: Sendable {
    /// The conversion of a column to a slot's value.
    enum Kind: Sendable {
        case integer, double, boolean, decimal, string, uri, date, binary, externalCapable, uuid
        /// The primary key of an object whose entity has no sub-entities, with the entity bits.
        case reference(entityBits: UInt64)
        /// The primary key of an object whose entity is in another column.
        case polymorphicReference(entityColumn: Int32, destination: Int)
        /// The primary key of an object whose entity must be looked up.
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

    /// The entity selected, including sub-entities.
    let entity: ResolvedEntity
    /// The SELECT list: primary key, entity and version, then the columns. The table alias is `t0`.
    package let list: String
    /// The plans by store number; `nil` for a number that the rows cannot have.
    let plans: ContiguousArray<Plan?>

    /// The alias of the selected table.
    static let alias = "t0"

    /// Selects all stored slots of an entity and its sub-entities.
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

    /// Columns in order of first use.
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

/// A statement that writes one row, and the mapping of its parameters to slots.
struct SQLRowStatement: Sendable {
    /// A bound slot. Holds no references, as there is one for each value written.
    struct Binding: Sendable {
        /// The slot's position in its entity.
        let slot: Int
        /// The storage form of the value.
        let storage: ResolvedEntity.Slot.Storage
        /// Whether the value may be external.
        let isExternalCapable: Bool
        /// The parameter of the value.
        let index: Int32
        /// The parameter of the destination's entity; 0 if it is not stored.
        let entityIndex: Int32
    }

    /// A bound derived text: a function of another slot of the row.
    struct DerivedText: Sendable {
        let function: AttributeDerivation.TextFunction
        /// The source slot.
        let source: Int
        /// The parameter.
        let index: Int32
    }

    let sql: String
    /// The bindings after the fixed parameters of the statement's kind.
    let bindings: ContiguousArray<Binding>
    /// The derived texts to bind; other derived values are set by triggers or by ``SQLiteDerivedRows``.
    var derivedTexts: [DerivedText] = []

    /// The parameter of the primary key, in every statement.
    static let primaryKeyIndex: Int32 = 1
    /// The parameter of the row's new version, in updates.
    static let newVersionIndex: Int32 = 2
    /// The parameter of the base version, in updates; in deletions it is the second.
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

    /// Updates slots of an object that has the base version.
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
                // An object with a new owner has no order key yet.
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

    /// The derived texts computed from the row's own values, with parameters numbered from 1.
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

    /// Deletes an object, if it has the base version or, without one, unconditionally.
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
    /// The same binding with its parameter moved.
    fileprivate func moved(by count: Int32) -> Self {
        Self(function: function, source: source, index: index + count)
    }
}
