extension ManagedObject: QuerySubject {
    /// The model of the object's context.
    public final var queryLayout: ModelLayout { requireContext().layout }

    /// The value of a property, for predicates tested in memory.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, or what reading the store throws.
    public func queryValue(forKey key: String) throws -> QueryValue {
        let index: Int
        switch try property(key) {
        case .relationship(let found): index = found
        // Of a value in a file it matters only that it is there.
        case .attribute(let slot): return .value(try readNotedValue(at: slot))
        default: return .value(try value(forKey: key))
        }
        let relationship = entity.relationships[index]
        let context = requireContext()
        guard let slot = relationship.slot else {
            return .objects(objects(through: relationship))
        }
        return objectID(at: slot).map { .object(context.object(with: $0)) } ?? .value(.null)
    }
}

extension ManagedObject: ContextBoundSubject {
    package final var boundStoreUUID: String? {
        objectID.storeUUID ?? context?.storeForNewObject(self)?.uuid
    }

    package final func requireStoreIdentity() throws -> StoreIdentity {
        if let context { return context.storeIdentity }
        throw QuireError(
            .notFound,
            "\(objectID.shortDescription) belongs to no context any more; a query cannot look at it.",
            subject: .init(entity: entity.name, object: objectID.uriRepresentation))
    }
}
