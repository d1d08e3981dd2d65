import Dispatch
import Foundation
import Quire
import QuireSQLite
import QuireSync
import QuireSystem

/// The number of objects and operations.
struct SynchronizationSize {
    /// The number of objects that are there before.
    var objects = 100_000
    /// The number of changes that are saved one by one.
    var changes = 100
    /// The number of insertions, updates and deletions of which the folder must not keep much more than the result.
    var operations = 100_000

    static let quick = SynchronizationSize(objects: 1_000, changes: 10, operations: 2_000)
}

extension Run {
    /// Measures synchronization: a first round, one change from one coordinator to another, and room in the folder.
    func measureSynchronization(
        of size: SynchronizationSize, progress: (String) -> Void
    ) async throws -> [Comparison] {
        let stores = [1, 2].map { "\(folder)/replica-\($0).sqlite" }
        let shared = "\(folder)/shared"
        try FileManager.default.createDirectory(
            atPath: shared, withIntermediateDirectories: true)
        let document = "\(shared)/Library.quiresync"
        progress("first sync, \(size.objects) objects")
        try Library.make(at: stores[0], count: size.objects)
        let sending = try FirstSync(
            .sending, count: size.objects, store: stores[0], folder: document
        ).measure()
        let merging = try FirstSync(
            .merging, count: size.objects, store: stores[1], folder: document
        ).measure()
        let first = [
            Comparison(
                "S1", "first sync: capture, hand over", count: size.objects, unit: "s",
                quire: sending.seconds,
                others: [], most: 10),
            Comparison(
                "S2", "first sync: merge into an empty store", count: size.objects, unit: "s",
                quire: merging.seconds,
                others: [], most: 10),
            Comparison(
                "S3", "peak memory of merging", count: size.objects, unit: "MB",
                quire: merging.megabytes,
                others: [.init(name: "capture", value: sending.megabytes)]),
        ]
        let delays = try await measureDelays(
            of: size.changes, stores: stores, shared: shared, document: document,
            progress: progress)
        return first + delays
            + (try await measureFolder(after: size.operations, progress: progress))
    }

    // MARK: - Delays

