import Quire
import QuireTestSupport

/// A model with a relationship of every cardinality, and what the reference graph has to know of it.
struct ReferenceModel: Sendable {
    /// A relationship, seen from one end.
    final class Link: Sendable {
        let name: String
        let owner: String
        let destination: String
        let inverse: String?
        let isToMany: Bool
        let isOrdered: Bool
        let rule: DeleteRule
        /// The other end, as far as the reference graph needs it.
        let back: Back?

        struct Back: Sendable {
            var name: String
            var isToMany: Bool
            var isOrdered: Bool
        }

        init(_ description: RelationshipDescription, owner: String, back: Back?) {
            name = description.name
            self.owner = owner
            destination = description.destinationEntityName
            inverse = back?.name
            isToMany = description.isToMany
            isOrdered = description.isToMany && description.isOrdered
            rule = description.deleteRule
            self.back = back
        }
    }

    /// Entities that have objects, and what each is a kind of.
    static let kinds = ["A": ["A"], "AA": ["A", "AA"], "B": ["B"]]

    let description: ManagedObjectModel
    private let linksByEntity: [String: [Link]]

    /// The relationships of an entity, inherited ones among them.
    func links(of entity: String) -> [Link] { linksByEntity[entity] ?? [] }

    static let shared = ReferenceModel(
        ManagedObjectModel(entities: [
            FixtureModels.entity(
                "A", FixtureModels.attribute("number", .integer64),
                FixtureModels.attribute("text", .string),
                FixtureModels.toOne("partner", "B", "partner"),
                FixtureModels.toOne("owner", "B", "owned"),
                FixtureModels.toOne("inList", "B", "list"),
                FixtureModels.toMany("tags", "B", "tagged"),
                FixtureModels.toMany("ranked", "B", "rankedBy") { $0.isOrdered = true },
                FixtureModels.toMany("both", "B", "bothBy") { $0.isOrdered = true },
                FixtureModels.toOne("spouse", "A", "spouse"),
                FixtureModels.toMany("friends", "A", "friends"),
                FixtureModels.toOne("parent", "A", "children"),
                FixtureModels.toMany("children", "A", "parent", .cascade),
                FixtureModels.toOne("bookmark", "B", nil),
                FixtureModels.toOne("guarded", "B", "guards")),
            FixtureModels.entity("AA", parent: "A", FixtureModels.attribute("extra", .string)),
            FixtureModels.entity(
                "B", FixtureModels.attribute("number", .integer64),
                FixtureModels.attribute("text", .string),
                FixtureModels.toOne("partner", "A", "partner", .cascade),
                FixtureModels.toMany("owned", "A", "owner", .cascade),
                FixtureModels.toMany("list", "A", "inList") { $0.isOrdered = true },
                FixtureModels.toMany("tagged", "A", "tags"),
                FixtureModels.toMany("rankedBy", "A", "ranked"),
                FixtureModels.toMany("bothBy", "A", "both") { $0.isOrdered = true },
                FixtureModels.toMany("pins", "A", nil),
                FixtureModels.toMany("guards", "A", "guarded", .deny)),
        ]))

    private init(_ model: ManagedObjectModel) {
        description = model
        let entities = Dictionary(uniqueKeysWithValues: model.entities.map { ($0.name, $0) })
        func own(_ name: String) -> [Link] {
            (entities[name]?.relationships ?? []).map { relationship in
                let inverse = relationship.inverseName.flatMap { inverse in
                    entities[relationship.destinationEntityName]?.relationships
                        .first { $0.name == inverse }
                }
                return Link(
                    relationship, owner: name,
                    back: inverse.map {
                        Link.Back(
                            name: $0.name, isToMany: $0.isToMany,
                            isOrdered: $0.isToMany && $0.isOrdered)
                    })
            }
        }
        linksByEntity = Self.kinds.mapValues { $0.flatMap(own) }
    }
}
