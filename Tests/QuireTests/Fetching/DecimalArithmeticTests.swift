import Foundation
import Quire
import QuireTestSupport
import Testing

/// Arithmetic and aggregates of decimal numbers, which are decimal numbers in every kind of store: 5.1 and 0.1 are 5.2.
@MainActor @Suite struct DecimalArithmeticTests {
    nonisolated static let types: [StoreType] = [.sqlite, .xml, .binary, .inMemory]

    private let folder: TemporaryFolder
    private static let model = ManagedObjectModel {
        Entity("Bill") {
            Attribute("total", .decimal).derived("items.price.@sum")
            Attribute("balance", .decimal)
            Attribute("whole", .integer64)
            ToMany("items", "Item", inverse: "bill")
        }
        Entity("Item") {
            Attribute("price", .decimal)
            Attribute("count", .integer16)
            ToOne("bill", "Bill", inverse: "items")
        }
    }

    init() throws { folder = try TemporaryFolder() }

    private func number(_ text: String) throws -> Decimal { try #require(Decimal(string: text)) }

    private func context(_ type: StoreType) throws -> ManagedObjectContext {
        let description =
            type == .inMemory
            ? PersistentStoreDescription(type: .inMemory)
            : PersistentStoreDescription(path: folder.path("store"), type: type)
        let context = try PersistentContainer(
            managedObjectModel: Self.model, persistentStoreDescriptions: [description]
        ).viewContext
        let bill = try context.insertObject(entityName: "Bill")
        bill["balance"] = try number("0.2")
        for (price, count) in [("5.1", 3), ("0.1", 1), (nil, 2)] {
            let item = try context.insertObject(entityName: "Item")
            item["price"] = try price.map { try number($0) }
            item["count"] = count
            item["bill"] = bill
        }
        try context.save()
        return context
    }

    @Test(arguments: types) func conditionsComputeDecimalNumbers(type: StoreType) throws {
        let context = try context(type)
        func count(_ entity: String, _ format: String) throws -> Int {
            try context.count(
                for: FetchRequest<ManagedObject>(entity, predicate: QueryPredicate(format: format)))
        }
        let bill = try #require(try context.fetch(FetchRequest<ManagedObject>("Bill")).first)
        for format in [
            "total == 5.2", "items.@sum.price == 5.2", "items.@avg.price == 2.6",
            "balance + 0.1 == 0.3", "balance * 3 == 0.6", "balance - 0.3 == -0.1",
            "balance / 4 == 0.05", "balance + balance + 0.2 == 0.6", "median(items.price) == 2.6",
            "SUBQUERY(items, $i, $i.price * $i.count == 15.3).@count == 1", "balance / 0 == nil",
            "items.@sum.price + balance == 5.4",
        ] {
            #expect(try count("Bill", format) == 1, "\(format)")
            #expect(try QueryPredicate(format: format).evaluate(with: bill), "\(format)")
        }
        #expect(try count("Item", "price * count == 15.3") == 1)
        #expect(try count("Item", "price + nil == nil") == 3)
        #expect(try bill.value(forKeyPath: "items.@sum.price") as? Decimal == number("5.2"))
        #expect(try bill.value(forKeyPath: "items.@avg.price") as? Decimal == number("2.6"))
    }

    @Test(arguments: types) func dictionariesAndBatchesComputeDecimalNumbers(type: StoreType) throws
    {
        let context = try context(type)
        var request = FetchRequest("Item")
        request.propertiesToFetch = [
            try ExpressionDescription("sum", format: "sum(price)"),
            try ExpressionDescription("average", format: "average(price)"),
            try ExpressionDescription("product", format: "sum(price * count)"),
        ]
        let row = try #require(try context.fetchDictionaries(request).first)
        #expect(row["sum"] == .decimal(try number("5.2")))
        #expect(row["average"] == .decimal(try number("2.6")))
        #expect(row["product"] == .decimal(try number("15.4")))
        var update = BatchUpdateRequest(entityName: "Bill")
        update.propertiesToUpdate["balance"] = try QueryExpression(format: "balance + 0.1")
        #expect(try context.execute(update).count == 1)
        context.refreshAllObjects()
        let bill = try #require(try context.fetch(FetchRequest<ManagedObject>("Bill")).first)
        #expect(bill["balance"] as? Decimal == (try number("0.3")))
        update.propertiesToUpdate = ["whole": try QueryExpression(format: "balance * 10")]
        #expect(try context.execute(update).count == 1)
        context.refreshAllObjects()
        #expect(bill["whole"] as? Int == 3)
    }
}
