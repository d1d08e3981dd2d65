public import Foundation
internal import OrderedCollections
internal import QuireStore

/// Derived attributes in memory; see ``DerivedValueTracker``.
extension ManagedObject {
    /// Updates the value of a derived slot for the unsaved changes, before it is read.
    final func updateDerivedValue(at slot: Int) {
        guard let context, let derived = context.derived, state.contains(.live),
            let derivation = derived.derivations.derivation(of: slot, in: resolvedEntity)
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

    /// Adopts the derived values of a newer row.
    final func takeDerivedValues(from row: ObjectSnapshot) throws {
        guard row.entity === resolvedEntity else { return }
        for slot in resolvedEntity.slots where slot.isDerived {
            let value = try row.value(at: slot.index)
            announceChange(at: slot.index, to: value)
            editsForWriting().setSavedValue(value, at: slot.index)
        }
    }

    /// Whether unsaved changes can affect a derived value.
    private final func mayDiffer(
        _ derivation: ResolvedEntity.Derivation, _ unsaved: DirtyDerivationSources,
        in context: ManagedObjectContext
    ) -> Bool {
        if case .now = derivation.form { return false }
        if !state.contains(.persisted) || unsaved.containsAbove(resolvedEntity) { return true }
        let relationship = derivation.relationshipIndex.map { resolvedEntity.relationships[$0] }
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

    /// The value that the store will derive; `nil` if its dependencies cannot be read, or the attribute's type cannot hold it, so
    /// that the save will fail.
    private final func derivedValue(
        _ derivation: ResolvedEntity.Derivation, in context: ManagedObjectContext
    ) -> AttributeValue? {
        let value = derivation.value(
            as: resolvedEntity.storages[derivation.slot],
            count: { liveMembers(of: resolvedEntity.relationships[$0], in: context).count },
            values: { index, slot in
                liveMembers(of: resolvedEntity.relationships[index], in: context).map {
                    $0.value(at: slot)
                }
            },
            source: { source(at: $0, through: $1, in: context) })
        let slot = resolvedEntity.slots[derivation.slot]
        return value.flatMap { slot.canHold(derived: $0) ? $0 : nil }
    }

    /// The destinations of a relationship, without deleted ones.
    private final func liveMembers(
        of relationship: ResolvedEntity.Relationship, in context: ManagedObjectContext
    ) -> [ManagedObject] {
        notedMembers(of: relationship).map { context.object(with: $0) }
            .filter { $0.state.contains(.live) }
    }

    private final func source(
        at slot: Int, through index: Int?, in context: ManagedObjectContext
    ) -> AttributeValue {
        guard let index else { return value(at: slot) }
        guard let reference = resolvedEntity.relationships[index].slot,
            let id = objectID(at: reference)
        else { return .null }
        let target = context.object(with: id)
        return target.state.contains(.live) ? target.value(at: slot) : .null
    }
}

// MARK: - Computed values

extension ObjectEdits {
    /// Overrides the saved value, which is kept, by a computed one.
    func setComputedValue(_ value: AttributeValue, at slot: Int) {
        if !savedDerived.contains(where: { $0.slot == slot }) {
            // Spelt out, because nil is a value, too: the missing one.
            let saved: AttributeValue? = own.contains(slot) ? .some(values[slot]) : .none
            savedDerived.append((slot, saved))
        }
        values[slot] = value
        own.insert(slot)
    }

    /// Restores the saved value.
    func dropComputedValue(at slot: Int) {
        guard let index = savedDerived.firstIndex(where: { $0.slot == slot }) else { return }
        let saved = savedDerived.remove(at: index).value
        if let saved { values[slot] = saved } else { own.remove(slot) }
    }

    /// Restores all saved values.
    func dropComputedValues() {
        while let last = savedDerived.last { dropComputedValue(at: last.slot) }
    }

    /// Sets the value derived by a save.
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

// MARK: - Fetched properties

extension ManagedObject {
    /// The objects matching a fetched property's request for this object, in its order, within its limit and offset.
    ///
    /// The request's predicate may use `$FETCH_SOURCE` for this object and `$FETCH_SOURCE.author.name` for its value at a key
    /// path, `$FETCHED_PROPERTY.name` and `$FETCHED_PROPERTY.userInfo.KEY` for texts of the model. The result is cached,
    /// regardless of changes, until the object becomes a fault or is refreshed, or its context
    /// is reset.
    ///
    /// - Complexity: One fetch the first time; O(*n*).
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names no fetched property, `invalidQuery` if its request is
    ///   invalid, or `storeUnavailable`.
    public final func fetchedObjects(_ key: String) throws -> [ManagedObject] {
        guard case .fetched(let property) = try resolvedEntity.requireProperty(key) else {
            throw QuireError(
                .unknownKey, "“\(key)” of \(resolvedEntity.name) is not a fetched property.",
                entity: resolvedEntity.name, property: key)
        }
        guard let context = contextUnlessDiscarded else { return [] }
        try context.requireChangeable(self)
        if let found = context.fetchedPropertyValues[objectID.bits]?[key] {
            context.prefetchWindow = OrderedSet(found)
            return found.map { context.object(with: $0) }
        }
        let objects = Array(
            try context.fetch(FetchRequest<ManagedObject>(request(of: property))))
        context.fetchedPropertyValues[objectID.bits, default: [:]][key] = objects.map(\.objectID)
        return objects
    }

    private final func request(of property: FetchedPropertyDescription) throws -> FetchSpecification
    {
        var request = try property.fetchRequest.request
        request.resultType = .objects
        request.predicate = try request.predicate?.mappingExpressions {
            try $0.replacingVariables { try value(ofVariable: $0, property) }
        }
        return request
    }

    /// The value of a variable in a fetched property's request.
    private final func value(
        ofVariable name: String, _ property: FetchedPropertyDescription
    ) throws -> QueryExpression {
        let keys = name.split(separator: ".").map(String.init)
        switch (keys.first, keys.dropFirst().first, keys.count) {
        case ("FETCH_SOURCE", _, 1): return .constant(.objectID(objectID))
        case ("FETCH_SOURCE", _, _): return try Self.value(of: self, at: keys.dropFirst())
        case ("FETCHED_PROPERTY", "name", 2): return .constant(.string(property.name))
        case ("FETCHED_PROPERTY", "userInfo", 3...):
            let value = property.userInfo[keys[2...].joined(separator: ".")]
            return .constant(value.map(AttributeValue.init) ?? .null)
        default:
            throw QuireError(
                .invalidQuery,
                "The request of the fetched property “\(resolvedEntity.name).\(property.name)” uses "
                    + "$\(name); it can use $FETCH_SOURCE, $FETCH_SOURCE.KEY, $FETCHED_PROPERTY.name and "
                    + "$FETCHED_PROPERTY.userInfo.KEY.",
                entity: resolvedEntity.name, property: property.name)
        }
    }

    /// The value at a key path of an object; a collection if it goes through a to-many relationship.
    private static func value(
        of subject: any QuerySubject, at keys: ArraySlice<String>
    ) throws -> QueryExpression {
        guard let key = keys.first, key != QueryKeyPath.objectKey else {
            return .constant(.objectID(subject.objectID))
        }
        let rest = keys.dropFirst()
        switch try subject.queryValue(forKey: key) {
        case .value(.composite(let elements)) where !rest.isEmpty:
            return .constant(elements.element(at: rest.map { $0[...] }[...]))
        case .value(let value):
            guard rest.isEmpty || value.isNull else {
                throw QuireError(
                    .unknownKey,
                    "“\(key)” of \(subject.resolvedEntity.name) is an attribute, so “\(rest.joined(separator: "."))” "
                        + "cannot follow it.",
                    entity: subject.resolvedEntity.name, property: key)
            }
            return .constant(value)
        case .object(let object): return try value(of: object, at: rest)
        case .objects(let objects):
            return .collection(
                try objects.flatMap { object -> [QueryExpression] in
                    let value = try value(of: object, at: rest)
                    if case .collection(let inner) = value { return inner }
                    return [value]
                })
        }
    }
}

extension ManagedObjectContext {
    /// Replaces the temporary identifiers of objects that have just got permanent ones.
    func replaceIDsInFetchedProperties() {
        var replaced: [UInt64: [String: [ManagedObjectID]]] = [:]
        for (owner, values) in fetchedPropertyValues {
            let bits = identityMap.find(owner)?.objectID.bits ?? owner
            replaced[bits] = values.mapValues { ids in
                ids.map { id in
                    id.isTemporaryID ? identityMap.find(id.bits)?.objectID ?? id : id
                }
            }
        }
        fetchedPropertyValues = replaced
    }
}

extension AttributeValue {
    /// A value of user info; lists and dictionaries are no values of attributes.
    fileprivate init(_ value: PropertyListValue) {
        self =
            switch value {
            case .string(let text): .string(text)
            case .integer(let number): .integer(number)
            case .real(let number): .double(number)
            case .boolean(let truth): .boolean(truth)
            case .data(let data): .binary(data)
            case .date(let date): .date(date)
            case .array, .dictionary: .null
            }
    }
}

// MARK: - External data

/// Values of binary attributes that need not be in memory.
extension ManagedObject {
    /// A binary attribute's value for streaming; `nil` if it has none.
    ///
    /// Its file, if it is in one, is open while the result is retained. The bytes of an attribute that does not allow external
    /// storage are in memory.
    ///
    /// Call it on the context's queue. The result may be used on any.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names no attribute, `invalidValue` if the attribute is not
    ///   binary, `invalidFormat` if the file is missing, or the store's read errors.
    public final func externalData(forKey key: String) throws -> ExternalData? {
        try externalData(at: binarySlot(key))
    }

    final func externalData(at slot: Int) throws -> ExternalData? {
        switch try readNotedValue(at: slot) {
        case .external(let data): try data.opened(ownedBy: owner(of: slot))
        case .binary(let data): ExternalData(data)
        default: nil
        }
    }

    /// Sets a binary attribute. Values in files are not read, nor copied if they are in the object's store already.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` or `invalidValue`; or, if the attribute does not allow external storage,
    ///   the errors of reading the value.
    public final func setExternalData(_ data: ExternalData?, forKey key: String) throws {
        try setValue(data.map { .external($0) } ?? .null, at: binarySlot(key))
    }

    /// Sets a binary attribute to the contents of a file of any size, while the caller waits.
    ///
    /// The bytes are copied to a file in the object's store at once, so the save does not copy them. If the value is never saved,
    /// or the change is undone and dropped, that file is deleted. On an error the object is unchanged.
    ///
    /// - Parameters:
    ///   - path: The path of the file, or of anything readable to an end.
    ///   - key: The attribute.
    ///   - taking: Whether the file is copied or moved; see ``ExternalData/Taking``.
    /// - Complexity: O(*n*) in the bytes; one block at a time is in memory.
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidValue`, `notFound`, `outOfSpace` or `inputOutput`.
    public final func setExternalData(
        contentsOf path: String, forKey key: String, taking: ExternalData.Taking = .copying
    ) throws {
        let slot = try binarySlot(key)
        let value = try ExternalDataSpool.value(
            contentsOf: path, taking: taking, in: externalDataPlace)
        try setValue(.external(value), at: slot)
    }

    /// Sets a binary attribute to the contents of a file of any size, without blocking the context's queue.
    ///
    /// The asynchronous variant: the bytes are copied on another thread, and the attribute is set afterwards. Stops early if
    /// the task is cancelled.
    public final func setExternalData(
        contentsOf path: String, forKey key: String, taking: ExternalData.Taking = .copying
    ) async throws {
        let slot = try binarySlot(key)
        let value = try await ExternalData.apart { [folder = externalDataPlace] in
            try ExternalDataSpool.value(contentsOf: path, taking: taking, in: folder)
        }.get()
        try setValue(.external(value), at: slot)
    }

    /// Sets a binary attribute to the contents of a URL's file, while the caller waits; see
    /// `setExternalData(contentsOf:forKey:taking:)` with a path.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that method.
    public final func setExternalData(
        contentsOf url: URL, forKey key: String, taking: ExternalData.Taking = .copying
    ) throws {
        try setExternalData(contentsOf: FileSystem.path(of: url), forKey: key, taking: taking)
    }

    /// Sets a binary attribute to the contents of a URL's file, without blocking the context's queue.
    public final func setExternalData(
        contentsOf url: URL, forKey key: String, taking: ExternalData.Taking = .copying
    ) async throws {
        let path = try FileSystem.path(of: url)
        try await setExternalData(contentsOf: path, forKey: key, taking: taking)
    }

    /// Sets a binary attribute from an asynchronous sequence of chunks, without having it in memory, nor blocking the context's
    /// queue. The attribute is set at the end of the sequence.
    ///
    /// - Throws: The sequence's errors, or as `setExternalData(contentsOf:forKey:taking:)`; the object is unchanged then.
    public final func setExternalData<Chunks: AsyncSequence>(
        from chunks: Chunks, forKey key: String
    ) async throws where Chunks.Element: DataProtocol {
        let slot = try binarySlot(key)
        let value = try await ExternalDataSpool.value(of: chunks, in: externalDataPlace)
        try setValue(.external(value), at: slot)
    }

    /// Sets a binary attribute to a file handle's bytes from its position to its end, while the caller waits.
    ///
    /// - Throws: As `setExternalData(contentsOf:forKey:taking:)`.
    public final func setExternalData(
        readingFrom handle: FileHandle, forKey key: String
    ) throws {
        let slot = try binarySlot(key)
        let value = try ExternalDataSpool.value(readingFrom: handle, in: externalDataPlace)
        try setValue(.external(value), at: slot)
    }

    // MARK: -

    /// The slot of an attribute that can hold bytes.
    private final func binarySlot(_ key: String) throws -> Int {
        guard case .attribute(let slot) = try resolvedEntity.requireProperty(key),
            resolvedEntity.storages[slot] == .binary
        else {
            throw QuireError(
                .invalidValue, "“\(key)” of \(resolvedEntity.name) is not a binary attribute.",
                entity: resolvedEntity.name, property: key)
        }
        return slot
    }

    /// The location of the object's external data; `nil` if its store has none.
    private final var externalDataPlace: ExternalDataFolder? {
        guard let context = contextUnlessDiscarded else { return nil }
        let new = objectID.isTemporaryID ? context.storeForNewObject(self) : nil
        return context.persistentStoreCoordinator.externalDataPlace {
            $0 === new || $0.owns(objectID)
        }
    }

    private final func owner(of slot: Int) -> QuireError.Subject {
        .init(
            entity: resolvedEntity.name, property: resolvedEntity.slots[slot].name,
            object: objectID.uriRepresentation)
    }

    /// The bytes of a value of the object.
    final func load(_ data: ExternalData, at slot: Int) throws -> Data {
        try ExternalData(data.content, owner: owner(of: slot)).data()
    }
}
