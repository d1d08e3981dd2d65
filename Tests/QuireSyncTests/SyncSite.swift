import Foundation
import Quire
import QuireProtection
import QuireSQLite
import QuireTestSupport
import Testing

@testable import QuireSync

extension ScryptCost {
    /// Next to none.
    static let least = ScryptCost(logarithmOfN: 1, r: 1, p: 1)
}

/// The copies of a shared folder on several machines, and what carries files between them: late, in any order, cut off.
final class CarriedFolder: Sendable {
    private struct State {
        var files: [[String: Data]]
        /// The number of calls until one fails; `nil` for none.
        var callsUntilFailure: Int?
        /// The error of that call.
        var failure = QuireError.Code.storeUnavailable
        /// Files that a machine has removed, which carriers remove from the others.
        var removed: Set<String> = []
        /// Files that are not listed yet, although they are there.
        var unlisted: [Set<String>]
    }
    private let state: Lock<State>

    /// The numbers of segments above which machines write snapshots, in turn.
    let segmentsBeforeSnapshot: [Int]

    init(machines: Int, segmentsBeforeSnapshot: [Int] = [64]) {
        self.segmentsBeforeSnapshot = segmentsBeforeSnapshot
        state = Lock(
            State(
                files: [[String: Data]](repeating: [:], count: machines),
                unlisted: [Set<String>](repeating: [], count: machines)))
    }

    func files(on machine: Int) -> [String: Data] { state.withLock { $0.files[machine] } }

    /// Sets a machine's folder back to what it was.
    func setFiles(_ files: [String: Data], on machine: Int) {
        state.withLock { $0.files[machine] = files }
    }

    func addMachine() -> Int {
        state.withLock {
            $0.files.append([:])
            $0.unlisted.append([])
            return $0.files.count - 1
        }
    }

    /// Puts bytes in place of a file, as a carrier or a disk may do.
    func damage(_ path: String, on machine: Int, _ data: Data?) {
        state.withLock { $0.files[machine][path] = data }
    }

    func failOnce(after calls: Int?, _ failure: QuireError.Code = .storeUnavailable) {
        state.withLock { ($0.callsUntilFailure, $0.failure) = (calls, failure) }
    }

    /// Whether the call that is to fail has not come yet.
    var failsLater: Bool { state.withLock { $0.callsUntilFailure != nil } }

    /// Carries every file to every machine, whole.
    ///
    /// - Parameter away: Machines that are not connected.
    func carryAll(except away: Set<Int> = []) {
        state.withLock { state in
            var all: [String: Data] = [:]
            for (index, files) in state.files.enumerated() where !away.contains(index) {
                for (path, data) in files where data.count > all[path]?.count ?? -1 {
                    all[path] = data
                }
            }
            for path in state.removed { all[path] = nil }
            for index in state.files.indices where !away.contains(index) {
                state.files[index] = all
                state.unlisted[index] = []
            }
        }
    }

    /// Carries some files from one machine to another: some are cut off, some are not listed for a while, of some there are copies
    /// under other names.
    func carrySome(_ random: inout SeededRandom) {
        state.withLock { state in
            let from = Int.random(in: 0..<state.files.count, using: &random)
            let to = Int.random(in: 0..<state.files.count, using: &random)
            state.unlisted[to] = []
            for path in state.removed.sorted() where Bool.random(using: &random) {
                state.files[to][path] = nil
            }
            for (path, data) in state.files[from].sorted(by: { $0.key < $1.key }) {
                let known = state.files[to][path]
                guard !state.removed.contains(path), known?.count ?? -1 < data.count,
                    Int.random(in: 0..<3, using: &random) > 0
                else { continue }
                switch Int.random(in: 0..<8, using: &random) {
                case 6:
                    state.files[to][path] = data
                    let copy = Self.copyName(of: path, &random)
                    if state.files[to][copy] == nil { state.files[to][copy] = data }
                case 0:
                    state.files[to][path] = data.prefix(.random(in: 0...data.count, using: &random))
                case 1:
                    state.files[to][path] = data
                    state.unlisted[to].insert(path)
                default: state.files[to][path] = data
                }
            }
        }
    }

