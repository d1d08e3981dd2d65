public import Foundation
public import Quire

/// A value that lost a conflict, or a hidden object.
///
/// Two peers changed the same property of an object concurrently, or one changed an object that the other deleted. All peers keep
/// the same value, and each lists the lost one until it is chosen or dismissed, or until a later change settles the conflict.
public struct SyncConflict: Sendable, Identifiable {
    /// The kind of conflict.
    public enum Kind: String, Sendable {
        /// Another value was kept.
        case value
        /// The object was deleted.
        case deletion
        /// The object is hidden because another one has its unique values, or an object that it requires does not exist. It is
        /// listed with its values while it is hidden.
        case hidden
    }

    /// The ``entityName`` of conflicts of additional content files. The next round writes a chosen file.
    public static let additionalContent = "AdditionalContent"

    /// The number of the conflict in this replica.
    public let number: Int64
    /// The number.
    public var id: Int64 { number }
    /// The object; `nil` if it has no row, because it is deleted.
    public let objectID: ManagedObjectID?
    /// The name of the object's entity; of a file, ``additionalContent``.
    public let entityName: String
    /// The name of the property. For a file, its path in the additional content. For a hidden object, the property that it is
    /// hidden for; properties that are unique together are separated by commas.
    public internal(set) var propertyName: String
    /// The kind.
    public let kind: Kind
    /// The value that was lost. A reference to an object that no longer exists is null, and so are bytes in a separate file; see
    /// ``lostByteCount``.
    public let lost: AttributeValue
    /// The value that was kept; null in the same cases as ``lost``.
    public let kept: AttributeValue
    /// When the lost value was set, by the clock of the machine that set it; for a hidden object, when it was inserted.
    public let date: Date
    /// The size of the lost value, if it is in a separate file in the shared folder.
    public internal(set) var lostByteCount: Int64?
    /// The size of the kept value, if it is in a separate file.
    public internal(set) var keptByteCount: Int64?
    /// The object that has the unique values of a hidden one.
    public internal(set) var hiddenBy: ManagedObjectID?
    /// The values of a hidden object, by the names of its attributes and to-one relationships; empty for other kinds.
    public internal(set) var values: [String: AttributeValue] = [:]
}
