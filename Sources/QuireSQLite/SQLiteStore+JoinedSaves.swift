internal import QuireSystem

/// What saves that are one transaction have in common: they are committed, or fail, together.
final class SQLiteJoinedSaves {
    /// Why the transaction was rolled back.
    var failure: (any Error)?
    private var files: [SQLiteExternalFiles] = []
    private var droppedFiles: Set<String> = []

    /// Takes over the files of a save.
    func add(_ files: SQLiteExternalFiles, dropping names: Set<String>) {
        if !files.isEmpty { self.files.append(files) }
        droppedFiles.formUnion(names)
    }

    fileprivate func didCommit(_ writer: SQLiteWriter) {
        writer.unreferencedFiles.formUnion(droppedFiles)
        for files in files { files.didSave() }
    }

    fileprivate func didFail(_ writer: SQLiteWriter) {
        for files in files {
            // If it is not known whether the transaction is on disk, it may refer to them after all.
            if writer.poison != nil {
                files.giveToStore()
                writer.uncertainFiles.formUnion(files.all.map(\.name))
            } else {
                files.remove()
            }
        }
    }
}

extension SQLiteStore {
    /// Runs a closure whose saves to this store, on this thread, are one transaction: all are committed when it returns,
    /// or none if it throws or a save fails. So more can be saved at once than memory holds.
    ///
    /// What the thread reads meanwhile includes what it has saved; other threads see it when it is committed, and wait
    /// with saves of their own. Contexts must be of a coordinator that goes afterwards: another one would keep rows that
    /// were never committed. Whatever else writes to the store, such as a batch request, metadata or permanent identifiers
    /// for objects that are not saved yet, is an error with code `invalidState` meanwhile, which leaves the transaction as it
    /// is.
    ///
    /// - Throws: What the closure throws, the error of a save that failed, or ``QuireError`` with code `outOfSpace`,
    ///   `readOnly` or `storeUnavailable`.
    package func saveTogether<Result>(_ body: () throws -> Result) throws -> Result {
        try withWriter { writer in
            precondition(writer.joinedSaves == nil, "saveTogether(_:) cannot be nested.")
            let saves = SQLiteJoinedSaves()
            writer.joinedSaves = saves
            defer {
                writer.joinedSaves = nil
                writer.connection.releaseMemory()
            }
            do {
                try writer.connection.begin()
                let result = try body()
                if let failure = saves.failure { throw failure }
                try writer.connection.commit()
                saves.didCommit(writer)
                return result
            } catch {
                let failure =
                    error as? SQLiteFailure ?? (error as? QuireError)?.underlying as? SQLiteFailure
                SQLiteSave.undo(after: failure, store: self, writer: writer)
                writer.note(error)
                saves.didFail(writer)
                throw error
            }
        }
    }
}
