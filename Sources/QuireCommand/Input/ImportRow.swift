import Quire

/// A row to import, with its columns resolved and its attributes read: nothing about it needs the document any
/// more but the objects it refers to.
struct ImportRow {
    /// The entity of the object to make.
    var entity: ResolvedEntity
    /// The position of the row: “books.csv, line 12”.
    var place: String
    /// The attributes, by name; composite elements by their dotted names.
    var attributes: [String: AttributeValue] = [:]
    /// The relationships.
    var relationships: [Related] = []

    /// The destination of a relationship of the new object.
    struct Related {
        /// The names of the objects.
        enum Objects {
            /// By identifiers, separated by commas.
            case identifiers(String)
            /// By the value of their first attribute here; the others complete them.
            case values([[(key: String, value: AttributeValue)]])
            /// By all that objects in the row's object have.
            case rows([ImportRow])
        }

        var relationship: ResolvedEntity.Relationship
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
    case relationship(ResolvedEntity.Relationship)
    /// An attribute of a relationship's destination.
    case related(ResolvedEntity.Relationship, key: String, AttributeDescription)

    /// Resolves a column's name.
    ///
    /// - Throws: `QuireError` with code `unknownKey` or `invalidValue`.
    init(_ name: String, in entity: ResolvedEntity, of layout: ResolvedModel) throws {
        if case .attribute(let slot)? = entity.properties[name],
            let attribute = entity.slots[slot].attribute
        {
            self = .attribute(key: name, attribute)
            return
        }
        let parts = name.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
            .map(String.init)
        switch try entity.requireProperty(parts[0]) {
        case .relationship(let index):
            let relationship = entity.relationships[index]
            guard parts.count == 2 else {
                self = .relationship(relationship)
                return
            }
            let destination = layout.destination(of: relationship)
            guard case .attribute(let slot) = try destination.requireProperty(parts[1]),
                let attribute = destination.slots[slot].attribute
            else {
                throw QuireError(
                    .invalidValue,
                    "“\(parts[1])” of \(destination.name) is not an attribute, so objects cannot "
                        + "be found by it.",
                    entity: destination.name, property: parts[1])
            }
            self = .related(relationship, key: parts[1], attribute)
        case .attribute where parts.count == 2:
            throw QuireError(
                .unknownKey,
                "“\(parts[0])” of \(entity.name) is an attribute, so it has no “\(parts[1])”.",
                entity: entity.name, property: parts[0])
        case .attribute, .composite, .fetched:
            throw QuireError(
                .invalidValue, "“\(name)” of \(entity.name) cannot be imported.",
                entity: entity.name, property: name)
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
                        "This column has a value, but “\(relationships[index].column)”, "
                            + "which identifies the \(relationship.name), has none.",
                        entity: entity.name, property: relationship.name)
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

    /// Takes in the objects in the row's object.
    ///
    /// - Parameter name: The name of the column.
    mutating func add(
        _ rows: [ImportRow], to relationship: ResolvedEntity.Relationship, _ name: String
    ) throws {
        try requireOnlyColumn(name, of: relationship)
        if !relationship.isToMany, rows.count > 1 {
            throw QuireError(
                .invalidValue, "“\(name)” accepts one object, not \(rows.count).",
                entity: entity.name, property: relationship.name)
        }
        relationships.append(
            Related(relationship: relationship, column: name, objects: .rows(rows)))
    }

    private func requireOnlyColumn(
        _ name: String, of relationship: ResolvedEntity.Relationship
    ) throws {
        if relationships.contains(where: { $0.relationship.index == relationship.index }) {
            throw QuireError(
                .invalidValue,
                "“\(name)” is a second column for the relationship “\(relationship.name)”.",
                entity: entity.name, property: relationship.name)
        }
    }

    /// Checks the attributes by the model's rules, those that the row does not name by their defaults.
    ///
    /// - Parameter owner: The relationship to the object that it is in, which is not empty.
    func validate(in owner: ResolvedEntity.Relationship? = nil) throws {
        do { try Self.validate(attributes, of: entity) } catch { throw Self.locate(error, place) }
        for relationship in entity.relationships
        where !relationship.description.isOptional
            && (!relationship.isToMany || relationship.description.minimumCount > 0)
            && relationship.name != owner?.name
        {
            let isThere = relationships.contains {
                $0.leadsSomewhere && $0.relationship.index == relationship.index
            }
            if !isThere {
                throw QuireError(
                    .validation,
                    "\(place): “\(relationship.name)” of \(entity.name) is required but has "
                        + "no object.",
                    entity: entity.name, property: relationship.name)
            }
        }
    }

    /// Checks only the attributes that the row names, because it changes an object that has the others.
    func validateGiven() throws {
        do {
            for (key, value) in attributes {
                guard let attribute = slot(of: key)?.attribute else { continue }
                try attribute.validate(attribute.coerce(value), entity: entity.name)
            }
        } catch { throw Self.locate(error, place) }
    }

    /// Checks the attributes of an object that is to be made.
    static func validate(
        _ attributes: [String: AttributeValue], of entity: ResolvedEntity
    ) throws {
        for slot in entity.slots {
            guard let attribute = slot.attribute, slot.isStored else { continue }
            let value = attributes[slot.name] ?? attribute.defaultValue
            try attribute.validate(attribute.coerce(value), entity: entity.name)
        }
    }

    /// The value that an attribute of the new object gets.
    func value(of key: String) throws -> AttributeValue {
        guard let slot = slot(of: key) else { return .null }
        return try coerce(attributes[key] ?? slot.attribute?.defaultValue ?? .null, for: key)
    }

    /// A value as an attribute keeps it.
    func coerce(_ value: AttributeValue, for key: String) throws -> AttributeValue {
        try slot(of: key)?.attribute?.coerce(value) ?? value
    }

    private func slot(of key: String) -> ResolvedEntity.Slot? {
        guard case .attribute(let slot)? = entity.properties[key] else { return nil }
        return entity.slots[slot]
    }
}

extension ImportRow.Related {
    /// Whether there is at least one object.
    var leadsSomewhere: Bool {
        switch objects {
        case .identifiers(let text): !text.isEmpty
        case .values(let objects): !objects.isEmpty
        case .rows(let rows): !rows.isEmpty
        }
    }
}
