import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire

/// Whatever is done to a file: it gives data or an error, in bounded time.
@Suite struct DamagedFileTests {
    private static let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
    private static let caseCount = isTorture ? 10_000 : 60
    /// How long one case may take, in seconds.
    private static let deadline = 60.0

    @Test @MainActor func damagedFilesGiveErrorsOrData() throws {
        let folder = try TemporaryFolder()
        let own = folder.path("own.sqlite")
        try Damage.makeLibrary(at: own, books: 60)
        let sealed = folder.path("sealed.sqlite")
        try Damage.makeLibrary(at: sealed, books: 60, protection: .complete)
        var files: [(path: String, model: ManagedObjectModel?)] = [(own, nil), (sealed, nil)]
        for (index, file) in Damage.corpus.enumerated() {
            let path = folder.path("corpus\(index).sqlite")
            try Damage.copy(file.url, to: path)
            try Damage.settle(path)
            // Small ones, for the number of cases is what counts.
            guard let size = try FileSystem.information(at: path)?.size, size < 1 << 20 else {
                continue
            }
            files.append(
                (path, try file.modelURL.map { try ManagedObjectModel(contentsOf: $0.path) }))
        }
        var opened = 0
        var recovered = 0
        for number in 0..<Self.caseCount {
            let seed = SeededRandom.baseSeed &* 1_000_000 &+ UInt64(number)
            var random = SeededRandom(seed: seed)
            let file = files[Int.random(in: 0..<files.count, using: &random)]
            let place = try TemporaryFolder()
            let path = place.path("a.sqlite")
            try FileManager.default.copyItem(atPath: file.path, toPath: path)
            if file.path == sealed {
                try FileManager.default.copyItem(
                    atPath: sealed + ".keybag", toPath: path + ".keybag")
            }
            let what = try Damage.fuzz(path, &random)
            let watch = Watchdog("case \(number) (seed \(seed)): \(what)", seconds: Self.deadline)
            defer { watch.end() }
            if use(path, model: file.model) { opened += 1 }
            if expectTyped({
                _ = try StoreRecovery.recover(path, to: place.path("b.sqlite"), model: file.model)
            }) {
                recovered += 1
            }
            expectTyped { _ = try StoreRepair.repair(path, model: file.model) }
        }
        // Most damage is small: most stores still open, and most can be recovered.
        #expect(opened > Self.caseCount / 4)
        #expect(recovered > Self.caseCount / 2)
    }

    /// Reads, checks, edits and saves a store.
    @MainActor
    private func use(_ path: String, model: ManagedObjectModel?) -> Bool {
        var opened = false
        for isReadOnly in [true, false] {
            expectTyped {
                var options = SQLiteStoreOptions()
                options.isReadOnly = isReadOnly
                options.infersModel = isReadOnly
                let store = try SQLiteStore.open(at: path, model: model, options: options)
                opened = true
                defer { try? store.close() }
                for entity in store.layout.entities {
                    expectTyped { try read(entity, store) }
                }
                if isReadOnly { expectTyped { _ = try StoreCheck.run(store) } }
                if !isReadOnly { expectTyped { try edit(store) } }
            }
        }
        return opened
    }

    private func read(_ entity: ResolvedEntity, _ store: SQLiteStore) throws {
        let rows = try store.rows(matching: FetchSpecification(entity.name))
        for row in rows {
            for slot in row.entity.slots { _ = try? row.value(at: slot.index) }
        }
        for row in rows.prefix(20) {
            for index in row.entity.toManyRelationships {
                _ = try store.relatedRows(
                    of: row.objectID, through: row.entity.relationships[index])
            }
        }
    }

    @MainActor
    private func edit(_ store: SQLiteStore) throws {
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        for entity in store.layout.entities where !entity.isAbstract {
            var request = FetchRequest(entity.name)
            request.fetchLimit = 3
            guard let objects = try? context.fetch(request) else { continue }
            for object in objects {
                for slot in entity.slots where slot.attribute?.type == .string && !slot.isDerived {
                    object[slot.name] = "edited"
                }
            }
            expectTyped { try context.save() }
            context.rollback()
            if let last = objects.last { context.delete(last) }
            expectTyped { try context.save() }
            context.rollback()
        }
    }

    /// - Returns: Whether it succeeded.
    @discardableResult
    private func expectTyped(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return true
        } catch {
            #expect(error is QuireError, "\(error)")
            return false
        }
    }
}

/// Ends the process with a sentence if something takes too long.
final class Watchdog {
    private let item: DispatchWorkItem

    init(_ what: String, seconds: Double) {
        item = DispatchWorkItem { fatalError("Too slow: \(what)") }
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds, execute: item)
    }

    func end() { item.cancel() }
}
