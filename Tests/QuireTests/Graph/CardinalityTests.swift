import Quire
import QuireTestSupport
import Testing

/// Every pair of cardinalities, between two entities and within one: each edit keeps both sides in step, can be undone
/// and redone, and reads back as it was saved.
@MainActor @Suite struct CardinalityTests {
    enum Kind: String, CaseIterable, Sendable {
        case one, many, ordered
    }

    struct Pair: Sendable, CustomTestStringConvertible {
        var kind: Kind
        /// `nil` for no inverse.
        var inverse: Kind?
        var isSelf: Bool
        /// Whether the relationship is its own inverse.
        var isReflexive = false

        var testDescription: String {
            let other = isReflexive ? "itself" : inverse?.rawValue ?? "none"
            return "\(kind) × \(other)\(isSelf ? ", self" : "")"
        }

        var model: ManagedObjectModel {
            func end(
                _ name: String, _ destination: String, _ inverse: String?, _ kind: Kind
            ) -> PropertyDescription {
                kind == .one
                    ? FixtureModels.toOne(name, destination, inverse)
                    : FixtureModels.toMany(name, destination, inverse) {
                        $0.isOrdered = kind == .ordered
                    }
            }
            let target = isSelf ? "A" : "B"
            let name = FixtureModels.attribute("name", .string)
            var first = FixtureModels.entity(
                "A", name,
                end("to", target, isReflexive ? "to" : inverse.map { _ in "back" }, kind))
            let back = inverse.map { end("back", "A", "to", $0) }
            if isSelf {
                if let back, !isReflexive { first.properties.append(back) }
                return ManagedObjectModel(entities: [first])
            }
            var second = FixtureModels.entity("B", name)
            if let back { second.properties.append(back) }
            return ManagedObjectModel(entities: [first, second])
        }

        static let all: [Pair] =
            Kind.allCases.flatMap { kind in
                [false, true].flatMap { isSelf in
                    (Kind.allCases.map { Optional($0) } + [nil]).map {
                        Pair(kind: kind, inverse: $0, isSelf: isSelf)
                    }
                }
            }
            + Kind.allCases.map { Pair(kind: $0, inverse: $0, isSelf: true, isReflexive: true) }
    }

    /// What all relationships lead to, by names. Contents without an order are sorted.
    typealias Dump = [String: [String]]

    private static func dump(
        _ context: ManagedObjectContext, _ ids: [ManagedObjectID]
    ) throws -> Dump {
        var dump: Dump = [:]
        for id in ids {
            let object = try context.existingObject(with: id)
            for relationship in object.resolvedEntity.relationships {
                var names = object.objectIDs(forRelationshipNamed: relationship.name)
                    .map { context.object(with: $0)["name", as: String.self] ?? "?" }
                if !relationship.isOrdered { names.sort() }
                dump["\(object["name", as: String.self] ?? "?").\(relationship.name)"] = names
            }
        }
        return dump
    }

    private static func checkSymmetry(_ objects: [ManagedObject]) {
        for object in objects {
            for relationship in object.resolvedEntity.relationships {
                guard let inverse = relationship.description.inverseName else { continue }
                let ids = object.objectIDs(forRelationshipNamed: relationship.name)
                #expect(Set(ids).count == ids.count)
                for other in objects {
                    let leads = ids.contains(other.objectID)
                    let isBack =
                        other.resolvedEntity.name == relationship.description.destinationEntityName
                        && other.objectIDs(forRelationshipNamed: inverse).contains(object.objectID)
                    #expect(leads == isBack, "\(object).\(relationship.name) and \(other)")
                }
            }
        }
    }

    private struct Edit {
        var name: String
        var body: ([ManagedObject], [ManagedObject]) -> Void
    }

