public import QuireModel
internal import QuireStore
internal import QuireSystem

/// An object of the store that is migrated, as it was. It can only be read.
public struct MigrationSource {
    let snapshot: ObjectSnapshot
    let store: any PersistentStore

    /// Its identifier in the old store.
    public var objectID: ManagedObjectID { snapshot.objectID }
    /// The name of its entity.
    public var entityName: String { snapshot.entity.name }

    /// The value under a key: of an attribute, an element of a composite one, or a to-one relationship, whose value is an
    /// identifier; also at the end of a key path through to-one relationships.
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
                subject: .init(entity: entityName, property: keyPath))
        }
    }

    /// The objects that a relationship leads to, in its order if it has one.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` or `storeUnavailable`.
    public func objects(_ relationship: String) throws -> [MigrationSource] {
        guard let found = snapshot.entity.relationship(named: relationship) else {
            throw QuireError(
                .unknownKey,
                "“\(entityName)” of the old model has no relationship “\(relationship)”.",
                subject: .init(entity: entityName, property: relationship))
        }
        return try store.relatedRows(of: objectID, through: found).map {
            MigrationSource(snapshot: $0, store: store)
        }
    }
}

/// An object of the new store that a policy makes.
public final class MigrationObject {
    /// Its identifier in the new store.
    public let objectID: ManagedObjectID
    let entity: EntityLayout
    /// The mapping that it is made by.
    let mapping: EntityMapping?
    /// The old object that it is made of, if it is made of one.
    public let source: MigrationSource?
    private(set) var values: ContiguousArray<AttributeValue>
    /// What to-many relationships lead to, by their positions.
    private(set) var members: [Int: [ManagedObjectID]] = [:]
    /// The relationships that have been set.
    private var connected: Set<Int> = []
    var version: UInt32 = 1

    init(
        _ objectID: ManagedObjectID, _ entity: EntityLayout, mapping: EntityMapping?,
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

    /// The value of an attribute, an element of a composite one, or a to-one relationship; null for what it does not have.
    public subscript(_ key: String) -> AttributeValue {
        switch entity.properties[key] {
        case .attribute(let slot)?: values[slot]
        case .relationship(let index)?: entity.relationships[index].slot.map { values[$0] } ?? .null
        default: .null
        }
    }

    /// Sets the value of an attribute, or an element of a composite one.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, or `invalidValue` if the value does not fit the attribute.
    public func setValue(_ value: AttributeValue, for key: String) throws {
        guard case .attribute(let slot)? = entity.properties[key] else { throw unknown(key) }
        values[slot] = try entity.slots[slot].coerce(value, in: entity)
    }

    /// Makes a relationship lead to objects, in this order if it has one.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, or `validation` if a to-one relationship were to lead to several, or
    ///   an object is not of its destination.
    public func setObjects(_ objects: [ManagedObjectID], for relationship: String) throws {
        guard let found = entity.relationship(named: relationship) else {
            throw unknown(relationship)
        }
        if objects.count > 1 && !found.isToMany {
            throw QuireError(
                .validation,
                "“\(entity.name).\(relationship)” takes one object, not \(objects.count).",
                subject: .init(entity: entity.name, property: relationship))
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
            .unknownKey, "“\(entity.name)” of the new model has no such property “\(key)”.",
            subject: .init(entity: entity.name, property: key))
    }
}
