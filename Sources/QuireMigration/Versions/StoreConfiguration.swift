internal import QuireModel
internal import QuireSQLite

/// The part of the models that a store has: a configuration's, or all of it.
///
/// A store is migrated between models reduced to its entities, so that changes of entities in other stores neither matter nor
/// fail.
struct StoreConfiguration {
    /// The configuration's name; `nil` for all entities.
    let name: String?

    /// A model without the entities of other stores. One that does not have the configuration is from before there was one.
    func reduce(_ model: ManagedObjectModel) throws -> ManagedObjectModel {
        if !model.configurations.contains(where: { $0.name == name }) { return model }
        return try reduceNewest(model)
    }

    /// As ``reduce(_:)``, for the model that the store is opened with.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if it does not have the configuration.
    func reduceNewest(_ model: ManagedObjectModel) throws -> ManagedObjectModel {
        guard let name else { return model }
        let layout = try model.layout()
        let numbers = try layout.entityNumbers(ofConfiguration: name)
        if numbers.count == layout.entities.count { return model }
        return model.reduced(to: Set(numbers.map { layout.entity(number: $0).name }))
    }

    /// The versions and mappings of a migration without the entities of other stores.
    func reduce(_ migration: StoreMigrationOptions) throws -> StoreMigrationOptions {
        if name == nil { return migration }
        var migration = migration
        migration.versions = try migration.versions.mapValues(reduce)
        migration.mappings = try migration.mappings.map { custom in
            var custom = custom
            custom.source = try reduce(custom.source)
            custom.destination = try reduce(custom.destination)
            let old = Set(custom.source.entities.map(\.name))
            let new = Set(custom.destination.entities.map(\.name))
            custom.mapping.entityMappings.removeAll {
                $0.sourceEntityName.map { !old.contains($0) } ?? false
                    || $0.destinationEntityName.map { !new.contains($0) } ?? false
            }
            return custom
        }
        return migration
    }
}

extension StoreExamination {
    /// The configuration that a store has: the given one, or else the one with exactly its entities.
    func configuration(_ given: String? = nil) -> StoreConfiguration {
        StoreConfiguration(
            name: given
                ?? (try? carriedModel?.layout())?.configurationName(
                    ofStoreWith: catalog.entityNames))
    }
}
