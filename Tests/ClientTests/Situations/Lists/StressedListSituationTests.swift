import Foundation
import Quire
import QuireDocuments
import QuireMacros
import Testing

/// A generator of numbers that repeats itself for a seed.
private struct Seeded: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return bits ^ (bits >> 31)
    }
}

/// A chaos monkey for lists.
///
/// Objects with a random number; sorted by it, in sections by its first digit, or left out by a predicate. After each round of edits the
/// lists must show what a fetch finds; NSFetchedResultsController did not in all arrangements.
/// Source: mikeabdullah.net, “NSFetchedResultsController” and “NSFetchedResultsController with UITableView” (a stress test).
@MainActor @Suite struct StressedListSituationTests {
    /// Where the lists' context is.
    enum Place: CaseIterable { case store, child, document }

    @MainActor private final class Run {
        let context: ManagedObjectContext
        let saveAll: @MainActor () async throws -> Void
        let background:
            @MainActor (@escaping @Sendable (ManagedObjectContext) throws -> Void) async throws ->
                Void
        var random: Seeded
        var number = 0
        var lists: [MirroredList<ListedTask>] = []
        var projects: [MirroredList<ListedProject>] = []
        var held: [ManagedObject] = []

        init(
            _ context: ManagedObjectContext, seed: UInt64,
            saveAll: @escaping @MainActor () async throws -> Void,
            background:
                @escaping @MainActor (
                    @escaping @Sendable (ManagedObjectContext) throws -> Void
                ) async throws -> Void
        ) {
            (self.context, self.saveAll, self.background) = (context, saveAll, background)
            random = Seeded(state: seed)
        }

        func makeLists() throws {
            let text: (ListedTask) -> String = {
                "\($0.title)/\($0.rank)/\($0.category ?? "-")/\($0.isDone)"
            }
            @MainActor func add(
                _ orderings: SortOrdering..., where format: String? = nil, sections: String? = nil,
                limit: Int = 0, name: @escaping (ListedTask) -> String = { _ in "" }
            ) throws {
                var request = FetchRequest<ListedTask>(sortOrderings: orderings)
                request.predicate = try format.map { try QueryPredicate(format: $0) }
                request.fetchLimit = limit
                lists.append(
                    try MirroredList(
                        FetchedResultsController(
                            fetchRequest: request, managedObjectContext: context,
                            sectionNameKeyPath: sections), sectionName: name, text: text))
            }
            try add(SortOrdering("rank"))
            try add(
                SortOrdering("category"), SortOrdering("rank"), where: "rank < 50",
                sections: "category", name: { $0.category ?? "" })
            try add(
                SortOrdering("project.name", ascending: false), SortOrdering("title"),
                where: "ANY labels.name BEGINSWITH 'a' OR isDone == YES", sections: "project.name",
                name: { $0.project?.name ?? "" })
            try add(SortOrdering("labels.@count", ascending: false), SortOrdering("title"))
            try add(SortOrdering("rank"), where: "project.position > 40", limit: 4)
            try add(
                SortOrdering("title", options: .caseInsensitive),
                where: "SUBQUERY(labels, $l, $l.name ENDSWITH 'b').@count == 0")
            projects.append(
                try MirroredList(
                    FetchedResultsController(
                        fetchRequest: FetchRequest<ListedProject>(
                            predicate: QueryPredicate(format: "ANY tasks.rank > 20"),
                            sortOrderings: [
                                SortOrdering("tasks.@sum.rank"), SortOrdering("position"),
                            ]), managedObjectContext: context),
                    text: { "\($0.name)/\($0.position)" }))
        }

        func check(_ step: String) throws {
            for (index, list) in lists.enumerated() { try list.check("\(step), list \(index)") }
            for list in projects { try list.check("\(step), projects") }
        }

        func int(_ range: Range<Int>) -> Int { Int.random(in: range, using: &random) }

        /// An edit, as a value: it is made in any context.
        func edit() -> @Sendable (ManagedObjectContext) throws -> Void {
            number += 1
            let (kind, name, pick, value) = (int(0..<15), "n\(number)", int(0..<1000), int(0..<100))
            let letter = ["a", "b", "ab", "ba"][int(0..<4)]
            return { context in
                func object<T: ManagedObject>(_: T.Type, _ key: String) throws -> T? {
                    let all = try context.fetch(
                        FetchRequest<T>(sortOrderings: [SortOrdering(key), SortOrdering("SELF")]))
                    return all.isEmpty ? nil : all[pick % all.count]
                }
                let task = try object(ListedTask.self, "title")
                let project = try object(ListedProject.self, "name")
                let label = try object(ListedLabel.self, "name")
                switch kind {
                case 0, 1, 2:
                    let new = context.addTask(
                        value % 2 == 0 ? name : name.uppercased(), "\(value / 10)", rank: value,
                        to: pick % 3 == 0 ? project : nil)
                    if pick % 2 == 0, let label { new.labels.insert(label) }
                case 3: _ = context.addProject(name, position: value)
                case 4: ListedLabel(context: context).name = letter + name + letter
                case 5, 6:
                    task?.rank = value
                    task?.category = "\(value / 10)"
                case 7: task?.title = name
                case 8: task?.isDone.toggle()
                case 9: task?.project = pick % 4 == 0 ? nil : project
                case 10:
                    if let label, let task {
                        if task.labels.contains(label) {
                            label.tasks.remove(task)
                        } else {
                            task.labels.insert(label)
                        }
                    }
                case 11:
                    project?.position = value
                    if pick % 2 == 0 { project?.name = name }
                case 12: label?.name = letter + name + letter
                case 13: if let task { context.delete(task) }
                default:
                    if let project, pick % 3 == 0 { context.delete(project) }
                    if let label, pick % 3 == 1 { context.delete(label) }
                }
            }
        }

