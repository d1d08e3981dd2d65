import Quire

/// A row to import, with its columns resolved and its attributes read: nothing about it needs the document any
/// more but the objects it refers to.
struct ImportRow {
    /// The entity of the object to make.
    var entity: EntityLayout
    /// Where the row is: “books.csv, line 12”.
    var place: String
    /// The attributes, by name; composite elements by their dotted names.
    var attributes: [String: AttributeValue] = [:]
    /// The relationships.
    var relationships: [Related] = []

    /// What a relationship of the new object is to lead to.
    struct Related {
        /// How the objects are named.
        enum Objects {
            /// By identifiers, separated by commas.
            case identifiers(String)
            /// By the value of their first attribute here; the others complete them.
            case values([[(key: String, value: AttributeValue)]])
        }

        var relationship: EntityLayout.Relationship
        /// The column's name, for errors.
        var column: String
        var objects: Objects
    }

    /// An error of a value, with the place before it.
    static func locate(_ error: any Error, _ place: String, column: String? = nil) -> any Error {
        guard var error = error as? QuireError else { return error }
        let column = column.map { ", column “\($0)”" } ?? ""
        error.message = "\(place)\(column): \(error.message)"
        // An unknown name within a file is the file's fault, not the command line's.
        if [.unknownKey, .unknownEntity, .notFound].contains(error.code) {
            error.code = .invalidValue
        }
        return error
    }
}

/// A column of a file, resolved against an entity.
enum ImportColumn {
    case attribute(key: String, AttributeDescription)
    case relationship(EntityLayout.Relationship)
    /// An attribute of what a relationship leads to.
    case related(EntityLayout.Relationship, key: String, AttributeDescription)

    /// Finds what a column's name stands for.
    ///
    /// - Throws: `QuireError` with code `unknownKey` or `invalidValue`.
    init(_ name: String, in entity: EntityLayout, of layout: ModelLayout) throws {
        if case .attribute(let slot)? = entity.properties[name],
            let attribute = entity.slots[slot].attribute
        {
            self = .attribute(key: name, attribute)
            return
        }
        let parts = name.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
            .map(String.init)
        switch try entity.requireProperty(named: parts[0]) {
        case .relationship(let index):
            let relationship = entity.relationships[index]
            guard parts.count == 2 else {
                self = .relationship(relationship)
                return
            }
            let destination = layout.destination(of: relationship)
            guard case .attribute(let slot) = try destination.requireProperty(named: parts[1]),
                let attribute = destination.slots[slot].attribute
            else {
                throw QuireError(
                    .invalidValue,
                    "“\(parts[1])” of \(destination.name) is no attribute, so that objects cannot "
                        + "be found by it.",
                    subject: .init(entity: destination.name, property: parts[1]))
            }
            self = .related(relationship, key: parts[1], attribute)
        case .attribute, .composite, .fetched:
            throw QuireError(
                .invalidValue, "“\(name)” of \(entity.name) cannot be imported.",
                subject: .init(entity: entity.name, property: name))
        }
    }

    /// The relationship it is about, if it is about one.
    var relationship: EntityLayout.Relationship? {
        switch self {
        case .attribute: nil
        case .relationship(let relationship), .related(let relationship, _, _): relationship
        }
    }
}

extension ImportRow {
    /// Takes in the values of a row, column by column, in order.
    ///
    /// - Parameter values: For each column with a value: its name, what it is, and its values, of which
    ///   attributes and to-one relationships have one. `nil` is no value.
    mutating func add(_ name: String, _ column: ImportColumn, _ values: [AttributeValue]) throws {
        switch column {
        case .attribute(let key, _): attributes[key] = values.first ?? .null
        case .relationship(let relationship):
            try requireOnlyColumn(name, of: relationship)
            let identifiers = values.compactMap {
                if case .string(let identifier) = $0 { identifier } else { nil }
            }
            relationships.append(
                Related(
                    relationship: relationship, column: name,
                    objects: .identifiers(identifiers.joined(separator: ","))))
        case .related(let relationship, let key, _):
            let index = relationships.firstIndex { $0.relationship.index == relationship.index }
            if let index, case .values(var objects) = relationships[index].objects,
                !relationship.isToMany
            {
                let value = values.first ?? .null
                if !objects.isEmpty {
                    objects[0].append((key, value))
                } else if !value.isNull {
                    throw QuireError(
                        .invalidValue,
                        "There is a value here, but none for “\(relationships[index].column)”, "
                            + "which says which \(relationship.name) it is.",
                        subject: .init(entity: entity.name, property: relationship.name))
                }
                relationships[index].objects = .values(objects)
                return
            }
            try requireOnlyColumn(name, of: relationship)
            relationships.append(
                Related(
                    relationship: relationship, column: name,
                    objects: .values(values.filter { !$0.isNull }.map { [(key, $0)] })))
        }
    }

    private func requireOnlyColumn(
        _ name: String, of relationship: EntityLayout.Relationship
    ) throws {
        if relationships.contains(where: { $0.relationship.index == relationship.index }) {
            throw QuireError(
                .invalidValue,
                "“\(name)” is a second column for the relationship “\(relationship.name)”.",
                subject: .init(entity: entity.name, property: relationship.name))
        }
    }

    /// Checks the attributes by the model's rules, those that the row does not name by their defaults.
    func validate() throws {
        try Self.validate(attributes, of: entity, place: place)
        for relationship in entity.relationships where !relationship.description.isOptional {
            let isThere = relationships.contains {
                $0.leadsSomewhere && $0.relationship.index == relationship.index
            }
            if !isThere {
                throw QuireError(
                    .validation,
                    "\(place): “\(relationship.name)” of \(entity.name) is required but leads to "
                        + "no object.",
                    subject: .init(entity: entity.name, property: relationship.name))
            }
        }
    }

    /// Checks the attributes of an object that is to be made.
    static func validate(
        _ attributes: [String: AttributeValue], of entity: EntityLayout, place: String
    ) throws {
        for slot in entity.slots {
            guard let attribute = slot.attribute, slot.isStored else { continue }
            let value = attributes[slot.name] ?? attribute.defaultValue
            do {
                try attribute.validate(attribute.coerce(value), entity: entity.name)
            } catch {
                throw locate(error, place)
            }
        }
    }
}

extension ImportRow.Related {
    /// Whether there is at least one object.
    var leadsSomewhere: Bool {
        switch objects {
        case .identifiers(let text): !text.isEmpty
        case .values(let objects): !objects.isEmpty
        }
    }
}
