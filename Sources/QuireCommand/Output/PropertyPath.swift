import Quire
import QuireDocuments

/// A column: a property, or a path of properties such as `author.name`, checked against the model.
struct PropertyPath {
    /// The path as it was written, which names the column.
    let name: String
    /// The member of an object in JSON that is the column.
    let memberName: String
    private let steps: [Step]

    private enum Step {
        case attribute(slot: ResolvedEntity.Slot)
        case composite(key: String, entity: ResolvedEntity)
        case toOne(ResolvedEntity.Relationship)
        case toMany(ResolvedEntity.Relationship)
    }

    /// Reads a path.
    ///
    /// - Throws: `QuireError` with code `unknownKey` or `unsupported`, naming the entity and what it has.
    init(_ name: String, in entity: ResolvedEntity, of layout: ResolvedModel) throws {
        self.name = name
        memberName = JSONValue.key(ofProperty: name)
        var steps: [Step] = []
        var current: ResolvedEntity? = entity
        var rest = name.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        while !rest.isEmpty {
            guard let entity = current else {
                throw QuireError(
                    .unknownKey,
                    "In “\(name)”, “\(rest.joined(separator: "."))” comes after an attribute, "
                        + "which has no properties.",
                    subject: .init(property: name))
            }
            let (step, taken) = try Self.step(rest, in: entity)
            rest.removeFirst(taken)
            steps.append(step)
            switch step {
            case .toOne(let relationship), .toMany(let relationship):
                current = layout.destination(of: relationship)
            case .attribute, .composite: current = nil
            }
        }
        guard !steps.isEmpty else {
            throw QuireError(.unknownKey, "A column has no name.", entity: entity.name)
        }
        self.steps = steps
    }

    /// The columns of all of an entity's attributes, composite ones whole.
    static func attributes(of entity: ResolvedEntity, in layout: ResolvedModel) throws
        -> [PropertyPath]
    {
        try paths(of: entity, in: layout) { property in
            switch property {
            case .attribute, .composite: true
            case .relationship, .fetched: false
            }
        }
    }

    /// The columns of all of an entity's properties but fetched ones.
    static func all(of entity: ResolvedEntity, in layout: ResolvedModel) throws -> [PropertyPath] {
        try paths(of: entity, in: layout) { property in
            if case .fetched = property { false } else { true }
        }
    }

    /// The columns of all that a document keeps of an entity's objects: attributes and relationships that are
    /// stored.
    static func stored(of entity: ResolvedEntity, in layout: ResolvedModel) throws -> [PropertyPath]
    {
        try paths(of: entity, in: layout) { property in
            switch property {
            case .attribute(let slot): entity.slots[slot].isStored
            case .composite(let slots): slots.contains { entity.slots[$0].isStored }
            case .relationship(let index): !entity.relationships[index].description.isTransient
            case .fetched: false
            }
        }
    }

    private static func paths(
        of entity: ResolvedEntity, in layout: ResolvedModel,
        where condition: (ResolvedEntity.Property) -> Bool
    ) throws -> [PropertyPath] {
        try entity.propertyNames.filter { entity.properties[$0].map(condition) ?? false }
            .map { try PropertyPath($0, in: entity, of: layout) }
    }

    /// The step that a path begins with, and the number of names it takes: an element of a composite attribute
    /// takes several.
    private static func step(
        _ names: [String], in entity: ResolvedEntity
    ) throws -> (Step, taken: Int) {
        for count in stride(from: names.count, to: 1, by: -1) {
            let name = names[..<count].joined(separator: ".")
            switch entity.properties[name] {
            case .attribute(let slot): return (.attribute(slot: entity.slots[slot]), count)
            case .composite: return (.composite(key: name, entity: entity), count)
            default: continue
            }
        }
        switch try entity.requireProperty(names[0]) {
        case .attribute(let slot): return (.attribute(slot: entity.slots[slot]), 1)
        case .composite: return (.composite(key: names[0], entity: entity), 1)
        case .relationship(let index):
            let relationship = entity.relationships[index]
            return (relationship.isToMany ? .toMany(relationship) : .toOne(relationship), 1)
        case .fetched:
            throw QuireError(
                .unsupported,
                "\(entity.name).\(names[0]) is a fetched property, which cannot be a column.",
                entity: entity.name, property: names[0])
        }
    }

    /// Whether the column's values are numbers.
    var isNumber: Bool {
        guard steps.allSatisfy({ if case .toMany = $0 { false } else { true } }),
            case .attribute(let slot)? = steps.last
        else { return false }
        return slot.attribute?.type.isNumber ?? false
    }

    /// The path, or those of the elements if it is a composite attribute's.
    var elementNames: [String] {
        let isList = steps.contains { if case .toMany = $0 { true } else { false } }
        guard !isList, case .composite(let key, let entity)? = steps.last else { return [name] }
        return entity.elementNames(of: key).map { name + $0.dropFirst(key.count) }
    }

