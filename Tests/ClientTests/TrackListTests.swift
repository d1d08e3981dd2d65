import Foundation
import Quire
import QuireMacros
import Testing

@Entity final class Track: ManagedObject {
    @Attribute var album: String
    @Attribute var title: String
    @Attribute(default: 1) var number: Int
}

/// A list with sections, as the delegate of a controller keeps it.
@MainActor final class TrackList: @MainActor FetchedResultsControllerDelegate {
    private(set) var events: [String] = []
    private(set) var snapshot: FetchedResultsSnapshot?

    func controllerWillChangeContent(_ controller: FetchedResultsController<Track>) {
        events.append("begin")
    }

    func controller(
        _ controller: FetchedResultsController<Track>,
        didChange sectionInfo: FetchedResultsSectionInfo<Track>, atSectionIndex sectionIndex: Int,
        for type: FetchedResultsChangeType
    ) {
        switch type {
        case .insert: events.append("section \(sectionIndex) \(sectionInfo.name) inserted")
        case .delete: events.append("section \(sectionIndex) \(sectionInfo.name) deleted")
        default: break
        }
    }

    func controller(
        _ controller: FetchedResultsController<Track>, didChange anObject: Track,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType, newIndexPath: IndexPath?
    ) {
        func text(_ path: IndexPath?) -> String { path.map { "\($0.section).\($0.row)" } ?? "-" }
        events.append("\(type) \(text(indexPath)) \(text(newIndexPath))")
    }

    func controller(
        _ controller: FetchedResultsController<Track>,
        didChangeContentWith snapshot: FetchedResultsSnapshot
    ) {
        self.snapshot = snapshot
    }

    func controllerDidChangeContent(_ controller: FetchedResultsController<Track>) {
        events.append("end")
    }

    func takeEvents() -> [String] {
        defer { events = [] }
        return events
    }
}

/// Tracks by album, in a list that follows what is edited.
@MainActor @Suite struct TrackListTests {
    private let container: PersistentContainer
    private var context: ManagedObjectContext { container.viewContext }

    init() throws {
        container = try PersistentContainer(
            managedObjectModel: ManagedObjectModel(classes: [Track.self]),
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
        for (album, title, number) in [
            ("Blue", "Carey", 4), ("Blue", "All I Want", 1), ("Hejira", "Coyote", 1),
        ] {
            let track = Track(context: context)
            (track.album, track.title, track.number) = (album, title, number)
        }
        try context.save()
    }

    private func makeController() -> FetchedResultsController<Track> {
        var request = Track.fetchRequest()
        request.sortDescriptors = [SortDescriptor(\.album), SortDescriptor(\.number)]
        return FetchedResultsController(
            fetchRequest: request, managedObjectContext: context, sectionNameKeyPath: "album",
            cacheName: nil)
    }

    @Test func sectionsHaveNamesAndObjects() throws {
        let controller = makeController()
        try controller.performFetch()
        #expect(controller.sections?.map(\.name) == ["Blue", "Hejira"])
        #expect(controller.sections?[0].numberOfObjects == 2)
        #expect(controller.sections?[0].objects.map(\.title) == ["All I Want", "Carey"])
        #expect(controller.sectionIndexTitles == ["B", "H"])
        #expect(controller.fetchedObjects?.count == 3)
        let carey = controller.object(at: IndexPath(row: 1, section: 0))
        #expect(carey.title == "Carey")
        #expect(controller.indexPath(forObject: carey) == IndexPath(item: 1, section: 0))
    }

    @Test func theDelegateIsToldWhatHasMoved() throws {
        let controller = makeController()
        let list = TrackList()
        controller.delegate = list
        try controller.performFetch()
        #expect(list.takeEvents() == [])
        #expect(list.snapshot?.numberOfItems == 3)

        let track = Track(context: context)
        (track.album, track.title, track.number) = ("Clouds", "Chelsea Morning", 2)
        context.processPendingChanges()
        #expect(list.takeEvents() == ["begin", "section 1 Clouds inserted", "insert - 1.0", "end"])

        let carey = controller.object(at: IndexPath(row: 1, section: 0))
        carey.number = 0
        context.processPendingChanges()
        #expect(list.takeEvents() == ["begin", "move 0.1 0.0", "end"])
        carey.title = "Carey (live)"
        context.processPendingChanges()
        #expect(list.takeEvents() == ["begin", "update 0.0 0.0", "end"])

        context.delete(controller.object(at: IndexPath(row: 0, section: 2)))
        context.processPendingChanges()
        #expect(list.takeEvents() == ["begin", "section 2 Hejira deleted", "delete 2.0 -", "end"])
        #expect(list.snapshot?.sectionIdentifiers == ["Blue", "Clouds"])
        try context.save()
        #expect(list.snapshot?.itemIdentifiers.contains { $0.isTemporaryID } == false)
        #expect(controller.indexPath(for: track.objectID) == IndexPath(row: 0, section: 1))
    }

    @Test func snapshotsArriveOneAfterTheOther() async throws {
        let controller = makeController()
        try controller.performFetch()
        var snapshots = controller.snapshots.makeAsyncIterator()
        #expect(await snapshots.next()?.numberOfItems == 3)
        for track in try context.fetch(Track.self, where: #Predicate { $0.album == "Blue" }) {
            context.delete(track)
        }
        try context.save()
        let snapshot = try #require(await snapshots.next())
        #expect(snapshot.sectionIdentifiers == ["Hejira"])
        let coyote = context.object(with: snapshot[IndexPath(item: 0, section: 0)]) as? Track
        #expect(coyote?.title == "Coyote")
    }

    @Test func aRequestWithoutOrderIsRefused() {
        let controller = FetchedResultsController(
            fetchRequest: Track.fetchRequest(), managedObjectContext: context)
        #expect(controller.fetchedObjects == nil)
        let error = #expect(throws: QuireError.self) { try controller.performFetch() }
        #expect(error?.code == .invalidQuery)
    }
}
