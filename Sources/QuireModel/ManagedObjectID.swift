import Foundation
internal import QuireSystem

/// Identifies an object of a store, or an unsaved one.
///
/// Identifiers are values, valid in all contexts: pass one to another context to get its object. The identifier of a new
/// object ``isTemporaryID``; saving replaces it by a permanent one, which never changes and is never reused in the store.
/// ``uriRepresentation`` has Core Data's form, `x-coredata://STORE-UUID/Entity/p12`.
public struct ManagedObjectID: Sendable {
    /// Bit 63: temporary. Bits 48–62: entity number. Bits 40–47: store number within the coordinator. Bits 0–39: primary
    /// key.
    @usableFromInline package let bits: UInt64
    /// The identity of the object's store.
    @usableFromInline package let store: StoreIdentity

    @inlinable package init(bits: UInt64, store: StoreIdentity) {
        self.bits = bits
        self.store = store
    }

    /// The maximum primary key.
    @inlinable package static var maximumPrimaryKey: Int64 { (1 << 40) - 1 }
    /// The maximum store number.
    static let maximumStoreNumber = (1 << 8) - 1
    @inlinable package static var storeNumberShift: UInt64 { 40 }
    @inlinable package static var storeNumberMask: UInt64 { 0xFF << storeNumberShift }
    /// The maximum entity number.
    @inlinable package static var maximumEntityNumber: Int { (1 << 15) - 1 }

    /// Makes the identifier of a stored object.
    ///
    /// - Precondition: The number and the key are within the bounds above and not negative. Stores check the values they
    ///   read before calling this.
    package init(entityNumber: Int, primaryKey: Int64, store: StoreIdentity) {
        precondition(
            entityNumber >= 0 && entityNumber <= Self.maximumEntityNumber
                && primaryKey >= 0 && primaryKey <= Self.maximumPrimaryKey,
            "ManagedObjectID: entity number \(entityNumber) or primary key \(primaryKey) out of range."
        )
        self.bits = UInt64(entityNumber) << 48 | store.numberBits | UInt64(primaryKey)
        self.store = store
    }

    /// Makes the identifier of a new object. `serial` is unique within the process.
    package init(temporaryOf entityNumber: Int, serial: UInt64, model: StoreIdentity) {
        self.bits = 1 << 63 | UInt64(entityNumber) << 48 | serial
        self.store = model
    }

    /// Whether the object is unsaved.
    @inlinable public var isTemporaryID: Bool { bits >> 63 == 1 }

    /// The number of the object's entity in the model, from 1.
    @inlinable package var entityNumber: Int { Self.entityNumber(of: bits) }

    /// The object's primary key in its table.
    @inlinable package var primaryKey: Int64 { Int64(bits & 0xFF_FFFF_FFFF) }

    /// The entity number encoded in an identifier's bits.
    @inlinable @inline(__always)
    package static func entityNumber(of bits: UInt64) -> Int { Int(bits >> 48 & 0x7FFF) }

    /// The store number encoded in an identifier's bits.
    @inlinable @inline(__always)
    package static func storeNumber(of bits: UInt64) -> Int {
        Int((bits & storeNumberMask) >> storeNumberShift)
    }

    /// The name of the object's entity.
    public var entityName: String { store.entityName(of: entityNumber) }

    /// The UUID of the store that contains the object; `nil` for a temporary identifier.
    public var storeUUID: String? { isTemporaryID ? nil : store.uuid(of: bits) }

    /// `Entity/p12`, which names the object within its store, or `Entity/t12` for a temporary identifier. An object of an
    /// `IncrementalStore` that knows it by a text, a UUID, data or an integer has that in its place: `Entity/text:lyon`.
    public var shortDescription: String { text(after: "") }

    private func text(after prefix: String) -> String {
        // Each row of a listing has one.
        var text = prefix
        text += entityName
        text += "/"
        if let name = referenceObjects?.name(of: primaryKey) {
            text += name
        } else {
            text += isTemporaryID ? "t" : "p"
            text += String(primaryKey)
        }
        return text
    }

    /// The reference objects of its store, if its primary key may stand for one.
    private var referenceObjects: ReferenceObjects? {
        guard !isTemporaryID, primaryKey >= ReferenceObjects.firstMappedKey else { return nil }
        return .existing(forStore: store.uuid(of: bits))
    }

    /// Core Data's form: `x-coredata://STORE-UUID/Entity/p12`, or `x-coredata:///Entity/t12-5F3A90C1` for a temporary
    /// identifier, which has a meaning in this process only. That of a permanent identifier has the same meaning whenever the
    /// store is open.
    public var uriRepresentation: String {
        guard isTemporaryID else {
            var prefix = Self.scheme
            prefix.reserveCapacity(prefix.utf8.count + 40 + entityName.utf8.count + 16)
            prefix += store.uuid(of: bits)
            prefix += "/"
            return text(after: prefix)
        }
        return "x-coredata:///\(shortDescription)-\(Self.processToken)"
    }

