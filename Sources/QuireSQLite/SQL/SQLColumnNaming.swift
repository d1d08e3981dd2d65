package import QuireModel

/// Assigns Core Data's names to the columns of one root entity's table.
///
/// Traverses the hierarchy by entity number, and each entity's own properties by name; a duplicate name gets the digits
/// 1, 2, 3 … appended. Columns are declared in groups by type.
package struct SQLColumnNaming {
    /// The purpose of a column.
    enum Purpose: Hashable {
        /// A slot of an entity, by index; sub-entities have it at the same index.
        case slot(owner: Int, slot: Int)
        /// The destination's `Z_ENT` of the to-one relationship in a slot.
        case slotEntity(owner: Int, slot: Int)
        /// The object's position in the ordered inverse of the to-one relationship in a slot.
        case slotOrder(owner: Int, slot: Int)
        /// The owner of a to-many relationship without inverse to this entity.
        case lone(SQLRelationshipKey)
        /// The owner's `Z_ENT` of such a relationship.
        case loneEntity(SQLRelationshipKey)
        /// The position in such a relationship.
        case loneOrder(SQLRelationshipKey)
    }

    /// A column before grouping.
    struct Column {
        let purpose: Purpose
        /// The name without appended digits.
        let base: String
        let name: String
        let type: String
        let group: Group
    }

    /// Groups of columns in declaration order.
    enum Group: Int {
        case integers, orders, floatsAndDates, decimals, strings, uris, uuids, transformables,
            binaries
    }

    let layout: ResolvedModel
    /// Store numbers by model number minus one, 0 for entities not in the store; they are part of some column names.
    let storeNumbers: [Int]
    private var taken: Set<String> = [SQLName.primaryKey, SQLName.entity, SQLName.version]
    private(set) var columns: [Column] = []

    init(root: ResolvedEntity, layout: ResolvedModel, storeNumbers: [Int]) {
        self.layout = layout
        self.storeNumbers = storeNumbers
        for number in root.subtree { addColumns(of: layout.entity(number: number)) }
        columns = columns.enumerated()
            .sorted {
                ($0.element.group.rawValue, $0.offset) < ($1.element.group.rawValue, $1.offset)
            }
            .map(\.element)
    }

    private mutating func addColumns(of entity: ResolvedEntity) {
        let own = entity.slots.filter { $0.ownerNumber == entity.number && $0.isStored }
        // A composite's elements are sorted by the composite's name.
        let attributes = own.filter { $0.attribute != nil }.enumerated()
            .map { (slot: $0.element, name: Self.topName(of: $0.element.name), offset: $0.offset) }
            .sorted { ($0.name, $0.offset) < ($1.name, $1.offset) }.map(\.slot)
        for slot in attributes {
            guard let attribute = slot.attribute else { continue }
            add(
                .slot(owner: entity.number, slot: slot.index),
                base: "Z" + attribute.name.uppercased(),
                type: Self.declaredType(of: attribute.type),
                group: Self.group(of: attribute.type))
        }

        var orders: [(purpose: Purpose, base: String)] = []
        for slot in own.filter({ $0.attribute == nil }).sorted(by: { $0.name < $1.name }) {
            guard let index = slot.relationshipIndex else { continue }
            let relationship = entity.relationships[index]
            let destination = layout.destination(of: relationship)
            let name = add(
                .slot(owner: entity.number, slot: slot.index),
                base: "Z" + relationship.name.uppercased(), type: "INTEGER", group: .integers)
            if destination.hasSubentities {
                add(
                    .slotEntity(owner: entity.number, slot: slot.index),
                    base: "Z\(storeNumbers[destination.number - 1])_\(name.dropFirst())",
                    type: "INTEGER", group: .integers)
            }
            if let inverse = layout.inverse(of: relationship), inverse.isOrdered {
                orders.append(
                    (
                        .slotOrder(owner: entity.number, slot: slot.index),
                        "Z_FOK_\(name.dropFirst())"
                    ))
            }
        }
        for order in orders {
            add(order.purpose, base: order.base, type: "INTEGER", group: .orders)
        }
        addLoneColumns(leadingTo: entity)
    }

    /// Adds columns for to-many relationships without inverse to an entity.
    private mutating func addLoneColumns(leadingTo entity: ResolvedEntity) {
        for source in layout.entities where storeNumbers[source.number - 1] > 0 {
            let lone = source.relationships.filter {
                $0.ownerNumber == source.number && $0.isToMany && $0.inverseIndex == nil
                    && !$0.description.isTransient && $0.destinationNumber == entity.number
            }
            for relationship in lone.sorted(by: { $0.name < $1.name }) {
                let key = SQLRelationshipKey(entityNumber: source.number, index: relationship.index)
                let number = storeNumbers[source.number - 1]
                let name = add(
                    .lone(key), base: "Z\(number)\(relationship.name.uppercased())",
                    type: "INTEGER", group: .integers)
                if source.hasSubentities {
                    add(
                        .loneEntity(key), base: "Z\(number)_\(name.dropFirst())", type: "INTEGER",
                        group: .integers)
                }
                if relationship.isOrdered {
                    add(
                        .loneOrder(key), base: "Z_FOK_\(name.dropFirst())", type: "INTEGER",
                        group: .orders)
                }
            }
        }
    }

    @discardableResult
    private mutating func add(_ purpose: Purpose, base: String, type: String, group: Group)
        -> String
    {
        var name = base
        var suffix = 0
        while !taken.insert(name).inserted {
            suffix += 1
            name = base + String(suffix)
        }
        columns.append(
            Column(purpose: purpose, base: base, name: name, type: type, group: group))
        return name
    }

    private static func topName(of name: String) -> String {
        name.firstIndex(of: ".").map { String(name[..<$0]) } ?? name
    }

    /// The declared type of an attribute's column.
    package static func declaredType(of type: AttributeType) -> String {
        switch type {
        case .integer16, .integer32, .integer64, .boolean: "INTEGER"
        case .decimal: "DECIMAL"
        case .double, .float: "FLOAT"
        case .date: "TIMESTAMP"
        case .string, .uri: "VARCHAR"
        case .binary, .uuid, .transformable, .undefined, .objectID, .composite: "BLOB"
        }
    }

    private static func group(of type: AttributeType) -> Group {
        switch type {
        case .integer16, .integer32, .integer64, .boolean: .integers
        case .double, .float, .date: .floatsAndDates
        case .decimal: .decimals
        case .string: .strings
        case .uri: .uris
        case .uuid: .uuids
        case .transformable: .transformables
        case .binary, .undefined, .objectID, .composite: .binaries
        }
    }
}
