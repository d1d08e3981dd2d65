internal import QuireSystem

extension ModelValidation {
    /// Checks that what an attribute is derived from is there, and of types that go together.
    mutating func checkSource(
        of attribute: AttributeDescription, _ expression: String, entity: String
    ) {
        let name = "“\(entity).\(attribute.name)”"
        do {
            let type = try DerivationCheck(validation: self, entity: entity)
                .check(AttributeDerivation(expression).form)
            if !type.accepts(attribute.type) {
                fail(
                    "Attribute \(name) is of type \(attribute.type.title), but “\(expression)” gives "
                        + "\(type.title).", entity: entity, property: attribute.name)
            }
        } catch {
            fail(
                "Attribute \(name) cannot be derived: \((error as? QuireError)?.message ?? "\(error)")",
                entity: entity, property: attribute.name)
        }
    }
}

/// What a derivation gives.
private enum DerivedType {
    case integer, date
    /// Exactly the values of an attribute.
    case sameAs(AttributeType)
    /// A sum of numbers of a type.
    case sum(AttributeType)

    var title: String {
        switch self {
        case .integer: "an integer"
        case .date: "a date"
        case .sameAs(let type): "a value of type \(type.title)"
        case .sum(let type): "a sum of type \(type.title)"
        }
    }

    func accepts(_ type: AttributeType) -> Bool {
        switch (self, type) {
        case (.integer, .integer16), (.integer, .integer32), (.integer, .integer64): true
        case (.date, .date): true
        case (.sameAs(let source), _):
            source == type || Self.isInteger(source) && Self.isInteger(type)
                || Self.isFloating(source) && Self.isFloating(type)
        case (.sum(.decimal), .decimal): true
        case (.sum(let source), .double), (.sum(let source), .float): source != .decimal
        case (.sum(let source), _): Self.isInteger(source) && Self.isInteger(type)
        default: false
        }
    }

    static func isInteger(_ type: AttributeType) -> Bool {
        type == .integer16 || type == .integer32 || type == .integer64
    }

    static func isFloating(_ type: AttributeType) -> Bool { type == .double || type == .float }
}

/// Looks up what a derivation names.
private struct DerivationCheck {
    let validation: ModelValidation
    let entity: String

    func check(_ form: AttributeDerivation.Form) throws -> DerivedType {
        switch form {
        case .now: return .date
        case .count(let name):
            _ = try toMany(name)
            return .integer
        case .sum(let name, let key):
            let source = try attribute(
                key.split(separator: ".").map(String.init), of: toMany(name).destinationEntityName)
            switch source.type {
            case .integer16, .integer32, .integer64, .decimal, .double, .float:
                return .sum(source.type)
            default:
                throw objection(
                    "“\(key)” is of type \(source.type.title), of which there is no sum.")
            }
        case .copy(let keys):
            let source = try source(at: keys)
            switch source.type {
            case .undefined, .transformable, .objectID, .composite:
                throw objection(
                    "“\(keys.joined(separator: "."))” is of type \(source.type.title), which is not derived from."
                )
            case .binary where source.allowsExternalBinaryDataStorage:
                throw objection(
                    "“\(keys.joined(separator: "."))” may be kept in files, which is not derived from."
                )
            default: return .sameAs(source.type)
            }
        case .text(let function, let keys):
            let source = try source(at: keys)
            guard source.type == .string else {
                throw objection(
                    "“\(keys.joined(separator: "."))” is of type \(source.type.title), but “\(function.rawValue):” takes a text."
                )
            }
            return .sameAs(.string)
        }
    }

    private func toMany(_ name: String) throws -> RelationshipDescription {
        guard let found = validation.property(named: name, of: entity) else {
            throw objection("“\(entity)” has no property “\(name)”.")
        }
        guard case .relationship(let relationship) = found.property, relationship.isToMany else {
            throw objection("“\(entity).\(name)” is no to-many relationship.")
        }
        if relationship.isTransient {
            throw objection("“\(entity).\(name)” is transient, and the store knows nothing of it.")
        }
        return relationship
    }

    /// The attribute of the object itself, or of the one that a to-one relationship leads to.
    private func source(at keys: [String]) throws -> AttributeDescription {
        guard let found = validation.property(named: keys[0], of: entity),
            case .relationship(let relationship) = found.property
        else { return try attribute(keys, of: entity) }
        if relationship.isToMany {
            throw objection(
                "“\(entity).\(keys[0])” is a to-many relationship; use “@count” or “@sum”.")
        }
        if relationship.isTransient {
            throw objection(
                "“\(entity).\(keys[0])” is transient, and the store knows nothing of it.")
        }
        if keys.count == 1 {
            throw objection("“\(entity).\(keys[0])” is a relationship; name an attribute of it.")
        }
        return try attribute(Array(keys.dropFirst()), of: relationship.destinationEntityName)
    }

    private func attribute(_ keys: [String], of entity: String) throws -> AttributeDescription {
        guard let found = validation.property(named: keys[0], of: entity) else {
            throw objection("“\(entity)” has no property “\(keys[0])”.")
        }
        guard case .attribute(var attribute) = found.property else {
            throw objection(
                "“\(entity).\(keys[0])” is no attribute; a derivation follows at most one relationship."
            )
        }
        for key in keys.dropFirst() {
            guard
                let element = validation.composites[attribute.compositeName ?? ""]?.elements
                    .first(where: { $0.name == key })
            else {
                throw objection("“\(entity).\(attribute.name)” has no element “\(key)”.")
            }
            attribute = element
        }
        if attribute.isTransient {
            throw objection(
                "“\(entity).\(keys.joined(separator: "."))” is transient, and the store knows nothing of it."
            )
        }
        if attribute.derivationExpression != nil {
            throw objection(
                "“\(entity).\(keys.joined(separator: "."))” is derived itself; derive from what it is derived from."
            )
        }
        return attribute
    }

    private func objection(_ message: String) -> QuireError { QuireError(.invalidModel, message) }
}
