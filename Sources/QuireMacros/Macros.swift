public import Quire

/// Declares the entity of a class, and generates accessors for its properties.
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
/// The class can also be bound to an entity of another model; see `ManagedObjectModel.bind(classes:)`.
///
/// A class that inherits from another with `@Entity` declares a sub-entity. It need not be final, and can have methods,
/// computed properties, and stored properties with initial values, which are kept in memory only.
///
/// - Parameters:
///   - name: The entity's name; by default the name of the class.
///   - abstract: Whether only sub-entities have objects.
///   - renamingIdentifier: The name the entity had in an earlier version of the model.
///   - unique: Sets of property names; the combined values of each set must be unique.
///   - indexes: Sets of names of properties that are indexed together.
@attached(member, names: named(entityDeclaration), named(PropertyOrdinals))
public macro Entity(
    name: String? = nil, abstract: Bool = false, renamingIdentifier: String? = nil,
    unique: [[String]] = [], indexes: [[String]] = []
) = #externalMacro(module: "QuireMacrosPlugin", type: "EntityMacro")

/// Declares a property of a class with `@Entity` as an attribute of its entity.
///
/// The type may be `Int16`, `Int32`, `Int64`, `Int`, `Double`, `Float`, `Decimal`, `String`, `Bool`, `Date`, `Data`,
/// `UUID`, `URL`, an enumeration whose raw values have one of these types, a structure marked `@Composite`, or a type that
/// conforms to `AttributeRepresentable`; and an optional of these.
///
/// If the type is not optional, saving requires a value. Without one, the property returns the default value, or else
/// zero, the empty string or a similar value. A non-optional enumeration must have a default value, which is also
/// returned for stored values that are not among its cases.
///
/// A default value can be written as the initial value: `@Attribute var year: Int16 = 1800`. A non-optional number or Boolean
/// has the default value 0 or false, as in models created with Xcode, unless another is specified, the minimum and
/// maximum exclude it, the attribute is part of a uniqueness constraint, or it is `.required`.
///
/// - Parameters:
///   - options: Options without a value: `.required`, `.unique`, `.transient`, `.externalStorage`, `.indexed`,
///     `.allowsCloudEncryption`, `.preservesValueInHistoryOnDeletion`.
///   - key: The attribute's name in the model; by default the name of the property.
///   - renamingIdentifier: The name the attribute had in an earlier version of the model.
///   - default: The value of a new object.
///   - minimum: The smallest valid number, or the earliest valid date.
///   - maximum: The greatest valid number, or the latest valid date.
///   - length: The valid lengths of a string, in UTF-16 code units: `1...13`, `...80`, `2...`.
///   - regex: A regular expression that the whole string must match.
///   - derived: The expression of a derived attribute, such as `books.@count` or `author.name`; see
///     `AttributeDescription.derivationExpression`. The store keeps it up to date, and it cannot be set.
///   - userInfo: The attribute's user info, such as `["syncPolicy": "counter"]`.
@attached(accessor, names: named(init), named(get), named(set))
public macro Attribute(
    _ options: AttributeOptions..., key: String? = nil, renamingIdentifier: String? = nil,
    default: Any? = nil, minimum: Any? = nil, maximum: Any? = nil,
    length: (any RangeExpression<Int>)? = nil, regex: String? = nil, derived: String? = nil,
    userInfo: [String: PropertyListValue] = [:]
) = #externalMacro(module: "QuireMacrosPlugin", type: "AttributeMacro")

/// Declares a structure as a composite: the type of attributes with several elements, which stores keep separately.
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
/// The elements are the stored properties. Their types are those of attributes, including other composites. The key of an
/// element is `home.city`, also in predicates.
///
/// An optional attribute is `nil` if all its elements are missing. A non-optional attribute that was not set reads as the
/// initial values of the properties, or zero, the empty string or similar values; saving does not require a value. In the
/// model the elements are optional, and have no default values.
///
/// - Parameter name: The composite's name in the model; by default the name of the structure.
@attached(
    extension, conformances: CompositeRepresentable, names: named(compositeDeclaration),
    named(init(compositeElements:)), named(compositeElements)
)
public macro Composite(name: String? = nil) =
    #externalMacro(module: "QuireMacrosPlugin", type: "CompositeMacro")

/// Declares a property of a class with `@Entity` as a fetched property of its entity: the results of a request on first access.
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
///   - relationshipKeyPathsForPrefetching: Key paths of relationships to read with the objects.
///   - key: The name in the model; by default the name of the property.
@attached(accessor, names: named(get))
public macro FetchedProperty(
    predicate: String? = nil, sortOrderings: [SortOrdering] = [], fetchLimit: Int = 0,
    fetchOffset: Int = 0, fetchBatchSize: Int = 0,
    relationshipKeyPathsForPrefetching: [String] = [], key: String? = nil
) = #externalMacro(module: "QuireMacrosPlugin", type: "FetchedPropertyMacro")

/// Declares a property of a class with `@Entity` as a relationship of its entity: an optional refers to at most one object, a
/// `Set` to any number, an `Array` to any number in order.
///
/// Specify the inverse on one side; the other side adopts it. (With key paths on both sides, the compiler stops with
/// “circular reference”. Use a string to specify it on both sides, or if a relationship is its own inverse.)
///
/// ```swift
/// @Relationship(inverse: \Author.books) var author: Author?      // In Book
/// @Relationship var books: Set<Book>                             // In Author
/// @Relationship(inverse: "spouse") var spouse: Person?           // In Person
/// ```
///
/// - Parameters:
///   - options: Options without a value: `.required`, `.transient`, `.indexed`.
///   - deleteRule: The effect of deleting an object on its related objects.
///   - minimumCount: The minimum number of objects.
///   - maximumCount: The maximum number of objects; 0 for no maximum.
///   - inverse: The inverse relationship.
///   - key: The relationship's name in the model; by default the name of the property.
///   - renamingIdentifier: The name the relationship had in an earlier version of the model.
@attached(accessor, names: named(init), named(get), named(set))
public macro Relationship(
    _ options: RelationshipOptions..., deleteRule: DeleteRule = .nullify,
    minimumCount: Int = 0, maximumCount: Int = 0, inverse: AnyKeyPath? = nil,
    key: String? = nil, renamingIdentifier: String? = nil
) = #externalMacro(module: "QuireMacrosPlugin", type: "RelationshipMacro")

/// Declares a property of a class with `@Entity` as a relationship of its entity, with the name of the inverse; see
/// `Relationship(_:deleteRule:minimumCount:maximumCount:inverse:key:renamingIdentifier:)`.
@attached(accessor, names: named(init), named(get), named(set))
public macro Relationship(
    _ options: RelationshipOptions..., deleteRule: DeleteRule = .nullify,
    minimumCount: Int = 0, maximumCount: Int = 0, inverse: String, key: String? = nil,
    renamingIdentifier: String? = nil
) = #externalMacro(module: "QuireMacrosPlugin", type: "RelationshipMacro")
