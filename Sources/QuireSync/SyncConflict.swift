public import Foundation
public import Quire

/// A value that has lost: two peers changed the same property of an object without knowing of each other, or one changed an object
/// that the other deleted. Or an object that is hidden.
///
/// All peers keep the same value, and each lists the one that was lost, until somebody chooses it, or dismisses it, or a later
/// change settles it.
public struct SyncConflict: Sendable, Identifiable {
    /// The kind of conflict.
    public enum Kind: String, Sendable {
        /// Another value was kept.
        case value
        /// The object was deleted.
        case deletion
        /// The object is hidden: another one has its unique values, or something that it requires is not there. It is listed for as
        /// long as it is hidden, with its values.
        case hidden
    }

    /// The ``entityName`` of conflicts of files of additional content. A file that is chosen is written by the next round.
    public static let additionalContent = "AdditionalContent"

    /// The number of the conflict in this replica.
    public let number: Int64
    /// The number.
    public var id: Int64 { number }
    /// The object; `nil` if it has no row, because it is deleted.
    public let objectID: ManagedObjectID?
    /// The name of the object's entity; of a file, ``additionalContent``.
    public let entityName: String
    /// The name of the property; of a file, its path in the additional content. Of a hidden object it is the one that it is hidden for; several that are unique together are
    /// separated by commas.
    public internal(set) var propertyName: String
    /// The kind.
    public let kind: Kind
    /// The value that was lost. An object is null if it does not exist any more, and bytes in a file of their own are; see
    /// ``lostByteCount``.
    public let lost: AttributeValue
    /// The value that was kept; null as ``lost`` is.
    public let kept: AttributeValue
    /// When the lost value was set, by the clock of the machine that set it; of a hidden object, when it was inserted.
    public let date: Date
    /// The size of the lost value, if it is in a file of its own in the shared folder.
    public internal(set) var lostByteCount: Int64?
    /// The size of the kept value, if it is in a file of its own.
    public internal(set) var keptByteCount: Int64?
    /// The object that has the unique values of a hidden one.
    public internal(set) var hiddenBy: ManagedObjectID?
    /// The values of a hidden object, by the names of its attributes and to-one relationships; empty for other kinds.
    public internal(set) var values: [String: AttributeValue] = [:]
}
