public import Foundation
public import Quire

/// Models that tests share.
public enum FixtureModels {
    /// Authors, books, tags, shelves, covers and people: every kind of relationship and inheritance.
    public static let library = ManagedObjectModel(entities: [
        entity(
            "Author", attribute("name", .string, optional: false), attribute("born", .integer16),
            toMany("books", "Book", "author", .cascade)),
        entity(
            "Book", attribute("title", .string, optional: false), attribute("year", .integer16),
            attribute("price", .decimal), attribute("isbn", .string),
            toOne("author", "Author", "books"), toMany("tags", "Tag", "books"),
            toOne("cover", "Cover", "book", .cascade), toOne("shelf", "Shelf", "books"),
            toMany("sequels", "Book", "prequels"), toMany("prequels", "Book", "sequels")),
        entity(
            "Tag", unique: [["name"]], attribute("name", .string), toMany("books", "Book", "tags")),
        entity(
            "Cover", attribute("image", .binary) { $0.allowsExternalBinaryDataStorage = true },
            toOne("book", "Book", "cover")),
        entity(
            "Shelf", attribute("name", .string),
            toMany("books", "Book", "shelf", .deny) { $0.isOrdered = true },
            toMany("favourites", "Tag", nil)),
        entity(
            "Person", attribute("name", .string), toOne("spouse", "Person", "spouse"),
            toOne("manager", "Manager", "reports")),
        entity("Employee", parent: "Person", attribute("salary", .double)),
        entity("Manager", parent: "Employee", toMany("reports", "Person", "manager")),
        entity("Playlist", toMany("songs", "Song", "playlists") { $0.isOrdered = true }),
        entity("Song", attribute("title", .string), toMany("playlists", "Playlist", "songs")),
    ])

    /// The library, in which books have the names of their authors, and authors the numbers of their books.
    public static var derivedLibrary: ManagedObjectModel {
        var model = library
        model.entities[0].properties.append(
            attribute("bookCount", .integer64) { $0.derivationExpression = "books.@count" })
        model.entities[1].properties.append(
            attribute("authorName", .string) { $0.derivationExpression = "author.name" })
        return model
    }

    /// One entity with an attribute of every type.
    public static let everyType = ManagedObjectModel(entities: [
        entity(
            "Everything", attribute("int16", .integer16), attribute("int32", .integer32),
            attribute("int64", .integer64), attribute("decimal", .decimal),
            attribute("double", .double),
            attribute("float", .float), attribute("string", .string),
            attribute("boolean", .boolean),
            attribute("date", .date), attribute("binary", .binary),
            attribute("external", .binary) { $0.allowsExternalBinaryDataStorage = true },
            attribute("uuid", .uuid), attribute("uri", .uri),
            attribute("transformable", .transformable),
            attribute("note", .string) { $0.isTransient = true })
    ])

    /// An entity of properties.
    public static func entity(
        _ name: String, parent: String? = nil, unique: [[String]] = [],
        _ properties: PropertyDescription...
    ) -> EntityDescription {
        var entity = EntityDescription(name: name)
        entity.superentityName = parent
        entity.uniquenessConstraints = unique
        entity.properties = properties
        return entity
    }

    /// An attribute.
    public static func attribute(
        _ name: String, _ type: AttributeType, optional: Bool = true,
        _ adjust: (inout AttributeDescription) -> Void = { _ in }
    ) -> PropertyDescription {
        var attribute = AttributeDescription(name: name, type: type)
        attribute.isOptional = optional
        adjust(&attribute)
        return .attribute(attribute)
    }

    /// A to-one relationship.
    public static func toOne(
        _ name: String, _ destination: String, _ inverse: String?, _ rule: DeleteRule = .nullify
    ) -> PropertyDescription {
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        relationship.deleteRule = rule
        return .relationship(relationship)
    }

    /// A to-many relationship.
    public static func toMany(
        _ name: String, _ destination: String, _ inverse: String?, _ rule: DeleteRule = .nullify,
        _ adjust: (inout RelationshipDescription) -> Void = { _ in }
    ) -> PropertyDescription {
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        relationship.isToMany = true
        relationship.maximumCount = 0
        relationship.deleteRule = rule
        adjust(&relationship)
        return .relationship(relationship)
    }
}

// MARK: - The corpus

/// Files that Apple's tools and other people's apps made, which lie beside the checkout where the team works.
/// They are no part of the project; tests that read them have the trait `.corpus`, and are skipped where there are none.
public enum Corpus {
    /// The folder, if there is one: `QUIRE_CORPUS` of the environment if that is set, else `../shared/corpus` beside
    /// the checkout.
    public static let folder: URL? = {
        let checkout = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let candidate =
            ProcessInfo.processInfo.environment["QUIRE_CORPUS"].map { URL(fileURLWithPath: $0) }
            ?? checkout.deletingLastPathComponent().appendingPathComponent("shared/corpus")
        return FileManager.default.fileExists(atPath: candidate.path) ? candidate : nil
    }()

    /// All files below the folder whose path satisfies a condition, sorted.
    public static func files(where condition: (String) -> Bool) -> [URL] {
        guard let folder,
            let enumerator = FileManager.default.enumerator(atPath: folder.path)
        else { return [] }
        return enumerator.compactMap { $0 as? String }.filter(condition).sorted()
            .map { folder.appendingPathComponent($0) }
    }
}
