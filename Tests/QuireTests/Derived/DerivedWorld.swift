import Foundation
import Quire
import QuireTestSupport
import Testing

/// Every form of derived attribute, over every kind of relationship, and what their values must be.
enum DerivedWorld {
    static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string)
            Attribute("canonicalName", .string).derived("canonical:(name)")
            Attribute("upperName", .string).derived("uppercase(name)")
            Attribute("lowerName", .string).derived("lowercase:(name)")
            Attribute("bookCount", .integer32).derived("books.@count")
            Attribute("pages", .integer64).derived("books.@sum.pages")
            Attribute("stars", .double).derived("books.stars.@sum")
            Attribute("income", .decimal).derived("books.@sum.price")
            Attribute("saved", .date).derived("now()")
            ToMany("books", "Book", inverse: "author")
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("pages", .integer32)
            Attribute("stars", .double)
            Attribute("price", .decimal)
            Attribute("titleCopy", .string).derived("title")
            Attribute("authorName", .string).derived("author.name")
            Attribute("authorUpper", .string).derived("uppercase:(author.name)")
            Attribute("tagCount", .integer64).derived("tags.@count")
            Attribute("tagWeight", .integer64).derived("tags.@sum.weight")
            ToOne("author", "Author", inverse: "books")
            ToMany("tags", "Tag", inverse: "books")
        }
        Entity("Novel", inherits: "Book") {
            Attribute("chapters", .integer16)
            Attribute("chapterCopy", .integer16).derived("chapters")
            Attribute("readerCount", .integer64).derived("readers.@count")
            ToMany("readers", "Author")
        }
        Entity("Tag") {
            Attribute("weight", .integer16)
            Attribute("prices", .decimal).derived("books.@sum.price")
            ToMany("books", "Book", inverse: "tags")
        }
    }

    /// What an object's derived attributes must be, by what the object and its relationships say.
    static func expected(_ object: ManagedObject) -> [String: AttributeValue] {
        func text(_ value: String?) -> AttributeValue { value.map { .string($0) } ?? .null }
        func live(_ key: String) -> [ManagedObject] {
            object.objects(key).filter { !$0.isDeleted }
        }
        switch object.resolvedEntity.name {
        case "Author":
            let name = object["name", as: String.self]
            let books = live("books")
            return [
                // A letter stays one letter, so that ß is not ss.
                "canonicalName": text(
                    name?.replacing("ß", with: "\u{1}").folding(
                        options: [.caseInsensitive, .diacriticInsensitive], locale: nil
                    ).replacing("\u{1}", with: "ß")),
                "upperName": text(name?.uppercased()), "lowerName": text(name?.lowercased()),
                "bookCount": .integer(Int64(books.count)),
                "pages": .integer(books.reduce(0) { $0 + ($1["pages", as: Int64.self] ?? 0) }),
                "stars": .double(books.reduce(0) { $0 + ($1["stars", as: Double.self] ?? 0) }),
                "income": .decimal(books.reduce(0) { $0 + ($1["price", as: Decimal.self] ?? 0) }),
            ]
        case "Tag":
            return [
                "prices": .decimal(
                    live("books").reduce(0) { $0 + ($1["price", as: Decimal.self] ?? 0) })
            ]
        default:
            let author = object.object("author").flatMap { $0.isDeleted ? nil : $0 }
            let tags = live("tags")
            var values: [String: AttributeValue] = [
                "titleCopy": text(object["title", as: String.self]),
                "authorName": text(author?["name", as: String.self]),
                "authorUpper": text(author?["name", as: String.self]?.uppercased()),
                "tagCount": .integer(Int64(tags.count)),
                "tagWeight": .integer(tags.reduce(0) { $0 + ($1["weight", as: Int64.self] ?? 0) }),
            ]
            if object.resolvedEntity.name == "Novel" {
                values["chapterCopy"] = object["chapters", as: AttributeValue.self]
                values["readerCount"] = .integer(Int64(live("readers").count))
            }
            return values
        }
    }

    /// Compares the derived attributes of all objects that a context finds, and finds them by these. Sums of floating-point numbers may differ
    /// by their order.
    @MainActor static func check(
        _ context: ManagedObjectContext, _ comment: Comment? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        for entity in ["Author", "Book", "Tag"] {
            for object in try context.fetch(FetchRequest(entity)) {
                // Before anything else is read, which could bring it up to date.
                let names = expectedNames(object)
                let found = names.map { object[$0, as: AttributeValue.self] }
                let wanted = expected(object)
                for (name, value) in zip(names, found) {
                    let want = wanted[name] ?? .null
                    if case .double(let left) = value, case .double(let right) = want {
                        #expect(
                            abs(left - right) < 1e-9, comment, sourceLocation: sourceLocation)
                    } else if value != want {
                        Issue.record(
                            "\(comment.map { "\($0): " } ?? "")\(object.objectID).\(name) is \(value), not \(want)",
                            sourceLocation: sourceLocation)
                    }
                }
            }
            try checkRequests(context, entity, comment, sourceLocation)
        }
    }

    /// Asks for objects by the values of derived attributes, and for an order by them.
    @MainActor private static func checkRequests(
        _ context: ManagedObjectContext, _ entity: String, _ comment: Comment?,
        _ sourceLocation: SourceLocation
    ) throws {
        let all = Array(try context.fetch(FetchRequest(entity)))
        guard let first = all.first(where: { $0.resolvedEntity.name == entity }) else { return }
        for name in expectedNames(first) where name != "stars" {
            let value = first[name, as: AttributeValue.self]
            // Nothing is equal to what is not there, and texts are compared as SQLite does only if they are ASCII.
            guard value != .null else { continue }
            let wanted = Set(
                all.filter { $0[name, as: AttributeValue.self] == value }.map(\.objectID))
            var request = FetchRequest(
                entity,
                predicate: .comparison(QueryComparison(.key(name), .equal, .constant(value))))
            let found = try context.fetch(request)
            let remark = Comment(rawValue: "\(comment.map { "\($0): " } ?? "")\(entity).\(name)")
            #expect(
                Set(found.map(\.objectID)) == wanted, remark, sourceLocation: sourceLocation)
            #expect(
                try context.count(for: request) == wanted.count, remark,
                sourceLocation: sourceLocation)
            request.predicate = nil
            request.sortOrderings = [SortOrdering(name)]
            if case .integer = value {
                let numbers = try context.fetch(request).map { $0[name, as: Int64.self] ?? .min }
                #expect(numbers == numbers.sorted(), remark, sourceLocation: sourceLocation)
            }
        }
    }

    private static func expectedNames(_ object: ManagedObject) -> [String] {
        object.resolvedEntity.slots.filter { $0.isDerived && $0.name != "saved" }.map(\.name)
    }
}
