import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Checks and recoveries can be followed, and cancelled without a trace.
@Suite @MainActor struct RescueProgressTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path("a.sqlite") }
    private var new: String { folder.path("b.sqlite") }

    init() throws { folder = try TemporaryFolder() }

    private func cancelled() -> Progress {
        let progress = Progress(totalUnitCount: -1)
        progress.cancel()
        return progress
    }

    private func code(_ body: () throws -> some Any) -> QuireError.Code? {
        do {
            _ = try body()
            return nil
        } catch {
            return (error as? QuireError)?.code
        }
    }

    @Test(arguments: [FileProtection.none, .complete])
    func checkCountsTheBytes(protection: FileProtection) throws {
        try Damage.makeLibrary(at: path, protection: protection)
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        let progress = Progress(totalUnitCount: -1)
        let report = try StoreCheck.run(store, progress: progress)
        #expect(try report.isWhole && report.values == StoreCheck.run(store).values)
        #expect(try progress.totalUnitCount == store.byteCount())
        #expect(progress.fractionCompleted == 1)
        #expect(code { try StoreCheck.run(store, progress: cancelled()) } == .cancelled)
        #expect(try StoreCheck.run(on: store).isWhole)
    }

    @Test(arguments: [FileProtection.none, .complete])
    func recoveryAdvancesToItsEnd(protection: FileProtection) throws {
        try Damage.makeLibrary(at: path, protection: protection)
        let progress = RecordingProgress()
        let report = try StoreRecovery.recover(path, to: new, progress: progress)
        #expect(report.isComplete)
        #expect(progress.fractionCompleted == 1)
        // Setting the count, once per step; children count without.
        #expect(progress.counts == [0, 2, 8])
    }

    @Test(arguments: [0, 2, 8] as [Int64])
    func cancelledRecoveryLeavesNothing(count: Int64) throws {
        try Damage.makeLibrary(at: path)
        let names = try FileSystem.names(in: folder.url.path)
        let progress = RecordingProgress(cancellingAt: count)
        #expect(code { try StoreRecovery.recover(path, to: new, progress: progress) } == .cancelled)
        #expect(try FileSystem.names(in: folder.url.path) == names)
    }
}

/// A progress that records its counts, and cancels itself at one of them.
private final class RecordingProgress: Progress, @unchecked Sendable {
    // Unchecked because its superclass is; it is used on one thread.
    private(set) var counts: [Int64] = []
    private let last: Int64?

    init(cancellingAt last: Int64? = nil) {
        self.last = last
        super.init(parent: nil, userInfo: nil)
    }

    override var completedUnitCount: Int64 {
        didSet {
            counts.append(completedUnitCount)
            if completedUnitCount == last { cancel() }
        }
    }
}
