public import Foundation
package import QuireSystem

/// Describes the objects of a document: their entities, properties and relationships.
///
/// A model is a value: a coordinator keeps its copy, so it cannot change under a store. Build one with
/// ``init(versionIdentifiers:_:)`` or read one from an Xcode model with ``init(contentsOf:)-(String)``.
public struct ManagedObjectModel: Sendable, Hashable {
    /// The entities, in the order of the model.
    public var entities: [EntityDescription]
    /// The named subsets of the entities.
    public var configurations: [Configuration] = []
    /// The named fetch requests.
    public var fetchRequestTemplates: [FetchRequestTemplate] = []
    /// The composites that attributes refer to.
    public var composites: [CompositeDescription] = []
    /// The version identifiers.
    public var versionIdentifiers: [String] = []
    /// Whether CloudKit mirrors the stores of the whole model on Apple's systems.
    public var usedWithCloudKit = false
    /// Whether the model is also used with SwiftData on Apple's systems.
    public var usedWithSwiftData = false
    /// The storage of ``knownVersionHashes``.
    @Uncompared var knownHashes = KnownVersionHashes()
    /// Messages about parts of the model file that the model drops or that have no meaning. Ignored when models are
    /// compared.
    @Uncompared package var remarks: [String] = []

    /// A named subset of a model's entities, for a store with only these.
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

    /// Creates a model from entities.
    public init(entities: [EntityDescription] = []) {
        self.entities = entities
    }

    /// The entity with a name, with its inherited properties. O(*n*) in entities.
    public func entity(named name: String) -> EntityDescription? {
        guard var entity = entities.first(where: { $0.name == name }) else { return nil }
        var inherited: [PropertyDescription] = []
        var names: Set = [name]
        var superentityName = entity.superentityName
        // Entities of a model that has not been validated may be their own superentities.
        while let name = superentityName, names.insert(name).inserted,
            let superentity = entities.first(where: { $0.name == name })
        {
            inherited.insert(contentsOf: superentity.properties, at: 0)
            superentityName = superentity.superentityName
        }
        entity.inheritedProperties = inherited
        return entity
    }

    /// The entities by their names, with their inherited properties.
    public var entitiesByName: [String: EntityDescription] {
        Dictionary(
            entities.map(\.name).compactMap { name in entity(named: name).map { (name, $0) } }
        ) { first, _ in first }
    }
}

// MARK: - Merging

