public import Quire

/// Declares an entity with a class, and generates accessors for its properties.
///
/// ```swift
/// @Entity final class Book: ManagedObject {
///     @Attribute(.unique) var isbn: String
///     @Attribute(minimum: 0, maximum: 3000) var year: Int16 = 1800
///     @Attribute(.externalStorage) var scan: Data?
///     @Relationship(inverse: \Author.books) var author: Author?
///     @Relationship(deleteRule: .cascade, inverse: \Chapter.book) var chapters: [Chapter]    // In their order.
///     @Relationship var tags: Set<Tag>                                                       // Without one.
/// }
///
/// let model = try ManagedObjectModel(classes: [Book.self])      // With the destinations of Book.
/// let book = Book(context: context)
/// book.title = "Emma"
/// let books = try context.fetch(Book.self)
/// ```
///
/// The class may be bound to an entity of a model that comes from elsewhere, too; see
/// `ManagedObjectModel.bind(classes:)`.
///
/// A class that inherits from another with `@Entity` is of a sub-entity. It need not be final, and may have methods,
/// computed properties, and stored properties with initial values; these live in memory only.
///
/// - Parameters:
///   - name: The entity's name, if it is not the class's.
///   - abstract: Whether only sub-entities have objects.
///   - renamingIdentifier: The name the entity had in an earlier version of the model.
///   - unique: Sets of names of properties whose values together no two objects may share.
///   - indexes: Sets of names of properties to index together.
@attached(member, names: named(entityDeclaration), named(PropertyOrdinals))
public macro Entity(
    name: String? = nil, abstract: Bool = false, renamingIdentifier: String? = nil,
    unique: [[String]] = [], indexes: [[String]] = []
) = #externalMacro(module: "QuireMacrosPlugin", type: "EntityMacro")

/// Makes a property of a class with `@Entity` an attribute of its entity.
///
/// The type may be `Int16`, `Int32`, `Int64`, `Int`, `Double`, `Float`, `Decimal`, `String`, `Bool`, `Date`, `Data`,
/// `UUID`, `URL`, an enumeration whose raw values are of one of these, a structure marked `@Composite`, or a type that
/// conforms to `AttributeRepresentable`; and an optional of these.
///
/// If the type is not optional, saving demands a value. As long as there is none, the property gives the default value,
/// and if there is no default value, zero, the empty text and the like. An enumeration that is not optional must have a
/// default value, which stands also for values that are none of its cases.
///
/// A default value may be written as the initial value: `@Attribute var year: Int16 = 1800`. A number or Boolean that is not
/// optional has the default value 0 or false, as in models that Xcode's editor makes, unless another is given, the minimum and
/// maximum exclude it, the attribute is part of a uniqueness constraint, or it is `.required`.
///
/// - Parameters:
///   - options: What can be said in a word: `.required`, `.unique`, `.transient`, `.externalStorage`, `.indexed`,
///     `.allowsCloudEncryption`, `.preservesValueInHistoryOnDeletion`.
///   - key: The attribute's name in the model, if it is not the property's.
///   - renamingIdentifier: The name the attribute had in an earlier version of the model.
///   - default: The value a new object gets.
///   - minimum: The smallest number or earliest date that is valid.
///   - maximum: The greatest number or latest date that is valid.
///   - length: The lengths of a text that are valid, in UTF-16 code units: `1...13`, `...80`, `2...`.
///   - regex: A regular expression that a text must match as a whole.
///   - derived: The expression that the attribute is derived from, such as `books.@count` or `author.name`; see
///     `AttributeDescription.derivationExpression`. The store keeps it up to date, and it cannot be set.
///   - userInfo: The attribute's user info, such as `["syncPolicy": "counter"]`.
@attached(accessor, names: named(init), named(get), named(set))
public macro Attribute(
    _ options: AttributeOptions..., key: String? = nil, renamingIdentifier: String? = nil,
    default: Any? = nil, minimum: Any? = nil, maximum: Any? = nil,
    length: (any RangeExpression<Int>)? = nil, regex: String? = nil, derived: String? = nil,
    userInfo: [String: PropertyListValue] = [:]
) = #externalMacro(module: "QuireMacrosPlugin", type: "AttributeMacro")

