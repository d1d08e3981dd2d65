internal import Foundation

/// Difference between two arrangements; source index paths refer to the old one, destination index paths to the new.
struct ResultChanges {
    /// An inserted or deleted section.
    struct Section {
        var name: String
        var index: Int
    }

    /// A position in an arrangement.
    struct Place {
        /// Among all results.
        var position: Int
        /// The number of the section, and the position in it.
        var section: Int
        var item: Int

        var indexPath: IndexPath { IndexPath(item: item, section: section) }
    }

    /// The change of one result.
    struct Object {
        var bits: UInt64
        /// Its previous identifier.
        var oldBits: UInt64
        var old: Place?
        var new: Place?
        /// Whether it was moved past unchanged results, or into another section.
        var isMove = false
        /// Whether its values have changed, not only its identifier.
        var isUpdate = false
    }

    var deletedSections: [Section] = []
    var insertedSections: [Section] = []
    var objects: [Object] = []

    var isEmpty: Bool { deletedSections.isEmpty && insertedSections.isEmpty && objects.isEmpty }
}

// MARK: - Of lists

extension ResultChanges {
    /// Describes how a list has been changed.
    init(
        _ change: ResultList.ListChange, in list: ResultList, originals: [UInt64: UInt64]
    ) {
        self.init()
        let kept = change.concernsSections ? compareSections(change, list) : []
        /// Whether a section is the same before and after by name and position.
        func isSame(_ old: ResultList.Section, _ new: ResultList.Section) -> Bool {
            old === new || (old.name == new.name && kept.contains(old.name))
        }
        var goes = [Bool](repeating: true, count: change.taken.count)
        // The old positions of results with as many results of unchanged order before them as earlier: of these, only those
        // that were moved past others are moves.
        var positions = [Int?](repeating: nil, count: change.incoming.count)
        for (index, incoming) in change.incoming.enumerated() {
            guard let taken = incoming.takenIndex else { continue }
            goes[taken] = false
            guard isSame(change.taken[taken].section, list.section(of: incoming.handle)) else {
                continue
            }
            let position = change.taken[taken].place.position
            if position - taken == incoming.rank { positions[index] = position }
        }
        var moves = [Bool](repeating: true, count: change.incoming.count)
        for index in LongestIncreasingSubsequence.indexes(of: positions) { moves[index] = false }
        for (index, taken) in change.taken.enumerated() where goes[index] {
            objects.append(
                Object(
                    bits: taken.bits, oldBits: originals[taken.bits] ?? taken.bits, old: taken.place
                ))
        }
        for (index, incoming) in change.incoming.enumerated() {
            let bits = incoming.item.bits
            objects.append(
                Object(
                    bits: bits, oldBits: originals[bits] ?? bits,
                    old: incoming.takenIndex.map { change.taken[$0].place },
                    new: list.place(at: incoming.rank + index, list.section(of: incoming.handle)),
                    isMove: moves[index] && incoming.takenIndex != nil, isUpdate: incoming.isUpdate)
            )
        }
        for (bits, place) in change.updated {
            guard let position = list.position(of: bits) else { continue }
            objects.append(
                Object(
                    bits: bits, oldBits: originals[bits] ?? bits, old: place,
                    new: list.place(at: position, list.section(at: position)), isUpdate: true))
        }
    }

    /// Finds inserted and deleted sections. Returns the names of those whose results were all replaced, but whose position
    /// among the others is the same.
    private mutating func compareSections(
        _ change: ResultList.ListChange, _ list: ResultList
    ) -> Set<String> {
        let (old, new) = (change.oldSections, list.sections)
        let oldObjects = Set(old.map { ObjectIdentifier($0) })
        let newObjects = Set(new.map { ObjectIdentifier($0) })
        /// Places among the sections that have kept results.
        var oldPlaces: [String: (rank: Int, index: Int)] = [:]
        var rank = 0
        for (index, section) in old.enumerated() {
            if newObjects.contains(ObjectIdentifier(section)) {
                rank += 1
            } else {
                oldPlaces[section.name] = (rank, index)
            }
        }
        var positions: [Int?] = []
        var names: [String] = []
        rank = 0
        for section in new {
            if oldObjects.contains(ObjectIdentifier(section)) {
                rank += 1
            } else if let place = oldPlaces[section.name] {
                positions.append(place.rank == rank ? place.index : nil)
                names.append(section.name)
            }
        }
        let kept = Set(LongestIncreasingSubsequence.indexes(of: positions).map { names[$0] })
        for (index, section) in old.enumerated()
        where !newObjects.contains(ObjectIdentifier(section)) && !kept.contains(section.name) {
            deletedSections.append(Section(name: section.name, index: index))
        }
        for (index, section) in new.enumerated()
        where !oldObjects.contains(ObjectIdentifier(section)) && !kept.contains(section.name) {
            insertedSections.append(Section(name: section.name, index: index))
        }
        return kept
    }
}
