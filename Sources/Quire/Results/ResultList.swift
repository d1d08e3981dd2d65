/// The results of a controller in their order: an array of identifiers, and the sort values of each.
///
/// Objects are not retained. Their sort values are kept, so that a result is found by the values it was inserted with, whatever
/// its object's values are now.
///
/// Invariants: ``order`` is strictly sorted by values, and then by rank. The results of a section are contiguous, and a section
/// is not empty, unless it is the only one.
///
/// - Complexity: A search takes O(log *n*) comparisons; changing a few results moves eight bytes for each result behind them,
///   changing many visits all.
final class ResultList {
    /// Contiguous results with the same section name.
    final class Section {
        let name: String
        var count = 0
        /// The number of results in the sections before it.
        var start = 0
        var index = 0

        init(_ name: String) { self.name = name }
    }

    /// A result as it is put into the list.
    struct Item {
        var bits: UInt64
        /// The sort values.
        var values: ContiguousArray<AttributeValue>
        var sectionName = ""
    }

    /// The number of results up to which insertions and removals are done singly.
    static let maximumSingleCount = 16

    let orderings: [SortOrdering]
    /// Whether results have sections; if not there is a single one.
    let hasSections: Bool
    /// The identifiers, in order.
    var order: ContiguousArray<UInt64> = []
    var sections: [Section] = []
    var sectionsByName: [String: Section] = [:]
    /// The identifiers of results that were never saved.
    var newObjects: Set<UInt64> = []
    // The properties of a result, by its handle.
    var handles: IdentifierTable
    private var values: ContiguousArray<AttributeValue> = []
    private var ranks: ContiguousArray<UInt64> = []
    private var memberships: ContiguousArray<Section> = []
    private var freeHandles: ContiguousArray<Int> = []
    /// The section of handles that are not in use.
    private let nowhere = Section("")

    var count: Int { order.count }

    /// Creates a list of results in any order; sorted input is fastest.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if sections do not stay together.
    init(
        _ items: ContiguousArray<Item>, orderings: [SortOrdering], hasSections: Bool
    ) throws {
        self.orderings = orderings
        self.hasSections = hasSections
        handles = IdentifierTable(minimumCapacity: items.count)
        order.reserveCapacity(items.count)
        values.reserveCapacity(items.count * orderings.count)
        if !hasSections { sections = [Section("")] }
        var isSorted = true
        for item in items {
            let handle = addHandle(for: item)
            if let last = order.last, !precedes(self.handle(of: last), handle) { isSorted = false }
            order.append(item.bits)
        }
        if !isSorted { order.sort { precedes(handle(of: $0), handle(of: $1)) } }
        var last: Section?
        for bits in order {
            let handle = handle(of: bits)
            let section = try section(items: items, handle, last: last)
            memberships[handle] = section
            section.count += 1
            last = section
        }
        rebuildSections()
    }

    private func section(
        items: ContiguousArray<Item>, _ handle: Int, last: Section?
    ) throws -> Section {
        if !hasSections { return sections[0] }
        // Handles are given out in the order of the items.
        let name = items[handle].sectionName
        return try section(named: name, between: last, and: nil)
    }

    // MARK: Handles

    func handle(of bits: UInt64) -> Int {
        guard let handle = handles[bits] else {
            preconditionFailure("A result identifier has no sort values.")
        }
        return Int(handle)
    }

    /// Stores the sort values of a result. Its section is set by the caller.
    func addHandle(for item: Item) -> Int {
        let handle: Int
        if let free = freeHandles.popLast() {
            handle = free
        } else {
            handle = ranks.count
            ranks.append(0)
            memberships.append(nowhere)
            for _ in orderings { values.append(.null) }
        }
        handles.set(UInt64(handle), for: item.bits)
        if item.bits >> 63 == 1 { newObjects.insert(item.bits) }
        set(item, at: handle)
        return handle
    }

    /// Replaces the sort values and the identifier of a result.
    func set(_ item: Item, at handle: Int) {
        ranks[handle] = item.bits
        for (index, value) in item.values.enumerated() {
            values[handle * orderings.count + index] = value
        }
    }

    func removeHandle(of bits: UInt64) {
        guard let handle = handles.remove(bits).map(Int.init) else { return }
        if bits >> 63 == 1 { newObjects.remove(bits) }
        for index in orderings.indices { values[handle * orderings.count + index] = .null }
        memberships[handle] = nowhere
        freeHandles.append(handle)
    }

    func section(of handle: Int) -> Section { memberships[handle] }
    func setSection(_ section: Section, of handle: Int) { memberships[handle] = section }

    /// A result as it is in the list.
    func item(_ bits: UInt64) -> Item? {
        guard let handle = handles[bits].map(Int.init) else { return nil }
        let start = handle * orderings.count
        return Item(
            bits: bits, values: ContiguousArray(values[start..<(start + orderings.count)]),
            sectionName: memberships[handle].name)
    }

    // MARK: Order

