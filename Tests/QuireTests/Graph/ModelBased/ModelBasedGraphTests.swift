import Foundation
import Quire
import QuireTestSupport
import Testing

/// Random sequences of operations on contexts, compared after every step with ``ReferenceGraph``.
@Suite struct ModelBasedGraphTests {
    /// A store, what it should hold, and sequences of operations on contexts over it, one after the other.
    final class World {
        enum Arrangement: CaseIterable {
            /// Over the coordinator.
            case direct
            /// Over another context, saved to the store by it.
            case nested
            /// Over the parent of a document's context, which keeps what is saved to it as values.
            case inDocument
        }

        let stack: TestStack
        /// Another stack over the same file.
        let rival: PersistentStoreCoordinator
        var random: SeededRandom
        var stored = ReferenceGraph()
        var ids: [Int: ManagedObjectID] = [:]
        var last = 0
        /// Whether a sequence went wrong; those after it would too.
        private(set) var hasFailed = false

        init(seed: UInt64) throws {
            stack = try TestStack(ReferenceModel.shared.description)
            rival = PersistentStoreCoordinator(
                store: try SQLiteStore.open(
                    at: stack.path, model: ReferenceModel.shared.description))
            random = SeededRandom(seed: seed)
        }

        deinit { try? rival.close() }

        /// Runs one sequence in a new context.
        func sequence(_ arrangement: Arrangement) throws {
            let base =
                arrangement == .inDocument
                ? stack.documentParent() : QueueConfinedContext(coordinator: stack.coordinator)
            let owner = arrangement == .direct ? base : QueueConfinedContext(parent: base)
            owner.performAndWait { context in
                let session = session(owner, context)
                do {
                    for _ in 0..<Int.random(in: 4...14, using: &random) where session.isClean {
                        try step(session, arrangement)
                        try session.compare()
                    }
                    if session.isClean {
                        if Bool.random(using: &random) {
                            try save(session)
                        } else {
                            session.rollback()
                        }
                        try session.compare()
                    }
                } catch {
                    session.fail("\(error)")
                }
                hasFailed = !session.isClean
                learn(from: session)
            }
        }

        private func session(
            _ owner: QueueConfinedContext, _ context: ManagedObjectContext
        ) -> GraphSession {
            GraphSession(
                owner, context, stored, ids: ids.filter { stored.nodes[$0.key] != nil },
                last: last, random: SeededRandom(seed: random.next()),
                usesUndo: Bool.random(using: &random))
        }

        /// What a session found out of what is stored.
        private func learn(from session: GraphSession) {
            last = session.last
            ids = session.ids
        }

        private func step(_ session: GraphSession, _ arrangement: Arrangement) throws {
            switch Int.random(in: 0..<36, using: &random) {
            case 0..<11: try session.edit()
            case 11..<14 where session.usesUndo: session.undo()
            case 14..<16 where session.usesUndo: session.redo()
            case 16, 17: try save(session)
            case 18: session.rollback()
            case 19: try session.deleteDenied()
            case 20..<22: try session.refresh()
            case 22..<25: try session.child()
            case 25..<27: try merge(session, arrangement)
            case 27..<29 where arrangement == .direct: try conflict(session)
            case 29..<32: try session.staleChildren { try save(session) }
            case 32, 33: try mergeTakenBack(session)
            case 34:
                // What is read first after this is read by the changes themselves.
                session.reset()
                try session.edit()
            default: session.reset()
            }
        }

        /// Saves down to the store and reads it with a fresh context.
        private func save(_ session: GraphSession) throws {
            try session.save()
            try check(session)
        }

        private func check(_ session: GraphSession) throws {
            if let parent = session.context.parent {
                // With objects or without.
                if Bool.random(using: &random) {
                    try parent.performAndWait { try $0.save() }
                } else {
                    try parent.performWithoutObjectsAndWait { try $0.save() }
                }
            }
            stored = session.graph.stored(session.model)
            try QueueConfinedContext(coordinator: stack.coordinator).performAndWait { fresh in
                let seen = try session.seen(in: fresh, stored.numbers)
                if seen != stored.canonical {
                    session.fail(
                        "The store differs:\n\(seen.difference(to: stored.canonical))")
                }
                let count =
                    try fresh.count(for: FetchRequest("A")) + fresh.count(for: FetchRequest("B"))
                #expect(count == stored.nodes.count)
            }
        }

        private func merge(_ session: GraphSession, _ arrangement: Arrangement) throws {
            let other = QueueConfinedContext(coordinator: stack.coordinator)
            learn(from: session)
            let isSaved = try other.performAndWait { try session.merge(self.session(other, $0)) }
            if isSaved { try check(session) } else { stored = session.graph }
        }

        private func mergeTakenBack(_ session: GraphSession) throws {
            let other = QueueConfinedContext(coordinator: stack.coordinator)
            learn(from: session)
            let isSaved = try other.performAndWait {
                try session.mergeTakenBack(self.session(other, $0))
            }
            guard let isSaved else { return }
            if isSaved { try check(session) } else { stored = session.graph }
        }

        private static let policies: [(MergePolicy, String)] = [
            (.error, "error"), (.mergeByPropertyStoreTrump, "store trump"),
            (.mergeByPropertyObjectTrump, "object trump"), (.overwrite, "overwrite"),
            (.rollback, "rollback"),
        ]

        private func conflict(_ session: GraphSession) throws {
            let other = QueueConfinedContext(coordinator: rival)
            learn(from: session)
            let (policy, name) = Self.policies.randomElement(using: &random) ?? (.error, "error")
            try other.performAndWait { context in
                // What another stack has saved meanwhile, coordinators do not know.
                context.stalenessInterval = 0
                let rival = self.session(other, context)
                let fresh = QueueConfinedContext(coordinator: stack.coordinator)
                try fresh.performAndWait { fresh in
                    fresh.stalenessInterval = 0
                    try session.conflict(with: rival, policy: policy, name: name, store: fresh)
                }
            }
            stored = session.graph
        }
    }

    /// Sequences share a store in groups of 25, each of which has a seed of its own: 250, and with `QUIRE_TORTURE=1`
    /// 10,000.
    static let groups = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1" ? 400 : 10

    @Test(arguments: (0..<groups).map { SeededRandom.baseSeed &+ UInt64($0) })
    func contextsEqualReference(seed: UInt64) throws {
        let world = try World(seed: seed)
        for index in 0..<25 where !world.hasFailed {
            try world.sequence(World.Arrangement.allCases[index % 3])
        }
    }
}
