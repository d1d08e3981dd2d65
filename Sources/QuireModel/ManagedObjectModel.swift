/// Describes the objects of a document: their entities, properties and relationships.
///
/// A model is a value: a coordinator keeps the one it was given, so nothing can change it under a store.
/// Build one with ``init(versionIdentifiers:_:)`` or read one from an Xcode model with
/// ``init(contentsOf:)``.
public struct ManagedObjectModel: Sendable, Hashable {
    /// The entities, in the order of the model.
    public var entities: [EntityDescription]
    /// The named subsets of the entities.
    public var configurations: [Configuration] = []
    /// The named fetch requests.
    public var fetchRequestTemplates: [FetchRequestTemplate] = []
    /// The composites that attributes refer to.
    public var composites: [CompositeDescription] = []
    /// Texts that tell versions of the model apart.
    public var versionIdentifiers: [String] = []
    /// Whether CloudKit mirrors the stores of the whole model on Apple's systems.
    public var usedWithCloudKit = false
    /// Whether the model is SwiftData's too on Apple's systems.
    public var usedWithSwiftData = false
    /// Behind ``knownVersionHashes``.
    var knownHashes = KnownVersionHashes()
    /// What the file that the model was read from has, and what the model does not take over or has no meaning for:
    /// sentences. They are no part of what the model says: models that differ in nothing else are equal.
    package var remarks: [String] {
        get { readingRemarks.sentences }
        set { readingRemarks.sentences = newValue }
    }
    private var readingRemarks = ModelRemarks()

    /// A named subset of a model's entities, for a store that keeps only these.
    public struct Configuration: Sendable, Hashable {
        /// The configuration's name.
        public var name: String
        /// The names of its entities.
        public var entityNames: [String]
        /// Whether CloudKit mirrors its stores on Apple's systems.
        public var usedWithCloudKit = false

        /// Describes a configuration.
        public init(name: String, entityNames: [String]) {
            self.name = name
            self.entityNames = entityNames
        }
    }

    /// Makes a model of entities.
    public init(entities: [EntityDescription] = []) {
        self.entities = entities
    }

    /// The entity of a name. O(*n*) in entities; ask ``layout()`` where it matters.
    public func entity(named name: String) -> EntityDescription? {
        entities.first { $0.name == name }
    }
}

/// Sentences on the file that a model was read from. All are equal.
private struct ModelRemarks: Sendable, Hashable {
    var sentences: [String] = []

    static func == (left: Self, right: Self) -> Bool { true }

    func hash(into hasher: inout Hasher) {}
}