    /// Edits of one end, from a group of objects to another.
    private static func edits(_ key: String, _ kind: Kind) -> [Edit] {
        if kind == .one {
            return [
                Edit(name: "set") { $0[0][key] = $1[0] },
                Edit(name: "set same again") { $0[0][key] = $1[0] },
                Edit(name: "take") { $0[1][key] = $1[0] },
                Edit(name: "other") { $0[1][key] = $1[1] },
                Edit(name: "set third") { $0[2][key] = $1[2] },
                Edit(name: "cross") {
                    $0[2][key] = $1[1]
                    $0[1][key] = $1[2]
                },
                Edit(name: "clear") { from, _ in from[2][key] = nil },
            ]
        }
        var edits = [
            Edit(name: "add") { $0[0].add($1[0], to: key) },
            Edit(name: "add again") { $0[0].add($1[0], to: key) },
            Edit(name: "add two") {
                $0[0].add($1[1], to: key)
                $0[0].add($1[2], to: key)
            },
            Edit(name: "take") { $0[1].add($1[1], to: key) },
            Edit(name: "set all") { $0[0][key] = [$1[2], $1[3], $1[0]] },
            Edit(name: "set all of another") { $0[2][key] = [$1[3], $1[1]] },
            Edit(name: "remove") { $0[0].remove($1[2], from: key) },
            Edit(name: "remove what is not there") { $0[0].remove($1[2], from: key) },
            Edit(name: "fill") { $0[0][key] = $1 },
        ]
        if kind == .ordered {
            edits += [
                Edit(name: "insert first") { $0[0].insert($1[3], into: key, at: 0) },
                Edit(name: "move") { from, _ in from[0].moveObject(in: key, from: 0, to: 2) },
                Edit(name: "move several") { from, _ in
                    from[0].moveObjects(in: key, at: [3, 0], to: 1)
                },
                Edit(name: "exchange") { from, _ in from[0].exchangeObjects(in: key, at: 0, and: 3)
                },
                Edit(name: "remove at") { from, _ in from[0].removeObject(from: key, at: 1) },
                Edit(name: "replace") { from, to in
                    let present = from[0].objects(key)
                    let new = to.first { !present.contains($0) } ?? to[0]
                    from[0].replaceObject(in: key, at: 1, with: new)
                },
                Edit(name: "replace with one that is there") { from, _ in
                    from[0].replaceObject(in: key, at: 0, with: from[0].objects(key)[2])
                },
                Edit(name: "insert into another") { $0[1].insert($1[2], into: key, at: 0) },
                Edit(name: "insert where it is") { $0[1].insert($1[2], into: key, at: 0) },
                Edit(name: "reverse") { from, _ in
                    from[0][key] = from[0].objects(key).reversed()
                },
            ]
        }
        return edits + [Edit(name: "empty") { from, _ in from[0][key] = [ManagedObject]() }]
    }

