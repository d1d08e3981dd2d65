internal import QuireStore

/// Prefetched relationships of a fetch, for as long as its results are held: rows of related objects and the contents of
/// to-many relationships.
///
/// Destinations that several owners share, as those of to-one relationships usually are, are made and retained. Others adopt
/// their row when they are instantiated, and relationships their contents on access, so that unused rows cost next to nothing.
/// The context finds them through ``ManagedObjectContext/prefetches``. Rows saved or refreshed since are skipped
/// (``StaleRowTracker``).
final class PrefetchedObjects: RowHolder {
    /// The contents of a relationship of many owners. Owners are mostly asked for in their order, so the next one is tried first.
    private final class Contents {
        /// The relationship's position; the owner's identifier says in which entity.
        let relationshipIndex: Int
        /// The numbers of the possible destination entities.
        let destinations: ClosedRange<Int>
        /// The owners, ascending.
        let owners: ContiguousArray<UInt64>
        /// The positions of the owners in `related`; -1 for one without members.
        private var positions: ContiguousArray<Int32>
        private let related: RelatedObjects
        /// The index of the owner behind the one found last.
        private var next = 0

        init(
            _ related: RelatedObjects, asked: [ManagedObjectID], relationshipIndex: Int,
            destinations: ClosedRange<Int>
        ) {
            self.relationshipIndex = relationshipIndex
            self.destinations = destinations
            self.related = related
            var owners = ContiguousArray(asked.lazy.map(\.bits))
            if !zip(owners, owners.dropFirst()).allSatisfy(<) {
                owners = ContiguousArray(Set(owners).sorted())
            }
            self.owners = owners
            positions = ContiguousArray(repeating: -1, count: owners.count)
            for position in related.owners.indices {
                if let index = index(of: related.owners[position]) {
                    positions[index] = Int32(position)
                }
            }
        }

        func members(of bits: UInt64) -> Slice<ContiguousArray<UInt64>>? {
            guard let index = index(of: bits) else { return nil }
            let position = Int(positions[index])
            return position < 0
                ? Slice(base: related.members, bounds: 0..<0) : related.members(at: position)
        }

        private func index(of owner: UInt64) -> Int? {
            var index = next
            if index >= owners.count || owners[index] != owner {
                index = owners.partitioningIndex { $0 >= owner }
                guard index < owners.count, owners[index] == owner else { return nil }
            }
            next = index + 1
            return index
        }
    }

    private unowned let context: ManagedObjectContext
    private let serial: UInt64
    private var contents: [Contents] = []
    private var rowSets: [RowSet] = []
    /// The set of a row in the high half, its position there in the low one.
    private var places = IdentifierTable()
    private var retained: [ManagedObject] = []

    /// Members are retained if each is the member of so many owners on average: making an object again for each owner costs more
    /// than its memory.
    private static let usualSharing = 4

    /// Prefetches key paths of the objects of rows.
    ///
    /// - Throws: Errors of the reads.
    init(_ keyPaths: [QueryKeyPath], of rows: RowSet, context: ManagedObjectContext) throws {
        self.context = context
        serial = context.staleRows.serial
        super.init()
        context.staleRows.holders.add(self)
        context.prefetches.append(Unmanaged.passUnretained(self))
        let paths = keyPaths.map { $0.steps[...] }
        try follow(paths, from: Owners(rows: [rows]))
    }

    deinit {
        context.staleRows.holders.remove(self)
        let reference = Unmanaged.passUnretained(self).toOpaque()
        context.prefetches.removeAll { $0.toOpaque() == reference }
    }

    override func forEachRow(_ body: (_ bits: UInt64, _ serial: UInt64) -> Void) {
        places.forEach { bits, _ in body(bits, serial) }
        for contents in contents { for bits in contents.owners { body(bits, serial) } }
    }

    // MARK: Finding

    /// The prefetched row of an object, if it is not stale.
    func row(_ bits: UInt64) -> ObjectSnapshot? {
        guard let place = places[bits], !context.staleRows.contains(bits, since: serial) else {
            return nil
        }
        return rowSets[Int(place >> 32)][Int(place & 0xFFFF_FFFF)]
    }

    /// The saved contents of a to-many relationship of an object, if they were read ahead and are good.
    func members(
        of bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) -> Slice<ContiguousArray<UInt64>>? {
        for contents in contents where contents.relationshipIndex == relationship.index {
            if let members = contents.members(of: bits) {
                return context.staleRows.contains(bits, since: serial) ? nil : members
            }
        }
        return nil
    }

