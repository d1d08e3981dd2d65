import Foundation
import Quire
import QuireMacros
import Testing

/// Rows that change their place and sections that come and go.
@MainActor @Suite struct MovingRowsSituationTests {
    // A user's status changes: their row opens a new section at the index path that it had. NSFetchedResultsController
    // reported an update, and the table view raised an exception. The same in reverse. Source: deusty.com, “Hideous bug in
    // NSFetchedResultsController (iPhone OS 3.1 and later)”.
    @Test(arguments: SituationStore.allCases)
    func aRowThatOpensANewSectionAtItsIndexPathIsAMove(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            let ann = context.addTask("Ann", "offline")
            context.addTask("Bob", "offline")
            try context.save()
            let list = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("category"), SortOrdering("title"), sections: "category"))
            ann.category = "available"
            context.processPendingChanges()
            #expect(list.takeLog() == ["insert section 0 available", "move 0.0 0.0"])
            try list.check()
            ann.category = "offline"
            context.processPendingChanges()
            #expect(list.takeLog() == ["delete section 0 available", "move 0.0 0.0"])
            try list.check()
            #expect(list.texts == ["offline: Ann Bob"])
            try context.save()
            try list.check()
            #expect(list.takeLog() == [])
        }
    }

    // The only session of phase 0 enters phase 1, whose section then has the number 0: the table counted rows of the wrong
    // section. Source: 3lvis/DATASource issue 120.
    @Test(arguments: [false, true])
    func theLastRowOfASectionMovesIntoTheNextOne(isSaved: Bool) async throws {
        try await withSituation(.sqlite, .listedTasks) { container in
            let context = container.viewContext
            for (title, rank) in [("p3", 2), ("p39", 1), ("p40", 3), ("p41", 0)] {
                context.addTask(title, rank: rank)
            }
            if isSaved { try context.save() }
            let list = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("rank"), SortOrdering("title"), sections: "rank")
            ) { String($0.rank) }
            #expect(list.texts == ["0: p41", "1: p39", "2: p3", "3: p40"])
            try context.task("p41").rank = 1
            context.processPendingChanges()
            #expect(list.takeLog() == ["delete section 0 0", "move 0.0 0.1"])
            try list.check()
            try context.save()
            try list.check()
            #expect(list.texts == ["1: p39 p41", "2: p3", "3: p40"])
        }
    }

    // A section's only photo gets another date: its section is deleted and one inserted in the same batch; “cannot move an
    // item from a deleted section”. Source: jessesquires/JSQDataSourcesKit issue 12.
    @Test func theOnlyRowOfASectionMovesToANewSection() async throws {
        try await withSituation(.sqlite, .listedTasks) { container in
            let context = container.viewContext
            for (day, title) in ["a", "b", "c"].enumerated() {
                context.addTask(title).due = Date(
                    timeIntervalSinceReferenceDate: 86400 * Double(day))
            }
            try context.save()
            let list = try MirroredList(
                tasks: context.tasks(SortOrdering("due", ascending: false), sections: "due")
            ) { $0.due?.formatted(.iso8601) ?? "" }
            try context.task("a").due = Date(timeIntervalSinceReferenceDate: 86400 * 9)
            context.processPendingChanges()
            #expect(list.log.count == 3)
            #expect(list.log.last == "move 2.0 0.0")
            try list.check()
            // Into one that exists, and out of the store of dates altogether.
            try context.task("a").due = try context.task("b").due
            try list.check("into another section")
            try context.task("c").due = nil
            try list.check("without a date")
            #expect(list.sections.map(\.name).last == "")
            context.rollback()
            try list.check("rollback")
            #expect(list.sections.map { $0.rows.map(\.text) } == [["c"], ["b"], ["a"]])
        }
    }

    // Two people, John and Sam, in sections by name. Sam becomes John, and Sam again: he stayed in John's section. Source:
    // polqf/RealmResultsController issue 84.
    @Test func aRowReturnsToItsSectionWhenItsNameReturns() async throws {
        try await withSituation(.sqlite, .listedTasks) { container in
            let context = container.viewContext
            context.addTask("John")
            let sam = context.addTask("Sam")
            try context.save()
            let list = try MirroredList(
                tasks: context.tasks(SortOrdering("title"), sections: "title")
            ) { $0.title }
            for name in ["John", "Sam", "Zoe", "Adam", "Sam"] {
                sam.title = name
                try list.check(name)
                try context.save()
                try list.check("\(name), saved")
            }
            #expect(list.texts == ["John: John", "Sam: Sam"])
            // There and back in one event.
            list.forget()
            sam.title = "John"
            sam.title = "Sam"
            try list.check()
            #expect(!list.log.contains { $0.contains("section") })
        }
    }

    // Rows are dragged to another position by numbering them anew, then dragged back; the second drag began with the order
    // before the first. Source: ashfurrow/yourfirstswiftapp pull request 5.
    @Test(arguments: SituationStore.allCases)
    func draggingRowsTwiceBeginsWithTheNewOrder(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            for (rank, title) in ["a", "b", "c", "d"].enumerated() {
                context.addTask(title, rank: rank)
            }
            try context.save()
            let list = try MirroredList(tasks: context.tasks(SortOrdering("rank")))
            @MainActor func drag(_ from: Int, to: Int) throws {
                var tasks = list.controller.fetchedObjects.map(Array.init) ?? []
                tasks.insert(tasks.remove(at: from), at: to)
                for (rank, task) in tasks.enumerated() { task.rank = rank }
                context.processPendingChanges()
            }
            try drag(0, to: 1)
            #expect(list.texts == ["b a c d"])
            try drag(0, to: 1)
            #expect(list.texts == ["a b c d"])
            try drag(3, to: 0)
            #expect(list.texts == ["d a b c"])
            try list.check()
            try context.save()
            try drag(1, to: 3)
            try list.check()
            #expect(list.texts == ["d b c a"])
        }
    }

    // A query for 0 < number < 5; one transaction deletes 1, 2 and 3, and changes 4 to 1. The changed object's index was
    // that of before. Source: realm/realm-swift issues 5499 and 6553.
    @Test(arguments: SituationStore.allCases)
    func deletionsAndAnUpdateInOneSaveHaveTheirIndexPaths(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            for number in 0...5 { context.addTask("t\(number)", rank: number) }
            try context.save()
            let list = try MirroredList(
                tasks: context.tasks(SortOrdering("rank"), where: "rank > 0 AND rank < 5"))
            let last = try context.task("t4")
            for number in 1...3 { context.delete(try context.task("t\(number)")) }
            last.rank = 1
            last.isDone = true
            try context.save()
            #expect(
                list.takeLog() == [
                    "delete 0.0 -", "delete 0.1 -", "delete 0.2 -", "update 0.3 0.0",
                ])
            try list.check()
            #expect(list.texts == ["t4!"])
        }
    }

    // All objects get another sort key, as when a play list is shuffled. Source: realm/realm-swift issue 6070.
    @Test(arguments: [false, true])
    func shufflingEverythingIsShown(isSaved: Bool) async throws {
        try await withSituation(.sqlite, .listedTasks) { container in
            let context = container.viewContext
            let tasks = (0..<60).map { context.addTask("t\($0)", "c\($0 % 4)", rank: $0) }
            if isSaved { try context.save() }
            let flat = try MirroredList(tasks: context.tasks(SortOrdering("rank")))
            let grouped = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category"))
            for factor in [7, 11, 59, 1] {
                for (number, task) in tasks.enumerated() {
                    task.rank = number * factor % 61
                    task.category = "c\(number * factor % 5)"
                    task.isDone.toggle()
                }
                try flat.check("factor \(factor)")
                try grouped.check("factor \(factor)")
                if factor == 11 { try context.save() }
                try flat.check("factor \(factor), saved")
                try grouped.check("factor \(factor), saved")
            }
        }
    }

    // Games in sections by the name of their league, in the order of the leagues' position: sections came in the order of
    // names. Source: aplus.rs, “NSFRC's sections considered harmful”.
    @Test(arguments: SituationStore.allCases)
    func sectionsHaveTheOrderOfTheFirstOrdering(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            let premier = context.addProject("Premier League", position: 1)
            let bundesliga = context.addProject("Bundesliga", position: 2)
            let ligue = context.addProject("Ligue 1", position: 3)
            for (number, league) in [premier, bundesliga, ligue, premier, bundesliga].enumerated() {
                context.addTask("g\(number)", to: league)
            }
            try context.save()
            let list = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("project.position"), SortOrdering("project.name"),
                    SortOrdering("title"), sections: "project.name")
            ) { $0.project?.name ?? "" }
            #expect(
                list.texts == ["Premier League: g0 g3", "Bundesliga: g1 g4", "Ligue 1: g2"])
            #expect(list.snapshot?.sectionIdentifiers == list.sections.map(\.name))
            ligue.position = 0
            try list.check("a section moves")
            premier.name = "EPL"
            try list.check("a section is renamed")
            try context.task("g4").project = ligue
            try list.check("a row moves to another section")
            #expect(list.texts == ["Ligue 1: g2 g4", "EPL: g0 g3", "Bundesliga: g1"])
            try context.save()
            try list.check("saved")
            // Two leagues of the same position and name are one section, and stay together.
            (bundesliga.position, bundesliga.name) = (1, "EPL")
            try list.check("two leagues in a section")
            #expect(list.texts == ["Ligue 1: g2 g4", "EPL: g0 g1 g3"])
            context.delete(premier)
            try list.check("a league is deleted with its games")
            #expect(list.texts == ["Ligue 1: g2 g4", "EPL: g1"])
        }
    }
}
