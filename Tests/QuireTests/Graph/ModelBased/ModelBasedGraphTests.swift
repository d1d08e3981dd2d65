import Foundation
import Quire
import QuireTestSupport
import Testing

/// Random sequences of operations on contexts, compared after every step with ``ReferenceGraph``.
@MainActor
@Suite struct ModelBasedGraphTests {
    /// A store, what it should hold, and sequences of operations on contexts over it, one after the other.
    @MainActor
    final class World {
        let stack: TestStack
        var random: SeededRandom
        var stored = ReferenceGraph()
        var ids: [Int: ManagedObjectID] = [:]
        var last = 0
        /// Whether a sequence went wrong; those after it would too.
        private(set) var hasFailed = false

        init(seed: UInt64) throws {
            stack = try TestStack(ReferenceModel.shared.description)
            random = SeededRandom(seed: seed)
        }

        func sequence(_ arrangement: ContextArrangement) throws {
            let session = GraphSession(
                stack.context(arrangement), stored, ids: ids, last: last,
                random: SeededRandom(seed: random.next()))
            for _ in 0..<Int.random(in: 4...14, using: &random) {
                do {
                    try step(session)
                    try session.compare()
                } catch {
                    session.fail("\(error)")
                }
                if !session.isClean {
                    hasFailed = true
                    return
                }
            }
            if Bool.random(using: &random) { try save(session) } else { session.rollback() }
            try session.compare()
            last = session.last
            ids = session.ids.filter { stored.nodes[$0.key] != nil }
        }

        private func step(_ session: GraphSession) throws {
            switch Int.random(in: 0..<21, using: &random) {
            case 0..<11: try session.edit()
            case 11..<14: session.undo()
            case 14..<16: session.redo()
            case 16, 17: try save(session)
            case 18: session.rollback()
            case 19: try session.deleteDenied()
            default:
                // A nested context may have a parent with changes that are kept: only what it saved is there.
                session.reset()
            }
        }

        /// Saves down to the store and reads it with a fresh context.
        private func save(_ session: GraphSession) throws {
            try session.save()
            try session.context.parent?.performAndWait { try $0.save() }
            stored = session.graph.stored(session.model)
            let fresh = stack.mainContext()
            let seen = try session.seen(in: fresh, stored.numbers)
            if seen != stored.canonical {
                session.fail("The store differs:\n\(seen.difference(to: stored.canonical))")
            }
            #expect(
                try fresh.count(for: FetchRequest("A")) + fresh.count(for: FetchRequest("B"))
                    == stored.nodes.count)
        }
    }

    /// Sequences share a store in groups, each of which has a seed of its own.
    nonisolated static let groups = 40

    @Test(arguments: (0..<groups).map { SeededRandom.baseSeed &+ UInt64($0) })
    func contextsEqualReference(seed: UInt64) throws {
        let world = try World(seed: seed)
        for index in 0..<25 {
            try world.sequence(index % 2 == 0 ? .direct : .nested)
            if world.hasFailed { break }
        }
    }
}
