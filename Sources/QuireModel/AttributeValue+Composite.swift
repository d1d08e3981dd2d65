internal import QuireSystem

extension [String: AttributeValue] {
    /// The element of a composite value that names lead to; ``AttributeValue/null`` if there is none.
    package func element(at path: ArraySlice<Substring>) -> AttributeValue {
        guard let first = path.first, let value = self[String(first)] else { return .null }
        if path.count == 1 { return value }
        if case .composite(let inner) = value { return inner.element(at: path.dropFirst()) }
        return .null
    }
}

extension EntityLayout {
    /// The values that a composite value has for the slots of a composite attribute.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the value is no composite one.
    package func elements(
        of value: AttributeValue, forKey key: String, in slots: Range<Int>
    ) throws -> [(slot: Int, value: AttributeValue)] {
        guard case .composite(let elements) = value.isNull ? .composite([:]) : value else {
            throw QuireError(
                .invalidValue, "“\(key)” of \(name) takes a composite value.",
                subject: .init(entity: name, property: key))
        }
        return slots.map { slot in
            let path = self.slots[slot].name.dropFirst(key.count + 1).split(separator: ".")
            return (slot, elements.element(at: path[...]))
        }
    }
}
