import Foundation
import Quire
import Testing

/// Decimal numbers near the limits of their range.
@MainActor @Suite struct DecimalLimitSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Offer") {
            Attribute("name", .string)
            Attribute("price", .decimal)
        }
    }

    // “No limit” is written as the greatest decimal number; what a file keeps of it must be readable.
    // jqlang/jq#2013; Foundation, Decimal.greatestFiniteMagnitude
    @Test(arguments: SituationStore.allCases)
    func theGreatestAndTheSmallestDecimalNumberAreReadAgain(_ store: SituationStore) async throws {
        let prices: [String: Decimal] = [
            "greatest": .greatestFiniteMagnitude, "least": -.greatestFiniteMagnitude,
            "smallest": .leastNonzeroMagnitude,
            "beyond 1e128": Decimal(sign: .plus, exponent: 127, significand: 12345),
            "nines": try #require(Decimal(string: String(repeating: "9", count: 38) + "e90")),
        ]
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            for (name, price) in prices {
                let offer = try context.insertObject(entityName: "Offer")
                offer["name"] = name
                offer["price"] = price
            }
            try context.save()
            context.reset()
            for (name, price) in prices {
                var request = FetchRequest("Offer")
                request.predicate = try QueryPredicate(format: "name == %@", name)
                let offer = try #require(try context.fetch(request).first)
                let read = try #require(offer["price"] as? Decimal)
                // A SQLite store keeps the nearest floating-point number.
                let kept = try #require(Double(read.description))
                let given = try #require(Double(price.description))
                #expect(abs(kept / given - 1) < 1e-15, "\(name)")
                offer["price"] = Decimal(1)
            }
            try context.save()
        }
    }
}
