import Foundation
import QuireTestSupport

@testable import Quire
@testable import QuireSQLite

/// A model with every attribute type, inheritance and every kind of relationship.
enum SQLiteTestModel {
    static func attribute(
        _ name: String, _ type: AttributeType,
        _ change: (inout AttributeDescription) -> Void = { _ in }
    ) -> PropertyDescription {
        var attribute = AttributeDescription(name: name, type: type)
        change(&attribute)
        return .attribute(attribute)
    }

    static func toOne(_ name: String, _ destination: String, _ inverse: String?)
        -> PropertyDescription
    {
        .relationship(
            RelationshipDescription(name: name, destination: destination, inverse: inverse))
    }

    static func toMany(
        _ name: String, _ destination: String, _ inverse: String?, ordered: Bool = false
    ) -> PropertyDescription {
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        relationship.isToMany = true
        relationship.maximumCount = 0
        relationship.isOrdered = ordered
        return .relationship(relationship)
    }

    static func entity(
        _ name: String, parent: String? = nil, abstract: Bool = false,
        _ properties: [PropertyDescription], unique: [[String]] = []
    ) -> EntityDescription {
        var entity = EntityDescription(name: name)
        entity.superentityName = parent
        entity.isAbstract = abstract
        entity.properties = properties
        entity.uniquenessConstraints = unique
        return entity
    }

    static let model: ManagedObjectModel = {
        var model = ManagedObjectModel(entities: [
            entity(
                "Everything",
                [
                    attribute("int16", .integer16), attribute("int32", .integer32),
                    attribute("int64", .integer64), attribute("decimal", .decimal),
                    attribute("double", .double), attribute("float", .float),
                    attribute("string", .string), attribute("boolean", .boolean),
                    attribute("date", .date), attribute("binary", .binary),
                    attribute("uuid", .uuid), attribute("uri", .uri),
                    attribute("transformable", .transformable),
                    attribute("picture", .binary) { $0.allowsExternalBinaryDataStorage = true },
                    attribute("memory", .string) { $0.isTransient = true },
                    attribute("place", .composite) { $0.compositeName = "Place" },
                ]),
            // Roots whose names tell case-insensitive order from byte order.
            entity(
                "party", abstract: true,
                [
                    attribute("name", .string),
                    toMany("letters", "Letter", "sender", ordered: true),
                    toMany("friends", "party", "friends"),
                    toMany("tags", "Tag", "parties"),
                ]),
            entity(
                "Person", parent: "party",
                [
                    attribute("note", .string), attribute("email", .string),
                    toOne("spouse", "Person", "spouse"), toOne("desk", "Desk", "person"),
                ], unique: [["email"]]),
            entity(
                "Company", parent: "party",
                [attribute("note", .integer32), toMany("rooms", "Room", nil, ordered: true)]),
            entity(
                "Letter",
                [
                    attribute("text", .string), toOne("sender", "party", "letters"),
                    toOne("seal", "Desk", nil),
                ]),
            entity("Desk", [attribute("name", .string), toOne("person", "Person", "desk")]),
            entity("Room", [attribute("name", .string)]),
            entity(
                "Tag",
                [
                    attribute("name", .string), toMany("parties", "party", "tags", ordered: true),
                    toMany("related", "Tag", "relatedBy", ordered: true),
                    toMany("relatedBy", "Tag", "related", ordered: true),
                ]),
        ])
        model.composites = [
            CompositeDescription(
                name: "Place",
                elements: [
                    AttributeDescription(name: "lat", type: .double),
                    AttributeDescription(name: "lon", type: .double),
                ])
        ]
        return model
    }()
}

/// A store under test with short ways to change and read it.
final class SQLiteTestStore {
    let folder: TemporaryFolder
    let path: String
    private(set) var store: SQLiteStore
    var layout: ResolvedModel { store.layout }

