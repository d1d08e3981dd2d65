import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Drafts of unsaved changes: what is in them, and what applying them does.
@MainActor @Suite struct DraftTests {
    /// The draft as it is after it was written and read.
    private func reread(_ draft: ObjectDraft) throws -> ObjectDraft {
        try ObjectDraft(decoding: draft.encoded())
    }

    private func failure(_ body: () throws -> Void) -> QuireError? {
        do {
            try body()
            return nil
        } catch {
            return error as? QuireError
        }
    }

    @Test func valuesOfEveryTypeComeBack() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        let object = try context.insertObject(entityName: "Everything")
        let values: [String: AttributeValue] = [
            "int16": .integer(-32_768), "int32": .integer(2_147_483_647),
            "int64": .integer(.min), "double": .double(-0.0), "float": .double(.infinity),
            "decimal": .decimal(
                try #require(Decimal(string: "-12345678901234567890.123456789012345678"))),
            "string": .string("a\u{0}é\u{1F600}"), "boolean": .boolean(false),
            "date": .date(Date(timeIntervalSinceReferenceDate: -1e9 / 3)),
            "binary": .binary(Data()),
            "external": .binary(Data(repeating: 7, count: 300_000)), "uuid": .uuid(UUID()),
            "uri": .uri(try #require(URL(string: "https://example.org/a%20b?c#d"))),
            "transformable": .binary(Data([1, 0, 2])), "note": "not stored",
        ]
        for (key, value) in values { object[key] = value }
        let draft = try reread(context.makeDraft())
        #expect(draft == context.makeDraft())
        #expect(draft.insertedCount == 1)

        let other = stack.mainContext()
        #expect(try other.apply(draft).isEmpty)
        let restored = try #require(other.insertedObjects.first)
        for (key, value) in values where key != "note" {
            #expect(try restored.attributeValue(forKey: key) == value, "\(key)")
        }
        #expect(try restored.attributeValue(forKey: "note").isNull)
        #expect(restored.objectID.isTemporaryID)
    }

    /// The value that is saved must not be replaced by nothing.
    @Test func valuesThatCannotBeReadAreLeftOut() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        let source = try context.insertObject(entityName: "Everything")
        let target = try context.insertObject(entityName: "Everything")
        source["external"] = Data(repeating: 1, count: 300_000)
        target["external"] = Data(repeating: 2, count: 300_000)
        try context.save()
        context.reset()

        let (from, changed) = (
            context.object(with: source.objectID), context.object(with: target.objectID)
        )
        // Without an open file, as the value that undo restores.
        let slot = try #require(from.resolvedEntity.slot(named: "external"))
        from.realize()
        let value = from.valueWithoutLoading(at: slot)
        changed["external"] = value
        changed["string"] = "new"
        guard case .external(let data) = value, let file = data.path else {
            Issue.record("The value is in no file.")
            return
        }
        try FileManager.default.removeItem(atPath: file)
        let draft = try reread(context.makeDraft())

        let other = stack.mainContext()
        #expect(try other.apply(draft).isEmpty)
        let restored = other.object(with: target.objectID)
        #expect(restored["string", as: String.self] == "new")
        let kept = try restored.externalData(forKey: "external")?.data()
        #expect(kept == Data(repeating: 2, count: 300_000), "\(String(describing: kept?.first))")
    }

    @Test func compositeElementsAndMissingValuesComeBack() throws {
        var entity = EntityDescription(name: "Place")
        var location = AttributeDescription(name: "location", type: .composite)
        location.compositeName = "Location"
        var rank = AttributeDescription(name: "rank", type: .integer64)
        rank.defaultValue = 7
        entity.properties = [.attribute(location), .attribute(rank)]
        var model = ManagedObjectModel(entities: [entity])
        model.composites = [
            CompositeDescription(
                name: "Location",
                elements: [
                    AttributeDescription(name: "latitude", type: .double),
                    AttributeDescription(name: "longitude", type: .double),
                ])
        ]
        let stack = try TestStack(model)
        let context = stack.mainContext()
        let object = try context.insertObject(entityName: "Place")
        try object.setAttributeValue(.double(50.5), forKey: "location.latitude")
        object["rank"] = nil

        let other = stack.mainContext()
        try other.apply(reread(context.makeDraft()))
        let restored = try #require(other.insertedObjects.first)
        #expect(try restored.attributeValue(forKey: "location.latitude") == .double(50.5))
        #expect(try restored.attributeValue(forKey: "location.longitude").isNull)
        #expect(try restored.attributeValue(forKey: "rank").isNull)
    }

