import Foundation
import Quire
import QuireMacros
import Testing

enum Shelf: String, Codable { case fresh, reduced, gone }

@Entity final class Product: ManagedObject {
    @Attribute var name: String
    @Attribute(default: 0, minimum: 0) var price: Int
    @Attribute(default: Shelf.fresh) var shelf: Shelf
    @Attribute var bestBefore: Date?
    @Relationship(inverse: \Maker.products) var maker: Maker?
}

@Entity final class Maker: ManagedObject {
    @Attribute var name: String
    @Relationship(deleteRule: .cascade) var products: Set<Product>
}

/// Many objects changed at once, in the store.
@MainActor @Suite struct BatchWorkTests {
    private let container: PersistentContainer
    private var context: ManagedObjectContext { container.viewContext }

    init() throws {
        let description = PersistentStoreDescription(type: .inMemory)
        container = try PersistentContainer(
            managedObjectModel: ManagedObjectModel(classes: [Product.self, Maker.self]),
            persistentStoreDescriptions: [description])
        let maker = Maker(context: container.viewContext)
        maker.name = "Dairy"
        try container.viewContext.save()
        let goods = [("Butter", 250), ("Cheese", 400), ("Milk", 110)]
        let insert = try BatchInsertRequest(Product.self, objects: goods) { row, good in
            try row.set(\.name, to: good.0)
            try row.set(\.price, to: good.1)
            try row.set(\.maker, to: maker)
        }
        try container.viewContext.execute(insert)
    }

    private var products: [Product] {
        get throws {
            Array(try context.fetch(Product.self, sortBy: [SortDescriptor(\.name)]))
        }
    }

    @Test func anUpdateIsMergedIntoContexts() throws {
        let products = try products
        #expect(products.map(\.price) == [250, 400, 110])
        var update = try BatchUpdateRequest(Product.self, where: #Predicate { $0.price > 200 })
        try update.set(\Product.price, to: QueryExpression(format: "price / 2"))
        try update.set(\Product.shelf, to: .reduced)
        update.resultType = .objectIDs
        let result = try context.execute(update)
        #expect(result.count == 2)
        #expect(result.changes.updated.count == 2)
        #expect(products.map(\.price) == [250, 400, 110])
        context.mergeChanges(from: result.changes)
        #expect(products.map(\.price) == [125, 200, 110])
        #expect(products.map(\.shelf) == [.reduced, .reduced, .fresh])
        #expect(!context.hasChanges)
    }

    @Test func aMissingValueIsSet() throws {
        var update = try BatchUpdateRequest(Product.self)
        try update.set(\Product.bestBefore, to: Date(timeIntervalSinceReferenceDate: 0))
        try context.execute(update)
        #expect(
            try context.count(for: Product.self, where: #Predicate { $0.bestBefore != nil }) == 3)
        try update.set(\Product.bestBefore, to: nil)
        try context.execute(update)
        #expect(
            try context.count(for: Product.self, where: #Predicate { $0.bestBefore == nil }) == 3)
    }

    @Test func aDeletionIsMergedIntoContexts() throws {
        let milk = try #require(try products.last)
        var deletion = try BatchDeleteRequest(Product.self, where: #Predicate { $0.name == "Milk" })
        deletion.resultType = .objectIDs
        let result = try context.execute(deletion)
        #expect(result.changes.deleted == [milk.objectID])
        ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [context])
        #expect(milk.isDeleted || milk.managedObjectContext == nil)
        #expect(try products.map(\.name) == ["Butter", "Cheese"])

        var all = Maker.fetchRequest()
        all.predicate = try QueryPredicate(format: "name == %@", "Dairy")
        #expect(try context.execute(BatchDeleteRequest(fetchRequest: all)).count == 3)
        #expect(try context.count(for: Product.self) == 0)
    }

    @Test func rowsByKeyAreInserted() throws {
        let request = BatchInsertRequest(
            entityName: "Product",
            objects: [["name": "Cream", "price": 190], ["name": "Yoghurt", "price": 80]])
        #expect(try context.execute(request).count == 2)
        #expect(try products.count == 5)
        let cream = "Cream"
        let more = BatchInsertRequest(entityName: "Product", objects: [["name": .string(cream)]])
        try context.execute(more)
    }

    @Test func rowsAndValuesAreOfSwiftsOwnTypes() throws {
        let name = "Cream"
        let price = 190
        let rows: [[String: Any]] = [
            ["name": name, "price": price], ["name": "Yoghurt", "price": Int16(80)],
        ]
        let request = BatchInsertRequest(entityName: "Product", objects: rows)
        #expect(try context.execute(request).count == 2)
        #expect(try products.count == 5)
        let maker = try #require(try context.fetch(Maker.fetchRequest()).first)
        let more = BatchInsertRequest(
            entityName: "Product", objects: [["name": name + "!", "price": price, "maker": maker]])
        #expect(try context.execute(more).count == 1)

        var update = BatchUpdateRequest(entityName: "Product")
        update.predicate = try QueryPredicate(format: "name == %@", name)
        update.propertiesToUpdate = ["price": price + 5]
        update.propertiesToUpdate["name"] = QueryExpression.function(.uppercase, [.key("name")])
        try context.execute(update)
        #expect(try products.first { $0.name == "CREAM" }?.price == 195)
    }

    @Test func valuesOfOtherTypesAreNamedByTheRequest() throws {
        struct Odd {}
        let rows: [[String: Any]] = [["name": "a", "price": 1], ["name": Odd(), "price": 1]]
        let error = #expect(throws: QuireError.self) {
            try context.execute(BatchInsertRequest(entityName: "Product", objects: rows))
        }
        #expect(error?.code == .invalidValue)
        #expect(error?.subject.position == 2)
        #expect(error?.subject.property == "name")
        #expect(try products.count == 3)

        var update = BatchUpdateRequest(entityName: "Product", propertiesToUpdate: ["name": Odd()])
        update.propertiesToUpdate["price"] = 1
        let failure = #expect(throws: QuireError.self) { try context.execute(update) }
        #expect(failure?.code == .invalidValue)
        #expect(failure?.message.contains("“Product.name”") == true)
    }

    @Test func aRuleOfTheModelStopsAll() throws {
        var update = try BatchUpdateRequest(Product.self)
        try update.set(\Product.price, to: QueryExpression(format: "price - 200"))
        let error = #expect(throws: QuireError.self) { try context.execute(update) }
        #expect(error?.code == .validation)
        #expect(try products.map(\.price) == [250, 400, 110])
    }
}