    init(
        _ model: ManagedObjectModel = SQLiteTestModel.model, name: String = "test.sqlite",
        options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws {
        folder = try TemporaryFolder()
        path = folder.path(name)
        store = try SQLiteStore.create(at: path, model: model, options: options)
    }

    func reopen(options: SQLiteStoreOptions = SQLiteStoreOptions()) throws {
        let model = store.layout.model
        try store.close()
        store = try SQLiteStore.open(at: path, model: model, options: options)
    }

    func entity(_ name: String) throws -> ResolvedEntity { try layout.requireEntity(named: name) }

    func reserve(_ name: String, _ count: Int = 1) throws -> [ManagedObjectID] {
        try store.reserveObjectIDs(for: entity(name), count: count, durably: false)
    }

    func insertion(
        _ id: ManagedObjectID, _ values: [String: AttributeValue] = [:],
        toMany: [ToManyChange] = []
    ) throws -> ObjectChange {
        let entity = layout.entity(number: id.entityNumber)
        var slots = ContiguousArray<AttributeValue>(repeating: .null, count: entity.slots.count)
        for (name, value) in values { slots[try slot(name, entity)] = value }
        return ObjectChange(
            objectID: id, entity: entity, version: 0, values: slots,
            changedSlots: SlotMask(first: entity.slots.count), toManyChanges: toMany)
    }

    func update(
        _ id: ManagedObjectID, version: UInt32 = 1, _ values: [String: AttributeValue] = [:],
        toMany: [ToManyChange] = []
    ) throws -> ObjectChange {
        var change = try insertion(id, values, toMany: toMany)
        change.version = version
        change.changedSlots = SlotMask()
        for name in values.keys { change.changedSlots.insert(try slot(name, change.entity)) }
        return change
    }

    func slot(_ name: String, _ entity: ResolvedEntity) throws -> Int {
        switch entity.properties[name] {
        case .attribute(let slot): return slot
        case .relationship(let index):
            if let slot = entity.relationships[index].slot { return slot }
        default: break
        }
        throw QuireError(.unknownKey, "No slot \(name) in \(entity.name).")
    }

    func members(
        _ id: ManagedObjectID, _ name: String, added: [ManagedObjectID] = [],
        removed: [ManagedObjectID] = [], order: [ManagedObjectID]? = nil
    ) throws -> ToManyChange {
        let entity = layout.entity(number: id.entityNumber)
        guard let relationship = entity.relationship(named: name) else {
            throw QuireError(.unknownKey, "No relationship \(name).")
        }
        return ToManyChange(
            relationshipIndex: relationship.index, added: added, removed: removed, order: order)
    }

    func save(
        inserted: [ObjectChange] = [], updated: [ObjectChange] = [],
        deleted: [ObjectDeletion] = [], records: [String: String?] = [:]
    ) throws {
        var changes = ChangeSet()
        changes.inserted = inserted
        changes.updated = updated
        changes.deleted = deleted
        changes.records = records
        try store.save(changes)
    }

    func value(_ id: ManagedObjectID, _ name: String) throws -> AttributeValue? {
        guard let row = try store.row(for: id) else { return nil }
        return try row.value(at: slot(name, row.entity))
    }

    func related(_ id: ManagedObjectID, _ name: String) throws -> [ManagedObjectID] {
        let entity = layout.entity(number: id.entityNumber)
        guard let relationship = entity.relationship(named: name) else {
            throw QuireError(.unknownKey, "No relationship \(name).")
        }
        return try store.relatedRows(of: id, through: relationship).map(\.objectID)
    }

    /// The rows of a statement as texts, read by the command-line shell's library through a second connection.
    func query(_ sql: String) throws -> [[String]] { try Self.query(sql, path: path) }

    static func query(_ sql: String, path: String) throws -> [[String]] {
        let connection = try SQLiteConnection(path: path, mode: .writing)
        defer { connection.close() }
        try SQLiteFunctions.register(on: connection)
        let statement = try connection.prepare(sql)
        var rows: [[String]] = []
        while try statement.step() {
            rows.append(
                (0..<statement.columnCount).map {
                    statement.isNull($0) ? "NULL" : statement.text($0)
                })
        }
        return rows
    }
}