    @Test(arguments: Pair.all, ContextArrangement.allCases)
    func everyEditKeepsBothSidesInStep(pair: Pair, arrangement: ContextArrangement) throws {
        let stack = try TestStack(pair.model)
        let context = stack.context(arrangement)
        let undoManager = UndoManager()
        context.undoManager = undoManager
        func make(_ entity: String) throws -> [ManagedObject] {
            try (0..<4).map {
                let object = try context.insertObject(entityName: entity)
                object["name"] = "\(entity)\($0)"
                return object
            }
        }
        let first = try make("A")
        let second = pair.isSelf ? first : try make("B")
        let objects = pair.isSelf ? first : first + second
        try stack.save(context)
        let ids = objects.map(\.objectID)

        var edits = Self.edits("to", pair.kind).map { edit in
            (edit.name, { edit.body(first, second) })
        }
        if let inverse = pair.inverse, !pair.isReflexive {
            edits += Self.edits("back", inverse).map { edit in
                ("back: " + edit.name, { edit.body(second, first) })
            }
        }
        if pair.inverse == nil && pair.kind != .one {
            // As in Core Data's stores an object has one owner then; see RelationshipDescription.
            let sharing = ["take", "set all of another", "insert into another"]
            edits.removeAll { sharing.contains($0.0) || $0.0 == "insert where it is" }
        }
        var dumps = [try Self.dump(context, ids)]
        for (index, (name, edit)) in edits.enumerated() {
            let before = try Self.dump(context, ids)
            let count = undoManager.undoCount
            edit()
            context.processPendingChanges()
            Self.checkSymmetry(objects)
            let after = try Self.dump(context, ids)
            if undoManager.undoCount > count {
                context.undo()
                #expect(try Self.dump(context, ids) == before, "\(name), undone")
                Self.checkSymmetry(objects)
                context.redo()
                #expect(try Self.dump(context, ids) == after, "\(name), redone")
                Self.checkSymmetry(objects)
                dumps.append(after)
            } else {
                #expect(before == after, "\(name) changed something that cannot be undone")
            }
            if index % 2 == 0 {
                try stack.save(context)
                #expect(!context.hasChanges)
                #expect(try Self.dump(stack.mainContext(), ids) == after, "\(name), saved")
            }
        }
        // All the way back and forth, across the saves.
        for dump in dumps.dropLast().reversed() {
            context.undo()
            #expect(try Self.dump(context, ids) == dump)
        }
        try stack.save(context)
        #expect(try Self.dump(stack.mainContext(), ids) == dumps[0])
        for dump in dumps.dropFirst() {
            context.redo()
            #expect(try Self.dump(context, ids) == dump)
        }
        try stack.save(context)
        #expect(try Self.dump(stack.mainContext(), ids) == dumps.last)
        // A deletion takes an object out everywhere, and undo puts it back where it was.
        for object in objects where pair.inverse != nil {
            let before = try Self.dump(context, ids)
            context.delete(object)
            context.processPendingChanges()
            let others = objects.filter { $0 !== object }
            for other in others {
                for relationship in other.resolvedEntity.relationships {
                    #expect(
                        !other.objectIDs(forRelationshipNamed: relationship.name)
                            .contains(object.objectID))
                }
            }
            try stack.save(context)
            context.undo()
            #expect(try Self.dump(context, ids) == before, "deletion of \(object), undone")
            try stack.save(context)
            #expect(try Self.dump(stack.mainContext(), ids) == before)
        }
    }

    // MARK: Wrong arguments

    @Test func wrongPositionsAndObjectsAreRefused() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        func new(_ entity: String) throws -> ManagedObject {
            try context.insertObject(entityName: entity)
        }
        let (shelf, author) = (try new("Shelf"), try new("Author"))
        let books = try (0..<3).map { _ in try new("Book") }
        shelf["books"] = books
        let ordered = try #require(shelf.resolvedEntity.relationship(named: "books"))
        let unordered = try #require(author.resolvedEntity.relationship(named: "books"))
        let before = shelf.objects("books")
        func refused(_ code: QuireError.Code = .invalidValue, _ body: () throws -> Void) {
            let error = #expect(throws: QuireError.self) { try body() }
            #expect(error?.code == code)
            #expect(shelf.objects("books") == before)
        }
        refused { try shelf.add(books[0], through: ordered, at: 3) }
        refused { try shelf.add(books[0], through: ordered, at: -1) }
        refused { try shelf.removeObject(through: ordered, at: 3) }
        refused { try shelf.replaceObject(through: ordered, at: -1, with: books[0]) }
        refused { try shelf.replaceObject(through: ordered, at: 0, with: author) }
        refused { try shelf.moveObjects(through: ordered, at: [0, 3], to: 0) }
        refused { try shelf.moveObjects(through: ordered, at: [0, 1], to: 2) }
        refused { try author.moveObjects(through: unordered, at: [], to: 0) }
        refused { try author.add(books[0], through: ordered) }
        let elsewhere = stack.mainContext()
        let stranger = try elsewhere.insertObject(entityName: "Book")
        refused { try shelf.setObjects([books[0], stranger], through: ordered) }
        elsewhere.reset()
        refused(.notFound) { try shelf.setObjects([books[0], stranger], through: ordered) }
        let deleted = try new("Book")
        context.delete(deleted)
        refused(.notFound) { try shelf.add(deleted, through: ordered) }
        let ofDeleted = try #require(deleted.resolvedEntity.relationship(named: "shelf"))
        refused(.notFound) { try deleted.setObject(shelf, through: ofDeleted) }
        refused(.unknownKey) { try shelf.setValue(1, forKey: "nothing") }
        refused { try books[0].setAttributeValue(.double(.nan), forKey: "year") }
        refused { try books[0].setValue("x", forKey: "author") }
    }

    @Test func anotherContextsTemporaryIdentifierIsRefused() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let other = stack.mainContext()
        let foreign = try other.insertObject(entityName: "Author")
        let book = try context.insertObject(entityName: "Book")
        let author = try #require(book.resolvedEntity.relationship(named: "author"))
        let error = #expect(throws: QuireError.self) {
            try book.setObject(context.object(with: foreign.objectID), through: author)
        }
        #expect(error?.message.contains("temporary identifier of another context") == true)
        let missing = #expect(throws: QuireError.self) {
            try book.setAttributeValue(.objectID(foreign.objectID), forKey: "author")
        }
        #expect(missing?.code == .notFound)
        #expect(book.object("author") == nil)
    }

    @Test func aParentsUnsavedObjectMayBeReferred() throws {
        let stack = try TestStack()
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let id = try parent.performAndWait { parent in
            let author = try parent.insertObject(entityName: "Author")
            author["name"] = "A"
            return author.objectID
        }
        let context = ManagedObjectContext.mainQueue(parent: parent)
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "B"
        book["author"] = context.object(with: id)
        try context.save()
        try parent.performAndWait { try $0.save() }
        let fresh = stack.mainContext()
        let read = try #require(try fresh.fetch(FetchRequest("Book")).first)
        #expect(read.object("author")?["name", as: String.self] == "A")
    }

    @Test(arguments: ContextArrangement.allCases)
    func whatIsDeletedBeforeItWasSavedLeavesRelationshipsWithoutInverse(
        arrangement: ContextArrangement
    ) throws {
        let stack = try TestStack()
        let context = stack.context(arrangement)
        context.undoManager = UndoManager()
        let shelf = try context.insertObject(entityName: "Shelf")
        let tag = try context.insertObject(entityName: "Tag")
        shelf.add(tag, to: "favourites")
        context.processPendingChanges()
        context.delete(tag)
        try stack.save(context)
        #expect(shelf.objects("favourites").isEmpty)
        context.undo()
        #expect(shelf.objects("favourites") == [tag])
        try stack.save(context)
        let other = stack.mainContext()
        #expect(other.object(with: shelf.objectID).objectIDs("favourites") == [tag.objectID])
    }

    @Test func deletingAnotherContextsObjectStopsTheProgram() async {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            try await MainActor.run {
                let stack = try TestStack()
                let (one, two) = (stack.mainContext(), stack.mainContext())
                two.delete(try one.insertObject(entityName: "Book"))
            }
        }
        let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
        #expect(text.contains("belongs to another context and cannot be deleted here"))
    }

    @Test func aPositionOutOfBoundsStopsTheProgram() async {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            try await MainActor.run {
                let stack = try TestStack()
                let context = stack.mainContext()
                let shelf = try context.insertObject(entityName: "Shelf")
                shelf.removeObject(from: "books", at: 0)
            }
        }
        let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
        #expect(text.contains("Position 0 of “books”"))
    }
}
