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
    /// The maximum size of a file of external data, whatever a record says.
    private static let maximumBlobSize = Int64(Int32.max)

    /// Merges what has arrived.
    ///
    /// - Returns: The segments and files of snapshots in the folder that have been merged.
    func receive(_ result: inout SyncResult) async throws -> [SyncSegmentName] {
        let folder = SyncSegment.folder
        let listed = try await segmentNames(in: folder)
        if try await onQueue({ try $0.takeAnotherIdentifierIfNeeded(seeing: listed) }) {
            reportAnotherIdentifier()
        }
        let names = try await onQueue { try $0.unknown(listed) }
            .sorted { ($0.sequence, $0.peer, $0.digest) < ($1.sequence, $1.peer, $1.digest) }
        guard let container = try await onQueue({ try $0.settings()?.container }) else {
            throw QuireError(
                .invalidState,
                "The store is not synchronized; create or join a shared document first.")
        }
        let snapshots = try await receiveSnapshots(of: container, &result)
        if listed.isEmpty, snapshots.isEmpty, try await onQueue({ try $0.hasFiles() }) {
            note(
                QuireError(
                    .notFound,
                    "The shared folder no longer contains any files of the document. Either they have not all arrived yet, or the folder was emptied; “quire sync repair” writes the files again.",
                    file: folder.path), folder, &result)
        }
        var batch: [SyncReplica.ReceivedSegment] = []
        var batchSize = 0
        var blobs: [Data: Data] = [:]
        for name in names {
            try Task.checkCancellation()
            guard let segment = await read(name, of: container, in: folder, &result) else {
                continue
            }
            try await fetchBlobs(
                of: segment.segment.records.flatMap(\.blobs), into: &blobs, &result)
            batch.append(segment)
            // Not the size of the file: compressed records may be a thousand times as large.
            batchSize += segment.segment.records.reduce(0) { $0 + $1.size }
            if batch.reduce(0, { $0 + $1.segment.records.count }) >= Self.batchRecords
                || batchSize >= Self.batchBytes
                || blobs.values.reduce(0, { $0 + $1.count }) >= Self.batchBytes
            {
                try await merge(batch, blobs, &result)
                (batch, batchSize, blobs) = ([], 0, [:])
            }
        }
        let isUpgraded = try await onQueue { try $0.hasOtherModel() }
        if !batch.isEmpty || isUpgraded { try await merge(batch, blobs, &result) }
        let unknown = Set(try await onQueue { try $0.unknown(listed) })
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
        let listed = try await segmentNames(in: folder)
        var unknown = Set(try await onQueue { try $0.unknown(listed) })
        let merged = listed.filter { !unknown.contains($0) }
        var received: [SyncSegmentName] = []
        for names in SyncSegmentName.wholeSnapshots(listed)
            .sorted(by: { ($0[0].sequence, $0[0].peer) < ($1[0].sequence, $1[0].peer) })
        {
            // The parts that have not been merged. There may be another file for one, which is damaged.
            var rest = Set(names.map { $0.part?.index })
            for name in names where !unknown.contains(name) { rest.remove(name.part?.index) }
            for name in names where unknown.contains(name) {
                try Task.checkCancellation()
                guard let file = await read(name, of: container, in: folder, &result),
                    let path = folder.entry(name.fileName)
                else { continue }
                let isKnown: Bool
                do {
                    isKnown = try await onQueue { try $0.hasAll(of: file.segment, file: path) }
                } catch let error as QuireError where error.subject.file == path.path {
                    note(error, path, &result)
                    continue
                }
                if isKnown {
                    let sizes = Dictionary(names.map { ($0, file.size) }) { first, _ in first }
                    try await onQueue { try $0.noteSnapshotFiles(sizes) }
                    received += names
                    break
                }
                var blobs: [Data: Data] = [:]
                try await fetchBlobs(
                    of: file.segment.records.flatMap(\.blobs), into: &blobs, &result)
                unknown.remove(name)
                rest.remove(name.part?.index)
                let isLast = rest.isEmpty
                try await merge(&result) { [blobs] in
                    try $0.merge(
                        snapshot: file, isLast: isLast, blobs: blobs, at: $1, blobsSent: $2)
                }
                received.append(name)
            }
        }
        return merged + received
    }

    /// The names of segments in their folder, or of files of snapshots in theirs.
    func segmentNames(in folder: SyncFileName) async throws -> [SyncSegmentName] {
        try await transport.fileNames(in: folder).compactMap { SyncSegmentName($0) }
            .filter { ($0.part == nil) == (folder == SyncSegment.folder) }
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
                .invalidFormat, "“\(file)” belongs to another shared document.", file: file.path)
        } catch {
            note(error, file, &result)
            return nil
        }
    }

    func note(_ error: any Error, _ file: SyncFileName, _ result: inout SyncResult) {
        let error =
            error as? QuireError
            ?? QuireError(.inputOutput, "“\(file)” cannot be read: \(error)", file: file.path)
        Self.logger.info("\(error.message)")
        result.problems.append(SyncProblem(fileName: file.path, error: error))
    }

    /// Fetches files of external data that have arrived, until these are many bytes: the rest is fetched after they are merged.
    func fetchBlobs(
        of wanted: [SyncBlob], into blobs: inout [Data: Data], _ result: inout SyncResult
    ) async throws {
        var size = blobs.values.reduce(0) { $0 + $1.count }
        for blob in wanted where blobs[blob.digest] == nil && size < Self.batchBytes {
            guard let file = blob.fileName else { continue }
            let maximum = Int(min(blob.size, Self.maximumBlobSize))
            do {
                guard let data = try await transport.contents(of: file, maximumSize: maximum) else {
                    continue
                }
                guard Data(SHA256.hash(data: data)) == blob.digest else {
                    throw QuireError(
                        .invalidFormat, "“\(file)” is incomplete or damaged.", file: file.path)
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
        try await merge(&result) { try $0.merge(batch, blobs: blobs, at: $1, blobsSent: $2) }
    }

    /// Merges something after the large values of all captured changes have been sent, including those saved during this round.
    private func merge(
        _ result: inout SyncResult,
        _ body:
            @escaping @Sendable (SyncReplica, Date, SyncTables.SegmentKey) throws ->
            SyncReplica.Merged
    ) async throws {
        while true {
            let (date, sent) = (clock(), blobsSent)
            let merged = try await onQueue { try body($0, date, sent) }
            didChange(merged, &result)
            if !merged.awaitsBlobs { return }
            try await sendBlobs()
        }
    }

    /// Writes external data that objects have waited for.
    func fetchMissing(_ result: inout SyncResult) async throws {
        let date = clock()
        let missing = try await onQueue { try $0.missingBlobs() }
        var rest = Array(missing.keys)
        while !rest.isEmpty {
            try Task.checkCancellation()
            var (blobs, ids): ([Data: Data], Set<SyncIdentifier>) = ([:], [])
            while let digest = rest.popLast() {
                // Of any size: the digest says whether it is whole.
                let blob = SyncBlob(digest: digest, size: Self.maximumBlobSize)
                let count = blobs.count
                try await fetchBlobs(of: [blob], into: &blobs, &result)
                if blobs.count > count { ids.formUnion(missing[digest] ?? []) }
                if blobs.values.reduce(0, { $0 + $1.count }) >= Self.batchBytes { break }
            }
            if blobs.isEmpty { continue }
            let merged = try await onQueue { [blobs, ids] replica in
                try replica.show(ids, blobs: blobs, at: date)
            }
            didChange(merged, &result)
        }
        result.missingFileCount = try await onQueue { try $0.missingBlobs().count }
    }

    // MARK: - Additional content

    /// Writes the files of additional content that others have changed, as far as their bytes have arrived: as many at once as
    /// memory allows.
    func writeFiles(_ result: inout SyncResult) async throws {
        guard let files = replica.store.files else { return }
        var rest = try await onQueue { try $0.pendingFiles() }
        if rest.isEmpty { return }
        while true {
            try Task.checkCancellation()
            var blobs: [Data: Data] = [:]
            while let file = rest.popLast() {
                if let blob = file.blob { try await fetchBlobs(of: [blob], into: &blobs, &result) }
                if blobs.values.reduce(0, { $0 + $1.count }) >= Self.batchBytes { break }
            }
            let (date, arrived) = (clock(), blobs)
            let written = Lock<(refused: [String: String], isChanged: Bool, conflictCount: Int)?>(
                nil)
            try await files.withTurn { writer in
                let new = try await self.onQueue { replica in
                    try replica.writeFiles(arrived, by: writer, at: date)
                }
                written.withLock { $0 = new }
            }
            guard let written = written.withLock({ $0 }) else { break }
            result.conflictCount += written.conflictCount
            if written.isChanged { result.changesFiles = true }
            if rest.isEmpty {
                for (path, problem) in written.refused.sorted(by: { $0.key < $1.key }) {
                    let error = QuireError(
                        .invalidValue,
                        "“\(path)” from another machine cannot be additional content here: it \(problem).",
                        file: path)
                    result.problems.append(SyncProblem(fileName: path, error: error))
                }
                break
            }
        }
        let missing = try await onQueue { replica in
            try replica.pendingFiles().count(where: { $0.blob != nil })
        }
        result.missingFileCount += missing
    }
}
