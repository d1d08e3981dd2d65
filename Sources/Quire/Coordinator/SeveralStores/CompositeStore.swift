internal import Foundation
internal import QuireStore

/// Several stores behind the interface of one, for a coordinator.
///
/// A store keeps the objects of the entities of its configuration; several may keep those of the same entity. References stay
/// within one store. A request is passed to the stores that may have matches, and their results are merged in order; a single
/// such store answers directly.
///
/// Immutable: adding or removing a store creates a new composite.
final class CompositeStore: PersistentStore, DictionarySource {
    /// One of the stores.
    struct Member: Sendable {
        let store: any PersistentStore
        /// The numbers of the entities whose objects it keeps.
        let entityNumbers: Set<Int>

        /// The number that its identifiers have.
        var number: Int { ManagedObjectID.storeNumber(of: store.identity.numberBits) }
    }

    let members: [Member]
    let layout: ResolvedModel
    /// The store identity of all members' identifiers: that of any store of the coordinator.
    let identity: StoreIdentity

    init(members: [Member], layout: ResolvedModel, identity: StoreIdentity) {
        self.members = members
        self.layout = layout
        self.identity = identity
    }

    var type: StoreType { members.count == 1 ? members[0].store.type : .combination }
    var path: String? { members.count == 1 ? members[0].store.path : nil }
    var isReadOnly: Bool { members.allSatisfy(\.store.isReadOnly) }
    var capabilities: StoreCapabilities {
        guard let first = members.first else { return [] }
        return members.dropFirst().reduce(first.store.capabilities) {
            $0.intersection($1.store.capabilities)
        }
    }
    var externalCommitCount: Int { members.reduce(0) { $0 &+ $1.store.externalCommitCount } }
    var isDataAvailable: Bool { members.allSatisfy(\.store.isDataAvailable) }
    var contentVersion: ContentVersion? {
        members.count == 1 ? members[0].store.contentVersion : nil
    }

    // MARK: - Members

    /// The store of an object.
    ///
    /// - Throws: ``QuireError`` with code `storeUnavailable` if the coordinator has it no more.
    func member(of id: ManagedObjectID) throws -> Member {
        if let member = members.first(where: { $0.store.identity.owns(id) }) { return member }
        throw QuireError(
            .storeUnavailable,
            "The store of \(id.shortDescription), \(id.storeUUID ?? "?"), does not belong to the "
                + "coordinator.", subject: .init(object: id.uriRepresentation))
    }

    /// The stores that may have matches for a request.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`.
    func members(for request: FetchSpecification) throws -> [Member] {
        let entity = try layout.requireEntity(named: request.entityName)
        return members.filter {
            $0.entityNumbers.contains(entity.number) && !request.excludes($0.store.identity)
        }
    }

    /// The default store of an entity's new objects.
    func memberForNewObjects(of entity: ResolvedEntity) -> Member? {
        members.first { $0.entityNumbers.contains(entity.number) && !$0.store.isReadOnly }
    }

    /// Rows of one store as rows of the coordinator.
    func adopting(_ rows: RowSet) -> RowSet {
        RowSet(chunks: rows.chunks, locations: rows.locations, layout: layout, store: identity)
    }

    private var empty: RowSet { RowSet([], layout: layout, store: identity) }

    /// Checks a request that no store can match.
    private func check(_ request: FetchSpecification) throws {
        _ = try ResolvedQuery(request, in: layout, store: identity)
    }

    // MARK: - Fetching

    func rows(matching request: FetchSpecification) throws -> RowSet {
        let members = try members(for: request)
        switch members.count {
        case 0:
            try check(request)
            return empty
        case 1: return adopting(try members[0].store.rows(matching: request))
        default: return try CompositeFetch(request, of: members, in: self).rows()
        }
    }

    func count(matching request: FetchSpecification) throws -> Int {
        let members = try members(for: request)
        if members.isEmpty { try check(request) }
        if members.count == 1 { return try members[0].store.count(matching: request) }
        var all = request
        all.fetchLimit = 0
        all.fetchOffset = 0
        let count = try members.reduce(0) { try $0 + $1.store.count(matching: all) }
        let rest = max(count - max(request.fetchOffset, 0), 0)
        return request.fetchLimit > 0 ? min(rest, request.fetchLimit) : rest
    }

