internal import QuireModel

/// Names and statements of derived attributes' triggers, in Core Data's form.
///
/// A trigger is named `Z_DA_TABLE_Entity_attribute_…`, where TABLE is the one whose changes fire it. It writes the
/// derived column, and reports the affected objects to the connection through an SQL function that Core Data's
/// connections have, and ours.
///
/// - A count is incremented and decremented with its owner's foreign keys, or with the rows of a join table.
/// - A sum of integers is, too; other sums are recomputed from all related objects, because adding and subtracting
///   floating-point numbers does not restore the original value.
/// - A copy is made when the row is inserted, its reference changes, or the referenced row is inserted, updated or deleted.
/// - `now()` is set whenever `Z_OPT` is: when an object itself is saved, not when a value is derived.
///
/// Canonical, upper-case and lower-case texts have no triggers: SQLite's functions know ASCII only. A save computes them; see
/// ``SQLRowStatement`` and ``SQLiteDerivedRows``.
package struct SQLDerivedTriggers {
    package let schema: SQLSchema

    package init(schema: SQLSchema) {
        self.schema = schema
    }

    /// The triggers of all derived attributes.
    package var parts: [SQLSchemaPart] { partsByAttribute.flatMap(\.parts) }

    /// The triggers of each derived attribute, with the common part of their names: `_Entity_attribute_`.
    var partsByAttribute: [(name: String, parts: [SQLSchemaPart])] {
        schema.keptEntities.flatMap { entity in
            schema.layout.derivations[entity]
                .filter { entity.slots[$0.slot].ownerNumber == entity.number }
                .map {
                    ("_\(entity.name)_\(entity.slots[$0.slot].name)_", parts(of: $0, in: entity))
                }
        }
    }

    private func parts(
        of derivation: ResolvedEntity.Derivation, in entity: ResolvedEntity
    ) -> [SQLSchemaPart] {
        guard let writer = Writer(derivation, entity, schema) else { return [] }
        let destination = derivation.relationshipIndex.map {
            schema.layout.destination(of: entity.relationships[$0])
        }
        switch derivation.form {
        case .text: return []
        case .now: return writer.now()
        case .copy(nil, let slot):
            guard let column = schema.entity(entity).columns[slot]?.name else { return [] }
            return writer.copy(of: column)
        case .copy(let index?, let slot):
            guard let destination, let reference = entity.relationships[index].slot,
                let key = schema.entity(entity).columns[reference]?.name,
                let column = schema.entity(destination).columns[slot]?.name
            else { return [] }
            return writer.copy(
                of: column, in: schema.entity(destination).tableName, through: key)
        case .count(let index):
            switch schema.entity(entity).toMany[index] {
            case .foreignKey(let key)?: return writer.count(key)
            case .join(let join)?: return writer.count(join)
            case .nowhere?, nil: return []
            }
        case .sum(let index, let slot):
            guard let destination, let column = schema.entity(destination).columns[slot]?.name
            else { return [] }
            let isExact = destination.storages[slot] == .integer
            switch schema.entity(entity).toMany[index] {
            case .foreignKey(let key)?: return writer.sum(of: column, key, isExact: isExact)
            case .join(let join)?:
                return writer.sum(
                    of: column, in: schema.entity(destination).tableName, join)
            case .nowhere?, nil: return []
            }
        }
    }
}

/// Writes the triggers of one attribute.
private struct Writer {
    private let table: String
    private let tableName: String
    private let column: String
    private let entityName: String
    private let attribute: String
    /// The store numbers of the rows with the attribute, if the table is shared with other entities.
    private let rows: [Int]?

    init?(_ derivation: ResolvedEntity.Derivation, _ entity: ResolvedEntity, _ schema: SQLSchema) {
        let place = schema.entity(entity)
        guard let column = place.columns[derivation.slot]?.name else { return nil }
        tableName = place.tableName
        table = SQLName.quoted(place.tableName)
        self.column = SQLName.quoted(column)
        entityName = entity.name
        attribute = entity.slots[derivation.slot].name
        rows = entity.number == entity.rootNumber ? nil : place.subtreeStoreNumbers
    }

    // MARK: - Forms

    func now() -> [SQLSchemaPart] {
        let set = "UPDATE \(table) SET \(column) = \(SQLDerivedFunction.now)()"
        return [
            part(
                nil, "INSERT", on: tableName, when: ofEntity,
                set + " WHERE Z_PK = NEW.Z_PK;" + told("Z_PK = NEW.Z_PK", insertion: true)),
            part(
                nil, "UPDATE", of: ["Z_OPT"], on: tableName, when: ofEntity,
                set + " WHERE Z_PK = NEW.Z_PK;" + told("Z_PK = NEW.Z_PK")),
        ]
    }

