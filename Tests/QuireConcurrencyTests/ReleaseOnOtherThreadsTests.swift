import Dispatch
import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Objects may be released on any thread, because the locals of an asynchronous function end wherever it resumes.
@Suite struct ReleaseOnOtherThreadsTests {
    /// Carries a last reference to another thread.
    private final class Carrier<Value>: @unchecked Sendable {
        var value: Value?
    }

    private func library(count: Int) throws -> (TestStack, QueueConfinedContext) {
        let stack = try TestStack()
        let context = QueueConfinedContext(coordinator: stack.coordinator)
        try context.performAndWait { context in
            for number in 0..<count {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "\(number)"
            }
            try context.save()
        }
        return (stack, context)
    }

    private func expectNoObjects(in context: ManagedObjectContext) {
        let count = context.identityMap.count
        #expect(count == 0)
    }

    private func expectHeldRows(_ expected: Bool, in context: ManagedObjectContext) {
        let areHeld = context.staleRows.areHeld
        #expect(areHeld == expected)
    }

    @Test func anObjectReleasedElsewhereLeavesItsContext() throws {
        let (stack, context) = try library(count: 1)
        defer { withExtendedLifetime(stack) {} }
        let carrier = Carrier<ManagedObject>()
        let id = try context.performAndWait { context in
            carrier.value = try context.fetch(FetchRequest("Book")).first
            #expect(context.registeredObjects.count == 1)
            return carrier.value?.objectID
        }
        let found = try #require(id)
        // The queue is busy, so that the object is still to be taken out when the context is asked for it.
        context.performAndWait { context in
            let released = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                carrier.value = nil
                released.signal()
            }
            released.wait()
            #expect(context.registeredObjects.isEmpty)
            #expect(context.registeredObject(for: found) == nil)
            let object = context.object(with: found)
            #expect(object["title", as: String.self] == "0")
            #expect(context.registeredObject(for: found) === object)
            carrier.value = object
        }
        // The ended object has been taken out, and the other stayed.
        context.performAndWait { context in
            let count = context.identityMap.count
            #expect(count == 1)
            #expect(context.registeredObject(for: found) === carrier.value)
        }
        carrier.value = nil
        context.performAndWait { expectNoObjects(in: $0) }
    }

    @Test func resultsReleasedElsewhereLeaveTheirContext() throws {
        let (stack, context) = try library(count: 100)
        defer { withExtendedLifetime(stack) {} }
        let carrier = Carrier<FetchedObjects<ManagedObject>>()
        for batchSize in [0, 10] {
            try context.performAndWait { context in
                var request = FetchRequest<ManagedObject>("Book")
                request.fetchBatchSize = batchSize
                request.relationshipKeyPathsForPrefetching = ["tags"]
                let found = try context.fetch(request)
                #expect(found[99]["title", as: String.self] == "99")
                expectHeldRows(true, in: context)
                #expect(!context.prefetches.isEmpty)
                carrier.value = found
            }
            carrier.value = nil
            context.performAndWait { context in
                expectHeldRows(false, in: context)
                #expect(context.prefetches.isEmpty)
                expectNoObjects(in: context)
            }
        }
    }

    @Test func anUndoLogReleasedElsewhereLeavesItsContext() throws {
        let (stack, context) = try library(count: 1)
        defer { withExtendedLifetime(stack) {} }
        let manager = Carrier<UndoManager>()
        context.performAndWait { context in
            manager.value = UndoManager()
            context.undoManager = manager.value
        }
        try context.performAndWait { context in
            try #require(try context.fetch(FetchRequest("Book")).first)["title"] = "Emma"
        }
        try context.performAndWait { context in
            try context.save()
            context.undoManager = nil
        }
        manager.value = nil
        context.performAndWait { expectNoObjects(in: $0) }
    }

    /// Objects end on four threads while their context fetches and reads the same ones.
    @Test func objectsEndWhileTheirContextReadsThem() async throws {
        let (stack, context) = try library(count: 50)
        defer { withExtendedLifetime(stack) {} }
        for _ in 0..<60 {
            let carriers = (0..<4).map { _ in Carrier<[ManagedObject]>() }
            try context.performAndWait { context in
                let found = Array(try context.fetch(FetchRequest("Book")))
                for (index, carrier) in carriers.enumerated() {
                    carrier.value = found.enumerated().filter { $0.offset % 4 == index }.map(
                        \.element)
                }
            }
            await withTaskGroup(of: Void.self) { group in
                for carrier in carriers { group.addTask { carrier.value = nil } }
                group.addTask {
                    context.performAndWait { context in
                        let titles = try? context.fetch(FetchRequest("Book")).map {
                            $0["title", as: String.self] ?? ""
                        }
                        #expect(Set(titles ?? []).count == 50)
                        // One object for each identifier.
                        let objects = context.registeredObjects
                        #expect(Set(objects.map(\.objectID)).count == objects.count)
                    }
                }
            }
        }
        context.performAndWait { expectNoObjects(in: $0) }
    }

    @Test func contextsEndWhileTheirObjectsDo() async throws {
        let (stack, _) = try library(count: 20)
        for _ in 0..<300 {
            let context = Carrier<QueueConfinedContext>()
            let objects = Carrier<[ManagedObject]>()
            context.value = QueueConfinedContext(coordinator: stack.coordinator)
            try context.value?.performAndWait { context in
                objects.value = Array(try context.fetch(FetchRequest("Book")))
            }
            await withTaskGroup(of: Void.self) { group in
                group.addTask { context.value = nil }
                group.addTask { objects.value = nil }
            }
        }
    }
}
