public import QuireModel
public import QuireProtection
package import QuireSystem

/// How a SQLite store uses its file.
public struct SQLiteStoreOptions: Sendable {
    /// How SQLite keeps a transaction whole.
    public enum Journal: Sendable {
        /// Write-ahead log, or where the file system cannot have one (on a network), a rollback journal.
        case automatic
        /// A log beside the store while it is open. Readers never wait.
        case writeAheadLog
        /// A rollback journal that is emptied after each save.
        case rollback
    }

    /// What a save waits for.
    public enum Synchronization: Sendable {
        /// Every save is on disk when it returns, and survives power loss.
        case full
        /// The store stays whole, but **a power loss may take back the last saves** although they returned.
        case normal
    }

    /// Whether the store is opened without leaving any trace.
    public var isReadOnly = false
    /// How SQLite keeps a transaction whole.
    public var journal = Journal.automatic
    /// What a save waits for.
    public var synchronization = Synchronization.full
    /// The greatest size of the page cache of each connection, in bytes.
    public var cacheSize = 16 << 20
    /// How long to wait for another process that is writing.
    public var busyTimeout = Duration.seconds(5)
    /// How to wait for another process, instead of ``busyTimeout``, and to say so.
    package var lockWait: FileLockWait?
    /// The configuration of the model whose entities' objects the store keeps; `nil` for all entities.
    public var configuration: String?
    /// Classes to bind to the entities of the model, whether it is given or the store carries it; see
    /// ``ManagedObjectModel/bind(classes:)``.
    public var objectClasses: [any EntityClass.Type] = []
    /// Whether a store that carries no model which can be read and fits its tables, and is opened for reading only without
    /// being given one, gets a model inferred from its tables; see ``SQLiteStore/inferredModel(at:)``. A ``StoreCheck`` says
    /// what does not fit.
    public var infersModel = false
    /// The greatest size, in bytes, of a value that is kept in its row although its attribute allows external storage. A
    /// larger one is kept in a file. A value that is in the store stays where it is until it is set anew.
    ///
    /// Core Data's is the usual one. Core Data reads stores with any.
    public var externalDataThreshold = 100 * 1024
    /// Whether values in files are compared with their digests whenever they are read as a whole, which takes about as long
    /// again as reading them. Without it that is done where they are read piece by piece, verified, or checked.
    public var verifiesExternalData = false
    /// Whether saving a decimal number fails, with code `invalidValue`, if it would not come back as it is. Numbers of up
    /// to 15 digits always do. Without it others are rounded to the nearest floating-point number, as Core Data rounds
    /// them.
    ///
    /// What is computed with decimal numbers often has more digits, and so have floating-point literals that Swift makes
    /// into a `Decimal`: 19.99 becomes 19.98999999999999488. Round what is to be saved, or make it of a text.
    ///
    /// Values that the store derives, default values of new attributes in a migration, and what a batch update computes
    /// are rounded in any case.
    public var refusesInexactDecimals = false
    /// Further pragmas by name, for every connection: `["mmap_size": "268435456"]`. Names and values are words and numbers.
    /// Those by which a store could be damaged, or that the other options set, are refused when the store is opened.
    public var pragmas: [String: String] = [:]
    /// Whether SQLite gathers statistics of all indexes when the store is opened for writing, by which it chooses among
    /// them. O(*n*) in the store.
    public var analyzesWhenOpened = false
    /// Whether the file is built anew, as small as it can be, when the store is opened for writing. It takes as much space
    /// again meanwhile.
    public var vacuumsWhenOpened = false
    /// The class of protection that a new store gets. `nil` for that of ``protectionDomain``, or none if there is no domain.
    ///
    /// A store that is there keeps its class. To open it with another one fails, with code `protectionUnavailable`, unless that
    /// is `none`. In memory there are no files to protect.
    public var fileProtection: FileProtection?
    /// The domain whose keys protect a new store; `nil` for ``ProtectionDomain/default``.
    public var protectionDomain: ProtectionDomain?
    /// Further slots of a new store's keybag.
    package var protectionSlots: [NewSlot] = []
    /// The keys of the original, for opening a temporary copy of it.
    package var protection: StoreProtection?
    /// Whether a lock outside the store sees to it that no other process writes. Identifiers need not be recorded then
    /// before they are used, so that nothing is written but by saves. A store that is opened for reading only gives some
    /// out too: for objects that are saved to a copy.
    package var isOnlyWriter = false
    /// The path of the store whose external data the rows refer to, if it is another one: of a copy that is looked at or
    /// mended.
    package var externalDataOwner: String?
    /// Where to look for what was found out of a store like it.
    var schemaCache = SQLiteSchemaCache.shared

    /// The usual options.
    public init() {}
}
