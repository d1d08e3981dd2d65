public import Foundation
import Logging
public import Quire

extension DocumentPackage {
    // MARK: Keeping

    /// Keeps the content of the package as of its last save as a version.
    ///
    /// External data and additional content are shared with the document, and only database pages that no version has yet are
    /// written. The version is kept completely or not at all. The package can be read and saved meanwhile. Do not call it on the
    /// main queue.
    ///
    /// - Parameters:
    ///   - name: A name given by the user.
    ///   - reason: Why it is kept.
    ///   - onlyIfNew: Whether to keep nothing if the last version has the same content.
    ///   - keepingDamage: Whether to keep damaged content too; `nil` for `true` unless the reason is `requested`.
    ///   - progress: Counts the bytes of the database. Cancelling it leaves no version.
    /// - Returns: The version; with `onlyIfNew`, the last one if it has the same content.
    /// - Complexity: O(*n*) in the size of the database, which is read, and of the new data, which is written.
    /// - Throws: ``QuireError`` with code `readOnly`, `invalidFormat` if the package is damaged, `outOfSpace` or `cancelled`, or
    ///   errors of reading and writing.
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

    // MARK: Viewing

    /// The versions, newest first. A damaged one is included, with its ``DocumentVersion/problem``.
    public func versions() throws -> [DocumentVersion] { try versionStore.versions() }

