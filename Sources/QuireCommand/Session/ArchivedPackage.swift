import Foundation
import Quire
import QuireDocuments
import QuireSQLite

/// The document in an archive, extracted to a private folder and open for reading, until it is closed.
struct ArchivedPackage {
    let package: DocumentPackage
    private let folder: TemporarySibling

    /// Extracts and opens it. A protected one stays sealed there.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`, or `protectedDataUnavailable` if it is protected and no key is given.
    static func open(
        _ path: String, model: ManagedObjectModel? = nil, unlock: UnlockOptions
    ) throws -> ArchivedPackage {
        let folder = try TemporarySibling.makeFolderInTemporaryDirectory()
        do {
            let place = FileSystem.path(folder.path, name(of: path))
            var domain: ProtectionDomain?
            let result = try DocumentPackage.extract(path, to: place) {
                domain = $0
                try unlock.unlock($0, of: path)
            }
            if let domain, !result.isStoreChecked {
                throw StoreProtection.lockedError(path, domain)
            }
            var options = SQLiteStoreOptions()
            options.infersModel = true
            options.verifiesExternalData = true
            return ArchivedPackage(
                package: try DocumentPackage.open(
                    at: place, model: model, readOnly: true, options: options), folder: folder)
        } catch {
            folder.remove()
            throw error
        }
    }

    /// The name of the document in an archive, which a page has as its title.
    private static func name(of path: String) -> String {
        var name = URL(fileURLWithPath: FileSystem.name(of: path)).deletingPathExtension()
        if name.pathExtension == "tar" { name.deletePathExtension() }
        return FileName.fitting(name.lastPathComponent, ".quire")
    }

    /// Closes the document, and removes the folder.
    func close() {
        package.closeSaved()
        folder.remove()
    }
}
