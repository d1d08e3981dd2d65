public import Foundation
import Quire

/// How a document stands, as seen from outside.
public struct PackageStatus: Sendable {
    /// The package folder.
    public var path: String
    /// Who has it open for writing; `nil` if nobody has. Those who only read leave no trace.
    public var owner: DocumentOwner?
    /// Whether the owner has unsaved changes; `nil` if nobody has it open, or who has cannot be asked.
    public var ownerHasUnsavedChanges: Bool?
    /// Whether objects that could not be saved are kept as a draft in the store.
    public var hasDraft: Bool
    /// When it was saved last.
    public var lastSaved: Date?
    /// The generation of additional content, if there is any.
    public var generation: Int?
    /// How many versions are kept.
    public var versionCount: Int
    /// What interrupted saves have left, as paths; while it is open for writing also what its owner is about to use or
    /// remove.
    public var leftovers: [String]
}

extension DocumentPackage {
    /// Looks how a document stands. It is opened for reading only; nobody is disturbed.
    ///
    /// Not to be called on the main queue.
    ///
    /// - Throws: As ``open(at:model:readOnly:options:migrating:)``.
    public static func status(at path: String) throws -> PackageStatus {
        let owner = try owner(at: path)
        let package = try open(at: path, readOnly: true)
        defer { try? package.close() }
        let isElsewhere = owner != nil && owner?.isThisProcess == false
        return PackageStatus(
            path: package.layout.path, owner: owner,
            ownerHasUnsavedChanges: isElsewhere ? ownerHasUnsavedChanges(at: path) : nil,
            hasDraft: try package.store.draft() != nil, lastSaved: package.modificationDate,
            generation: try package.liveGeneration(),
            versionCount: try package.versions().count, leftovers: try package.leftovers())
    }
}