    func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList {
        let members = try members(for: request)
        if members.count == 1 {
            let list = try members[0].store.objectIDs(matching: request)
            return ObjectIDList(bits: list.bits, store: identity)
        }
        let rows = try rows(matching: request)
        return ObjectIDList(
            bits: ContiguousArray(rows.indices.map(rows.identifierBits)), store: identity)
    }

    func dictionaries(matching request: FetchSpecification) throws -> FetchedDictionaries {
        let members = try members(for: request)
        if members.count == 1 { return try members[0].store.dictionaries(matching: request) }
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        let subjects = try members.flatMap { member in
            let objects = StoredObjects(store: member.store)
            return try member.store.rows(matching: request.forObjects).map {
                StoredObject(snapshot: $0, objects: objects)
            }
        }
        return try DictionaryEvaluation(query: query, subjects: subjects).dictionaries()
    }

    func dictionaryStream(matching request: FetchSpecification) throws -> DictionaryStream {
        let members = try members(for: request)
        if members.count == 1 {
            return try DictionaryStream(request, of: members[0].store)
        }
        return DictionaryStream(try dictionaries(matching: request))
    }

    func explain(_ request: FetchSpecification) throws -> FetchExplanation {
        let members = try members(for: request)
        guard members.count == 1 else {
            throw QuireError(
                .unsupported,
                "The request for \(request.entityName) uses \(members.count) stores; specify one in affectedStores to "
                    + "explain it.",
                entity: request.entityName)
        }
        return try members[0].store.explain(request)
    }

    // MARK: - Rows

    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        guard let row = try member(of: objectID).store.row(for: objectID) else { return nil }
        return ObjectSnapshot(
            chunk: row.chunk, offset: row.offset, entity: layout.entity(number: row.entity.number),
            store: identity)
    }

    func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet {
        try groups(of: objectIDs).reduce(empty) { rows, group in
            let more = try group.member.store.rows(for: group.objectIDs)
            return rows.isEmpty ? adopting(more) : rows.appending(more)
        }
    }

    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        adopting(try member(of: objectID).store.relatedRows(of: objectID, through: relationship))
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        var result = RelatedObjects()
        for group in try groups(of: objectIDs) {
            result.append(
                try group.member.store.relatedObjects(of: group.objectIDs, through: relationship))
        }
        result.rows = result.rows.map(adopting)
        return result
    }

    /// Objects by their stores.
    func groups(
        of objectIDs: [ManagedObjectID]
    ) throws -> [(member: Member, objectIDs: [ManagedObjectID])] {
        var groups: [(member: Member, objectIDs: [ManagedObjectID])] = []
        for id in objectIDs {
            if let index = groups.firstIndex(where: { $0.member.store.identity.owns(id) }) {
                groups[index].objectIDs.append(id)
            } else {
                groups.append((try member(of: id), [id]))
            }
        }
        return groups
    }

    // MARK: - Changing

    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID] {
        guard let member = memberForNewObjects(of: entity) else { throw noStore(for: entity) }
        return try member.store.reserveObjectIDs(for: entity, count: count, durably: durably)
    }

    private func noStore(for entity: ResolvedEntity) -> QuireError {
        let keeping = members.filter { $0.entityNumbers.contains(entity.number) }
        let reason =
            members.isEmpty
            ? "the coordinator has no stores; add one"
            : keeping.isEmpty
                ? "no store contains this entity; add one with a configuration that contains it"
                : "the store that contains this entity was opened read-only"
        return QuireError(
            members.isEmpty || keeping.isEmpty ? .storeUnavailable : .readOnly,
            "A new \(entity.name) cannot be saved: \(reason).", entity: entity.name)
    }

    func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        try CompositeSave(changes, in: self).run()
    }

    func insert(
        _ request: BatchInsertRequest, onConflict policy: MergePolicy.Kind
    ) throws -> BatchResult {
        let entity = try layout.requireEntity(named: request.entityName)
        guard let member = memberForNewObjects(of: entity) else { throw noStore(for: entity) }
        return try member.store.insert(request, onConflict: policy)
    }

    /// Updates store by store, in one transaction each.
    func update(_ request: BatchUpdateRequest) throws -> BatchResult {
        let members = try members(for: FetchSpecification(request.entityName))
        return try combined(members.map { try $0.store.update(request) })
    }

    /// Deletes store by store, in one transaction each.
    func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        let objectIDs: [ManagedObjectID]
        switch request.selection {
        case .objectIDs(let given): objectIDs = given
        case .request(let fetchRequest):
            let members = try members(for: fetchRequest)
            if members.count == 1 { return try members[0].store.delete(request) }
            objectIDs = Array(try self.objectIDs(matching: fetchRequest))
        }
        return try combined(
            groups(of: objectIDs).map { group in
                var part = BatchDeleteRequest(objectIDs: group.objectIDs)
                part.resultType = request.resultType
                return try group.member.store.delete(part)
            })
    }

    /// Asks the stores that keep a history.
    func execute(_ request: PersistentHistoryChangeRequest) throws -> PersistentHistoryResult {
        let tracked = try members.filter { try $0.store.lastHistoryTransactionNumber() != nil }
        if tracked.isEmpty { throw (members.first?.store ?? self).noHistory() }
        if tracked.count == 1 { return try tracked[0].store.execute(request) }
        var selection = try PersistentHistorySelection(request, layout: layout)
        if request.deletes || request.isPlainCount || request.resultType == .statusOnly {
            let results = try tracked.map { try $0.store.execute(request) }
            return PersistentHistoryResult(count: results.reduce(0) { $0 + $1.count })
        }
        for token in selection.tokens {
            // Only to learn whether they have expired.
            var check = PersistentHistoryChangeRequest.fetchHistory(after: token)
            check.resultType = .count
            for member in tracked { _ = try member.store.execute(check) }
        }
        var part = request
        part.fetchSpecification = nil
        if request.fetchSpecification != nil || request.resultType.needsChanges {
            part.resultType = .transactionsAndChanges
        }
        let transactions = try tracked.flatMap { try $0.store.execute(part).transactions }
        for transaction in transactions.sorted(by: { $0.date < $1.date }) {
            guard try selection.add(transaction, changes: { transaction.changes }) else { break }
        }
        return selection.result()
    }

    private func combined(_ results: [BatchResult]) -> BatchResult {
        var count = 0
        var changes = ObjectIDChanges()
        for result in results {
            count += result.count
            changes.inserted += result.changes.inserted
            changes.updated += result.changes.updated
            changes.deleted += result.changes.deleted
            changes.refreshed += result.changes.refreshed
            changes.invalidated += result.changes.invalidated
        }
        return BatchResult(count: count, changes: changes)
    }

    func records() throws -> [String: String] { try members.first?.store.records() ?? [:] }

    func close() throws {
        var failures: [any Error] = []
        for member in members {
            do { try member.store.close() } catch { failures.append(error) }
        }
        if let first = failures.first { throw first }
    }
}

