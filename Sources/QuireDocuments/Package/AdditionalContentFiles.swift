import Foundation
import Quire

/// Folders on disk whose files are to become additional content.
enum AdditionalContentFiles {
    /// The files in a folder and the folders in it, with the paths that they get.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, or `unsupported` if there is anything but files and folders.
    static func files(
        inFolder folder: String, at path: String
    ) throws -> [(source: String, path: String)] {
        let prefix = path.isEmpty ? "" : path + "/"
        return try FileSystem.contentsOfTree(folder).compactMap { name, information in
            switch information.kind {
            case .folder: return nil
            case .regular:
                return (
                    FileSystem.path(folder, name),
                    (prefix + name).precomposedStringWithCanonicalMapping
                )
            case .symbolicLink, .other:
                let path = FileSystem.path(folder, name)
                throw QuireError(
                    .unsupported,
                    "“\(path)” cannot be additional content: it is neither a file nor a folder.",
                    subject: .init(file: path))
            }
        }
    }
}

extension OpenFile {
    /// A file that has no name and holds some bytes, at its start.
    static func temporary(holding data: Data) throws -> OpenFile {
        let file = try OpenFile.inMemory(named: "data")
        try file.write(data)
        return try file.reopened()
    }

    /// A handle of its own for the file, closed when nobody has it any more.
    func fileHandle() throws -> FileHandle {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        if copy < 0 { throw FileSystem.failure("open", path) }
        return FileHandle(fileDescriptor: copy, closeOnDealloc: true)
    }
}