    /// The time until a change is in the folder, and until the other coordinator of a folder has it, both with ``SyncOptions``.
    private func measureDelays(
        of count: Int, stores: [String], shared: String, document: String,
        progress: (String) -> Void
    ) async throws -> [Comparison] {
        progress("delays of \(count) changes")
        let coordinators = try stores.map { path in
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: Library.model)
            var description = PersistentStoreDescription(path: path)
            description.syncOptions = SyncOptions(contentName: "Library", folder: shared)
            try coordinator.addPersistentStore(description)
            return coordinator
        }
        let segments = try Arrivals(in: "\(document)/log")
        let (imports, imported) = AsyncStream<UInt64>.makeStream()
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.didImportChangesNotification,
            object: coordinators[1], queue: nil
        ) { _ in imported.yield(DispatchTime.now().uptimeNanoseconds) }
        let watchdog = Task {
            try await Task.sleep(for: .seconds(300))
            segments.finish()
            imported.finish()
        }
        defer {
            watchdog.cancel()
            NotificationCenter.default.removeObserver(observer)
        }
        let context = QueueConfinedContext(coordinator: coordinators[0])
        let id = try context.performAndWait { context in
            let request = FetchRequest<ManagedObject>("Book")
            guard let book = try context.fetch(request).first else {
                throw BenchmarkFailure("There is no book to change.")
            }
            return book.objectID
        }
        var (arrivals, changes) = (segments.times.makeAsyncIterator(), imports.makeAsyncIterator())
        var (sent, applied): ([Double], [Double]) = ([], [])
        let warmUps = 5
        for round in 0..<warmUps + count {
            let savedAt = try context.performAndWait { context in
                try context.existingObject(with: id)["title"] = "Round \(round)"
                try context.save()
                return DispatchTime.now().uptimeNanoseconds
            }
            guard let arrivedAt = await arrivals.next(), let importedAt = await changes.next()
            else { throw BenchmarkFailure("A change was not synchronized within five minutes.") }
            // As from a user: after what follows a round.
            try await Task.sleep(for: .milliseconds(100))
            if round < warmUps { continue }
            sent.append(Double(arrivedAt - savedAt) / 1e6)
            applied.append(Double(importedAt - arrivedAt) / 1e6)
        }
        for coordinator in coordinators { try coordinator.close() }
        return Self.comparisons(
            ("S4", "S5"), "a saved change is in the folder", sent, most: 100)
            + Self.comparisons(
                ("S6", "S7"), "a file in the folder is applied", applied, most: 300)
    }

    private static func comparisons(
        _ ids: (String, String), _ title: String, _ samples: [Double], most: Double
    ) -> [Comparison] {
        let sorted = samples.sorted()
        let percentile = sorted[(sorted.count * 95 + 99) / 100 - 1]
        return [
            Comparison(
                ids.0, "\(title), median", count: samples.count, unit: "ms",
                quire: samples.median, others: [], most: most),
            Comparison(
                ids.1, "the same, 95th percentile", count: samples.count, unit: "ms",
                quire: percentile,
                others: [.init(name: "longest", value: sorted.last ?? 0)], most: most),
        ]
    }

    // MARK: - Folder

    /// The size of the folder when two replicas have saved a hundred operations at a time, each with a round: the largest of the
    /// last hundred rounds, so that it does not matter when the last snapshot was written.
    private func measureFolder(
        after count: Int, progress: (String) -> Void
    ) async throws -> [Comparison] {
        let shared = "\(folder)/operations.quiresync"
        let stores = [1, 2].map { "\(folder)/operations-\($0).sqlite" }
        var replicas: [EditedReplica] = []
        for store in stores {
            replicas.append(
                try await EditedReplica(store: store, folder: shared, isFirst: replicas.isEmpty))
        }
        let saves = count / EditedReplica.operations
        var sizes: [Int] = []
        let stopwatch = Stopwatch()
        for save in 0..<saves {
            if save % 100 == 0 { progress("folder after \(count) operations, save \(save)") }
            let replica = replicas[save % replicas.count]
            try replica.edit()
            stopwatch.start()
            try await replica.synchronize()
            stopwatch.stop()
            sizes.append(try Self.size(of: shared))
        }
        for replica in replicas + replicas { try await replica.synchronize() }
        let counts = try replicas.map { try Library.count(in: $0.coordinator) }
        guard counts[0] == counts[1], counts[0] > 0 else {
            throw BenchmarkFailure("The replicas have \(counts) objects.")
        }
        // Writes a snapshot in the place of everything else.
        try await replicas[0].sync.repair()
        let snapshot = try Self.size(of: "\(shared)/base")
        for replica in replicas { try replica.coordinator.close() }
        let store = try Self.size(of: stores[0])
        let largest = sizes.suffix(100).max() ?? 0
        func megabytes(_ size: Int) -> Double { Double(size) / 1e6 }
        return [
            Comparison(
                "S8", "folder after N operations", count: count, unit: "MB",
                quire: megabytes(largest),
                others: [
                    .init(name: "snapshot", value: megabytes(snapshot)),
                    .init(name: "store", value: megabytes(store)),
                ], must: [.init(limit: 2, of: "snapshot")]),
            Comparison(
                "S9", "a round with 100 operations, median", count: count, unit: "ms",
                quire: stopwatch.median,
                others: [.init(name: "longest", value: stopwatch.samples.max() ?? 0)]),
        ]
    }

    /// The number of bytes of a file, or of all files in a folder.
    private static func size(of path: String) throws -> Int {
        let url = URL(fileURLWithPath: path)
        guard
            let files = FileManager.default.enumerator(
                at: url, includingPropertiesForKeys: [.fileSizeKey])
        else { throw BenchmarkFailure("“\(path)” cannot be listed.") }
        var size =
            try url.resourceValues(forKeys: [.isDirectoryKey]).isDirectory == true
            ? 0 : url.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0
        for case let file as URL in files {
            let values = try file.resourceValues(forKeys: [.fileSizeKey, .isRegularFileKey])
            if values.isRegularFile == true { size += values.fileSize ?? 0 }
        }
        return size
    }
}

