package import QuireModel
internal import QuireSystem

/// A key path resolved against the model.
package struct QueryKeyPath: Sendable {
    // Steps and end are numbers, because copying a description would dominate a small fetch.

    /// A relationship in the path.
    package struct Step: Sendable {
        package let source: ResolvedEntity
        /// The relationship's position in the source's.
        package let index: Int
        package let destination: ResolvedEntity
        package let isToMany: Bool

        package init(
            source: ResolvedEntity, index: Int, destination: ResolvedEntity, isToMany: Bool
        ) {
            self.source = source
            self.index = index
            self.destination = destination
            self.isToMany = isToMany
        }

        package var relationship: ResolvedEntity.Relationship { source.relationships[index] }
    }

    /// The kind of the last element.
    package enum End: Sendable {
        /// The destination of the relationships; without any, the tested object.
        case object
        /// The value of that object in a slot.
        case slot(Int)
        /// The name of that object's entity.
        case entityName
    }

    /// The entity it begins at.
    let entity: ResolvedEntity
    /// The relationships in the path.
    package private(set) var steps: [Step] = []
    /// The entity of the relationships' destination.
    package private(set) var destination: ResolvedEntity
    /// The last element.
    package private(set) var end = End.object
    /// The kind of the values.
    package private(set) var kind = ValueKind.object
    /// The keys, without a trailing `objectID`, which is equivalent to the object.
    package private(set) var keys: [String] = []

    /// The key for the object itself.
    package static let objectKey = "objectID"
    /// The key for the object's entity, which evaluates to its name.
    static let entityKey = "entity"
    /// The key of an entity's name.
    static let nameKey = "name"

    /// Whether it has several values.
    package var isToMany: Bool { steps.contains(where: \.isToMany) }

    /// The slot at the end; `nil` for an object.
    package var slot: ResolvedEntity.Slot? {
        if case .slot(let index) = end { destination.slots[index] } else { nil }
    }

    /// The keys as written.
    package var text: String { keys.isEmpty ? "SELF" : keys.joined(separator: ".") }

    /// The path of the object itself.
    init(of entity: ResolvedEntity) {
        self.entity = entity
        destination = entity
    }

    /// Resolves keys.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, or `invalidQuery` for a property without a comparable value.
    package init(_ keys: [String], from entity: ResolvedEntity, in layout: ResolvedModel) throws {
        self.entity = entity
        destination = entity
        var position = 0
        while position < keys.count {
            let key = keys[position]
            position += 1
            guard case .object = end else {
                throw QuireError(
                    .unknownKey,
                    "“\(text)” of \(entity.name) is an attribute, so “\(key)” cannot follow it.",
                    entity: entity.name, property: keys.joined(separator: "."))
            }
            guard let property = destination.properties[key] else {
                if key == Self.objectKey, position == keys.count { return }
                if key == Self.entityKey {
                    if position < keys.count, keys[position] == Self.nameKey { position += 1 }
                    self.keys += [Self.entityKey, Self.nameKey]
                    (end, kind) = (.entityName, .text)
                    continue
                }
                throw Self.unknownKey(key, of: destination)
            }
            self.keys.append(key)
            switch property {
            case .relationship(let index):
                let source = destination
                destination = layout.entities[source.relationships[index].destinationNumber - 1]
                steps.append(
                    Step(
                        source: source, index: index, destination: destination,
                        isToMany: source.relationships[index].isToMany))
            case .attribute(let slot):
                end(at: slot)
            case .composite:
                end(at: try Self.element(of: key, keys, &position, in: destination))
                self.keys += keys[(self.keys.count)..<position]
            case .fetched:
                throw QuireError(
                    .invalidQuery,
                    "“\(key)” of \(destination.name) is a fetched property; a query cannot use it.",
                    entity: destination.name, property: key)
            }
        }
    }

    private mutating func end(at slot: Int) {
        end = .slot(slot)
        kind = ValueKind(of: slot, in: destination)
    }

    /// The key paths of a composite attribute's elements; `nil` if keys lead to none, or to those of several objects.
    ///
    /// - Parameter origin: Keys before the others, which may lead to several objects.
    static func compositeElements(
        at keys: [String], after origin: [String], from entity: ResolvedEntity,
        in layout: ResolvedModel
    ) -> [[String]]? {
        var (entity, name) = (entity, "")
        for (position, key) in (origin + keys).enumerated() {
            name += name.isEmpty ? key : "." + key
            switch entity.properties[name] {
            case .relationship(let index):
                let relationship = entity.relationships[index]
                if relationship.isToMany && position >= origin.count { return nil }
                entity = layout.entities[relationship.destinationNumber - 1]
                name = ""
            case .composite: continue
            default: return nil
            }
        }
        guard case .composite(let slots)? = entity.properties[name] else { return nil }
        return slots.map { slot in
            let element = entity.slots[slot].name.dropFirst(name.count + 1)
            return keys + element.split(separator: ".").map(String.init)
        }
    }

    /// The slot of a composite attribute's element, named by further keys.
    private static func element(
        of key: String, _ keys: [String], _ position: inout Int, in entity: ResolvedEntity
    ) throws -> Int {
        var name = key
        while position < keys.count {
            name += "." + keys[position]
            position += 1
            switch entity.properties[name] {
            case .attribute(let slot)?: return slot
            case .composite?: continue
            default: throw unknownKey(name, of: entity)
            }
        }
        throw QuireError(
            .invalidQuery,
            "“\(name)” of \(entity.name) is a composite attribute; name one of its elements.",
            entity: entity.name, property: name)
    }

    private static func unknownKey(_ key: String, of entity: ResolvedEntity) -> QuireError {
        var error = entity.unknownKey(key)
        // Names of properties begin with a small letter.
        if key.first?.isUppercase == true, CloseNames.of(key, among: entity.propertyNames).isEmpty {
            error.message += " Put text in quotation marks: \"\(key)\"."
        }
        return error
    }
}