    /// Distinguishes this process's temporary identifiers from another's in their URIs.
    private static let processToken: String = {
        let digits = String(UInt32.random(in: 0...UInt32.max), radix: 16, uppercase: true)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }()
}

extension ManagedObjectID: Hashable, CustomStringConvertible {
    /// Whether both identify the same object. Identifiers read from the same store opened twice are equal. Temporary ones
    /// are unique in the process.
    @inlinable public static func == (left: ManagedObjectID, right: ManagedObjectID) -> Bool {
        if left.store === right.store || left.isTemporaryID { return left.bits == right.bits }
        return left.isSameElsewhere(right)
    }

    /// Compares with an identifier of another store identity or coordinator.
    @usableFromInline
    func isSameElsewhere(_ other: ManagedObjectID) -> Bool {
        (bits ^ other.bits) & ~Self.storeNumberMask == 0
            && store.uuid(of: bits) == other.store.uuid(of: other.bits)
    }

    /// Feeds the identifier into a hasher.
    @inlinable public func hash(into hasher: inout Hasher) {
        // The same store may have another number in another coordinator.
        hasher.combine(bits & ~0xFF00_0000_0000)
    }

    /// The hash by which sets and dictionaries place it: a product, because a `Hasher` takes ten times as long for so few bits.
    /// Its factors are random for each process, so that nobody can craft a store whose identifiers collide.
    @inlinable public func _rawHashValue(seed: Int) -> Int {
        let secret = Self.hashSecret
        let word = bits & ~0xFF00_0000_0000 ^ UInt64(truncatingIfNeeded: seed) ^ secret.addend
        let product = word.multipliedFullWidth(by: secret.factor)
        return Int(truncatingIfNeeded: product.high ^ product.low)
    }

    /// As random as the hashes of this process.
    @usableFromInline static let hashSecret: (addend: UInt64, factor: UInt64) = {
        func word(_ number: Int) -> UInt64 {
            var hasher = Hasher()
            hasher.combine(number)
            return UInt64(truncatingIfNeeded: hasher.finalize())
        }
        return (word(1), word(2) | 1)
    }()

    /// The URI.
    public var description: String { uriRepresentation }
}

// MARK: - Texts

extension ManagedObjectID {
    /// The scheme of URIs.
    package static let scheme = "x-coredata://"

    /// Parses an identifier: a URI, `x-coredata://STORE-UUID/Entity/p12`, or `Entity/p12`. The object need not exist. The URI of
    /// a temporary identifier gives the permanent one that has replaced it.
    ///
    /// - Parameter storeBits: For a text that names no store: the ``StoreIdentity/numberBits`` of the store that keeps objects of an
    ///   entity; `nil` for those of `store`.
    /// - Throws: ``QuireError`` with code `invalidValue` if the text has neither form, `unknownEntity` if the model has no
    /// such entity, or `notFound` if the URI's store does not belong to the same coordinator, or the object of a temporary
    /// identifier was not saved through it.
    package init(
        parsing text: String, in layout: ResolvedModel, store: StoreIdentity,
        storeBits: (ResolvedEntity) -> UInt64? = { _ in nil }
    ) throws {
        var rest = Substring(text)
        var named: UInt64?
        if rest.hasPrefix(Self.scheme) {
            rest = rest.dropFirst(Self.scheme.count)
            guard let slash = rest.firstIndex(of: "/") else { throw Self.malformed(text) }
            if slash == rest.startIndex, let id = try Self.temporaryID(rest.dropFirst(), in: layout)
            {
                guard let bits = store.stores.replacedIdentifiers[id] else {
                    throw QuireError(
                        .notFound,
                        "“\(text)” is a temporary identifier of an object that this process has not saved.",
                        subject: .init(object: text))
                }
                self.init(bits: bits, store: store)
                return
            }
            guard let number = store.stores.number(of: rest[..<slash].uppercased()) else {
                throw QuireError(
                    .notFound,
                    "“\(text)” identifies an object in another store; the UUID of this store is \(store.uuid).",
                    subject: .init(object: text))
            }
            named = UInt64(number) << Self.storeNumberShift
            rest = rest[rest.index(after: slash)...]
        }
        let parts = rest.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { throw Self.malformed(text) }
        let object = ReferenceObjects.object(named: parts[1])
        let number = parts[1].first == "p" ? Int64(parts[1].dropFirst()) : nil
        guard object != nil || (1...Self.maximumPrimaryKey).contains(number ?? 0) else {
            throw Self.malformed(text)
        }
        let entity = try layout.requireEntity(named: String(parts[0]))
        let place = named ?? storeBits(entity) ?? store.numberBits
        let references = ReferenceObjects.existing(forStore: store.uuid(of: place))
        let key: Int64
        if let object, let references {
            let root = layout.entity(number: entity.rootNumber).name
            key = references.primaryKey(for: object, root: root)
        } else if let number, references?.name(of: number) == nil {
            key = number
        } else {
            // The number of an object with a name, too: in another process it may be another object's.
            throw Self.malformed(text)
        }
        self.init(bits: UInt64(entity.number) << 48 | place | UInt64(key), store: store)
    }