    /// Leaves the mark of new objects and the primary key: results of different entities are ordered by key alone.
    private static func rank(_ bits: UInt64) -> (UInt64, UInt64) {
        (bits & PendingChangeOverlay<ManagedObjectContext>.orderMask, bits)
    }

    /// Whether a result precedes another.
    func precedes(_ left: Int, _ right: Int) -> Bool {
        for (index, ordering) in orderings.enumerated() {
            let order = ordering.compare(
                values[left * orderings.count + index], values[right * orderings.count + index])
            if order != 0 { return order < 0 }
        }
        return Self.rank(ranks[left]) < Self.rank(ranks[right])
    }

    /// Whether an item has a result's sort values.
    func hasValues(_ item: Item, _ handle: Int) -> Bool {
        for (index, ordering) in orderings.enumerated()
        where ordering.compare(values[handle * orderings.count + index], item.values[index]) != 0 {
            return false
        }
        return !hasSections || memberships[handle].name == item.sectionName
    }

    /// Whether a result stands where its identifier has it among those with the same values.
    func hasRank(_ bits: UInt64, _ handle: Int) -> Bool { ranks[handle] == bits }

    /// The first position where a result does not come behind the one there.
    func insertionPosition(of handle: Int) -> Int {
        order.partitioningIndex { !precedes(self.handle(of: $0), handle) }
    }

    /// The same, not before another, and found faster if it is near that.
    private func insertionPosition(of handle: Int, near start: Int) -> Int {
        var (start, end, width) = (start, start, 1)
        while end < order.count, precedes(self.handle(of: order[end]), handle) {
            start = end + 1
            end += width
            width *= 2
        }
        return order[start..<min(end, order.count)].partitioningIndex {
            !precedes(self.handle(of: $0), handle)
        }
    }

    /// The position of a result.
    func position(of bits: UInt64) -> Int? {
        guard let handle = handles[bits].map(Int.init) else { return nil }
        return insertionPosition(of: handle)
    }

    func place(at position: Int, _ section: Section) -> ResultChanges.Place {
        .init(
            position: position, section: section.index, item: position - section.start)
    }

    // MARK: Sections

    /// The section of a result between those of two sections.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if the section exists at another position, or would split another.
    func section(
        named name: String, between left: Section?, and right: Section?
    ) throws -> Section {
        if !hasSections { return sections[0] }
        if let left, left.name == name { return left }
        if let right, right.name == name { return right }
        let broken = left != nil && left === right ? left : sectionsByName[name]
        if let broken {
            throw QuireError(
                .invalidQuery,
                "The results are sorted by “\(orderings[0].keyPath)” first, which does not keep section "
                    + "“\(broken.name)” together; sort first by the section key path, or by a key with the same "
                    + "order.")
        }
        let section = Section(name)
        sectionsByName[name] = section
        return section
    }

    /// Rebuilds the sections in the order of their results, after insertions and deletions.
    func rebuildSections() {
        if !hasSections { return }
        sections.removeAll(keepingCapacity: true)
        var position = 0
        while position < order.count {
            let section = memberships[handle(of: order[position])]
            section.index = sections.count
            section.start = position
            sections.append(section)
            position += section.count
        }
    }

    /// Recomputes the start positions of the sections after their counts have changed.
    func countSections() {
        var start = 0
        for section in sections {
            section.start = start
            start += section.count
        }
    }

    /// The section that a position is in.
    func section(at position: Int) -> Section { memberships[handle(of: order[position])] }

    // MARK: Identifiers

    /// Replaces the identifier of a result, which keeps its position until the next change of the list.
    ///
    /// - Returns: Whether there is such a result.
    func replace(_ old: UInt64, by new: UInt64) -> Bool {
        guard let position = position(of: old), let handle = handles.remove(old) else {
            return false
        }
        handles.set(handle, for: new)
        order[position] = new
        newObjects.remove(old)
        if new >> 63 == 1 { newObjects.insert(new) }
        return true
    }
}

// MARK: - Changing

extension ResultList {
    /// Inserts, moves and removes results.
    ///
    /// - Parameters:
    ///   - items: Results as they are now, each once; those that are not in the list are inserted.
    ///   - removed: Identifiers of former results.
    ///   - updated: Results that count as updated also if their sort values are unchanged.
    ///   - originals: The previous identifiers of results whose identifiers were replaced.
    /// - Complexity: For *k* changes O(*k* log *n*) comparisons, O(*s*) in the sections, and see ``ResultList``.
    /// - Throws: ``QuireError`` with code `invalidQuery` if sections do not stay together. The list is unusable then.
    func change(
        to items: some Sequence<Item>, removing removed: some Sequence<UInt64>,
        updated: Set<UInt64>, originals: [UInt64: UInt64] = [:]
    ) throws -> ResultChanges {
        var change = ListChange(oldSections: sections)
        // Places are found before anything moves.
        for bits in removed { take(bits, &change) }
        for item in items { sort(item, updated, &change) }
        change.taken.sort { $0.place.position < $1.place.position }
        takeOut(&change)
        try putIn(&change)
        return ResultChanges(change, in: self, originals: originals)
    }

