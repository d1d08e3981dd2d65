/// Identifiers in the order in which they were added: those that follow each other, as those of objects that are saved
/// together do, take the room of one.
package struct ObjectIDRuns: Sequence, Sendable {
    fileprivate struct Run {
        var first: ManagedObjectID
        var count: UInt64
    }

    private var runs: [Run] = []
    /// The number of identifiers.
    package private(set) var count = 0

    /// Makes a list of identifiers.
    package init(_ objectIDs: some Sequence<ManagedObjectID> = EmptyCollection()) {
        for objectID in objectIDs { append(objectID) }
    }

    /// How many runs there are, for tests.
    package var runCount: Int { runs.count }

    /// Adds an identifier at the end.
    package mutating func append(_ objectID: ManagedObjectID) {
        count += 1
        if let last = runs.last, last.first.bits + last.count == objectID.bits,
            last.first.store === objectID.store
        {
            runs[runs.count - 1].count += 1
        } else {
            runs.append(Run(first: objectID, count: 1))
        }
    }

    /// How many objects there are of each entity, by its name.
    package var countsByEntity: [String: Int] {
        var counts: [String: Int] = [:]
        for run in runs { counts[run.first.entityName, default: 0] += Int(run.count) }
        return counts
    }

    package struct Iterator: IteratorProtocol {
        fileprivate let runs: [Run]
        private var run = 0
        private var offset: UInt64 = 0

        fileprivate init(runs: [Run]) { self.runs = runs }

        package mutating func next() -> ManagedObjectID? {
            guard run < runs.count else { return nil }
            let current = runs[run]
            defer {
                offset += 1
                if offset == current.count { (run, offset) = (run + 1, 0) }
            }
            return ManagedObjectID(bits: current.first.bits + offset, store: current.first.store)
        }
    }

    package func makeIterator() -> Iterator { Iterator(runs: runs) }
}
