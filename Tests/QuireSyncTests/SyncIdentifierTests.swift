import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireSync

/// The identifiers that objects have on all machines.
@MainActor @Suite struct SyncIdentifierTests {
    @Test func anIdentifierNamesOneObjectOnAllMachines() async throws {
        let sites = try SyncSites(2, model: SyncTests.model)
        try await sites.begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        // In another order than they arrive, so that keys differ.
        for (site, title) in [(first, "Emma"), (second, "Persuasion")] {
            try site.context.insertObject(entityName: "Book")["title"] = title
            try site.context.save()
        }
        let emma = try #require(try first.objects("Book").first)
        #expect(try await first.sync.identifier(of: emma.objectID) == nil)
        try await sites.exchange()
        let identifier = try #require(try await first.sync.identifier(of: emma.objectID))
        let other = try #require(try await second.sync.objectID(of: identifier))
        #expect(
            try second.context.existingObject(with: other)["title", as: String.self] == "Emma")
        #expect(try await second.sync.identifier(of: other) == identifier)
        #expect(try await first.sync.objectID(of: identifier) == emma.objectID)
        // Of another store, and of none.
        #expect(try await second.sync.identifier(of: emma.objectID) == nil)
        let unsaved = try first.context.insertObject(entityName: "Book")
        #expect(try await first.sync.identifier(of: unsaved.objectID) == nil)
        first.context.delete(unsaved)
        first.context.delete(emma)
        try first.context.save()
        try await sites.exchange()
        #expect(try await second.sync.objectID(of: identifier) == nil)
        try sites.close()
    }

    @Test func anObjectThatLostItsUniqueValuesIsTheOneThatHasThem() async throws {
        let sites = try SyncSites(2, model: SyncTests.model)
        try await sites.begin()
        for site in sites.sites {
            try site.context.insertObject(entityName: "Tag")["name"] = "novel"
            try site.context.save()
        }
        let younger = try #require(try sites.sites[1].objects("Tag").first?.objectID)
        try await sites.sites[1].sync.synchronize()
        let identifier = try #require(try await sites.sites[1].sync.identifier(of: younger))
        try await sites.exchange()
        for site in sites.sites {
            let tag = try #require(try site.objects("Tag").first)
            #expect(try await site.sync.objectID(of: identifier) == tag.objectID)
        }
        try sites.close()
    }

    @Test func aLocalStoreHasNone() async throws {
        let sites = try SyncSites(1, model: SyncTests.model)
        let book = try sites.sites[0].context.insertObject(entityName: "Book")
        try sites.sites[0].context.save()
        #expect(try await sites.sites[0].sync.identifier(of: book.objectID) == nil)
        #expect(try await sites.sites[0].sync.objectID(of: SyncIdentifier()) == nil)
        try sites.close()
    }
}
