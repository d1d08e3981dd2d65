internal import OrderedCollections
internal import QuireStore

/// Relationships. Setting one side sets the inverse; see ``RelationshipDescription``.
///
/// The methods with a key trap if the key names no relationship of the right kind or an object is not valid in it; those with a
/// relationship throw instead. An object that was deleted, or whose row is known not to exist, cannot be related: that throws
/// ``QuireError`` with code `notFound`, and the methods with a key report it as the context's
/// ``ManagedObjectContext/lastFaultError``. Nothing is changed then.
extension ManagedObject {
    // MARK: To-one

    /// The destination of a to-one relationship.
    public final func object(_ key: String, file: StaticString = #fileID, line: UInt = #line)
        -> ManagedObject?
    {
        if isProbe { return PropertyProbe.value(key, of: self) as? ManagedObject }
        guard let slot = relationship(key, toMany: false, file: file, line: line).slot,
            let id = objectID(at: slot)
        else {
            return nil
        }
        return contextUnlessDiscarded?.object(with: id)
    }

    /// Sets the destination of a to-one relationship, and its inverse.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the object is of another entity or context, or `notFound` if it, or
    ///   this one, does not exist.
    public final func setObject(
        _ object: ManagedObject?, through relationship: ResolvedEntity.Relationship
    ) throws {
        guard let slot = relationship.slot else { throw wrongKind(relationship) }
        try checkMayChange(relationship)
        if let object { try check(object, for: relationship) }
        let context = requireContext()
        try context.requireChangeable(self)
        if let old = reference(at: slot), old != object?.objectID {
            _ = try objectToRemove(old, from: relationship)
        }
        context.setToOne(of: self, relationship, slot: slot, to: object)
        context.deliverRelationshipChanges()
    }

    // MARK: To-many

    /// The identifiers of the objects in a to-many relationship: in its order if it is ordered, else by primary key with those
    /// added since last.
    ///
    /// - Complexity: O(*n*), and one fetch if the relationship is a fault.
    public final func objectIDs(_ key: String, file: StaticString = #fileID, line: UInt = #line)
        -> [ManagedObjectID]
    {
        notedMembers(of: relationship(key, toMany: true, file: file, line: line)).elements
    }

    /// The objects in a to-many relationship, in the order of `objectIDs(_:)`.
    ///
    /// - Complexity: O(*n*), and one fetch if the relationship is a fault. Faults among the objects are fulfilled in batches,
    ///   when the first of them fires.
    public final func objects(_ key: String, file: StaticString = #fileID, line: UInt = #line)
        -> [ManagedObject]
    {
        isProbe
            ? PropertyProbe.objects(key, of: self)
            : objects(through: relationship(key, toMany: true, file: file, line: line))
    }

    final func objects(through relationship: ResolvedEntity.Relationship) -> [ManagedObject] {
        guard let index = relationship.toManyIndex, let context = contextUnlessDiscarded else {
            return []
        }
        noteAccess(.toMany(index))
        // Contents of an observed relationship are kept in the object, so that they can be compared.
        if edits == nil || edits?.toMany.isEmpty == true, !context.prefetches.isEmpty,
            !state.contains(.observed),
            let members = context.prefetchedMembers(of: self, relationship)
        {
            // Prefetched contents without changes need not be copied into the object.
            return members.map { context.object(bits: $0) }
        }
        let rows = loadMembers(of: relationship, at: index)
        let made = rows.map { rows in rows.indices.map { context.object(for: rows, at: $0) } }
        let state = toManyState(index)
        if let made, !state.hasChanges, state.members?.count == made.count { return made }
        // The result gets the objects made from the rows through the identity map.
        return withExtendedLifetime(made) {
            let members = members(of: relationship)
            if made == nil && members.count > 1 { context.prefetchWindow = members }
            return members.map { context.object(with: $0) }
        }
    }

    /// Adds an object to a to-many relationship, last in its order, and sets the inverse.
    public final func add(
        _ object: ManagedObject, to key: String, file: StaticString = #fileID, line: UInt = #line
    ) {
        changeToMany(key, file, line) { try add(object, through: $0) }
    }

    /// Inserts an object into an ordered to-many relationship at a position, and sets the inverse.
    ///
    /// An object that is a member already moves.
    public final func insert(
        _ object: ManagedObject, into key: String, at index: Int, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        changeToMany(key, file, line) { try add(object, through: $0, at: index) }
    }

    /// Removes an object from a to-many relationship, and clears the inverse.
    public final func remove(
        _ object: ManagedObject, from key: String, file: StaticString = #fileID, line: UInt = #line
    ) {
        changeToMany(key, file, line) { try remove(object, through: $0) }
    }

    /// Adds an object to a to-many relationship, at a position if it is ordered, else last.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the object is of another entity or context, or the position is out
    ///   of bounds; `notFound` if it, or this one, does not exist.
    public final func add(
        _ object: ManagedObject, through relationship: ResolvedEntity.Relationship,
        at index: Int? = nil
    ) throws {
        guard relationship.isToMany else { throw wrongKind(relationship) }
        try checkMayChange(relationship)
        try check(object, for: relationship)
        let context = requireContext()
        try context.requireChangeable(self)
        if let index, relationship.isOrdered {
            var order = members(of: relationship)
            order.remove(object.objectID)
            guard index >= 0 && index <= order.count else {
                throw outOfBounds(index, relationship, count: order.count)
            }
            context.addToMany(of: self, relationship, object)
            order.insert(object.objectID, at: index)
            context.reorder(self, relationship, order)
        } else {
            context.addToMany(of: self, relationship, object)
        }
        context.deliverRelationshipChanges()
    }

    /// Removes an object from a to-many relationship, if it is a member.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the object is of another entity or context, or `notFound` if it, or
    ///   this one, does not exist.
    public final func remove(
        _ object: ManagedObject, through relationship: ResolvedEntity.Relationship
    ) throws {
        guard relationship.isToMany else { throw wrongKind(relationship) }
        try checkMayChange(relationship)
        try check(object, for: relationship)
        let context = requireContext()
        try context.requireChangeable(self)
        context.removeFromMany(of: self, relationship, object)
        context.deliverRelationshipChanges()
    }

    /// Sets the objects of a to-many relationship, in this order if it is ordered.
    ///
    /// - Complexity: O(*n*) in the objects before and after, and one fetch if the relationship is a fault.
    /// - Throws: ``QuireError`` with code `invalidValue` if an object is of another entity or context, or `notFound` if one
    ///   does not exist; nothing is changed then.
    public final func setObjects(
        _ objects: [ManagedObject], through relationship: ResolvedEntity.Relationship
    ) throws {
        guard relationship.isToMany else { throw wrongKind(relationship) }
        try checkMayChange(relationship)
        for object in objects { try check(object, for: relationship) }
        let context = requireContext()
        try context.requireChangeable(self)
        let wanted = OrderedSet(objects.map(\.objectID))
        let leaving = OrderedSet(members(of: relationship).subtracting(wanted).reversed())
        if leaving.count > 1 { context.prefetchWindow = leaving }
        let removed = try leaving.map { try objectToRemove($0, from: relationship) }
        context.moveToEnd(leaving, of: self, relationship)
        for object in removed { context.removeFromMany(of: self, relationship, object) }
        context.prepareToMove(objects, to: self, relationship)
        for object in objects { context.addToMany(of: self, relationship, object) }
        if relationship.isOrdered { context.reorder(self, relationship, wanted) }
        context.deliverRelationshipChanges()
    }

    // MARK: State

    /// The contents of a to-many relationship, read if they are a fault.
    final func notedMembers(
        of relationship: ResolvedEntity.Relationship
    ) -> OrderedSet<ManagedObjectID> {
        if let index = relationship.toManyIndex { noteAccess(.toMany(index)) }
        return members(of: relationship)
    }

    /// ``notedMembers(of:)`` without registering an access; for the graph's own reads.
    final func members(of relationship: ResolvedEntity.Relationship) -> OrderedSet<ManagedObjectID>
    {
        guard let index = relationship.toManyIndex else { return [] }
        if let members = toManyState(index).members { return members }
        _ = loadMembers(of: relationship, at: index)
        let state = toManyState(index)
        return state.members ?? state.added
    }

    /// Reads the contents of a to-many relationship, if they are a fault. Returns the rows read with them.
    private final func loadMembers(
        of relationship: ResolvedEntity.Relationship, at index: Int
    ) -> RowSet? {
        if toManyState(index).members != nil { return nil }
        guard let context = contextUnlessDiscarded else { return nil }
        guard state.contains(.persisted) else {
            let edits = editsForRelationships()
            edits.toMany[index].load([], isOrdered: relationship.isOrdered)
            return nil
        }
        if !context.prefetches.isEmpty,
            let members = context.prefetchedMembers(of: self, relationship)
        {
            load(members.map { context.objectID(bits: $0) }, as: relationship, index)
            return nil
        }
        do {
            let rows = try context.relatedRows(of: self, through: relationship)
            load(
                rows.indices.map { context.objectID(bits: rows.identifierBits(at: $0)) },
                as: relationship, index)
            return rows
        } catch {
            // Stays a fault, so that a save cannot take unread contents for removed ones.
            context.reportFault(error)
            return nil
        }
    }

    /// Fills in the saved contents of a to-many relationship.
    final func load(
        _ saved: [ManagedObjectID], as relationship: ResolvedEntity.Relationship, _ index: Int
    ) {
        // Of one store, and mostly by primary key: then none is there twice.
        let isAscending = zip(saved, saved.dropFirst()).allSatisfy { $0.bits < $1.bits }
        let saved =
            isAscending ? OrderedSet(uncheckedUniqueElements: saved) : OrderedSet(saved)
        let edits = editsForRelationships()
        let shared = sharedDifferences(with: saved, relationship, edits.toMany[index])
        edits.toMany[index].load(saved, isOrdered: relationship.isOrdered, shared: shared)
        if !shared.isEmpty { realizeForOrder(of: relationship) }
    }

    /// Fulfills the object's fault before the order of a relationship changes: the order is part of the row's version, which a
    /// save needs.
    final func realizeForOrder(of relationship: ResolvedEntity.Relationship) {
        if relationship.isOrdered && state.contains(.persisted) { realize() }
    }

    /// The differences of a to-many relationship that another context has saved too, and that are unsaved here on both sides.
    final func sharedDifferences(
        with saved: OrderedSet<ManagedObjectID>, _ relationship: ResolvedEntity.Relationship,
        _ state: ToManyState
    ) -> OrderedSet<ManagedObjectID> {
        if state.added.isEmpty && state.removed.isEmpty { return [] }
        let ids = state.differences(in: saved)
        guard !ids.isEmpty, let context,
            let inverse = context.layout.inverse(of: relationship)
        else { return OrderedSet(ids) }
        return OrderedSet(
            ids.filter { id in
                guard let edits = context.identityMap.find(id.bits)?.edits else { return false }
                let isAdded = state.added.contains(id)
                if let slot = inverse.slot {
                    guard edits.changed.contains(slot) else { return false }
                    return (edits.values[slot] == .objectID(objectID)) == isAdded
                }
                guard let toMany = inverse.toManyIndex, !edits.toMany.isEmpty else { return false }
                let other = edits.toMany[toMany]
                return (isAdded ? other.added : other.removed).contains(objectID)
            })
    }

    /// The state of a to-many relationship, by its position among them.
    final func toManyState(_ index: Int) -> ToManyState {
        guard let edits, !edits.toMany.isEmpty else { return ToManyState() }
        return edits.toMany[index]
    }

    /// The edits, with room for to-many relationships.
    final func editsForRelationships() -> ObjectEdits {
        let edits = editsForWriting()
        if edits.toMany.isEmpty {
            edits.toMany = ContiguousArray(
                repeating: ToManyState(), count: resolvedEntity.toManyRelationships.count)
            context?.noteRelationships(of: self)
        }
        return edits
    }

    // MARK: Checks

    final func relationship(
        _ key: String, toMany: Bool, file: StaticString, line: UInt
    ) -> ResolvedEntity.Relationship {
        guard let relationship = resolvedEntity.relationship(named: key),
            relationship.isToMany == toMany
        else {
            fatalError(
                "\(resolvedEntity.name) has no \(toMany ? "to-many" : "to-one") relationship “\(key)”.",
                file: file, line: line)
        }
        return relationship
    }

    /// Checks that the object's relationships may be changed now.
    final func checkMayChange(_ relationship: ResolvedEntity.Relationship) throws {
        if hasLeftContext { throw goneError(relationship.name) }
        requireContext().checkMayChangeGraph()
        guard resolvedEntity.relationships.indices.contains(relationship.index),
            resolvedEntity.relationships[relationship.index] === relationship
        else {
            throw QuireError(
                .invalidValue,
                "“\(relationship.name)” is not a relationship of \(resolvedEntity.name).",
                entity: resolvedEntity.name, property: relationship.name)
        }
        guard state.contains(.live) else { throw goneError(relationship.name) }
    }

    final func check(
        _ object: ManagedObject, for relationship: ResolvedEntity.Relationship
    ) throws {
        let context = requireContext()
        if object.context == nil { throw gone(object, relationship) }
        guard object.context === context else {
            throw QuireError(
                .invalidValue,
                "\(object) and \(self) belong to different contexts; get the object with object(with:) of this one.",
                entity: resolvedEntity.name, property: relationship.name)
        }
        let destination = context.layout.destination(of: relationship)
        guard destination.subtree.contains(object.resolvedEntity.number) else {
            throw QuireError(
                .invalidValue,
                "“\(relationship.name)” of \(resolvedEntity.name) must be of entity \(destination.name); "
                    + "\(object.objectID.shortDescription) is of entity \(object.resolvedEntity.name).",
                entity: resolvedEntity.name, property: relationship.name)
        }
        if object.objectID.isTemporaryID
            && object.state.isDisjoint(with: [.tracked, .discarded])
        {
            object.realize()
            if object.isInaccessible { throw unknownObject(object, relationship) }
        }
        let inverse = context.layout.inverse(of: relationship)
        if inverse?.slot != nil || object.state.contains(.inaccessible) {
            try context.requireChangeable(object)
        }
        // The object's present partner loses it.
        if relationship.slot != nil, let inverse, let slot = inverse.slot,
            let partner = object.reference(at: slot), partner != objectID
        {
            _ = try object.objectToRemove(partner, from: inverse)
        }
        // The replacement of a deleted object may exist again.
        if object.state.isDisjoint(with: [.live, .persisted]) { object.realize() }
        guard object.state.contains(.live), !object.state.contains(.inaccessible) else {
            throw gone(object, relationship)
        }
    }

    /// The object of an identifier that is to leave a relationship, and whose reference back is to be cleared.
    final func objectToRemove(
        _ id: ManagedObjectID, from relationship: ResolvedEntity.Relationship
    ) throws -> ManagedObject {
        let context = requireContext()
        let object = context.object(with: id)
        if context.layout.inverse(of: relationship)?.slot != nil {
            try context.requireChangeable(object)
        }
        return object
    }

    private final func gone(
        _ object: ManagedObject, _ relationship: ResolvedEntity.Relationship
    ) -> QuireError {
        QuireError(
            .notFound,
            "\(object.objectID.shortDescription) was deleted, or no longer belongs to a context, and cannot be in "
                + "“\(relationship.name)” of \(resolvedEntity.name).",
            entity: resolvedEntity.name, property: relationship.name,
            object: object.objectID.uriRepresentation)
    }

    private final func unknownObject(
        _ object: ManagedObject, _ relationship: ResolvedEntity.Relationship
    ) -> QuireError {
        QuireError(
            .invalidValue,
            "\(object.objectID.shortDescription) has the temporary identifier of another context's object and cannot "
                + "be in “\(relationship.name)” of \(resolvedEntity.name); save that context first.",
            entity: resolvedEntity.name, property: relationship.name)
    }

    private final func wrongKind(_ relationship: ResolvedEntity.Relationship) -> QuireError {
        QuireError(
            .invalidValue,
            "“\(relationship.name)” of \(resolvedEntity.name) is a \(relationship.isToMany ? "to-many" : "to-one") "
                + "relationship.",
            entity: resolvedEntity.name, property: relationship.name)
    }

    /// Changes the to-many relationship named by a key. Traps if it does not exist, and on the errors of ``trapping(file:line:_:)``.
    final func changeToMany(
        _ key: String, _ file: StaticString, _ line: UInt,
        _ change: (ResolvedEntity.Relationship) throws -> Void
    ) {
        trapping(file: file, line: line) {
            try change(relationship(key, toMany: true, file: file, line: line))
        }
    }

    /// Traps if a change is a programmer error, and reports an object that does not exist, which other contexts may have
    /// deleted, or that cannot be read while protected data are locked.
    final func trapping(
        file: StaticString = #fileID, line: UInt = #line, _ body: () throws -> Void
    ) {
        do {
            try body()
        } catch let error as QuireError
            where error.code == .notFound || error.code == .protectedDataUnavailable
        {
            ManagedObjectContext.report(error, in: context)
        } catch {
            fatalError("\(error)", file: file, line: line)
        }
    }
}
