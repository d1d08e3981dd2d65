import Testing

/// What cannot work is said in a sentence, with a fix-it where there is one thing to do about it.
@Suite struct ComplaintTests {
    /// A member of a class, a part of what is said of it, and the member with the fix-it applied.
    struct Case: CustomTestStringConvertible {
        let member: String
        let complaint: String
        let mended: String?
        var testDescription: String { member }
    }

    @Test(arguments: [
        Case(
            member: "@Attribute let title: String", complaint: "needs a “var”",
            mended: "@Attribute var title: String"),
        Case(
            member: "@Attribute var description: String",
            complaint: "every managed object has a property “description”", mended: nil),
        Case(
            member: "@Relationship(inverse: \"book\") var `entity`: Thing?",
            complaint: "every managed object has a property “entity”", mended: nil),
        Case(
            member: "@Attribute var title", complaint: "requires an explicit type",
            mended: "@Attribute var title: <#type#>"),
        Case(
            member: "@Attribute var made: Date = Date()", complaint: "awakeFromInsert()",
            mended: "@Attribute var made: Date"),
        Case(
            member: "@Attribute var made: Date = .now", complaint: "awakeFromInsert()",
            mended: "@Attribute var made: Date"),
        Case(
            member: "@Attribute var title: String = \"\\(Date())\"", complaint: "awakeFromInsert()",
            mended: "@Attribute var title: String"),
        Case(
            member: "@Attribute(default: 3) var year: Int = 4", complaint: "already specified",
            mended: "@Attribute(default: 3) var year: Int"),
        Case(
            member: "@Attribute(derived: \"books.@count\") var count: Int = 4",
            complaint: "no initial value",
            mended: "@Attribute(derived: \"books.@count\") var count: Int"
        ),
        Case(
            member: "@Attribute(default: 3, derived: \"books.@count\") var count: Int",
            complaint: "no default value", mended: nil),
        Case(
            member: "@FetchedProperty var books: Set<Book>", complaint: "is an Array of objects",
            mended: nil),
        Case(
            member: "@FetchedProperty var books: [Book] = []", complaint: "no initial value",
            mended: "@FetchedProperty var books: [Book]"),
        Case(
            member: "@FetchedProperty var names: [String]", complaint: "is a value, not an object",
            mended: nil),
        Case(
            member: "@Relationship var author: Author? = Author()",
            complaint: "has no related objects", mended: "@Relationship var author: Author?"),
        Case(
            member: "@Attribute static var title: String", complaint: "not of the class",
            mended: "@Attribute var title: String"),
        Case(
            member: "@Attribute var title: String { \"\" }",
            complaint: "generates the accessors", mended: "var title: String { \"\" }"),
        Case(
            member: "@Attribute var title: String { didSet { } }",
            complaint: "generates the accessors", mended: "var title: String { didSet { } }"),
        Case(
            member: "@Attribute var title: String!", complaint: "cannot be “String!”",
            mended: "@Attribute var title: String?"),
        Case(
            member: "@Attribute var titles: [String]", complaint: "not a type for an attribute",
            mended: nil),
        Case(
            member: "@Attribute var pair: (Int, Int)", complaint: "not a type for an attribute",
            mended: nil),
        Case(
            member: "@Attribute var anything: Any", complaint: "not a type for an attribute",
            mended: nil),
        Case(
            member: "@Attribute var map: [String: Int]?", complaint: "not a type for an attribute",
            mended: nil),
        Case(
            member: "@Relationship var author: Author", complaint: "must be optional",
            mended: "@Relationship var author: Author?"),
        Case(
            member: "@Relationship var tags: Set<Tag>?", complaint: "is not optional",
            mended: "@Relationship var tags: Set<Tag>"),
        Case(
            member: "@Relationship var tags: Set<Tag?>", complaint: "are not optional",
            mended: "@Relationship var tags: Set<Tag>"),
        Case(
            member: "@Relationship var tags: List<Tag>", complaint: "not a type for a relationship",
            mended: nil),
        Case(
            member: "@Relationship var name: String?", complaint: "is a value, not an object",
            mended: "@Attribute var name: String?"),
        Case(
            member: "@Relationship(inverse: \\Author.books.first) var author: Author?",
            complaint: "one relationship of the other class", mended: nil),
        Case(
            member: "var title: String", complaint: "mark it @Attribute",
            mended: "@Attribute var title: String"),
        Case(
            member: "var tags: Set<Tag>", complaint: "mark it @Relationship",
            mended: "@Relationship var tags: Set<Tag>"),
    ])
    func memberIsExplained(_ example: Case) {
        func source(_ member: String) -> String {
            "@Entity final class Book: ManagedObject {\n    \(member)\n}"
        }
        let expanded = ExpandedSource(source(example.member))
        #expect(expanded.complaints.count == 1)
        #expect(
            expanded.complaints.first?.contains(example.complaint) == true,
            "\(expanded.complaints)")
        #expect(expanded.mended == source(example.mended ?? example.member))
        if let mended = example.mended, !mended.contains("<#") {
            #expect(ExpandedSource(source(mended)).complaints.isEmpty)
        }
    }

    @Test func entityIsAClass() {
        let expanded = ExpandedSource("@Entity struct Book { }")
        #expect(
            expanded.complaints == [
                "@Entity is for classes: an object has one identity wherever it is used"
            ])
        #expect(expanded.mended == "@Entity final class Book { }")
        #expect(ExpandedSource("@Entity enum Book { }").complaints.count == 1)
        #expect(ExpandedSource("@Entity actor Book { }").complaints.count == 1)
    }

    @Test func entityHasASuperclass() {
        let expanded = ExpandedSource("@Entity final class Book { }")
        #expect(expanded.complaints.first?.contains("must be a subclass of ManagedObject") == true)
        #expect(expanded.mended == "@Entity final class Book: ManagedObject { }")
    }

    @Test func entityIsNotGeneric() {
        let expanded = ExpandedSource("@Entity final class Book<T>: ManagedObject { }")
        #expect(expanded.complaints.first?.contains("cannot be generic") == true)
    }

    @Test func relationshipsOfAClassDoNotNameEachOtherByKeyPaths() {
        let expanded = ExpandedSource(
            """
            @Entity final class Person: ManagedObject {
                @Relationship(inverse: \\Person.spouse) var spouse: Person?
                @Relationship(inverse: \\Person.reports) var manager: Person?
                @Relationship(inverse: "manager") var reports: Set<Person>
                @Relationship(inverse: \\Book.author) var books: Set<Book>
            }
            """)
        #expect(
            expanded.complaints == [
                "the compiler cannot resolve relationships that name each other by key paths; specify the inverse "
                    + "of “spouse” as a string, or on one side only"
            ])
        #expect(expanded.mended.contains(#"(inverse: "spouse") var spouse"#))
        #expect(expanded.mended.contains(#"(inverse: \Person.reports) var manager"#))
    }

    @Test(arguments: [
        Case(
            member: "@Composite class Place { var x: Double }", complaint: "is for structures",
            mended: "@Composite struct Place { var x: Double }"),
        Case(
            member: "@Composite enum Place { case here }", complaint: "is for structures",
            mended: nil),
        Case(
            member: "@Composite struct Place<T> { var x: T }", complaint: "cannot be generic",
            mended: nil),
        Case(
            member: "@Composite struct Place { static let x = 1 }",
            complaint: "requires an element",
            mended: nil),
        Case(
            member: "@Composite struct Place { let x: Int = 1 }",
            complaint: "is the same in all values",
            mended: "@Composite struct Place { var x: Int = 1 }"),
        Case(
            member: "@Composite struct Place { var x = 1.5 }",
            complaint: "requires an explicit type",
            mended: "@Composite struct Place { var x: <#type#> = 1.5 }"),
        Case(
            member: "@Composite struct Place { var x: [Double] }", complaint: "has one value",
            mended: nil),
        Case(
            member: "@Composite struct Place { var x: Double, y: Double }",
            complaint: "a separate “var”", mended: nil),
    ])
    func compositesAreStructuresOfValues(_ one: Case) {
        let expanded = ExpandedSource(one.member)
        #expect(expanded.complaints.count == 1)
        #expect(expanded.complaints.first?.contains(one.complaint) == true)
        #expect(expanded.mended == one.mended ?? one.member)
    }

    @Test func propertiesBelongInEntities() {
        let expanded = ExpandedSource("class Book: ManagedObject { @Attribute var title: String }")
        #expect(
            expanded.complaints == [
                "@Attribute is for properties of a class marked @Entity; mark Book @Entity"
            ])
    }

    @Test func uniqueNamesAreProperties() {
        let expanded = ExpandedSource(
            """
            @Entity(unique: [["isbn", "yaer"]], indexes: [["titel"]]) class Book: ManagedObject {
                @Attribute var isbn: String
                @Attribute var year: Int
            }
            """)
        #expect(
            expanded.complaints == [
                "Book has no attribute or relationship “yaer”",
                "Book has no attribute or relationship “titel”",
            ])
    }
}