    /// Drops the contents of relationships whose destination may be one of the entities.
    func forgetContents(leadingTo entityNumbers: Set<Int>) {
        contents.removeAll { entityNumbers.contains(where: $0.destinations.contains) }
    }

    // MARK: Reading

    /// The owners of a step: some only as rows, some in memory.
    private struct Owners {
        var rows: [RowSet] = []
        var objects: [ManagedObject] = []
    }

    /// Reads along key paths; common prefixes share their queries.
    private func follow(_ paths: [ArraySlice<QueryKeyPath.Step>], from owners: Owners) throws {
        var done: Set<Int> = []
        for path in paths {
            guard let step = path.first, done.insert(step.index).inserted else { continue }
            let rest = paths.filter { $0.first?.index == step.index && $0.count > 1 }
                .map { $0.dropFirst() }
            if let slot = step.relationship.slot {
                try follow(rest, from: try readTargets(at: slot, of: owners))
            } else {
                let contents = try readMembers(step.relationship, of: owners)
                if !rest.isEmpty { try follow(rest, from: members(of: contents)) }
            }
        }
    }

    private func readTargets(at slot: Int, of owners: Owners) throws -> Owners {
        var targets = Targets(context: context)
        for rows in owners.rows {
            for position in rows.indices {
                // An object in memory may have been changed, or have been read before.
                let bits = rows.identifierBits(at: position)
                if let object = context.identityMap.find(bits), !object.isFault {
                    targets.insert(object.reference(at: slot)?.bits)
                } else {
                    targets.insert(rows.reference(slot, at: position))
                }
            }
        }
        for object in owners.objects { targets.insert(object.reference(at: slot)?.bits) }
        let rows = try context.readRows(of: targets.unread)
        for position in rows.indices { retained.append(context.object(for: rows, at: position)) }
        retained += targets.inMemory
        return Owners(rows: [rows], objects: targets.inMemory)
    }

    private func readMembers(
        _ relationship: ResolvedEntity.Relationship, of owners: Owners
    ) throws -> (RelatedObjects, inMemory: [ManagedObject]) {
        guard let toMany = relationship.toManyIndex else { return (RelatedObjects(), []) }
        var targets = Targets(context: context)
        var asked: [ManagedObjectID] = []
        func ask(_ object: ManagedObject) {
            let state = object.toManyState(toMany)
            for id in state.members ?? state.added { targets.insert(id.bits) }
            if state.members == nil && object.state.contains(.persisted) {
                asked.append(object.objectID)
            }
        }
        for rows in owners.rows {
            for position in rows.indices {
                let bits = rows.identifierBits(at: position)
                if let object = context.identityMap.find(bits) {
                    ask(object)
                } else {
                    asked.append(context.objectID(bits: bits))
                }
            }
        }
        owners.objects.forEach(ask)
        var related = try context.source.relatedObjects(of: asked, through: relationship)
        for rows in related.rows { keep(rows) }
        for bits in related.members where places[bits] == nil { targets.insert(bits) }
        let rows = try context.readRows(of: targets.unread)
        keep(rows)
        if rows.count * Self.usualSharing <= related.members.count {
            for position in rows.indices {
                retained.append(context.object(for: rows, at: position))
            }
        }
        if rows.count < targets.unread.count {
            // A dangling foreign key is a nil relationship, as everywhere.
            var gone = IdentifierTable()
            for bits in targets.unread where places[bits] == nil { gone.set(0, for: bits) }
            related.removeMembers { gone[$0] != nil }
        }
        related.rows = []
        contents.append(
            Contents(
                related, asked: asked, relationshipIndex: relationship.index,
                destinations: context.layout.destination(of: relationship).subtree))
        return (related, targets.inMemory)
    }

    /// The owners of the next step, each object once.
    private func members(of contents: (related: RelatedObjects, inMemory: [ManagedObject]))
        -> Owners
    {
        var seen = IdentifierTable()
        var rows: [ObjectSnapshot] = []
        for object in contents.inMemory { seen.set(0, for: object.objectID.bits) }
        for bits in contents.related.members where seen.set(0, for: bits) == nil {
            if let row = row(bits) { rows.append(row) }
        }
        return Owners(
            rows: [RowSet(rows, layout: context.layout, store: context.storeIdentity)],
            objects: contents.inMemory)
    }

    private func keep(_ rows: RowSet) {
        context.adoptRows(rows)
        let set = UInt64(rowSets.count) << 32
        rowSets.append(rows)
        for position in rows.indices {
            places.set(set | UInt64(position), for: rows.identifierBits(at: position))
        }
    }

