import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@MainActor @Suite struct BatchDeleteTests {
    let stack: BatchStack

    init() throws { stack = try BatchStack() }

    private func delete(
        _ entity: String, where format: String? = nil, in stack: BatchStack? = nil
    ) throws -> BatchResult {
        var fetch = FetchRequest(entity)
        fetch.predicate = try format.map { try QueryPredicate(format: $0) }
        var request = try BatchDeleteRequest(fetchRequest: fetch)
        request.resultType = .objectIDs
        return try (stack ?? self.stack).context.execute(request)
    }

    private func names(_ ids: [ManagedObjectID]) -> [String] { ids.map(\.shortDescription) }

    // MARK: Which

    @Test func objectsThatSatisfyTheConditionGo() throws {
        for year in 1...4 {
            try stack.insert("Book", ["title": "b", "year": .integer(Int64(year))])
        }
        try stack.context.save()
        let result = try delete("Book", where: "year > 2")
        #expect(result.count == 2)
        #expect(names(result.changes.deleted) == ["Book/p3", "Book/p4"])
        #expect(try stack.values("Book", "year") == [1, 2])
        #expect(try delete("Book", where: "year > 2").count == 0)
        try stack.checkWhole()
    }

    @Test func orderLimitAndOffsetAreHonoured() throws {
        for year in [5, 3, 1, 4, 2] as [Int64] {
            try stack.insert("Book", ["title": "b", "year": .integer(year)])
        }
        try stack.context.save()
        var fetch = FetchRequest("Book", sortOrderings: [SortOrdering("year", ascending: false)])
        fetch.fetchLimit = 2
        fetch.fetchOffset = 1
        #expect(try stack.context.execute(BatchDeleteRequest(fetchRequest: fetch)).count == 2)
        #expect(try stack.values("Book", "year") == [5, 1, 2])
    }

    @Test func objectsGoByTheirIdentifiers() throws {
        let book = try stack.insert("Book", ["title": "b"])
        let tag = try stack.insert("Tag", ["name": "t"])
        let kept = try stack.insert("Manager", ["name": "m"])
        try stack.context.save()
        let gone = ManagedObjectID(
            entityNumber: tag.resolvedEntity.number, primaryKey: 99, store: stack.store.identity)
        // An identifier of another entity than the object with that key has is of no object.
        let employee = try stack.store.layout.requireEntity(named: "Tag")
        let wrong = ManagedObjectID(
            entityNumber: employee.number, primaryKey: kept.objectID.primaryKey + 1,
            store: stack.store.identity)
        let request = BatchDeleteRequest(objectIDs: [
            book.objectID, tag.objectID, gone, wrong, book.objectID,
        ])
        let result = try stack.context.execute(request)
        #expect(result == BatchResult(count: 2))
        #expect(try stack.count("Person") == 1)
        try stack.checkWhole()
    }

    @Test func identifiersOfOtherStoresAndOfNewObjectsAreRefused() throws {
        let new = try stack.insert("Book", ["title": "new"])
        let other = try BatchStack()
        let theirs = try other.insert("Book", ["title": "theirs"])
        try other.context.save()
        for id in [new.objectID, theirs.objectID] {
            let error = try stack.failure {
                try stack.context.execute(BatchDeleteRequest(objectIDs: [id]))
            }
            #expect(error.code == .invalidValue)
        }
    }

    @Test func wrongRequestsAreRefused() throws {
        var error = try stack.failure { _ = try delete("Nobody") }
        #expect(error.code == .unknownEntity)
        error = try stack.failure { _ = try delete("Book", where: "titel == 'x'") }
        #expect(error.code == .unknownKey)
    }

    @Test func subentitiesGoUnlessExcluded() throws {
        try stack.insert("Person", ["name": "p"])
        try stack.insert("Manager", ["name": "m"])
        try stack.context.save()
        var fetch = FetchRequest("Person")
        fetch.includesSubentities = false
        #expect(try stack.context.execute(BatchDeleteRequest(fetchRequest: fetch)).count == 1)
        #expect(try stack.values("Person", "name") == ["m"])
    }

    // MARK: Delete rules

    @Test func cascadesFollowOneAnother() throws {
        let author = try stack.insert("Author", ["name": "Jane"])
        let other = try stack.insert("Author", ["name": "Other"])
        for index in 0..<3 {
            let book = try stack.insert(
                "Book", ["title": "b"], ["author": index < 2 ? author : other])
            book["cover"] = try stack.insert("Cover")
        }
        try stack.context.save()
        let result = try delete("Author", where: "name == 'Jane'")
        #expect(result.count == 5)
        #expect(
            names(result.changes.deleted).sorted() == [
                "Author/p1", "Book/p1", "Book/p2", "Cover/p1", "Cover/p2",
            ])
        #expect(try stack.count("Book") == 1)
        try stack.checkWhole()
    }

    @Test func circlesOfCascadesEnd() throws {
        let stack = try BatchStack(
            ManagedObjectModel(entities: [
                FixtureModels.entity(
                    "Node", FixtureModels.attribute("name", .string),
                    FixtureModels.toOne("next", "Node", "previous", .cascade),
                    FixtureModels.toOne("previous", "Node", "next"))
            ]))
        let nodes = try (0..<200).map { try stack.insert("Node", ["name": .string("\($0)")]) }
        for index in nodes.indices {
            nodes[index]["next"] = nodes[(index + 1) % nodes.count]
        }
        try stack.insert("Node", ["name": "apart"])
        try stack.context.save()
        #expect(try delete("Node", where: "name == '7'", in: stack).count == 200)
        #expect(try stack.values("Node", "name") == ["apart"])
        try stack.checkWhole()
    }

    @Test func othersLoseTheirReferencesAndAreOfANewVersion() throws {
        let shelf = try stack.insert("Shelf", ["name": "A"])
        let manager = try stack.insert("Manager", ["name": "m"])
        let person = try stack.insert(
            "Person", ["name": "p"], ["manager": manager, "spouse": manager])
        try stack.context.save()
        let result = try delete("Manager")
        #expect(result.count == 1)
        #expect(names(result.changes.updated) == [person.objectID.shortDescription])
        #expect(
            try StoreInspection(stack.store).dump() == [
                "Person/p\(person.objectID.primaryKey) v2 name=string(\"p\")",
                "Shelf/p\(shelf.objectID.primaryKey) v1 name=string(\"A\")",
            ])
        try stack.checkWhole()
    }

    @Test func pairsOfManyToManyRelationshipsGo() throws {
        let tags = try ["x", "y"].map { try stack.insert("Tag", ["name": .string($0)]) }
        let book = try stack.insert("Book", ["title": "b"])
        let sequel = try stack.insert("Book", ["title": "c"])
        for tag in tags { book.add(tag, to: "tags") }
        book.add(sequel, to: "sequels")
        let playlists = try (0..<2).map { _ in try stack.insert("Playlist") }
        let songs = try ["r", "s", "t"].map { try stack.insert("Song", ["title": .string($0)]) }
        for playlist in playlists {
            for song in songs.reversed() { playlist.add(song, to: "songs") }
        }
        try stack.context.save()
        _ = try delete("Tag", where: "name == 'x'")
        _ = try delete("Book", where: "title == 'c'")
        _ = try delete("Song", where: "title == 's'")
        let fresh = ManagedObjectContext.mainQueue(coordinator: stack.coordinator)
        #expect(
            fresh.object(with: book.objectID).objects("tags").map { $0["name", as: String.self] }
                == ["y"])
        #expect(fresh.object(with: book.objectID).objects("sequels").isEmpty)
        for playlist in playlists {
            #expect(
                fresh.object(with: playlist.objectID).objects("songs").map {
                    $0["title", as: String.self]
                }
                    == ["t", "r"])
        }
        try stack.checkWhole()
    }

    @Test func relationshipWithoutInverseForgetsItsOwner() throws {
        let shelf = try stack.insert("Shelf", ["name": "A"])
        let tag = try stack.insert("Tag", ["name": "t"])
        shelf.add(tag, to: "favourites")
        try stack.context.save()
        #expect(try delete("Shelf").count == 1)
        let columns = try stack.store.read {
            try $0.integer("SELECT count(*) FROM ZTAG WHERE Z_PK > 0 AND ZNAME = 't'")
        }
        #expect(columns == 1)
        let again = try stack.insert("Shelf", ["name": "B"])
        try stack.context.save()
        #expect(again.objects("favourites").isEmpty)
        try stack.checkWhole()
    }

    @Test func denyFailsWhileAnythingIsLeft() throws {
        let shelf = try stack.insert("Shelf", ["name": "A"])
        let book = try stack.insert("Book", ["title": "b"], ["shelf": shelf])
        try stack.context.save()
        let error = try stack.failure { _ = try delete("Shelf") }
        #expect(error.code == .deleteDenied)
        #expect(
            error.message == "Shelf/p1 cannot be deleted while “books” refers to Book/p1.")
        let denial = try #require(error.underlying as? DeletionDenial)
        #expect(denial.objectID == shelf.objectID)
        #expect(denial.relationship == "books")
        #expect(denial.blockingObjectIDs == [book.objectID])
        // What goes as well does not stand against it.
        #expect(
            try stack.context.execute(
                BatchDeleteRequest(objectIDs: [shelf.objectID, book.objectID])
            ).count == 2)
        try stack.checkWhole()
    }

    @Test func requiredReferenceIsNotTaken() throws {
        let stack = try BatchStack(Self.families)
        let parent = try stack.insert("Parent", ["name": "p"])
        let child = try stack.insert("Child", ["name": "c"], ["parent": parent])
        try stack.context.save()
        let error = try stack.failure { _ = try delete("Parent", in: stack) }
        #expect(error.code == .validation)
        #expect(error.subject.rule == .required)
        #expect(error.subject.property == "parent")
        #expect(error.subject.object == child.objectID.uriRepresentation)
        let both = BatchDeleteRequest(objectIDs: [parent.objectID, child.objectID])
        #expect(try stack.context.execute(both).count == 2)
    }

    @Test func minimumCountsHold() throws {
        let stack = try BatchStack(Self.families)
        let parent = try stack.insert("Parent", ["name": "p"])
        for name in ["a", "b", "c"] {
            parent.add(try stack.insert("Friend", ["name": .string(name)]), to: "friends")
        }
        try stack.context.save()
        #expect(try delete("Friend", where: "name == 'a'", in: stack).count == 1)
        let error = try stack.failure { _ = try delete("Friend", where: "name == 'b'", in: stack) }
        #expect(error.code == .validation)
        #expect(error.subject.rule == .minimumCount)
        #expect(
            error.message
                == "“friends” of Parent/p1 would refer to 1 objects; at least 2 are required.")
        // None at all is fine, as the relationship is optional.
        #expect(try delete("Friend", in: stack).count == 2)
        try stack.checkWhole()
    }

    private static let families = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Parent", FixtureModels.attribute("name", .string),
            FixtureModels.toMany("children", "Child", "parent"),
            FixtureModels.toMany("friends", "Friend", "parents") { $0.minimumCount = 2 }),
        FixtureModels.entity(
            "Child", FixtureModels.attribute("name", .string),
            required(FixtureModels.toOne("parent", "Parent", "children"))),
        FixtureModels.entity(
            "Friend", FixtureModels.attribute("name", .string),
            FixtureModels.toMany("parents", "Parent", "friends")),
    ])

    private static func required(_ property: PropertyDescription) -> PropertyDescription {
        guard case .relationship(var relationship) = property else { return property }
        relationship.isOptional = false
        return .relationship(relationship)
    }

    // MARK: External data

    @Test func filesOfDeletedObjectsGoAfterTheRequest() throws {
        for number in 0..<3 {
            let book = try stack.insert("Book", ["title": .string("b\(number)")])
            book["cover"] = try stack.insert(
                "Cover", ["image": .binary(Data(repeating: 1, count: 150_000))])
        }
        try stack.context.save()
        let files = try stack.store.externalFiles().map(\.path)
        _ = try delete("Book", where: "title != 'b0'")
        let left = try stack.store.externalFiles().map(\.path)
        #expect(left.count == 1)
        #expect(files.allSatisfy { FileManager.default.fileExists(atPath: $0) })
        try stack.checkWhole()
        try stack.store.close()
        #expect(files.filter { FileManager.default.fileExists(atPath: $0) } == left)
    }
}
