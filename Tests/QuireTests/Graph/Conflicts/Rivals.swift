import Quire
import QuireTestSupport
import Testing

/// Where the other side of a conflict saves.
enum RivalKind: CaseIterable, Sendable {
    /// Another context of the same coordinator.
    case context
    /// Another coordinator with a store of its own on the same file, as another process would have it.
    case store
    /// Another coordinator, while this side is a child of a private-queue context, whose policy counts.
    case storeBesideNested
}

/// Two contexts that edit the same file.
@MainActor final class Rivals {
    let stack: TestStack
    let other: PersistentStoreCoordinator
    let here: ManagedObjectContext
    let there: ManagedObjectContext
    let isNested: Bool

    init(
        _ kind: RivalKind, policy: MergePolicy = .error,
        model: ManagedObjectModel = FixtureModels.library
    ) throws {
        stack = try TestStack(model)
        other =
            kind == .context
            ? stack.coordinator
            : PersistentStoreCoordinator(store: try SQLiteStore.open(at: stack.path))
        isNested = kind == .storeBesideNested
        here = isNested ? stack.nestedContext() : stack.mainContext()
        there = .mainQueue(coordinator: other)
        set(policy)
    }

    deinit { try? other.close() }

    func set(_ policy: MergePolicy) {
        if let parent = here.parent {
            parent.performAndWait { $0.mergePolicy = policy }
        } else {
            here.mergePolicy = policy
        }
    }

    func new(
        _ entity: String, _ values: [String: AttributeValue] = [:]
    ) throws -> ManagedObject {
        let object = try here.insertObject(entityName: entity)
        for (key, value) in values { object[key] = value }
        return object
    }

    /// The other side's object for one of this side.
    func theirs(_ object: ManagedObject) -> ManagedObject { there.object(with: object.objectID) }

    func save() throws { try stack.save(here) }

    /// The object as a context that knows nothing yet reads it; `nil` if it is not stored.
    func stored(_ object: ManagedObject) throws -> ManagedObject? {
        let fresh = ManagedObjectContext.mainQueue(coordinator: other)
        fresh.stalenessInterval = 0
        contexts.append(fresh)
        return try? fresh.existingObject(with: object.objectID)
    }

    private var contexts: [ManagedObjectContext] = []

    /// Reads the objects of a context and of a fresh one, and finds any difference: in values, in links, in which are
    /// there. Both sides of every link must agree, and lead to stored objects.
    func expectWhole(_ context: ManagedObjectContext, _ comment: Comment? = nil) throws {
        let fresh = ManagedObjectContext.mainQueue(coordinator: stack.coordinator)
        fresh.stalenessInterval = 0
        for entity in fresh.layout.entities where entity.superentityNumber == nil {
            let stored = try fresh.fetch(FetchRequest(entity.name)).map { $0 }
            let seen = try context.fetch(FetchRequest(entity.name)).map { $0 }
            #expect(stored.map(\.objectID) == seen.map(\.objectID), comment)
            for (left, right) in zip(stored, seen) {
                for slot in left.resolvedEntity.slots {
                    #expect(
                        left.value(at: slot.index) == right.value(at: slot.index),
                        "\(left.objectID.shortDescription).\(slot.name) \(comment ?? "")")
                }
                for relationship in left.resolvedEntity.relationships {
                    try expectSymmetric(left, relationship, fresh, comment)
                    try expectSymmetric(right, relationship, context, comment)
                    if relationship.isToMany {
                        let ids = left.objectIDs(relationship.name)
                        var others = right.objectIDs(relationship.name)
                        if relationship.inverseIndex == nil {
                            // It is not told that what it leads to was deleted.
                            others.removeAll { (try? context.existingObject(with: $0)) == nil }
                        }
                        #expect(
                            relationship.isOrdered ? ids == others : Set(ids) == Set(others),
                            "\(left.objectID.shortDescription).\(relationship.name) \(comment ?? "")"
                        )
                    }
                }
            }
        }
        let store = try #require(stack.coordinator.store as? SQLiteStore)
        #expect(try store.integrityProblems().isEmpty, comment)
    }

    private func expectSymmetric(
        _ object: ManagedObject, _ relationship: ResolvedEntity.Relationship,
        _ context: ManagedObjectContext, _ comment: Comment?
    ) throws {
        let ids: [ManagedObjectID]
        if relationship.isToMany {
            ids = object.objectIDs(relationship.name)
        } else {
            ids = relationship.slot.flatMap { object.objectID(at: $0) }.map { [$0] } ?? []
        }
        let name = "\(object.objectID.shortDescription).\(relationship.name) \(comment ?? "")"
        for id in ids {
            guard let other = try? context.existingObject(with: id) else {
                if relationship.inverseIndex == nil { continue }
                Issue.record("\(name) refers to \(id.shortDescription), which is gone")
                continue
            }
            guard let inverse = context.layout.inverse(of: relationship) else { continue }
            let back =
                inverse.isToMany
                ? other.objectIDs(inverse.name).contains(object.objectID)
                : inverse.slot.flatMap { other.objectID(at: $0) } == object.objectID
            #expect(back, "\(name) refers to \(id.shortDescription), which does not refer back")
        }
    }
}

extension MergePolicy {
    /// Those that resolve conflicts.
    static let resolving: [MergePolicy] = [
        .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .overwrite, .rollback,
    ]

    var prefersStore: Bool { self === Self.mergeByPropertyStoreTrump || self === Self.rollback }
}
