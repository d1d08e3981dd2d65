import Foundation
import Quire
import Testing

/// Decimal numbers in tombstones.
@MainActor @Suite struct TombstoneDecimalSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Offer") { Attribute("price", .decimal).preservedInHistoryOnDeletion() }
    }

    // The price of what was deleted is sent to a server, which must find it.
    // jqlang/jq#46; Apple, “Track model changes with SwiftData history”: preserveValueOnDeletion
    @Test(arguments: ["19.99", "0.1", "-1234567.89", "1e100", "12345678901234", "0"])
    func aTombstoneHasTheSavedDecimalNumber(_ text: String) async throws {
        let price = try #require(Decimal(string: text))
        try await withProgramFolder { folder in
            let container = try await SituationStore.sqlite.container(Self.model, in: folder) {
                $0.tracksHistory = true
            }
            let context = container.viewContext
            let offer = try context.insertObject(entityName: "Offer")
            offer["price"] = price
            try context.save()
            context.delete(offer)
            try context.save()
            let changes = try context.execute(.fetchHistory(after: nil)).transactions
                .flatMap(\.changes)
            let tombstone = try #require(changes.first { $0.kind == .delete }?.tombstone)
            #expect(tombstone["price"] as? Decimal == price)
            try container.close()
        }
    }
}
