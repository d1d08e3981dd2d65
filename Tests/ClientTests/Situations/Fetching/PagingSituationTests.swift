import Foundation
import Quire
import Testing

/// Limits, offsets and batches, while objects are inserted, changed and deleted.
@MainActor @Suite struct PagingSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Message") {
            Attribute("text", .string)
            Attribute("number", .integer32)
            ToOne("thread", "Thread", inverse: "messages")
        }
        Entity("Thread") {
            Attribute("name", .string)
            ToMany("messages", "Message", inverse: "thread").deleteRule(.cascade)
        }
    }

    @discardableResult
    private static func insert(_ numbers: some Sequence<Int>, in context: ManagedObjectContext)
        throws
        -> [ManagedObject]
    {
        try numbers.map { number in
            let message = try context.insertObject(entityName: "Message")
            message["number"] = number
            message["text"] = "m\(number)"
            return message
        }
    }

    private static func request(
        _ format: String? = nil, offset: Int = 0, limit: Int = 0, batch: Int = 0,
        ascending: Bool = true
    ) throws -> FetchRequest<ManagedObject> {
        var request = FetchRequest(
            "Message", sortOrderings: [SortOrdering("number", ascending: ascending)])
        request.predicate = try format.map { try QueryPredicate(format: $0) }
        request.fetchOffset = offset
        request.fetchLimit = limit
        request.fetchBatchSize = batch
        return request
    }

    /// Pages of a list with unsaved insertions, deletions and changes showed an object twice or never:
    /// project-imas/encrypted-core-data#168 and #64 (offset ignored), magicalpanda/MagicalRecord#917. All pages together are
    /// the list, whatever their size, in batches or not; a count is what a fetch finds.
    @Test(arguments: SituationStore.allCases)
    func pagesTogetherAreTheListWithUnsavedChanges(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let saved = try Self.insert(stride(from: 0, to: 60, by: 2), in: context)
            try context.save()
            try Self.insert([1, 3, 29, 57, 59, 61], in: context)
            for index in [0, 5, 29] { context.delete(saved[index]) }
            saved[3]["number"] = 100
            saved[20]["number"] = -5
            saved[7]["text"] = "other"
            let child = ManagedObjectContext.mainQueue(parent: context)
            try Self.insert([7, 200], in: child)
            let inChild: [ManagedObject] = try child.fetch(Self.request("number == 8"))
            inChild.forEach(child.delete)

            for (asking, isChild) in [(context, false), (child, true)] {
                var numbers = Set(stride(from: 0, to: 60, by: 2)).union([1, 3, 29, 57, 59, 61])
                numbers.subtract([0, 10, 58, 6, 40])
                numbers.formUnion([100, -5])
                if isChild { numbers.subtract([8]); numbers.formUnion([7, 200]) }
                for (format, expected) in [
                    (nil, numbers.sorted()),
                    (
                        "text BEGINSWITH 'm' AND number > 2",
                        numbers.filter { $0 > 2 && $0 != 14 }.sorted()
                    ),
                    (
                        "number BETWEEN {5, 30} OR number > 90",
                        numbers.filter { 5...30 ~= $0 || $0 > 90 }.sorted()
                    ),
                ] {
                    for batch in [0, 4] {
                        for ascending in [true, false] {
                            let all = ascending ? expected : expected.reversed()
                            for size in [3, 7] {
                                var pages: [Int] = []
                                var offset = 0
                                while offset < all.count {
                                    let request = try Self.request(
                                        format, offset: offset, limit: size, batch: batch,
                                        ascending: ascending)
                                    let page = try asking.fetch(request).map {
                                        $0["number", as: Int.self] ?? -1
                                    }
                                    #expect(try asking.count(for: request) == page.count)
                                    pages += page
                                    offset += size
                                }
                                #expect(
                                    pages == all,
                                    "\(format ?? "all"), batches of \(batch), pages of \(size)")
                            }
                            let rest = try Self.request(
                                format, offset: 4, batch: batch, ascending: ascending)
                            #expect(
                                try asking.fetch(rest).map { $0["number", as: Int.self] ?? -1 }
                                    == Array(all.dropFirst(4)))
                            #expect(try asking.count(for: rest) == all.count - 4)
                            let beyond = try Self.request(
                                format, offset: 500, limit: 3, batch: batch)
                            #expect(try asking.fetch(beyond).isEmpty)
                            #expect(try asking.count(for: beyond) == 0)
                        }
                    }
                }
            }
        }
    }

    /// “Delete all”, walking through results in batches: could not fulfill a fault: page “Using
    /// NSBatchDeleteRequest to delete batches in Core Data”, avanderlee.com. Each object is met once while
    /// those behind and before it are deleted and saved.
    @Test(arguments: SituationStore.allCases, [0, 5])
    func deletingWhileWalkingThroughBatchesMeetsEachObject(_ store: SituationStore, batch: Int)
        async throws
    {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.insert(0..<40, in: context)
            try context.save()
            context.reset()
            let results: FetchedObjects<ManagedObject> = try context.fetch(
                Self.request(batch: batch))
            var met: [Int] = []
            for (index, message) in results.enumerated() {
                met.append(try #require(message["number", as: Int.self]))
                if index % 3 == 0 { context.delete(message) }
                if index % 10 == 9 { try context.save() }
            }
            #expect(met == Array(0..<40))
            try context.save()
            #expect(try context.count(for: FetchRequest("Message")) == 26)
            #expect(results.count == 40)
            // Those deleted are faults that cannot be fulfilled, and say so; they do not come back as others.
            let first = results[0]
            #expect(try first.value(forKey: "number") == nil)
            #expect(first.isInaccessible)
            #expect(results[1]["number", as: Int.self] == 1)
        }
    }

    /// Results in batches whose objects another context deletes in the meantime: Apple, “Core Data could not fulfill a fault”.
    /// Reading goes on; an object that is gone is known as gone, and the values of the others are theirs.
    @Test(arguments: SituationStore.allCases)
    func objectsDeletedElsewhereDoNotShiftBatches(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.insert(0..<50, in: context)
            try context.save()
            context.reset()
            context.automaticallyMergesChangesFromParent = false
            let results: FetchedObjects<ManagedObject> = try context.fetch(Self.request(batch: 10))
            #expect(results[0]["number", as: Int.self] == 0)
            let background = container.newBackgroundContext()
            try await background.perform { background in
                let predicate = try QueryPredicate(
                    format: "number >= 20 AND number < 30 OR number == 45")
                let doomed: [ManagedObject] = try background.fetch(
                    FetchRequest("Message", predicate: predicate))
                doomed.forEach(background.delete)
                let changed: [ManagedObject] = try background.fetch(
                    FetchRequest("Message", predicate: try QueryPredicate(format: "number == 33")))
                changed.first?["text"] = "changed"
                try background.save()
            }
            #expect(results.count == 50)
            for (index, message) in results.enumerated() {
                let gone = 20..<30 ~= index || index == 45
                if gone {
                    #expect(
                        (try? context.existingObject(with: message.objectID)) == nil, "\(index)")
                } else {
                    #expect(message["number", as: Int.self] == index)
                }
            }
            #expect(try context.count(for: FetchRequest("Message")) == 39)
        }
    }

    /// A batch size in a child of a context with unsaved objects crashed when an object was accessed:
    /// project-imas/encrypted-core-data#335; and was ignored: lionheart/openradar-mirror#620.
    @Test(arguments: SituationStore.allCases)
    func batchesInAChildHaveObjectsOfTheParent(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let parent = container.viewContext
            try Self.insert(0..<10, in: parent)
            try parent.save()
            let child = ManagedObjectContext.mainQueue(parent: parent)
            try Self.insert(10..<20, in: child)
            try child.save()
            try Self.insert(20..<25, in: child)
            let thread = try child.insertObject(entityName: "Thread")
            thread["name"] = "T"
            let some: [ManagedObject] = try child.fetch(Self.request("number IN {3, 13, 23}"))
            thread["messages"] = Set(some)
            var request = try Self.request(batch: 3)
            #expect(
                try child.fetch(request).map { $0["number", as: Int.self] ?? -1 } == Array(0..<25))
            request.predicate = try QueryPredicate(format: "thread IN %@", [thread])
            #expect(
                try child.fetch(request).map { $0["number", as: Int.self] ?? -1 } == [3, 13, 23])
            request.predicate = try QueryPredicate(format: "SELF IN %@", some)
            #expect(
                try child.fetch(request).map { $0["number", as: Int.self] ?? -1 } == [3, 13, 23])
            let results: FetchedObjects<ManagedObject> = try child.fetch(request)
            try child.save()
            try parent.save()
            #expect(results.map { $0["number", as: Int.self] ?? -1 } == [3, 13, 23])
            #expect(results.map { $0["thread"] as? ManagedObject } == [thread, thread, thread])
        }
    }
}
