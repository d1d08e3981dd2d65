extension ManagedObjectContext {
    /// What the context has not saved, as a draft. It is not validated, and nothing changes.
    ///
    /// Of a context with a parent it is what a save would hand to that, without what the parent itself has not saved.
    ///
    /// - Complexity: O(*n*) in changed objects.
    public func makeDraft() -> ObjectDraft { ObjectDraft([unsavedChanges()]) }

    /// What the context has not saved, as values that any queue may make a draft of.
    ///
    /// - Complexity: O(*n*) in changed objects; no value is copied.
    package func unsavedChanges() -> ChangeSet {
        processPendingChanges()
        return collectChanges(insertedCount: 0, includesBases: false)
    }

    /// Makes the changes of a draft, which are unsaved then.
    ///
    /// They are what they were, valid or not: saving them does what saving would have done when the draft was made. They
    /// come on top of changes that the context has already. One step of undo takes them back; for objects of classes,
    /// ``ManagedObject/awakeFromFetch()`` is called.
    ///
    /// If others have saved an object meanwhile, the draft's changes are made all the same, and a save finds the
    /// conflict. What cannot be made, because its entity, property or object is no more, is left out.
    ///
    /// - Returns: What was left out.
    /// - Complexity: O(*n*) in the changes; saved objects that they are about are read together.
    /// - Throws: What reading the store throws; then nothing has changed.
    @discardableResult
    public func apply(_ draft: ObjectDraft) throws -> [ObjectDraft.Omission] {
        processPendingChanges()
        checkMayChangeGraph()
        var application = DraftApplication(self)
        let held = try application.readObjects(of: draft)
        defer { withExtendedLifetime(held) {} }
        for layer in draft.layers { takeOver(application.changes(of: layer)) }
        processPendingChanges()
        return application.omissions
    }

    /// Has an object count as read when it had an earlier version, so that a save finds what others have saved since.
    func setBack(_ object: ManagedObject, to version: UInt32) {
        guard version > 0, object.version != version, let chunk = object.chunk else { return }
        var builder = RowSetBuilder(
            layout: layout, store: storeIdentity, externalData: chunk.externalData, expectedRows: 1)
        builder.copyRow(
            PackedRow(chunk: chunk, offset: Int(object.rowOffset)), of: object.entity,
            storeBits: object.objectID.bits & ManagedObjectID.storeNumberMask, version: version)
        guard let row = builder.finish().first else { return }
        object.chunk = row.chunk
        object.rowOffset = UInt32(truncatingIfNeeded: row.offset)
        object.version = version
    }
}

extension ObjectDraft {
    /// A change of a draft that could not be made.
    public struct Omission: Sendable, Hashable {
        /// The entity, as the draft has it.
        public var entity: String
        /// The property, if it is about one.
        public var property: String?
        /// The saved object, if it is about one: `Entity/p12`.
        public var object: String?
        /// One sentence that says what was left out, and why.
        public var message: String
    }
}
