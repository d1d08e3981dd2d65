import Foundation
package import QuireProtection
internal import QuireSystem

/// Where a store's files of external data are. Rows that were read, and values, refer to it, so that they find their files
/// when the store has been moved.
package final class ExternalDataPlace: Sendable {
    /// The folder of the files, and the root that none of them must lead out of; see ``FileLocation``.
    struct Folders: Sendable {
        var files: String
        var root: String
        /// The class key of the files; `nil` for unsealed files.
        var classKey: ClassKey?
    }

    private let current: Lock<Folders>

    package init(_ folder: String, beneath root: String, classKey: ClassKey?) {
        current = Lock(Folders(files: folder, root: root, classKey: classKey))
    }

    var folders: Folders { current.withLock { $0 } }

    /// The folder of the files.
    var folder: String { folders.files }
    /// The folder of the store.
    var root: String { folders.root }

    /// The class key of the files; `nil` for unsealed files.
    package var classKey: ClassKey? { folders.classKey }

    /// The temporary folder, for values that have no store yet, or whose store has no external data or is read-only.
    package static func temporary(classKey: ClassKey? = nil) -> ExternalDataPlace {
        let folder = FileSystem.absolute(FileManager.default.temporaryDirectory.path)
        return ExternalDataPlace(folder, beneath: folder, classKey: classKey)
    }

    package func move(to other: ExternalDataPlace) {
        let folders = other.folders
        current.withLock { $0 = folders }
    }
}
