public import Foundation
public import Quire

/// What others have done to a package that is open.
public enum PackageChange: Sendable, Hashable {
    /// It was moved or renamed, and is there now.
    case moved(to: String)
    /// It was removed.
    case removed
    /// Another package, or in it another store, is at its path.
    case replaced
}

/// Which side of a conflict the document goes on with. The other one stays as a version.
public enum ConflictSide: Sendable, Hashable {
    /// What the document has now.
    case present
    /// What the conflict version has.
    case version
}

extension DocumentPackage {
    // MARK: Noticing

    /// What others have done to the package since it was opened; `nil` if it is where it was.
    ///
    /// If it was replaced, by a tool that synchronizes folders for example, this object still has the former content: open
    /// what is at the path, and keep this content there by ``keepConflictVersion(of:)``.
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

    /// Where its files are, wherever the folder was moved to, also if it has no name any more.
    var presentLayout: DocumentPackageLayout {
        guard let folder, !isInPlace else { return layout }
        return DocumentPackageLayout(path: presentPath ?? "/proc/self/fd/\(folder.descriptor)")
    }

    /// The conflict versions that nobody has dealt with, newest first.
    public func unresolvedConflictVersions() throws -> [DocumentVersion] {
        try versions().filter(\.isUnresolvedConflict)
    }

    // MARK: Resolving

    /// Deals with a conflict version: the document goes on with one side, and the other stays as a version.
    ///
    /// - Parameters:
    ///   - version: The conflict version.
    ///   - side: Which side the document goes on with.
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
            side == .present
            ? self : try replaceContent(withVersion: version, migrating: migration)
        do {
            try versionStore.markResolved(version)
        } catch  where side == .version {
            // The content has been replaced; that the version still counts as unresolved does no harm.
        }
        return package
    }
}

extension VersionStore {
    /// Notes that a conflict version has been dealt with.
    func markResolved(_ id: String) throws {
        try writing.withLock {
            try FileSystem.writeNewFile(
                Data(), at: FileSystem.path(layout.version(id), Self.resolvedName),
                beneath: layout.path)
        }
    }
}
