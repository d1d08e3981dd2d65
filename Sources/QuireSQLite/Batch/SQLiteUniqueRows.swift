internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Finds the stored object that has the values of a row which must be unique.
struct SQLiteUniqueRows {
    /// A stored object.
    struct Holder: Equatable {
        let objectID: ManagedObjectID
        let version: UInt32
    }

    private struct Constraint {
        let properties: [String]
        let slots: [Int]
        let sql: String
    }

    private let store: SQLiteStore
    private let connection: SQLiteConnection
    private let entity: EntityLayout
    private let constraints: [Constraint]

    /// Whether nothing must be unique.
    var isEmpty: Bool { constraints.isEmpty }

    init(_ entity: EntityLayout, store: SQLiteStore, connection: SQLiteConnection) {
        self.entity = entity
        self.store = store
        self.connection = connection
        let place = store.schema.entity(entity)
        constraints = entity.uniquenessConstraints.compactMap { constraint in
            let slots = entity.slots(ofConstraint: constraint.properties)
            let columns = slots.compactMap { place.columns[$0]?.name }
            guard !slots.isEmpty, columns.count == slots.count else { return nil }
            let condition = columns.map { "\(SQLName.quoted($0)) = ?" }.joined(separator: " AND ")
            return Constraint(
                properties: constraint.properties, slots: slots,
                sql: "SELECT Z_PK, Z_ENT, ifnull(Z_OPT, 0) FROM \(SQLName.quoted(place.tableName)) "
                    + "WHERE \(condition)")
        }
    }

    /// The object that has the row's unique values; `nil` if they are free.
    ///
    /// - Throws: ``QuireError`` with code `constraintConflict` if several objects have some of them each.
    func holder(of row: BatchRow) throws -> Holder? {
        var found: Holder?
        for constraint in constraints {
            let values = constraint.slots.map { row.values[$0] }
            guard !values.contains(.null), let holder = try holder(constraint, values) else {
                continue
            }
            if let found, found != holder {
                throw QuireError(
                    .constraintConflict,
                    "\(found.objectID.shortDescription) and \(holder.objectID.shortDescription) each have values "
                        + "of the row that must be unique, so neither can take it over; change the row.",
                    subject: .init(
                        entity: entity.name, property: constraint.properties.first,
                        object: holder.objectID.uriRepresentation, file: store.storePath,
                        relatedObjects: [found.objectID.uriRepresentation]))
            }
            found = holder
        }
        return found
    }

    private func holder(_ constraint: Constraint, _ values: [AttributeValue]) throws -> Holder? {
        try connection.withStatement(constraint.sql) { statement in
            try statement.bind(values)
            guard try statement.step(),
                let number = store.schema.modelNumber(ofStoreNumber: statement.integer(1))
            else { return nil }
            return Holder(
                objectID: ManagedObjectID(
                    entityNumber: number, primaryKey: statement.integer(0), store: store.identity),
                version: UInt32(truncatingIfNeeded: statement.integer(2)))
        }
    }
}
