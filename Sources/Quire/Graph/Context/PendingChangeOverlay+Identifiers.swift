internal import Foundation

/// The overlay for fetches in batches, which are about identifiers: objects that were found are read only where a
/// changed one has to be put in its place among them.
extension PendingChangeOverlay {
    func identifiers() throws -> ContiguousArray<UInt64> {
        let resolved = try ResolvedQuery(request, in: context.layout, store: context.storeIdentity)
        if looksAtOtherChangedObjects(resolved) {
            let rows = try rows()
            return ContiguousArray(rows.indices.map(rows.identifierBits))
        }
        if !changed.contains(where: isOfEntity) {
            return try context.source.objectIDs(matching: request).bits
        }
        var wide = request
        wide.fetchOffset = 0
        // However many of the changed objects the source finds, enough others are left.
        wide.fetchLimit =
            request.fetchLimit > 0
            ? request.fetchLimit + request.fetchOffset + changed.count : 0
        var changedBits = IdentifierTable(minimumCapacity: changed.count)
        for object in changed { changedBits.set(0, for: object.objectID.bits) }
        var kept: ContiguousArray<UInt64> = []
        for bits in try context.source.objectIDs(matching: wide).bits
        where changedBits[bits] == nil {
            kept.append(bits)
        }
        let added = try changed.filter { try isCandidate($0) && matches($0, resolved) }
            .sorted { try precedes($0, $1, resolved) }
        return slice(try merge(kept, added, resolved))
    }

    private func slice(_ all: ContiguousArray<UInt64>) -> ContiguousArray<UInt64> {
        let start = min(max(request.fetchOffset, 0), all.count)
        let end = request.fetchLimit > 0 ? min(start + request.fetchLimit, all.count) : all.count
        return start == 0 && end == all.count ? all : ContiguousArray(all[start..<end])
    }

    /// Puts objects, which are in order, in their places among identifiers, which are too.
    private func merge(
        _ kept: ContiguousArray<UInt64>, _ added: [ManagedObject], _ resolved: ResolvedQuery
    ) throws -> ContiguousArray<UInt64> {
        if added.isEmpty { return kept }
        var result: ContiguousArray<UInt64> = []
        result.reserveCapacity(kept.count + added.count)
        var start = 0
        for object in added {
            var (low, high) = (start, kept.count)
            while low < high {
                let middle = (low + high) / 2
                if try precedes(object, kept[middle], resolved) {
                    high = middle
                } else {
                    low = middle + 1
                }
            }
            result += kept[start..<low]
            result.append(object.objectID.bits)
            start = low
        }
        return result + kept[start...]
    }

    private func precedes(
        _ object: ManagedObject, _ bits: UInt64, _ resolved: ResolvedQuery
    ) throws -> Bool {
        if resolved.request.sortOrderings.isEmpty {
            return object.objectID.bits & Self.orderMask < bits & Self.orderMask
        }
        return try precedes(object, context.object(bits: bits), resolved)
    }

    private func precedes(
        _ left: ManagedObject, _ right: ManagedObject, _ resolved: ResolvedQuery
    ) throws -> Bool {
        for ordering in resolved.request.sortOrderings {
            switch try context.withoutNoting({ try ordering.resolvedCompare(left, right) }) {
            case .orderedAscending: return true
            case .orderedDescending: return false
            case .orderedSame: continue
            }
        }
        return left.objectID.bits & Self.orderMask < right.objectID.bits & Self.orderMask
    }
}
