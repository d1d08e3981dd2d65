public import QuireModel
internal import QuireStore
internal import QuireSystem

/// Customizes an entity mapping: creates no or several new objects for an old one, computes values, sets relationships.
///
/// Subclass it, override methods, and register it with the manager under the name in the mapping. For each of its mappings
/// these are called in this order: ``begin(_:session:)``, ``createDestinationObjects(for:mapping:session:)`` for each old
/// object, ``endInstanceCreation(_:session:)``; then, when all objects of all mappings exist,
/// ``createRelationships(for:mapping:session:)`` for each new object, ``endRelationshipCreation(_:session:)``,
/// ``performCustomValidation(_:session:)`` and ``end(_:session:)``.
///
/// ```swift
/// final class MakerPolicy: EntityMigrationPolicy {
///     override func createDestinationObjects(
///         for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
///     ) throws {
///         let car = try session.makeObject(for: source, mapping: mapping)
///         guard case .string(let name) = try source["maker"] else { return }
///         let maker = try session.objects(of: "Maker").first { $0["name"] == .string(name) }
///             ?? session.makeObject(of: "Maker", values: ["name": .string(name)])
///         try car.setObjects([maker.objectID], for: "createdBy")
///     }
/// }
/// ```
///
/// Objects created by policies are kept in memory until all are complete. An error thrown by a policy aborts the
/// migration, and nothing is changed.
open class EntityMigrationPolicy {
    /// Creates a policy.
    public init() {}

    /// Called first.
    open func begin(_ mapping: EntityMapping, session: MigrationSession) throws {}

    /// Creates the new objects for an old one: by default, one with the values of the mapping.
    open func createDestinationObjects(
        for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
    ) throws {
        _ = try session.makeObject(for: source, mapping: mapping)
    }

    /// Called when the objects of a mapping have been created.
    open func endInstanceCreation(_ mapping: EntityMapping, session: MigrationSession) throws {}

    /// Sets the relationships of a new object: by default, the mapped relationships that are not set yet.
    open func createRelationships(
        for object: MigrationObject, mapping: EntityMapping, session: MigrationSession
    ) throws {
        try session.connect(object, mapping: mapping)
    }

    /// Called when the objects of a mapping are connected.
    open func endRelationshipCreation(
        _ mapping: EntityMapping, session: MigrationSession
    ) throws {}

    /// Validates the results; throws to abort the migration.
    open func performCustomValidation(_ mapping: EntityMapping, session: MigrationSession) throws {}

    /// Called last.
    open func end(_ mapping: EntityMapping, session: MigrationSession) throws {}

    /// Evaluates a function in the mapping, `FUNCTION($entityPolicy, "name:", …)`.
    ///
    /// - Parameters:
    ///   - function: The function's name, with its colons.
    ///   - arguments: The arguments; an old object is passed as its identifier.
    ///   - source: The old object whose value is computed.
    /// - Throws: By default, always: ``QuireError`` with code `unsupported`.
    open func value(
        of function: String, arguments: [AttributeValue], source: MigrationSource,
        session: MigrationSession
    ) throws -> AttributeValue {
        throw QuireError(
            .unsupported,
            "The mapping calls “\(function)”, which its policy \(Swift.type(of: self)) does not have; override value(of:arguments:source:session:)."
        )
    }
}

// MARK: - The source

/// A read-only object of the old store, before the migration.
public struct MigrationSource {
    let snapshot: ObjectSnapshot
    let store: any PersistentStore

    /// Its identifier in the old store.
    public var objectID: ManagedObjectID { snapshot.objectID }
    /// The name of its entity.
    public var entityName: String { snapshot.entity.name }

