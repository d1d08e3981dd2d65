public import Foundation
public import Quire

/// The result of one round of synchronization.
public struct SyncResult: Sendable {
    /// The number of files that were handed to the transport.
    public internal(set) var sentCount = 0
    /// The number of files that were merged.
    public internal(set) var receivedCount = 0
    /// The objects that other replicas changed.
    public internal(set) var changes = ObjectIDChanges()
    /// The number of new conflicts.
    public internal(set) var conflictCount = 0
    /// Files that could not be merged. They are tried again in the next round, and do not prevent other files from being merged.
    public internal(set) var problems: [SyncProblem] = []
    /// The number of files of external data, and of additional content, that have not arrived.
    public internal(set) var missingFileCount = 0
    /// Whether files of additional content were changed here because other replicas changed them.
    public internal(set) var changesFiles = false
}

/// A file that could not be read.
public struct SyncProblem: Sendable {
    /// Its name in the shared folder. If the document is encrypted, the file has another name there, which is in the error's
    /// message.
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
    /// The number of files waiting for the transport.
    public let outgoingCount: Int
    /// Whether changes have been saved since the last round that are not in those files yet.
    public let hasNewChanges: Bool
    /// Whether some objects of the store have not been captured for the first time yet.
    public let isPreparing: Bool
    /// The replicas with known files, by identifier; this one among them once it has written a file.
    public let peers: [SyncPeerStatus]
    /// The number of conflicts.
    public let conflictCount: Int
    /// The number of files of external data, and of additional content, that have not arrived.
    public let missingFileCount: Int
}

/// The progress of a replica, from the last of its files that has arrived.
public struct SyncPeerStatus: Sendable, Identifiable {
    /// The replica's identifier.
    public let id: SyncIdentifier
    /// When it wrote its last file, by the clocks of all replicas: not earlier than what it had merged.
    public let lastDate: Date
    /// The number of its files that have been merged here; for this replica, the number that it has written.
    public let mergedCount: Int
    /// The number of its files that have not been merged here, although it or other replicas are known to have them: they have
    /// not arrived, or are damaged.
    public let missingCount: Int
    /// The number of files merged here that it had not merged when it wrote its last one.
    public let unseenCount: Int
    /// Whether it has left the shared document, or has been retired.
    public let isRetired: Bool
}
