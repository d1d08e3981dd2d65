import Foundation
import Quire

extension ConformanceCheck {
    /// Relationships and inheritance.
    static let relationships: [ConformanceCheck] = [
        ConformanceCheck("relationships of every kind come back") { scene in
            try fill(scene)
            try scene.checkAlsoReopened {
                scene.expect(
                    try related(scene, "Author", "Austen", "books", "title"),
                    is: ["Emma", "Persuasion"], "Austen's books")
                scene.expect(
                    try related(scene, "Book", "Emma", "tags", "name", by: "title"),
                    is: ["classic", "novel"], "The tags of Emma")
                scene.expect(
                    try related(scene, "Tag", "novel", "books", "title"),
                    is: ["Emma", "Middlemarch", "Persuasion"], "The books tagged “novel”")
                let colours = try scene.afresh { context in
                    try context.fetch(FetchRequest("Book", sortOrderings: [SortOrdering("title")]))
                        .map {
                            $0.object("cover").map { "\($0["colour", as: AttributeValue.self])" }
                                ?? "-"
                        }
                }
                scene.expect(
                    colours, is: ["\(AttributeValue("red"))", "-", "-"], "The covers of all books")
            }
        },
        ConformanceCheck("relationships can be changed from either side") { scene in
            try fill(scene)
            try scene.perform { context in
                let emma = try one(context, "Book", "title", "Emma")
                let eliot = try one(context, "Author", "name", "Eliot")
                emma["author"] = eliot
                let novel = try one(context, "Tag", "name", "novel")
                novel.remove(try one(context, "Book", "title", "Persuasion"), from: "books")
                novel.add(emma, to: "books")
                emma.remove(try one(context, "Tag", "name", "classic"), from: "tags")
                try context.save()
            }
            if scene.reopens { try scene.reopen() }
            scene.expect(
                try related(scene, "Author", "Austen", "books", "title"), is: ["Persuasion"],
                "Austen's books")
            scene.expect(
                try related(scene, "Author", "Eliot", "books", "title"),
                is: ["Emma", "Middlemarch"], "Eliot's books")
            scene.expect(
                try related(scene, "Tag", "novel", "books", "title"), is: ["Emma", "Middlemarch"],
                "The books tagged “novel”")
            scene.expect(
                try related(scene, "Tag", "classic", "books", "title"), is: [],
                "The books tagged “classic”")
        },
        ConformanceCheck("deleting an object takes it out of relationships") { scene in
            try fill(scene)
            try scene.perform { context in
                context.delete(try one(context, "Author", "name", "Austen"))
                try context.save()
            }
            if scene.reopens { try scene.reopen() }
            scene.expect(try scene.count("Book"), is: 1, "The number of books")
            scene.expect(try scene.count("Cover"), is: 0, "The number of covers")
            scene.expect(
                try related(scene, "Tag", "novel", "books", "title"), is: ["Middlemarch"],
                "The books tagged “novel”")
        },
        ConformanceCheck("related rows come by primary key, each once") { scene in
            try fill(scene)
            let author = try scene.store.rows(
                matching: FetchSpecification(
                    "Author", predicate: QueryPredicate(format: "name == 'Austen'")))[0]
            let books = try scene.entity("Author").relationship(named: "books")
            guard let books else { return scene.fail("“books” is not a relationship.") }
            let rows = try scene.store.relatedRows(of: author.objectID, through: books)
            let uris = rows.map(\.objectID.uriRepresentation)
            scene.expect(uris.count, is: 2, "The number of related rows")
            let all = try scene.store.rows(matching: FetchSpecification("Book"))
                .map(\.objectID.uriRepresentation)
            scene.expect(uris, is: all.filter(uris.contains), "The order of related rows")
            let missing = try scene.store.reserveObjectIDs(
                for: scene.entity("Author"), count: 1, durably: false)[0]
            scene.expect(
                try scene.store.relatedRows(of: missing, through: books).isEmpty,
                "An object that is not there has related rows.")
        },
        ConformanceCheck("objects of sub-entities are found as those of their superentity") {
            scene in
            _ = try scene.insert("Person", [["name": "Ann"]])
            _ = try scene.insert("Employee", [["name": "Bob", "salary": 10]])
            let boss = try scene.insert("Manager", [["name": "Cid", "salary": 20]])[0]
            try scene.perform { context in
                let manager = try context.existingObject(with: boss)
                for person in try context.fetch(FetchRequest("Person")) where person !== manager {
                    manager.add(person, to: "reports")
                }
                try context.save()
            }
            if scene.reopens { try scene.reopen() }
            scene.expect(try scene.count("Person"), is: 3, "The number of people")
            scene.expect(try scene.count("Employee"), is: 2, "The number of employees")
            scene.expect(
                try scene.store.count(matching: FetchSpecification(only: "Employee")), is: 1,
                "The number of employees that are not managers")
            scene.expect(
                try related(scene, "Manager", "Cid", "reports", "name"), is: ["Ann", "Bob"],
                "Whom Cid manages")
            let entities = try scene.store.rows(
                matching: FetchSpecification("Person", sortOrderings: [SortOrdering("name")])
            ).map(\.entity.name)
            scene.expect(entities, is: ["Person", "Employee", "Manager"], "The entities of people")
        },
        ConformanceCheck(
            "ordered relationships keep their order", needs: [.saving, .orderedRelationships],
            model: ConformanceModel.ordered
        ) { scene in
            try scene.perform { context in
                let shelf = try context.insertObject(entityName: "Shelf")
                shelf["name"] = "a"
                for title in ["c", "a", "d", "b"] {
                    let volume = try context.insertObject(entityName: "Volume")
                    volume["title"] = title
                    shelf.add(volume, to: "books")
                }
                try context.save()
            }
            func titles() throws -> [String] {
                try scene.afresh { context in
                    let shelf = try one(context, "Shelf", "name", "a")
                    return shelf.objects("books").compactMap(title)
                }
            }
            scene.expect(try titles(), is: ["c", "a", "d", "b"], "The order")
            try scene.perform { context in
                let shelf = try one(context, "Shelf", "name", "a")
                let volumes = shelf.objects("books")
                shelf.remove(volumes[1], from: "books")
                let new = try context.insertObject(entityName: "Volume")
                new["title"] = "z"
                new["shelf"] = shelf
                try context.save()
            }
            scene.expect(try titles(), is: ["c", "d", "b", "z"], "The order after a change")
            if scene.reopens {
                try scene.reopen()
                scene.expect(try titles(), is: ["c", "d", "b", "z"], "The order when reopened")
            }
        },
    ]

