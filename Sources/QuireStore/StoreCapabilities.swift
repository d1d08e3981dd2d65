/// What a store can do, and what it promises. Contexts do without what is missing where they can, and say so in an error
/// where they cannot; the conformance suite tests what is there.
public struct StoreCapabilities: OptionSet, Sendable, Hashable {
    /// One bit for each capability.
    public let rawValue: UInt32

    /// Makes a set of bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Objects can be inserted, changed and deleted.
    public static let saving = Self(rawValue: 1 << 0)
    /// A save writes everything or nothing, also if the process is killed or power fails.
    public static let atomicSaves = Self(rawValue: 1 << 1)
    /// When a save returns it survives power loss.
    public static let durableSaves = Self(rawValue: 1 << 2)
    /// What is saved is there when the store is opened again.
    public static let reopening = Self(rawValue: 1 << 3)
    /// Objects have versions, so that a save of an object which others have saved meanwhile is refused.
    public static let versions = Self(rawValue: 1 << 4)
    /// Uniqueness constraints are kept.
    public static let constraints = Self(rawValue: 1 << 5)
    /// Derived attributes are computed.
    public static let derivedAttributes = Self(rawValue: 1 << 6)
    /// Relationships keep an order.
    public static let orderedRelationships = Self(rawValue: 1 << 7)
    /// There are batch requests.
    public static let batchRequests = Self(rawValue: 1 << 8)
    /// Texts can be recorded together with a save.
    public static let records = Self(rawValue: 1 << 9)
    /// Applications can keep metadata.
    public static let metadata = Self(rawValue: 1 << 10)
    /// Requests find objects by condition. Without it the store gives all objects of an entity, and the rest is done in
    /// memory.
    public static let predicates = Self(rawValue: 1 << 11)
    /// Decimal numbers keep all of their 38 digits rather than 15.
    public static let exactDecimals = Self(rawValue: 1 << 12)
    /// Values of binary attributes may be kept in files of their own.
    public static let externalData = Self(rawValue: 1 << 13)
    /// Several processes may have the store open and save in turns.
    public static let sharing = Self(rawValue: 1 << 14)
    /// How the store finds objects can be asked.
    public static let explaining = Self(rawValue: 1 << 15)
    /// Identifiers of deleted objects are not given out again after the store has been opened anew.
    public static let lastingIdentifiers = Self(rawValue: 1 << 16)
    /// A save can be made ready and then wait before it is committed; see ``PersistentStore/save(_:beforeCommit:)``.
    public static let preparedSaves = Self(rawValue: 1 << 18)
    /// Objects keep their versions when the store is opened anew. Without it all have version 1 then.
    public static let lastingVersions = Self(rawValue: 1 << 17)
}