    /// A result that is removed or moved away.
    struct Taken {
        var bits: UInt64
        var place: ResultChanges.Place
        var section: Section
    }

    /// A result that is inserted or moved in.
    struct Incoming {
        var item: Item
        var handle = 0
        /// Its previous position, as an index in ``ListChange/taken``.
        var takenIndex: Int?
        /// Whether its sort values have changed, or it counts as updated anyway.
        var isUpdate: Bool
        /// The number of unmoved results before it.
        var rank = 0
    }

    struct ListChange {
        let oldSections: [Section]
        /// In their old order.
        var taken: [Taken] = []
        /// In their new order.
        var incoming: [Incoming] = []
        /// Updated results that are not moved.
        var updated: [(bits: UInt64, place: ResultChanges.Place)] = []
        /// Whether sections may have been inserted or deleted.
        var concernsSections = false
    }

    // MARK: Steps

    private func take(_ bits: UInt64, _ change: inout ListChange) {
        guard let handle = handles[bits].map(Int.init) else { return }
        let section = section(of: handle)
        change.taken.append(
            Taken(
                bits: bits, place: place(at: insertionPosition(of: handle), section),
                section: section))
    }

    private func sort(_ item: Item, _ updated: Set<UInt64>, _ change: inout ListChange) {
        let isUpdate = updated.contains(item.bits)
        guard let handle = handles[item.bits].map(Int.init) else {
            change.incoming.append(Incoming(item: item, isUpdate: isUpdate))
            return
        }
        let isSame = hasValues(item, handle)
        if !isSame || !hasRank(item.bits, handle) {
            take(item.bits, &change)
            change.incoming.append(Incoming(item: item, isUpdate: isUpdate || !isSame))
        } else if isUpdate {
            let place = place(at: insertionPosition(of: handle), section(of: handle))
            change.updated.append((item.bits, place))
        }
    }

    private func takeOut(_ change: inout ListChange) {
        for taken in change.taken {
            taken.section.count -= 1
            if taken.section.count == 0 && hasSections {
                sectionsByName[taken.section.name] = nil
                change.concernsSections = true
            }
        }
        if change.taken.count <= Self.maximumSingleCount {
            for taken in change.taken.reversed() { order.remove(at: taken.place.position) }
        } else {
            removeAll(at: change.taken)
        }
        var places: [UInt64: Int] = [:]
        for (index, taken) in change.taken.enumerated() { places[taken.bits] = index }
        for index in change.incoming.indices {
            let item = change.incoming[index].item
            if let place = places.removeValue(forKey: item.bits) {
                change.incoming[index].takenIndex = place
                change.incoming[index].handle = handle(of: item.bits)
                set(item, at: change.incoming[index].handle)
            } else {
                change.incoming[index].handle = addHandle(for: item)
            }
        }
        for bits in places.keys { removeHandle(of: bits) }
    }

    private func removeAll(at taken: [Taken]) {
        var next = 0
        var end = taken[0].place.position
        for position in end..<order.count {
            if next < taken.count, taken[next].place.position == position {
                next += 1
            } else {
                order[end] = order[position]
                end += 1
            }
        }
        order.removeSubrange(end...)
    }

    private func putIn(_ change: inout ListChange) throws {
        let handles = change.incoming.map(\.handle)
        // Moving whole items would take longer than comparing them.
        change.incoming = handles.indices.sorted { precedes(handles[$0], handles[$1]) }
            .map { change.incoming[$0] }
        var position = 0
        var last: Section?
        for index in change.incoming.indices {
            let handle = change.incoming[index].handle
            let found =
                index == 0
                ? insertionPosition(of: handle) : insertionPosition(of: handle, near: position)
            if found > position || last == nil {
                last = found > 0 ? section(at: found - 1) : nil
            }
            position = found
            let section = try section(
                named: change.incoming[index].item.sectionName, between: last,
                and: found < order.count ? self.section(at: found) : nil)
            if section.count == 0 && hasSections { change.concernsSections = true }
            section.count += 1
            setSection(section, of: handle)
            change.incoming[index].rank = found
            last = section
        }
        if change.incoming.count <= Self.maximumSingleCount {
            for incoming in change.incoming.reversed() {
                order.insert(incoming.item.bits, at: incoming.rank)
            }
        } else {
            merge(change.incoming)
        }
        if change.concernsSections { rebuildSections() } else { countSections() }
    }

    private func merge(_ incoming: [Incoming]) {
        var merged: ContiguousArray<UInt64> = []
        merged.reserveCapacity(order.count + incoming.count)
        var start = 0
        for next in incoming {
            merged += order[start..<next.rank]
            merged.append(next.item.bits)
            start = next.rank
        }
        merged += order[start...]
        order = merged
    }
}