    /// The relationships on the path to the objects whose values the column shows, as a request takes them to read
    /// these ahead; `nil` if there are none, or they are not in the store.
    var relationshipPath: String? {
        var names: [String] = []
        for (index, step) in steps.enumerated() {
            switch step {
            case .attribute, .composite: break
            case .toOne(let relationship):
                if relationship.description.isTransient { return nil }
                // Its identifier is the object's own.
                if index + 1 < steps.count { names.append(relationship.name) }
            case .toMany(let relationship):
                if relationship.description.isTransient { return nil }
                names.append(relationship.name)
            }
        }
        return names.isEmpty ? nil : names.joined(separator: ".")
    }

    /// The value for an object.
    ///
    /// - Parameter unreadable: Takes notice of values in files that cannot be read, which the value says as well.
    /// - Throws: What reading the object throws.
    func value(
        of object: ManagedObject, noting unreadable: UnreadableValues
    ) throws -> PrintedValue {
        try Self.value(of: object, steps[...], unreadable)
    }

    private static func value(
        of object: ManagedObject, _ steps: ArraySlice<Step>, _ unreadable: UnreadableValues
    ) throws -> PrintedValue {
        let rest = steps.dropFirst()
        switch steps.first {
        case nil: return .object(object.objectID)
        case .attribute(let slot):
            return try attribute(slot, of: object, unreadable)
        case .composite(let key, let entity):
            return try composite(key, of: object, entity, unreadable)
        case .toOne(let relationship):
            guard let other = try object.related(through: relationship) else {
                return rest.isEmpty ? .object(nil) : empty(rest)
            }
            return rest.isEmpty ? .object(other.objectID) : try value(of: other, rest, unreadable)
        case .toMany(let relationship):
            var ids = object.objectIDs(relationship.name)
            if !relationship.isOrdered { ids = inOrder(ids) }
            if rest.isEmpty { return .objects(ids) }
            guard let context = object.managedObjectContext else { return .list([]) }
            return .list(
                try ids.map { try value(of: context.object(with: $0), rest, unreadable) })
        }
    }

    /// The value of a path that ends early at a missing object.
    private static func empty(_ steps: ArraySlice<Step>) -> PrintedValue {
        if steps.contains(where: { if case .toMany = $0 { true } else { false } }) {
            return .list([])
        }
        if case .attribute(let slot)? = steps.last {
            return .attribute(.null, slot.attribute?.type ?? .undefined)
        }
        return .object(nil)
    }

    /// The value of an attribute. One whose file is missing or damaged does not prevent reading the others.
    private static func attribute(
        _ slot: ResolvedEntity.Slot, of object: ManagedObject, _ unreadable: UnreadableValues
    ) throws -> PrintedValue {
        do {
            // Sub-entities have the same indexes.
            return .attribute(
                try object.readValue(at: slot.index), slot.attribute?.type ?? .undefined)
        } catch let error as QuireError
            where slot.attribute?.allowsExternalBinaryDataStorage == true
            && error.subject.property == slot.name
        {
            unreadable.add(error)
            return .unreadable(error.message)
        }
    }

    private static func composite(
        _ key: String, of object: ManagedObject, _ entity: ResolvedEntity,
        _ unreadable: UnreadableValues
    ) throws -> PrintedValue {
        var tree = PrintedValue.composite([:])
        for name in entity.elementNames(of: key) {
            let slot = entity.slots.first { $0.name == name }
            tree.insert(
                try slot.map { try attribute($0, of: object, unreadable) }
                    ?? .attribute(object.attributeValue(forKey: name), .undefined),
                at: name.dropFirst(key.count + 1).split(separator: ".").map(String.init)[...])
        }
        return tree
    }

    /// Puts objects that have no order of their own in order: by entity, then by key.
    private static func inOrder(_ ids: [ManagedObjectID]) -> [ManagedObjectID] {
        if ids.count < 2 { return ids }
        // The keys are what differs, and have no leading zeros: the shorter is the smaller.
        return ids.map { id in
            let text = id.shortDescription
            return (id, entity: id.entityName, length: text.utf8.count, text)
        }.sorted {
            ($0.entity, $0.length, $0.3) < ($1.entity, $1.length, $1.3)
        }.map(\.0)
    }
}

extension PrintedValue {
    /// Puts a value into a composite.
    fileprivate mutating func insert(_ value: PrintedValue, at path: ArraySlice<String>) {
        guard let first = path.first, case .composite(var elements) = self else { return }
        if path.count == 1 {
            elements[first] = value
        } else {
            elements[first, default: .composite([:])].insert(value, at: path.dropFirst())
        }
        self = .composite(elements)
    }
}

extension ManagedObject {
    /// The destination of a to-one relationship.
    func related(through relationship: ResolvedEntity.Relationship) throws -> ManagedObject? {
        guard case .objectID(let id) = try attributeValue(forKey: relationship.name) else {
            return nil
        }
        return managedObjectContext?.object(with: id)
    }
}

// MARK: - Unreadable values

/// The values that could not be read while others were printed, because the files that hold them are missing or damaged.
final class UnreadableValues {
    private var count = 0
    private var first: QuireError?

    /// Takes notice of one.
    func add(_ error: QuireError) {
        count += 1
        if first == nil { first = error }
    }

    /// - Throws: `Failure` if there were any since the last call.
    func check() throws {
        guard let first else { return }
        defer { (count, self.first) = (0, nil) }
        throw Failure.invalidData(
            count == 1
                ? first.message : "\(count) values cannot be read. The first: \(first.message)"
        )
    }
}
