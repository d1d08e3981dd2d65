import Foundation
import Logging
import Quire

/// Repairing the folder from a replica, and a replica from the folder.
extension SyncContainer {
    /// Repairs the folder from this replica, and this replica from the folder.
    ///
    /// Compares all rows with the merged records and rewrites those that differ; saves that the history does not record are sent.
    /// Then a snapshot replaces all merged files, damaged or not, and missing blobs are created again. Data that a carrier lost
    /// or damaged is restored if one replica still has it. No object of this replica is lost.
    ///
    /// - Throws: The errors of ``synchronize()``.
    /// - Complexity: Reads and writes all objects.
    @discardableResult
    public func repair() async throws -> SyncResult {
        return try await inTurn { container in
            try await container.onQueue { try $0.compareRows() }
            var result = SyncResult()
            let merged = try await container.roundWithAnyFolder(&result)
            let date = container.clock()
            let rows = try await container.onQueue { try $0.writeAllRows(at: date) }
            container.didChange(rows, &result)
            // Whatever the folder had of what has been merged: the files may be damaged by now.
            try await container.compact(merged, readsBlobs: true, &result)
            return result
        }
    }

    /// A round that does not report a folder without files: the caller writes some, or throws an error of its own.
    private func roundWithAnyFolder(_ result: inout SyncResult) async throws -> [SyncSegmentName] {
        let merged = try await round(&result)
        result.problems.removeAll { $0.fileName == SyncSegment.folder.path }
        return merged
    }

    /// Rebuilds this replica from the files in the folder: its objects become those that the files describe.
    ///
    /// Saves made here are sent first. One transaction applies all changes, so a failure changes nothing. Objects that stay have
    /// the same identifiers. The replica is another peer afterwards.
    ///
    /// - Parameter discardsMissing: Whether to discard objects and values that this replica has merged but the folder no longer
    ///   contains. They are missing only if files have been lost from the folder; ``repair()`` sends them again instead.
    /// - Throws: The errors of ``synchronize()``; `QuireError` with code `invalidState` if the folder lacks files that this
    ///   replica, or the author of another file, has merged; `invalidFormat` if a file is damaged.
    /// - Complexity: Holds all objects in memory.
    @discardableResult
    public func rebuildFromSyncedContent(
        discardsMissing: Bool = false
    ) async throws -> SyncResult {
        return try await inTurn { container in
            var result = SyncResult()
            _ = try await container.roundWithAnyFolder(&result)
            if let problem = result.problems.first { throw problem.error }
            let files = try await container.allFiles(&result)
            if let problem = result.problems.first { throw problem.error }
            let date = container.clock()
            let rebuilt = try await container.onQueue { replica in
                try replica.rebuild(from: files, discardsMissing: discardsMissing, at: date)
            }
            container.didChange(rebuilt, &result)
            try await container.fetchMissing(&result)
            return result
        }
    }

    /// Removes the shared document from the folder, for all replicas. They become local stores again and keep their objects: this
    /// one at once, the others when they next read the folder.
    ///
    /// - Throws: `QuireError` with code `invalidState` if the store is not a replica, `syncedContentReplaced` if the folder
    ///   contains another document, `storeUnavailable`, `readOnly` or `inputOutput`.
    public func removeSyncedContent() async throws {
        try await inTurn { container in
            var result = SyncResult()
            try await container.checkContainer(&result)
            if let id = try await container.onQueue({ try $0.settings()?.container }) {
                try await Self.removeContent(
                    of: id, container.transport, carrier: container.carrier)
            }
            try await container.onQueue { try $0.detach() }
        }
    }

    /// Removes the shared document from a folder, for all replicas; see ``removeSyncedContent()``.
    ///
    /// - Parameters:
    ///   - transport: The folder.
    ///   - password: The password of an encrypted document.
    /// - Throws: `QuireError` with code `notFound` if the folder does not contain a shared document, `protectedDataUnavailable`
    ///   or `wrongKey` without its password, `storeUnavailable`, `readOnly` or `inputOutput`.
    public static func removeSyncedContent(
        in transport: any SyncTransport, password: String? = nil
    ) async throws {
        let description = try await existingDescription(in: transport)
        let cipher = try await cipher(of: description, password)
        try await removeContent(
            of: try description.identifier(),
            cipher.map { EncryptedTransport(carrier: transport, cipher: $0) } ?? transport,
            carrier: transport)
    }

    private static func removeContent(
        of id: SyncIdentifier, _ transport: any SyncTransport, carrier: any SyncTransport
    ) async throws {
        guard let mark = removalMark(of: id) else { return }
        // First: a replica that finds the description missing looks for it. The one in clear keeps programs without the key from
        // making the document again.
        try await transport.create(mark, Data())
        try await carrier.create(mark, Data())
        try await carrier.remove(descriptionFile)
        for folder in ["log", "base", "model"].map(SyncFileName.init(unchecked:)) {
            for name in try await transport.fileNames(in: folder) {
                if let file = folder.entry(name) { try await transport.remove(file) }
            }
        }
        for (file, _) in try await blobFiles(in: transport) { try await transport.remove(file) }
    }

    /// The file that says that a shared document was removed on purpose.
    static func removalMark(of container: SyncIdentifier) -> SyncFileName? {
        removalMarks.entry(container.description)
    }

    /// The folder of those files.
    static let removalMarks = SyncFileName(unchecked: "removed")
}

// MARK: - Reading everything

extension SyncContainer {
    /// Reads all segments and whole snapshots in the folder.
    private func allFiles(_ result: inout SyncResult) async throws -> [SyncReplica.ReceivedSegment]
    {
        guard let container = try await onQueue({ try $0.settings()?.container }) else {
            return []
        }
        var found: [SyncReplica.ReceivedSegment] = []
        for folder in [SyncSnapshotPart.folder, SyncSegment.folder] {
            var names = try await segmentNames(in: folder)
            if folder == SyncSnapshotPart.folder {
                // Not one that has not arrived whole, or was not finished.
                names = SyncSegmentName.wholeSnapshots(names).flatMap(\.self)
            }
            for name in names {
                try Task.checkCancellation()
                if let file = await read(name, of: container, in: folder, &result) {
                    found.append(file)
                }
            }
        }
        return found
    }
}