extension ManagedObjectModel {
    /// Merges models: all their entities, templates, composites and configurations.
    ///
    /// Parts of the same name must be equal in all models; a configuration gets the union of its entities. Relationships may
    /// cross from one model to another.
    ///
    /// ```swift
    /// let model = try ManagedObjectModel.merging([library, loans])
    /// try model.validate()
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`, naming every entity, template and composite with conflicting
    ///   definitions; several are in ``QuireError/failures``.
    public static func merging(_ models: [ManagedObjectModel]) throws -> ManagedObjectModel {
        var merged = ManagedObjectModel()
        var failures: [QuireError] = []
        for model in models {
            merged.usedWithCloudKit = merged.usedWithCloudKit || model.usedWithCloudKit
            merged.usedWithSwiftData = merged.usedWithSwiftData || model.usedWithSwiftData
            for identifier in model.versionIdentifiers
            where !merged.versionIdentifiers.contains(identifier) {
                merged.versionIdentifiers.append(identifier)
            }
            for entity in model.entities {
                guard let other = merged.entity(named: entity.name) else {
                    merged.entities.append(entity)
                    continue
                }
                // Differences that only generated code and editors see are ignored.
                let changes = ModelDifference(
                    comparing: ManagedObjectModel(entities: [other]),
                    with: ManagedObjectModel(entities: [entity])
                ).changes
                if changes.isEmpty { continue }
                let shown = changes.prefix(3).map(\.description).joined(separator: ", ")
                failures.append(
                    conflict(
                        "entities", entity.name, " (\(shown)\(changes.count > 3 ? ", …" : ""))"))
                failures[failures.count - 1].subject.entity = entity.name
            }
            merge(
                model.fetchRequestTemplates, into: &merged.fetchRequestTemplates, \.name,
                "fetch requests", &failures)
            merge(
                model.composites, into: &merged.composites, \.name, "composites", &failures)
            for configuration in model.configurations {
                guard
                    let index = merged.configurations.firstIndex(where: {
                        $0.name == configuration.name
                    })
                else {
                    merged.configurations.append(configuration)
                    continue
                }
                let present = merged.configurations[index].entityNames
                merged.configurations[index].entityNames +=
                    configuration.entityNames.filter { !present.contains($0) }
            }
        }
        if !failures.isEmpty { throw QuireError.combining(failures) }
        merged.mergeKnownHashes(of: models)
        return merged
    }

    private static func merge<Part: Equatable>(
        _ parts: [Part], into merged: inout [Part], _ name: KeyPath<Part, String>, _ noun: String,
        _ failures: inout [QuireError]
    ) {
        for part in parts {
            let other = merged.first { $0[keyPath: name] == part[keyPath: name] }
            if other == nil {
                merged.append(part)
            } else if other != part {
                failures.append(conflict(noun, part[keyPath: name]))
            }
        }
    }

    private static func conflict(
        _ noun: String, _ name: String, _ differences: String = ""
    ) -> QuireError {
        QuireError(
            .invalidModel,
            "The models have different \(noun) named “\(name)”\(differences); rename one, or make them identical."
        )
    }

    /// Merges the models' known hashes.
    private mutating func mergeKnownHashes(of models: [ManagedObjectModel]) {
        let known = models.compactMap(\.knownVersionHashes)
        if known.isEmpty { return }
        knownVersionHashes = known.reduce(into: [:]) {
            $0.merge($1, uniquingKeysWith: { a, _ in a })
        }
    }

    // MARK: - Hashes

    /// Whether a store's hashes match the model: the same entities, each with its known or computed hash.
    public func matches(versionHashes hashes: [String: Data]) -> Bool {
        if hashes.count != entities.count { return false }
        return knownVersionHashes == hashes || entityVersionHashes() == hashes
    }

    /// Finds the model of a store among several, like Core Data: one of them, or a merge of those entities whose hashes the
    /// store has.
    ///
    /// - Parameters:
    ///   - models: The candidates; the first match is used.
    ///   - hashes: The store's hashes, as ``StoreMetadata/entityVersionHashes``.
    /// - Returns: The model; `nil` if no candidate has one of the store's entities with its hash.
    /// - Throws: As ``merging(_:)``.
    public static func model(
        among models: [ManagedObjectModel], matching hashes: [String: Data]
    ) throws -> ManagedObjectModel? {
        if let model = models.first(where: { $0.matches(versionHashes: hashes) }) { return model }
        var missing = Set(hashes.keys)
        var parts: [ManagedObjectModel] = []
        for model in models {
            let known = model.knownVersionHashes ?? [:]
            let own = model.entityVersionHashes()
            let names = missing.filter { known[$0] == hashes[$0] || own[$0] == hashes[$0] }
            if names.isEmpty { continue }
            missing.subtract(names)
            parts.append(model.keeping(entities: names))
        }
        if !missing.isEmpty || hashes.isEmpty { return nil }
        var merged = try merging(parts)
        merged.take(versionHashes: hashes)
        return merged
    }

    /// The model of a store that has only some of the entities: without requests and fetched properties of others.
    package func reduced(to names: Set<String>) -> ManagedObjectModel {
        var model = keeping(entities: names)
        for index in model.entities.indices {
            model.entities[index].properties.removeAll {
                guard case .fetched(let fetched) = $0 else { return false }
                return !names.contains(fetched.fetchRequest.entityName)
            }
        }
        model.knownVersionHashes = knownVersionHashes?.filter { names.contains($0.key) }
        return model
    }

    /// The model reduced to some of its entities.
    private func keeping(entities names: Set<String>) -> ManagedObjectModel {
        var model = self
        model.entities.removeAll { !names.contains($0.name) }
        model.fetchRequestTemplates.removeAll { !names.contains($0.entityName) }
        for index in model.configurations.indices {
            model.configurations[index].entityNames.removeAll { !names.contains($0) }
        }
        model.configurations.removeAll { $0.entityNames.isEmpty }
        return model
    }
}
