internal import QuireModel
internal import QuireModelFiles
internal import QuireSystem

/// Infers a model from the contents of a binary store without one.
struct BinaryModelInference {
    private struct Entity {
        var count: Int
        var types: [Int: AttributeType] = [:]
        var relationships: Set<String> = []
    }

    private var inference = ModelInference(names: [], hasFixedPlaces: true)
    private var entities: [String: Entity] = [:]

    /// Takes notice of an object.
    mutating func note(_ node: BinaryStoreReader.Node) {
        let name = inference.note(entity: node.entity, key: node.key)
        var entity = entities[name] ?? Entity(count: node.values.count)
        entity.count = max(entity.count, node.values.count)
        for (place, value) in node.values.enumerated() {
            guard let type = value.map(Self.type) else { continue }
            entity.types[place] = Self.common(entity.types[place], type)
        }
        for (relationship, keys, isList) in node.related {
            entity.relationships.insert(relationship)
            inference.note(
                relationship: relationship, isToMany: isList, of: node.key, keys, declared: nil,
                of: name)
        }
        entities[name] = entity
    }

    /// The model.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    mutating func model(path: String) throws -> ManagedObjectModel {
        for (name, entity) in entities {
            let count = entity.count - entity.relationships.count
            if let last = entity.types.keys.max(), last >= count {
                throw QuireError(
                    .invalidFormat,
                    "Cannot infer a model from “\(path)”: the values of “\(name)” belong to several entities; open the store with the model it was created with.",
                    entity: name, file: path)
            }
            for place in 0..<max(count, 0) {
                inference.note(
                    attribute: Self.name(ofPlace: place), entity.types[place] ?? .string, of: name)
            }
        }
        return try inference.model(path: path)
    }

    /// Generated names that sort by position.
    private static func name(ofPlace place: Int) -> String {
        let digits = String(place + 1)
        return "value" + String(repeating: "0", count: max(0, 3 - digits.count)) + digits
    }

    private static func type(of scalar: KeyedArchive.Scalar) -> AttributeType {
        switch scalar {
        case .null, .string: .string
        case .boolean: .boolean
        case .integer: .integer64
        case .real: .double
        case .decimal: .decimal
        case .date: .date
        case .data: .binary
        case .uuid: .uuid
        case .url: .uri
        }
    }

    /// A type that holds values of both.
    private static func common(_ known: AttributeType?, _ type: AttributeType) -> AttributeType {
        switch (known, type) {
        case (.double?, .integer64), (.integer64?, .double): .double
        case (.integer64?, .boolean), (.boolean?, .integer64): .integer64
        default: type
        }
    }
}