    /// The bits of a temporary identifier of this process, from the end of its URI; 0 if it is another process's, and `nil` if
    /// the text has another form.
    private static func temporaryID(_ text: Substring, in layout: ResolvedModel) throws -> UInt64? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].first == "t" else { return nil }
        let number = parts[1].dropFirst().split(separator: "-", omittingEmptySubsequences: false)
        guard number.count == 2, let serial = UInt64(number[0]), serial <= maximumPrimaryKey else {
            return nil
        }
        let entity = try layout.requireEntity(named: String(parts[0]))
        return number[1] == processToken ? 1 << 63 | UInt64(entity.number) << 48 | serial : 0
    }

    private static func malformed(_ text: String) -> QuireError {
        // `Book/12`
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        let meant =
            parts.count == 2 && !parts[0].isEmpty && UInt64(parts[1]) != nil
            ? "\(parts[0])/p\(parts[1])" : "Entity/p12 or x-coredata://STORE-UUID/Entity/p12"
        return QuireError(
            .invalidValue, "“\(text)” is not an object identifier; write \(meant).",
            subject: .init(object: text))
    }
}

// MARK: - Coding

/// A resolver of identifiers from their texts.
package protocol ObjectIDReading {
    func objectID(for text: String) throws -> ManagedObjectID
}

extension CodingUserInfoKey {
    /// The decoder's `PersistentStoreCoordinator` that resolves the identifiers it decodes.
    public static let persistentStoreCoordinator: CodingUserInfoKey = {
        guard let key = CodingUserInfoKey(rawValue: "de.quire.persistentStoreCoordinator") else {
            preconditionFailure("CodingUserInfoKey accepts every string.")
        }
        return key
    }()
}

/// Identifiers are encoded as their URIs. Foundation's predicates can capture only encodable values.
///
/// ```swift
/// let decoder = JSONDecoder()
/// decoder.userInfo[.persistentStoreCoordinator] = container.coordinator
/// let id = try decoder.decode(ManagedObjectID.self, from: data)
/// ```
extension ManagedObjectID: Codable {
    /// Encodes the URI of the identifier, or of the permanent identifier if the object was saved since.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the identifier is temporary, because it is meaningless
    ///   elsewhere.
    public func encode(to encoder: any Encoder) throws {
        let current = current
        guard !current.isTemporaryID else {
            throw QuireError(
                .invalidState,
                "\(shortDescription) is a temporary identifier; save the object before it is encoded.",
                entity: entityName, object: uriRepresentation)
        }
        var container = encoder.singleValueContainer()
        try container.encode(current.uriRepresentation)
    }

    /// Decodes a URI.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the decoder has no coordinator under
    ///   `CodingUserInfoKey.persistentStoreCoordinator`, or the coordinator's error for the URI.
    public init(from decoder: any Decoder) throws {
        guard let source = decoder.userInfo[.persistentStoreCoordinator] as? any ObjectIDReading
        else {
            throw QuireError(
                .invalidState,
                "Decoding an object identifier requires a coordinator; set the decoder's userInfo for the key "
                    + "CodingUserInfoKey.persistentStoreCoordinator.")
        }
        self = try source.objectID(for: decoder.singleValueContainer().decode(String.self))
    }
}

// MARK: - Runs of identifiers

/// Identifiers in insertion order, run-length encoded: consecutive ones, as of objects saved together, take the space of
/// one.
package struct ObjectIDRuns: Sequence, Sendable {
    fileprivate struct Run {
        var first: ManagedObjectID
        var count: UInt64
    }

    private var runs: [Run] = []
    /// The number of identifiers.
    package private(set) var count = 0

    /// Creates a list of identifiers.
    package init(_ objectIDs: some Sequence<ManagedObjectID> = EmptyCollection()) {
        for objectID in objectIDs { append(objectID) }
    }

    /// The number of runs, for tests.
    package var runCount: Int { runs.count }

    /// Adds an identifier at the end.
    package mutating func append(_ objectID: ManagedObjectID) {
        count += 1
        if let last = runs.last, last.first.bits + last.count == objectID.bits,
            last.first.store === objectID.store
        {
            runs[runs.count - 1].count += 1
        } else {
            runs.append(Run(first: objectID, count: 1))
        }
    }

    /// The number of objects of each entity, by its name.
    package var countsByEntity: [String: Int] {
        var counts: [String: Int] = [:]
        for run in runs { counts[run.first.entityName, default: 0] += Int(run.count) }
        return counts
    }

    package struct Iterator: IteratorProtocol {
        fileprivate let runs: [Run]
        private var run = 0
        private var offset: UInt64 = 0

        fileprivate init(runs: [Run]) { self.runs = runs }

        package mutating func next() -> ManagedObjectID? {
            guard run < runs.count else { return nil }
            let current = runs[run]
            defer {
                offset += 1
                if offset == current.count { (run, offset) = (run + 1, 0) }
            }
            return ManagedObjectID(bits: current.first.bits + offset, store: current.first.store)
        }
    }

    package func makeIterator() -> Iterator { Iterator(runs: runs) }
}
