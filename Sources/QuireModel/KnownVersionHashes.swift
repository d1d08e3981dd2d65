public import Foundation

extension ManagedObjectModel {
    /// The hashes by which stores of Core Data's know the model's entities, if they are known.
    ///
    /// Core Data's way to compute hashes is not public, so they are known only of a model that comes with them: read
    /// from a `.momd` folder or taken from a store of Core Data's. A store made for such a model has them for its own,
    /// so that Core Data opens it with the same model.
    ///
    /// They are no part of what the model says: models that differ in nothing else are equal. They are forgotten when
    /// anything changes that ``entityVersionHashes()`` depends on, and must be of exactly the model's entities.
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

    /// The hashes that a new store of the model gets: ``knownVersionHashes``, or else ``entityVersionHashes()``.
    public var versionHashesForNewStores: [String: Data] {
        knownVersionHashes ?? entityVersionHashes()
    }

    /// Takes the hashes that came with the model, unless they are those that are computed anyway.
    package mutating func take(versionHashes hashes: [String: Data]) {
        knownVersionHashes = hashes == entityVersionHashes() ? nil : hashes
    }
}

/// Hashes that came with a model, and the computed ones of the model they came with. All are equal.
struct KnownVersionHashes: Sendable, Hashable {
    var known: [String: Data]?
    var own: [String: Data] = [:]

    static func == (left: Self, right: Self) -> Bool { true }

    func hash(into hasher: inout Hasher) {}
}
