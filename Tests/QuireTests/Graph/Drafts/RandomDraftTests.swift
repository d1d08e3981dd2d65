import Foundation
import Quire
import QuireTestSupport
import Testing

/// Random changes of random graphs, taken to another stack by a draft.
@Suite struct RandomDraftTests {
    private static let rounds =
        ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1" ? 2000 : 30

    /// What is in a store: values and relationships by the numbers that objects have.
    private static func dump(_ coordinator: PersistentStoreCoordinator) throws -> [String] {
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var lines: [String] = []
            for root in ["A", "B"] {
                for object in try context.fetch(FetchRequest(root)) {
                    var line =
                        "\(object.resolvedEntity.name) \(object["number", as: Int64.self] ?? 0)"
                    line += " \(object["text", as: String.self] ?? "-")"
                    for link in ReferenceModel.shared.links(of: object.resolvedEntity.name) {
                        let targets =
                            link.isToMany
                            ? object.objects(link.name)
                            : object.object(link.name).map { [$0] } ?? []
                        let numbers = targets.map { $0["number", as: Int64.self] ?? 0 }
                        if numbers.isEmpty { continue }
                        line += " \(link.name):\(link.isOrdered ? numbers : numbers.sorted())"
                    }
                    lines.append(line)
                }
            }
            return lines.sorted()
        }
    }

    private static func outcome(_ body: () throws -> Void) -> String {
        do {
            try body()
            return "saved"
        } catch {
            return (error as? QuireError)?.code.rawValue ?? "\(error)"
        }
    }

    @Test func appliedElsewhereADraftIsTheSameAndSavesTheSame() throws {
        let model = ReferenceModel.shared.description
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        for round in 0..<Self.rounds {
            let seed = random.next()
            let stack = try TestStack(model)
            let owner = QueueConfinedContext(coordinator: stack.coordinator)
            let comment: Comment = "round \(round), QUIRE_SEED=\(SeededRandom.baseSeed)"
            var (saves, edits) = (0, 0)
            let draft: ObjectDraft = try owner.performAndWait { context in
                let session = GraphSession(
                    owner, context, ReferenceGraph(), ids: [:],
                    last: 0, random: SeededRandom(seed: seed))
                saves = Int.random(in: 0...2, using: &session.random)
                for _ in 0..<saves {
                    for _ in 0..<8 { try session.edit() }
                    // What is denied is deleted no more.
                    do { try session.save() } catch { session.rollback() }
                }
                edits = Int.random(in: 1...10, using: &session.random)
                for _ in 0..<edits {
                    try session.edit()
                    if Int.random(in: 0..<6, using: &session.random) == 0 { session.undo() }
                }
                return context.makeDraft()
            }
            let copy = stack.folder.path("copy.sqlite")
            try SQLiteStore.replace(at: copy, withStoreAt: stack.path)

            let bytes = draft.encoded()
            let other = PersistentStoreCoordinator(store: try SQLiteStore.open(at: copy))
            defer { try? other.close() }
            let isNested = round % 2 == 1
            let parent = QueueConfinedContext(coordinator: other)
            let target = isNested ? QueueConfinedContext(parent: parent) : parent
            let applied = try target.performAndWait { context in
                if round % 3 == 0 { context.undoManager = UndoManager() }
                let omissions = try context.apply(ObjectDraft(decoding: bytes))
                #expect(omissions.isEmpty, comment)
                let again = context.makeDraft()
                let isSame = again == draft
                #expect(isSame, comment)
                let isSameInBytes = again.encoded() == bytes
                #expect(isSameInBytes, comment)
                if let undoManager = context.undoManager {
                    undoManager.undo()
                    let isEmpty = context.makeDraft().isEmpty
                    #expect(isEmpty, comment)
                    undoManager.redo()
                }
                return Self.outcome { try context.save() }
            }
            let saved =
                applied != "saved" || !isNested
                ? applied : Self.outcome { try parent.performAndWait { try $0.save() } }
            let direct = owner.performAndWait { context in Self.outcome { try context.save() } }
            #expect(saved == direct, comment)
            #expect(try Self.dump(other) == Self.dump(stack.coordinator), comment)
        }
    }
}
