import Crypto
public import Foundation
internal import QuireSystem

/// Hashes that determine whether a store's data fit a model.
///
/// A store keeps a hash of 32 bytes for each entity (`NSStoreModelVersionHashes`), and opens with a model with the same
/// hashes. Core Data's algorithm is not public, so stores made by Core Data keep their hashes, and these are Quire's, for
/// stores made by Quire.
///
/// The hash of an entity is the SHA-256 of what follows, in this order. A *text* is its number of bytes in
/// UTF-8 as 4 bytes, most significant first, and these bytes; a text that may be missing is a byte 0, or a byte
/// 1 and the text (an empty one counts as missing); a *truth value* is a byte 0 or 1; a *number* is 8 bytes, most
/// significant first.
///
/// 1. The text `quire-entity/1`.
/// 2. The entity's name; whether it is abstract; its version hash modifier, which may be missing.
/// 3. A truth value, whether there is a superentity; then its hash (32 bytes).
/// 4. The number of the entity's stored properties, inherited ones excluded, and these, sorted by the bytes of their names.
/// Transient and fetched properties are not stored.
///     - An attribute: the text `a`; name; version hash modifier, which may be missing; whether it is optional;
///       the code of its type as a number; whether values may be kept outside; its derivation expression, which
///       may be missing. A composite attribute then has the SHA-256 of the text `quire-composite/1`, the number of
///       the composite's elements and these, as attributes, in the order of the composite.
///     - A relationship: the text `r`; name; version hash modifier, which may be missing; whether it is optional;
///       the name of the destination; the name of the inverse, which may be missing; whether it is to-many;
///       whether it is ordered; the minimum and maximum count and the code of the delete rule as numbers.
///
/// As with Core Data, classes, default values, validation, indexes, user info and renaming identifiers do not affect the
/// hash. Unlike Core Data's documented hashes, external storage, order and derivation do: they change the stored data.
extension ManagedObjectModel {
    /// The hash of every entity by name. Of duplicate names, which no valid model has, the first is used.
    public func entityVersionHashes() -> [String: Data] {
        let entities = Dictionary(
            self.entities.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        let composites = Dictionary(
            self.composites.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        var hashes: [String: Data] = [:]
        var hasher = VersionHasher(composites: composites)
        for entity in self.entities {
            // From the topmost unhashed superentity downwards.
            var pending: [EntityDescription] = []
            var names: Set<String> = []
            var next: EntityDescription? = entities[entity.name]
            while let current = next, hashes[current.name] == nil,
                names.insert(current.name).inserted
            {
                pending.append(current)
                next = current.superentityName.flatMap { entities[$0] }
            }
            while let current = pending.popLast() {
                hashes[current.name] = hasher.hash(
                    of: current, superentityHash: current.superentityName.flatMap { hashes[$0] })
            }
        }
        return hashes
    }

    /// The digest of a model's hashes in store metadata (`NSStoreModelVersionHashesDigest`): the SHA-512 of each entity's
    /// name and hash, sorted by the bytes of the names, in base64.
    public static func versionHashesDigest(of hashes: [String: Data]) -> String {
        var function = SHA512()
        for (name, hash) in sorted(hashes) {
            function.update(data: Data(name.utf8))
            function.update(data: hash)
        }
        return Data(function.finalize()).base64EncodedString()
    }

    /// The checksum of a model's hashes in store metadata (`NSStoreModelVersionChecksumKey`): the SHA-256 of the hashes,
    /// sorted by the bytes of the entities' names, in base64.
    public static func versionChecksum(of hashes: [String: Data]) -> String {
        var function = SHA256()
        for (_, hash) in sorted(hashes) { function.update(data: hash) }
        return Data(function.finalize()).base64EncodedString()
    }

    private static func sorted(_ hashes: [String: Data]) -> [(key: String, value: Data)] {
        hashes.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    }
}

/// Hashes entities, and each composite once.
private struct VersionHasher {
    let composites: [String: CompositeDescription]
    private var compositeHashes: [String: Data] = [:]
    /// The bytes to hash.
    private var bytes: [UInt8] = []

    init(composites: [String: CompositeDescription]) { self.composites = composites }

    mutating func hash(of entity: EntityDescription, superentityHash: Data?) -> Data {
        // Composites are hashed separately, so they come first.
        for attribute in entity.attributes { hashComposite(of: attribute, depth: 1) }
        bytes.removeAll(keepingCapacity: true)
        add("quire-entity/1")
        add(entity.name)
        add(entity.isAbstract)
        add(optional: entity.versionHashModifier)
        add(superentityHash != nil)
        bytes.append(contentsOf: superentityHash ?? Data())
        let properties = entity.properties.filter(Self.isStored).sorted {
            $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
        }
        add(properties.count)
        for property in properties {
            switch property {
            case .attribute(let attribute): add(attribute)
            case .relationship(let relationship): add(relationship)
            case .fetched: break
            }
        }
        return Data(SHA256.hash(data: bytes))
    }

    private mutating func hashComposite(of attribute: AttributeDescription, depth: Int) {
        guard attribute.type == .composite, let name = attribute.compositeName,
            compositeHashes[name] == nil
        else { return }
        // Ends a cycle, which an unvalidated model may have.
        compositeHashes[name] = Data()
        guard depth <= ModelValidation.maximumDepth else { return }
        let elements = composites[name]?.elements ?? []
        for element in elements { hashComposite(of: element, depth: depth + 1) }
        bytes.removeAll(keepingCapacity: true)
        add("quire-composite/1")
        add(elements.count)
        for element in elements { add(element) }
        compositeHashes[name] = Data(SHA256.hash(data: bytes))
    }

    private static func isStored(_ property: PropertyDescription) -> Bool {
        switch property {
        case .attribute(let attribute): !attribute.isTransient
        case .relationship(let relationship): !relationship.isTransient
        case .fetched: false
        }
    }

    private mutating func add(_ attribute: AttributeDescription) {
        add("a")
        add(attribute.name)
        add(optional: attribute.versionHashModifier)
        add(attribute.isOptional)
        add(attribute.type.rawValue)
        add(attribute.allowsExternalBinaryDataStorage)
        add(optional: attribute.derivationExpression)
        if attribute.type == .composite {
            bytes.append(contentsOf: compositeHashes[attribute.compositeName ?? ""] ?? Data())
        }
    }

    private mutating func add(_ relationship: RelationshipDescription) {
        add("r")
        add(relationship.name)
        add(optional: relationship.versionHashModifier)
        add(relationship.isOptional)
        add(relationship.destinationEntityName)
        add(optional: relationship.inverseName)
        add(relationship.isToMany)
        add(relationship.isOrdered)
        add(relationship.minimumCount)
        add(relationship.maximumCount)
        add(relationship.deleteRule.rawValue)
    }

    private mutating func add(_ text: String) {
        let utf8 = text.utf8
        bytes.append(bigEndian: UInt32(truncatingIfNeeded: utf8.count))
        bytes.append(contentsOf: utf8)
    }

    private mutating func add(optional text: String?) {
        guard let text, !text.isEmpty else {
            bytes.append(0)
            return
        }
        bytes.append(1)
        add(text)
    }

    private mutating func add(_ truth: Bool) { bytes.append(truth ? 1 : 0) }

    private mutating func add(_ number: Int) { bytes.append(bigEndian: Int64(number)) }
}

// MARK: - Hashes of models that cannot be read again

extension ManagedObjectModel {
    /// The entity hashes that Core Data's stores use for the model, if available.
    ///
    /// Core Data's hash algorithm is not public, so they are available only if the model came with them: read from a `.momd`
    /// folder or from a store made by Core Data. A new store for such a model gets them, so Core Data opens it with the
    /// same model.
    ///
    /// Ignored when models are compared. Reset when a change affects ``entityVersionHashes()``; they must cover exactly the
    /// model's entities.
    public var knownVersionHashes: [String: Data]? {
        get {
            guard let hashes = knownHashes.known, Set(hashes.keys) == Set(entities.map(\.name)),
                knownHashes.own == entityVersionHashes()
            else { return nil }
            return hashes
        }
        set {
            knownHashes = KnownVersionHashes(
                known: newValue, own: newValue == nil ? [:] : entityVersionHashes())
        }
    }

    /// The hashes of a new store of the model: ``knownVersionHashes``, or else ``entityVersionHashes()``.
    public var versionHashesForNewStores: [String: Data] {
        knownVersionHashes ?? entityVersionHashes()
    }

    /// Adopts the hashes that came with the model, unless they equal the computed ones.
    package mutating func take(versionHashes hashes: [String: Data]) {
        knownVersionHashes = hashes == entityVersionHashes() ? nil : hashes
    }
}

/// Hashes that came with a model, and the computed hashes at that time.
struct KnownVersionHashes: Sendable {
    var known: [String: Data]?
    var own: [String: Data] = [:]
}