    // MARK: - Parts

    static func title(_ object: ManagedObject) -> String? {
        object["title", as: String.self]
    }

    static func one(
        _ context: ManagedObjectContext, _ entity: String, _ key: String, _ value: String
    ) throws -> ManagedObject {
        let request = FetchSpecification(
            entity, predicate: try QueryPredicate(format: "\(key) == %@", value))
        guard let object = try context.fetch(FetchRequest<ManagedObject>(request)).first else {
            throw QuireError(.notFound, "There is no \(entity) with \(key) “\(value)”.")
        }
        return object
    }

    /// The values under a key of a relationship's destinations, sorted.
    static func related(
        _ scene: StoreScene, _ entity: String, _ name: String, _ relationship: String,
        _ key: String, by nameKey: String = "name"
    ) throws -> [String] {
        try scene.afresh { context in
            try one(context, entity, nameKey, name).objects(relationship).compactMap {
                $0[key, as: String.self]
            }.sorted()
        }
    }

    /// Saves two authors, three books, two tags and a cover.
    static func fill(_ scene: StoreScene) throws {
        try scene.perform { context in
            func make(_ entity: String, _ values: [String: AttributeValue]) throws -> ManagedObject
            {
                let object = try context.insertObject(entityName: entity)
                for (key, value) in values { object[key] = value }
                return object
            }
            let austen = try make("Author", ["name": "Austen", "born": 1775])
            let eliot = try make("Author", ["name": "Eliot", "born": 1819])
            let novel = try make("Tag", ["name": "novel"])
            let classic = try make("Tag", ["name": "classic"])
            let emma = try make(
                "Book", ["title": "Emma", "year": 1815, "price": 9.5, "isOut": true])
            let persuasion = try make("Book", ["title": "Persuasion", "year": 1817, "price": 7.25])
            let march = try make("Book", ["title": "Middlemarch", "year": 1871, "isOut": false])
            emma["author"] = austen
            austen.add(persuasion, to: "books")
            march["author"] = eliot
            for book in [emma, persuasion, march] { book.add(novel, to: "tags") }
            classic.add(emma, to: "books")
            emma["cover"] = try make("Cover", ["colour": "red"])
            try context.save()
        }
    }
}
