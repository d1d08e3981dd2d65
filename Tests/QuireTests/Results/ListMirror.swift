import Foundation
import Quire
import Testing

/// A list as a user interface keeps one: it knows only what its controller tells it, and applies each batch as table
/// views do.
final class ListMirror: FetchedResultsControllerDelegate {
    typealias Result = ManagedObject

    struct Section: Equatable {
        var name: String
        var objects: [ManagedObjectID]
    }

    struct ObjectChange {
        var objectID: ManagedObjectID
        var old: IndexPath?
        var type: FetchedResultsChangeType
        var new: IndexPath?
    }

    private(set) var sections: [Section] = []
    /// All objects, kept by differences only.
    private(set) var flat: [ManagedObjectID] = []
    private(set) var snapshot: FetchedResultsSnapshot?
    /// What the last batch, or those since ``forget()``, were told, as texts.
    private(set) var log: [String] = []
    private(set) var batchCount = 0
    private(set) var error: QuireError?
    var didChange: (() -> Void)?

    private var isInBatch = false
    private var changes: [ObjectChange] = []
    private var sectionChanges: [(name: String, index: Int, type: FetchedResultsChangeType)] = []
    private var renames: [ManagedObjectID: ManagedObjectID] = [:]

    /// Reads everything anew.
    func load(_ controller: FetchedResultsController<ManagedObject>) {
        sections = (controller.sections ?? []).map {
            Section(name: $0.name, objects: $0.objects.map(\.objectID))
        }
        flat = sections.flatMap(\.objects)
        forget()
    }

    func forget() {
        log = []
        batchCount = 0
    }

    // MARK: Delegate

    func controllerWillChangeContent(_ controller: FetchedResultsController<ManagedObject>) {
        #expect(!isInBatch)
        isInBatch = true
        changes = []
        sectionChanges = []
        renames = [:]
    }

    func controller(
        _ controller: FetchedResultsController<ManagedObject>,
        didChange sectionInfo: FetchedResultsSectionInfo<ManagedObject>,
        atSectionIndex sectionIndex: Int, for type: FetchedResultsChangeType
    ) {
        #expect(isInBatch)
        #expect(changes.isEmpty)
        let name = sectionInfo.name
        #expect((sectionInfo.numberOfObjects == 0) == (type == .delete))
        if type == .insert {
            #expect(
                sectionInfo.objects.map(\.objectID)
                    == controller.sections?[sectionIndex].objects.map(\.objectID))
        }
        sectionChanges.append((name, sectionIndex, type))
        log.append("\(type) section \(name) \(sectionIndex)")
    }

    func controller(
        _ controller: FetchedResultsController<ManagedObject>, didChange anObject: ManagedObject,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: IndexPath?
    ) {
        #expect(isInBatch)
        changes.append(
            ObjectChange(objectID: anObject.objectID, old: indexPath, type: type, new: newIndexPath)
        )
        let places = [indexPath, newIndexPath].map { $0.map(\.description) ?? "–" }
        log.append("\(type) \(places[0]) \(places[1])")
    }

    func controller(
        _ controller: FetchedResultsController<ManagedObject>,
        didChangeContentWith snapshot: FetchedResultsSnapshot
    ) {
        self.snapshot = snapshot
    }

    func controller(
        _ controller: FetchedResultsController<ManagedObject>,
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
        // Outside of a batch only identifiers have changed.
        if !isInBatch { rename() }
    }

    func controllerDidChangeContent(_ controller: FetchedResultsController<ManagedObject>) {
        #expect(isInBatch)
        isInBatch = false
        #expect(!changes.isEmpty || !sectionChanges.isEmpty)
        batchCount += 1
        apply()
        didChange?()
    }

    func controller(
        _ controller: FetchedResultsController<ManagedObject>, didFailWith error: QuireError
    ) {
        self.error = error
    }

    // MARK: Applying

    private func apply() {
        var leaving: [(IndexPath, ManagedObjectID)] = []
        var coming: [(IndexPath, ManagedObjectID)] = []
        for change in changes {
            switch (change.type, change.old, change.new) {
            case (.insert, nil, let new?): coming.append((new, change.objectID))
            case (.delete, let old?, nil): leaving.append((old, change.objectID))
            case (.move, let old?, let new?):
                leaving.append((old, change.objectID))
                coming.append((new, change.objectID))
            case (.update, .some, .some): break
            default: Issue.record("\(change) makes no sense.")
            }
        }
        for (place, id) in leaving.sorted(by: { $0.0 > $1.0 }) {
            let found = sections[place.section].objects.remove(at: place.item)
            #expect(found == id || renames[found] == id)
        }
        for change in sectionChanges.sorted(by: { $0.index > $1.index })
        where change.type == .delete {
            let section = sections.remove(at: change.index)
            #expect(section == Section(name: change.name, objects: []))
        }
        for change in sectionChanges.sorted(by: { $0.index < $1.index })
        where change.type == .insert {
            sections.insert(Section(name: change.name, objects: []), at: change.index)
        }
        for (place, id) in coming.sorted(by: { $0.0 < $1.0 }) {
            sections[place.section].objects.insert(id, at: place.item)
        }
        rename()
        for change in changes {
            guard let new = change.new else { continue }
            #expect(sections[new.section].objects[new.item] == change.objectID)
        }
    }

    private func rename() {
        for index in sections.indices {
            sections[index].objects = sections[index].objects.map { renames[$0] ?? $0 }
        }
    }
}
