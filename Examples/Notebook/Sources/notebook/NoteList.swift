import Foundation
import Quire

/// The sidebar: all notes, the one changed last on top.
///
/// A `FetchedResultsController` fetches the notes and reports insertions, deletions, moves and updates, whether they come from the
/// editor, undo, a background task or another program.
@MainActor
final class NoteList: @MainActor FetchedResultsControllerDelegate {
    /// The row of a note.
    @MainActor private struct Row {
        let title = Label(style: "row-title")
        let date = Label(style: "dim-label")
        let box: Box

        init(_ note: Note) {
            box = Box(vertical: true, spacing: 2, title, date)
            show(note)
        }

        func show(_ note: Note) {
            title.text = note.heading
            let preview = note.text.split(separator: "\n").first ?? ""
            date.text = "\(note.modified.briefly)  \(preview.prefix(60))"
        }
    }

    private(set) var selection: Note?
    /// Called when another note is selected, or the selected one has changed.
    var selectionDidChange: (() -> Void)?
    private(set) lazy var list = List(style: "sidebar-list") { [unowned self] in select(row: $0) }
    private var rows: [Row] = []
    private var results: FetchedResultsController<Note>?
    private var changes: [(note: Note, from: Int?, to: Int?)] = []
    private var isUpdating = false

    /// Shows the notes of a context, and selects the first.
    func show(_ context: ManagedObjectContext) throws {
        let request = FetchRequest<Note>(sortBy: [SortDescriptor(\.modified, order: .reverse)])
        let results = FetchedResultsController(
            fetchRequest: request, managedObjectContext: context)
        try results.performFetch()
        results.delegate = self
        self.results = results
        isUpdating = true
        for index in rows.indices.reversed() { list.remove(at: index) }
        rows = results.fetchedObjects?.map { Row($0) } ?? []
        for (index, row) in rows.enumerated() { list.insert(row.box, at: index) }
        isUpdating = false
        select(results.fetchedObjects?.first)
    }

    func select(_ note: Note?) {
        selection = note
        let index = note.flatMap { results?.indexPath(forObject: $0)?.item }
        isUpdating = true
        list.selection = index
        isUpdating = false
        selectionDidChange?()
    }

    private func select(row: Int?) {
        if !isUpdating, let row { select(results?.fetchedObjects?[row]) }
    }

    // MARK: - Changes

    func controller(
        _ controller: FetchedResultsController<Note>, didChange note: Note,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType, newIndexPath: IndexPath?
    ) {
        changes.append((note, indexPath?.item, newIndexPath?.item))
    }

    /// Removes rows from last to first, then inserts rows from first to last, which is the order that the positions assume.
    func controllerDidChangeContent(_ controller: FetchedResultsController<Note>) {
        let changes = changes
        self.changes = []
        isUpdating = true
        let moved = changes.filter { $0.from != $0.to }
        for index in moved.compactMap(\.from).sorted(by: >) {
            list.remove(at: index)
            rows.remove(at: index)
        }
        let inserted = moved.compactMap { change in change.to.map { (change.note, $0) } }
        for (note, index) in inserted.sorted(by: { $0.1 < $1.1 }) {
            rows.insert(Row(note), at: index)
            list.insert(rows[index].box, at: index)
        }
        for case (let note, let index?, let new) in changes where index == new {
            rows[index].show(note)
        }
        isUpdating = false
        let isGone = selection.map { results?.indexPath(forObject: $0) == nil } ?? true
        select(isGone ? inserted.first?.0 ?? results?.fetchedObjects?.first : selection)
    }
}

extension Date {
    /// The time if it is today, and the day otherwise.
    var briefly: String {
        Calendar.current.isDateInToday(self)
            ? formatted(date: .omitted, time: .shortened)
            : formatted(date: .abbreviated, time: .omitted)
    }
}
