import Foundation
import Quire
import QuireSync
import Testing

/// A program on one machine that shares a document with others.
@MainActor final class Replica {
    let container: PersistentContainer
    let sync: SyncContainer
    let shared: URL
    var context: ManagedObjectContext { container.viewContext }

    /// Opens the store of a machine, which is created the first time.
    init(
        _ model: ManagedObjectModel, store: URL, shared: URL,
        policies: [String: [String: SyncPolicy]] = [:],
        migration: StoreMigrationOptions? = nil
    ) throws {
        self.shared = shared
        container = try PersistentContainer(name: "Shared", managedObjectModel: model)
        var description = PersistentStoreDescription(url: store)
        if let migration { description.migration = migration }
        container.persistentStoreDescriptions = [description]
        var failure: (any Error)?
        container.loadPersistentStores { failure = $1 }
        if let failure { throw failure }
        container.viewContext.automaticallyMergesChangesFromParent = true
        sync = try SyncContainer(
            coordinator: container.persistentStoreCoordinator,
            transport: FolderTransport(folder: shared.path, creates: true), policies: policies)
    }

    // MARK: - Edits

    @discardableResult
    func insert(_ entity: String, _ name: String, _ values: [String: Any] = [:]) throws
        -> ManagedObject
    {
        let object = try context.insertObject(entityName: entity)
        object["name"] = name
        for (key, value) in values { object[key] = value }
        return object
    }

    func objects(_ entity: String) throws -> [ManagedObject] {
        try context.fetch(FetchRequest<ManagedObject>(entity))
    }

    func find(_ entity: String, _ name: String) throws -> ManagedObject? {
        try objects(entity).first { $0["name"] as? String == name }
    }

    func object(_ entity: String, _ name: String) throws -> ManagedObject {
        try #require(try find(entity, name), "\(entity) \(name)")
    }

    func delete(_ entity: String, _ name: String) throws {
        context.delete(try object(entity, name))
    }

    /// Makes an edit and saves it, later than all edits before it by the clock.
    func edit(_ edit: (Replica) throws -> Void) throws {
        try edit(self)
        try context.save()
        let now = Date()
        while Date().timeIntervalSince(now) < 0.002 {}
    }

    // MARK: - Rows

    /// The names of a kind of objects.
    func names(_ entity: String) throws -> [String] {
        try objects(entity).compactMap { $0["name"] as? String }.sorted()
    }

    /// All objects as lines, by their names; what is null or empty is left out.
    func rows(in context: ManagedObjectContext? = nil) throws -> [String] {
        let context = context ?? self.context
        var lines: [String] = []
        for entity in container.managedObjectModel.entities where !entity.isAbstract {
            var request = FetchRequest<ManagedObject>(entityName: entity.name)
            request.includesSubentities = false
            for object in try context.fetch(request) { lines.append(line(object)) }
        }
        return lines.sorted()
    }

    private func line(_ object: ManagedObject) -> String {
        func name(_ object: ManagedObject) -> String { object["name"] as? String ?? "?" }
        var parts = ["\(object.entity.name) \(name(object))"]
        var properties: [String: PropertyDescription] = [:]
        var entity: EntityDescription? = object.entity
        while let next = entity {
            properties.merge(next.propertiesByName) { first, _ in first }
            entity = next.superentityName.flatMap {
                container.managedObjectModel.entitiesByName[$0]
            }
        }
        for (key, property) in properties.sorted(by: { $0.key < $1.key }) where key != "name" {
            switch property {
            case .attribute(let attribute) where !attribute.isTransient:
                switch object[key] {
                case nil: break
                case let values as [String: Any]:
                    let elements = values.map { "\($0): \($1)" }.sorted()
                    parts.append("\(key)=(\(elements.joined(separator: ", ")))")
                case let data as Data: parts.append("\(key)=\(data.count)×\(data.first ?? 0)")
                case let value?: parts.append("\(key)=\(value)")
                }
            case .relationship(let relationship):
                if !relationship.isToMany {
                    if let related = object[key] as? ManagedObject {
                        parts.append("\(key)→\(name(related))")
                    }
                } else if relationship.isOrdered {
                    let related = object[key] as? [ManagedObject] ?? []
                    if !related.isEmpty {
                        parts.append("\(key)[\(related.map(name).joined(separator: " "))]")
                    }
                } else {
                    let related = object[key] as? Set<ManagedObject> ?? []
                    if !related.isEmpty {
                        parts.append("\(key){\(related.map(name).sorted().joined(separator: " "))}")
                    }
                }
            default: break
            }
        }
        return parts.joined(separator: " ")
    }