    func copy(of source: String) -> [SQLSchemaPart] {
        let source = SQLName.quoted(source)
        let set = "UPDATE \(table) SET \(column) = NEW.\(source) WHERE Z_PK = NEW.Z_PK;"
        let filling = "UPDATE \(table) SET \(column) = \(source)" + whereOfEntity
        return [
            part(
                "SOURCE", "INSERT", on: tableName, when: ofEntity,
                set + told("Z_PK = NEW.Z_PK", insertion: true), filling: filling),
            part(
                "SOURCE", "UPDATE", of: [source], on: tableName, when: ofEntity,
                set + told("Z_PK = NEW.Z_PK"), filling: filling),
        ]
    }

    func copy(of source: String, in other: String, through key: String) -> [SQLSchemaPart] {
        let (source, key) = (SQLName.quoted(source), SQLName.quoted(key))
        let target = SQLName.quoted(other)
        let set =
            "UPDATE \(table) SET \(column) = (SELECT \(source) FROM \(target) WHERE Z_PK = NEW.\(key)) "
            + "WHERE Z_PK = NEW.Z_PK;"
        let filling =
            "UPDATE \(table) SET \(column) = (SELECT t.\(source) FROM \(target) t WHERE t.Z_PK = "
            + "\(table).\(key))" + whereOfEntity
        func spread(_ value: String, _ row: String) -> String {
            "UPDATE \(table) SET \(column) = \(value) WHERE \(key) = \(row).Z_PK;"
        }
        return [
            part(
                "SOURCE", "INSERT", on: tableName, when: ofEntity,
                set + told("Z_PK = NEW.Z_PK", insertion: true), filling: filling),
            part(
                "SOURCE", "UPDATE", of: [key], on: tableName, when: ofEntity,
                set + told("Z_PK = NEW.Z_PK"), filling: filling),
            part(
                "PARAMETER", "INSERT", on: other,
                spread("NEW.\(source)", "NEW") + told("\(key) = NEW.Z_PK", insertion: true),
                filling: filling),
            part(
                "PARAMETER", "UPDATE", of: [source], on: other,
                spread("NEW.\(source)", "NEW") + told("\(key) = NEW.Z_PK"), filling: filling),
            part(
                "PARAMETER", "DELETE", on: other,
                spread("NULL", "OLD") + told("\(key) = OLD.Z_PK"), filling: filling),
        ]
    }

    func count(_ key: SQLForeignKey) -> [SQLSchemaPart] {
        count(key.column, in: key.tableName)
    }

    func count(_ join: SQLJoin) -> [SQLSchemaPart] {
        count(join.sourceColumn, in: join.tableName)
    }

    private func count(_ key: String, in other: String) -> [SQLSchemaPart] {
        let (key, members) = (SQLName.quoted(key), SQLName.quoted(other))
        return steps(
            key, in: other, of: [key], added: "1", removed: "1",
            total: "IFNULL(COUNT(\(key)), 0) FROM \(members) WHERE \(key) = NEW.Z_PK",
            filling: "IFNULL(COUNT(m.\(key)), 0) FROM \(members) m WHERE m.\(key) = \(table).Z_PK")
    }

    func sum(of source: String, _ place: SQLForeignKey, isExact: Bool) -> [SQLSchemaPart] {
        let source = SQLName.quoted(source)
        let (key, members) = (SQLName.quoted(place.column), SQLName.quoted(place.tableName))
        if isExact {
            return steps(
                key, in: place.tableName, of: [key, source], added: "IFNULL(NEW.\(source), 0)",
                removed: "IFNULL(OLD.\(source), 0)",
                total: "IFNULL(SUM(\(source)), 0) FROM \(members) WHERE \(key) = NEW.Z_PK",
                filling:
                    "IFNULL(SUM(m.\(source)), 0) FROM \(members) m WHERE m.\(key) = \(table).Z_PK")
        }
        return totals(
            "SELECT IFNULL(SUM(m.\(source)), 0) FROM \(members) m WHERE m.\(key) = \(table).Z_PK",
            [
                (place.tableName, [key, source], { "Z_PK = \($0).\(key)" })
            ])
    }

    func sum(of source: String, in other: String, _ join: SQLJoin) -> [SQLSchemaPart] {
        let (source, target) = (SQLName.quoted(source), SQLName.quoted(other))
        let pairs = SQLName.quoted(join.tableName)
        let (owner, member) = (
            SQLName.quoted(join.sourceColumn), SQLName.quoted(join.targetColumn)
        )
        return totals(
            "SELECT IFNULL(SUM(m.\(source)), 0) FROM \(pairs) j JOIN \(target) m ON m.Z_PK = "
                + "j.\(member) WHERE j.\(owner) = \(table).Z_PK",
            [
                (join.tableName, [owner, member], { "Z_PK = \($0).\(owner)" }),
                (
                    other, [source],
                    { "Z_PK IN (SELECT \(owner) FROM \(pairs) WHERE \(member) = \($0).Z_PK)" }
                ),
            ])
    }

    // MARK: - Counting up and down

