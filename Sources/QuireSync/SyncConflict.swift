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

/// The result of one round of synchronization.
public struct SyncResult: Sendable {
    /// The number of files that were handed to the transport.
    public internal(set) var sentCount = 0
    /// The number of files that were merged.
    public internal(set) var receivedCount = 0
    /// The objects that were changed by others.
    public internal(set) var changes = ObjectIDChanges()
    /// The number of new conflicts.
    public internal(set) var conflictCount = 0
    /// Files that could not be merged. They are tried again the next time, and keep no others from being merged.
    public internal(set) var problems: [SyncProblem] = []
    /// The number of files of external data that have not arrived.
    public internal(set) var missingFileCount = 0
}

/// A file that could not be read.
public struct SyncProblem: Sendable {
    /// Its name in the shared folder.
    public let fileName: String
    /// The reason.
    public let error: QuireError
}

/// The progress of a replica.
public struct SyncStatus: Sendable {
    /// The shared document's identifier.
    public let container: SyncIdentifier
    /// This replica's identifier.
    public let peer: SyncIdentifier
    /// The number of files that wait to be handed to the transport.
    public let outgoingCount: Int
    /// Whether something has been saved that is not in those files yet, because there was no round since.
    public let hasNewChanges: Bool
    /// Whether objects of the store are still to be looked at for the first time.
    public let isPreparing: Bool
    /// The number of files that have been merged or written, by peer.
    public let mergedCounts: [SyncIdentifier: Int]
    /// The number of conflicts.
    public let conflictCount: Int
    /// The number of files of external data that have not arrived.
    public let missingFileCount: Int
}