    /// What is listed for the user to decide.
    func conflictLines() async throws -> [String] {
        var lines: [String] = []
        for conflict in try await sync.conflicts() {
            let hidden = conflict.values["name"].map { " \(text($0))" } ?? ""
            lines.append(
                "\(conflict.kind) \(conflict.entityName).\(conflict.propertyName)\(hidden): \(text(conflict.lost)) lost, \(text(conflict.kept)) kept"
            )
        }
        return lines.sorted()
    }

    private func text(_ value: AttributeValue) -> String {
        switch value {
        case .objectID(let id): (try? context.existingObject(with: id)["name"] as? String) ?? "?"
        case .null: "null"
        case .string(let text): text
        case .integer(let number): "\(number)"
        default: "\(value)"
        }
    }
}

/// Runs a program with replicas of one document, each with its store in a folder, and one shared folder.
@MainActor func withReplicas(
    _ count: Int, _ model: ManagedObjectModel, password: String? = nil,
    policies: [String: [String: SyncPolicy]] = [:],
    start: @MainActor (Replica) throws -> Void = { _ in },
    _ program: @MainActor ([Replica], URL) async throws -> Void
) async throws {
    try await withProgramFolder { folder in
        let replicas = try (0..<count).map {
            try Replica(
                model, store: folder.appendingPathComponent("\($0).sqlite"),
                shared: folder.appendingPathComponent("Shared"), policies: policies)
        }
        try replicas[0].edit(start)
        try await replicas[0].sync.create(named: "Shared", password: password)
        try await replicas[0].sync.synchronize()
        for replica in replicas.dropFirst() {
            try await replica.sync.join(password: password)
            try await replica.sync.synchronize()
        }
        try await settle(replicas)
        try await program(replicas, folder)
        for replica in replicas { try replica.container.close() }
    }
}

/// Synchronizes until there is nothing to send and nothing to merge.
@MainActor func settle(_ replicas: [Replica]) async throws {
    for _ in 0..<10 {
        var count = 0
        for replica in replicas {
            let result = try await replica.sync.synchronize()
            count += result.sentCount + result.receivedCount
            #expect(result.problems.isEmpty)
        }
        if count == 0 { return }
    }
    Issue.record("Replicas that only synchronize have something to send each time.")
}

/// Expects lines to be the same, and shows those that are not.
func expectLines(
    _ found: [String], _ expected: [String], _ comment: String,
    _ location: SourceLocation = #_sourceLocation
) {
    let (unexpected, missing) = (
        found.filter { !expected.contains($0) }, expected.filter { !found.contains($0) }
    )
    #expect(
        found == expected, "\(comment): unexpected \(unexpected), missing \(missing)",
        sourceLocation: location)
}

/// Replicas have the same rows, in a context that has followed all changes and in a new one, and rows that follow from their records.
@MainActor func expectSame(
    _ replicas: [Replica], _ location: SourceLocation = #_sourceLocation
) async throws {
    let rows = try replicas[0].rows()
    for (index, replica) in replicas.enumerated() {
        expectLines(try replica.rows(), rows, "replica \(index)", location)
        let context = ManagedObjectContext.mainQueue(
            coordinator: replica.container.persistentStoreCoordinator)
        expectLines(
            try replica.rows(in: context), rows, "replica \(index), a new context", location)
        expectLines(try await replica.sync.checkInvariants(), [], "replica \(index)", location)
    }
}
