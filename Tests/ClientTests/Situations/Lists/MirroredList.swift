import Foundation
import Quire
import QuireMacros
import Testing

@Entity final class ListedTask: ManagedObject {
    @Attribute var title: String
    @Attribute var category: String?
    @Attribute(default: 0) var rank: Int
    @Attribute var due: Date?
    @Attribute(default: false) var isDone: Bool
    @Relationship(inverse: \ListedProject.tasks) var project: ListedProject?
    @Relationship(inverse: \ListedLabel.tasks) var labels: Set<ListedLabel>
}

@Entity final class ListedProject: ManagedObject {
    @Attribute var name: String
    @Attribute(default: 0) var position: Int
    @Relationship(deleteRule: .cascade) var tasks: Set<ListedTask>
}

@Entity final class ListedStory: ManagedObject {
    @Attribute(.unique) var address: String
    @Attribute var title: String
    @Attribute(default: false) var isFavorite: Bool
}

@Entity final class ListedLabel: ManagedObject {
    @Attribute var name: String
    @Relationship var tasks: Set<ListedTask>
}

/// Whether the program holds the objects that its list shows: then they are registered in the context.
enum HeldRows: CaseIterable { case none, all }

extension ManagedObjectModel {
    /// Tasks of projects, with labels.
    static var listedTasks: ManagedObjectModel {
        get throws {
            try ManagedObjectModel(classes: [
                ListedTask.self, ListedProject.self, ListedLabel.self,
            ])
        }
    }
}

extension ManagedObjectContext {
    @discardableResult
    func addTask(
        _ title: String, _ category: String? = nil, rank: Int = 0, to project: ListedProject? = nil
    ) -> ListedTask {
        let task = ListedTask(context: self)
        (task.title, task.category, task.rank) = (title, category, rank)
        task.project = project
        return task
    }

    func addProject(_ name: String, position: Int = 0) -> ListedProject {
        let project = ListedProject(context: self)
        (project.name, project.position) = (name, position)
        return project
    }

    func task(_ title: String) throws -> ListedTask {
        try #require(try fetch(ListedTask.self, where: #Predicate { $0.title == title }).first)
    }

    func project(_ name: String) throws -> ListedProject {
        try #require(try fetch(ListedProject.self, where: #Predicate { $0.name == name }).first)
    }

    /// The controller of a list of tasks.
    func tasks(
        _ orderings: SortOrdering..., where format: String? = nil, sections: String? = nil,
        cacheName: String? = nil, limit: Int = 0, offset: Int = 0
    ) throws -> FetchedResultsController<ListedTask> {
        var request = FetchRequest<ListedTask>(sortOrderings: orderings)
        request.predicate = try format.map { try QueryPredicate(format: $0) }
        request.fetchLimit = limit
        request.fetchOffset = offset
        return FetchedResultsController(
            fetchRequest: request, managedObjectContext: self, sectionNameKeyPath: sections,
            cacheName: cacheName)
    }
}

