/// The results of a controller in their order: an array of identifiers, and what each is sorted by.
///
/// Objects are not held. What they are sorted by is, so that a result is found by what it was sorted by when it was
/// put there, whatever its object is by now.
///
/// Invariants: ``order`` is sorted by values, and then by rank, without two that are equal. The results of a section
/// follow each other, and a section has results, unless it is the only one.
///
/// - Complexity: Finding a place takes O(log *n*) comparisons; changing a few results moves eight bytes for each that
///   comes behind, changing many goes through all.
final class ResultList {
    /// Results that follow each other and have the same section name.
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
        /// What it is sorted by.
        var values: ContiguousArray<AttributeValue>
        var sectionName = ""
    }

    /// How many results are put in, or taken out, one by one.
    static let greatestSingleCount = 16

    let orderings: [SortOrdering]
    /// Whether results have sections; if not there is one that has all.
    let hasSections: Bool
    /// The identifiers, in order.
    var order: ContiguousArray<UInt64> = []
    var sections: [Section] = []
    var sectionsByName: [String: Section] = [:]
    /// The identifiers of results that were never saved.
    var newObjects: Set<UInt64> = []
    // What is known of a result, at its handle.
    var handles: IdentifierTable
    private var values: ContiguousArray<AttributeValue> = []
    private var ranks: ContiguousArray<UInt64> = []
    private var memberships: ContiguousArray<Section> = []
    private var freeHandles: ContiguousArray<Int> = []
    /// The section of handles that are not in use.
    private let nowhere = Section("")

    var count: Int { order.count }

    /// Makes a list of results in any order, which had best be theirs.
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
            preconditionFailure("An identifier among the results has nothing it is sorted by.")
        }
        return Int(handle)
    }

    /// Takes note of what a result is sorted by. Its section is to be set.
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

    /// Has a result be sorted by other values, and by its identifier as it is now.
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
        (bits & ManagedObjectContext.ChangeOverlay.orderMask, bits)
    }

    /// Whether a result comes before another.
    func precedes(_ left: Int, _ right: Int) -> Bool {
        for (index, ordering) in orderings.enumerated() {
            let order = ordering.compare(
                values[left * orderings.count + index], values[right * orderings.count + index])
            if order != 0 { return order < 0 }
        }
        return Self.rank(ranks[left]) < Self.rank(ranks[right])
    }

    /// Whether an item has the values that a result is sorted by.
    func hasValues(_ item: Item, _ handle: Int) -> Bool {
        for (index, ordering) in orderings.enumerated()
        where ordering.compare(values[handle * orderings.count + index], item.values[index]) != 0 {
            return false
        }
        return !hasSections || memberships[handle].name == item.sectionName
    }

    /// Whether a result stands where its identifier has it among those with the same values.
    func hasRank(_ bits: UInt64, _ handle: Int) -> Bool { ranks[handle] == bits }

    /// The first position, not before another, where a result does not come behind the one there.
    func insertionPosition(of handle: Int, from start: Int = 0) -> Int {
        var (low, high) = (start, order.count)
        while low < high {
            let middle = (low + high) / 2
            if precedes(self.handle(of: order[middle]), handle) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }

    /// The position of a result.
    func position(of bits: UInt64) -> Int? {
        guard let handle = handles[bits].map(Int.init) else { return nil }
        return insertionPosition(of: handle)
    }

    func place(at position: Int, _ section: Section) -> ResultChanges.Place {
        .init(
            position: position,
            indexPath: ResultIndexPath(section: section.index, item: position - section.start))
    }

    // MARK: Sections

    /// The section of a result that comes between those of two sections.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if the section is elsewhere, or another would be in two parts.
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
                    + "“\(broken.name)” together; sort by what the section names come from, or by something that "
                    + "orders alike.")
        }
        let section = Section(name)
        sectionsByName[name] = section
        return section
    }

    /// Finds the sections in the order of their results, after some have come or gone.
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

    /// Has the sections begin where they do after their results have become more or fewer.
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

    /// Has a result have another identifier, at the same place until it is put anew where that belongs.
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
