import Crypto
import Foundation
import Logging
import Quire
import QuireSystem

/// Merging segments and snapshots that have arrived, with their files of external data.
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
            reportAnotherIdentifier()
        }
        let names = try await onQueue { try replica.unknown(listed) }
            .sorted { ($0.sequence, $0.peer, $0.digest) < ($1.sequence, $1.peer, $1.digest) }
        guard let container = try await onQueue({ try replica.settings()?.container }) else {
            throw QuireError(.invalidState, "The store is not synchronized; create or join first.")
        }
        let snapshots = try await receiveSnapshots(of: container, &result)
        var batch: [SyncReplica.ReceivedSegment] = []
        var blobs: [Data: Data] = [:]
        for name in names {
            try Task.checkCancellation()
            guard let segment = await read(name, of: container, in: folder, &result) else {
                continue
            }
            try await fetchBlobs(
                of: segment.segment.records.flatMap(\.blobs), into: &blobs, &result)
            batch.append(segment)
            if batch.reduce(0, { $0 + $1.segment.records.count }) >= Self.batchRecords
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
        var unknown = Set(try await onQueue { try replica.unknown(listed) })
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
                let isKnown = try await onQueue {
                    try replica.settings()?.seen.contains(file.segment.seen) ?? false
                }
                if isKnown {
                    let sizes = Dictionary(uniqueKeysWithValues: names.map { ($0, file.size) })
                    try await onQueue { try replica.noteSnapshotFiles(sizes) }
                    received += names
                    break
                }
                var blobs: [Data: Data] = [:]
                try await fetchBlobs(
                    of: file.segment.records.flatMap(\.blobs), into: &blobs, &result)
                unknown.remove(name)
                let isLast = isWhole && !names.contains(where: unknown.contains)
                let date = clock()
                let changes = try await onQueue { [blobs] in
                    try replica.merge(snapshot: file, isLast: isLast, blobs: blobs, at: date)
                }
                didChange(changes, &result)
                received.append(name)
            }
        }
        return merged + received
    }

    func read(
        _ name: SyncSegmentName, of container: SyncIdentifier, in folder: SyncFileName,
        _ result: inout SyncResult
    ) async -> SyncReplica.ReceivedSegment? {
        guard let file = folder.entry(name.fileName) else { return nil }
        do {
            guard
                let bytes = try await transport.contents(
                    of: file, maximumSize: SyncSegment.maximumSize)
            else { return nil }
            let segment = try SyncSegment(Array(bytes), name: name)
            if segment.container == container {
                return .init(segment: segment, name: name, size: bytes.count)
            }
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

    /// Fetches files of external data that have arrived, until these are many bytes: the rest is fetched after they are merged.
    func fetchBlobs(
        of wanted: [SyncBlob], into blobs: inout [Data: Data], _ result: inout SyncResult
    ) async throws {
        var size = blobs.values.reduce(0) { $0 + $1.count }
        for blob in wanted where blobs[blob.digest] == nil && size < Self.batchBytes {
            guard let file = blob.fileName, let maximum = Int(exactly: blob.size) else {
                continue
            }
            do {
                guard let data = try await transport.contents(of: file, maximumSize: maximum) else {
                    continue
                }
                guard Data(SHA256.hash(data: data)) == blob.digest else {
                    throw QuireError(
                        .invalidFormat, "“\(file)” is not whole.", subject: .init(file: file.path))
                }
                blobs[blob.digest] = data
                size += data.count
            } catch {
                note(error, file, &result)
            }
        }
    }

    private func merge(
        _ batch: [SyncReplica.ReceivedSegment], _ blobs: [Data: Data],
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
        var rest = Array(missing.keys)
        while !rest.isEmpty {
            try Task.checkCancellation()
            var (blobs, ids): ([Data: Data], Set<SyncIdentifier>) = ([:], [])
            while let digest = rest.popLast() {
                // Of any size: the digest says whether it is whole.
                let blob = SyncBlob(digest: digest, size: Int64(Int32.max))
                let count = blobs.count
                try await fetchBlobs(of: [blob], into: &blobs, &result)
                if blobs.count > count { ids.formUnion(missing[digest] ?? []) }
                if blobs.values.reduce(0, { $0 + $1.count }) >= Self.batchBytes { break }
            }
            if blobs.isEmpty { continue }
            let merged = try await onQueue { [blobs, ids] in
                try replica.show(ids, blobs: blobs, at: date)
            }
            didChange(merged, &result)
        }
        result.missingFileCount = try await onQueue { try replica.missingBlobs().count }
    }
}
