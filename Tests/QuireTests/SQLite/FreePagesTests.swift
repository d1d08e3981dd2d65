import Foundation
import Quire
import QuireTestSupport
import Testing

/// Pages that nothing uses any more return to the file system.
@MainActor @Suite struct FreePagesTests {
    private func pages(_ pragma: String, _ path: String) throws -> Int {
        try #require(Int(SQLiteTestStore.query("PRAGMA \(pragma)", path: path)[0][0]))
    }

    @Test func storeShrinksAfterDeletions() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        for number in 0..<4_000 {
            try context.insertObject(entityName: "Tag")["name"] =
                "\(number) " + String(repeating: "x", count: 2_000)
        }
        try context.save()
        let before = try pages("page_count", stack.path)
        #expect(before > 2_000)
        for tag in try context.fetch(FetchRequest("Tag")) { context.delete(tag) }
        // A transaction returns a limited number of pages.
        for number in 0..<8 {
            try context.insertObject(entityName: "Tag")["name"] = "\(number)"
            try context.save()
        }
        #expect(try pages("freelist_count", stack.path) < 256)
        #expect(try pages("page_count", stack.path) < 400)
        #expect(try context.count(for: FetchRequest("Tag")) == 8)
        let store = try #require(stack.coordinator.persistentStores.first as? SQLiteStore)
        #expect(try store.integrityProblems() == [])
    }
}
