internal import QuireModel

/// An index of a model that is a table of its own, kept by triggers: an R-tree of ranges, or a full-text index.
///
/// R-tree: `Z_RT_Entity_index`, as Core Data names it, with `Z_PK` and, for each attribute, a least and a greatest value,
/// which are the same but for rounding: R-trees keep 32-bit numbers and round outwards. So an R-tree finds all objects
/// in a range, and possibly a few beside it; compare the attributes again. Objects that lack one of the values are not
/// in it.
///
/// Full text: `QUIRE_FT_Entity_index`, an FTS5 table without contents of its own whose `rowid` is `Z_PK`. Its triggers
/// and tokenizer are SQLite's own, so any program that writes the store keeps it right.
struct SQLComputedIndex: Sendable, Hashable {
    /// The kinds there are.
    enum Kind: Sendable {
        case rtree, fullText
    }

    let kind: Kind
    /// The table's name.
    let name: String
    /// The entity that declares the index; all its objects are in it, those of sub-entities included.
    let entityNumber: Int
    /// The slots of the attributes, in the index's order.
    let slots: [Int]
    /// Their columns in the table of the objects. They name the columns of a full-text index; those of an R-tree have
    /// `_MIN` and `_MAX` appended.
    let columns: [String]

    /// The columns of the R-tree with the least and the greatest value of a slot.
    func rangeColumns(of slot: Int) -> (least: String, greatest: String)? {
        guard kind == .rtree, let index = slots.firstIndex(of: slot) else { return nil }
        return (columns[index] + "_MIN", columns[index] + "_MAX")
    }
}

extension SQLSchema {
    /// The R-trees that hold the objects of an entity, and are in the store.
    func rtreeIndexes(of entity: EntityLayout) -> [SQLComputedIndex] {
        computedIndexes(.rtree, of: entity)
    }

    /// An R-tree that holds the objects of an entity with ranges of all of some slots, and is in the store.
    func rtreeIndex(of entity: EntityLayout, covering slots: [Int]) -> SQLComputedIndex? {
        rtreeIndexes(of: entity).filter { Set(slots).isSubset(of: $0.slots) }
            .min { $0.slots.count < $1.slots.count }
    }

    /// A full-text index of a slot of an entity's objects that is in the store. Search it in the slot's column:
    ///
    /// ```sql
    /// t0.Z_PK IN (SELECT rowid FROM QUIRE_FT_Book_byText WHERE QUIRE_FT_Book_byText MATCH ?)
    /// ```
    ///
    /// with ``TextSearch/matchExpression(in:)`` bound, whose columns are those of the index that are meant.
    func fullTextIndex(
        of entity: EntityLayout, covering slot: Int
    ) -> (index: SQLComputedIndex, column: String)? {
        for index in computedIndexes(.fullText, of: entity) {
            if let position = index.slots.firstIndex(of: slot) {
                return (index, index.columns[position])
            }
        }
        return nil
    }

    private func computedIndexes(
        _ kind: SQLComputedIndex.Kind, of entity: EntityLayout
    ) -> [SQLComputedIndex] {
        computedIndexes.filter {
            $0.kind == kind
                && layout.entity(number: $0.entityNumber).subtree.contains(entity.number)
        }
    }

    /// All that the model has, whether or not they are in the store.
    var allComputedIndexes: [SQLComputedIndex] {
        layout.entities.flatMap { entity in
            entity.description.indexes.compactMap { index -> SQLComputedIndex? in
                let kind: SQLComputedIndex.Kind
                switch index.elements.first?.kind {
                case .rtree?: kind = .rtree
                case .fullText?: kind = .fullText
                case .binary?, nil: return nil
                }
                let slots = index.elements.compactMap {
                    $0.propertyName.flatMap(entity.slot(named:))
                }
                let columns = slots.compactMap { self.entity(entity).columns[$0]?.name }
                guard columns.count == index.elements.count else { return nil }
                let prefix = kind == .rtree ? "Z_RT" : SQLName.fullTextPrefix
                return SQLComputedIndex(
                    kind: kind, name: "\(prefix)_\(entity.name)_\(index.name)",
                    entityNumber: entity.number, slots: slots, columns: columns)
            }
        }
    }
}
