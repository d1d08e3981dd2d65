internal import Foundation

/// Derived attributes in memory; see ``DerivedValues``.
extension ManagedObject {
    /// Brings the value of a derived slot in line with what is unsaved, before it is read.
    final func updateDerivedValue(at slot: Int) {
        guard let context, let derived = context.derived, state.contains(.live),
            let derivation = derived.derivations.derivation(of: slot, in: entity)
        else { return }
        realize()
        if state.contains(.inaccessible) { return }
        if !mayDiffer(derivation, derived.unsaved, in: context) {
            edits?.dropComputedValue(at: slot)
            if derived.stale.contains(objectID) { context.readStaleDerivedValues() }
        } else if let value = derivedValue(derivation, in: context) {
            editsForWriting().setComputedValue(value, at: slot)
        }
    }

    /// Takes over the derived values of a newer row.
    final func takeDerivedValues(from row: ObjectSnapshot) throws {
        guard row.entity === entity else { return }
        for slot in entity.slots where slot.isDerived {
            let value = try row.value(at: slot.index)
            announceChange(at: slot.index, to: value)
            editsForWriting().setSavedValue(value, at: slot.index)
        }
    }

    /// Whether unsaved changes can make a value another than the one that was read.
    private final func mayDiffer(
        _ derivation: EntityLayout.Derivation, _ unsaved: UnsavedSources,
        in context: ManagedObjectContext
    ) -> Bool {
        if case .now = derivation.form { return false }
        if !state.contains(.persisted) || unsaved.containsAbove(entity) { return true }
        let relationship = derivation.relationshipIndex.map { entity.relationships[$0] }
        guard let relationship else {
            if case .copy(_, let source) = derivation.form { return hasChanged(source) }
            if case .text(_, _, let source) = derivation.form { return hasChanged(source) }
            return false
        }
        let destination = context.layout.destination(of: relationship)
        if unsaved.containsAbove(destination) { return true }
        if let slot = relationship.slot {
            return hasChanged(slot) || unsaved.containsOwn(destination)
        }
        if toManyState(relationship.toManyIndex ?? 0).hasChanges { return true }
        return derivation.looksAtMembers(in: context.layout, relationship)
            && unsaved.containsOwn(destination)
    }

    private final func hasChanged(_ slot: Int) -> Bool { edits?.changed.contains(slot) == true }

    /// What the store will derive; `nil` if that cannot be read.
    private final func derivedValue(
        _ derivation: EntityLayout.Derivation, in context: ManagedObjectContext
    ) -> AttributeValue? {
        derivation.value(
            as: entity.storages[derivation.slot],
            count: { liveMembers(of: entity.relationships[$0], in: context).count },
            values: { index, slot in
                liveMembers(of: entity.relationships[index], in: context).map {
                    $0.value(at: slot)
                }
            },
            source: { source(at: $0, through: $1, in: context) })
    }

    /// The objects that a relationship leads to, without those that are deleted.
    private final func liveMembers(
        of relationship: EntityLayout.Relationship, in context: ManagedObjectContext
    ) -> [ManagedObject] {
        notedMembers(of: relationship).map { context.object(with: $0) }
            .filter { $0.state.contains(.live) }
    }

    private final func source(
        at slot: Int, through index: Int?, in context: ManagedObjectContext
    ) -> AttributeValue {
        guard let index else { return value(at: slot) }
        guard let reference = entity.relationships[index].slot, let id = objectID(at: reference)
        else { return .null }
        let target = context.object(with: id)
        return target.state.contains(.live) ? target.value(at: slot) : .null
    }
}

// MARK: - Computed values

extension ObjectEdits {
    /// A value that was computed goes before the saved one, which is kept.
    func setComputedValue(_ value: AttributeValue, at slot: Int) {
        if !savedDerived.contains(where: { $0.slot == slot }) {
            // Spelt out, because nil is a value, too: the missing one.
            let saved: AttributeValue? = own.contains(slot) ? .some(values[slot]) : .none
            savedDerived.append((slot, saved))
        }
        values[slot] = value
        own.insert(slot)
    }

    /// Goes back to the saved value.
    func dropComputedValue(at slot: Int) {
        guard let index = savedDerived.firstIndex(where: { $0.slot == slot }) else { return }
        let saved = savedDerived.remove(at: index).value
        if let saved { values[slot] = saved } else { own.remove(slot) }
    }

    /// Goes back to all saved values.
    func dropComputedValues() {
        while let last = savedDerived.last { dropComputedValue(at: last.slot) }
    }

    /// What a save has derived.
    func setSavedValue(_ value: AttributeValue, at slot: Int) {
        if committed != nil {
            committed?.values[slot] = value
            committed?.own.insert(slot)
        }
        if let index = savedDerived.firstIndex(where: { $0.slot == slot }) {
            savedDerived[index].value = value
        } else {
            values[slot] = value
            own.insert(slot)
        }
    }
}
