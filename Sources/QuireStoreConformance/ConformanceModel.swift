import Quire

/// The models that checks use.
enum ConformanceModel {
    /// Every kind of relationship but ordered ones, and inheritance.
    static let library = ManagedObjectModel(entities: [
        entity(
            "Author", attribute("name", .string), attribute("born", .integer16),
            toMany("books", "Book", "author", .cascade)),
        entity(
            "Book", attribute("title", .string), attribute("year", .integer32),
            attribute("price", .double), attribute("published", .date),
            attribute("isOut", .boolean),
            toOne("author", "Author", "books"), toMany("tags", "Tag", "books"),
            toOne("cover", "Cover", "book", .cascade)),
        entity(
            "Tag", attribute("name", .string), toMany("books", "Book", "tags"),
            toMany("marks", "Mark", "tag", .deny)),
        entity("Mark", attribute("name", .string), toOne("tag", "Tag", "marks")),
        entity("Cover", attribute("colour", .string), toOne("book", "Book", "cover")),
        entity(
            "Person", attribute("name", .string), toOne("spouse", "Person", "spouse"),
            toOne("manager", "Manager", "reports")),
        entity("Employee", parent: "Person", attribute("salary", .integer64)),
        entity("Manager", parent: "Employee", toMany("reports", "Person", "manager")),
    ])

    /// An attribute of every type.
    static let everyType = ManagedObjectModel(entities: [
        entity(
            "Everything", attribute("int16", .integer16), attribute("int32", .integer32),
            attribute("int64", .integer64), attribute("decimal", .decimal),
            attribute("double", .double), attribute("float", .float),
            attribute("string", .string), attribute("boolean", .boolean), attribute("date", .date),
            attribute("binary", .binary), attribute("uuid", .uuid), attribute("uri", .uri),
            attribute("transformable", .transformable))
    ])

    /// Ordered relationships, one-to-many and many-to-many.
    static let ordered = ManagedObjectModel(entities: [
        entity(
            "Shelf", attribute("name", .string),
            ordered("books", "Volume", "shelf"), ordered("lists", "List", "shelves")),
        entity("Volume", attribute("title", .string), toOne("shelf", "Shelf", "books")),
        entity("List", attribute("name", .string), ordered("shelves", "Shelf", "lists")),
    ])

    /// Uniqueness constraints, of one attribute and of two.
    static let unique = ManagedObjectModel(entities: [
        unique(
            entity(
                "Account", attribute("name", .string), attribute("region", .string),
                attribute("number", .integer64), attribute("note", .string)),
            [["name"], ["region", "number"]])
    ])

    /// Derived attributes.
    static let derived = ManagedObjectModel(entities: [
        entity(
            "Order", attribute("customer", .string),
            derived("customerKey", .string, "canonical:(customer)"),
            derived("itemCount", .integer64, "items.@count"),
            derived("total", .integer64, "items.amount.@sum"), toMany("items", "Item", "order")),
        entity(
            "Item", attribute("amount", .integer64),
            derived("customer", .string, "order.customer"), toOne("order", "Order", "items")),
    ])

    // MARK: - Parts

    private static func entity(
        _ name: String, parent: String? = nil, _ properties: PropertyDescription...
    ) -> EntityDescription {
        var entity = EntityDescription(name: name)
        entity.superentityName = parent
        entity.properties = properties
        return entity
    }

    private static func unique(
        _ entity: EntityDescription, _ constraints: [[String]]
    ) -> EntityDescription {
        var entity = entity
        entity.uniquenessConstraints = constraints
        return entity
    }

    private static func attribute(_ name: String, _ type: AttributeType) -> PropertyDescription {
        .attribute(AttributeDescription(name: name, type: type))
    }

    private static func derived(
        _ name: String, _ type: AttributeType, _ expression: String
    ) -> PropertyDescription {
        var attribute = AttributeDescription(name: name, type: type)
        attribute.derivationExpression = expression
        return .attribute(attribute)
    }

    private static func toOne(
        _ name: String, _ destination: String, _ inverse: String, _ rule: DeleteRule = .nullify
    ) -> PropertyDescription {
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        relationship.deleteRule = rule
        return .relationship(relationship)
    }

    private static func toMany(
        _ name: String, _ destination: String, _ inverse: String, _ rule: DeleteRule = .nullify
    ) -> PropertyDescription {
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        relationship.isToMany = true
        relationship.deleteRule = rule
        return .relationship(relationship)
    }

    private static func ordered(
        _ name: String, _ destination: String, _ inverse: String
    ) -> PropertyDescription {
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        relationship.isToMany = true
        relationship.isOrdered = true
        return .relationship(relationship)
    }
}
