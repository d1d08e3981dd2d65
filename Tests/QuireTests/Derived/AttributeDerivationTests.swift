import QuireTestSupport
import Testing

@testable import Quire

@Suite struct AttributeDerivationTests {
    @Test(arguments: [
        ("books.@count", AttributeDerivation.Form.count(relationship: "books")),
        (" books.@sum.price ", .sum(relationship: "books", attribute: "price")),
        ("books.price.@sum", .sum(relationship: "books", attribute: "price")),
        ("books.@sum.size.width", .sum(relationship: "books", attribute: "size.width")),
        ("author.name", .copy(["author", "name"])), ("name", .copy(["name"])),
        ("canonical:(name)", .text(.canonical, ["name"])),
        ("canonical(name)", .text(.canonical, ["name"])),
        ("uppercase:( author.name )", .text(.uppercase, ["author", "name"])),
        ("lowercase:(name)", .text(.lowercase, ["name"])), ("now()", .now), ("now:()", .now),
    ])
    func formsAreRead(text: String, form: AttributeDerivation.Form) throws {
        #expect(try AttributeDerivation(text).form == form)
    }

    @Test(arguments: [
        "", ".", "a.", "@count", "books.@count.x", "books.x.@count", "books.@max.x", "books.@sum",
        "a.b.@sum.c", "now(x)", "canonical:()", "canonical:(a", "trim:(a)", "a + b", "a..b",
        "books.@sum.@sum", "(a)", "1", "canonical:(a.@count)",
    ])
    func whatIsNoDerivationIsRefused(text: String) {
        let error = #expect(throws: QuireError.self) { try AttributeDerivation(text) }
        #expect(error?.code == .invalidModel)
        #expect(error?.message.contains("toMany.@count") == true)
    }

    @Test(arguments: [
        ("books.@count", AttributeType.string, "gives an integer"),
        ("pen.@count", .integer64, "no property “pen”"),
        ("name.@count", .integer64, "is not a to-many relationship"),
        ("spouse.@count", .integer64, "is not a to-many relationship"),
        ("books.@sum.title", .integer64, "which cannot be summed"),
        ("books.@sum.missing", .integer64, "“Book” has no property “missing”"),
        ("books.@sum.price", .integer64, "gives a sum of type"),
        ("books.@sum.pages", .decimal, "gives a sum of type"),
        ("books.title", .string, "use “@count” or “@sum”"),
        ("spouse", .string, "specify one of its attributes"),
        ("spouse.spouse.name", .string, "at most one relationship"),
        ("spouse.bookCount", .integer64, "is itself derived"),
        ("name", .integer16, "gives a value of type"),
        ("uppercase:(born)", .string, "requires text"),
        ("now()", .string, "gives a date"), ("draft", .string, "is transient"),
        ("books.@avg.pages", .double, "is not a derivation"),
    ])
    func whatCannotBeDerivedIsRefused(text: String, type: AttributeType, reason: String) {
        let model = ManagedObjectModel {
            Entity("Author") {
                Attribute("name", .string)
                Attribute("born", .integer16)
                Attribute("draft", .string).transient()
                Attribute("bookCount", .integer64).derived("books.@count")
                Attribute("derived", type).derived(text)
                ToOne("spouse", "Author", inverse: "spouse")
                ToMany("books", "Book", inverse: "author")
            }
            Entity("Book") {
                Attribute("title", .string)
                Attribute("pages", .integer32)
                Attribute("price", .decimal)
                ToOne("author", "Author", inverse: "books")
            }
        }
        let error = #expect(throws: QuireError.self) { try model.validate() }
        #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("“Author.derived”") == true)
    }
}
