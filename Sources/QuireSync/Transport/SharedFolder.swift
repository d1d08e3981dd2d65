import Foundation
import QuireSystem

/// The folder of a ``FolderTransport``: finds it, and notices when it is not there.
///
/// It is not held open, so that its file system can be unmounted. Each call opens it anew and compares it with the one that was
/// opened first: in the place of an unmounted disk there is an empty folder, and what is missing in that has not been removed.
///
/// A file system that is mounted again may have another device number, and some invent their inode numbers. So a folder with
/// other numbers is taken for the same if it has a file that was read or created before, with the same bytes. Equal numbers are
/// not proof: another network or memory file system, mounted in its place, may get them. Only a container's own file is.
///
/// Everything in it is untrusted. Paths are opened one part after another, beneath the open folder, and no link is followed.
final class SharedFolder: Sendable {
    private struct State {
        var identity: FileInformation.Identity
        var witness: (file: SyncFileName, contents: Data)?
        /// The folders whose own names, and those of the folders above them, are durable.
        var durableFolders: Set<SyncFileName> = []
    }

    let path: String
    private let state: Lock<State>

    /// Larger files are not kept to recognize the folder by.
    private static let witnessLimit = 65_536

    /// - Throws: ``QuireError`` with code `notFound`, or `readOnly` if it may not be read.
    init(path: String) throws {
        self.path = path
        state = Lock(
            State(identity: try OpenFile.open(path, for: .folder).information().identity))
    }

    /// Opens the folder.
    ///
    /// - Throws: ``QuireError`` with code `storeUnavailable` if it, or its file system, is not there; `readOnly` if it may not be
    ///   read.
    func open() throws -> OpenFile {
        let top: OpenFile
        let identity: FileInformation.Identity
        do {
            top = try OpenFile.open(path, for: .folder)
            identity = try top.information().identity
        } catch let error as QuireError where error.code != .readOnly {
            throw unavailable(
                "The shared folder “\(path)” is missing; connect its disk or network again.",
                error)
        }
        let (known, witness) = state.withLock { ($0.identity, $0.witness) }
        if identity == known { return top }
        guard let witness, has(witness.file, witness.contents, in: top) else {
            throw unavailable(
                "“\(path)” is not the shared folder that was opened; its disk may have been unmounted. Connect the disk again, or open this folder instead."
            )
        }
        state.withLock { state in
            state.identity = identity
            state.durableFolders = []
        }
        return top
    }

    private func unavailable(_ message: String, _ cause: (any Error)? = nil) -> QuireError {
        QuireError(.storeUnavailable, message, file: path, underlying: cause)
    }

    /// Runs a body. If it fails because the folder has gone meanwhile, that is the error.
    func reaching<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as QuireError
            where error.code == .notFound || error.code == .inputOutput
        {
            _ = try open()
            throw error
        }
    }

    // MARK: Witness

    /// Keeps a file of the folder to recognize it by, if there is none yet.
    func keepWitness(_ file: SyncFileName, _ contents: Data) {
        guard (1...Self.witnessLimit).contains(contents.count) else { return }
        state.withLock { state in
            if state.witness == nil { state.witness = (file, contents) }
        }
    }

    /// Forgets a file that is to be removed.
    func dropWitness(_ file: SyncFileName) {
        state.withLock { state in
            if state.witness?.file == file { state.witness = nil }
        }
    }

    /// Whether a folder has a file with these bytes. A file that cannot be read is none.
    private func has(_ file: SyncFileName, _ contents: Data, in top: OpenFile) -> Bool {
        let found = try? Self.open(file.folder, in: top).flatMap {
            try OpenFile.open(file.lastPart, in: $0, for: .reading).readToEnd(limit: contents.count)
        }
        return found == contents
    }

    // MARK: Folders in it

    /// Opens a folder in it; `nil` if there is none.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if there is something else in its place, or of one above it.
    static func open(_ folder: SyncFileName, in top: OpenFile) throws -> OpenFile? {
        var opened = top
        for part in folder.path.split(separator: "/") {
            do {
                opened = try OpenFile.open(String(part), in: opened, for: .folder)
            } catch let error as QuireError where error.code == .notFound {
                return nil
            }
        }
        return opened
    }

    /// Opens a folder in it, which is made durably if there is none.
    func openForCreating(_ folder: SyncFileName, in top: OpenFile) throws -> OpenFile {
        let isDurable = state.withLock { $0.durableFolders.contains(folder) }
        if isDurable, let opened = try Self.open(folder, in: top) { return opened }
        var opened = top
        for part in folder.path.split(separator: "/") {
            do {
                try FileSystem.makeFolder(FileLocation(String(part), in: opened))
            } catch let error as QuireError where error.code == .alreadyExists {
                // Another process may have made it just now, and not synchronized its name yet.
            }
            try opened.synchronize()
            opened = try OpenFile.open(String(part), in: opened, for: .folder)
        }
        state.withLock { _ = $0.durableFolders.insert(folder) }
        return opened
    }
}
