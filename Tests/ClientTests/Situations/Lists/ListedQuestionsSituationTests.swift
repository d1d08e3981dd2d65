import Foundation
import Quire
import QuireMacros
import Testing

/// What is asked for: predicates and orders that change or lead to other objects, limits, section names and index titles.
@MainActor @Suite struct ListedQuestionsSituationTests {
    // A search field sets the request's predicate and fetches again, with a cache: “The persistent cache of section
    // information does not match the current configuration”. Changes go on to be followed, by the new predicate. Sources:
    // blindingskies/BSFetchedResultsController issue 6; JohnEstropia/CoreStore issue 218.
    @Test(arguments: SituationStore.allCases)
    func predicateAndOrderMayChange(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            for (rank, title) in ["Bread", "butter", "Milk", "beer"].enumerated() {
                context.addTask(title, rank % 2 == 0 ? "even" : "odd", rank: rank)
            }
            try context.save()
            let list = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category",
                    cacheName: "search"))
            #expect(list.texts == ["even: Bread Milk", "odd: butter beer"])
            for (text, expected) in [
                ("b", ["even: Bread", "odd: butter beer"]), ("be", ["odd: beer"]), ("x", []),
                ("", ["even: Bread Milk", "odd: butter beer"]),
            ] {
                list.controller.fetchRequest.predicate =
                    text.isEmpty ? nil : try QueryPredicate(format: "title BEGINSWITH[c] %@", text)
                try list.load()
                try list.check(text)
                #expect(list.texts == expected)
            }
            list.controller.fetchRequest.predicate = try QueryPredicate(
                format: "title BEGINSWITH[c] 'b'")
            list.controller.fetchRequest.sortOrderings = [
                SortOrdering("category", ascending: false),
                SortOrdering("title", options: .caseInsensitive),
            ]
            // Until it fetches, the list keeps to the old question; the request may be set in the middle of an edit.
            context.addTask("Batter", "odd")
            try list.load()
            try list.check("sorted otherwise")
            #expect(list.texts == ["odd: Batter beer butter", "even: Bread"])
            try context.task("Milk").title = "Buttermilk"
            try context.task("beer").title = "wine"
            try list.check("edited")
            #expect(list.texts == ["odd: Batter butter", "even: Bread Buttermilk"])
        }
    }

    // The predicate is changed from within a callback, when the user's filter is itself an object. Source:
    // oreillymedia/flapjack pull request 41.
    @Test func fetchingAnewWithinACallbackIsPossible() async throws {
        try await withSituation(.sqlite, .listedTasks) { container in
            let context = container.viewContext
            for number in 0..<6 { context.addTask("t\(number)", rank: number) }
            try context.save()
            let list = try MirroredList(
                tasks: context.tasks(SortOrdering("rank"), where: "rank < 3"))
            var loads = 0
            list.didChange = {
                guard loads == 0 else { return }
                loads += 1
                list.controller.fetchRequest.predicate = try QueryPredicate(format: "rank >= 3")
                // A change on the way, too.
                context.addTask("late", rank: 4)
                try list.load()
            }
            try context.task("t1").rank = 9
            try list.check("fetched anew")
            #expect(list.texts == ["t3 t4 late t5 t1"] || list.texts == ["t3 late t4 t5 t1"])
            try context.task("t4").rank = 0
            try context.save()
            try list.check("saved")
            #expect(list.texts == ["t3 late t5 t1"])
        }
    }

    // Chats are sorted by the date of their last message, contacts by how many they have: sort keys on the far side of a
    // to-many relationship. Source: realm/realm-swift issue 1277 (marchy's comment).
    @Test(arguments: SituationStore.allCases)
    func ordersThroughToManyRelationshipsAreFollowed(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            for (name, ranks) in [("Ann", [1, 5]), ("Bob", [3]), ("Cat", [])] {
                let project = context.addProject(name)
                for rank in ranks { context.addTask("\(name)\(rank)", rank: rank, to: project) }
            }
            try context.save()
            context.reset()
            @MainActor func list(_ key: String) throws -> MirroredList<ListedProject> {
                try MirroredList(
                    FetchedResultsController(
                        fetchRequest: FetchRequest<ListedProject>(sortOrderings: [
                            SortOrdering(key, ascending: false), SortOrdering("name"),
                        ]), managedObjectContext: context), text: \.name)
            }
            let recent = try list("tasks.@max.rank")
            let busy = try list("tasks.@count")
            @MainActor func check(_ step: String, _ names: String, _ busyNames: String) throws {
                try recent.check(step)
                try busy.check(step)
                #expect(recent.texts == [names], "\(step)")
                #expect(busy.texts == [busyNames], "\(step)")
            }
            try check("at first", "Ann Bob Cat", "Ann Bob Cat")
            context.addTask("Cat9", rank: 9, to: try context.project("Cat"))
            try check("a message", "Cat Ann Bob", "Ann Bob Cat")
            try context.task("Ann5").rank = 0
            try check("edited", "Cat Bob Ann", "Ann Bob Cat")
            try context.save()
            try check("saved", "Cat Bob Ann", "Ann Bob Cat")
            try await container.performBackgroundTask { background in
                let bob = try background.project("Bob")
                background.addTask("Bob10", rank: 10, to: bob)
                background.addTask("Bob0", rank: 0, to: bob)
                background.delete(try background.task("Cat9"))
                try background.save()
            }
            await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
            try check("imported", "Bob Ann Cat", "Bob Ann Cat")
            var delete = BatchDeleteRequest(
                entityName: "ListedTask", predicate: try QueryPredicate(format: "rank = 10"))
            delete.resultType = .objectIDs
            context.mergeChanges(from: try context.execute(delete).changes)
            try check("deleted", "Bob Ann Cat", "Ann Bob Cat")
            var update = BatchUpdateRequest(
                entityName: "ListedTask", predicate: try QueryPredicate(format: "title = 'Ann1'"))
            update.propertiesToUpdate = ["rank": 7]
            update.resultType = .objectIDs
            context.mergeChanges(from: try context.execute(update).changes)
            try check("updated", "Ann Bob Cat", "Ann Bob Cat")
        }
    }

    // A list of the books of an author that is new itself; the author is saved, by which it gets another identifier, and a
    // background task adds books. Sources: openradar 45072441; magicalpanda/MagicalRecord issue 246.
    @Test(arguments: SituationStore.allCases)
    func aPredicateOnANewObjectIsFollowedAfterItsSave(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            let project = context.addProject("New")
            let other = context.addProject("Other")
            var request = FetchRequest<ListedTask>(sortOrderings: [SortOrdering("title")])
            request.predicate = try QueryPredicate(format: "project == %@", project)
            let list = try MirroredList(
                tasks: FetchedResultsController(
                    fetchRequest: request, managedObjectContext: context))
            request.predicate = try QueryPredicate(format: "NOT project IN %@", [project])
            let others = try MirroredList(
                tasks: FetchedResultsController(
                    fetchRequest: request, managedObjectContext: context))
            context.addTask("a", to: project)
            context.addTask("x", to: other)
            try list.check("inserted")
            try others.check("inserted")
            try context.save()
            try list.check("saved")
            try others.check("saved")
            context.addTask("b", to: project)
            try list.check("another")
            try await container.performBackgroundTask { background in
                background.addTask("c", to: try background.project("New"))
                try background.task("x").project = try background.project("New")
                try background.save()
            }
            await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
            try list.check("imported")
            try others.check("imported")
            #expect(list.texts == ["a b c x"])
            #expect(others.texts == [""])
            try context.task("a").project = nil
            try context.save()
            try list.check("saved again")
            try others.check("saved again")
            #expect(list.texts == ["b c x"])
            #expect(others.texts == ["a"])
        }
    }

    // The latest five of a log, while rows are added by an import, removed, and dated alike. Sources:
    // JohnEstropia/CoreStore issue 207; konstpavlone/KSPFetchedResultsController issue 2.
    @Test(arguments: SituationStore.allCases)
    func aLimitHoldsWhileRowsComeAndGo(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            for number in 0..<4 { context.addTask("t\(number)", "c\(number / 2)", rank: number) }
            try context.save()
            context.reset()
            let latest = try MirroredList(
                tasks: context.tasks(SortOrdering("rank", ascending: false), limit: 5))
            let page = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category", limit: 3,
                    offset: 2))
            @MainActor func check(_ step: String, _ titles: String) throws {
                try latest.check(step)
                try page.check(step)
                #expect(latest.texts == [titles], "\(step)")
            }
            try check("at first", "t3 t2 t1 t0")
            for number in 4..<6 { context.addTask("t\(number)", "c0", rank: number) }
            try check("two more", "t5 t4 t3 t2 t1")
            try context.save()
            try check("saved", "t5 t4 t3 t2 t1")
            try await container.performBackgroundTask { background in
                for number in 6..<20 { background.addTask("t\(number)", "c\(number)", rank: 5) }
                background.delete(try background.task("t4"))
                background.delete(try background.task("t0"))
                try background.save()
            }
            await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
            try latest.check("imported")
            try page.check("imported")
            #expect(latest.texts.first?.split(separator: " ").count == 5)
            for task in try context.fetch(ListedTask.self) where task.rank == 5 {
                context.delete(task)
            }
            try check("deleted", "t3 t2 t1")
            context.rollback()
            try latest.check("rolled back")
            try page.check("rolled back")
            // Of rows that are ordered alike, new ones come and get their identifiers.
            for number in 20..<24 { context.addTask("t\(number)", "c0", rank: 5) }
            try latest.check("ties")
            try page.check("ties")
            try context.save()
            try latest.check("ties, saved")
            try page.check("ties, saved")
        }
    }

    // Rows without a section name, and with an empty one: two sections with the same identifier are an error of a diffable
    // data source. Source: Roobiq/RBQFetchedResultsController pull request 21 (a name that comes several times).
    @Test(arguments: SituationStore.allCases, [true, false])
    func missingAndEmptyNamesAreOneSection(_ store: SituationStore, ascending: Bool) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            for (rank, category) in [nil, "", "a", nil, ""].enumerated() {
                context.addTask("t\(rank)", category, rank: rank)
            }
            let list = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("category", ascending: ascending), SortOrdering("rank"),
                    sections: "category"))
            try list.check("unsaved")
            #expect(list.sections.map(\.name) == (ascending ? ["", "a"] : ["a", ""]))
            try context.save()
            try list.check("saved")
            try context.task("t2").category = nil
            try list.check("one section")
            try context.task("t0").category = "b"
            try context.task("t3").category = "b"
            try context.task("t2").category = "b"
            try list.check("none is missing")
            #expect(list.snapshot?.sectionIdentifiers == (ascending ? ["", "b"] : ["b", ""]))
            try context.task("t1").category = nil
            try list.check("missing and empty")
            try context.save()
            try list.check("saved again")
            // A missing related object.
            let byProject = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("project.name", ascending: ascending), SortOrdering("rank"),
                    sections: "project.name")
            ) { $0.project?.name ?? "" }
            let project = context.addProject("P")
            try context.task("t1").project = project
            try byProject.check("a project")
            project.name = ""
            try byProject.check("a project without a name")
            context.delete(project)
            try byProject.check("its task is deleted too")
            try list.check("its task is deleted too")
        }
    }

    // Sections by a name whose order ignores case: “apple” and “Apple” alternate, and a section would come twice. That must
    // be an error and not a wrong list; sorted by the name itself within, they are two sections. And the titles of the
    // index beside the list. Source: hachinobu.hateblo.jp, “The fetched object at index x has an out of order section
    // name”.
    @Test(arguments: SituationStore.allCases)
    func namesThatDifferInCaseAreTwoSections(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            for (rank, name) in ["apple", "Apple", "apple", "Éclair", "avocado", "1"].enumerated() {
                context.addTask("t\(rank)", name, rank: rank)
            }
            try context.save()
            let controller = try context.tasks(
                SortOrdering("category", options: .caseInsensitive), SortOrdering("rank"),
                sections: "category")
            let error = #expect(throws: QuireError.self) { try controller.performFetch() }
            #expect(error?.code == .invalidQuery)
            #expect(controller.sections == nil || controller.sections?.isEmpty == true)
            controller.fetchRequest.sortOrderings.insert(SortOrdering("category"), at: 1)
            let list = try MirroredList(tasks: controller)
            #expect(
                list.texts == [
                    "1: t5", "Apple: t1", "apple: t0 t2", "avocado: t4", "Éclair: t3",
                ])
            #expect(controller.sectionIndexTitles == ["1", "A", "É"])
            #expect(controller.section(forSectionIndexTitle: "A", at: 1) == 1)
            #expect(controller.section(forSectionIndexTitle: "É", at: 2) == 4)
            try context.task("t1").category = "apple"
            try list.check("one section")
            try context.task("t4").category = "APPLE"
            try list.check("another spelling")
            #expect(
                list.texts == ["1: t5", "APPLE: t4", "apple: t0 t1 t2", "Éclair: t3"])
        }
    }

    // Sections by whether something is done or by a date, descending, as in a list of reminders. Source: Apple sample
    // DateSectionTitles.
    @Test(arguments: SituationStore.allCases)
    func sectionsByTruthValuesAndDates(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            for number in 0..<4 {
                let task = context.addTask("t\(number)", rank: number)
                task.isDone = number == 1
                task.due = Date(timeIntervalSinceReferenceDate: 3600 * Double(number / 2))
            }
            try context.save()
            let done = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("isDone", ascending: false), SortOrdering("rank"),
                    sections: "isDone")
            ) { String($0.isDone) }
            let days = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("due", ascending: false), SortOrdering("rank"), sections: "due")
            ) { $0.due?.formatted(.iso8601) ?? "" }
            #expect(done.texts == ["true: t1!", "false: t0 t2 t3"])
            for title in ["t0", "t1", "t3"] {
                let task = try context.task(title)
                task.isDone.toggle()
                task.due = task.due?.addingTimeInterval(3600)
                try done.check(title)
                try days.check(title)
                try context.save()
                try done.check("\(title), saved")
                try days.check("\(title), saved")
            }
            #expect(done.texts == ["true: t0! t3!", "false: t1 t2"])
            #expect(days.sections.map { $0.rows.map(\.text) } == [["t3!"], ["t0!", "t1", "t2"]])
        }
    }

    // “Give me dictionaries” or a request without an order, for a controller. Source: Roobiq/RBQFetchedResultsController
    // issue 109.
    @Test func requestsThatCannotBeFollowedAreErrors() async throws {
        try await withSituation(.inMemory, .listedTasks) { container in
            let context = container.viewContext
            context.addTask("t")
            let controller = try context.tasks(SortOrdering("title"))
            try controller.performFetch()
            for change: (inout FetchRequest<ListedTask>) -> Void in [
                { $0.resultType = .dictionaries }, { $0.resultType = .count },
                { $0.sortOrderings = [] }, { $0.includesPendingChanges = false },
                { $0.sortOrderings = [SortOrdering("labels.name")] },
            ] {
                controller.fetchRequest = FetchRequest(sortOrderings: [SortOrdering("title")])
                try controller.performFetch()
                #expect(controller.fetchedObjects?.count == 1)
                change(&controller.fetchRequest)
                let error = #expect(throws: QuireError.self) { try controller.performFetch() }
                #expect(error?.code == .invalidQuery)
                #expect(controller.fetchedObjects == nil)
            }
        }
    }
}
