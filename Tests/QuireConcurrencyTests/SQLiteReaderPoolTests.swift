import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Connections for reading are bounded, whoever asks for them.
@Suite struct SQLiteReaderPoolTests {
    private let test: TestStack

    init() throws { test = try TestStack() }

    private final class Count: Sendable {
        private let values = Lock((present: 0, greatest: 0, total: 0))
        var greatest: Int { values.withLock(\.greatest) }
        var total: Int { values.withLock(\.total) }

        func add() {
            values.withLock {
                $0.present += 1
                $0.total += 1
                $0.greatest = max($0.greatest, $0.present)
            }
        }

        func remove() { values.withLock { $0.present -= 1 } }
    }

    @Test func manyThreadsShareFewConnections() throws {
        let (path, used) = (test.path, Count())
        let pool = SQLiteReaderPool { try SQLiteConnection(path: path, mode: .reading) }
        let threads = 64
        let (entered, go, done) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        for _ in 0..<threads {
            Thread.detachNewThread {
                _ = try? pool.withConnection { connection in
                    used.add()
                    entered.signal()
                    go.wait()
                    _ = try connection.integer("SELECT count(*) FROM Z_PRIMARYKEY")
                    used.remove()
                }
                done.signal()
            }
        }
        for _ in 0..<threads {
            entered.wait()
            go.signal()
        }
        for _ in 0..<threads { done.wait() }
        #expect(used.total == threads)
        #expect(used.greatest <= 16)
        pool.close()
    }

    @Test func aThreadThatReadsMayReadAgain() throws {
        let path = test.path
        let pool = SQLiteReaderPool { try SQLiteConnection(path: path, mode: .reading) }
        @Sendable func read(_ depth: Int) throws -> Int {
            if depth == 0 { return 0 }
            return try pool.withConnection { _ in try read(depth - 1) + 1 } ?? 0
        }
        // Each of many threads holds more than all could have, if they had to wait for each other.
        let done = DispatchSemaphore(value: 0)
        let found = Count()
        for _ in 0..<24 {
            Thread.detachNewThread {
                if (try? read(20)) == 20 { found.add() }
                done.signal()
            }
        }
        for _ in 0..<24 { done.wait() }
        #expect(found.total == 24)
        pool.close()
    }

    @Test func closingEndsTheWaiting() throws {
        let path = test.path
        let pool = SQLiteReaderPool { try SQLiteConnection(path: path, mode: .reading) }
        let (entered, go, done) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        let refused = Count()
        for _ in 0..<40 {
            Thread.detachNewThread {
                let result: Bool?? = try? pool.withConnection { _ in
                    entered.signal()
                    go.wait()
                    return true
                }
                if case .some(.none) = result { refused.add() }
                done.signal()
            }
        }
        for _ in 0..<16 { entered.wait() }
        Thread.detachNewThread {
            pool.close()
            done.signal()
        }
        for _ in 0..<40 { go.signal() }
        for _ in 0..<41 { done.wait() }
        #expect(try pool.withConnection { _ in true } == nil)
    }
}
