import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Random edits of every kind; after each the delegate's list, the controller and a fresh fetch agree.
@MainActor @Suite struct RandomResultsTests {
    /// What a controller is asked for.
    struct Question: Sendable {
        var predicate: String?
        var orderings: [SortOrdering]
        var section: String?
        var limit = 0
        var offset = 0
        var entity = "Book"

        var request: FetchRequest<ManagedObject> {
            get throws {
                var request = FetchRequest(entity, sortOrderings: orderings)
                request.predicate = try predicate.map { try QueryPredicate(format: $0) }
                request.fetchLimit = limit
                request.fetchOffset = offset
                return request
            }
        }
    }

    static let questions = [
        Question(orderings: [SortOrdering("title")]),
        Question(orderings: [SortOrdering("year"), SortOrdering("title")], section: "year"),
        Question(
            predicate: "year > 2", orderings: [SortOrdering("year", ascending: false)],
            section: "year"),
        Question(
            orderings: [SortOrdering("author.name"), SortOrdering("title", ascending: false)],
            section: "author.name"),
        Question(
            predicate: "author.born > 3", orderings: [SortOrdering("author.name")],
            section: "author.name"),
        Question(
            predicate: "ANY tags.name BEGINSWITH 'a'",
            orderings: [SortOrdering("title", options: .caseInsensitive)]),
        Question(
            predicate: "ANY tags.name BEGINSWITH 'a' OR author.name < 'c'",
            orderings: [SortOrdering("author.born"), SortOrdering("author.name")],
            section: "author.born"),
        Question(orderings: [SortOrdering("title")], limit: 5),
        Question(
            predicate: "author.born > 2", orderings: [SortOrdering("author.name")],
            section: "author.name", limit: 6, offset: 2),
        Question(
            predicate: "ANY books.year > 4",
            orderings: [SortOrdering("born"), SortOrdering("name")], section: "born",
            entity: "Author"),
        Question(
            predicate: "ANY sequels.author.born > 3", orderings: [SortOrdering("year")],
            section: "year"),
    ]

    @MainActor final class Run {
        let stack: TestStack
        let context: ManagedObjectContext
        let other: ManagedObjectContext
        let question: Question
        let controller: FetchedResultsController<ManagedObject>
        let mirror = ListMirror()
        var random: SeededRandom
        var count = 0
        /// So that some objects are registered.
        var held: [ManagedObject] = []

        init(_ question: Question, seed: UInt64) throws {
            stack = try TestStack()
            context = stack.context(seed.isMultiple(of: 2) ? .nested : .direct)
            other = context.parent.map { .mainQueue(parent: $0) } ?? stack.mainContext()
            random = SeededRandom(seed: seed)
            self.question = question
            controller = FetchedResultsController(
                fetchRequest: try question.request, managedObjectContext: context,
                sectionNameKeyPath: question.section)
            context.undoManager = UndoManager()
            for _ in 0..<20 { try edit(context) }
            try stack.save(context)
            for _ in 0..<4 { try edit(context) }
            controller.delegate = mirror
            try controller.performFetch()
            mirror.load(controller)
        }

        func pick(_ entity: String, in context: ManagedObjectContext) throws -> ManagedObject? {
            let ids = try context.fetch(
                FetchRequest(entity, sortOrderings: [SortOrdering("SELF")])
            ).objectIDs
            return ids.randomElement(using: &random).map(context.object(with:))
        }

        func number() -> AttributeValue {
            Int.random(in: 0..<8, using: &random) == 0
                ? .null : .integer(Int64.random(in: 0..<7, using: &random))
        }

        func text() -> AttributeValue {
            let letter = ["a", "A", "b", "c", "d"].randomElement(using: &random) ?? "a"
            return .string(Bool.random(using: &random) ? letter : letter + "x")
        }

