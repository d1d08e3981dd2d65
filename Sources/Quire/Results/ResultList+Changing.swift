extension ResultList {
    /// Puts results where they belong, and takes others out.
    ///
    /// - Parameters:
    ///   - items: Results as they are now, each once; those that are not in the list come in.
    ///   - removed: Identifiers of what is no result any more.
    ///   - updated: Results that count as updated also if they are sorted by what they were.
    ///   - originals: The identifiers that results had before, of those that have others now.
    /// - Complexity: For *k* changes O(*k* log *n*) comparisons, O(*s*) in the sections, and see ``ResultList``.
    /// - Throws: ``QuireError`` with code `invalidQuery` if sections do not stay together. The list is good for nothing
    ///   then.
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

    /// What leaves its place, for good or for another.
    struct Taken {
        var bits: UInt64
        var place: ResultChanges.Place
        var section: Section
    }

    /// What gets a place.
    struct Incoming {
        var item: Item
        var handle = 0
        /// What it leaves, as a position in ``ListChange/taken``.
        var takenIndex: Int?
        /// Whether it is sorted by other values than before, or counts as updated anyway.
        var isUpdate: Bool
        /// The number of results before it that stay where they are.
        var rank = 0
    }

    struct ListChange {
        let oldSections: [Section]
        /// In their old order.
        var taken: [Taken] = []
        /// In their new order.
        var incoming: [Incoming] = []
        /// What stays where it is among the others.
        var updated: [(bits: UInt64, place: ResultChanges.Place)] = []
        /// Whether sections may have come or gone.
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
        if change.taken.count <= Self.greatestSingleCount {
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
        change.incoming.sort { precedes($0.handle, $1.handle) }
        var position = 0
        var last: Section?
        for index in change.incoming.indices {
            let incoming = change.incoming[index]
            let found = insertionPosition(of: incoming.handle, from: position)
            if found > position || last == nil {
                last = found > 0 ? section(at: found - 1) : nil
            }
            position = found
            let section = try section(
                named: incoming.item.sectionName, between: last,
                and: found < order.count ? self.section(at: found) : nil)
            if section.count == 0 && hasSections { change.concernsSections = true }
            section.count += 1
            setSection(section, of: incoming.handle)
            change.incoming[index].rank = found
            last = section
        }
        if change.incoming.count <= Self.greatestSingleCount {
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