    @Test(arguments: ContextArrangement.allCases)
    func invalidObjectsComeBackInvalidAndCanBeMended(_ arrangement: ContextArrangement) throws {
        let stack = try TestStack()
        let context = stack.context(arrangement)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Austen"
        try stack.save(context)
        let book = try context.insertObject(entityName: "Book")
        book["author"] = author
        author["name"] = nil
        #expect(failure { try context.save() }?.code == .validation)
        let draft = try reread(context.makeDraft())

        let other = stack.context(arrangement)
        #expect(try other.apply(draft).isEmpty)
        let restored = other.object(with: author.objectID)
        #expect(restored["name", as: String.self] == nil)
        #expect(restored.objects("books").count == 1)
        #expect(failure { try other.save() }?.code == .validation)
        restored["name"] = "Jane Austen"
        restored.objects("books").first?["title"] = "Emma"
        try stack.save(other)
        #expect(try stack.stored("Book", "title").count == 1)
    }

    @Test(arguments: ContextArrangement.allCases)
    func whatOthersHaveSavedMeanwhileIsAConflictOfTheSave(
        _ arrangement: ContextArrangement
    ) throws {
        let stack = try TestStack()
        let context = stack.context(arrangement)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Austen"
        let gone = try context.insertObject(entityName: "Author")
        gone["name"] = "Gone"
        try stack.save(context)
        let reader = stack.mainContext()
        reader.object(with: author.objectID)["name"] = "Jane"
        reader.delete(reader.object(with: gone.objectID))
        let draft = try reread(reader.makeDraft())

        let rival = stack.mainContext()
        for id in [author.objectID, gone.objectID] { rival.object(with: id)["born"] = 1775 }
        try rival.save()

        let other = stack.context(arrangement)
        try other.apply(draft)
        let restored = other.object(with: author.objectID)
        #expect(restored["name", as: String.self] == "Jane")
        #expect(restored["born", as: Int64.self] == 1775)
        let error = try #require(failure { try stack.save(other) })
        #expect(error.code == .mergeConflict)
        #expect(
            Set(error.mergeConflicts.map(\.objectID)) == [author.objectID, gone.objectID])
        if arrangement == .direct {
            other.mergePolicy = .mergeByPropertyObjectTrump
            try other.save()
            #expect(try stack.stored("Author", "name") == ["string(\"Jane\")"])
        }
    }

    @Test func whatIsGoneIsReportedAndLeftOut() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let (author, other) = (
            try context.insertObject(entityName: "Author"),
            try context.insertObject(entityName: "Author")
        )
        author["name"] = "Austen"
        other["name"] = "Brontë"
        try context.save()
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        book["author"] = author
        context.delete(other)
        let draft = try reread(context.makeDraft())

        let rival = stack.mainContext()
        for id in [author.objectID, other.objectID] { rival.delete(rival.object(with: id)) }
        try rival.save()
        let target = stack.mainContext()
        let omissions = try target.apply(draft)
        #expect(
            Set(omissions.map(\.message)) == [
                "\(author.objectID.shortDescription) no longer exists; references to it were omitted.",
                "\(author.objectID.shortDescription) no longer exists; its changes were omitted.",
            ])
        #expect(omissions.allSatisfy { $0.entity == "Author" && $0.object != nil })
        let restored = try #require(target.insertedObjects.first)
        #expect(restored["title", as: String.self] == "Emma")
        #expect(restored.object("author") == nil)
        try target.save()
    }

    @Test func aDraftOutlivesAChangeOfTheModel() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let shelf = try context.insertObject(entityName: "Shelf")
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        book["year"] = 1815
        book["isbn"] = "x"
        shelf.add(book, to: "books")
        let draft = try reread(context.makeDraft())

        let newer = try TestStack(
            ManagedObjectModel(entities: [
                FixtureModels.entity(
                    "Book", FixtureModels.attribute("title", .string),
                    FixtureModels.attribute("year", .double),
                    FixtureModels.attribute("isbn", .integer64),
                    FixtureModels.attribute("rating", .integer16) { $0.defaultValue = 3 })
            ]))
        let target = newer.mainContext()
        let omissions = try target.apply(draft)
        #expect(omissions.compactMap(\.property).sorted() == ["isbn", "shelf"])
        #expect(omissions.contains { $0.entity == "Shelf" && $0.property == nil })
        let restored = try #require(target.insertedObjects.first)
        #expect(target.insertedObjects.count == 1)
        #expect(restored["title", as: String.self] == "Emma")
        #expect(restored["year", as: Double.self] == 1815)
        #expect(restored["rating", as: Int64.self] == 3)
        try target.save()
    }

    @Test func aParentsChangesComeBeforeItsChilds() throws {
        let stack = try TestStack()
        let context = stack.nestedContext()
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Austen"
        let gone = try context.insertObject(entityName: "Author")
        gone["name"] = "Gone"
        try context.save()  // To the parent only.
        author["name"] = "Jane Austen"
        context.delete(gone)
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        author.add(book, to: "books")
        let own = context.unsavedChanges()
        let pushed = try #require(context.parent).performAndWait { $0.unsavedChanges() }
        let draft = try reread(ObjectDraft([pushed, own]))
        #expect(draft.insertedCount == 3)

        let target = stack.nestedContext()
        #expect(try target.apply(draft).isEmpty)
        try stack.save(target)
        let stored = try stack.mainContext().fetch(FetchRequest("Author"))
        #expect(stored.compactMap { $0["name", as: String.self] } == ["Jane Austen"])
        #expect(
            stored.first?.objects("books").compactMap { $0["title", as: String.self] } == ["Emma"])
    }

    @Test func oneStepOfUndoTakesItBack() throws {
        let stack = try TestStack()
        try stack.fill(books: 5)
        let context = stack.mainContext()
        let books = try context.fetch(FetchRequest("Book"))
        context.delete(books[0])
        books[1]["title"] = nil
        _ = try context.insertObject(entityName: "Tag")
        let target = stack.mainContext()
        target.undoManager = UndoManager()
        try target.apply(context.makeDraft())
        #expect(target.undoManager?.undoCount == 1)
        target.undo()
        #expect(target.makeDraft().isEmpty)
        #expect(try target.count(for: FetchRequest("Book")) == 5)
        target.redo()
        let draft = target.makeDraft()
        #expect(draft.insertedCount == 1)
        #expect(draft.updatedCount == 4)
        #expect(draft.deletedCount == 1)
    }

    // MARK: In a store

    @Test func aDraftThatFindsNoRoomLeavesTheOneThatThereIs() throws {
        let stack = try TestStack()
        let store = try #require(stack.coordinator.store as? SQLiteStore)
        #expect(try store.draft() == nil)
        try store.writeDraft(Data("small".utf8))
        try store.executeOnWriter("PRAGMA max_page_count = 1")
        #expect(
            failure { try store.writeDraft(Data(repeating: 1, count: 200_000)) }?.code
                == .outOfSpace)
        #expect(try store.draft() == Data("small".utf8))
        #expect(try !store.hasTable("QUIRE_DRAFT_") && store.hasTable("QUIRE_DRAFT"))
        try store.executeOnWriter("UPDATE QUIRE_DRAFT SET Z_CONTENT = x'00'")
        #expect(failure { _ = try store.draft() }?.code == .invalidFormat)
        var changes = ChangeSet()
        changes.records = [SQLiteStore.draftRecordKey: nil]
        try store.save(changes)
        #expect(try store.draft() == nil)
        #expect(try !store.hasTable("QUIRE_DRAFT"))
    }

    // MARK: Bytes of others

    @Test func bytesThatAreNoDraftAreRefused() throws {
        for bytes in ["", "QDRAF", "QDRAFT", "QDRAFT\u{1}", "plain text"] {
            #expect(
                failure { _ = try ObjectDraft(decoding: Data(bytes.utf8)) }?.code == .invalidFormat
            )
        }
        #expect(
            failure { _ = try ObjectDraft(decoding: Data("QDRAFT\u{9}\u{0}".utf8)) }?.code
                == .unsupported)
        // A count that promises more than there is.
        let promise = Data("QDRAFT".utf8) + [1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]
        #expect(failure { _ = try ObjectDraft(decoding: promise) }?.code == .invalidFormat)
    }

    @Test func damagedBytesAreRefusedOrDoNoHarm() throws {
        let stack = try TestStack()
        try stack.fill(books: 4)
        let context = stack.mainContext()
        let books = try context.fetch(FetchRequest("Book"))
        let shelf = try context.insertObject(entityName: "Shelf")
        for book in books { shelf.add(book, to: "books") }
        shelf.insert(books[3], into: "books", at: 0)
        books[2]["price"] = Decimal(99) / 7
        books[2]["year"] = 1815
        context.delete(books[1])
        let bytes = context.makeDraft().encoded()
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        let rounds =
            ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1" ? 200_000 : 1500
        var applied = 0
        for round in 0..<rounds {
            var damaged = bytes
            if round < bytes.count {
                damaged = bytes.prefix(round)
            } else {
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(
                        in: 0...255, using: &random)
                }
            }
            let draft: ObjectDraft
            do {
                draft = try ObjectDraft(decoding: damaged)
            } catch let error as QuireError {
                #expect(
                    error.code == .invalidFormat || error.code == .unsupported,
                    "round \(round), QUIRE_SEED=\(SeededRandom.baseSeed)")
                continue
            }
            #expect(round >= bytes.count, "Nothing less than all of it is a draft.")
            let target = stack.mainContext()
            try target.apply(draft)
            target.rollback()
            applied += 1
        }
        #expect(applied > 0)
    }
}

extension SQLiteStore {
    fileprivate func hasTable(_ name: String) throws -> Bool { try read { try $0.hasTable(name) } }
}
