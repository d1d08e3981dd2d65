internal import QuireModel
internal import QuireSQLite

/// A column with the primary key of an object, as a migration moves it: the key that the object has afterwards, and its
/// entity.
struct SQLReference {
    /// The old column with the key.
    let key: String
    /// The old column with the destination's entity number, if there is one.
    let entity: String?
    /// The column's old destination entity.
    let from: ResolvedEntity
    /// The possible entities of the destination object: the old store number, and the new number and key offset, or `nil` if
    /// it is not migrated.
    private let targets: [(old: Int, new: (number: Int, offset: Int64)?)]
    /// Whether an old destination object may be an invalid destination now.
    let isNarrowing: Bool
    private let tableName: String
    private let fallback: Int

    init(
        key: String, entity: String?, from: ResolvedEntity, to: ResolvedEntity, plan: TransferPlan,
        old: SQLSchema
    ) {
        self.key = key
        self.entity = entity
        self.from = from
        targets = from.subtree.map { number in
            let transfer = plan.transfer(ofEntity: number, within: to)
            return (
                old.entity(number: number).storeNumber,
                transfer.map { ($0.destination.number, plan.keyOffsets[$0.keyGroup]) }
            )
        }
        isNarrowing = plan.isNarrowing(from: from, to: to)
        tableName = old.entity(from).tableName
        fallback = old.entity(from).storeNumber
    }

    private var column: SQLFragment { "\(name: key)" }

    /// Whether keys stay as they are, whatever objects they are of.
    var isPlain: Bool { targets.allSatisfy { $0.new?.offset == 0 } }

    /// The number that the object's entity had in the store.
    private var oldNumber: SQLFragment {
        if targets.count == 1 { return "\(fallback)" }
        let known = targets.map { "\($0.old)" as SQLFragment }.joined(by: ", ")
        let found: SQLFragment =
            "ifnull((SELECT t.Z_ENT FROM \(name: tableName) t WHERE t.Z_PK = \(name: key) AND t.Z_ENT IN (\(known))), \(fallback))"
        guard let entity else { return found }
        return "CASE WHEN \(name: entity) IN (\(known)) THEN \(name: entity) ELSE \(found) END"
    }

    /// The new foreign key; NULL if the object is not migrated.
    var keyFragment: SQLFragment {
        if isPlain { return column }
        if targets.count == 1 || Set(targets.map { $0.new?.offset }).count == 1 {
            guard let offset = targets[0].new?.offset else { return "NULL" }
            return "(\(column) + \(Int(offset)))"
        }
        let cases = targets.compactMap { target -> SQLFragment? in
            target.new.map { "WHEN \(target.old) THEN \(column) + \(Int($0.offset))" }
        }
        return "CASE \(oldNumber) \(cases.joined(by: " ")) END"
    }

    /// The new entity number of the object; NULL if there is no object, or it is not migrated.
    var entityFragment: SQLFragment {
        let kept = targets.filter { $0.new != nil }
        if kept.isEmpty { return "NULL" }
        if targets.count == 1, let new = targets[0].new {
            return "CASE WHEN \(column) NOT NULL THEN \(new.number) END"
        }
        let isSame = targets.allSatisfy { $0.new?.number == $0.old }
        if isSame, let entity { return "\(name: entity)" }
        let cases = kept.map { target -> SQLFragment in
            "WHEN \(target.old) THEN \(target.new?.number ?? 0)"
        }
        return
            "CASE WHEN \(column) NOT NULL THEN CASE \(oldNumber) \(cases.joined(by: " ")) END END"
    }

    /// A value that accompanies the reference, if the object is migrated.
    func ifKept(_ fragment: SQLFragment) -> SQLFragment {
        isPlain ? fragment : "CASE WHEN \(keyFragment) NOT NULL THEN \(fragment) END"
    }
}

extension TransferPlan {
    /// Whether an old destination object of a relationship may be an invalid destination now, because its entity has left the
    /// hierarchy.
    func isNarrowing(from old: ResolvedEntity, to new: ResolvedEntity) -> Bool {
        old.subtree.contains { number in
            !source.entity(number: number).isAbstract
                && transfer(ofEntity: number, within: new) == nil
                && !transfers(ofEntity: number).isEmpty
        }
    }
}