/// The times at which segments come into a folder.
private final class Arrivals: Sendable {
    let times: AsyncStream<UInt64>
    private let continuation: AsyncStream<UInt64>.Continuation
    private let names = Lock(Set<String>())
    /// Not the process's: the events that the transport waits for are not delayed by these.
    private let events = FileEvents()
    private let subscription = Lock<FileEventSubscription?>(nil)

    init(in folder: String) throws {
        (times, continuation) = AsyncStream.makeStream()
        let known = try FileManager.default.contentsOfDirectory(atPath: folder)
        names.withLock { $0.formUnion(known) }
        let watch = try events.watch(path: folder, for: .names) { [weak self] event in
            let now = DispatchTime.now().uptimeNanoseconds
            // Those that a snapshot replaces are removed.
            guard let self, event.name.hasSuffix(".seg"),
                names.withLock({ $0.insert(event.name).inserted })
            else { return }
            continuation.yield(now)
        }
        subscription.withLock { $0 = watch }
    }

    func finish() { continuation.finish() }
}

/// A replica that inserts, updates and deletes books: forty, forty and twenty in each save.
private final class EditedReplica {
    static let operations = 100

    let coordinator: PersistentStoreCoordinator
    let sync: SyncContainer
    private let context: QueueConfinedContext
    private var books: [ManagedObjectID] = []
    private var places: [ManagedObjectID: Int] = [:]
    private var state: UInt64
    private var insertions = 0

    init(store: String, folder: String, isFirst: Bool) async throws {
        coordinator = PersistentStoreCoordinator(
            store: try SQLiteStore.create(at: store, model: Library.model))
        context = QueueConfinedContext(coordinator: coordinator)
        sync = try SyncContainer(
            coordinator: coordinator,
            transport: FolderTransport(folder: folder, creates: isFirst))
        state = isFirst ? 1 : 2
        if isFirst { try await sync.create(named: "Library") } else { try await sync.join() }
    }

    private func add(_ ids: [ManagedObjectID]) {
        for id in ids where places[id] == nil {
            places[id] = books.count
            books.append(id)
        }
    }

    private func remove(_ id: ManagedObjectID) {
        guard let place = places.removeValue(forKey: id), let last = books.popLast(), last != id
        else { return }
        books[place] = last
        places[last] = place
    }

    private func random(below bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % bound
    }

    /// Saves operations: insertions only while there are no books.
    func edit() throws {
        let (updates, deletions) = books.count < 60 ? (0, 0) : (40, 20)
        var deleted: [ManagedObjectID] = []
        for _ in 0..<deletions {
            let id = books[random(below: books.count)]
            deleted.append(id)
            remove(id)
        }
        let updated = (0..<updates).map { _ in books[random(below: books.count)] }
        let first = insertions
        insertions += Self.operations - updates - deletions
        let numbers = first..<insertions
        let inserted = try context.performAndWait { [deleted] context in
            for id in deleted { context.delete(try context.existingObject(with: id)) }
            for (index, id) in updated.enumerated() {
                let book = try context.existingObject(with: id)
                if index % 2 == 0 {
                    book["title"] = "Changed \(first + index)"
                } else {
                    book["pages"] = Int64(first + index)
                }
            }
            let new = try numbers.map { number in
                let book = try context.insertObject(entityName: "Book")
                Library.fill(book, number)
                return book
            }
            try context.save()
            let ids = new.map(\.objectID)
            context.reset()
            return ids
        }
        add(inserted)
    }

    func synchronize() async throws {
        let result = try await sync.synchronize()
        if let problem = result.problems.first { throw problem.error }
        add(result.changes.inserted)
        for id in result.changes.deleted { remove(id) }
    }
}
