internal import QuireModel
internal import QuireQuery
internal import QuireStore

/// The objects that a batch request in memory reads, as of before it, and writes.
protocol BatchStorage {
    var layout: ResolvedModel { get }
    var identity: StoreIdentity { get }
    /// The path of the store, for errors.
    var path: String? { get }

    /// The rows that a request finds, in its order, within its limit and offset.
    func rows(matching request: FetchSpecification) throws -> [ObjectSnapshot]
    /// The row with the primary key of an identifier in its hierarchy.
    func savedRow(_ bits: UInt64) throws -> ObjectSnapshot?
    /// The rows of a relationship's destination objects, without dangling references.
    func related(
        _ bits: UInt64, through relationship: ResolvedEntity.Relationship
    ) throws -> [ObjectSnapshot]
    /// The objects with the values of a unique key.
    func savedHolders(of key: UniqueKey) throws -> [UInt64]
    /// The objects as predicates see them.
    func storedObjects() -> StoredObjects
    /// A primary key for a new object.
    func nextPrimaryKey(of entity: ResolvedEntity) throws -> Int64

    /// Writes the result of a change set. Once per request.
    ///
    /// - Parameter counted: Relationships whose count rules the change set may violate.
    /// - Returns: The objects not in the change set whose derived attributes have changed.
    mutating func apply(
        _ changes: ChangeSet, checkingCounts counted: [CountedRelationship]
    ) throws -> [ManagedObjectID]
}

extension BatchStorage {
    /// The row of an object, if it is of the identifier's entity.
    func object(_ bits: UInt64) throws -> ObjectSnapshot? {
        guard let row = try savedRow(bits),
            layout.entity(number: ManagedObjectID.entityNumber(of: bits)).subtree.contains(
                row.entity.number)
        else { return nil }
        return row
    }
}

extension AtomicStore.Transaction: BatchStorage {
    var layout: ResolvedModel { contents.layout }
    var identity: StoreIdentity { contents.identity }

    func rows(matching request: FetchSpecification) throws -> [ObjectSnapshot] {
        try contents.query(request) { try $0.rows($1) }
    }

    func savedRow(_ bits: UInt64) -> ObjectSnapshot? { contents.row(bits).map(contents.snapshot) }

    func related(
        _ bits: UInt64, through relationship: ResolvedEntity.Relationship
    ) -> [ObjectSnapshot] {
        contents.related(bits, through: relationship)
    }

    func savedHolders(of key: UniqueKey) -> [UInt64] { index.holders(of: key) }

    func storedObjects() -> StoredObjects { contents.storedObjects() }

    func nextPrimaryKey(of entity: ResolvedEntity) throws -> Int64 { try nextKey() }
}