        func edits(_ count: Range<Int>) -> [@Sendable (ManagedObjectContext) throws -> Void] {
            (0..<int(count)).map { _ in edit() }
        }

        func step(hasBatches: Bool) async throws -> String {
            switch int(0..<20) {
            case 0..<5:
                for edit in edits(1..<4) { try edit(context) }
                return "edit"
            case 5:
                for edit in edits(10..<40) { try edit(context) }
                return "many edits"
            case 6, 7:
                context.undoManager?.undo()
                return "undo"
            case 8:
                context.undoManager?.redo()
                return "redo"
            case 9, 10:
                try await saveAll()
                return "save"
            case 11:
                context.rollback()
                return "rollback"
            case 12:
                let child = ManagedObjectContext.mainQueue(parent: context)
                for edit in edits(1..<6) { try edit(child) }
                try child.save()
                return "child"
            case 13, 14, 15:
                // First saved, so that there are no conflicts of required values.
                if int(0..<2) == 0 { try await saveAll() }
                let edits = edits(1..<6)
                try await background { context in
                    for edit in edits { try edit(context) }
                    try context.save()
                }
                await withCheckedContinuation { turn in
                    DispatchQueue.main.async { turn.resume() }
                }
                return "background"
            case 16:
                let all = Array(try context.fetch(ListedTask.self))
                if let task = all.randomElement(using: &random) {
                    context.refresh(task, mergeChanges: int(0..<2) == 0)
                }
                return "refresh"
            case 17:
                held = try int(0..<2) == 0 ? [] : Array(context.fetch(ListedTask.self))
                return "hold"
            case 18:
                if int(0..<2) == 0 {
                    context.refreshAllObjects()
                    return "refresh all"
                }
                held = []
                context.reset()
                return "reset"
            default:
                guard hasBatches else { return "no batch" }
                try await saveAll()
                var update = BatchUpdateRequest(
                    entityName: "ListedTask",
                    predicate: try QueryPredicate(format: "rank < %d", int(0..<40)))
                update.propertiesToUpdate = ["title": "batch\(number)", "isDone": int(0..<2) == 0]
                update.resultType = .objectIDs
                context.mergeChanges(from: try context.execute(update).changes)
                return "batch"
            }
        }

        func run(hasBatches: Bool) async throws {
            for edit in edits(20..<40) { try edit(context) }
            try await saveAll()
            for edit in edits(3..<6) { try edit(context) }
            try makeLists()
            try check("at first")
            var steps: [String] = []
            for _ in 0..<40 {
                steps.append(try await step(hasBatches: hasBatches))
                try check(steps.suffix(6).joined(separator: ", "))
            }
        }
    }

    @Test(arguments: Place.allCases, Array(1...8) as [UInt64])
    func listsShowWhatAFetchFinds(_ place: Place, seed: UInt64) async throws {
        try await withProgramFolder { folder in
            if place == .document {
                let document = ManagedDocument(fileURL: folder.appendingPathComponent("L.quire"))
                document.autosavePolicy = .never
                try await document.create(model: .listedTasks)
                document.managedObjectContext.mergePolicy = .mergeByPropertyObjectTrump
                let run = Run(
                    document.managedObjectContext, seed: seed,
                    saveAll: { try await document.save() },
                    background: { body in
                        try await document.performBackgroundTask { try body($0) }
                    })
                try await run.run(hasBatches: false)
                try await document.close(discardingChanges: true)
                return
            }
            let store = SituationStore.allCases[Int(seed % 4)]
            let container = try await store.container(.listedTasks, in: folder)
            let parent = container.viewContext
            let context =
                place == .child ? ManagedObjectContext.mainQueue(parent: parent) : parent
            context.undoManager = UndoManager()
            for each in [context, parent] {
                each.mergePolicy = .mergeByPropertyObjectTrump
                each.automaticallyMergesChangesFromParent = true
            }
            let run = Run(
                context, seed: seed,
                saveAll: {
                    try context.save()
                    try parent.save()
                },
                background: { body in
                    try await container.performBackgroundTask {
                        $0.mergePolicy = .mergeByPropertyObjectTrump
                        try body($0)
                    }
                })
            try await run.run(hasBatches: place == .store)
            try container.close()
        }
    }
}
