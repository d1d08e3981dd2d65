package import Quire

/// The attribute by which people recognize an entity's objects.
package enum ObjectLabel {
    /// The usual names of such attributes, the best first.
    static let names = [
        "name", "title", "label", "subject", "fullName", "displayName", "lastName", "summary",
        "text",
    ]

    /// A text attribute with one of the usual names, or else the entity's first one; `nil` if it has no texts.
    package static func attribute(of entity: ResolvedEntity) -> ResolvedEntity.Slot? {
        let texts = entity.slots.filter { $0.isStored && $0.attribute?.type == .string }
        for name in names {
            if let slot = texts.first(where: { $0.name == name }) { return slot }
        }
        return texts.first
    }
}