    /// The value for a key: of an attribute, an element of a composite one, or a to-one relationship, as an identifier; or
    /// for a key path through to-one relationships.
    ///
    /// Throws ``QuireError`` with code `unknownKey`, or `storeUnavailable`.
    public subscript(_ keyPath: String) -> AttributeValue {
        get throws {
            switch snapshot.entity.properties[keyPath] {
            case .attribute(let slot)?: return try snapshot.value(at: slot)
            case .relationship(let index)?:
                if let slot = snapshot.entity.relationships[index].slot {
                    return try snapshot.value(at: slot)
                }
            default: break
            }
            let keys = keyPath.split(separator: ".", maxSplits: 1).map(String.init)
            if keys.count == 2, let relationship = snapshot.entity.relationship(named: keys[0]),
                !relationship.isToMany
            {
                guard let object = try objects(keys[0]).first else { return .null }
                return try object[keys[1]]
            }
            throw QuireError(
                .unknownKey, "“\(entityName)” of the old model has no single value “\(keyPath)”.",
                entity: entityName, property: keyPath)
        }
    }

    /// The members of a relationship, in its order if it is ordered.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` or `storeUnavailable`.
    public func objects(_ relationship: String) throws -> [MigrationSource] {
        guard let found = snapshot.entity.relationship(named: relationship) else {
            throw QuireError(
                .unknownKey,
                "“\(entityName)” of the old model has no relationship “\(relationship)”.",
                entity: entityName, property: relationship)
        }
        return try store.relatedRows(of: objectID, through: found).map {
            MigrationSource(snapshot: $0, store: store)
        }
    }
}

/// An object of the new store created by a policy.
public final class MigrationObject {
    /// Its identifier in the new store.
    public let objectID: ManagedObjectID
    let entity: ResolvedEntity
    /// The mapping that created the object.
    let mapping: EntityMapping?
    /// The old object that it was created for, if any.
    public let source: MigrationSource?
    private(set) var values: ContiguousArray<AttributeValue>
    /// The members of to-many relationships, by their indexes.
    private(set) var members: [Int: [ManagedObjectID]] = [:]
    /// The relationships that have been set.
    private var connected: Set<Int> = []
    var version: UInt32 = 1

    init(
        _ objectID: ManagedObjectID, _ entity: ResolvedEntity, mapping: EntityMapping?,
        source: MigrationSource?
    ) {
        self.objectID = objectID
        self.entity = entity
        self.mapping = mapping
        self.source = source
        values = entity.defaultValues
    }

    /// The name of its entity.
    public var entityName: String { entity.name }

    /// The value of an attribute, an element of a composite one, or a to-one relationship; null for unknown keys.
    public subscript(_ key: String) -> AttributeValue {
        switch entity.properties[key] {
        case .attribute(let slot)?: values[slot]
        case .relationship(let index)?: entity.relationships[index].slot.map { values[$0] } ?? .null
        default: .null
        }
    }

    /// Sets the value of an attribute, or an element of a composite one.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, or `invalidValue` if the value has the wrong type for the attribute.
    public func setValue(_ value: AttributeValue, for key: String) throws {
        guard case .attribute(let slot)? = entity.properties[key] else { throw unknown(key) }
        values[slot] = try entity.slots[slot].coerce(value, in: entity)
    }

    /// Sets the members of a relationship, in this order if it is ordered.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, or `validation` if several objects are given for a to-one
    ///   relationship, or an object is not of the destination entity.
    public func setObjects(_ objects: [ManagedObjectID], for relationship: String) throws {
        guard let found = entity.relationship(named: relationship) else {
            throw unknown(relationship)
        }
        if objects.count > 1 && !found.isToMany {
            throw QuireError(
                .validation,
                "“\(entity.name).\(relationship)” allows only one object, not \(objects.count).",
                entity: entity.name, property: relationship)
        }
        connected.insert(found.index)
        if let slot = found.slot {
            values[slot] = objects.first.map { .objectID($0) } ?? .null
        } else {
            members[found.index] = objects
        }
    }

    /// Whether a relationship has been set.
    func isConnected(_ index: Int) -> Bool { connected.contains(index) }

    private func unknown(_ key: String) -> QuireError {
        QuireError(
            .unknownKey, "“\(entity.name)” of the new model has no property “\(key)”.",
            entity: entity.name, property: key)
    }
}
