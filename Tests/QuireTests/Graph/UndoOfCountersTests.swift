import Foundation
import Testing

@testable import Quire
@testable import QuireTestSupport

/// Undo of a counter subtracts what was added here, and keeps what others have added since.
@MainActor @Suite struct UndoOfCountersTests {
    /// A context with an undo manager, and another one whose saves it merges.
    private func contexts(
        _ type: AttributeType
    ) throws -> (stack: TestStack, context: ManagedObjectContext, other: ManagedObjectContext) {
        let stack = try TestStack(
            ManagedObjectModel {
                Entity("Book") {
                    Attribute("reads", type).userInfo(["syncPolicy": "counter"])
                    Attribute("copies", type)
                }
            })
        let context = stack.mainContext()
        context.automaticallyMergesChangesFromParent = true
        context.undoManager = UndoManager()
        return (stack, context, stack.mainContext())
    }

    @Test(arguments: [
        AttributeType.integer16, .integer32, .integer64, .decimal, .double, .float,
    ])
    func whatOthersAddedStays(_ type: AttributeType) throws {
        let (stack, context, other) = try contexts(type)
        defer { withExtendedLifetime(stack) {} }
        let book = try context.insertObject(entityName: "Book")
        book["reads"] = 5
        book["copies"] = 5
        try context.save()
        for value in [6, 8] {
            book["reads"] = value
            book["copies"] = value
            try context.save()
        }
        let same = other.object(with: book.objectID)
        for key in ["reads", "copies"] { same[key] = 18 }
        try other.save()

        func expect(_ number: Int, _ step: Comment, copies: Int? = nil) throws {
            try context.save()
            #expect(Double("\(book["reads"] ?? "")") == Double(number), step)
            guard let copies else { return }
            #expect(Double("\(book["copies"] ?? "")") == Double(copies), step)
        }
        try expect(18, "merged", copies: 18)
        context.undo()
        try expect(16, "undone", copies: 6)
        context.undo()
        try expect(15, "undone again", copies: 5)
        context.redo()
        try expect(16, "redone")
        context.redo()
        try expect(18, "redone again")
    }

    @Test func nullCountsAsZero() throws {
        let (stack, context, other) = try contexts(.integer32)
        defer { withExtendedLifetime(stack) {} }
        let book = try context.insertObject(entityName: "Book")
        try context.save()
        book["reads"] = 2
        try context.save()
        context.undo()
        #expect(book["reads", as: Int.self] == nil)
        context.redo()
        try context.save()
        other.object(with: book.objectID)["reads"] = 5
        try other.save()
        try context.save()
        #expect(book["reads", as: Int.self] == 5)
        context.undo()
        #expect(book["reads", as: Int.self] == 3)
    }

    @Test func undoRestoresTheOldValueIfTheSumIsOutOfRange() throws {
        let (stack, context, other) = try contexts(.integer16)
        defer { withExtendedLifetime(stack) {} }
        let book = try context.insertObject(entityName: "Book")
        book["reads"] = 30_000
        try context.save()
        book["reads"] = 0
        try context.save()
        other.object(with: book.objectID)["reads"] = 30_000
        try other.save()
        try context.save()
        context.undo()
        #expect(book["reads", as: Int.self] == 30_000)
        try context.save()
    }
}
