import Foundation
package import Quire
internal import QuireSQLite

/// The document in an archive, while it is open for reading.
///
/// One that Quire has exported to a zip file is read in place: the archive is mounted, and the document's path is the archive's. All others are
/// unpacked to a private folder, which is removed with this object.
final class ArchivedDocument: Sendable {
    /// The document.
    let layout: DocumentPackageLayout
    /// A package beside the archive, which need not exist; copies of the document are named after it.
    let sibling: String
    /// Retained for the archive to stay mounted; `nil` if it is unpacked.
    private let mount: ArchiveMount?
    private let folder: TemporarySibling?
    /// The domain of a protected document. Nothing else retains its keys before the store is open.
    private let domain: ProtectionDomain?

    /// Makes the document in an archive available.
    ///
    /// - Parameters:
    ///   - path: The archive.
    ///   - limits: The limits on the archive's content.
    ///   - unlocking: Unlocks a protected document.
    init(
        _ path: String, limits: ArchiveLimits = ArchiveLimits(),
        unlocking: (ProtectionDomain) throws -> Void
    ) throws {
        let path = FileSystem.absolute(path)
        sibling = FileSystem.path(FileSystem.folder(of: path), Self.name(of: path))
        if let mount = try Self.mount(path, limits: limits) {
            layout = DocumentPackageLayout(path: path)
            self.mount = mount
            folder = nil
            // Of the archive that is mounted: the file at the path may be another one by now.
            domain = try StoreProtection.domain(ofStoreAt: layout.store)
            if let domain { try unlocking(domain) }
            return
        }
        let folder = try TemporarySibling.makeFolderInTemporaryDirectory()
        do {
            let place = FileSystem.path(folder.path, Self.name(of: path))
            var domain: ProtectionDomain?
            let result = try DocumentPackage.extract(path, to: place, limits: limits) {
                domain = $0
                try unlocking($0)
            }
            if let domain, !result.isStoreChecked {
                throw StoreProtection.lockedError(path, domain)
            }
            layout = DocumentPackageLayout(path: place)
            mount = nil
            self.folder = folder
            self.domain = domain
        } catch {
            folder.remove()
            throw error
        }
    }

    deinit { close() }

    /// Ends reading.
    func close() {
        mount?.end()
        folder?.remove()
    }

    /// Mounts an archive; `nil` if it must be unpacked.
    static func mount(_ path: String, limits: ArchiveLimits = ArchiveLimits()) throws
        -> ArchiveMount?
    {
        try ArchiveMount(at: path) { try ZipArchive($0, limits: limits) }
    }

    /// The name of the document in an archive, which a page has as its title.
    private static func name(of path: String) -> String {
        var name = URL(fileURLWithPath: FileSystem.name(of: path)).deletingPathExtension()
        if name.pathExtension == "tar" { name.deletePathExtension() }
        return FileName.fitting(name.lastPathComponent, ".quire")
    }

    /// Whether a file begins like an archive that ``DocumentPackage/extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``
    /// reads: zip, 7z or tar, or compressed data.
    static func isArchive(_ path: String) -> Bool {
        if ArchiveMount.contains(path) { return true }
        // Not by FileHandle, which would drop SQLite's locks if this process has the file open.
        guard let file = try? OpenFile.open(path, for: .reading),
            (try? file.information())?.kind == .regular
        else { return false }
        let beginnings: [(bytes: [UInt8], offset: Int64)] = [
            ([0x50, 0x4B, 0x03, 0x04], 0), ([0x28, 0xB5, 0x2F, 0xFD], 0), ([0x1F, 0x8B], 0),
            ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], 0), ([0x37, 0x7A, 0xBC, 0xAF], 0),
            (Array("BZh".utf8), 0), ([0x04, 0x22, 0x4D, 0x18], 0), (Array("ustar".utf8), 257),
        ]
        return beginnings.contains { (try? file.read($0.bytes.count, at: $0.offset)) == $0.bytes }
    }
}

extension DocumentPackage {
    /// Whether a file begins like an archive of one of the kinds that can be extracted.
    package static func isArchive(_ path: String) -> Bool {
        ArchivedDocument.isArchive(FileSystem.absolute(path))
    }

    /// Opens the document in an archive for reading; see ``open(at:model:readOnly:options:migrating:waiting:)-(String,_,_,_,_,_)``.
    ///
    /// - Parameters:
    ///   - limits: The limits on the archive's content.
    ///   - unlocking: Unlocks a protected document.
    package static func open(
        archive path: String, model: ManagedObjectModel? = nil,
        options: SQLiteStoreOptions = .init(), migrating migration: StoreMigrationOptions? = nil,
        limits: ArchiveLimits = ArchiveLimits(),
        unlocking: (ProtectionDomain) throws -> Void = { _ in }
    ) throws -> DocumentPackage {
        let archived = try ArchivedDocument(path, limits: limits, unlocking: unlocking)
        let layout = archived.layout
        try checkIsPackage(layout)
        try DocumentMetadata.checkFormat(of: layout)
        var options = options
        options.isReadOnly = true
        options.isOnlyWriter = true
        let store = try openStore(layout, model, options, migration)
        return DocumentPackage(layout: layout, store: store, lock: nil, archived: archived)
    }
}
