internal import Foundation

/// The overlay for fetches in batches, which are about identifiers: objects that were found are read only where a
/// changed one has to be put in its place among them.
extension PendingChangeOverlay {
    func identifiers() throws -> ContiguousArray<UInt64> {
        let resolved = try ResolvedQuery(request, in: layer.layout, store: layer.storeIdentity)
        if looksAtOtherChangedObjects(resolved) {
            let rows = try rows()
            return ContiguousArray(rows.indices.map(rows.identifierBits))
        }
        if !changed.contains(where: isOfEntity) {
            return try layer.source.objectIDs(matching: request).bits
        }
        var wide = request
        wide.fetchOffset = 0
        // However many of the changed objects the source finds, enough others are left.
        wide.fetchLimit =
            request.fetchLimit > 0
            ? request.fetchLimit + request.fetchOffset + changed.count : 0
        var kept: ContiguousArray<UInt64> = []
        for bits in try layer.source.objectIDs(matching: wide).bits where !layer.hasChanges(bits) {
            kept.append(bits)
        }
        let added = try layer.candidates(in: self, matching: resolved)
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
        _ kept: ContiguousArray<UInt64>, _ added: [Object], _ resolved: ResolvedQuery
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
        _ object: Object, _ bits: UInt64, _ resolved: ResolvedQuery
    ) throws -> Bool {
        if resolved.request.sortOrderings.isEmpty {
            return object.objectID.bits & Self.orderMask < bits & Self.orderMask
        }
        return try precedes(object, layer.object(bits: bits), resolved)
    }
}
