public import Foundation
import Quire

extension ManagedDocument {
    /// Saves unsaved changes, and keeps what the document is then as a version. Editing and saving may go on meanwhile.
    ///
    /// - Parameters:
    ///   - name: What the user calls it.
    ///   - keepingDamage: Whether what is damaged is kept too; it is checked otherwise.
    ///   - progress: Gets the bytes of the database as its total. Cancelling it leaves no version.
    /// - Throws: ``QuireError`` as ``save()`` and ``DocumentPackage/keepVersion(named:reason:onlyIfNew:keepingDamage:progress:)``.
    @discardableResult
    public func keepVersion(
        named name: String? = nil, keepingDamage: Bool = false, progress: Progress? = nil
    ) async throws -> DocumentVersion {
        try await autosave()
        return try await withPackage {
            try $0.keepVersion(named: name, keepingDamage: keepingDamage, progress: progress)
        }
    }

    /// The versions that were kept, newest first.
    public func versions() async throws -> [DocumentVersion] {
        try await withPackage { try $0.versions() }
    }

    /// Makes a version a package of its own, to be opened for reading only; see ``VersionCheckout``.
    public func checkOut(
        _ version: DocumentVersion.ID, progress: Progress? = nil
    ) async throws -> VersionCheckout {
        try await withPackage { try $0.checkOut(version, progress: progress) }
    }

    /// Makes the document what a version is: objects, external data and additional content, all or nothing, on disk as well.
    /// What the document was, unsaved changes included, is kept as a version first. Objects that are held belong to no context
    /// afterwards.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if the version is damaged, `incompatibleModel` if it is of
    ///   another version of the model and ``migrationOptions`` do not help, or as ``save()``. Then nothing has changed.
    public func restore(_ version: DocumentVersion.ID) async throws {
        try await autosave()
        let migration = migrationOptions
        try await replaceContent {
            try $0.replaceContent(withVersion: version, migrating: migration)
        }
    }

    /// The conflict versions that nobody has dealt with, newest first.
    public func unresolvedConflictVersions() async throws -> [DocumentVersion] {
        try await withPackage { try $0.unresolvedConflictVersions() }
    }

    /// Deals with a conflict version: the document goes on with one side, and the other stays as a version. Unsaved changes
    /// are saved first. If the document goes on with the version, objects that are held belong to no context afterwards.
    ///
    /// - Throws: As ``DocumentPackage/resolveConflict(_:keeping:migrating:)`` and ``save()``.
    public func resolveConflict(
        _ version: DocumentVersion.ID, keeping side: ConflictSide
    ) async throws {
        try await autosave()
        let migration = migrationOptions
        switch side {
        case .current:
            _ = try await withPackage { try $0.resolveConflict(version, keeping: .current) }
        case .other:
            try await replaceContent {
                try $0.resolveConflict(version, keeping: .other, migrating: migration)
            }
        }
    }

    /// Replaces the content of the package, when the document's turn comes, and shows the new one.
    private func replaceContent(
        _ body: @escaping @Sendable (DocumentPackage) throws -> DocumentPackage
    ) async throws {
        let work = DocumentWork { [self] _ in
            try await performRevert { open in
                let old = open.package
                let new = try await FileQueue.copies.run { try body(old) }
                await open.switchPackage(from: old, to: new)
            }
        }
        try await request(.revert(work))
    }

    /// Removes a version.
    public func deleteVersion(_ version: DocumentVersion.ID) async throws {
        try await withPackage { try $0.deleteVersion(version) }
    }

    /// Removes old versions.
    ///
    /// - Parameter retention: Which stay; `nil` for what ``versionPolicy`` says, or the usual.
    /// - Returns: The versions that are gone.
    @discardableResult
    public func pruneVersions(
        _ retention: VersionRetention? = nil
    ) async throws -> [DocumentVersion] {
        let retention = retention ?? versionPolicy.retention ?? VersionRetention()
        return try await withPackage { try $0.pruneVersions(retention) }
    }

    private func withPackage<Result: Sendable>(
        _ body: @escaping @Sendable (DocumentPackage) throws -> Result
    ) async throws -> Result {
        guard let package = openDocument?.package else { throw notOpenError }
        return try await FileQueue.copies.run { try body(package) }
    }

    // MARK: For saving

    /// Call before a save writes anything. A version that cannot be kept does not keep the save from going on.
    func keepVersionBeforeSave() async {
        guard versionPolicy.occasion == .beforeFirstChange, let package = openDocument?.package
        else { return }
        let policy = versionPolicy
        await FileQueue.shared.run { package.keepVersionBeforeSave(policy) }
    }

    /// Call after a save has succeeded. What is to be kept is kept while the document is used further.
    func keepVersionAfterSave() {
        guard case .every = versionPolicy.occasion, let package = openDocument?.package else {
            return
        }
        let policy = versionPolicy
        Task.detached {
            await FileQueue.copies.run { package.keepVersionAfterSave(policy) }
        }
    }
}
