import Foundation
import Quire
import QuireMacros

/// What a book is, as the raw value of a text.
enum Genre: String, Codable { case novel, letters, history }

/// How much it was liked, as the raw value of a number.
enum Rating: Int16, Codable { case poor = 1, fair, good }

/// A number of cents: a type of a program's own.
struct Price: AttributeRepresentable, Equatable, Codable {
    var cents: Int64
    static let attributeTypes = [AttributeType.integer64]
    static let missingValue = Price(cents: 0)

    init(cents: Int64) { self.cents = cents }

    init?(attributeValue value: AttributeValue) {
        guard case .integer(let cents) = value else { return nil }
        self.cents = cents
    }

    var attributeValue: AttributeValue { .integer(cents) }
}

@Entity(unique: [["title", "year"]], indexes: [["year", "title"]])
final class Book: ManagedObject {
    @Attribute(.unique) var isbn: String?
    @Attribute(.indexed, length: 1...200) var title: String
    @Attribute(default: 1800, minimum: 0, maximum: 3000) var year: Int16
    @Attribute(default: Genre.novel) var genre: Genre
    @Attribute var rating: Rating?
    @Attribute var price: Price?
    @Attribute(.externalStorage) var scan: Data?
    @Attribute(.transient) var isSelected: Bool?
    @Relationship(inverse: \Author.books) var author: Author?
    @Relationship(inverse: \Tag.books) var tags: Set<Tag>
    @Relationship(deleteRule: .cascade, inverse: \Chapter.book) var chapters: [Chapter]

    /// In memory only.
    var readings = 0
    var label: String { "\(title) (\(year))" }
    var heading: String { title }
}

@Entity(abstract: true) class Person: ManagedObject {
    @Attribute var name: String
    @Attribute(key: "yearOfBirth", renamingIdentifier: "birthYear") var born: Int?
    @Relationship(inverse: "spouse") var spouse: Person?
}

@Entity class Author: Person {
    @Attribute(.transient, default: "") var note: String
    @Relationship(maximumCount: 100) var books: Set<Book>
}

@Entity final class Translator: Author {
    @Attribute(regex: "[a-z]{2}") var language: String
}

@Entity(name: "Label") final class Tag: ManagedObject {
    @Attribute var name: String
    @Relationship var books: Set<Book>
}

@Entity final class Chapter: ManagedObject {
    @Attribute var heading: String
    @Relationship(.required) var book: Book?
}

/// One attribute of every type, required and optional.
@Entity final class Everything: ManagedObject {
    @Attribute var int16: Int16
    @Attribute var int32: Int32
    @Attribute var int64: Int64
    @Attribute var int: Int
    @Attribute var double: Double
    @Attribute var float: Float
    @Attribute var decimal: Decimal
    @Attribute var string: String
    @Attribute var boolean: Bool
    @Attribute var date: Date
    @Attribute var data: Data
    @Attribute var uuid: UUID
    @Attribute var url: URL
    @Attribute var optionalInt16: Int16?
    @Attribute var optionalInt32: Int32?
    @Attribute var optionalInt64: Int64?
    @Attribute var optionalInt: Int?
    @Attribute var optionalDouble: Double?
    @Attribute var optionalFloat: Float?
    @Attribute var optionalDecimal: Decimal?
    @Attribute var optionalString: String?
    @Attribute var optionalBoolean: Bool?
    @Attribute var optionalDate: Date?
    @Attribute var optionalData: Data?
    @Attribute var optionalUUID: UUID?
    @Attribute var optionalURL: URL?
}

@Entity class Chapter2: ManagedObject {
    @Attribute var heading: String
}
