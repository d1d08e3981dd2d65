import Foundation
import Quire
import QuireTestSupport
import Testing

/// Setting all objects of a to-many relationship.
@MainActor @Suite struct RelationshipSettingTests {
    /// `B.list` is one-to-many and ordered, `Author.books` one-to-many, the others are many-to-many.
    enum Relationship: String, CaseIterable, Sendable {
        case books, list, bothBy, tags

        var isOrdered: Bool { self == .list || self == .bothBy }
        var isToOne: Bool { self == .books || self == .list }
        var owner: String {
            switch self {
            case .books: "Author"
            case .tags: "Book"
            case .list, .bothBy: "B"
            }
        }
        var member: String {
            switch self {
            case .books: "Book"
            case .tags: "Tag"
            case .list, .bothBy: "A"
            }
        }
        var inverse: String {
            switch self {
            case .books: "author"
            case .tags: "books"
            case .list: "inList"
            case .bothBy: "both"
            }
        }

        @MainActor func makeStack() throws -> TestStack {
            isOrdered ? try TestStack(ReferenceModel.shared.description) : try TestStack()
        }
    }

    private func new(_ entity: String, in context: ManagedObjectContext) throws -> ManagedObject {
        let object = try context.insertObject(entityName: entity)
        if entity == "Book" { object["title"] = "t" }
        if entity == "Author" || entity == "Tag" { object["name"] = UUID().uuidString }
        return object
    }

    private func owners(of member: ManagedObject, _ relationship: Relationship) -> [ManagedObject] {
        relationship.isToOne
            ? member.object(relationship.inverse).map { [$0] } ?? []
            : member.objects(relationship.inverse)
    }

    @Test(arguments: Relationship.allCases)
    func settingKeepsOrderInversesAndUndo(relationship: Relationship) throws {
        let stack = try relationship.makeStack()
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        let key = relationship.rawValue
        let (owner, other) = (
            try new(relationship.owner, in: context),
            try new(relationship.owner, in: context)
        )
        let members = try (0..<12).map { _ in
            try new(relationship.member, in: context)
        }
        owner[key] = Array(members[..<9])
        other[key] = Array(members[9...])
        try context.save()

        func check(_ expected: [ManagedObject], of otherExpected: [ManagedObject]) {
            #expect(owner.objects(key) == expected)
            #expect(other.objects(key) == otherExpected)
            for member in members {
                #expect(
                    owners(of: member, relationship).contains(owner) == expected.contains(member))
                #expect(
                    owners(of: member, relationship).contains(other)
                        == otherExpected.contains(member))
            }
        }
        let before = Array(members[..<9])
        // Some stay, some leave from between them, and some come, from another owner too.
        let wanted = [0, 2, 3, 5, 8, 9, 11].map { members[$0] }
        let rest =
            relationship.isToOne ? [members[10]] : Array(members[9...])
        check(before, of: Array(members[9...]))
        owner[key] = relationship.isOrdered ? Array(wanted.reversed()) : wanted
        let after = relationship.isOrdered ? Array(wanted.reversed()) : wanted
        check(after, of: rest)
        context.processPendingChanges()
        owner[key] = [ManagedObject]()
        check([], of: rest)
        context.undo()
        check(after, of: rest)
        context.undo()
        check(before, of: Array(members[9...]))
        #expect(!context.hasChanges)
        context.redo()
        check(after, of: rest)
        context.redo()
        check([], of: rest)
        context.undo()
        try context.save()
        #expect(context.updatedObjects.isEmpty)

        let reader = stack.mainContext()
        let read = reader.object(with: owner.objectID).objects(key).map(\.objectID)
        let ids = after.map(\.objectID)
        #expect(relationship.isOrdered ? read == ids : Set(read) == Set(ids))
    }

    @Test(arguments: Relationship.allCases)
    func settingReportsTheContentsBefore(relationship: Relationship) throws {
        let stack = try relationship.makeStack()
        let context = stack.mainContext()
        let key = relationship.rawValue
        let owner = try new(relationship.owner, in: context)
        let members = try (0..<8).map { _ in
            try new(relationship.member, in: context)
        }
        owner[key] = members
        try context.save()
        owner[key] = [members[1], members[4], members[6]]
        #expect(
            owner.changedValuesForCurrentEvent()[key] == .objectIDs(members.map(\.objectID)))
        #expect(
            owner.changedValues()[key]
                == .objectIDs([members[1], members[4], members[6]].map(\.objectID)))
    }

    /// A change of the members. Thinning keeps every second one.
    enum Change: CaseIterable, Sendable {
        case clearing, thinning, moving
    }

    /// The least time of the processor, in seconds, that changing, undoing and redoing took of three times. Other processes do not
    /// count.
    private func time(
        _ change: Change, _ relationship: Relationship, count: Int
    ) throws -> Double {
        func processorTime() -> Double {
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
        }
        return try (0..<3).map { _ in
            let stack = try relationship.makeStack()
            let context = stack.mainContext()
            let key = relationship.rawValue
            let (owner, other) = (
                try new(relationship.owner, in: context),
                try new(relationship.owner, in: context)
            )
            let members = try (0..<count).map { _ in
                try new(relationship.member, in: context)
            }
            owner[key] = members
            context.processPendingChanges()
            context.undoManager = UndoManager()
            let start = processorTime()
            switch change {
            case .clearing: owner[key] = [ManagedObject]()
            case .thinning:
                owner[key] = stride(from: 0, to: count, by: 2).map { members[$0] }
            case .moving: other[key] = members
            }
            context.undo()
            context.redo()
            let time = processorTime() - start
            let left = change == .thinning ? count / 2 : 0
            let isMany = change == .moving && !relationship.isToOne
            #expect(owner.objects(key).count == (isMany ? count : left))
            return time
        }.min() ?? 0
    }

    @Test(arguments: [Relationship.books, .list], Change.allCases)
    func settingIsLinearInTheMembers(relationship: Relationship, change: Change) throws {
        let count = 1000
        let once = try time(change, relationship, count: count)
        let eightfold = try time(change, relationship, count: 8 * count)
        #expect(eightfold < once * 24, "\(once) for \(count) members, \(eightfold) for eight times")
    }
}
