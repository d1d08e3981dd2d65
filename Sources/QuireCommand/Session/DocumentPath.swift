import Foundation
import Quire

/// Looks at what is at a path, without opening it.
enum DocumentPath {
    /// What there is at a path.
    ///
    /// A file that begins like an archive is one; every other file is taken for a store, and opening it will
    /// tell.
    ///
    /// - Throws: `QuireError` with code `notFound`.
    static func kind(of path: String) throws -> DocumentSession.Kind {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw QuireError(
                .notFound, "There is no document “\(path)”.", subject: .init(file: path))
        }
        if isFolder.boolValue { return .package }
        return isArchive(path) ? .archive : .store
    }

    /// Whether a file begins like a zip archive or Zstandard data.
    private static func isArchive(_ path: String) -> Bool {
        // Not by FileHandle, which would drop SQLite's locks if this process has the file open.
        let start = (try? OpenFile.open(path, for: .reading).read(4, at: 0)) ?? []
        return start == [0x50, 0x4B, 0x03, 0x04] || start == [0x28, 0xB5, 0x2F, 0xFD]
    }

    /// The number and size of the files of external data that lie beside a store.
    static func externalData(ofStoreAt path: String) throws -> (files: Int, bytes: Int64) {
        let store = URL(fileURLWithPath: path)
        let name = store.deletingPathExtension().lastPathComponent
        let folder = store.deletingLastPathComponent()
            .appendingPathComponent(".\(name)_SUPPORT/_EXTERNAL_DATA").path
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: folder) else {
            return (0, 0)
        }
        var result = (files: 0, bytes: Int64(0))
        for name in names {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder + "/" + name)
            guard attributes[.type] as? FileAttributeType == .typeRegular else { continue }
            result.files += 1
            result.bytes += (attributes[.size] as? NSNumber)?.int64Value ?? 0
        }
        return result
    }
}