        func edit(_ context: ManagedObjectContext) throws {
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<5:
                let book = try context.insertObject(entityName: "Book")
                book["title"] = text()
                book["year"] = number()
                book["author"] = try pick("Author", in: context)
                if let tag = try pick("Tag", in: context) { book.add(tag, to: "tags") }
            case 5:
                let author = try context.insertObject(entityName: "Author")
                author["name"] = text()
                author["born"] = number()
            case 6:
                count += 1
                let tag = try context.insertObject(entityName: "Tag")
                tag["name"] = "\(Bool.random(using: &random) ? "a" : "b")\(count)"
            case 7: try pick("Book", in: context)?["title"] = text()
            case 8, 9: try pick("Book", in: context)?["year"] = number()
            case 10, 11:
                let author =
                    Bool.random(using: &random) ? try pick("Author", in: context) : nil
                try pick("Book", in: context)?["author"] = author
            case 12: try pick("Author", in: context)?["name"] = text()
            case 13: try pick("Author", in: context)?["born"] = number()
            case 14:
                guard let book = try pick("Book", in: context),
                    let tag = try pick("Tag", in: context)
                else { return }
                if book.objects("tags").contains(tag) {
                    book.remove(tag, from: "tags")
                } else {
                    tag.add(book, to: "books")
                }
            case 15:
                count += 1
                try pick("Tag", in: context)?["name"] =
                    "\(Bool.random(using: &random) ? "a" : "b")\(count)"
            case 16: if let book = try pick("Book", in: context) { context.delete(book) }
            case 17:
                guard Int.random(in: 0..<4, using: &random) == 0 else { return }
                if let author = try pick("Author", in: context) { context.delete(author) }
            case 18:
                guard Int.random(in: 0..<3, using: &random) == 0 else { return }
                if let tag = try pick("Tag", in: context) { context.delete(tag) }
            default:
                guard let book = try pick("Book", in: context),
                    let sequel = try pick("Book", in: context)
                else { return }
                if book.objects("sequels").contains(sequel) {
                    book.remove(sequel, from: "sequels")
                } else {
                    book.add(sequel, to: "sequels")
                }
            }
        }

        func step() throws -> String {
            switch Int.random(in: 0..<26, using: &random) {
            case 0..<9:
                try edit(context)
                return "edit"
            case 9, 10:
                for _ in 0..<Int.random(in: 2..<40, using: &random) { try edit(context) }
                return "many edits"
            case 11, 12:
                context.undo()
                return "undo"
            case 13:
                context.redo()
                return "redo"
            case 14, 15:
                try stack.save(context)
                return "save"
            case 16:
                context.rollback()
                return "rollback"
            case 17, 18:
                // What others save, merged before anything else happens.
                // What is saved here first, so that there are no conflicts.
                if other.parent == nil { try context.save() }
                other.reset()
                for _ in 0..<Int.random(in: 1..<6, using: &random) { try edit(other) }
                context.mergeChanges(from: try other.saveChanges())
                return "merge"
            case 19:
                let child = ManagedObjectContext.mainQueue(parent: context)
                for _ in 0..<Int.random(in: 1..<6, using: &random) { try edit(child) }
                try child.save()
                return "child"
            case 20:
                if let book = try pick("Book", in: context) {
                    context.refresh(book, mergeChanges: Bool.random(using: &random))
                }
                return "refresh"
            case 21:
                context.refreshAllObjects()
                return "refresh all"
            case 24, 25: return try batch()
            case 22:
                held = []
                context.reset()
                return "reset"
            default:
                try stack.save(context)
                guard context.parent == nil else { return "save" }
                let writer = stack.mainContext()
                for _ in 0..<Int.random(in: 1..<6, using: &random) { try edit(writer) }
                // Others name the rows they have written, not what these lead to.
                let untold = Set(
                    writer.updatedObjects.filter {
                        $0.resolvedEntity.name == "Author" && $0.edits?.changed.isEmpty == true
                    }.map(\.objectID))
                var changes = try writer.saveChanges()
                changes.updated.removeAll(where: untold.contains)
                ManagedObjectContext.mergeChanges(
                    fromRemoteContextSave: changes, into: [QueueConfinedContext(context)])
                return "remote"
            }
        }

