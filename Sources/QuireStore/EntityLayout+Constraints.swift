package import QuireModel

extension EntityLayout {
    /// The slots of a uniqueness constraint, in its order.
    package func slots(ofConstraint properties: [String]) -> [Int] {
        properties.flatMap { name -> [Int] in
            switch self.properties[name] {
            case .attribute(let slot): [slot]
            case .composite(let slots): Array(slots)
            case .relationship(let index): relationships[index].slot.map { [$0] } ?? []
            case .fetched, nil: []
            }
        }
    }

    /// The slots of all uniqueness constraints.
    package var uniqueSlots: [Int] {
        Array(Set(uniquenessConstraints.flatMap { slots(ofConstraint: $0.properties) })).sorted()
    }
}
