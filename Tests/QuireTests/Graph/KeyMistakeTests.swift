import Foundation
import Quire
import QuireTestSupport
import Testing

private final class Loud: ManagedObject {
    var shout: String { (self["title", as: String.self] ?? "").uppercased() }
}

/// A key that names no property is a mistake of the source: it stops the program, at the caller's line. Values are data, and never do;
/// see `ValidationTests`.
@Suite struct KeyMistakeTests {
    @Test(arguments: 0..<12)
    func aWrongKeyStopsTheProgramAtTheCallersLine(_ form: Int) async throws {
        let result = try await #require(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) { [form = form as Int] in
            try await MainActor.run {
                let stack = try TestStack()
                let context = stack.mainContext()
                let book = try context.insertObject(entityName: "Book")
                let shelf = try context.insertObject(entityName: "Shelf")
                switch form {
                case 0: _ = book["titel"]
                case 1: book["titel"] = "Emma"
                case 2: _ = book["titel", as: String.self]
                case 3: book["titel", as: AttributeValue.self] = .string("Emma")
                case 4: _ = book["writer", as: ManagedObject.self]
                case 5: _ = shelf["titles", as: Set<ManagedObject>.self]
                case 6: _ = book.object("writer")
                case 7: _ = shelf.objectIDs("titles")
                case 8: shelf.add(book, to: "titles")
                case 9: shelf.moveObject(in: "titles", from: 0, to: 1)
                case 10: _ = book.hasFault(forRelationshipNamed: "writer")
                default: _ = shelf.observe("titles") { _ in }
                }
            }
        }
        let text = String(decoding: result.standardErrorContent, as: UTF8.self)
        #expect(text.contains("QuireTests/KeyMistakeTests.swift:"), "\(form): \(text.prefix(500))")
        #expect(text.contains("has no "), "\(form): \(text.prefix(500))")
    }

    @Test(arguments: 0..<3)
    func aKeyPathWithoutANameStopsTheProgramAtTheCallersLine(_ form: Int) async throws {
        let result = try await #require(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) { [form = form as Int] in
            try await MainActor.run {
                switch form {
                case 0: _ = SortOrdering(\Loud.shout)
                case 1: _ = QueryExpression.key(\Loud.shout)
                default:
                    _ = Loud(context: try TestStack().mainContext())
                }
            }
        }
        let text = String(decoding: result.standardErrorContent, as: UTF8.self)
        #expect(text.contains("QuireTests/KeyMistakeTests.swift:"), "\(form): \(text.prefix(500))")
    }
}
