import Quire

/// What the files of a package look like from outside, to see by comparing whether they were written to.
struct PackageFingerprint: Sendable {
    private struct Mark: Sendable, Equatable {
        var inode: UInt64
        var size: Int64
        var modified: Int64
    }

    private var marks: [String: Mark] = [:]

    private static let parts: [(String, PackageParts)] = [
        ("StoreContent/persistentStore", .store),
        ("StoreContent/persistentStore-wal", .store),
        ("StoreContent/persistentStore-journal", .store),
        ("AdditionalContent", .additionalContent),
        ("DocumentMetadata.plist", .metadata),
        (".lock", .lock),
    ]

    /// Looks at the files of a package, by its open folder. Symbolic links are not followed.
    init(of folder: OpenFile) {
        for (path, _) in Self.parts {
            guard let information = try? FileSystem.information(at: path, in: folder) else {
                continue
            }
            // What a folder's size is means nothing.
            marks[path] = Mark(
                inode: information.inode, size: information.kind == .folder ? 0 : information.size,
                modified: information.modificationNanoseconds)
        }
    }

    /// The parts whose files look different.
    func differences(from earlier: PackageFingerprint) -> PackageParts {
        Self.parts.reduce(into: []) { parts, part in
            if marks[part.0] != earlier.marks[part.0] { parts.formUnion(part.1) }
        }
    }
}
