public import Foundation

/// Values of binary attributes that need not be in memory.
extension ManagedObject {
    /// The value of a binary attribute as something to read from; `nil` if it has none.
    ///
    /// Its file, if it is in one, is open as long as what is returned is held. The bytes of an attribute that does not allow
    /// external storage are in memory.
    ///
    /// Call it on the context's queue. What is returned may be used anywhere.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names no attribute, `invalidValue` if the attribute is not
    ///   binary, `invalidFormat` if the file is missing, or what reading the store throws.
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

    /// Sets a binary attribute. Values in files are not read, nor copied if they lie in the object's store already.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` or `invalidValue`; or, if the attribute does not allow external
    ///   storage, what reading the value throws.
    public final func setExternalData(_ data: ExternalData?, forKey key: String) throws {
        try setValue(data.map { .external($0) } ?? .null, at: binarySlot(key))
    }

    /// Sets a binary attribute to what a file holds, however large that is, while the caller waits.
    ///
    /// The bytes go to a file in the object's store at once, so that the save has none to copy. If it is never saved, or the
    /// change is undone and forgotten, that file goes. If this throws, the object is as it was.
    ///
    /// - Parameters:
    ///   - path: The file's path. Anything that can be read to an end will do.
    ///   - key: The attribute.
    ///   - taking: Whether the file stays; see ``ExternalData/Taking``.
    /// - Complexity: O(*n*) in the bytes, of which one block at a time is in memory.
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidValue`, `notFound`, `outOfSpace` or `inputOutput`.
    public final func setExternalData(
        contentsOf path: String, forKey key: String, taking: ExternalData.Taking = .copying
    ) throws {
        let slot = try binarySlot(key)
        let value = try ExternalDataSpool.value(
            contentsOf: path, taking: taking, in: externalDataPlace)
        try setValue(.external(value), at: slot)
    }

    /// Sets a binary attribute to what a file holds, however large that is, without blocking the context's queue.
    ///
    /// As the function of the same name that does not suspend, but the bytes are copied elsewhere. The attribute is set when
    /// they are there. It ends early if the task is cancelled.
    public final func setExternalData(
        contentsOf path: String, forKey key: String, taking: ExternalData.Taking = .copying
    ) async throws {
        let slot = try binarySlot(key)
        let value = try await ExternalDataSpool.valueApart(
            contentsOf: path, taking: taking, in: externalDataPlace
        ).get()
        try setValue(.external(value), at: slot)
    }

    /// Sets a binary attribute to bytes that come one after another, without having them in memory, nor blocking the
    /// context's queue. The attribute is set when all are there.
    ///
    /// - Throws: What the sequence throws, or as ``setExternalData(contentsOf:forKey:taking:)``; the object is as it was then.
    public final func setExternalData<Chunks: AsyncSequence>(
        from chunks: Chunks, forKey key: String
    ) async throws where Chunks.Element: DataProtocol {
        let slot = try binarySlot(key)
        let value = try await ExternalDataSpool.value(of: chunks, in: externalDataPlace)
        try setValue(.external(value), at: slot)
    }

    /// Sets a binary attribute to what a file handle gives from its position to its end, while the caller waits.
    ///
    /// - Throws: As ``setExternalData(contentsOf:forKey:taking:)``.
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
        guard case .attribute(let slot) = try property(key), entity.storages[slot] == .binary else {
            throw QuireError(
                .invalidValue, "“\(key)” of \(entity.name) is no binary attribute.",
                subject: .init(entity: entity.name, property: key))
        }
        return slot
    }

    /// Where values of the object are kept in files; `nil` if its store keeps none.
    private final var externalDataPlace: ExternalDataPlace? {
        guard let context = contextUnlessDiscarded else { return nil }
        let new = objectID.isTemporary ? context.storeForNewObject(self) : nil
        return context.persistentStoreCoordinator.externalDataPlace {
            $0 === new || $0.owns(objectID)
        }
    }

    private final func owner(of slot: Int) -> QuireError.Subject {
        .init(
            entity: entity.name, property: entity.slots[slot].name,
            object: objectID.uriRepresentation)
    }

    /// The bytes of a value of the object.
    final func load(_ data: ExternalData, at slot: Int) throws -> Data {
        try ExternalData(data.content, owner: owner(of: slot)).data()
    }
}