extension StoreType {
    /// Several stores of one coordinator.
    static let combination = StoreType(rawValue: "Combination")
}

// MARK: - Fetching from several stores

/// The merged results of several stores for a request.
///
/// Every store returns its rows up to offset plus limit. Rows that compare equal, and all rows of unordered requests, are
/// ordered by store, within a store in the store's order.
struct CompositeFetch {
    private let request: FetchSpecification
    private let members: [CompositeStore.Member]
    private let combination: CompositeStore

    init(
        _ request: FetchSpecification, of members: [CompositeStore.Member],
        in combination: CompositeStore
    ) {
        self.request = request
        self.members = members
        self.combination = combination
    }

    func rows() throws -> RowSet {
        let offset = max(request.fetchOffset, 0)
        var part = request
        part.fetchOffset = 0
        if request.fetchLimit > 0 { part.fetchLimit = offset + request.fetchLimit }
        // Checked once more, for the form in which orders compare.
        let orderings = try ResolvedQuery(
            request, in: combination.layout, store: combination.identity
        ).request.sortOrderings
        var all = RowSet([], layout: combination.layout, store: combination.identity)
        var keys: [[AttributeValue]] = []
        for member in members {
            let rows = try member.store.rows(matching: part)
            if !orderings.isEmpty {
                let objects = StoredObjects(store: member.store)
                for row in rows {
                    let object = StoredObject(snapshot: row, objects: objects)
                    keys.append(try orderings.map { try $0.resolvedSortValue(of: object) })
                }
            }
            all = all.appending(rows)
        }
        var positions = Array(all.indices)
        if !orderings.isEmpty {
            positions.sort { left, right in
                for (index, ordering) in orderings.enumerated() {
                    let order = ordering.compare(keys[left][index], keys[right][index])
                    if order != 0 { return order < 0 }
                }
                return left < right
            }
        }
        let rest = positions.dropFirst(offset)
        return all.picking(
            Array(request.fetchLimit > 0 ? rest.prefix(request.fetchLimit) : rest))
    }
}
