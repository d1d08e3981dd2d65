import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite struct AccessQueueTests {
    private typealias Item = AccessQueue.Item

    @Test func readersShareAndWritersDoNot() {
        var queue = AccessQueue()
        let first = queue.add([Item(path: "/a", isWriting: false)], for: nil, name: "1")
        let second = queue.add([Item(path: "/a", isWriting: false)], for: nil, name: "2")
        let writer = queue.add([Item(path: "/a", isWriting: true)], for: nil, name: "3")
        #expect(first.mayBegin && second.mayBegin && !writer.mayBegin)
        #expect(queue.obstacles(of: writer.number).map(\.name) == ["1", "2"])
        #expect(queue.remove(first.number) == [])
        #expect(queue.remove(second.number) == [writer.number])
    }

    @Test func aWriterDoesNotStarveBehindReaders() {
        var queue = AccessQueue()
        let reader = queue.add([Item(path: "/a", isWriting: false)], for: nil, name: "1")
        let writer = queue.add([Item(path: "/a", isWriting: true)], for: nil, name: "2")
        let late = queue.add([Item(path: "/a", isWriting: false)], for: nil, name: "3")
        #expect(!late.mayBegin)
        #expect(queue.remove(reader.number) == [writer.number])
        #expect(queue.remove(writer.number) == [late.number])
    }

    @Test func aFolderStandsForWhatIsInIt() {
        #expect(Item(path: "/a", isWriting: true).disturbs(Item(path: "/a/b", isWriting: false)))
        #expect(Item(path: "/a/b", isWriting: true).disturbs(Item(path: "/a", isWriting: false)))
        #expect(Item(path: "/", isWriting: true).disturbs(Item(path: "/a", isWriting: false)))
        #expect(!Item(path: "/a", isWriting: true).disturbs(Item(path: "/ab", isWriting: true)))
        #expect(!Item(path: "/a/b", isWriting: true).disturbs(Item(path: "/a/c", isWriting: true)))
    }

    @Test func whoIsAskedToMakeWayIsLetThrough() {
        final class Presenter {}
        let presenter = Presenter()
        let id = ObjectIdentifier(presenter)
        var queue = AccessQueue()
        let reader = queue.add([Item(path: "/a", isWriting: false)], for: nil, name: "1")
        #expect(queue.ask([id], for: reader.number) == [])
        let save = queue.add([Item(path: "/a", isWriting: true)], for: id, name: "2")
        #expect(save.mayBegin)
        let other = queue.add([Item(path: "/a", isWriting: true)], for: nil, name: "3")
        #expect(!other.mayBegin)
        #expect(queue.remove(save.number) == [])
        queue.run(reader.number)
        #expect(!queue.add([Item(path: "/a", isWriting: true)], for: id, name: "4").mayBegin)
    }

    @Test func whoWaitsFollowsWhatIsMoved() {
        var queue = AccessQueue()
        let mover = queue.add(
            [Item(path: "/a", isWriting: true), Item(path: "/b", isWriting: true)], for: nil,
            name: "1")
        let reader = queue.add([Item(path: "/a/c", isWriting: false)], for: nil, name: "2")
        _ = queue.move("/a", to: "/b")
        #expect(queue[reader.number]?.items.map(\.path) == ["/b/c"])
        #expect(queue.remove(mover.number) == [reader.number])
    }

    /// Whatever is asked for: nobody is disturbed, order is kept, and everybody gets their turn.
    @Test func randomRequestsAllHaveTheirTurn() {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        let paths = ["/", "/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f"]
        for round in 0..<300 {
            var queue = AccessQueue()
            var running: Set<AccessQueue.Number> = []
            var left = 40
            var steps = 0
            while left > 0 || !running.isEmpty {
                steps += 1
                if left > 0, Bool.random(using: &random) {
                    left -= 1
                    let items = (0..<Int.random(in: 1...2, using: &random)).map { _ in
                        Item(
                            path: paths.randomElement(using: &random) ?? "/",
                            isWriting: Bool.random(using: &random))
                    }
                    let (number, mayBegin) = queue.add(items, for: nil, name: "")
                    if mayBegin { running.insert(number) }
                } else if let number = running.sorted().randomElement(using: &random) {
                    running.remove(number)
                    running.formUnion(queue.remove(number))
                }
                let items = running.compactMap { queue[$0]?.items }
                for (place, own) in items.enumerated() {
                    for other in items[(place + 1)...] {
                        #expect(
                            !own.contains { item in other.contains { $0.disturbs(item) } },
                            "seed \(SeededRandom.baseSeed), round \(round)")
                    }
                }
                if steps > 10_000 { break }
            }
            #expect(
                queue.requests.isEmpty, "seed \(SeededRandom.baseSeed), round \(round)")
        }
    }
}
