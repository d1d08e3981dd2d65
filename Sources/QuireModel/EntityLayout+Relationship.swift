extension EntityLayout {
    /// A relationship with its other end resolved.
    public final class Relationship: Sendable {
        /// The position in ``EntityLayout/relationships``.
        public let index: Int
        /// The relationship's name.
        public var name: String { description.name }
        /// The model's description.
        public let description: RelationshipDescription
        /// The number of the entity that declares it.
        public let ownerNumber: Int
        /// The number of the entity it leads to.
        public let destinationNumber: Int
        /// The position of the inverse in the destination's relationships.
        public let inverseIndex: Int?
        /// The slot of a to-one relationship.
        public let slot: Int?
        /// The position among the to-many relationships.
        public let toManyIndex: Int?
        /// Whether it leads to any number of objects.
        public let isToMany: Bool
        /// Whether its objects have an order.
        public let isOrdered: Bool
        /// Whether it leads to any number of objects, but not to every number.
        package let hasCountRules: Bool

        init(
            index: Int, description: RelationshipDescription, ownerNumber: Int,
            destinationNumber: Int, inverseIndex: Int?, slot: Int?, toManyIndex: Int?
        ) {
            self.index = index
            self.description = description
            self.ownerNumber = ownerNumber
            self.destinationNumber = destinationNumber
            self.inverseIndex = inverseIndex
            self.slot = slot
            self.toManyIndex = toManyIndex
            isToMany = description.isToMany
            isOrdered = description.isToMany && description.isOrdered
            hasCountRules =
                description.isToMany
                && (!description.isOptional || description.minimumCount > 0
                    || description.maximumCount > 0)
        }
    }
}
