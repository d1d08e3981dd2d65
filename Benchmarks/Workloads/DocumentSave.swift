import Foundation
import Quire
import QuireDocuments

/// Notes when the main queue comes to its turns: it asks for the next as soon as it has one.
@MainActor
private final class Heartbeat {
    private var last = DispatchTime.now()
    private var longest: UInt64 = 0
    private var isBeating = false
    private let turn: @MainActor () throws -> Void
    private(set) var error: (any Error)?

    /// - Parameter turn: What is done in each turn.
    init(turn: @escaping @MainActor () throws -> Void) { self.turn = turn }

    /// Begins. The time until the first beat counts.
    func start() {
        (last, longest, isBeating) = (.now(), 0, true)
        beat()
    }

    /// Ends, and gives the longest time between two beats, in milliseconds.
    func stop() -> Double {
        note()
        isBeating = false
        return Double(longest) / 1_000_000
    }

    private func beat() {
        DispatchQueue.main.async { [self] in
            MainActor.assumeIsolated {
                guard isBeating else { return }
                do {
                    try turn()
                } catch {
                    self.error = error
                }
                note()
                beat()
            }
        }
    }

    private func note() {
        let now = DispatchTime.now()
        longest = max(longest, now.uptimeNanoseconds - last.uptimeNanoseconds)
        last = now
    }
}

extension Run {
    private static var documentModel: ManagedObjectModel {
        ManagedObjectModel {
            Entity("Item") {
                Attribute("number", .integer64)
                Attribute("title", .string)
                Attribute("body", .string)
                Attribute("picture", .binary).externalStorage()
            }
        }
    }

    /// Changes objects of a document, saves it, and measures the main queue meanwhile: its longest turn, beside the time until
    /// the save has returned.
    @MainActor
    func measureDocumentSaves(progress: (String) -> Void) async throws -> [Comparison] {
        var rows: [Comparison] = []
        for (changes, megabytes, reads) in [
            (100, 0, false), (10_000, 0, false), (10_000, 500, false),
            (10_000, 0, true), (10_000, 100, true), (10_000, 500, true),
        ] {
            let title =
                "longest turn, \(Report.grouped(changes)) changed objects, \(megabytes) MB\(reads ? ", reading" : "")"
            progress("document save, \(title)")
            let (turn, total) = try await measureDocumentSave(
                changes: changes, megabytes: megabytes, reads: reads)
            rows.append(
                Comparison(
                    "D\(rows.count + 1)", title, unit: "ms", quire: turn,
                    others: [.init(name: "whole save", value: total)], most: 16))
        }
        return rows
    }

    @MainActor
    private func measureDocumentSave(
        changes: Int, megabytes: Int, reads: Bool
    ) async throws -> (longestTurn: Double, total: Double) {
        let path = "\(folder)/save-\(changes)-\(megabytes).quire"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: Self.documentModel)
        let context = document.managedObjectContext
        var (objects, faults): ([ManagedObject], [ManagedObjectID]) = ([], [])
        if reads {
            for number in 0..<1_000 {
                let object = try context.insertObject(entityName: "Item")
                object["number"] = Int64(-number)
                object["title"] = "Fault \(number)"
                try context.obtainPermanentIDs(for: [object])
                faults.append(object.objectID)
            }
            try await document.save()
        }
        for number in 0..<changes {
            let object = try context.insertObject(entityName: "Item")
            object["number"] = Int64(number)
            object["title"] = "Item \(number)"
            object["body"] = String(repeating: "text ", count: 40)
            objects.append(object)
        }
        try await document.save()

        let some = FetchRequest(
            "Item", predicate: try QueryPredicate(format: "number > 100 AND number < 200"),
            sortOrderings: [SortOrdering("number")])
        var next = 0
        func readInTurn() throws {
            next += 1
            guard try !context.fetch(some).isEmpty, try context.count(for: some) > 0,
                context.object(with: faults[next % faults.count])["title", as: String.self] != nil
            else { throw BenchmarkFailure("Nothing was read.") }
        }
        let large = 50
        var (turns, totals): ([Double], [Double]) = ([], [])
        for round in 0..<(megabytes > 0 ? 3 : 5) {
            for object in objects {
                object["number"] = (object["number", as: Int64.self] ?? 0) + 1
                object["title"] = "Round \(round)"
            }
            if megabytes > 0 {
                for index in 0..<large {
                    var data = Data(count: megabytes << 20 / large)
                    // No two files are the same.
                    data[0] = UInt8(round + 1)
                    data[1] = UInt8(index)
                    objects[index]["picture"] = data
                }
            }
            // What the edits themselves take ends here.
            context.processPendingChanges()
            await Task.yield()
            let heartbeat = Heartbeat { if reads { try readInTurn() } }
            let start = DispatchTime.now()
            heartbeat.start()
            try await document.save()
            turns.append(heartbeat.stop())
            if let error = heartbeat.error { throw error }
            totals.append(
                Double(DispatchTime.now().uptimeNanoseconds - start.uptimeNanoseconds) / 1_000_000)
        }
        guard !document.hasUnsavedChanges else {
            throw BenchmarkFailure("The document was not saved.")
        }
        try await document.close()
        return (turns.sorted()[turns.count / 2], totals.sorted()[totals.count / 2])
    }
}
