import Foundation
internal import QuireModel
internal import QuireSystem

/// Removes files with external data that no row refers to.
///
/// Those that a save has left behind go when the store is closed: not earlier, because rows read before may still refer to
/// them. If others have the store open by then, whose rows may, they are left for whoever closes or opens it last. Those
/// that were written for a value which was never saved, because the process was killed, go when nobody else can be writing:
/// when the owner of the document's lock opens or closes it, or after a day. What somebody in this process holds stays.
struct SQLiteExternalDataCleanup {
    let store: SQLiteStore
    let writer: SQLiteWriter

    /// Files of nobody are left for so long, in seconds: another process may be about to refer to one.
    private static let patience: Int64 = 24 * 60 * 60

    /// The paths of the files to remove.
    func unusedFiles() -> [String] {
        var names = writer.unreferencedFiles
        do {
            names.formUnion(try orphans())
            // The rows have the last word: a version that was restored may refer to them again.
            if !names.isEmpty { names.subtract(try store.externalFileNames(writer.connection)) }
        } catch {
            return []
        }
        return names.map(store.externalData.path(ofFileNamed:))
    }

    /// Removes files of a store that this process has closed, unless others have it open. What cannot be removed is in
    /// nobody's way.
    static func remove(_ paths: [String], ofStoreAt storePath: String) {
        // Whoever closes the store last removes its log.
        if paths.isEmpty || FileSystem.exists(storePath + "-wal") { return }
        remove(paths, beneath: FileSystem.folder(of: storePath))
    }

    /// Removes what nobody holds.
    private static func remove(_ paths: [String], beneath root: String) {
        for path in paths where !ExternalDataHolds.contains(FileSystem.name(of: path)) {
            _ = try? FileSystem.removeFileIfPresent(path, beneath: root)
        }
    }

    /// Removes what an owner of the lock has left who was killed. Call it when the store has been opened by the next one, if
    /// nobody had it open.
    func collectAfterOpening() {
        Self.remove(unusedFiles(), beneath: store.externalData.root)
    }

    /// Files of which nothing is recorded, and which nobody is about to refer to.
    private func orphans() throws -> [String] {
        guard store.carriesModel else { return [] }
        var known: Set<String> = []
        if try writer.connection.hasTable(SQLiteTables.externalData) {
            try writer.connection.withStatement("SELECT Z_UUID FROM \(SQLiteTables.externalData)") {
                while try $0.step() { known.insert($0.text(0)) }
            }
        }
        let now = Int64(Date().timeIntervalSince1970)
        return try store.externalData.names().filter { name in
            guard
                SQLiteExternalData.isFileName(name) && !known.contains(name)
                    || FileSystem.isTemporaryName(name)
            else { return false }
            if ExternalDataHolds.contains(name) { return false }
            if store.options.isOnlyWriter { return true }
            guard let information = try store.externalData.information(ofFileNamed: name) else {
                return false
            }
            return now - information.statusChangeTime > Self.patience
        }
    }
}
