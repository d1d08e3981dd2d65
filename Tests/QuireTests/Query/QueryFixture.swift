import Foundation
import QuireTestSupport

@testable import Quire

/// A model with every kind of attribute and relationship that queries meet, and objects of it in memory.
enum QueryFixture {
    static let model: ManagedObjectModel = {
        typealias Make = FixtureModels
        var size = AttributeDescription(name: "size", type: .composite)
        size.compositeName = "Size"
        var model = ManagedObjectModel(entities: [
            Make.entity(
                "Work", Make.attribute("title", .string), Make.attribute("subtitle", .string),
                Make.attribute("year", .integer32), Make.attribute("pages", .integer64),
                Make.attribute("rating", .double), Make.attribute("price", .decimal),
                Make.attribute("isRead", .boolean), Make.attribute("added", .date),
                Make.attribute("code", .uuid), Make.attribute("link", .uri),
                Make.attribute("digest", .binary),
                Make.attribute("scan", .binary) { $0.allowsExternalBinaryDataStorage = true },
                Make.attribute("draft", .string) { $0.isTransient = true },
                .attribute(size), Make.toOne("author", "Author", "works"),
                Make.toOne("publisher", "Publisher", "works"),
                Make.toMany("tags", "Tag", "works"), Make.toMany("notes", "Note", nil),
                Make.toMany("sequels", "Work", "prequels"),
                Make.toMany("prequels", "Work", "sequels")),
            Make.entity("Novel", parent: "Work", Make.attribute("genre", .string)),
            Make.entity(
                "Author", Make.attribute("name", .string), Make.attribute("born", .integer16),
                Make.toMany("works", "Work", "author"), Make.toOne("mentor", "Author", "pupils"),
                Make.toMany("pupils", "Author", "mentor")),
            Make.entity("Laureate", parent: "Author", Make.attribute("prize", .string)),
            Make.entity(
                "Publisher", Make.attribute("name", .string), Make.attribute("city", .string),
                Make.toMany("works", "Work", "publisher")),
            Make.entity(
                "Tag", Make.attribute("name", .string), Make.attribute("weight", .double),
                Make.toMany("works", "Work", "tags")),
            Make.entity("Note", Make.attribute("text", .string), Make.toOne("by", "Author", nil)),
        ])
        model.composites = [
            CompositeDescription(
                name: "Size",
                elements: [
                    AttributeDescription(name: "width", type: .double),
                    AttributeDescription(name: "height", type: .double),
                ])
        ]
        return model
    }()

    static let layout: ResolvedModel = {
        do { return try model.layout() } catch { preconditionFailure("\(error)") }
    }()

    static let store = StoreIdentity(
        uuid: "11111111-2222-3333-4444-555555555555", entityNames: layout.entities.map(\.name))

    /// The identifier of an object of an entity.
    static func id(_ entity: String, _ key: Int64) throws -> ManagedObjectID {
        ManagedObjectID(
            entityNumber: try layout.requireEntity(named: entity).number, primaryKey: key,
            store: store)
    }

    /// An object.
    static func object(
        _ entity: String, _ key: Int64, _ values: [String: AttributeValue] = [:]
    ) throws -> TestSubject {
        TestSubject(try id(entity, key), try layout.requireEntity(named: entity), values)
    }

    /// A request in its checked form.
    static func resolve(
        _ format: String, _ arguments: (any QueryArgument)?..., entity: String = "Work"
    ) throws -> ResolvedQuery {
        try ResolvedQuery(
            FetchSpecification(
                entity, predicate: QueryPredicate(format: format, arguments: arguments)),
            in: layout, store: store)
    }
}

/// An object that is in no context.
final class TestSubject: QuerySubject {
    let objectID: ManagedObjectID
    let resolvedEntity: ResolvedEntity
    var queryLayout: ResolvedModel { QueryFixture.layout }
    var values: [String: AttributeValue]
    var toOne: [String: TestSubject] = [:]
    var toMany: [String: [TestSubject]] = [:]

    init(_ id: ManagedObjectID, _ entity: ResolvedEntity, _ values: [String: AttributeValue]) {
        objectID = id
        resolvedEntity = entity
        self.values = values
    }

    func queryValue(forKey key: String) throws -> QueryValue {
        switch resolvedEntity.properties[key] {
        case .relationship(let index)?:
            if resolvedEntity.relationships[index].isToMany { return .objects(toMany[key] ?? []) }
            return toOne[key].map { .object($0) } ?? .value(.null)
        case nil:
            throw QuireError(.unknownKey, "\(resolvedEntity.name) has no “\(key)”.")
        default: return .value(values[key] ?? .null)
        }
    }
}