    /// The name that a carrier may give a file: of a copy in conflict, in other letters, or that of another file.
    private static func copyName(of path: String, _ random: inout SeededRandom) -> String {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: path + ".sync-conflict-20261126-120000-ABCDEFG"
        case 1: path.uppercased()
        case 2: path.replacing("-000000000", with: "-000000001")
        default: path + " (conflicted copy)"
        }
    }

    fileprivate func access<Result>(
        _ machine: Int, _ body: (inout [String: Data], Set<String>) -> Result,
        changing change: (path: String, isRemoved: Bool)? = nil
    ) throws -> Result {
        try state.withLock { state in
            if let calls = state.callsUntilFailure {
                state.callsUntilFailure = calls > 0 ? calls - 1 : nil
                if calls == 0 {
                    throw QuireError(state.failure, "The folder cannot be used.")
                }
            }
            if let change {
                if change.isRemoved {
                    state.removed.insert(change.path)
                } else {
                    state.removed.remove(change.path)
                }
            }
            return body(&state.files[machine], state.unlisted[machine])
        }
    }
}

/// One machine's copy of a carried folder.
struct CarriedTransport: SyncTransport {
    let folder: CarriedFolder
    let machine: Int

    func fileNames(in folder: SyncFileName) async throws -> [String] {
        try self.folder.access(machine) { files, unlisted in
            files.keys.filter { $0.hasPrefix(folder.path + "/") && !unlisted.contains($0) }
                .map { String($0.dropFirst(folder.path.count + 1)) }
        }
    }

    func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data? {
        try folder.access(machine) { files, _ in files[file.path] }
    }

    func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool {
        try folder.access(
            machine,
            { files, _ in
                if files[file.path] != nil { return false }
                files[file.path] = contents
                return true
            }, changing: (file.path, false))
    }

    func remove(_ file: SyncFileName) async throws {
        try folder.access(
            machine, { files, _ in files[file.path] = nil }, changing: (file.path, true))
    }

    var changes: AsyncStream<Void> { AsyncStream { $0.finish() } }
}

/// A store on one machine, with a context and its synchronization.
@MainActor
final class SyncSite {
    let path: String
    let machine: Int
    let folder: CarriedFolder
    private(set) var model: ManagedObjectModel
    /// Seconds that the machine's clock is ahead.
    var clockOffset: Double = 0
    private(set) var context: ManagedObjectContext
    private(set) var sync: SyncContainer
    private let time: SiteClock
    private let resolvers: [String: [String: SyncResolver]]

    /// The time, in steps that a test makes.
    final class SiteClock: Sendable {
        private let now = Lock(Date(timeIntervalSince1970: 1_790_000_000))
        func tick(_ offset: Double) -> Date {
            now.withLock {
                $0 += 1
                return $0 + offset
            }
        }
        func advance(days: Double) { now.withLock { $0 += days * 86_400 } }
    }

    init(
        _ path: String, machine: Int, _ folder: CarriedFolder, model: ManagedObjectModel,
        clock: SiteClock, resolvers: [String: [String: SyncResolver]] = [:]
    ) throws {
        self.path = path
        self.machine = machine
        self.folder = folder
        self.model = model
        time = clock
        self.resolvers = resolvers
        (context, sync) = try Self.open(path, machine, folder, model, clock, 0, resolvers)
    }

