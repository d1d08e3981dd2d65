import Foundation
import Logging
import Quire

// What a policy makes of a save. None of it can make a save fail.

extension DocumentPackage {
    private static let logger = Logger(label: "quire.document")

    /// Call before a save writes anything, not on the main queue: keeps what the document was when it was opened, if the
    /// policy says so and this is the first save since.
    func keepVersionBeforeSave(_ policy: VersionPolicy) {
        guard versionStore.willSave(), policy.occasion == .beforeFirstChange else { return }
        keep(.beforeChanges, policy)
    }

    /// Call after a save has succeeded, not on the main queue: keeps a version if it is time for one.
    func keepVersionAfterSave(_ policy: VersionPolicy) {
        guard case .every(let interval) = policy.occasion, !isReadOnly else { return }
        versionStore.decidingAfterSave.lock()
        defer { versionStore.decidingAfterSave.unlock() }
        if let last = (try? versionStore.ids())?.last.flatMap(VersionStore.date),
            Date().timeIntervalSince(last) < interval / .seconds(1)
        {
            return
        }
        keep(.periodic, policy)
    }

    private func keep(_ reason: DocumentVersion.Reason, _ policy: VersionPolicy) {
        do {
            try keepVersion(reason: reason, onlyIfNew: true)
            if let retention = policy.retention { try pruneVersions(retention) }
        } catch {
            Self.logger.warning("No version of “\(layout.path)” was kept: \(error)")
        }
    }
}
