import QuireTestSupport
import Testing

@testable import Quire

@Suite struct FileLockWaitTests {
    private func wait(_ timeout: Duration, until count: Int) throws -> (found: Int?, reports: Int) {
        let reports = Lock(0)
        let wait = FileLockWait(timeout: timeout) { _ in reports.withLock { $0 += 1 } }
        let tries = Lock(0)
        let found = try wait.polling("/nowhere") { _ in
            let present = tries.withLock { tries in
                tries += 1
                return tries
            }
            return present > count ? present : nil
        }
        return (found, reports.withLock { $0 })
    }

    /// What comes before the first look takes none of the time, however long it takes.
    @Test func theTimeRunsFromTheFirstLook() throws {
        let (found, reports) = try wait(.nanoseconds(1), until: 1)
        #expect(found == 2)
        #expect(reports == 1)
    }

    @Test func itIsTriedAgainUntilItSucceedsAndSaidOnce() throws {
        let (found, reports) = try wait(.seconds(600), until: 3)
        #expect(found == 4)
        #expect(reports == 1)
    }

    @Test func withoutTimeItIsTriedOnceAndNothingSaid() throws {
        let (found, reports) = try wait(.zero, until: 1)
        #expect(found == nil)
        #expect(reports == 0)
    }
}
