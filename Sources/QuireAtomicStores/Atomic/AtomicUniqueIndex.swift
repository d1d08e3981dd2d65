internal import QuireModel
internal import QuireStore

/// Finds objects by values that must be unique. Of the store as it is saved; only who saves uses it, under the store's lock.
final class AtomicUniqueIndex {
    private var holders: [UniqueKey: [UInt64]] = [:]

    init(_ contents: AtomicContents) throws {
        guard contents.layout.entities.contains(where: { !$0.uniquenessConstraints.isEmpty }) else {
            return
        }
        try contents.forEachRow { try Self.entries(of: contents.snapshot($0)).forEach(insert) }
    }

    func holders(of key: UniqueKey) -> [UInt64] { holders[key] ?? [] }

    /// That an object has a key.
    struct Entry {
        var key: UniqueKey
        var bits: UInt64
    }

    func insert(_ entry: Entry) { holders[entry.key, default: []].append(entry.bits) }

    func remove(_ entry: Entry) {
        holders[entry.key]?.removeAll { $0 == entry.bits }
        if holders[entry.key]?.isEmpty == true { holders[entry.key] = nil }
    }

    /// The keys that a row has.
    static func entries(of row: ObjectSnapshot) throws -> [Entry] {
        try row.entity.uniquenessConstraints.compactMap { owner, properties in
            let key = UniqueKey(
                owner: owner, properties: properties,
                values: try row.entity.slots(ofConstraint: properties).map {
                    try row.value(at: $0)
                })
            return key.map { Entry(key: $0, bits: row.objectID.bits) }
        }
    }
}
