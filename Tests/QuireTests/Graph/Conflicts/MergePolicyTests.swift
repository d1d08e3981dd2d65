import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct MergePolicyTests {
    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func changesOfTheSameProperty(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let book = try rivals.new("Book", ["title": "old"])
        try rivals.save()
        rivals.theirs(book)["title"] = "theirs"
        try rivals.there.save()
        book["title"] = "ours"
        try rivals.save()
        let expected = policy.prefersStore ? "theirs" : "ours"
        #expect(try rivals.stored(book)?["title", as: String.self] == expected)
        if !rivals.isNested { #expect(book["title", as: String.self] == expected) }
        #expect(!rivals.here.hasChanges)
        book["title"] = "again"
        try rivals.save()
        #expect(try rivals.stored(book)?["title", as: String.self] == "again")
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func changesOfDifferentProperties(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let book = try rivals.new("Book", ["title": "old", "year": 1])
        try rivals.save()
        rivals.theirs(book)["year"] = 2
        try rivals.there.save()
        book["title"] = "ours"
        try rivals.save()
        let stored = try #require(try rivals.stored(book))
        #expect(
            stored["title", as: String.self] == (policy === MergePolicy.rollback ? "old" : "ours"))
        #expect(stored["year", as: Int64.self] == (policy === MergePolicy.overwrite ? 1 : 2))
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func changedHereDeletedThere(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let author = try rivals.new("Author", ["name": "A"])
        let book = try rivals.new("Book", ["title": "old", "year": 1])
        book["author"] = author
        try rivals.save()
        rivals.there.delete(rivals.theirs(book))
        try rivals.there.save()
        book["title"] = "ours"
        try rivals.save()
        let stored = try rivals.stored(book)
        if policy.prefersStore {
            #expect(stored == nil)
            if !rivals.isNested {
                #expect(!book.hasChanges)
                #expect(throws: QuireError.self) {
                    try rivals.here.existingObject(with: book.objectID)
                }
                #expect(author.objects("books").isEmpty)
            }
        } else {
            #expect(stored?["title", as: String.self] == "ours")
            #expect(stored?["year", as: Int64.self] == 1)
            #expect(stored?.object("author")?.objectID == author.objectID)
            #expect(author.objects("books") == [book])
        }
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func deletedHereChangedThere(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let author = try rivals.new("Author", ["name": "A"])
        let books = try ["x", "y"].map { try rivals.new("Book", ["title": .string($0)]) }
        for book in books { book["author"] = author }
        let tag = try rivals.new("Tag", ["name": "T"])
        tag.add(books[0], to: "books")
        try rivals.save()
        rivals.theirs(author)["name"] = "B"
        try rivals.there.save()
        rivals.here.delete(author)
        try rivals.save()
        let stored = try rivals.stored(author)
        if policy.prefersStore {
            #expect(stored?["name", as: String.self] == "B")
            #expect(stored?.objectIDs("books").count == 2)
            #expect(try rivals.stored(tag)?.objectIDs("books") == [books[0].objectID])
            if !rivals.isNested {
                #expect(!author.isDeleted)
                #expect(author["name", as: String.self] == "B")
                #expect(books[0].object("author") === author)
                #expect(tag.objects("books") == [books[0]])
            }
        } else {
            #expect(stored == nil)
            #expect(try rivals.stored(books[0]) == nil)
        }
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
    }

    @Test(arguments: RivalKind.allCases, [MergePolicy.error] + MergePolicy.resolving)
    func deletedOnBothSidesIsNoConflict(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let author = try rivals.new("Author", ["name": "A"])
        let book = try rivals.new("Book", ["title": "x"])
        book["author"] = author
        try rivals.save()
        rivals.there.delete(rivals.theirs(author))
        try rivals.there.save()
        rivals.here.delete(author)
        try rivals.save()
        #expect(!rivals.here.hasChanges)
        #expect(try rivals.stored(author) == nil)
        #expect(try rivals.stored(book) == nil)
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func ordersChangedOnBothSides(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let shelf = try rivals.new("Shelf", ["name": "S"])
        let books = try ["a", "b", "c"].map { try rivals.new("Book", ["title": .string($0)]) }
        for book in books { shelf.add(book, to: "books") }
        try rivals.save()
        #expect(shelf.objects("books") == books)  // What was never read is not in conflict.
        let theirs = rivals.theirs(shelf)
        theirs.insert(rivals.theirs(books[2]), into: "books", at: 0)
        let added = try rivals.there.insertObject(entityName: "Book")
        added["title"] = "d"
        theirs.insert(added, into: "books", at: 1)
        try rivals.there.save()  // c d a b
        shelf.insert(books[1], into: "books", at: 0)  // b a c
        let mine = try rivals.new("Book", ["title": "e"])
        shelf.add(mine, to: "books")  // b a c e
        try rivals.save()
        let stored = try #require(try rivals.stored(shelf))
        let titles = stored.objects("books").compactMap { $0["title", as: String.self] }.joined()
        #expect(titles == (policy.prefersStore ? "cdabe" : "bacde"))
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func toOneChangedOnBothSidesStaysSymmetric(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let authors = try ["a", "b", "c"].map { try rivals.new("Author", ["name": .string($0)]) }
        let book = try rivals.new("Book", ["title": "x"])
        book["author"] = authors[0]
        try rivals.save()
        for author in authors { #expect(author.objects("books").count < 2) }
        rivals.theirs(book)["author"] = rivals.theirs(authors[1])
        try rivals.there.save()
        book["author"] = authors[2]
        try rivals.save()
        let expected = policy.prefersStore ? authors[1] : authors[2]
        #expect(try rivals.stored(book)?.object("author")?.objectID == expected.objectID)
        if !rivals.isNested {
            #expect(book.object("author") === expected)
            for author in authors {
                #expect(author.objects("books") == (author === expected ? [book] : []))
            }
            try rivals.expectWhole(rivals.here)
        }
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func oneToOneChangedOnBothSidesStaysSymmetric(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let people = try ["a", "b", "c"].map { try rivals.new("Person", ["name": .string($0)]) }
        people[0]["spouse"] = people[1]
        try rivals.save()
        rivals.theirs(people[0])["spouse"] = rivals.theirs(people[2])
        try rivals.there.save()
        people[0]["spouse"] = nil
        try rivals.save()
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
        let stored = try rivals.stored(people[0])?.object("spouse")
        #expect(stored?.objectID == (policy.prefersStore ? people[2].objectID : nil))
        try rivals.expectWhole(rivals.stack.mainContext())
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func aNewObjectRefersToWhatOthersDeleted(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let author = try rivals.new("Author", ["name": "A"])
        try rivals.save()
        _ = author.objects("books")
        rivals.there.delete(rivals.theirs(author))
        try rivals.there.save()
        let book = try rivals.new("Book", ["title": "x"])
        book["author"] = author
        try rivals.save()
        let stored = try #require(try rivals.stored(book))
        #expect(
            stored.object("author")?.objectID == (policy.prefersStore ? nil : author.objectID))
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
    }

    @Test(arguments: RivalKind.allCases, MergePolicy.resolving)
    func othersReferToWhatIsDeletedHere(kind: RivalKind, policy: MergePolicy) throws {
        let rivals = try Rivals(kind, policy: policy)
        let author = try rivals.new("Author", ["name": "A"])
        try rivals.save()
        _ = author.objects("books")
        let theirBook = try rivals.there.insertObject(entityName: "Book")
        theirBook["title"] = "x"
        theirBook["author"] = rivals.theirs(author)
        try rivals.there.save()
        rivals.here.delete(author)
        try rivals.save()
        let stored = try rivals.stored(author)
        if policy.prefersStore {
            #expect(stored?.objectIDs("books") == [theirBook.objectID])
        } else {
            #expect(stored == nil)
            #expect(try rivals.stored(theirBook) == nil)
        }
        if !rivals.isNested { try rivals.expectWhole(rivals.here) }
    }

    @Test func errorListsEveryConflictAndChangesNothing() throws {
        let rivals = try Rivals(.store)
        let books = try (1...3).map {
            try rivals.new("Book", ["title": .string("old \($0)"), "year": 1])
        }
        let author = try rivals.new("Author", ["name": "A"])
        try rivals.save()
        rivals.theirs(books[0])["title"] = "theirs"
        rivals.theirs(books[0])["year"] = 2
        rivals.there.delete(rivals.theirs(books[1]))
        rivals.theirs(author)["name"] = "B"
        try rivals.there.save()
        books[0]["title"] = "ours"
        books[1]["title"] = "ours"
        books[2]["title"] = "ours"
        rivals.here.delete(author)
        let error = try #require(throws: QuireError.self) { try rivals.save() }
        #expect(error.code == .mergeConflict)
        #expect(error.failures.count == 3)
        #expect(error.mergeConflicts.count == 3)
        let conflicts = Dictionary(
            uniqueKeysWithValues: error.mergeConflicts.map { ($0.objectID, $0) })
        let changed = try #require(conflicts[books[0].objectID])
        #expect(changed.objectSnapshot?["title"] == "ours")
        #expect(changed.cachedSnapshot?["title"] == "old 1")
        #expect(changed.persistedSnapshot?["title"] == "theirs")
        #expect(changed.changedProperties == ["title"])
        #expect(changed.propertiesChangedInStore == ["title", "year"])
        #expect(changed.oldVersionNumber == 1)
        #expect(changed.newVersionNumber == 2)
        let gone = try #require(conflicts[books[1].objectID])
        #expect(gone.persistedSnapshot == nil)
        #expect(gone.newVersionNumber == 0)
        let deleted = try #require(conflicts[author.objectID])
        #expect(deleted.objectSnapshot == nil)
        #expect(deleted.cachedSnapshot?["name"] == "A")
        let failure = error.failures.first {
            $0.subject.object == books[0].objectID.uriRepresentation
        }
        #expect(failure?.subject.property == "title")
        #expect(books[0]["title", as: String.self] == "ours")
        #expect(Set(rivals.here.updatedObjects) == Set(books))
        #expect(rivals.here.deletedObjects == [author])
        #expect(try rivals.stored(books[2])?["title", as: String.self] == "old 3")
        rivals.set(.mergeByPropertyObjectTrump)
        try rivals.save()
        #expect(try rivals.stored(books[2])?["title", as: String.self] == "ours")
        try rivals.expectWhole(rivals.here)
    }

    @Test func orderedContentsAreInTheSnapshots() throws {
        let rivals = try Rivals(.context)
        let shelf = try rivals.new("Shelf")
        let books = try ["a", "b"].map { try rivals.new("Book", ["title": .string($0)]) }
        for book in books { shelf.add(book, to: "books") }
        try rivals.save()
        rivals.theirs(shelf)["name"] = "theirs"
        try rivals.there.save()
        shelf.insert(books[1], into: "books", at: 0)
        let error = try #require(throws: QuireError.self) { try rivals.save() }
        let conflict = try #require(error.mergeConflicts.first)
        let ids = books.map(\.objectID)
        #expect(conflict.objectSnapshot?.orderedObjectIDs == ["books": ids.reversed()])
        #expect(conflict.cachedSnapshot?.orderedObjectIDs == ["books": ids])
        #expect(conflict.persistedSnapshot?.orderedObjectIDs == ["books": ids])
        #expect(conflict.propertiesChangedInStore == ["name"])
    }

    @Test func aSubclassDecides() throws {
        final class Greatest: MergePolicy, @unchecked Sendable {
            override func resolve(
                mergeConflict conflict: MergeConflict
            ) throws -> MergeResolution {
                guard case .integer(let here)? = conflict.objectSnapshot?["year"],
                    case .integer(let there)? = conflict.persistedSnapshot?["year"]
                else { return try super.resolve(mergeConflict: conflict) }
                return .keep(
                    conflict.changedProperties, setting: ["year": .integer(max(here, there))])
            }
        }
        for kind in RivalKind.allCases {
            let rivals = try Rivals(kind, policy: Greatest(merge: .error))
            let book = try rivals.new("Book", ["title": "old", "year": 1])
            let author = try rivals.new("Author", ["name": "A"])
            try rivals.save()
            rivals.theirs(book)["year"] = 7
            try rivals.there.save()
            book["year"] = 5
            book["title"] = "ours"
            try rivals.save()
            #expect(try rivals.stored(book)?["year", as: Int64.self] == 7)
            #expect(try rivals.stored(book)?["title", as: String.self] == "ours")
            rivals.theirs(author)["name"] = "theirs"
            try rivals.there.save()
            author["name"] = "ours"
            let error = #expect(throws: QuireError.self) { try rivals.save() }
            #expect(error?.code == .mergeConflict)
        }
    }

    @Test func undoSurvivesMergedAttributesAndForgetsMergedLinks() throws {
        let rivals = try Rivals(.store, policy: .mergeByPropertyObjectTrump)
        let manager = UndoManager()
        rivals.here.undoManager = manager
        let authors = try ["a", "b"].map { try rivals.new("Author", ["name": .string($0)]) }
        let book = try rivals.new("Book", ["title": "old", "year": 1])
        try rivals.save()
        rivals.theirs(book)["year"] = 2
        try rivals.there.save()
        book["title"] = "ours"
        try rivals.save()
        #expect(book["year", as: Int64.self] == 2)
        rivals.here.undo()
        #expect(book["title", as: String.self] == "old")
        #expect(book["year", as: Int64.self] == 2)
        try rivals.save()
        rivals.theirs(book)["author"] = rivals.theirs(authors[0])
        try rivals.there.save()
        book["author"] = authors[1]
        try rivals.save()
        #expect(!manager.canUndo)
        try rivals.expectWhole(rivals.here)
    }

    @Test func aResolutionThatBreaksARuleSavesNothing() throws {
        let model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "Owner", FixtureModels.attribute("name", .string),
                FixtureModels.toMany("things", "Thing", "owner", .cascade)),
            FixtureModels.entity("Thing", required("owner", "Owner", "things")),
        ])
        let rivals = try Rivals(.store, policy: .mergeByPropertyStoreTrump, model: model)
        let owner = try rivals.new("Owner")
        try rivals.save()
        rivals.there.delete(rivals.theirs(owner))
        try rivals.there.save()
        let thing = try rivals.new("Thing")
        thing["owner"] = owner
        let error = #expect(throws: QuireError.self) { try rivals.save() }
        #expect(error?.code == .validation)
        #expect(rivals.here.insertedObjects == [thing])
        #expect(try rivals.stack.mainContext().count(for: FetchRequest("Thing")) == 0)
    }

    private func required(
        _ name: String, _ destination: String, _ inverse: String
    ) -> PropertyDescription {
        guard
            case .relationship(var relationship) = FixtureModels.toOne(name, destination, inverse)
        else { preconditionFailure("toOne makes a relationship.") }
        relationship.isOptional = false
        return .relationship(relationship)
    }

    @Test func identifiersTakenByAnotherProcessAreReplaced() throws {
        let rivals = try Rivals(.store)
        _ = try rivals.new("Author", ["name": "first"])
        try rivals.save()
        // Both sides know the same greatest key from here on.
        let theirs = try rivals.there.insertObject(entityName: "Author")
        theirs["name"] = "theirs"
        try rivals.there.save()
        let ours = try rivals.new("Author", ["name": "ours"])
        let book = try rivals.new("Book", ["title": "x"])
        book["author"] = ours
        try rivals.save()
        #expect(ours.objectID != theirs.objectID)
        #expect(try rivals.stored(ours)?["name", as: String.self] == "ours")
        #expect(try rivals.stored(book)?.object("author")?.objectID == ours.objectID)
        #expect(ours.objects("books") == [book])
        try rivals.expectWhole(rivals.here)
    }

    /// Sets a book's values to the saved ones, by themselves or on the way from others.
    private func setToSavedValues(_ book: ManagedObject, shelf: ManagedObject, andBack: Bool) {
        if andBack {
            book["title"] = "other"
            book["year"] = 9
        }
        book["title"] = "old"
        book["year"] = 1
        book["shelf"] = shelf
    }

    @Test(arguments: RivalKind.allCases, [MergePolicy.error] + MergePolicy.resolving)
    func valueSetToTheSavedOneIsNoChange(kind: RivalKind, policy: MergePolicy) throws {
        for andBack in [false, true] {
            let rivals = try Rivals(kind, policy: policy)
            let (shelf, other) = (try rivals.new("Shelf"), try rivals.new("Shelf"))
            let book = try rivals.new("Book", ["title": "old", "year": 1])
            book["shelf"] = shelf
            try rivals.save()
            rivals.theirs(book)["year"] = 2
            rivals.theirs(book)["shelf"] = rivals.theirs(other)
            try rivals.there.save()
            setToSavedValues(book, shelf: shelf, andBack: andBack)
            #expect(book.isUpdated && !book.hasPersistentChangedValues)
            try rivals.save()
            #expect(!rivals.here.hasChanges)
            var stored = try #require(try rivals.stored(book))
            #expect(stored["year"] as? Int == 2)
            #expect(stored.object("shelf")?.objectID == other.objectID)
            rivals.here.refreshAllObjects()
            // Beside a change of another property, too.
            guard policy !== MergePolicy.error, policy !== MergePolicy.overwrite else { continue }
            rivals.theirs(book)["year"] = 3
            try rivals.there.save()
            book["year"] = book["year"]
            book["title"] = "ours"
            try rivals.save()
            stored = try #require(try rivals.stored(book))
            #expect(stored["year"] as? Int == 3)
        }
    }

    @Test(arguments: [false, true])
    func mergeAdoptsTheStoresValueWhereTheSavedOneWasSet(isAutomatic: Bool) throws {
        let rivals = try Rivals(.context, policy: .mergeByPropertyObjectTrump)
        rivals.here.automaticallyMergesChangesFromParent = isAutomatic
        let (shelf, other) = (try rivals.new("Shelf"), try rivals.new("Shelf"))
        let book = try rivals.new("Book", ["title": "old", "year": 1])
        book["shelf"] = shelf
        try rivals.save()
        setToSavedValues(book, shelf: shelf, andBack: true)
        rivals.theirs(book)["year"] = 2
        rivals.theirs(book)["shelf"] = rivals.theirs(other)
        try rivals.there.save()
        if isAutomatic {
            rivals.here.processPendingChanges()
            try rivals.here.save()
        } else {
            rivals.here.refresh(book, mergeChanges: true)
        }
        #expect(book["year"] as? Int == 2)
        #expect(book.object("shelf") == other)
        #expect(other.objects("books") == [book])
        try rivals.save()
        #expect(try rivals.stored(book)?["year"] as? Int == 2)
        try rivals.expectWhole(rivals.here)
    }
}
