public import Foundation
import Logging
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
            try versionStore.fill($0, with: version, by: .linking, progress: $1)
        }
    }

    // MARK: Removing

    /// Removes a version, and what only it needs.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `notFound`, `locked` if a reader has it open, `invalidState` if it is
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
    /// - Returns: The versions that were removed.
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

// MARK: - Versions kept by the policy

// Versions that a policy keeps of saves. A failure never makes a save fail.

extension DocumentPackage {
    /// Call before a save writes anything, not on the main queue: keeps what the document was when it was opened, if the
    /// policy says so and this is the first save since.
    func keepVersionBeforeSave(_ policy: VersionPolicy) {
        guard versionStore.willSave(), policy.occasion == .beforeFirstChange else { return }
        keep(.beforeChanges, policy)
    }

    /// Call after a save has succeeded, not on the main queue: keeps a version if it is time for one.
    func keepVersionAfterSave(_ policy: VersionPolicy) {
        guard case .every(let interval) = policy.occasion, !isReadOnly else { return }
        versionStore.decidingAfterSave.lock()
        defer { versionStore.decidingAfterSave.unlock() }
        keep(.periodic, policy) {
            let last = try versionStore.ids().last.flatMap(VersionStore.date)
            return last.map { Date().timeIntervalSince($0) >= interval / .seconds(1) } ?? true
        }
    }

    private func keep(
        _ reason: DocumentVersion.Reason, _ policy: VersionPolicy,
        if isDue: () throws -> Bool = { true }
    ) {
        do {
            guard try isDue() else { return }
            try keepVersion(reason: reason, onlyIfNew: true)
            if let retention = policy.retention { try pruneVersions(retention) }
        } catch {
            Self.logger.warning("No version of “\(layout.path)” was kept: \(error)")
        }
    }
}

// MARK: - Conflicts

/// A change of an open package by others.
public enum PackageChange: Sendable, Hashable {
    /// It was moved or renamed, and is there now.
    case moved(to: String)
    /// It was removed.
    case removed
    /// Another package, or in it another store, is at its path.
    case replaced
}

/// The side of a conflict that is to be the document's content.
public enum ConflictSide: Sendable, Hashable {
    /// The content of the document here, unsaved changes included.
    case current
    /// The content that others have put into the document's place, or that of a conflict version.
    case other
}

extension DocumentPackage {
    // MARK: Noticing

    /// The change of the package by others since it was opened; `nil` if it is where it was.
    ///
    /// If it was replaced, by a tool that synchronizes folders for example, this object still has the former content: open
    /// the package at the path, and keep this content there by ``keepConflictVersion(of:origin:progress:)``.
    ///
    /// - Throws: ``QuireError`` if the path cannot be examined.
    public func changeByOthers() throws -> PackageChange? {
        let now = try FileSystem.information(at: layout.store)
        if isInPlace {
            guard let now, let storeFile else { return .removed }
            return now.isSameFile(as: storeFile) ? nil : .replaced
        }
        if now != nil { return .replaced }
        return presentPath.map { .moved(to: $0) } ?? .removed
    }

    // MARK: Keeping

    /// Keeps the content of another package as a conflict version of this one.
    ///
    /// The other one may be open, also if it has been replaced at its path: then its content is what was saved before.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `notFound` if files of the other are lost, `outOfSpace`, or what reading
    ///   and writing throw.
    @discardableResult
    public func keepConflictVersion(
        of other: DocumentPackage, origin: DocumentVersion.Origin? = nil, progress: Progress? = nil
    ) throws -> DocumentVersion {
        try checkMayWrite()
        var origin = origin ?? .here(path: other.layout.path)
        if origin.date == nil { origin.date = other.modificationDate }
        return try versionStore.keep(
            other, .init(reason: .conflict, origin: origin), by: .copying, onlyIfNew: false,
            progress: progress)
    }

    /// The present layout of its files, wherever the folder was moved to, also if it has no name any more.
    var presentLayout: DocumentPackageLayout {
        guard let folder, !isInPlace else { return layout }
        return DocumentPackageLayout(path: presentPath ?? "/proc/self/fd/\(folder.descriptor)")
    }

    /// The unresolved conflict versions, newest first.
    public func unresolvedConflictVersions() throws -> [DocumentVersion] {
        try versions().filter(\.isUnresolvedConflict)
    }

    // MARK: Resolving

    /// Resolves a conflict version: one side becomes the content of the document, and the other stays as a version.
    ///
    /// - Parameters:
    ///   - version: The conflict version.
    ///   - side: The side that becomes the content of the document.
    ///   - migration: How the version is migrated if it is of another version of the model.
    /// - Returns: The package to use from now on: this one, or if its content was replaced another; see
    ///   ``replaceContent(with:migrating:progress:)``.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidState` if it is no unresolved conflict version, or as
    ///   ``replaceContent(withVersion:keepingPresent:migrating:progress:)``. Then it is still unresolved.
    public func resolveConflict(
        _ version: DocumentVersion.ID, keeping side: ConflictSide,
        migrating migration: StoreMigrationOptions? = nil
    ) throws -> DocumentPackage {
        try checkMayWrite()
        guard let known = try versions().first(where: { $0.id == version }) else {
            throw versionStore.missing(version)
        }
        guard known.isUnresolvedConflict else {
            throw QuireError(
                .invalidState,
                "The version “\(version)” of “\(layout.path)” is no unresolved conflict.",
                subject: .init(file: layout.path, value: version))
        }
        let package =
            side == .current
            ? self : try replaceContent(withVersion: version, migrating: migration)
        do {
            try versionStore.markResolved(version)
        } catch  where side == .other {
            // The content has been replaced; that the version still counts as unresolved does no harm.
        }
        return package
    }
}

extension VersionStore {
    /// Marks a conflict version as resolved.
    func markResolved(_ id: String) throws {
        try writing.withLock {
            try FileSystem.writeNewFile(
                Data(), at: FileSystem.path(layout.version(id), Self.resolvedName),
                beneath: layout.path)
        }
    }
}
