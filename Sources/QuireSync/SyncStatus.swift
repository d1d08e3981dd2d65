public import Foundation
public import Quire

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
    /// The number of files of external data, and of additional content, that have not arrived.
    public internal(set) var missingFileCount = 0
    /// Whether files of additional content were changed, which others have changed.
    public internal(set) var changesFiles = false
}

/// A file that could not be read.
public struct SyncProblem: Sendable {
    /// Its name in the shared folder. If the document is encrypted the file has another name there, which the error's message has.
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
    /// Whether the files in the shared folder are encrypted.
    public let isEncrypted: Bool
    /// The number of files that wait to be handed to the transport.
    public let outgoingCount: Int
    /// Whether something has been saved that is not in those files yet, because there was no round since.
    public let hasNewChanges: Bool
    /// Whether objects of the store are still to be looked at for the first time.
    public let isPreparing: Bool
    /// The replicas of which files are known, by identifier; this one among them once it has written a file.
    public let peers: [SyncPeerStatus]
    /// The number of conflicts.
    public let conflictCount: Int
    /// The number of files of external data, and of additional content, that have not arrived.
    public let missingFileCount: Int
}

/// The progress of a replica, by the last of its files that has arrived.
public struct SyncPeerStatus: Sendable, Identifiable {
    /// The replica's identifier.
    public let id: SyncIdentifier
    /// When it wrote its last file, by the clocks of all replicas: not earlier than what it had merged.
    public let lastDate: Date
    /// The number of its files that have been merged here; of this replica, those that it has written.
    public let mergedCount: Int
    /// The number of its files that it, or others, are known to have, and that have not been merged here: they have not arrived, or
    /// are damaged.
    public let missingCount: Int
    /// The number of files merged here that it had not merged when it wrote its last one.
    public let unseenCount: Int
    /// Whether it has left the shared document, or has been retired.
    public let isRetired: Bool
}