    /// The destinations of a step, each once: those in memory, and those to read.
    private struct Targets: ~Copyable {
        let context: ManagedObjectContext
        private var seen = IdentifierTable()
        private(set) var unread: ContiguousArray<UInt64> = []
        private(set) var inMemory: [ManagedObject] = []

        init(context: ManagedObjectContext) { self.context = context }

        mutating func insert(_ bits: UInt64?) {
            guard let bits, seen.set(0, for: bits) == nil else { return }
            guard let object = context.identityMap.find(bits) else {
                unread.append(bits)
                return
            }
            if !object.state.contains(.live) { return }
            if object.isFault { unread.append(bits) } else { inMemory.append(object) }
        }
    }
}

extension ManagedObjectContext {
    /// The row of an object prefetched by a fetch whose results are retained.
    func prefetchedRow(_ bits: UInt64) -> ObjectSnapshot? {
        for reference in prefetches.reversed() {
            if let row = reference.takeUnretainedValue().row(bits) { return row }
        }
        return nil
    }

    /// The saved contents of a to-many relationship prefetched by a fetch whose results are retained.
    func prefetchedMembers(
        of object: ManagedObject, _ relationship: ResolvedEntity.Relationship
    ) -> Slice<ContiguousArray<UInt64>>? {
        for reference in prefetches.reversed() {
            if let members = reference.takeUnretainedValue()
                .members(of: object.objectID.bits, relationship)
            {
                return members
            }
        }
        return nil
    }
}

// MARK: - Batches of faults

/// Reading many objects with few queries.
extension ManagedObjectContext {
    /// Fulfills the faults among the objects: with one query for each entity hierarchy, or a few if there are thousands.
    ///
    /// An object whose row no longer exists stays a fault, which is handled when it fires.
    ///
    /// ```swift
    /// let authors = books.compactMap { $0.object("author") }      // faults
    /// try context.realizeFaults(of: authors)
    /// ```
    ///
    /// Call it on the context's queue. Objects of other contexts, and objects that are not faults, are skipped.
    ///
    /// - Complexity: O(*n*).
    /// - Throws: ``QuireError`` with code `storeUnavailable` or `invalidFormat`.
    public func realizeFaults(of objects: some Sequence<ManagedObject>) throws {
        checkQueue()
        var wanted: [ManagedObjectID] = []
        for object in objects where object.isFault && object.context === self {
            if object.state.isSuperset(of: [.live, .persisted]) { wanted.append(object.objectID) }
        }
        if wanted.isEmpty { return }
        adoptRows(try source.rows(for: wanted, maximumAge: stalenessInterval))
    }

    /// Fulfills registered faults with rows.
    func adoptRows(_ rows: RowSet) {
        if identityMap.count == 0 { return }
        for position in rows.indices {
            if let object = identityMap.find(rows.identifierBits(at: position)), object.isFault,
                object.state.contains(.live)
            {
                object.adopt(rows[position])
            }
        }
    }

    /// The rows of objects, read from the source; registered faults among them take theirs over.
    func readRows(of identifiers: some Collection<UInt64>) throws -> RowSet {
        let rows = try source.rows(
            for: identifiers.map { objectID(bits: $0) }, maximumAge: stalenessInterval)
        adoptRows(rows)
        return rows
    }

    /// The object of an identifier's bits; see ``object(with:)``.
    func object(bits: UInt64) -> ManagedObject {
        identityMap.find(bits) ?? object(with: objectID(bits: bits))
    }

    /// Drops the cached rows of an object that becomes a fault, in fetch results and in the row cache, and its fetched
    /// properties, so that the fault reads from the source.
    func forgetRows(of object: ManagedObject) {
        staleRows.note(object.objectID.bits)
        forgetSavedVersion(of: object.objectID.bits)
        fetchedPropertyValues[object.objectID.bits] = nil
        source.forgetRows(of: [object.objectID])
    }

    // MARK: Prefetch window

    /// The number of faults fulfilled together.
    private static let maximumNeighbourCount = 128

    /// Fulfills a fault together with those that follow it in the prefetch window.
    ///
    /// - Returns: Whether it was read.
    func realizeWithNeighbours(_ object: ManagedObject) throws -> Bool {
        guard let start = prefetchWindow.firstIndex(of: object.objectID) else { return false }
        var wanted = [object.objectID]
        for id in prefetchWindow[(start + 1)...].prefix(Self.maximumNeighbourCount - 1) {
            if let found = identityMap.find(id.bits), found.isFault,
                found.state.isSuperset(of: [.live, .persisted])
            {
                wanted.append(id)
            }
        }
        if wanted.count == 1 { return false }
        adoptRows(try source.rows(for: wanted, maximumAge: stalenessInterval))
        return !object.isFault
    }
}
