/// What batch requests may set.
extension EntityLayout {
    /// The property of a key.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`.
    func requireProperty(_ key: String) throws -> Property {
        if let property = properties[key] { return property }
        throw QuireError(
            .unknownKey,
            "\(name) has no property “\(key)”; its properties are: "
                + propertyNames.joined(separator: ", ") + ".",
            subject: .init(entity: name, property: key))
    }

    /// Whether a batch request can set an attribute.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if not.
    func requireSettable(_ slot: Slot) throws {
        if slot.attribute?.derivationExpression != nil {
            throw unsettable(slot.name, "is derived: the store computes it")
        }
        if !slot.isStored { throw unsettable(slot.name, "is transient: no store keeps it") }
    }

    func unsettable(_ key: String, _ reason: String) -> QuireError {
        QuireError(
            .unsupported, "A batch request cannot set “\(name).\(key)”, which \(reason).",
            subject: .init(entity: name, property: key))
    }
}
