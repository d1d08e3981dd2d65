import Crypto
import Foundation
import Logging
import Quire
import QuireSystem

/// Merging segments and snapshots that have arrived, with their files of external data, and removing those that a snapshot covers.
extension SyncContainer {
    /// The maximum number of records, and of bytes of their files, that are merged in one transaction.
    private static let batchRecords = 2_000
    private static let batchBytes = 64 << 20

    /// Merges what has arrived.
    ///
    /// - Returns: The segments and files of snapshots in the folder that have been merged.
    func receive(_ result: inout SyncResult) async throws -> [SyncSegmentName] {
        let folder = SyncSegment.folder
        let replica = replica
        let listed = try await transport.fileNames(in: folder).compactMap { SyncSegmentName($0) }
        if try await onQueue({ try replica.takeAnotherIdentifierIfNeeded(seeing: listed) }) {
            Self.logger.notice(
                "Another replica has the same identifier as this one, because the store was copied or restored; this one has taken another."
            )
        }
        let names = try await onQueue { try replica.unknown(listed) }
            .sorted { ($0.sequence, $0.peer, $0.digest) < ($1.sequence, $1.peer, $1.digest) }
        guard let container = try await onQueue({ try replica.settings()?.container }) else {
            throw QuireError(.invalidState, "The store is not synchronized; create or join first.")
        }
        let snapshots = try await receiveSnapshots(of: container, &result)
        var batch: [(SyncSegment, SyncSegmentName)] = []
        var blobs: [Data: Data] = [:]
        for name in names {
            try Task.checkCancellation()
            guard let segment = await read(name, of: container, in: folder, &result) else {
                continue
            }
            try await fetchBlobs(of: segment.records.flatMap(\.blobs), into: &blobs, &result)
            batch.append((segment, name))
            if batch.reduce(0, { $0 + $1.0.records.count }) >= Self.batchRecords
                || blobs.values.reduce(0, { $0 + $1.count }) >= Self.batchBytes
            {
                try await merge(batch, blobs, &result)
                (batch, blobs) = ([], [:])
            }
        }
        let isUpgraded = try await onQueue { try replica.hasOtherModel() }
        if !batch.isEmpty || isUpgraded { try await merge(batch, blobs, &result) }
        let unknown = Set(try await onQueue { try replica.unknown(listed) })
        return snapshots + listed.filter { !unknown.contains($0) }
    }

    // MARK: - Snapshots

    /// Merges snapshots of which all files are there.
    ///
    /// - Returns: The files in the folder that have been merged.
    private func receiveSnapshots(
        of container: SyncIdentifier, _ result: inout SyncResult
    ) async throws -> [SyncSegmentName] {
        let folder = SyncSnapshotPart.folder
        let replica = replica
        let listed = try await transport.fileNames(in: folder).compactMap { SyncSegmentName($0) }
        var unknown = Set(try await onQueue { try replica.unknownSnapshotFiles(listed) })
        let merged = listed.filter { !unknown.contains($0) }
        let groups = Dictionary(grouping: listed.filter { $0.part != nil }, by: \.sequence)
        var received: [SyncSegmentName] = []
        for (_, names) in groups.sorted(by: { $0.key < $1.key }) {
            let indexes = Set(names.compactMap { $0.part?.index })
            guard names.contains(where: unknown.contains), indexes.count == names[0].part?.count
            else { continue }
            var isWhole = true
            for name in names where unknown.contains(name) {
                try Task.checkCancellation()
                guard let file = await read(name, of: container, in: folder, &result) else {
                    isWhole = false
                    continue
                }
                if try await onQueue({ try replica.settings()?.seen.contains(file.seen) ?? false })
                {
                    try await onQueue { try replica.noteSnapshotFiles(names) }
                    received += names
                    break
                }
                var blobs: [Data: Data] = [:]
                try await fetchBlobs(of: file.records.flatMap(\.blobs), into: &blobs, &result)
                unknown.remove(name)
                let isLast = isWhole && !names.contains(where: unknown.contains)
                let date = clock()
                let changes = try await onQueue { [blobs] in
                    try replica.merge(
                        snapshot: file, name, isLast: isLast, blobs: blobs, at: date)
                }
                didChange(changes, &result)
                received.append(name)
            }
        }
        return merged + received
    }

