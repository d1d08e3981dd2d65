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
        let entity: EntityLayout
        let cells: ContiguousArray<Cell>

        init(entity: EntityLayout, cells: ContiguousArray<Cell>) {
            self.entity = entity
            self.cells = cells
        }
    }

    /// The entity whose objects, and sub-entities' objects, are selected.
    let entity: EntityLayout
    /// What stands between `SELECT` and `FROM`: primary key, entity and version, then the columns. The table's alias
    /// is `t0`.
    package let list: String
    /// The plans by store number; `nil` where a number is no entity that the rows may be of.
    let plans: ContiguousArray<Plan?>

    /// The alias of the table whose rows are selected.
    static let alias = "t0"

    /// Selects everything that the objects of an entity and its sub-entities store.
    init(_ entity: EntityLayout, schema: SQLSchema) {
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
