import Foundation
import Quire

extension AdditionalContentStore {
    /// Writes a new generation that a subclass of ``ManagedDocument`` fills in its own way.
    ///
    /// - Parameter files: What is added to that or removed from it.
    /// - Returns: Its number, or `nil` if no file is left.
    func write(
        _ rewriting: AdditionalContentChanges.Rewriting,
        _ files: [String: AdditionalContentChange], after live: Int?
    ) throws -> Int? {
        let temporary = FileSystem.temporarySibling(of: layout.additionalContent, for: "new")
        do {
            return try FileSystem.building(layout.additionalContent, as: temporary) {
                try fill(temporary, by: rewriting, files, after: live)
            }
        } catch {
            try? FileSystem.removeTree(temporary, beneath: layout.path)
            throw error
        }
    }

    private func fill(
        _ temporary: String, by rewriting: AdditionalContentChanges.Rewriting,
        _ files: [String: AdditionalContentChange], after live: Int?
    ) throws -> Int? {
        try FileSystem.makeFolder(temporary, beneath: layout.path)
        try rewriting(temporary, live.map(layout.additionalContent(generation:)))
        for (path, change) in files.sorted(by: { $0.key < $1.key }) {
            let target = FileSystem.path(temporary, path)
            // Not changed in its place: it may be a link to a file of the last save.
            _ = try FileSystem.removeFileIfPresent(target, beneath: layout.path)
            if change.isRemoval { continue }
            try makeFolder(of: target)
            try change.write(to: target, beneath: layout.path, sealing: classKey)
        }
        guard try hasFiles(temporary) else {
            try FileSystem.removeTree(temporary, beneath: layout.path)
            return nil
        }
        return try adopt(temporary, after: live)
    }

    private func hasFiles(_ folder: String) throws -> Bool {
        var hasFiles = false
        for (path, information) in try FileSystem.contentsOfTree(folder, beneath: layout.path) {
            switch information.kind {
            case .regular: hasFiles = true
            case .folder: break
            case .symbolicLink, .other:
                throw QuireError(
                    .invalidValue,
                    "“\(path)” cannot be additional content of “\(layout.path)”: it is neither file nor folder.",
                    subject: .init(file: path))
            }
        }
        return hasFiles
    }
}