/// A list on a screen: it knows what its controller has told it, applies each batch as table views do, and draws only those
/// rows again that were reported.
@MainActor
final class MirroredList<Result: ManagedObject>:
    @MainActor FetchedResultsControllerDelegate
{
    struct Row: Equatable {
        var objectID: ManagedObjectID
        var text: String
    }

    struct Section: Equatable {
        var name: String
        var rows: [Row]
    }

    private struct Change {
        var row: Row
        var old: IndexPath?
        var type: FetchedResultsChangeType
        var new: IndexPath?
    }

    let controller: FetchedResultsController<Result>
    private let text: (Result) -> String
    private let sectionName: (Result) -> String
    private(set) var sections: [Section] = []
    /// All objects, kept by differences only.
    private(set) var flat: [ManagedObjectID] = []
    private(set) var snapshot: FetchedResultsSnapshot?
    private(set) var errors: [QuireError] = []
    /// What was reported, as texts, and the number of batches.
    private(set) var log: [String] = []
    private(set) var batchCount = 0
    private(set) var snapshotCount = 0
    /// The objects of the last batch's deletions.
    private(set) var deletedObjects: [Result] = []
    /// Runs at the end of each batch, before it is applied.
    var willApply: () throws -> Void = {}
    /// Runs at the end of each batch.
    var didChange: () throws -> Void = {}
    /// Runs when a snapshot comes.
    var didTakeSnapshot: () throws -> Void = {}

    private var isInBatch = false
    private var changes: [Change] = []
    private var sectionChanges: [(name: String, index: Int, type: FetchedResultsChangeType)] = []
    private var renames: [ManagedObjectID: ManagedObjectID] = [:]

    /// Fetches, and shows the results.
    init(
        _ controller: FetchedResultsController<Result>,
        sectionName: @escaping (Result) -> String = { _ in "" },
        text: @escaping (Result) -> String
    ) throws {
        self.controller = controller
        self.sectionName = sectionName
        self.text = text
        controller.delegate = self
        try load()
    }

    /// Fetches again, and draws everything.
    func load() throws {
        try controller.performFetch()
        sections = (controller.sections ?? []).map { section in
            Section(name: section.name, rows: section.objects.map(row))
        }
        flat = sections.flatMap(\.rows).map(\.objectID)
        forget()
    }

    func forget() {
        log = []
        batchCount = 0
        snapshotCount = 0
    }

    func takeLog() -> [String] {
        defer { forget() }
        return log
    }

    private func row(_ object: Result) -> Row { Row(objectID: object.objectID, text: text(object)) }

    /// The texts of all rows, by section.
    var texts: [String] {
        sections.map { section in
            (section.name.isEmpty ? "" : section.name + ": ")
                + section.rows.map(\.text).joined(separator: " ")
        }
    }

    // MARK: - Delegate

    func controllerWillChangeContent(_ controller: FetchedResultsController<Result>) {
        #expect(!isInBatch)
        isInBatch = true
        (changes, sectionChanges, renames, deletedObjects) = ([], [], [:], [])
    }

    func controller(
        _ controller: FetchedResultsController<Result>,
        didChange sectionInfo: FetchedResultsSectionInfo<Result>, atSectionIndex sectionIndex: Int,
        for type: FetchedResultsChangeType
    ) {
        #expect(isInBatch && changes.isEmpty)
        sectionChanges.append((sectionInfo.name, sectionIndex, type))
        log.append("\(type) section \(sectionIndex) \(sectionInfo.name)")
    }

    func controller(
        _ controller: FetchedResultsController<Result>, didChange anObject: Result,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType, newIndexPath: IndexPath?
    ) {
        #expect(isInBatch)
        if type == .delete { deletedObjects.append(anObject) }
        // A deleted object may have no values any more.
        let row =
            type == .delete ? Row(objectID: anObject.objectID, text: "") : self.row(anObject)
        changes.append(Change(row: row, old: indexPath, type: type, new: newIndexPath))
        let paths = [indexPath, newIndexPath].map { $0.map { "\($0.section).\($0.item)" } ?? "-" }
        log.append("\(type) \(paths[0]) \(paths[1])")
    }

    func controller(
        _ controller: FetchedResultsController<Result>,
        didChangeContentWith snapshot: FetchedResultsSnapshot
    ) {
        self.snapshot = snapshot
        snapshotCount += 1
        #expect(throws: Never.self) { try didTakeSnapshot() }
    }

    func controller(
        _ controller: FetchedResultsController<Result>,
        didChangeContentWith difference: CollectionDifference<ManagedObjectID>
    ) {
        for case .remove(let offset, let old, _) in difference { #expect(flat[offset] == old) }
        guard let new = flat.applying(difference) else {
            Issue.record("The difference cannot be applied.")
            return
        }
        if !isInBatch { renames = [:] }
        for case .remove(_, let old, let place?) in difference { renames[old] = new[place] }
        flat = new
        if !isInBatch { rename() }
    }

    func controllerDidChangeContent(_ controller: FetchedResultsController<Result>) {
        #expect(isInBatch && !(changes.isEmpty && sectionChanges.isEmpty))
        isInBatch = false
        batchCount += 1
        do {
            try willApply()
            apply()
            try didChange()
        } catch {
            Issue.record(error)
        }
    }

    func controller(
        _ controller: FetchedResultsController<Result>, didFailWith error: QuireError
    ) {
        errors.append(error)
    }

    // MARK: - Applying

    private func apply() {
        var leaving: [(place: IndexPath, row: Row)] = []
        var coming: [(place: IndexPath, row: Row)] = []
        for change in changes {
            switch (change.type, change.old, change.new) {
            case (.insert, nil, let new?): coming.append((new, change.row))
            case (.delete, let old?, nil): leaving.append((old, change.row))
            case (.move, let old?, let new?):
                leaving.append((old, change.row))
                coming.append((new, change.row))
            case (.update, .some, .some): break
            default: Issue.record("A change of type \(change.type) has the wrong index paths.")
            }
        }
        for (place, row) in leaving.sorted(by: { $0.place > $1.place }) {
            let found = sections[place.section].rows.remove(at: place.item).objectID
            #expect(found == row.objectID || renames[found] == row.objectID)
        }
        for change in sectionChanges.sorted(by: { $0.index > $1.index })
        where change.type == .delete {
            #expect(sections.remove(at: change.index) == Section(name: change.name, rows: []))
        }
        for change in sectionChanges.sorted(by: { $0.index < $1.index })
        where change.type == .insert {
            sections.insert(Section(name: change.name, rows: []), at: change.index)
        }
        for (place, row) in coming.sorted(by: { $0.place < $1.place }) {
            sections[place.section].rows.insert(row, at: place.item)
        }
        rename()
        for change in changes where change.type == .update {
            guard let place = change.new else { continue }
            #expect(sections[place.section].rows[place.item].objectID == change.row.objectID)
            sections[place.section].rows[place.item] = change.row
        }
    }

    private func rename() {
        for section in sections.indices {
            for row in sections[section].rows.indices {
                let id = sections[section].rows[row].objectID
                sections[section].rows[row].objectID = renames[id] ?? id
            }
        }
    }

    // MARK: - Checking

    /// Ends the user event. What the list shows, what the controller has and what a new fetch finds must be the same.
    func check(
        _ step: String = "", sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let comment = Comment(rawValue: step)
        let context = controller.managedObjectContext
        context.processPendingChanges()
        #expect(!isInBatch && errors.isEmpty, comment, sourceLocation: sourceLocation)
        var expected: [Section] =
            controller.sectionNameKeyPath == nil ? [Section(name: "", rows: [])] : []
        for object in try context.fetch(controller.fetchRequest) {
            let name = controller.sectionNameKeyPath == nil ? "" : sectionName(object)
            if expected.last?.name != name { expected.append(Section(name: name, rows: [])) }
            expected[expected.count - 1].rows.append(row(object))
        }
        let found = controller.sections?.map { section in
            Section(name: section.name, rows: section.objects.map(row))
        }
        let ids = expected.flatMap(\.rows).map(\.objectID)
        try #require(found == expected, comment, sourceLocation: sourceLocation)
        try #require(sections == expected, comment, sourceLocation: sourceLocation)
        try #require(flat == ids, comment, sourceLocation: sourceLocation)
        #expect(
            controller.fetchedObjects.map { $0.map(\.objectID) } == ids, comment,
            sourceLocation: sourceLocation)
        let current = controller.snapshot
        #expect(snapshot == current, comment, sourceLocation: sourceLocation)
        #expect(current?.itemIdentifiers == ids, comment, sourceLocation: sourceLocation)
        #expect(
            current?.sectionIdentifiers == expected.map(\.name), comment,
            sourceLocation: sourceLocation)
        #expect(Set(ids).count == ids.count, comment, sourceLocation: sourceLocation)
    }
}

extension MirroredList<ListedTask> {
    /// A list of tasks that shows their titles, marked if they are done.
    convenience init(
        tasks controller: FetchedResultsController<ListedTask>,
        sectionName: @escaping (ListedTask) -> String = { $0.category ?? "" }
    ) throws {
        try self.init(controller, sectionName: sectionName) { $0.title + ($0.isDone ? "!" : "") }
    }
}
