package import Foundation
package import QuireProtection
package import QuireSystem

/// The file of an atomic store: read once, then replaced by saves.
///
/// The file last read or written is kept open. So its inode number cannot be reused, and comparing it with the path's detects
/// replacement by another process.
package final class AtomicStoreFile: Sendable {
    package let path: String
    private struct State: Sendable {
        var file: OpenFile
        var information: FileInformation
    }
    private let state = Lock<State?>(nil)

    /// The time that a save waits for another process's save.
    private static let patience = Duration.seconds(5)

    /// The waiting policy for a lock held while the file is open; `nil` to lock it for each save only.
    private let lockWait: FileLockWait?
    /// The keys that seal the file; `nil` for an unsealed file.
    let protection: StoreProtection?

    package init(path: String, lockWait: FileLockWait? = nil, protection: StoreProtection?) {
        self.path = path
        self.lockWait = lockWait
        self.protection = protection
    }

    /// Reads the file, and records its identity.
    package func read() throws -> Data {
        let data = try readAsIs()
        return try protection?.classKey.unsealed(data, path: path) ?? data
    }

    /// Records the identity of the present file, whose content a caller is about to read by itself. ``isCurrent()`` says
    /// afterwards whether what was read is of one state.
    package func track() throws {
        let file = try OpenFile.open(path, for: .reading)
        try remember(file)
    }

    /// Whether the file at the path is the one last read, tracked or written, with the same content.
    package func isCurrent() throws -> Bool {
        guard let known = state.withLock({ $0 }),
            let present = try FileSystem.information(at: path)
        else { return false }
        return present.isSameFile(as: known.information)
            && present.hasSameContent(as: known.information)
    }

    private func readAsIs() throws -> Data {
        // A concurrent writer may modify it in place; then the bytes read may mix two states.
        for _ in 0..<5 {
            let file = try openToRead()
            let before = try file.information()
            let data = try file.readToEnd()
            let after = try file.information()
            if data.count == Int(after.size), before.hasSameContent(as: after) {
                state.withLock { $0 = State(file: file, information: after) }
                return data
            }
            file.close()
        }
        throw QuireError.beingWritten(at: path)
    }

    private func openToRead() throws -> OpenFile {
        guard let lockWait else { return try OpenFile.open(path, for: .reading) }
        let locked = try lockWait.polling(path) { _ -> OpenFile? in
            let file = try OpenFile.open(path, for: .updating)
            // It may have been replaced before it was locked.
            guard try file.lockExclusively(),
                try FileSystem.information(at: path)?.isSameFile(as: file.information()) == true
            else { return nil }
            return file
        }
        if let locked { return locked }
        throw QuireError(
            .locked,
            "“\(path)” is open for writing\(FileLockHolder.find(path)?.phrase ?? " elsewhere"); "
                + "close it there, or open it for reading only.",
            file: path)
    }

    /// Whether a store can be created at a path that exists: the file is empty, as a process leaves it that was killed while it
    /// created a store.
    package static func isVacant(_ path: String) -> Bool {
        guard let found = try? FileSystem.informationWithoutFollowing(at: path) else {
            return false
        }
        return found.kind == .regular && found.size == 0
    }

    /// Creates the file, which must not exist yet, or be vacant. It appears complete or not at all.
    ///
    /// - Parameter permissions: The permission bits; `nil` for the default ones.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path is taken, also by another process meanwhile.
    package func create(with contents: Data, permissions: UInt32? = nil) throws {
        let data = try protection?.classKey.sealed(contents, path: path) ?? contents
        let vacant = try lockVacantFile()
        defer { vacant?.close() }
        let (file, temporary) = try OpenFile.createTemporary(beside: path)
        try FileSystem.removeOnFailure(temporary) {
            if let permissions { try file.setPermissionsIfPossible(permissions) }
            try file.write(data)
            try file.synchronize()
            if vacant == nil {
                try FileSystem.renameWithoutReplacing(temporary, to: path)
            } else {
                try FileSystem.rename(temporary, to: path)
            }
            file.endClaim()
        }
        try FileSystem.removeOnFailure(path) {
            try FileSystem.synchronizeFolder(containing: path)
            let information = try file.information()
            state.withLock { $0 = State(file: file, information: information) }
        }
    }

    /// Locks the vacant file at the path, so that one process replaces it; `nil` if there is none.
    private func lockVacantFile() throws -> OpenFile? {
        guard Self.isVacant(path) else { return nil }
        let locked = try FileLockWait(timeout: Self.patience) { _ in }.polling(path) {
            _ -> OpenFile? in
            let file = try OpenFile.open(path, for: .updating)
            guard try file.lockExclusively() else { return nil }
            guard Self.isVacant(path),
                try FileSystem.information(at: path)?.isSameFile(as: file.information()) == true
            else { throw QuireError.alreadyExists(at: path) }
            return file
        }
        guard let locked else { throw QuireError.alreadyExists(at: path) }
        return locked
    }

    /// Replaces the file, if it is the one last read or written.
    ///
    /// If synchronizing the folder fails, so that the new file may not survive a power loss, the old content is restored: the
    /// save has failed, and can be repeated. Only if that fails too the new file stays.
    ///
    /// - Parameter beforeCommit: Called after the check; may abort by throwing.
    /// - Returns: The error that leaves the new file in place but possibly not durable; `nil` on success.
    /// - Throws: ``QuireError``; then the file is unchanged.
    func replace(with contents: Data, beforeCommit: () throws -> Void) throws -> (any Error)? {
        let data = try protection?.classKey.sealed(contents, path: path) ?? contents
        let lock = lockWait == nil ? try lock() : nil
        defer { lock?.close() }
        guard let known = state.withLock({ $0 }), try isCurrent() else { throw replacedError() }
        try beforeCommit()
        var inPlace: OpenFile?
        do {
            let file = try AtomicFileReplace.replaceKeepingOpen(
                path, with: data, locking: lockWait != nil
            ) { inPlace = $0 }
            try remember(file)
            return nil
        } catch {
            guard let new = inPlace else { throw error }
            let information = try? new.information()
            // The system may lack the resources to restore the former content.
            new.close()
            if putBack(known) { throw error }
            if let information, let file = try? OpenFile.open(path, for: .reading),
                (try? file.information().isSameFile(as: information)) == true
            {
                try? remember(file)
            }
            return error
        }
    }

    /// Restores the former content, after synchronizing the folder failed.
    ///
    /// Not retried. A power loss may leave either of them, complete, until a later save makes the folder durable; neither is
    /// content that a successful save has overwritten.
    ///
    /// - Returns: Whether it was restored.
    private func putBack(_ former: State) -> Bool {
        let size = Int(clamping: former.information.size)
        guard let data = try? former.file.read(size, at: 0), data.count == size else {
            return false
        }
        let restored = try? AtomicFileReplace.replaceKeepingOpen(
            path, with: Data(data), locking: lockWait != nil, synchronizingFolder: false)
        return (try? restored.map(remember)) != nil
    }

    /// Records the file as the one last read or written.
    private func remember(_ file: OpenFile) throws {
        let information = try file.information()
        state.withLock { $0 = State(file: file, information: information) }
    }

    /// Locks the current file, so that other processes' saves wait.
    private func lock() throws -> OpenFile {
        let deadline = ContinuousClock.now + Self.patience
        while true {
            guard try FileSystem.information(at: path) != nil else { throw replacedError() }
            let file = try OpenFile.open(path, for: .updating)
            if try file.lockExclusively() { return file }
            file.close()
            if ContinuousClock.now > deadline {
                throw QuireError(
                    .locked, "Another process is saving “\(path)”; try again when it has finished.",
                    file: path)
            }
            Thread.sleep(forTimeInterval: 0.005)
        }
    }

    private func replacedError() -> QuireError {
        QuireError(
            .mergeConflict,
            "Another program has replaced or removed “\(path)” since it was read, so it was not overwritten; "
                + "reopen the store and repeat the changes, or save a copy.",
            file: path)
    }

    package func close() { state.withLock { $0 = nil } }
}
