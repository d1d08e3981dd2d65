package import QuireModel
internal import QuireSystem

/// Compares how many objects, values and references a mapping takes over with how many arrived.
///
/// A net under every migration and conversion: what a mapping leaves out is known before (``MappingOmissions``), and
/// anything else that is missing afterwards was lost on the way. Entities whose objects a policy makes, a predicate
/// chooses or several mappings share are not counted.
package struct TransferCheck {
    /// The expected counts of an entity of the new model.
    private struct Expectation {
        var objects = 0
        /// By slot.
        var values: [Int: Int] = [:]
        /// By the index of the relationship.
        var references: [Int: Int] = [:]
    }

    private let destination: ModelLayout
    /// By the numbers of new entities.
    private var expectations: [Int: Expectation] = [:]

    /// Counts what a mapping takes over.
    ///
    /// - Parameters:
    ///   - source: Counts in the old store.
    ///   - mayLose: Whether something could be lost of a new entity's objects; others are not counted.
    package init(
        _ plan: TransferPlan, from source: any ContentCounter,
        where mayLose: (EntityLayout) -> Bool = { _ in true }
    ) throws {
        destination = plan.destination
        let counted = plan.transfers.filter {
            $0.mapping.entityMigrationPolicyName == nil
                && $0.mapping.sourcePredicateFormat == nil
                && plan.transfers(ofEntity: $0.source.number).count == 1
        }
        for transfer in counted
        where !transfer.source.isAbstract && mayLose(transfer.destination) {
            let values = transfer.values.enumerated().compactMap { slot, value -> (Int, Int)? in
                guard case .copy(let from, _, _) = value else { return nil }
                return (slot, from)
            }
            let relationships = transfer.relationships.sorted { $0.key < $1.key }.compactMap {
                index, expression -> (Int, CountedRelationship)? in
                let new = transfer.destination.relationships[index]
                guard let name = expression.relationshipName,
                    let old = transfer.source.relationship(named: name),
                    !old.description.isTransient, !new.description.isTransient
                else { return nil }
                let members = plan.destination.destination(of: new).subtree
                let taken = counted.filter { members.contains($0.destination.number) }
                return (
                    index,
                    CountedRelationship(relationship: old, members: Set(taken.map(\.source.number)))
                )
            }
            let count = try source.count(
                of: transfer.source, slots: values.map(\.1), relationships: relationships.map(\.1))
            var expectation = expectations[transfer.destination.number] ?? Expectation()
            expectation.objects += count.objects
            for ((slot, _), count) in zip(values, count.values) {
                expectation.values[slot, default: 0] += count
            }
            for ((index, _), count) in zip(relationships, count.references) {
                expectation.references[index, default: 0] += count
            }
            expectations[transfer.destination.number] = expectation
        }
    }

    /// Checks that all of it has arrived.
    ///
    /// - Parameters:
    ///   - counter: Counts in the new store.
    ///   - path: The path of the old store.
    /// - Throws: ``QuireError`` with code `removalDenied`, which lists what is missing.
    package func requireAll(in counter: any ContentCounter, path: String?) throws {
        let missing = try missing(in: counter)
        if !missing.isEmpty { throw QuireError.lossDenied(missing, path: path) }
    }

    /// The objects, values and references that are missing.
    package func missing(in counter: any ContentCounter) throws -> [MigrationRemoval] {
        var missing: [MigrationRemoval] = []
        for (number, expectation) in expectations.sorted(by: { $0.key < $1.key }) {
            let entity = destination.entity(number: number)
            let slots = expectation.values.keys.sorted()
            let indexes = expectation.references.keys.sorted()
            let count = try counter.count(
                of: entity, slots: slots,
                relationships: indexes.map {
                    let relationship = entity.relationships[$0]
                    return CountedRelationship(
                        relationship: relationship,
                        members: Set(destination.destination(of: relationship).subtree))
                })
            func note(_ property: String?, _ expected: Int, _ found: Int) {
                if found >= expected { return }
                missing.append(
                    MigrationRemoval(
                        entityName: entity.name, propertyName: property, count: expected - found))
            }
            note(nil, expectation.objects, count.objects)
            for (slot, found) in zip(slots, count.values) {
                note(entity.slots[slot].name, expectation.values[slot] ?? 0, found)
            }
            for (index, found) in zip(indexes, count.references) {
                note(entity.relationships[index].name, expectation.references[index] ?? 0, found)
            }
        }
        return missing
    }
}
