public import Foundation
public import Quire

extension DocumentPackage {
    // MARK: Keeping

    /// Keeps what the package has as of its last save, as a version.
    ///
    /// External data and additional content are shared with the document. Of the database, only pages are kept that no
    /// version has yet. The version is there whole, or not at all. Others may go on reading and saving meanwhile. Not to be
    /// called on the main queue.
    ///
    /// - Parameters:
    ///   - name: What the user calls it.
    ///   - reason: Why it is kept.
    ///   - onlyIfNew: Whether nothing is kept if the last version is of the same content.
    ///   - keepingDamage: Whether what is damaged is kept too; `nil` for all but versions that were requested, which are
    ///     checked.
    ///   - progress: Gets the bytes of the database as its total. Cancelling it leaves no version.
    /// - Returns: The version; with `onlyIfNew`, the last one if that will do.
    /// - Complexity: O(*n*) in the size of the database, which is read, and of what the newest versions do not have, which is
    ///   written.
    /// - Throws: ``QuireError`` with code `readOnly`, `invalidFormat` if the package is damaged, `outOfSpace`, `cancelled`, or what
    ///   reading and writing throw.
    @discardableResult
    public func keepVersion(
        named name: String? = nil, reason: DocumentVersion.Reason = .requested,
        onlyIfNew: Bool = false, keepingDamage: Bool? = nil, progress: Progress? = nil
    ) throws -> DocumentVersion {
        try checkMayWrite()
        return try versionStore.keep(
            self, .init(name: name, reason: reason), by: .linking, onlyIfNew: onlyIfNew,
            keepingDamage: keepingDamage ?? (reason != .requested), progress: progress)
    }

    // MARK: Looking

    /// The versions that were kept, newest first. One that is damaged is among them and says so.
    public func versions() throws -> [DocumentVersion] { try versionStore.versions() }

    /// The versions of a package, newest first, without opening it.
    ///
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat` if it is no package, `protectedDataUnavailable` if it
    ///   is protected and locked.
    public static func versions(at path: String) throws -> [DocumentVersion] {
        try VersionStore(ofPackageAt: DocumentPackageLayout(path: path)).versions()
    }

    /// Makes a version a package of its own, to look at. Works for who may only read, too.
    ///
    /// - Complexity: O(*n*) in the size of the database; large files are shared where that is possible.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if the version is damaged, `outOfSpace`, `cancelled`, or
    ///   what reading and writing throw.
    public func checkOut(
        _ version: DocumentVersion.ID, progress: Progress? = nil
    ) throws -> VersionCheckout {
        try VersionCheckout(version, of: versionStore, progress: progress)
    }

    /// Makes a version of a package that is not open a package of its own, to look at.
    public static func checkOut(
        _ version: DocumentVersion.ID, at path: String, progress: Progress? = nil
    ) throws -> VersionCheckout {
        try VersionCheckout(
            version, of: VersionStore(ofPackageAt: DocumentPackageLayout(path: path)),
            progress: progress)
    }

    // MARK: Restoring

    /// Makes the content of this package that of a version, as ``replaceContent(with:migrating:progress:)`` does it. All
    /// versions stay.
    ///
    /// - Parameters:
    ///   - version: The version.
    ///   - keepingPresent: Whether what is there now is kept as a version first, unless the last version has it.
    ///   - migration: How the version is migrated if it is of another version of the model; `nil` if it is not to be.
    ///   - progress: Cancelling it leaves everything as it was.
    /// - Returns: The package to use from now on. It owns the lock.
    /// - Throws: As ``replaceContent(with:migrating:progress:)``, and with code `notFound`, or `invalidFormat` if the version
    ///   is damaged.
    public func replaceContent(
        withVersion version: DocumentVersion.ID, keepingPresent: Bool = true,
        migrating migration: StoreMigrationOptions? = nil, progress: Progress? = nil
    ) throws -> DocumentPackage {
        try checkMayWrite()
        _ = try versionStore.manifest(of: version)
        if keepingPresent {
            try keepVersion(reason: .beforeRestoring, onlyIfNew: true, progress: progress)
        }
        return try replaceContent(migrating: migration, progress: progress) {
            try versionStore.fill($0, with: version, by: .linking, progress: progress)
        }
    }

    // MARK: Removing

    /// Removes a version, and what only it needs.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `notFound`, `locked` if somebody is reading it, `invalidState` if it is
    ///   a conflict version that has not been resolved, or what removing throws.
    public func deleteVersion(_ version: DocumentVersion.ID) throws {
        try checkMayWrite()
        if let known = try versions().first(where: { $0.id == version }),
            known.isUnresolvedConflict
        {
            throw QuireError(
                .invalidState,
                "The version “\(version)” of “\(layout.path)” is one side of a conflict; resolve it first.",
                subject: .init(file: layout.path, value: version))
        }
        _ = try versionStore.remove([version], skippingBusy: false)
    }

    /// Removes old versions. Those that are being read stay, and go the next time.
    ///
    /// - Returns: The versions that are gone.
    /// - Throws: ``QuireError`` with code `readOnly`, or what removing throws.
    @discardableResult
    public func pruneVersions(
        _ retention: VersionRetention = VersionRetention(), now: Date = Date()
    ) throws -> [DocumentVersion] {
        try checkMayWrite()
        let old = retention.versionsToPrune(try versions(), now: now)
        if old.isEmpty { return [] }
        let removed = Set(try versionStore.remove(old.map(\.id), skippingBusy: true))
        return old.filter { removed.contains($0.id) }
    }
}