    /// Statements that increment or decrement an aggregate of a row's new and old owner.
    private func steps(
        _ key: String, in other: String, of columns: [String], added: String, removed: String,
        total: String, filling: String
    ) -> [SQLSchemaPart] {
        let filling = "UPDATE \(table) SET \(column) = (SELECT \(filling))" + whereOfEntity
        func step(_ value: String, _ row: String) -> String {
            "UPDATE \(table) SET \(column) = \(value) WHERE Z_PK = \(row).\(key);"
                + told("Z_PK = \(row).\(key)")
        }
        return [
            part(
                "SOURCE", "INSERT", on: tableName, when: ofEntity,
                "UPDATE \(table) SET \(column) = (SELECT \(total)) WHERE Z_PK = NEW.Z_PK;"
                    + told("Z_PK = NEW.Z_PK", insertion: true), filling: filling),
            part(
                "PARAMETER", "INSERT", on: other, when: "NEW.\(key) NOT NULL",
                step("IFNULL(\(column), 0) + \(added)", "NEW"), filling: filling),
            part(
                "PARAMETER", "UPDATE", of: columns, on: other, suffix: "_INCREMENT",
                when: "NEW.\(key) NOT NULL", step("\(column) + \(added)", "NEW"), filling: filling),
            part(
                "PARAMETER", "UPDATE", of: columns, on: other, suffix: "_DECREMENT",
                when: "OLD.\(key) NOT NULL", step("\(column) - \(removed)", "OLD"),
                filling: filling),
            part(
                "PARAMETER", "DELETE", on: other, when: "OLD.\(key) NOT NULL",
                step("\(column) - \(removed)", "OLD"), filling: filling),
        ]
    }

    // MARK: - Computing anew

    /// Statements that recompute aggregates of a row's old and new owner.
    private func totals(
        _ total: String, _ places: [(table: String, columns: [String], owners: (String) -> String)]
    ) -> [SQLSchemaPart] {
        let filling = "UPDATE \(table) SET \(column) = (\(total))" + whereOfEntity
        func set(_ owners: String) -> String {
            "UPDATE \(table) SET \(column) = (\(total)) WHERE \(owners);" + told(owners)
        }
        var parts = [
            part(
                "SOURCE", "INSERT", on: tableName, when: ofEntity,
                "UPDATE \(table) SET \(column) = (\(total)) WHERE Z_PK = NEW.Z_PK;"
                    + told("Z_PK = NEW.Z_PK", insertion: true), filling: filling)
        ]
        for place in places {
            parts += [
                part(
                    "PARAMETER", "INSERT", on: place.table, set(place.owners("NEW")),
                    filling: filling),
                part(
                    "PARAMETER", "UPDATE", of: place.columns, on: place.table,
                    set(place.owners("OLD")) + " " + set(place.owners("NEW")), filling: filling),
                part(
                    "PARAMETER", "DELETE", on: place.table, set(place.owners("OLD")),
                    filling: filling),
            ]
        }
        return parts
    }

    // MARK: - Parts of statements

    private var ofEntity: String? {
        rows.map { "NEW.Z_ENT IN (\($0.map(String.init).joined(separator: ", ")))" }
    }

    private var whereOfEntity: String {
        rows.map { " WHERE Z_ENT IN (\($0.map(String.init).joined(separator: ", ")))" } ?? ""
    }

    /// The call that reports the written objects to the connection.
    private func told(_ condition: String, insertion: Bool = false) -> String {
        let function =
            insertion ? SQLDerivedFunction.noteInsertion : SQLDerivedFunction.noteUpdate
        return " SELECT \(function)(\(SQLName.literal(tableName)), Z_ENT, Z_PK, "
            + "\(SQLName.literal(attribute)), \(column)) FROM \(table) WHERE \(condition);"
    }

    private func part(
        _ side: String?, _ event: String, of columns: [String] = [], on other: String,
        suffix: String = "", when condition: String? = nil, _ body: String,
        filling: String? = nil
    ) -> SQLSchemaPart {
        let name =
            "Z_DA_\(other)_\(entityName)_\(attribute)_" + (side.map { $0 + "_" } ?? "") + event
            + suffix
        let fired = columns.isEmpty ? event : "\(event) OF \(columns.joined(separator: ", "))"
        return SQLSchemaPart(
            kind: .trigger, name: name,
            sql:
                "CREATE TRIGGER \(SQLName.quoted(name)) AFTER \(fired) ON \(SQLName.quoted(other)) "
                + "FOR EACH ROW \(condition.map { "WHEN (\($0)) " } ?? "")BEGIN \(body) END",
            filling: filling)
    }
}

/// The SQL functions called by triggers of derived attributes.
enum SQLDerivedFunction {
    /// Reports that a derived value of a new row was set.
    static let noteInsertion = "NSCoreDataDATriggerInsertUpdatedAffectedObjectValue"
    /// Reports that a derived value was set.
    static let noteUpdate = "NSCoreDataDATriggerUpdatedAffectedObjectValue"
    /// Reports a value set by a trigger of an older form, which some of Apple's programs have.
    static let noteOlderUpdate = "NSCoreDataTriggerUpdateAffectedObjectValue"
    /// All functions that report a set value.
    static let allNotes = [noteInsertion, noteUpdate, noteOlderUpdate]
    /// The time of the save, in seconds since the year 2001.
    static let now = "NSCoreDataNow"
}
