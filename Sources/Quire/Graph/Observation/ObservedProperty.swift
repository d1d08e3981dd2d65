/// What Swift's Observation can follow of an object, numbered so that a set of them is a ``SlotMask``.
struct ObservedProperty: Hashable {
    let number: Int

    private init(number: Int) { self.number = number }

    /// Whether the object is inserted, updated or deleted.
    static let state = ObservedProperty(number: 0)

    /// An attribute or a to-one relationship, by its slot.
    static func slot(_ slot: Int) -> ObservedProperty { .init(number: 1 + slot * 2) }

    /// A to-many relationship, by its position among them.
    static func toMany(_ index: Int) -> ObservedProperty { .init(number: 2 + index * 2) }

    /// The slot, if it is one.
    var slot: Int? { number & 1 == 1 ? number / 2 : nil }

    init(_ relationship: EntityLayout.Relationship) {
        if let slot = relationship.slot {
            self = .slot(slot)
        } else {
            self = .toMany(relationship.toManyIndex ?? 0)
        }
    }
}
