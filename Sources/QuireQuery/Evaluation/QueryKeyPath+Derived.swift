package import QuireModel

extension QueryKeyPath {
    /// The entity of other objects whose changes matter to the attribute at the end, because it is derived.
    package func derivationSource(in layout: ModelLayout) -> EntityLayout? {
        guard case .slot(let slot) = end, destination.slots[slot].isDerived,
            let derivation = layout.derivations.derivation(of: slot, in: destination),
            let index = derivation.relationshipIndex
        else { return nil }
        let relationship = destination.relationships[index]
        return derivation.looksAtMembers(in: layout, relationship)
            ? layout.destination(of: relationship) : nil
    }
}
