import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

@MainActor @Suite struct FullTextIndexTests {
    private static let model = ManagedObjectModel {
        Entity("Note") {
            Attribute("title", .string)
            Attribute("text", .string)
        }
        Entity("Letter", inherits: "Note") {
            Attribute("signature", .string)
            Index("byText", on: "title", "text", "signature").fullText()
        }
    }

    @Test func indexFindsWhatMemoryFindsAfterRandomEdits() throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let stack = try TestStack(Self.model)
        let store = try #require(stack.coordinator.store as? SQLiteStore)
        let letter = try #require(store.layout.entity(named: "Letter"))
        let slot = try #require(letter.slot(named: "text"))
        let (index, column) = try #require(
            store.schema.fullTextIndex(of: letter, covering: slot))
        let note = try #require(store.layout.entity(named: "Note"))
        #expect(store.schema.fullTextIndex(of: note, covering: slot)?.column == nil)
        let context = stack.mainContext()
        let words = ["Emma", "ÉMMA", "woodhouse", "Knightley's", "o'clock", "", "§", "Ω"]
        func text() -> AttributeValue {
            random.next() % 6 == 0
                ? .null
                : .string(
                    (0..<4).map { _ in words.randomElement(using: &random) ?? "" }
                        .joined(separator: " "))
        }
        for step in 0..<25 {
            for _ in 0..<4 {
                let notes = try context.fetch(FetchRequest("Note"))
                switch random.next() % 4 {
                case 0:
                    if let note = notes.randomElement(using: &random) { context.delete(note) }
                case 1: notes.randomElement(using: &random)?["text"] = text()
                default:
                    let note = try context.insertObject(
                        entityName: random.next() % 4 == 0 ? "Note" : "Letter")
                    note["text"] = text()
                    note["title"] = text()
                }
            }
            try context.save()
            for query in ["emma", "wood*", "\"emma woodhouse\"", "emma -ω", "s", "ω OR o"] {
                let search = try TextSearch(query)
                let expected = try Set(
                    context.fetch(FetchRequest("Letter"))
                        .filter { search.matches($0["text", as: String.self] ?? "") }
                        .map(\.objectID.primaryKey))
                let expression = try #require(search.matchExpression(in: [column]))
                let found = try store.read { connection in
                    try connection.withStatement(
                        "SELECT rowid FROM \(index.name) WHERE \(index.name) MATCH ?"
                    ) { statement in
                        try statement.bind(expression, at: 1)
                        var keys: Set<Int64> = []
                        while try statement.step() { keys.insert(statement.integer(0)) }
                        return keys
                    }
                }
                #expect(found == expected, "seed \(seed), step \(step), query \(query)")
            }
        }
        #expect(try store.integrityProblems() == [])
        try store.executeOnWriter(
            "INSERT INTO \(index.name) (\(index.name)) VALUES ('integrity-check')")
    }
}
