public import Foundation
import Quire
internal import QuireSQLite

/// A copy beside a document that was changed elsewhere: sync tools create one when both sides have changed.
public struct ConflictingCopy: Sendable, Hashable {
    /// The package.
    public let path: String
    /// When it was saved last.
    public let date: Date

    /// The suffixes that such tools add to a name, before the extension:
    ///
    /// - `Name (conflicted copy 2026-11-22 101500)`, `Name (Jane's conflicted copy 2026-11-22)`, `Name (Case Conflict 1)`:
    ///   Dropbox, Nextcloud; in other languages, `Name (In Konflikt stehende Kopie von Jane 2026-11-22)`;
    ///   `Name (SFConflict jane@example.org 2026-11-22-10-15-00)`: Seafile; `Name [conflicted]`: pCloud; `Name (Conflict)`:
    ///   Insync
    /// - `Name.sync-conflict-20261122-101500-ABCDEFG`: Syncthing
    /// - `Name_conflict-20261122-101500`: ownCloud; `Name.conflict1`: rclone; `Name.Conflict`: Resilio;
    ///   `Name_DiskStation_Nov-22-101500-2026_Conflict`: Synology
    /// - `Name-JANES-PC`, `Name-JANES-PC-2`: OneDrive, which adds a computer's name: a default name of Windows, or this computer's
    /// - `Name (1)`, `Name 2`: Google Drive, OneDrive, iCloud
    private static let marks = [
        #"^ ?[(\[][^()\[\]]*(?i:conflict|conflit|conflicto|conflitto|konflikt|конфликт|冲突|衝突|競合)[^()\[\]]*[)\]]$"#,
        #"^\.sync-conflict-[0-9]{8}-[0-9]{6}(-[A-Z0-9]+)?$"#,
        #"^[_.-](?i:conflict)[0-9A-Za-z_-]*$"#, #"^_[^/]*_(?i:conflict)( ?\([0-9]{1,3}\))?$"#,
        #"^-(?:(?:DESKTOP|LAPTOP|WIN)-[A-Z0-9]{4,12}|[A-Z0-9]{1,12}-(?:PC|MAC))(-[0-9]{1,3})?$"#,
        #"^ \([0-9]{1,3}\)$"#, #"^ [0-9]{1,3}$"#, ownMark,
    ]

    /// The name of this computer.
    private static var ownMark: String {
        let name = ProcessInfo.processInfo.hostName.prefix { $0 != "." }
        return "^-(?i:\(NSRegularExpression.escapedPattern(for: String(name))))(-[0-9]{1,3})?$"
    }

    /// Whether such a tool would give this name to a conflicting copy of another file.
    static func isName(_ name: String, ofCopyOf original: String) -> Bool {
        let (stem, ending) = parts(of: original)
        let (copyStem, copyEnding) = parts(of: name)
        guard ending == copyEnding, copyStem.hasPrefix(stem) else { return false }
        let mark = String(copyStem.dropFirst(stem.count))
        return marks.contains { mark.range(of: $0, options: .regularExpression) != nil }
    }

    private static func parts(of name: String) -> (stem: Substring, ending: Substring) {
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex else {
            return (name[...], "")
        }
        return (name[..<dot], name[dot...])
    }
}

extension DocumentPackage {
    /// The conflicting copies that sync tools have left beside this package, found by their names and their store UUID.
    ///
    /// - Throws: ``QuireError`` if the folder cannot be read.
    public func conflictingCopies() throws -> [ConflictingCopy] {
        try Self.conflictingCopies(of: layout, storeUUID: store.identity.uuid)
    }

    /// The conflicting copies that sync tools have left beside a package.
    ///
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat` if it is not a package, or errors of reading.
    public static func conflictingCopies(ofPackageAt path: String) throws -> [ConflictingCopy] {
        let layout = DocumentPackageLayout(path: path)
        try checkIsPackage(layout)
        return try conflictingCopies(
            of: layout, storeUUID: SQLiteStore.metadata(at: layout.store).storeUUID)
    }

    private static func conflictingCopies(
        of layout: DocumentPackageLayout, storeUUID: String
    ) throws -> [ConflictingCopy] {
        let (folder, name) = (FileSystem.folder(of: layout.path), FileSystem.name(of: layout.path))
        return try FileSystem.names(in: folder).compactMap { candidate in
            guard ConflictingCopy.isName(candidate, ofCopyOf: name) else { return nil }
            let copy = DocumentPackageLayout(path: FileSystem.path(folder, candidate))
            // An unreadable package is not known to be the same document.
            guard copy.isPackage,
                let metadata = try? SQLiteStore.metadata(at: copy.store),
                metadata.storeUUID == storeUUID
            else { return nil }
            return ConflictingCopy(
                path: copy.path,
                date: modificationDate(of: copy) ?? Date(timeIntervalSince1970: 0))
        }
    }

    /// Turns a conflicting copy into a conflict version of this document, and removes the copy once the version is on disk.
    /// Resolve the version with ``resolveConflict(_:keeping:migrating:)``.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `notFound` or `locked` if the copy is open, or errors of reading and
    ///   writing. The copy then remains.
    @discardableResult
    public func adopt(
        _ copy: ConflictingCopy, progress: Progress? = nil
    ) throws -> DocumentVersion {
        try checkMayWrite()
        let other = try DocumentPackage.open(at: copy.path)
        let version: DocumentVersion
        do {
            version = try keepConflictVersion(
                of: other, origin: .init(path: copy.path, date: copy.date), progress: progress)
        } catch {
            try? other.close()
            throw error
        }
        // Removed before the lock is released, so that no other process can open it.
        let removed = FileSystem.temporarySibling(of: copy.path, for: "removed")
        try FileSystem.rename(copy.path, to: removed)
        try FileSystem.synchronizeFolder(containing: copy.path)
        try? other.close()
        try? FileSystem.removeTree(removed)
        return version
    }
}