    /// Writes a snapshot and removes the files that it stands for, if there are many.
    ///
    /// Of several peers the first one does it at the limit, the next at twice the limit, and so on.
    ///
    /// - Parameter merged: The files in the folder that have been merged.
    func compact(_ merged: [SyncSegmentName]) async throws {
        let replica = replica
        let segments = merged.filter { $0.part == nil }
        guard segments.count > segmentsBeforeSnapshot,
            let settings = try await onQueue({ try replica.settings() }), settings.scan == nil
        else { return }
        let rank = Set(segments.map(\.peer)).count { $0 < settings.peer }
        guard segments.count > segmentsBeforeSnapshot * (1 + rank) else { return }
        guard let snapshot = try await onQueue({ try replica.beginSnapshot() }) else { return }
        var names: [SyncSegmentName] = []
        for index in 0..<snapshot.partCount {
            try Task.checkCancellation()
            let (name, bytes) = try await onQueue {
                try replica.snapshotFile(index, of: snapshot)
            }
            // Others would not read a larger file: the segments stay.
            guard bytes.count <= SyncSegment.maximumSize,
                let file = SyncSnapshotPart.folder.entry(name.fileName)
            else { return }
            try await transport.create(file, bytes)
            names.append(name)
        }
        let written = names
        try await onQueue { try replica.noteSnapshotFiles(written) }
        // The snapshot has all of these, and is there.
        var covered = segments.filter { snapshot.seen.contains($0.peer, $0.sequence) }
            .map { SyncSegment.folder.entry($0.fileName) }
        // An older snapshot has segments that may be known only when all of its files are.
        for files in Dictionary(grouping: merged.filter { $0.part != nil }, by: \.sequence).values
        where Set(files.compactMap { $0.part?.index }).count == files[0].part?.count {
            covered += files.map { SyncSnapshotPart.folder.entry($0.fileName) }
        }
        for file in covered.compactMap(\.self) { try await transport.remove(file) }
    }

    private func read(
        _ name: SyncSegmentName, of container: SyncIdentifier, in folder: SyncFileName,
        _ result: inout SyncResult
    ) async -> SyncSegment? {
        guard let file = folder.entry(name.fileName) else { return nil }
        do {
            guard
                let bytes = try await transport.contents(
                    of: file, maximumSize: SyncSegment.maximumSize)
            else { return nil }
            let segment = try SyncSegment(Array(bytes), name: name)
            if segment.container == container { return segment }
            throw QuireError(
                .invalidFormat, "“\(file)” belongs to another shared document.",
                subject: .init(file: file.path))
        } catch {
            note(error, file, &result)
            return nil
        }
    }

    func note(_ error: any Error, _ file: SyncFileName, _ result: inout SyncResult) {
        let error =
            error as? QuireError
            ?? QuireError(
                .inputOutput, "“\(file)” cannot be read: \(error)", subject: .init(file: file.path))
        Self.logger.info("\(error.message)")
        result.problems.append(SyncProblem(fileName: file.path, error: error))
    }

    /// Fetches files of external data that have arrived.
    private func fetchBlobs(
        of wanted: [SyncBlob], into blobs: inout [Data: Data], _ result: inout SyncResult
    ) async throws {
        for blob in wanted where blobs[blob.digest] == nil {
            guard let file = blob.fileName, let size = Int(exactly: blob.size) else { continue }
            do {
                guard let data = try await transport.contents(of: file, maximumSize: size) else {
                    continue
                }
                guard Data(SHA256.hash(data: data)) == blob.digest else {
                    throw QuireError(
                        .invalidFormat, "“\(file)” is not whole.", subject: .init(file: file.path))
                }
                blobs[blob.digest] = data
            } catch {
                note(error, file, &result)
            }
        }
    }

    private func merge(
        _ batch: [(SyncSegment, SyncSegmentName)], _ blobs: [Data: Data],
        _ result: inout SyncResult
    ) async throws {
        let (replica, date) = (replica, clock())
        let merged = try await onQueue { try replica.merge(batch, blobs: blobs, at: date) }
        didChange(merged, &result)
    }

    /// Writes external data that objects have waited for.
    func fetchMissing(_ result: inout SyncResult) async throws {
        let (replica, date) = (replica, clock())
        let missing = try await onQueue { try replica.missingBlobs() }
        for (digest, ids) in missing {
            var blobs: [Data: Data] = [:]
            // Of any size: the digest says whether it is whole.
            let blob = SyncBlob(digest: digest, size: Int64(Int32.max))
            try await fetchBlobs(of: [blob], into: &blobs, &result)
            if blobs.isEmpty { continue }
            let merged = try await onQueue { [blobs] in
                try replica.show(Set(ids), blobs: blobs, at: date)
            }
            didChange(merged, &result)
        }
        result.missingFileCount = try await onQueue { try replica.missingBlobs().count }
    }
}
