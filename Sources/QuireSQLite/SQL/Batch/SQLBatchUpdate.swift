import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// The SQL of a batch update.
///
/// All values are computed before any row changes, so a value may come from a row that is updated too.
struct SQLBatchUpdate {
    /// The entity whose objects are updated.
    let entity: ResolvedEntity
    /// The assigned slots.
    private(set) var slots: [ResolvedEntity.Slot] = []
    /// The slots assigned constants, with their values.
    private(set) var constants: [(slot: ResolvedEntity.Slot, value: AttributeValue)] = []
    /// The slots assigned computed values, which must be validated.
    private(set) var computed: [ResolvedEntity.Slot] = []
    /// Selects the primary key, entity number and computed values of each matching object; `nil` if no value is computed.
    private(set) var check: SQLFragment?
    /// Selects the primary keys of the matching objects.
    private(set) var keys: SQLFragment
    /// Updates the matching objects, returning primary key and entity number of each.
    private(set) var update: SQLFragment

    /// Compiles a request.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery`, `invalidValue`, `validation` or
    ///   `unsupported`.
    init(_ request: BatchUpdateRequest, schema: SQLSchema, store: StoreIdentity) throws {
        let (entity, values) = try request.assignments(in: schema.layout, store: store)
        self.entity = entity
        let query = try ResolvedQuery(request.objects, in: schema.layout, store: store)
        let scope = SelectBuilder(
            entity: entity, in: CompilationContext(query: query, schema: schema, store: store))
        let condition = try scope.entityTest.and(scope.condition(query.predicate))

        let place = schema.entity(entity)
        var assignments: [SQLFragment] = ["Z_OPT = ifnull(Z_OPT, 0) + 1"]
        var columns: [SQLFragment] = [
            "\(scope.start.key) AS k", "\(scope.entityNumber(of: scope.start)) AS e",
        ]
        for (slot, value) in values {
            guard let column = place.columns[slot.index] else {
                throw QuireError(
                    .incompatibleModel,
                    "The store has no column for “\(entity.name).\(slot.name)”.",
                    entity: entity.name, property: slot.name)
            }
            slots.append(slot)
            if case .constant(let value) = value {
                let constant = try Self.inline(value, in: slot, of: entity)
                constants.append((slot, constant))
                assignments.append("\(name: column.name) = \(bind: constant)")
            } else if slot.isExternalCapable {
                throw entity.unsettable(
                    slot.name, "may be kept in files, to anything but a constant")
            } else {
                let name = SQLFragment(sql: "c\(computed.count)")
                columns.append("\(try scope.batchValue(value)) AS \(name)")
                assignments.append("\(name: column.name) = v.\(name)")
                computed.append(slot)
            }
        }
        var rest: SQLFragment = " FROM \(scope.tables)"
        if !condition.isAlways { rest.append(" WHERE \(condition.fragment)") }
        let table: SQLFragment = "\(name: place.tableName)"
        let found: SQLFragment = "SELECT \(columns.joined(by: ", "))\(rest)"
        keys = "SELECT \(scope.start.key)\(rest)"
        check = computed.isEmpty ? nil : found
        update =
            "UPDATE \(table) SET \(assignments.joined(by: ", ")) FROM (\(found)) AS v WHERE \(table).Z_PK = v.k"
        try update.checkBindingCount(of: entity)
    }

    /// A constant, tagged if its column tells inline values from references to files.
    private static func inline(
        _ value: AttributeValue, in slot: ResolvedEntity.Slot, of entity: ResolvedEntity
    ) throws -> AttributeValue {
        guard slot.isExternalCapable, let size = value.binarySize else { return value }
        guard size <= ExternalDataTag.maximumInlineSize else {
            throw entity.unsettable(
                slot.name, "would keep \(size) bytes in a file that objects cannot share")
        }
        return .binary(Data([ExternalDataTag.inline]) + (try value.contents() ?? Data()))
    }
}
