public import Foundation
public import Quire

/// How a document stands, as seen from outside.
public struct PackageStatus: Sendable {
    /// The package folder.
    public var path: String
    /// Who has it open for writing; `nil` if nobody has. Those who only read leave no trace.
    public var owner: DocumentOwner?
    /// Whether the owner has unsaved changes; `nil` if nobody has it open, or who has cannot be asked.
    public var ownerHasUnsavedChanges: Bool?
    /// The class of protection.
    public var fileProtection: FileProtection
    /// Whether it is protected and cannot be read by this process now.
    public var isLocked: Bool
    /// Whether objects that could not be saved are kept as a draft in the store; `nil` if it is locked.
    public var hasDraft: Bool?
    /// When it was saved last.
    public var lastSaved: Date?
    /// The generation of additional content, if there is any; `nil` also if it is locked.
    public var generation: Int?
    /// How many versions are kept.
    public var versionCount: Int
    /// What interrupted saves have left, as paths; while it is open for writing also what its owner is about to use or
    /// remove. `nil` if it is locked.
    public var leftovers: [String]?
}

extension DocumentPackage {
    /// Looks how a document stands. It is opened for reading only; nobody is disturbed. Of one that is locked is said what can
    /// be told without a key.
    ///
    /// Not to be called on the main queue.
    ///
    /// - Throws: As ``open(at:model:readOnly:options:migrating:)``, but for `protectedDataUnavailable`.
    public static func status(at path: String) throws -> PackageStatus {
        let layout = DocumentPackageLayout(path: path)
        let owner = try owner(at: path)
        let isElsewhere = owner != nil && owner?.isThisProcess == false
        let package: DocumentPackage?
        do { package = try open(at: path, readOnly: true) } catch let error as QuireError
            where error.code == .protectedDataUnavailable
        {
            package = nil
        }
        defer { try? package?.close() }
        return PackageStatus(
            path: layout.path, owner: owner,
            ownerHasUnsavedChanges: isElsewhere ? ownerHasUnsavedChanges(at: path) : nil,
            fileProtection: try fileProtection(at: path), isLocked: package == nil,
            hasDraft: try package.map { try $0.store.draft() != nil },
            lastSaved: modificationDate(of: layout), generation: try package?.liveGeneration(),
            versionCount: try VersionStore(layout: layout, protection: nil).ids().count,
            leftovers: try package?.leftovers())
    }
}
