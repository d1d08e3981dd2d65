public import Foundation

extension ManagedObject {
    /// The value of an attribute, or the identifier that a to-one relationship leads to.
    ///
    /// Stops the program with a sentence if the key names neither, or the new value is of the wrong type. A change that is
    /// refused because an object is gone is reported as the context's ``ManagedObjectContext/lastFaultError``.
    public final subscript(key: String) -> AttributeValue {
        get {
            do {
                return try value(forKey: key)
            } catch let error as QuireError where error.code == .unknownKey {
                preconditionFailure(error.message)
            } catch {
                context?.reportFault(error)
                return .null
            }
        }
        set {
            trapping { try setValue(newValue, forKey: key) }
        }
    }

    /// The value of an attribute, or the identifier that a to-one relationship leads to.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names neither, or what reading the store or
    ///   the value's file throws.
    public final func value(forKey key: String) throws -> AttributeValue {
        switch try property(key) {
        case .attribute(let slot): return try readValue(at: slot)
        case .composite(let slots):
            var elements: [String: AttributeValue] = [:]
            for slot in slots {
                let path = entity.slots[slot].name.dropFirst(key.count + 1).split(separator: ".")
                Self.set(try readValue(at: slot), at: path[...], in: &elements)
            }
            return .composite(elements)
        case .relationship(let index):
            guard let slot = entity.relationships[index].slot else {
                throw QuireError(
                    .unknownKey,
                    "“\(key)” of \(entity.name) is a to-many relationship, not a value; ask for objects(“\(key)”).",
                    subject: .init(entity: entity.name, property: key))
            }
            return objectID(at: slot).map { .objectID($0) } ?? .null
        case .fetched:
            throw QuireError(
                .unsupported,
                "“\(key)” of \(entity.name) is a fetched property; ask for fetchedObjects(“\(key)”).",
                subject: .init(entity: entity.name, property: key))
        }
    }

    /// Sets an attribute, or the object that a to-one relationship leads to by its identifier.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names neither, `invalidValue` if the value is
    ///   of the wrong type, or `notFound` if there is no such object or it, or this one, was deleted.
    public final func setValue(_ value: AttributeValue, forKey key: String) throws {
        switch try property(key) {
        case .attribute(let slot): try setValue(value, at: slot)
        case .composite(let slots):
            for element in try entity.elements(of: value, forKey: key, in: slots) {
                try setValue(element.value, at: element.slot)
            }
        case .relationship(let index):
            let relationship = entity.relationships[index]
            if state.contains(.discarded) { throw goneError(key) }
            switch value {
            case .null where !relationship.isToMany: try setObject(nil, through: relationship)
            case .objectID(let id) where !relationship.isToMany:
                try setObject(requireContext().existingObject(with: id), through: relationship)
            default:
                throw QuireError(
                    .invalidValue,
                    "“\(key)” of \(entity.name) is a relationship; \(value) is no object for it.",
                    subject: .init(entity: entity.name, property: key))
            }
        case .fetched:
            throw QuireError(
                .invalidValue,
                "“\(key)” of \(entity.name) is a fetched property and cannot be set.",
                subject: .init(entity: entity.name, property: key))
        }
    }

    /// The property of a key.
    final func property(_ key: String) throws -> EntityLayout.Property {
        if let property = entity.properties[key] { return property }
        throw QuireError(
            .unknownKey,
            "\(entity.name) has no property “\(key)”; its properties are: "
                + entity.propertyNames.joined(separator: ", ") + ".",
            subject: .init(entity: entity.name, property: key))
    }

    private static func set(
        _ value: AttributeValue, at path: ArraySlice<Substring>,
        in elements: inout [String: AttributeValue]
    ) {
        guard let first = path.first.map(String.init) else { return }
        if path.count == 1 {
            elements[first] = value
            return
        }
        var inner: [String: AttributeValue] = [:]
        if case .composite(let existing)? = elements[first] { inner = existing }
        set(value, at: path.dropFirst(), in: &inner)
        elements[first] = .composite(inner)
    }
}

// MARK: - Typed getters

/// Each gives `nil` if there is no value or the attribute is of another type, and stops the program with a
/// sentence if the key names no attribute.
extension ManagedObject {
    /// The text of an attribute.
    public final func string(_ key: String) -> String? {
        if case .string(let string) = self[key] { return string }
        return nil
    }

    /// The integer of an attribute.
    public final func integer(_ key: String) -> Int64? {
        if case .integer(let integer) = self[key] { return integer }
        return nil
    }

    /// The floating-point number of an attribute.
    public final func double(_ key: String) -> Double? {
        if case .double(let double) = self[key] { return double }
        return nil
    }

    /// The truth value of an attribute.
    public final func boolean(_ key: String) -> Bool? {
        if case .boolean(let boolean) = self[key] { return boolean }
        return nil
    }

    /// The decimal number of an attribute.
    public final func decimal(_ key: String) -> Decimal? {
        if case .decimal(let decimal) = self[key] { return decimal }
        return nil
    }

    /// The date of an attribute.
    public final func date(_ key: String) -> Date? {
        if case .date(let date) = self[key] { return date }
        return nil
    }

    /// The bytes of an attribute, read from their file if they are kept in one.
    public final func binary(_ key: String) -> Data? {
        if case .binary(let data) = self[key] { return data }
        return nil
    }

    /// The UUID of an attribute.
    public final func uuid(_ key: String) -> UUID? {
        if case .uuid(let uuid) = self[key] { return uuid }
        return nil
    }

    /// The URI of an attribute.
    public final func uri(_ key: String) -> URL? {
        if case .uri(let uri) = self[key] { return uri }
        return nil
    }
}
