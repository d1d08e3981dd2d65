import Foundation
import Quire
import QuireSync
import Testing

/// Edits of several people who are offline, in the order in which they are made; then they synchronize, in any order.
struct OfflineEdits: Sendable, CustomTestStringConvertible {
    typealias Edit = @MainActor @Sendable (Replica) throws -> Void
    let name: String
    let model: ManagedObjectModel
    /// What all have before.
    let start: Edit
    /// Machines and their edits. In each part nobody synchronizes; after each part all do.
    let parts: [[(machine: Int, edit: Edit)]]
    /// The rows that all have at last.
    let rows: [String]
    /// What is listed for the user to decide, on all machines.
    let conflicts: [String]

    init(
        _ name: String, _ model: ManagedObjectModel, start: @escaping Edit,
        _ parts: [[(machine: Int, edit: Edit)]], rows: [String], conflicts: [String] = []
    ) {
        self.name = name
        self.model = model
        self.start = start
        self.parts = parts
        self.rows = rows.sorted()
        self.conflicts = conflicts.sorted()
    }

    var testDescription: String { name }

    private var machineCount: Int { 1 + (parts.joined().map(\.machine).max() ?? 0) }

    /// All orders in which each machine has one round, and one in which the first has one after each.
    private var orders: [[Int]] {
        let machines = Array(0..<machineCount)
        return permutations(machines) + [machines.flatMap { [$0, 0] }]
    }

    private func permutations(_ values: [Int]) -> [[Int]] {
        if values.count < 2 { return [values] }
        return values.flatMap { first in
            permutations(values.filter { $0 != first }).map { [first] + $0 }
        }
    }

    /// Runs the edits with each order of rounds.
    @MainActor func run() async throws {
        for order in orders {
            try await withReplicas(machineCount, model, start: start) { replicas, folder in
                for part in parts {
                    for (machine, edit) in part { try replicas[machine].edit(edit) }
                    for machine in order { try await replicas[machine].sync.synchronize() }
                    try await settle(replicas)
                }
                expectLines(try replicas[0].rows(), rows, "order \(order)")
                try await expectSame(replicas)
                for (index, replica) in replicas.enumerated() {
                    expectLines(
                        try await replica.conflictLines(), conflicts,
                        "order \(order), replica \(index)")
                }
                guard order == orders[0] else { return }
                // Who joins now has the same.
                let late = try Replica(
                    model, store: folder.appendingPathComponent("late.sqlite"),
                    shared: replicas[0].shared)
                try await late.sync.join()
                try await settle([late] + replicas)
                try await expectSame(replicas + [late])
                try late.container.close()
            }
        }
    }
}

/// Rows are a function of what people have edited, whoever synchronizes first.
@MainActor @Suite struct RoundOrderSituationTests {
    @Test(arguments: OfflineEdits.attributes + OfflineEdits.deletions)
    func valuesAndDeletionsAreTheSameInAnyOrderOfRounds(edits: OfflineEdits) async throws {
        try await edits.run()
    }

    @Test(arguments: OfflineEdits.relationships + OfflineEdits.orders)
    func relationshipsAreTheSameInAnyOrderOfRounds(edits: OfflineEdits) async throws {
        try await edits.run()
    }

    @Test(arguments: OfflineEdits.identities)
    func uniqueValuesAndIdentitiesAreTheSameInAnyOrderOfRounds(edits: OfflineEdits) async throws {
        try await edits.run()
    }
}
