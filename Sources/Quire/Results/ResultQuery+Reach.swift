/// Which results an object decides about that is none itself: the way from it back to them.
extension ResultQuery {
    /// The objects that may be results and that key paths lead from to a changed object, by the inverses of the
    /// relationships on the way. What has led to it before and does not any more has been changed itself.
    ///
    /// - Complexity: O(*n*) in the objects on the way.
    /// - Returns: `nil` if a relationship has no inverse that is kept in step, so that it may be any.
    func objects(leadingTo object: ManagedObject) -> [UInt64]? {
        var found: [UInt64] = []
        for way in ways {
            for position in 0..<way.decidingCount
            where way.steps[position].destination.subtree.contains(object.entity.number) {
                guard let start = objects(leadingTo: object, way.steps[...position]) else {
                    return nil
                }
                found += start
            }
        }
        return found
    }

    private func objects(
        leadingTo object: ManagedObject, _ steps: ArraySlice<QueryKeyPath.Step>
    ) -> [UInt64]? {
        var reached: Set<UInt64> = [object.objectID.bits]
        for step in steps.reversed() {
            guard let inverse = keptInverse(of: step) else { return nil }
            var next: Set<UInt64> = []
            for bits in reached {
                for id in context.relatedIDs(of: context.object(bits: bits), inverse) {
                    next.insert(id.bits)
                }
            }
            reached = next
        }
        return Array(reached)
    }

    /// The relationship that leads back, if what leads to an object is told of the object's deletion.
    private func keptInverse(of step: QueryKeyPath.Step) -> EntityLayout.Relationship? {
        guard let inverse = context.layout.inverse(of: step.relationship),
            inverse.description.deleteRule != .noAction
        else { return nil }
        return inverse
    }

    /// Whether objects of an entity are on a way: what leads to them need not have been told of changes to their rows.
    func dependsOnRows(_ bits: UInt64) -> Bool {
        let number = Int(bits >> 48 & 0x7FFF)
        return ways.contains { $0.steps.contains { $0.destination.subtree.contains(number) } }
    }

    /// Whether the deletion of an object may decide about results that are not told of it by changes of their own.
    func dependsOnDeletion(_ bits: UInt64) -> Bool {
        let number = Int(bits >> 48 & 0x7FFF)
        return ways.contains { way in
            way.steps.contains { step in
                step.destination.subtree.contains(number) && keptInverse(of: step) == nil
            }
        }
    }
}
