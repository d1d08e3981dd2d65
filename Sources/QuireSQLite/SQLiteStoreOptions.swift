public import QuireModel
public import QuireProtection
package import QuireSystem

/// The options for opening or creating a SQLite store.
public struct SQLiteStoreOptions: Sendable {
    /// The journal mode.
    public enum Journal: Sendable {
        /// A write-ahead log, or, where the file system does not support one (on a network), a rollback journal.
        case automatic
        /// A write-ahead log beside the store while it is open. Readers never wait.
        case writeAheadLog
        /// A rollback journal that is truncated after each save.
        case rollback
    }

    /// The durability of saves.
    public enum Synchronization: Sendable {
        /// Every save is durable when it returns, and survives power loss.
        case full
        /// The store stays consistent, but **a power loss may undo the last saves** although they returned.
        case normal
    }

    /// Whether the store is opened read-only, without creating any file. With ``postsRemoteChanges`` a log is beside it while it
    /// is open.
    public var isReadOnly = false
    /// The journal mode.
    public var journal = Journal.automatic
    /// The durability of saves.
    public var synchronization = Synchronization.full
    /// The maximum size of each connection's page cache, in bytes.
    public var cacheSize = 16 << 20
    /// The maximum time to wait for another process that is writing.
    public var busyTimeout = Duration.seconds(5)
    /// A wait for other processes that reports itself, instead of ``busyTimeout``.
    package var lockWait: FileLockWait?
    /// The model configuration whose entities the store keeps; `nil` for all entities.
    public var configuration: String?
    /// Classes to bind to the model's entities, whether the model is passed or read from the store; see
    /// ``ManagedObjectModel/bind(classes:)``.
    public var objectClasses: [any EntityClass.Type] = []
    /// Whether to infer a model from the tables of a store that is opened read-only and without a model, and does not contain a
    /// readable model that matches its tables; see `SQLiteStore.inferredModel(at:)`. A `StoreCheck` of QuireRescue reports
    /// differences.
    public var infersModel = false
    /// The maximum size, in bytes, of an inline value of an attribute that allows external storage. Larger values are stored in
    /// files. A stored value stays in its place until it is set again.
    ///
    /// The default is Core Data's. Core Data reads stores with any value.
    public var externalDataThreshold = 100 * 1024
    /// Whether external values are verified against their digests when read as a whole, which about doubles the time of reading
    /// them. Otherwise they are verified only when read in pieces, on request, or by a check.
    public var verifiesExternalData = false
    /// Whether saving a decimal number fails, with code `invalidValue`, if it would not round-trip. Numbers of up
    /// to 15 digits always do. Otherwise numbers are rounded to the nearest floating-point number, as by Core Data.
    ///
    /// Results of decimal arithmetic often have more digits, and so have floating-point literals that Swift converts to a
    /// `Decimal`: 19.99 becomes 19.98999999999999488. Round values before saving, or create them from a text.
    ///
    /// Derived values, default values of new attributes in a migration, and values computed by a batch update are rounded in
    /// any case.
    public var refusesInexactDecimals = false
    /// Additional pragmas by name, for every connection: `["mmap_size": "268435456"]`. Names and values are words and numbers.
    /// Opening the store rejects pragmas that could damage it, or that other options set.
    public var pragmas: [String: String] = [:]
    /// Whether to run `ANALYZE` when the store is opened for writing, so that SQLite chooses among indexes by statistics.
    /// O(*n*) in the store. When it is closed after a save, statistics that queries need are collected in any case, from a
    /// limited number of rows, if it was made here.
    public var analyzesWhenOpened = false
    /// Whether to run `VACUUM` when the store is opened for writing, which rebuilds the file at minimal size. Temporarily needs
    /// the same space again, in memory too. `SQLiteStore.compact()` does the same for an open store.
    public var vacuumsWhenOpened = false
    /// Whether every save and batch request is recorded in the store's history, in Core Data's tables; see
    /// ``PersistentHistoryChangeRequest``. A store with a history keeps it regardless of this option.
    ///
    /// A store with a history can only be written by Core Data apps that track history too; for other apps it is read-only.
    public var tracksHistory = false { didSet { leavesForeignHistory = false } }
    /// Whether a history is neither begun nor limited in a store that Core Data made: that is for the app it belongs to.
    package var leavesForeignHistory = false
    /// The age at which transactions of the history are deleted, regardless of who recorded them; `nil` to keep them.
    ///
    /// They are deleted in the transaction of a recorded save: the first after the store was opened, and every thousandth. The
    /// age is counted from the present time, or from the transactions before that save if the clock is ahead of them: a save
    /// while the clock is wrong does not delete the history.
    public var maximumHistoryAge: Duration?
    /// The size of the history, in bytes, above which its oldest transactions are deleted, as with ``maximumHistoryAge``; `nil`
    /// to keep them. The last transaction stays. See ``PersistentHistoryChangeRequest/deleteHistory(keepingLastBytes:)``.
    public var maximumHistorySize: Int?
    /// Whether a coordinator of the store reports changes by other processes and other coordinators.
    ///
    /// A store that is opened read-only sees their changes only with this option, unless it was already open elsewhere; and not
    /// in a folder that cannot be written, where no log can be shared.
    public var postsRemoteChanges = false
    /// The time after which a query generation expires, with code `generationExpired`. Its reader prevents checkpoints, so the
    /// log grows with every save.
    public var maximumQueryGenerationAge = Duration.seconds(600)
    /// The size by which the log may grow, in bytes, before a query generation expires.
    public var maximumQueryGenerationLogSize = 256 << 20
    /// The protection class of a new store. `nil` for that of ``protectionDomain``, or none if no domain is set.
    ///
    /// An existing store keeps its class. Opening it with a different one fails with code `protectionUnavailable`, unless that is
    /// `none`. In-memory stores have no files to protect.
    public var fileProtection: FileProtection?
    /// The domain whose keys protect a new store; `nil` for ``ProtectionDomain/default``.
    public var protectionDomain: ProtectionDomain?
    /// Additional slots of a new store's keybag.
    package var protectionSlots: [NewSlot] = []
    /// The provider of a service that runs while a coordinator has the store; of a type that modules above declare.
    package var serviceProvider: (any Sendable)?
    /// The keys of the original, for opening a temporary copy of it.
    package var protection: StoreProtection?
    /// Whether a lock outside the store excludes other writing processes. Identifiers then need not be recorded before use, so
    /// that only saves write. A read-only store reserves identifiers too, for objects that are saved to a copy.
    package var isOnlyWriter = false
    /// The path of the store that owns the external data, if it differs: for a copy that is inspected or repaired.
    package var externalDataOwner: String?
    /// The cache of schemas of identical stores.
    var schemaCache = SQLiteSchemaCache.shared

    /// Creates the default options.
    public init() {}

    /// The options for reading a store, also without a model that fits it if one is to be inferred then.
    package static func reading(inferringModel infersModel: Bool = false) -> SQLiteStoreOptions {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        options.infersModel = infersModel
        return options
    }
}
