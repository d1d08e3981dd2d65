public import Foundation
public import Quire

/// A value that has lost: two peers changed the same property of an object without knowing of each other, or one changed an object
/// that the other deleted.
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
    }

    /// The number of the conflict in this replica.
    public let number: Int64
    /// The number.
    public var id: Int64 { number }
    /// The object; `nil` if it has no row, because it is deleted.
    public let objectID: ManagedObjectID?
    /// The name of the object's entity.
    public let entityName: String
    /// The name of the property.
    public let propertyName: String
    /// The kind.
    public let kind: Kind
    /// The value that was lost. An object is null if it does not exist any more.
    public let lost: AttributeValue
    /// The value that was kept.
    public let kept: AttributeValue
    /// When the lost value was set, by the clock of the machine that set it.
    public let date: Date
}
