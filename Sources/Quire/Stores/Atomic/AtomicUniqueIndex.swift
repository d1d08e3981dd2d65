/// Finds objects by values that must be unique. Of the store as it is saved; only who saves uses it, under the store's lock.
final class AtomicUniqueIndex {
    private var holders: [UniqueKey: [UInt64]] = [:]

    init(_ contents: AtomicContents) throws {
        guard contents.layout.entities.contains(where: { !$0.uniquenessConstraints.isEmpty }) else {
            return
        }
        try contents.forEachRow { try insert(contents.snapshot($0)) }
    }

    func holders(of key: UniqueKey) -> [UInt64] { holders[key] ?? [] }

    func insert(_ row: ObjectSnapshot) throws {
        for key in try Self.keys(of: row) { holders[key, default: []].append(row.objectID.bits) }
    }

    func remove(_ row: ObjectSnapshot) throws {
        let bits = row.objectID.bits
        for key in try Self.keys(of: row) {
            holders[key]?.removeAll { $0 == bits }
            if holders[key]?.isEmpty == true { holders[key] = nil }
        }
    }

    private static func keys(of row: ObjectSnapshot) throws -> [UniqueKey] {
        try row.entity.uniquenessConstraints.compactMap { owner, properties in
            UniqueKey(
                owner: owner, properties: properties,
                values: try row.entity.slots(ofConstraint: properties).map {
                    try row.value(at: $0)
                })
        }
    }
}