    private static func open(
        _ path: String, _ machine: Int, _ folder: CarriedFolder, _ model: ManagedObjectModel,
        _ clock: SiteClock, _ offset: Double, _ resolvers: [String: [String: SyncResolver]],
        migration: StoreMigrationOptions = StoreMigrationOptions()
    ) throws -> (ManagedObjectContext, SyncContainer) {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
        var description = PersistentStoreDescription(path: path)
        description.tracksHistory = true
        description.migration = migration
        // Another program's saves may go first again and again on a busy machine.
        description.sqliteOptions.busyTimeout = .seconds(600)
        try coordinator.addPersistentStore(description)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        context.automaticallyMergesChangesFromParent = true
        let sync = try SyncContainer(
            coordinator: coordinator, store: SyncContainer.store(of: coordinator),
            transport: CarriedTransport(folder: folder, machine: machine),
            segmentsBeforeSnapshot: folder.segmentsBeforeSnapshot[
                machine % folder.segmentsBeforeSnapshot.count],
            resolvers: resolvers, passwordCost: .least, clock: { clock.tick(offset) })
        return (context, sync)
    }

    /// Closes the store and opens it again, as another run of the program, or of another version.
    func reopen(
        model: ManagedObjectModel? = nil, migration: StoreMigrationOptions = .init()
    ) throws {
        if let model { self.model = model }
        try context.persistentStoreCoordinator.close()
        (context, sync) = try Self.open(
            path, machine, folder, self.model, time, clockOffset, resolvers, migration: migration)
    }

    /// Copies the closed store, and opens it again.
    func copy(to other: String) throws {
        try context.persistentStoreCoordinator.close()
        try FileManager.default.copyItem(atPath: path, toPath: other)
        (context, sync) = try Self.open(
            path, machine, folder, model, time, clockOffset, resolvers)
    }

    /// Puts an earlier copy in the store's place, or its content into the file, which stays the same one then.
    func restore(_ copy: String, inPlace: Bool = false) throws {
        try context.persistentStoreCoordinator.close()
        if inPlace {
            try Self.write(contentOf: copy, into: path)
            try FileManager.default.removeItem(atPath: copy)
        } else {
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: copy, toPath: path)
        }
        (context, sync) = try Self.open(
            path, machine, folder, model, time, clockOffset, resolvers)
    }

    private static func write(contentOf source: String, into path: String) throws {
        let content = try Data(contentsOf: URL(fileURLWithPath: source))
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try file.truncate(atOffset: 0)
        try file.write(contentsOf: content)
        try file.close()
    }

    /// Writes the closed store's content into another file, gives that the store's name, and opens it. The files stay what they are.
    func exchangeFiles(_ path: String, _ other: String) throws {
        try context.persistentStoreCoordinator.close()
        if FileManager.default.fileExists(atPath: other) {
            try Self.write(contentOf: path, into: other)
        } else {
            try FileManager.default.copyItem(atPath: path, toPath: other)
        }
        let middle = path + ".middle"
        try FileManager.default.moveItem(atPath: path, toPath: middle)
        try FileManager.default.moveItem(atPath: other, toPath: path)
        try FileManager.default.moveItem(atPath: middle, toPath: other)
        (context, sync) = try Self.open(
            path, machine, folder, model, time, clockOffset, resolvers)
    }

    var store: SQLiteStore {
        get throws {
            guard
                let store = context.persistentStoreCoordinator.persistentStores.first
                    as? SQLiteStore
            else { throw QuireError(.notFound, "There is no store.") }
            return store
        }
    }

    func close() throws { try context.persistentStoreCoordinator.close() }

    func objects(_ entity: String) throws -> [ManagedObject] {
        try context.fetch(FetchRequest(entity))
    }

    /// The rows as text, with the identifiers that objects have on all machines.
    func rows() throws -> String {
        let store = try store
        let layout = store.layout
        return try store.read { connection in
            guard let settings = try SyncSettings.read(from: connection, path: store.storePath)
            else { return "" }
            let tables = SyncTables(store, connection, SyncModel(layout), settings)
            func name(_ id: ManagedObjectID) throws -> String {
                try tables.object(at: id)?.record.id.description ?? "unknown \(id.shortDescription)"
            }
            var lines: [String] = []
            for entity in layout.entities where !entity.isAbstract {
                let rows = try store.rows(of: entity, after: 0, limit: 1_000_000)
                for index in 0..<rows.count {
                    let row = rows[index]
                    var line = try "\(entity.name) \(name(row.objectID))"
                    for slot in entity.slots where slot.isStored {
                        switch try row.value(at: slot.index) {
                        case .objectID(let id): line += try " \(slot.name)=→\(name(id))"
                        case .binary(let data): line += " \(slot.name)=\(data.count) bytes"
                        case .external(let data): line += " \(slot.name)=\(data.size) bytes"
                        case let value: line += " \(slot.name)=\(value)"
                        }
                    }
                    for relationship in entity.relationships where relationship.isToMany {
                        let related = try store.relatedRows(of: row.objectID, through: relationship)
                        var names = try (0..<related.count).map { try name(related[$0].objectID) }
                        if !relationship.isOrdered { names.sort() }
                        line += " \(relationship.name)=\(names)"
                    }
                    lines.append(line)
                }
            }
            return lines.sorted().joined(separator: "\n")
        }
    }
}

