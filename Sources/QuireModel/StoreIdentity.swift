internal import QuireSystem
internal import Synchronization

/// The shared part of a store's object identifiers: the store's UUID, its entity names, and, if a coordinator has several
/// stores, its number among them.
///
/// Within a coordinator the bits of an identifier include the store number, so bits alone are a unique key across stores.
/// The number is authoritative, regardless of the store identity in an identifier.
public final class StoreIdentity: Sendable {
    /// The store's UUID in upper case.
    public let uuid: String
    /// The names of the model's entities by their numbers less one.
    let entityNames: [String]
    /// The store's number within its coordinator, at its position in an identifier's bits.
    private let number = Atomic<UInt64>(0)
    private let family: Lock<StoreFamily>
    /// For temporary identifiers: the store identity of the permanent ones that replace them.
    private let permanent: StoreIdentity?

    /// Describes a store without a coordinator.
    public init(uuid: String, entityNames: [String]) {
        self.uuid = uuid
        self.entityNames = entityNames
        family = Lock(StoreFamily(uuid))
        permanent = nil
    }

    /// The identity of the temporary identifiers of a coordinator's new objects.
    package init(temporaryIn permanent: StoreIdentity) {
        uuid = ""
        entityNames = permanent.entityNames
        family = Lock(StoreFamily(""))
        self.permanent = permanent
    }

    /// The bits of this store's identifiers besides entity and primary key.
    @inline(__always)
    package var numberBits: UInt64 { number.load(ordering: .relaxed) }

    func entityName(of number: Int) -> String {
        number >= 1 && number <= entityNames.count ? entityNames[number - 1] : "?"
    }

    /// The stores that belong to the same coordinator.
    package var stores: StoreFamily { family.withLock { $0 } }

    /// Whether an identifier belongs to an object of this store.
    package func owns(_ id: ManagedObjectID) -> Bool {
        if id.isTemporaryID { return false }
        if id.store === self, id.bits & ManagedObjectID.storeNumberMask == numberBits {
            return true
        }
        return id.store.uuid(of: id.bits) == uuid
    }

    /// Whether it is the only store that its coordinator has had.
    package var isAlone: Bool { stores.count == 1 }

    /// Adds the store to a coordinator's family. None of its objects may have been read yet.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the store numbers are exhausted.
    package func join(_ other: StoreIdentity) throws {
        let stores = other.stores
        let place = try stores.number(adding: uuid)
        family.withLock { $0 = stores }
        number.store(UInt64(place) << ManagedObjectID.storeNumberShift, ordering: .relaxed)
    }

    /// The UUID of the store encoded in an identifier's bits.
    func uuid(of bits: UInt64) -> String { stores.uuid(of: ManagedObjectID.storeNumber(of: bits)) }

    /// The permanent identifier that has replaced a temporary one of this identity.
    fileprivate func replacement(of temporary: UInt64) -> ManagedObjectID? {
        guard let permanent,
            let bits = permanent.stores.replacedIdentifiers[temporary]
        else { return nil }
        return ManagedObjectID(bits: bits, store: permanent)
    }

    /// An identifier with this coordinator's store number, and permanent if its object was saved; `nil` if it belongs to none
    /// of its stores.
    package func adopting(_ id: ManagedObjectID) -> ManagedObjectID? {
        let id = id.current
        if id.store === self || id.isTemporaryID { return id }
        guard let place = stores.number(of: id.store.uuid(of: id.bits)) else { return nil }
        return ManagedObjectID(
            bits: id.bits & ~ManagedObjectID.storeNumberMask
                | UInt64(place) << ManagedObjectID.storeNumberShift, store: self)
    }
}

extension ManagedObjectID {
    /// The permanent identifier, if this is a temporary one whose object was saved since; otherwise itself.
    ///
    /// Whatever takes identifiers from a program looks here first.
    package var current: ManagedObjectID {
        isTemporaryID ? store.replacement(of: bits) ?? self : self
    }
}

/// All stores that a coordinator has had, by number. Numbers are not reused after a store is removed, because identifiers
/// may outlive it.
package final class StoreFamily: Sendable {
    private let uuids: Lock<[String]>
    /// The permanent identifiers of objects that were new in the coordinator's contexts.
    package let replacedIdentifiers = ReplacedIdentifiers()

    init(_ uuid: String) { uuids = Lock([uuid]) }

    func uuid(of number: Int) -> String {
        uuids.withLock { number < $0.count ? $0[number] : "" }
    }

    var count: Int { uuids.withLock(\.count) }

    package func number(of uuid: String) -> Int? { uuids.withLock { $0.firstIndex(of: uuid) } }

    /// The number of a store, possibly one added before.
    func number(adding uuid: String) throws -> Int {
        try uuids.withLock { uuids in
            if let known = uuids.firstIndex(of: uuid) { return known }
            guard uuids.count <= ManagedObjectID.maximumStoreNumber else {
                throw QuireError(
                    .unsupported,
                    "A coordinator can add at most \(ManagedObjectID.maximumStoreNumber + 1) stores in its "
                        + "lifetime; create another coordinator.")
            }
            uuids.append(uuid)
            return uuids.count - 1
        }
    }
}
