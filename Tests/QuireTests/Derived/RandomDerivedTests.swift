import Foundation
import Quire
import QuireTestSupport
import Testing

/// Random edits of a library, after each of which all derived attributes are what they must be.
@MainActor @Suite struct RandomDerivedTests {
    @Test(arguments: ContextArrangement.allCases, [1, 2, 3, 4] as [UInt64])
    func derivedValuesAreRightAfterRandomEdits(arrangement: ContextArrangement, salt: UInt64) throws
    {
        let seed = SeededRandom.baseSeed &* 1000 &+ salt
        var random = SeededRandom(seed: seed)
        let stack = try TestStack(DerivedWorld.model)
        let context = stack.context(arrangement)
        context.undoManager = UndoManager()
        for step in 0..<120 {
            try edit(context, &random)
            context.processPendingChanges()
            if random.next() % 6 == 0 { context.undo() }
            if random.next() % 4 == 0 {
                try DerivedWorld.check(context, "seed \(seed), step \(step), unsaved")
            }
            if random.next() % 5 == 0 {
                try random.next() % 3 == 0 ? context.save() : stack.save(context)
                try DerivedWorld.check(context, "seed \(seed), step \(step), saved")
            }
            if random.next() % 25 == 0 { context.refreshAllObjects() }
            if random.next() % 40 == 0 { context.rollback() }
        }
        try stack.save(context)
        try DerivedWorld.check(context, "seed \(seed), at the end")
        try DerivedWorld.check(stack.mainContext(), "seed \(seed), as stored")
    }

    private func edit(_ context: ManagedObjectContext, _ random: inout SeededRandom) throws {
        func any(_ entity: String) throws -> ManagedObject? {
            try context.fetch(FetchRequest(entity)).randomElement(using: &random)
        }
        switch random.next() % 12 {
        case 0:
            try context.insertObject(entityName: "Author")["name"] = name(&random)
        case 1, 2:
            let book = try context.insertObject(
                entityName: random.next() % 3 == 0 ? "Novel" : "Book")
            book["pages"] = Int64(random.next() % 100)
            book["price"] = Decimal(Int(random.next() % 10_000)) / 100
            book["author"] = try any("Author")
        case 3: try context.insertObject(entityName: "Tag")["weight"] = 3
        case 4: try any("Author")?["name"] = name(&random)
        case 5:
            let book = try any("Book")
            book?["pages"] = random.next() % 4 == 0 ? nil : Int64(random.next() % 100)
            book?["stars"] = Double(random.next() % 100) / 8
            book?["title"] = name(&random)
        case 6: try any("Book")?["price"] = Decimal(Int(random.next() % 10_000)) / 100
        case 7: try any("Tag")?["weight"] = Int64(random.next() % 10)
        case 8:
            try any("Book")?["author"] = random.next() % 4 == 0 ? nil : any("Author")
        case 9:
            if let book = try any("Book"), let tag = try any("Tag") {
                if book.objects("tags").contains(tag) {
                    tag.remove(book, from: "books")
                } else {
                    book.add(tag, to: "tags")
                }
            }
        case 10:
            if let object = try any(["Author", "Book", "Tag"].randomElement(using: &random) ?? "") {
                context.delete(object)
            }
        default: try any("Author")?["books"] = [any("Book")].compactMap { $0 }
        }
    }

    private func name(_ random: inout SeededRandom) -> String {
        ["Ärger", "éCOLE", "straße", "İstanbul", "Ωmega", "plain", ""]
            .randomElement(using: &random) ?? ""
    }
}