/// Makes a structure a composite: the type of attributes with several elements, which stores keep one by one.
///
/// ```swift
/// @Composite struct Address {
///     var street: String
///     var city: String? = nil
/// }
///
/// @Entity final class Person: ManagedObject {
///     @Attribute var home: Address
///     @Attribute var work: Address?
/// }
///
/// person.home.city = "Bath"
/// let people = try context.fetch(Person.self, where: #Predicate { $0.home.city == "Bath" })
/// ```
///
/// The elements are the stored properties, of types that attributes may have, other composites among them. By key an element
/// is `home.city`, and so it is in predicates.
///
/// An optional attribute is `nil` if all its elements are missing. One that is not optional reads as the initial values of the
/// properties, or zero, the empty text and the like, as long as it was not set; saving does not demand that it was. In the model
/// the elements are optional, and have no default values.
///
/// - Parameter name: The composite's name in the model, if it is not the structure's.
@attached(
    extension, conformances: CompositeRepresentable, names: named(compositeDeclaration),
    named(init(compositeElements:)), named(compositeElements)
)
public macro Composite(name: String? = nil) =
    #externalMacro(module: "QuireMacrosPlugin", type: "CompositeMacro")

/// Makes a property of a class with `@Entity` a fetched property of its entity: the results of a request on first access.
/// The objects stay the same until their owner is refreshed; see `ManagedObject.fetchedObjects(_:)`.
///
/// ```swift
/// @FetchedProperty(predicate: "author == $FETCH_SOURCE AND year < 1800") var early: [Book]      // In Author
/// ```
///
/// - Parameters:
///   - predicate: The condition in Core Data's predicate format language, in which `$FETCH_SOURCE` is the object; `nil` for all.
///   - sortOrderings: The order, most significant first.
///   - fetchLimit: The greatest number of objects; 0 for no limit.
///   - fetchOffset: The number of objects to skip.
///   - fetchBatchSize: The number of objects in a fetch batch; 0 for no batching.
///   - relationshipKeyPathsForPrefetching: Key paths of relationships to read along with the objects.
///   - key: The property's name in the model, if it is not the property's.
@attached(accessor, names: named(get))
public macro FetchedProperty(
    predicate: String? = nil, sortOrderings: [SortOrdering] = [], fetchLimit: Int = 0,
    fetchOffset: Int = 0, fetchBatchSize: Int = 0,
    relationshipKeyPathsForPrefetching: [String] = [], key: String? = nil
) = #externalMacro(module: "QuireMacrosPlugin", type: "FetchedPropertyMacro")

/// Makes a property of a class with `@Entity` a relationship of its entity: an optional leads to at most one object, a
/// `Set` to any number, an `Array` to any number in an order.
///
/// Name the inverse on one side; the other side has it from there. (If both sides had a key path, the compiler would
/// find that each refers to the other and stop with “circular reference”. Name it by a text if you want to see it on
/// both sides, or if a relationship is its own inverse.)
///
/// ```swift
/// @Relationship(inverse: \Author.books) var author: Author?      // In Book
/// @Relationship var books: Set<Book>                             // In Author
/// @Relationship(inverse: "spouse") var spouse: Person?           // In Person
/// ```
///
/// - Parameters:
///   - options: What can be said in a word: `.required`, `.transient`, `.indexed`.
///   - deleteRule: What a deletion of an object does to those the relationship leads to.
///   - minimumCount: The smallest number of objects that is valid.
///   - maximumCount: The greatest number of objects that is valid; 0 for no bound.
///   - inverse: The relationship that leads back.
///   - key: The relationship's name in the model, if it is not the property's.
///   - renamingIdentifier: The name the relationship had in an earlier version of the model.
@attached(accessor, names: named(init), named(get), named(set))
public macro Relationship(
    _ options: RelationshipOptions..., deleteRule: DeleteRule = .nullify,
    minimumCount: Int = 0, maximumCount: Int = 0, inverse: AnyKeyPath? = nil,
    key: String? = nil, renamingIdentifier: String? = nil
) = #externalMacro(module: "QuireMacrosPlugin", type: "RelationshipMacro")

/// Makes a property of a class with `@Entity` a relationship of its entity, whose inverse is named by a text; see
/// `Relationship(_:deleteRule:minimumCount:maximumCount:inverse:key:renamingIdentifier:)`.
@attached(accessor, names: named(init), named(get), named(set))
public macro Relationship(
    _ options: RelationshipOptions..., deleteRule: DeleteRule = .nullify,
    minimumCount: Int = 0, maximumCount: Int = 0, inverse: String, key: String? = nil,
    renamingIdentifier: String? = nil
) = #externalMacro(module: "QuireMacrosPlugin", type: "RelationshipMacro")