    /// The versions of a package, newest first, without opening it.
    ///
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat` if it is not a package, `protectedDataUnavailable` if it
    ///   is protected and locked.
    public static func versions(at path: String) throws -> [DocumentVersion] {
        try VersionStore(ofPackageAt: DocumentPackageLayout(path: path)).versions()
    }

    /// Extracts a version to a temporary package, to view it. Works in a read-only package too.
    ///
    /// - Complexity: O(*n*) in the size of the database; large files are shared where possible.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if the version is damaged, `outOfSpace` or `cancelled`, or
    ///   errors of reading and writing.
    public func checkOut(
        _ version: DocumentVersion.ID, progress: Progress? = nil
    ) throws -> VersionCheckout {
        try VersionCheckout(version, of: versionStore, progress: progress)
    }

    /// Extracts a version of a package that is not open to a temporary package, to view it.
    public static func checkOut(
        _ version: DocumentVersion.ID, at path: String, progress: Progress? = nil
    ) throws -> VersionCheckout {
        try VersionCheckout(
            version, of: VersionStore(ofPackageAt: DocumentPackageLayout(path: path)),
            progress: progress)
    }

    // MARK: Restoring

    /// Replaces the content of this package with that of a version, as ``replaceContent(with:migrating:progress:)`` does. All
    /// versions are kept.
    ///
    /// - Parameters:
    ///   - version: The version.
    ///   - keepingPresent: Whether to keep the present content as a version first, unless the last version has it.
    ///   - migration: How to migrate a version with another model; `nil` not to migrate it.
    ///   - progress: Counts steps; observe `fractionCompleted`. Cancelling it leaves everything as it was.
    /// - Returns: The package to use from now on. It owns the lock.
    /// - Throws: As ``replaceContent(with:migrating:progress:)``, and with code `notFound`, or `invalidFormat` if the version
    ///   is damaged.
    public func replaceContent(
        withVersion version: DocumentVersion.ID, keepingPresent: Bool = true,
        migrating migration: StoreMigrationOptions? = nil, progress: Progress? = nil
    ) throws -> DocumentPackage {
        try checkMayWrite()
        _ = try versionStore.manifest(of: version)
        // Keeping takes about a third of the time; replacing counts its own steps.
        progress?.totalUnitCount = 3
        progress?.completedUnitCount = 0
        func part(_ count: Int64) -> Progress? {
            progress.map { Progress(totalUnitCount: 1, parent: $0, pendingUnitCount: count) }
        }
        if keepingPresent {
            try keepVersion(reason: .beforeRestoring, onlyIfNew: true, progress: part(1))
        }
        return try replaceContent(
            migrating: migration, progress: part(keepingPresent ? 2 : 3)
        ) {
            try versionStore.fill($0, with: version, by: .linking, progress: $1)
        }
    }

    // MARK: Removing

    /// Removes a version, and the data that no other version needs.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `notFound`, `locked` if a reader has it open, `invalidState` if it is
    ///   an unresolved conflict version, or errors of removing files.
    public func deleteVersion(_ version: DocumentVersion.ID) throws {
        try checkMayWrite()
        if let known = try versions().first(where: { $0.id == version }),
            known.isUnresolvedConflict
        {
            throw QuireError(
                .invalidState,
                "The version “\(version)” of “\(layout.path)” belongs to an unresolved conflict; resolve the conflict first.",
                file: layout.path, value: version)
        }
        _ = try versionStore.remove([version], skippingBusy: false)
    }

    /// Removes old versions. Versions that are being read are skipped until the next call.
    ///
    /// - Returns: The versions that were removed.
    /// - Throws: ``QuireError`` with code `readOnly`, or errors of removing files.
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

// Versions that a policy keeps around saves. Failing to keep one never makes a save fail.

extension DocumentPackage {
    /// Keeps the state at opening, if the policy demands it and this is the first save since. Call it before a save writes
    /// anything, not on the main queue.
    func keepVersionBeforeSave(_ policy: VersionPolicy) {
        guard versionStore.willSave(), policy.occasion == .beforeFirstChange else { return }
        keep(.beforeChanges, policy)
    }

    /// Keeps a version if the policy says that one is due. Call it after a save has succeeded, not on the main queue.
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
            Self.logger.warning("Could not keep a version of “\(layout.path)”: \(error)")
        }
    }
}

// MARK: - Conflicts

/// A change to an open package made by another program.
public enum PackageChange: Sendable, Hashable {
    /// It was moved or renamed to this path.
    case moved(to: String)
    /// It was removed.
    case removed
    /// The package at its path, or the store in it, was replaced.
    case replaced
}

/// The side of a conflict that becomes the document's content.
public enum ConflictSide: Sendable, Hashable {
    /// The content of this document, including unsaved changes.
    case current
    /// The content that has replaced the document at its path, or that of a conflict version.
    case other
}

extension DocumentPackage {
    // MARK: Detecting

    /// The change made to the package by another program since it was opened; `nil` if it is still at its path.
    ///
    /// If it was replaced, for example by a sync tool, this object still has the former content: open the package at the path,
    /// and keep this content there with ``keepConflictVersion(of:origin:progress:)``.
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
    /// The other package may be open, even if it has been replaced at its path; its content is then what was saved before.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `notFound` if files of the other package are lost or `outOfSpace`, or errors
    ///   of reading and writing.
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

    /// The present layout of its files, wherever the folder was moved to, even if it has been unlinked.
    var presentLayout: DocumentPackageLayout {
        guard let folder, !isInPlace else { return layout }
        return DocumentPackageLayout(path: presentPath ?? "/proc/self/fd/\(folder.descriptor)")
    }

    /// The unresolved conflict versions, newest first.
    public func unresolvedConflictVersions() throws -> [DocumentVersion] {
        try versions().filter(\.isUnresolvedConflict)
    }

    // MARK: Resolving

    /// Resolves a conflict version: one side becomes the content of the document, and the other remains as a version.
    ///
    /// - Parameters:
    ///   - version: The conflict version.
    ///   - side: The side that becomes the content of the document.
    ///   - migration: How to migrate a version with another model.
    /// - Returns: The package to use from now on: this one, or another if its content was replaced; see
    ///   ``replaceContent(with:migrating:progress:)``.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidState` if it is not an unresolved conflict version, or as
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
                "The version “\(version)” of “\(layout.path)” is not an unresolved conflict.",
                file: layout.path, value: version)
        }
        let package =
            side == .current
            ? self : try replaceContent(withVersion: version, migrating: migration)
        do {
            try versionStore.markResolved(version)
        } catch  where side == .other {
            // The content has been replaced; it does no harm that the version still counts as unresolved.
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