extension SyncContainer {
    /// Rounds do not end with a check: another program has changed rows behind the store's back.
    func leaveRowsUnchecked() { checksInvariants = false }
}

/// Several machines with one shared document.
@MainActor
struct SyncSites {
    let folder: CarriedFolder
    var sites: [SyncSite] = []
    let temporary: TemporaryFolder
    private(set) var model: ManagedObjectModel
    let clock = SyncSite.SiteClock()

    init(
        _ count: Int, model: ManagedObjectModel,
        resolvers: [String: [String: SyncResolver]] = [:], segmentsBeforeSnapshot: [Int] = [64]
    ) throws {
        temporary = try TemporaryFolder()
        folder = CarriedFolder(machines: count, segmentsBeforeSnapshot: segmentsBeforeSnapshot)
        self.model = model
        for machine in 0..<count {
            sites.append(
                try SyncSite(
                    temporary.path("\(machine).sqlite"), machine: machine, folder, model: model,
                    clock: clock, resolvers: resolvers))
        }
    }

    /// The same machines; those that come later have another model.
    func with(model: ManagedObjectModel) -> SyncSites {
        var other = self
        other.model = model
        return other
    }

    /// Makes the document on the first machine, and joins it on the others.
    func begin(password: String? = nil) async throws {
        try await sites[0].sync.create(named: "Library", password: password)
        folder.carryAll()
        for site in sites.dropFirst() { try await site.sync.join(password: password) }
        try await exchange()
    }

    /// Synchronizes and carries until nothing is sent any more.
    ///
    /// - Parameter away: Machines that do neither.
    func exchange(except away: Set<Int> = []) async throws {
        folder.carryAll(except: away)
        for round in 0..<10 {
            var sent = 0
            for site in sites where !away.contains(site.machine) {
                sent += try await site.sync.synchronize().sentCount
            }
            folder.carryAll(except: away)
            if sent == 0, round > 0 { return }
        }
    }

    /// All machines have the same rows and records, and the rows that follow from these.
    func expectSame(
        _ comment: Comment? = nil, _ location: SourceLocation = #_sourceLocation
    ) async throws {
        let rows = try sites[0].rows()
        let state = try await sites[0].sync.stateDescription()
        for site in sites {
            #expect(try site.rows() == rows, comment, sourceLocation: location)
            #expect(
                try await site.sync.stateDescription() == state, comment, sourceLocation: location)
            #expect(
                try await site.sync.checkInvariants() == [], comment, sourceLocation: location)
        }
    }

    mutating func addSite(model: ManagedObjectModel? = nil) throws -> SyncSite {
        let machine = folder.addMachine()
        let site = try SyncSite(
            temporary.path("\(machine).sqlite"), machine: machine, folder,
            model: model ?? self.model, clock: clock)
        sites.append(site)
        folder.carryAll()
        return site
    }

    /// Copies a machine's store to another machine.
    mutating func clone(_ site: SyncSite) throws {
        let machine = folder.addMachine()
        let path = temporary.path("\(machine).sqlite")
        try site.copy(to: path)
        sites.append(
            try SyncSite(path, machine: machine, folder, model: site.model, clock: clock))
    }

    func close() throws { for site in sites { try site.close() } }
}
