import Foundation
import Logging
import Quire

extension VersionStore {
    /// Removes versions, and blocks that none needs any more.
    ///
    /// - Parameter skippingBusy: Whether one that is being read stays, rather than being an error.
    /// - Returns: The versions that are gone.
    func remove(_ ids: [String], skippingBusy: Bool) throws -> [String] {
        writing.lock()
        defer { writing.unlock() }
        var removed: [String] = []
        for id in ids {
            guard isThere(id) else { throw missing(id) }
            let root = layout.path
            let claim = try OpenFile.open(layout.version(id), beneath: root, for: .folder)
            guard try claim.claim() else {
                if skippingBusy { continue }
                throw QuireError(
                    .locked,
                    "The version “\(id)” of “\(layout.path)” is being read; try again when that is done.",
                    subject: .init(file: layout.version(id)))
            }
            // At once, and durably, before any block goes that it needs.
            let temporary = FileSystem.temporarySibling(of: layout.version(id), for: "removed")
            try FileSystem.building(layout.version(id), as: temporary) {
                try FileSystem.rename(layout.version(id), to: temporary, beneath: root)
            }
            do {
                try FileSystem.synchronizeFolder(layout.versions, beneath: root)
            } catch {
                try? FileSystem.renameWithoutReplacing(
                    temporary, to: layout.version(id), beneath: root)
                throw error
            }
            removed.append(id)
            try? FileSystem.removeTree(temporary, beneath: root)
        }
        if removed.isEmpty { return [] }
        do {
            try removeBlocks()
        } catch {
            // The next removal of a version collects them.
            Logger(label: "quire.document").warning(
                "Blocks of removed versions of “\(layout.path)” could not be removed: \(error)")
        }
        return removed
    }

    /// Removes blocks that no version needs. If it cannot be told which a version needs, all stay.
    private func removeBlocks() throws {
        var blocks = try BlockStore(of: layout)
        var needed: Set<BlockDigest> = []
        for id in try ids() {
            guard let manifest = try? manifest(of: id) else { return }
            for node in BlockDigest.list(Array(manifest.nodes)) where needed.insert(node).inserted {
                // A node that is damaged says nothing of its pages; the next version may mend it.
                guard let digests = blocks.block(node) else { return }
                needed.formUnion(BlockDigest.list(digests))
            }
        }
        try blocks.removeBlocks(except: needed)
    }
}