// MARK: - Derived attributes

extension QueryKeyPath {
    /// The source entity of a derived attribute at the end: changes to its objects matter.
    package func derivationSource(in layout: ResolvedModel) -> ResolvedEntity? {
        guard case .slot(let slot) = end, destination.slots[slot].isDerived,
            let derivation = layout.derivations.derivation(of: slot, in: destination),
            let index = derivation.relationshipIndex
        else { return nil }
        let relationship = destination.relationships[index]
        return derivation.looksAtMembers(in: layout, relationship)
            ? layout.destination(of: relationship) : nil
    }
}

// MARK: - Subjects

/// An object that predicates can be evaluated on in memory: an object of a context, or a stand-in for one.
package protocol QuerySubject {
    /// The object's identifier, used for `SELF`, `objectID` and comparisons of relationships.
    var objectID: ManagedObjectID { get }
    /// The object's entity.
    var resolvedEntity: ResolvedEntity { get }
    /// The model that the entity is part of.
    var queryLayout: ResolvedModel { get }

    /// The value of a property.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if there is no such property.
    func queryValue(forKey key: String) throws -> QueryValue
}

/// An object of a context. It may not be saved yet, but its store is assigned.
package protocol ContextBoundSubject {
    /// The UUID of the object's store, or of the one assigned for saving; `nil` if it is unknown.
    var boundStoreUUID: String? { get }

    /// The shared part of the identifiers of the context's objects, for parsing texts such as `Author/p3`.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the object's context is gone.
    func requireStoreIdentity() throws -> StoreIdentity
}

/// The value of a subject for a key.
package enum QueryValue {
    /// The value of an attribute, or null for a nil to-one relationship.
    case value(AttributeValue)
    /// The object of a to-one relationship.
    case object(any QuerySubject)
    /// The objects of a to-many relationship.
    case objects([any QuerySubject])
}
