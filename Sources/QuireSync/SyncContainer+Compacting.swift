import Foundation
import Logging
import Quire

/// Compaction of the folder: a snapshot in the place of many segments, and no files without use.
///
/// Invariants
/// - A file is removed only when this replica has merged it, and a snapshot of a later state is there, whole.
/// - A blob is removed only when no object has had it for thirty days.
extension SyncContainer {
    /// The size in bytes below which segments are not worth a snapshot, whatever the size of the last one.
    private static let minimumCompactedSize: Int64 = 4 << 20
    /// The seconds for which a blob that no object has is kept: another replica may be about to send an object that has it again.
    private static let blobDelay: Double = 30 * 86_400

    /// Writes a snapshot and removes the files that it stands for, if these are many, or take twice the size of the last snapshot.
    ///
    /// Of several peers the first one does it at the limit, the next at twice the limit, and so on.
    ///
    /// - Parameter merged: The files in the folder that have been merged.
    func compactIfNeeded(
        _ merged: [SyncSegmentName], _ result: inout SyncResult
    ) async throws {
        let segments = merged.filter { $0.part == nil }
        guard let settings = try await onQueue({ try $0.settings() }), settings.scan == nil
        else { return }
        let rank = Set(segments.map(\.peer)).count { $0 < settings.peer }
        let sizes = try await onQueue { try $0.sizes(of: merged) }
        let size = segments.reduce(0) { $0 + (sizes[$1] ?? 0) }
        let snapshotSize = merged.filter { $0.part != nil }.reduce(0) { $0 + (sizes[$1] ?? 0) }
        guard
            segments.count > segmentsBeforeSnapshot * (1 + rank)
                || size > max(2 * snapshotSize, Self.minimumCompactedSize) * Int64(1 + rank)
        else { return }
        try await compact(merged, &result)
    }

    /// Writes a snapshot and removes the files that it stands for.
    ///
    /// Saves that are made meanwhile are sent after each part: the snapshot of a large document takes seconds.
    ///
    /// - Parameter readsBlobs: Whether blobs are read, to find those that are damaged.
    func compact(
        _ merged: [SyncSegmentName], readsBlobs: Bool = false, _ result: inout SyncResult
    ) async throws {
        guard let snapshot = try await onQueue({ try $0.beginSnapshot() }) else { return }
        let sentBefore = result.sentCount
        var sizes: [SyncSegmentName: Int] = [:]
        var blobs: [SyncBlob: SyncIdentifier] = [:]
        for index in 0..<snapshot.partCount {
            try Task.checkCancellation()
            // Without all parts the segments stay.
            guard let part = try await onQueue({ try $0.snapshotFile(index, of: snapshot) }),
                let file = SyncSnapshotPart.folder.entry(part.name.fileName)
            else { return }
            try await transport.create(file, part.bytes)
            sizes[part.name] = part.bytes.count
            blobs.merge(part.blobs) { first, _ in first }
            try await capture(&result)
            try await send(&result)
        }
        let written = sizes
        try await onQueue { try $0.noteSnapshotFiles(written) }
        // The snapshot has all of these, and is there.
        let segments = merged.filter {
            $0.part == nil && snapshot.seen.contains($0.peer, $0.sequence)
        }
        var covered = segments.map { SyncSegment.folder.entry($0.fileName) }
        covered += try await coveredSnapshotFiles(merged, by: snapshot)
        for file in covered.compactMap(\.self) { try await transport.remove(file) }
        // What was sent meanwhile may have blobs that no object had when its part was written.
        try await removeUnusedBlobs(
            blobs, readsBlobs: readsBlobs, removes: result.sentCount == sentBefore)
    }

    /// The files of older snapshots: those that have been merged whole, and this peer's own that it has not finished.
    private func coveredSnapshotFiles(
        _ merged: [SyncSegmentName], by snapshot: SyncReplica.Snapshot
    ) async throws -> [SyncFileName?] {
        // An older snapshot has segments that may be known only when all of its files are.
        let whole = SyncSegmentName.wholeSnapshots(merged)
        let own = try await segmentNames(in: SyncSnapshotPart.folder)
            .filter { $0.peer == snapshot.peer && $0.sequence != snapshot.number }
        return Set(whole.joined()).union(own).map { SyncSnapshotPart.folder.entry($0.fileName) }
    }

    // MARK: - Blobs

    /// The blobs in a folder, with their digests.
    static func blobFiles(in transport: any SyncTransport) async throws -> [SyncFileName: Data] {
        var found: [SyncFileName: Data] = [:]
        for byte in UInt8.min...UInt8.max {
            guard let folder = SyncBlob.folder.entry([byte].hexadecimal) else { continue }
            for name in try await transport.fileNames(in: folder) {
                if let file = folder.entry(name), let digest = SyncBlob.digest(of: name) {
                    found[file] = digest
                }
            }
        }
        return found
    }

    /// Removes blobs that no object has had for a while, and creates those again that another peer has removed too early.
    ///
    /// - Parameters:
    ///   - used: The blobs that records have, each with an object.
    ///   - readsBlobs: Whether those in the folder are read.
    ///   - removes: Whether any are removed.
    private func removeUnusedBlobs(
        _ used: [SyncBlob: SyncIdentifier], readsBlobs: Bool, removes: Bool
    ) async throws {
        let date = clock()
        // There are no files, and to find that out takes a listing of each of 256 folders.
        if try await onQueue({ try used.isEmpty && $0.cannotHaveBlobs() }) { return }
        let present = Set(try await Self.blobFiles(in: transport).values)
        let needed = Set(used.keys.map(\.digest))
            .union(try await onQueue { try $0.digestsOfConflicts() })
        let unused = present.subtracting(needed)
        let removable = try await onQueue { replica in
            try replica.unusedBlobs(unused, at: date, since: Self.blobDelay)
        }
        for digest in removes ? removable : [] {
            guard let file = SyncBlob(digest: digest, size: 0).fileName else { continue }
            try await transport.remove(file)
        }
        for (blob, id) in used {
            guard let file = blob.fileName else { continue }
            if present.contains(blob.digest) {
                guard readsBlobs else { continue }
                var (found, ignored): ([Data: Data], SyncResult) = ([:], SyncResult())
                try await fetchBlobs(of: [blob], into: &found, &ignored)
                if !found.isEmpty { continue }
            }
            guard let data = try await onQueue({ try $0.externalData(blob, of: id) })
            else { continue }
            try await transport.remove(file)
            try await transport.create(file, data)
        }
    }
}
