import Foundation
import Quire
import QuireTestSupport
import Testing

/// Savers, pinned readers, purges, merges and killed processes, one after the other in random order, against a reference that
/// keeps every state: each pinned read equals the state that it was pinned to, and what history names since any token leads from
/// the state then to the present one.
@MainActor @Suite struct RandomGenerationTests {
    private static let model = ManagedObjectModel {
        Entity("Item") { Attribute("value", .integer64) }
    }

    /// The values of all objects, by their URIs.
    private typealias State = [String: Int]

    @MainActor private final class Run {
        let path: String
        var random: SeededRandom
        /// Two savers, with a coordinator each.
        var savers: [ManagedObjectContext] = []
        var readers: [(context: ManagedObjectContext, state: State)] = []
        var tokens: [(token: PersistentHistoryToken, state: State, isPurged: Bool)] = []
        var present: State = [:]
        var steps: [String] = []

        init(at path: String, _ random: SeededRandom) throws {
            self.path = path
            self.random = random
            for _ in 0..<2 { savers.append(try saver()) }
        }

        private func saver() throws -> ManagedObjectContext {
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
            var description = PersistentStoreDescription(path: path)
            description.tracksHistory = true
            try coordinator.addPersistentStore(description)
            return .mainQueue(coordinator: coordinator)
        }

        func step() throws {
            let number = Int.random(in: 0..<savers.count, using: &random)
            switch Int.random(in: 0..<13, using: &random) {
            case 0...3: try save(number)
            case 4, 5: try pin(number)
            case 6, 7: try checkReader()
            case 8: try purge(number)
            case 9: try merge(number)
            case 10: readers.removeAll { _ in Bool.random(using: &random) }
            case 11: try reopen(number)
            default: if Int.random(in: 0..<4, using: &random) == 0 { try kill() }
            }
        }

        private func save(_ number: Int) throws {
            steps.append("save \(number)")
            let context = savers[number]
            context.refreshAllObjects()
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let objects = try context.fetch(FetchRequest("Item"))
                let object = objects.randomElement(using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0, 1:
                    try context.insertObject(entityName: "Item")["value"] = Int.random(
                        in: 0..<1000, using: &random)
                case 2: object?["value"] = Int.random(in: 0..<1000, using: &random)
                default: object.map(context.delete)
                }
            }
            try context.save()
            present = try state(context)
            try note(context)
        }

        private func pin(_ number: Int) throws {
            steps.append("pin \(number)")
            let reader = ManagedObjectContext.mainQueue(
                coordinator: savers[number].persistentStoreCoordinator)
            try reader.setQueryGeneration(from: .current)
            _ = try reader.count(for: FetchRequest("Item"))
            readers.append((reader, present))
        }

        private func checkReader() throws {
            guard let reader = readers.randomElement(using: &random) else { return }
            steps.append("read")
            #expect(try state(reader.context) == reader.state, "\(steps)")
            #expect(
                try reader.context.count(for: FetchRequest("Item")) == reader.state.count,
                "\(steps)")
        }

        private func purge(_ number: Int) throws {
            guard let place = tokens.indices.randomElement(using: &random) else { return }
            steps.append("purge \(place)")
            try savers[number].execute(.deleteHistory(before: tokens[place].token))
            for earlier in tokens.indices where earlier < place { tokens[earlier].isPurged = true }
        }

        /// Applies what history names since a token to the state of the token.
        private func merge(_ number: Int) throws {
            guard let entry = tokens.randomElement(using: &random) else { return }
            steps.append("merge \(number)")
            let context = savers[number]
            var state = entry.state
            do {
                let request = PersistentHistoryChangeRequest.fetchHistory(after: entry.token)
                for transaction in try context.execute(request).transactions {
                    context.mergeChanges(from: transaction.objectIDChanges)
                    for change in transaction.changes {
                        let id = change.objectID
                        let object = try? context.existingObject(with: id)
                        state[id.uriRepresentation] = object?["value", as: Int.self]
                    }
                }
            } catch let error as QuireError where error.code == .historyTokenExpired {
                #expect(entry.isPurged, "\(steps)")
                return
            }
            #expect(state == present, "\(steps)")
        }

        /// Another process inserts an object and is killed meanwhile: it has saved all of it, or nothing.
        private func kill() throws {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: try TestProgram.path(named: "quire"))
            process.arguments = ["insert", path, "Item", "value=1000"]
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.run()
            // So that it is killed anywhere between its start and its end.
            usleep(UInt32.random(in: 0..<60_000, using: &random))
            Foundation.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            let context = savers[0]
            context.refreshAllObjects()
            let found = try state(context)
            steps.append("kill \(found.count - present.count)")
            let added = found.filter { present[$0.key] == nil }
            #expect(added.isEmpty || Array(added.values) == [1000], "\(steps)")
            #expect(found.count == present.count + added.count, "\(steps)")
            #expect(present.allSatisfy { found[$0.key] == $0.value }, "\(steps)")
            present = found
            try note(context)
        }

        /// Keeps the state that the present token stands for.
        private func note(_ context: ManagedObjectContext) throws {
            let token = try context.persistentStoreCoordinator.currentPersistentHistoryToken()
            if let token { tokens.append((token, present, false)) }
        }

        private func reopen(_ number: Int) throws {
            steps.append("reopen \(number)")
            let coordinator = savers[number].persistentStoreCoordinator
            readers.removeAll { $0.context.persistentStoreCoordinator === coordinator }
            try coordinator.close()
            savers[number] = try saver()
        }

        func close() throws {
            readers = []
            for saver in savers { try saver.persistentStoreCoordinator.close() }
        }

        private func state(_ context: ManagedObjectContext) throws -> State {
            var state: State = [:]
            for object in try context.fetch(FetchRequest("Item")) {
                state[object.objectID.uriRepresentation] = object["value", as: Int.self]
            }
            return state
        }
    }

    /// Seeds are arguments, so that a failure names its own: `QUIRE_SEED` set to it repeats the run first.
    @Test(.timeLimit(.minutes(10)), arguments: SeededRandom.seeds(150))
    func readersSeeTheStateTheyWerePinnedTo(seed: UInt64) throws {
        let folder = try TemporaryFolder()
        let run = try Run(at: folder.path("items.sqlite"), SeededRandom(seed: seed))
        for _ in 0..<60 { try run.step() }
        try run.close()
    }
}