        /// Deletes in the store, by a batch request, and merges that in either way.
        private func batch() throws -> String {
            try stack.save(context)
            let entity = ["Book", "Book", "Author", "Tag"].randomElement(using: &random) ?? "Book"
            guard let object = try pick(entity, in: context) else { return "no batch" }
            var request = BatchDeleteRequest(objectIDs: [object.objectID])
            request.resultType = .objectIDs
            let changes = try stack.mainContext().execute(request).changes
            if Bool.random(using: &random) {
                let parents = context.parent.map { [$0] } ?? []
                ManagedObjectContext.mergeChanges(
                    fromRemoteContextSave: changes, into: parents + [QueueConfinedContext(context)])
            } else {
                context.parent?.performAndWait { $0.mergeChanges(from: changes) }
                context.mergeChanges(from: changes)
            }
            return "batch deletion"
        }

        func check(_ step: String) throws {
            context.processPendingChanges()
            try #require(mirror.error == nil)
            // A fetch anew.
            var expected: [ListMirror.Section] =
                question.section == nil ? [.init(name: "", objects: [])] : []
            for object in try context.fetch(try question.request) {
                let name = sectionName(of: object)
                if expected.last?.name != name {
                    expected.append(.init(name: name, objects: []))
                }
                expected[expected.count - 1].objects.append(object.objectID)
            }
            let sections = try #require(controller.sections).map {
                ListMirror.Section(name: $0.name, objects: $0.objects.map(\.objectID))
            }
            let all = expected.flatMap(\.objects)
            try #require(sections.text == expected.text, "\(step)")
            try #require(mirror.sections.text == expected.text, "\(step)")
            try #require(mirror.flat.text == all.text, "\(step)")
            let snapshot = try #require(mirror.snapshot)
            try #require(snapshot == controller.snapshot)
            #expect(snapshot.sectionIdentifiers == expected.map(\.name))
            #expect(snapshot.itemIdentifiers == all)
            for (number, section) in expected.enumerated() {
                #expect(snapshot.itemIdentifiers(inSection: number) == section.objects)
                for (item, id) in section.objects.enumerated() {
                    let place = IndexPath(item: item, section: number)
                    #expect(controller.indexPath(for: id) == place)
                }
            }
            if Bool.random(using: &random) {
                held = controller.fetchedObjects.map(Array.init) ?? []
            }
        }

        private func sectionName(of object: ManagedObject) -> String {
            guard let section = question.section else { return "" }
            let keys = section.split(separator: ".").map(String.init)
            let owner = keys.count == 1 ? object : object.object(keys[0])
            return owner?[keys[keys.count - 1], as: AttributeValue.self].text(as: .string) ?? ""
        }
    }

    /// Seeds are arguments, so that a failure names its own: `QUIRE_SEED` set to it repeats the run first.
    @Test(arguments: SeededRandom.seeds(44))
    func listsFollow(seed: UInt64) throws {
        let question = Self.questions[Int(seed % UInt64(Self.questions.count))]
        let run = try Run(question, seed: seed)
        for _ in 0..<30 {
            let step = try run.step()
            try run.check(step)
        }
    }
}

extension ManagedObjectContext {
    /// Saves. Gives what a merge elsewhere needs.
    fileprivate func saveChanges() throws -> ObjectIDChanges {
        processPendingChanges()
        let inserted = insertedObjects
        var changes = pendingObjectIDChanges
        try save()
        changes.inserted = inserted.map(\.objectID)
        return changes
    }
}

extension [ListMirror.Section] {
    /// As a short text, for failures.
    fileprivate var text: String {
        map { "\($0.name): \($0.objects.text)" }.joined(separator: " | ")
    }
}

extension [ManagedObjectID] {
    fileprivate var text: String { map(\.shortDescription).joined(separator: " ") }
}
