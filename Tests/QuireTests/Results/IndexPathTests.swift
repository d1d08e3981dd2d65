import Foundation
import Quire
import QuireTestSupport
import Testing

/// Foundation's index paths as places in sections.
@Suite struct IndexPathTests {
    @Test func anIndexPathHasASectionAndAnItem() {
        var path = IndexPath(item: 3, section: 1)
        #expect(path == [1, 3])
        #expect(path == IndexPath(row: 3, section: 1))
        #expect((path.section, path.item, path.row) == (1, 3, 3))
        path.section = 2
        path.row = 4
        #expect(path == [2, 4])
        path.item = 5
        #expect("\(path)" == "[2, 5]")
        #expect(IndexPath(item: 9, section: 0) < IndexPath(item: 0, section: 1))
    }

    @Test(arguments: [[], [0], [0, 0, 0], [1, 0], [0, 1], [0, -1], [-1, 0]], [true, false])
    func whatIsNoPlaceOfAResultStopsTheProgram(_ indexes: [Int], inSnapshot: Bool) async {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) { [indexes, inSnapshot] in
            try await MainActor.run {
                let stack = try TestStack()
                let context = stack.mainContext()
                _ = try context.insertObject(entityName: "Song")
                let controller = FetchedResultsController(
                    fetchRequest: FetchRequest("Song", sortOrderings: [SortOrdering("title")]),
                    managedObjectContext: context)
                try controller.performFetch()
                _ = controller.object(at: [0, 0])
                _ = controller.snapshot?[[0, 0]]
                let path = IndexPath(indexes: indexes)
                if inSnapshot {
                    _ = controller.snapshot?[path]
                } else {
                    _ = controller.object(at: path)
                }
            }
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains("has no object at \(IndexPath(indexes: indexes))"))
    }
}
