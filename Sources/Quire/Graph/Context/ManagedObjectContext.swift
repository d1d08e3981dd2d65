internal import Foundation
internal import Logging
internal import OrderedCollections
internal import Synchronization

/// A workspace for objects: fetches them, tracks their changes, and saves these atomically.
///
/// A context has one object per identifier. It is used on one queue only, and so are its objects: a main-queue
/// context on the main queue (the main actor), a private-queue context within the closures given to
/// ``QueueConfinedContext/perform(schedule:_:)`` and ``QueueConfinedContext/performAndWait(_:)``. The compiler checks part of
/// this; in debug builds, and in release builds if the environment has `QUIRE_CONCURRENCY_DEBUG=1`, the first use
/// on a wrong queue traps.
///
/// A context saves to its parent, if it has one, else to the store. Saving a child moves its changes up; only the parent's
/// save writes them. Identifiers of new objects are reserved in the store before, except in a document.
///
/// ```swift
/// let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
/// let book = try context.insertObject(entityName: "Book")
/// book["title"] = "Emma"
/// try context.save()
/// ```
public final class ManagedObjectContext {
    /// The queue a context is used on.
    public enum ConcurrencyType: Sendable {
        /// The main queue.
        case mainQueue
        /// A private queue.
        case privateQueue
    }

    /// Whether the context only buffers its children's saves for the stores, as a document's parent context does.
    ///
    /// It posts no notifications: an edit and its save are announced by the child. Changes of its own objects reach the
    /// children when the event ends, not when it saves, so a save has nothing new for them.
    package var isWriteBehindParent = false
    /// The buffered saves of a write-behind parent's children, and the state of its own saves.
    let writeBehindBuffer: WriteBehindBuffer
    /// Objects saved by a write-behind parent's child in the present event; the child's save notifies its siblings itself.
    var savedByChild: Set<UInt64> = []
    /// The error that insertions and saves of children fail with; `nil` while they are allowed.
    package var saveBlock: QuireError?
    /// The queue the context is used on.
    public let concurrencyType: ConcurrencyType
    /// The parent context; `nil` if the context reads from the stores.
    public let parent: QueueConfinedContext?
    /// The coordinator of the context, or of its root context.
    public let persistentStoreCoordinator: PersistentStoreCoordinator
    /// A name, for debugging and for the store's history.
    public var name: String?
    /// The author of the context's saves and batch requests, for the store's history. A save that includes saves of children has
    /// the latest child's author, unless the context has an author.
    public var transactionAuthor: String?
    /// Values for use by the program. The context does not use them.
    public var userInfo: [String: Any] = [:]
    /// The author of the latest save of a child that named one, since the context's own.
    var childOrigin = TransactionOrigin()
    /// The author of the context itself.
    var ownOrigin: TransactionOrigin {
        TransactionOrigin(author: transactionAuthor, contextName: name)
    }
    /// The model.
    package let layout: ResolvedModel
    /// The undo manager; `nil` for a new context. The old one keeps its registered actions when another is set.
    public var undoManager: UndoManager? {
        willSet {
            processPendingChanges()
            undoManager?.clients[ObjectIdentifier(self)] = nil
        }
        didSet {
            undoManager?.addClient(
                ObjectIdentifier(self),
                UndoClient(
                    registerPending: { [weak self] in self?.registerPendingChanges() },
                    endEvent: { [weak self] in
                        self?.registerPendingChanges()
                        self?.endEvent()
                    },
                    hasPending: { [weak self] in self?.event.log.isEmpty == false },
                    isAlive: { [weak self] in self != nil }))
            changeLogger = undoManager
        }
    }
    /// The undo manager, cached for the check on every change.
    @exclusivity(unchecked) private var changeLogger: UndoManager?
    /// The resolution of optimistic-lock failures during a save; ``MergePolicy/error`` by default.
    public var mergePolicy = MergePolicy.error
    /// The maximum age, in seconds, of a cached row that may fulfill a fault without a read from the store. Negative, the
    /// default: any age. 0: every fault reads.
    ///
    /// See ``PersistentStoreCoordinator`` for when cached rows can be out of date. Values already in objects, and the results
    /// of fetches, are not affected.
    public var stalenessInterval: Double = -1
    /// The error of the last fault that could not be read, of the last change rejected because its object no longer exists, or
    /// of the last object inserted although the context's document is closed; see ``ManagedObject``.
    public internal(set) var lastFaultError: QuireError?

    /// Returns ``lastFaultError`` and clears it, so later errors can be distinguished.
    public func takeFaultError() -> QuireError? {
        checkQueue()
        defer { lastFaultError = nil }
        return lastFaultError
    }
    /// Called at the end of every user event with changes. For documents.
    package var changeHandler: (() -> Void)?

    /// Tracks changes that affect derived attributes; `nil` if the model has none.
    let derived: DerivedValueTracker?
    /// The coordinator or one of its generations, or the parent.
    @exclusivity(unchecked) var source: any ObjectSource
    /// The generation that the topmost context is pinned to.
    let pinnedGeneration: PinnedGeneration
    /// The store identity of permanent identifiers; a copy of the ``source``'s, which is slower to read.
    let storeIdentity: StoreIdentity
    /// The store identity of temporary identifiers.
    let temporaryIdentity: StoreIdentity
    let queueMarker: QueueMarker
    /// The child contexts.
    let children = ContextChildren()
    /// Observers of saves to this context: its children.
    let saveObservers = SaveObservers()
    /// Set while the context merges saves of other contexts automatically.
    var parentSaveMerger: ParentSaveMerger?
    /// Set once temporary identifiers may have been published to child contexts.
    var isParent = false
    /// Whether there may be new objects with temporary identifiers.
    @exclusivity(unchecked) var hasTemporaryIDs = false
    /// Set by a merge; undo must then repair inverses.
    var undoRequiresInverseRepair = false
    /// The objects retained by ``retainsRegisteredObjects``.
    @exclusivity(unchecked) var retainedObjects: Set<ManagedObject>?
    /// Whether an object whose row no longer exists counts as deleted. True for a new context.
    ///
    /// Such an object has no values, ``ManagedObject/isDeleted`` is true, and it is among the ``deletedObjects``, but in no
    /// save: the next one only removes it from the context. If false, it remains an object without values whose changes cannot
    /// be saved. Reading it never traps; ``ManagedObject/isInaccessible`` identifies it.
    public var shouldDeleteInaccessibleFaults = true
    /// Whether there may be such objects.
    var hasInaccessibleFaults = false
    @exclusivity(unchecked) var identityMap = IdentityMap()
    /// The objects with contents or changes of to-many relationships, by their addresses.
    @exclusivity(unchecked) var relationshipOwners = IdentityMap()
    /// The rows in fetch results that must not become objects any more.
    @exclusivity(unchecked) var staleRows = StaleRowTracker(of: RowHolders())
    /// Prefetched rows of fetches whose results are still held; each removes itself on release.
    @exclusivity(unchecked) var prefetches: ContiguousArray<Unmanaged<PrefetchedObjects>> = []
    /// Prefetch window: faults in it are fulfilled in one batch.
    @exclusivity(unchecked) var prefetchWindow: OrderedSet<ManagedObjectID> = []
    /// Cached results of fetched properties, by the identifiers of their objects.
    @exclusivity(unchecked) var fetchedPropertyValues: [UInt64: [String: [ManagedObjectID]]] = [:]
    /// Changed objects, in the order they were first changed. Retains them.
    @exclusivity(unchecked) var tracked: ContiguousArray<ManagedObject> = []
    /// The present user event.
    @exclusivity(unchecked) var event = UserEvent()
    /// Whether observers are being notified that a save begins.
    var isAnnouncingSave = false
    /// Whether an object may have, or undo may give it, a value that its attribute cannot hold.
    var mayHoldInvalidValues = false
    /// Whether a save calls methods of objects or of the merge policy.
    var forbidsSaving = false
    /// Observers called synchronously, before notifications are posted.
    var followers = WeakList<any ContextObserver>()
    /// The observed to-many relationships, from when there was the first.
    var relationshipObservations: RelationshipObservations?
    /// Feeds the AsyncSequences of changes.
    let changeBroadcast = Broadcast<ObjectIDChanges>()
    /// Feeds the AsyncSequences of saves.
    let saveBroadcast = Broadcast<ObjectIDChanges>()
    /// The registrar for Swift's Observation, from when ``isObservable`` was first true.
    var observation: ContextObservation?
    /// The initial state of every object of the context: whether reading it checks the queue, and whether accesses are
    /// registered with Swift's Observation.
    @exclusivity(unchecked) var stateOfObjects: ManagedObject.State =
        QueueMarker.isChecking ? [] : .unguarded
    /// Nesting depth of life-cycle methods, during which the graph must not change.
    @exclusivity(unchecked) private var awakeningDepth = 0
    /// Objects without changes in which such a method has set a value.
    private var awakened: [ManagedObject] = []
    /// Objects that the present user event has deleted before they were ever saved.
    var deletedUnsaved: [ManagedObject] = []
    /// The objects whose `prepareForDeletion` the running deletion has called.
    var preparedForDeletion: Set<ObjectIdentifier> = []
    /// The permanent identifiers of objects that an undo log may refer to by temporary ones.
    var undoIdentifiers = UndoIdentifiers()
    /// Distinguishes this context from other children of the same parent.
    let number = ManagedObjectContext.lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
    /// The stores that new objects were assigned to, by their temporary identifiers.
    var assignedStores: [UInt64: StoreIdentity] = [:]
    /// The metadata records written by the next save.
    var pendingRecords: [String: String?] = [:]
    private static let temporarySerial = Atomic<UInt64>(0)
    private static let lastNumber = Atomic<UInt32>(0)
    private static let logger = Logger(label: "quire.context")

    init(
        concurrencyType: ConcurrencyType, source: any ObjectSource, parent: QueueConfinedContext?,
        coordinator: PersistentStoreCoordinator, queueMarker: QueueMarker
    ) {
        persistentStoreCoordinator = coordinator
        self.concurrencyType = concurrencyType
        self.source = source
        layout = source.layout
        storeIdentity = source.storeIdentity
        temporaryIdentity = source.temporaryIdentity
        self.parent = parent
        pinnedGeneration = parent?.pinnedGeneration ?? PinnedGeneration()
        self.queueMarker = queueMarker
        derived = DerivedValueTracker(layout: source.layout, parent: parent)
        writeBehindBuffer = WriteBehindBuffer(
            coordinator: coordinator, dirtyDerivationSources: derived?.unsaved)
        parent?.children.add(self)
    }

    /// Creates a main-queue context that saves to the store.
    @MainActor
    public static func mainQueue(coordinator: PersistentStoreCoordinator) -> ManagedObjectContext {
        ManagedObjectContext(
            concurrencyType: .mainQueue, source: coordinator, parent: nil,
            coordinator: coordinator, queueMarker: .main)
    }

    /// Creates a main-queue context that reads from another context, including its unsaved changes, and saves to it. If the
    /// parent is on a private queue, files are written off the main queue.
    ///
    /// Unsaved changes of a released child never reach its parent.
    @MainActor
    public static func mainQueue(parent: QueueConfinedContext) -> ManagedObjectContext {
        ManagedObjectContext(
            concurrencyType: .mainQueue, source: parent, parent: parent,
            coordinator: parent.coordinator, queueMarker: .main)
    }

    /// Creates a main-queue scratch pad: a child of another main-queue context.
    @MainActor
    public static func mainQueue(parent: ManagedObjectContext) -> ManagedObjectContext {
        mainQueue(parent: QueueConfinedContext(parent))
    }

    deinit {
        leaveObjects()
        parent?.children.remove(number)
    }

    // MARK: Queue

    @inline(__always)
    func checkQueue() {
        if QueueMarker.isChecking { queueMarker.check(nameInMessages) }
    }

    /// As ``checkQueue()``, for the use of an object.
    @inline(__always)
    func checkQueue(of object: ManagedObject) {
        if QueueMarker.isChecking { queueMarker.check(nameInMessages(of: object)) }
    }

    /// The context in a message about the queue it was used on.
    var nameInMessages: String {
        name.map { "The managed object context “\($0)”" } ?? "A managed object context"
    }

    private func nameInMessages(of object: ManagedObject) -> String {
        "\(object.objectID.shortDescription) of "
            + (name.map { "the managed object context “\($0)”" } ?? "a managed object context")
    }

    // MARK: Tracking

    /// Call before a public operation changes an object: checks the queue and reads the object.
    @inline(__always)
    func willChange(_ object: ManagedObject) {
        checkQueue(of: object)
        object.realize()
    }

    /// As ``willChange(_:)``; refuses a fault whose values cannot be read because they are locked.
    @inline(__always)
    func requireChangeable(_ object: ManagedObject) throws {
        willChange(object)
        if !object.state.contains(.realized) { throw unreadable(object) }
    }

    /// The error of changing a fault whose values are locked: the change could neither be undone nor compared with them.
    @inline(never)
    private func unreadable(_ object: ManagedObject) -> QuireError {
        QuireError(
            .protectedDataUnavailable,
            "\(object.objectID.shortDescription) cannot be changed, because its values cannot be read while protected data is locked; unlock the data first.",
            entity: object.resolvedEntity.name, object: object.objectID.uriRepresentation,
            underlying: lastFaultError)
    }

    @inline(__always)
    var logsChanges: Bool { changeLogger?.isUndoRegistrationEnabled == true }

    /// Registers an object as changed, and as changed by the present user event. `wasLive` is its state before this change, if
    /// the change inserts or deletes it.
    @inline(__always)
    func track(_ object: ManagedObject, wasLive: Bool? = nil) {
        if !object.state.contains(.tracked) {
            if awakeningDepth > 0 { return didSetWhileAwakening(object) }
            object.state.insert(.tracked)
            tracked.append(object)
            derived?.unsaved.note(object.resolvedEntity.number)
        }
        if !object.state.contains(.inEvent) {
            let wasLive = wasLive ?? object.state.contains(.live)
            object.state.formUnion(wasLive ? [.inEvent, .wasLive] : .inEvent)
            if event.objects.isEmpty { beginEvent() }
            event.objects.append(object)
        }
    }

    /// Counts an object among the changed ones only.
    func trackSilently(_ object: ManagedObject) {
        if object.state.contains(.tracked) { return }
        if awakeningDepth > 0 { return didSetWhileAwakening(object) }
        object.state.insert(.tracked)
        tracked.append(object)
        derived?.unsaved.note(object.resolvedEntity.number)
    }

    // MARK: Awakening

    func beginAwakening() {
        awakeningDepth += 1
        changeLogger = nil
    }

    /// Returns the objects without changes in which values were set, once the outermost method has ended.
    func endAwakening() -> [ManagedObject] {
        awakeningDepth -= 1
        guard awakeningDepth == 0 else { return [] }
        changeLogger = undoManager
        defer { awakened = [] }
        return awakened
    }

    private func didSetWhileAwakening(_ object: ManagedObject) {
        object.state.insert(.tracked)
        awakened.append(object)
    }

    /// Traps if a life-cycle method changes more than values.
    @inline(__always)
    func checkMayChangeGraph() {
        precondition(
            awakeningDepth == 0,
            "awakeFromFetch() and awake(fromSnapshotEvents:) must not change relationships, or insert or delete objects."
        )
    }

    // MARK: Changes

    /// New objects.
    public var insertedObjects: [ManagedObject] {
        checkQueue()
        noteAccessOfChanges()
        return newObjects
    }
    /// ``insertedObjects`` without registering an access; for the context's own reads.
    var newObjects: [ManagedObject] { tracked.filter(\.isNew) }
    /// Saved objects with changes.
    public var updatedObjects: [ManagedObject] {
        checkQueue()
        noteAccessOfChanges()
        return tracked.filter(\.isModified)
    }
    /// Saved objects that were deleted, and faults whose rows do not exist; see ``shouldDeleteInaccessibleFaults``.
    public var deletedObjects: [ManagedObject] {
        checkQueue()
        noteAccessOfChanges()
        let deleted = tracked.filter(\.isGone)
        return hasInaccessibleFaults ? deleted + inaccessibleFaults : deleted
    }
    /// Whether a save would write anything.
    public var hasChanges: Bool {
        checkQueue()
        noteAccessOfChanges()
        return isUnsaved
    }
    /// ``hasChanges`` without registering an access; for the context's own reads.
    var isUnsaved: Bool {
        !pendingRecords.isEmpty || tracked.contains(where: \.isUnsaved)
            || !writeBehindBuffer.isEmpty
    }

    /// Inserts a new object.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `invalidValue` if the entity is abstract, or `invalidState` if the
    ///   context belongs to a closed document.
    public func insertObject(entityName: String) throws -> ManagedObject {
        try insertObject(layout.requireEntity(named: entityName))
    }

    /// Inserts a new object.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the entity is abstract, or `invalidState` if the context is that
    ///   of a document which is closed.
    package func insertObject(_ entity: ResolvedEntity) throws -> ManagedObject {
        if let saveBlock { throw saveBlock }
        let initializer = try initializerForNewObject(of: entity)
        let object = instance(initializer.objectID, entity, state: initializer.state)
        didInsert(object)
        return object
    }

    /// The initializer argument for a new object, with a temporary identifier.
    func initializerForNewObject(of entity: ResolvedEntity) throws -> ObjectInitializer {
        checkQueue()
        checkMayChangeGraph()
        guard !entity.isAbstract else {
            throw QuireError(
                .invalidValue,
                "\(entity.name) is abstract; insert an object of one of its sub-entities.",
                entity: entity.name)
        }
        return ObjectInitializer(
            objectID: newTemporaryID(of: entity), entity: entity, context: self,
            state: entity.objectClass == nil ? [.live, .realized] : [.live, .realized, .hasHooks])
    }

    func newTemporaryID(of entity: ResolvedEntity) -> ManagedObjectID {
        let serial = Self.temporarySerial.wrappingAdd(1, ordering: .relaxed).newValue
        return ManagedObjectID(
            temporaryOf: entity.number, serial: serial, model: temporaryIdentity)
    }

    /// Counts a new object among the context's.
    func didInsert(_ object: ManagedObject) {
        object.edits = ObjectEdits(defaultValuesOf: object.resolvedEntity)
        hasTemporaryIDs = true
        register(object, for: object.objectID.bits)
        if logsChanges { log(.life(object, isLive: false)) }
        track(object, wasLive: false)
        if object.state.contains(.hasHooks) { object.awakeFromInsert() }
    }

    /// Records a text under a key with the next save, in the same transaction as the objects; `nil` removes it.
    public func setRecord(_ value: String?, forKey key: String) {
        checkQueue()
        pendingRecords.updateValue(value, forKey: key)
        event.wasUndoable = false
        observation?.contextDidChange(self)
        changeHandler?()
    }

    // MARK: Forgetting

    /// Discards all changes since the last save, and the undo stack.
    ///
    /// Inserted objects leave the context; deleted ones are restored; changed ones have their saved values.
    public func rollback() {
        processPendingChanges()
        var changes = EventChanges()
        let lost = saveObservers.isEmpty || isWriteBehindParent ? nil : pendingObjectIDChanges
        let objects = tracked
        for object in objects {
            staleRows.note(object.objectID.bits)
            forgetSavedVersion(of: object.objectID.bits)
            object.announceRollback()
            switch (object.state.contains(.live), object.state.contains(.persisted)) {
            case (true, false): changes.deleted.append(object)
            case (false, true): changes.inserted.append(object)
            case (true, true) where object.isModified: changes.refreshed.append(object)
            default: break
            }
            object.state.remove(.tracked)
            if object.state.contains(.persisted) {
                object.state.insert(.live)
                object.edits?.rollBack()
                // A child's deletion may not include the values.
                if object.chunk == nil && object.edits?.own.isEmpty != false {
                    object.state.remove(.realized)
                }
            } else {
                detach(object)
            }
        }
        tracked.removeAll()
        derived?.unsaved.clear()
        pendingRecords = [:]
        childOrigin = TransactionOrigin()
        undoManager?.removeAllActions()
        event.wasUndoable = false
        if layout.hasSubclasses { for object in objects { object.didChange(by: .rollback) } }
        didEndEvent(changes)
        changeHandler?()
        if let lost {
            saveObservers.tell(
                ObjectIDChanges(
                    inserted: lost.deleted, updated: lost.updated, deleted: lost.inserted),
                except: nil)
        }
    }

    /// Discards all objects and changes. Objects that are still retained no longer belong to a context.
    public func reset() {
        processPendingChanges()
        advanceQueryGeneration()
        var objects: [ManagedObject] = []
        identityMap.forEach { objects.append($0) }
        for object in objects { detach(object) }
        staleRows.noteAll()
        source.forgetRows(of: nil)
        prefetchWindow = []
        fetchedPropertyValues = [:]
        tracked.removeAll()
        derived?.unsaved.clear()
        undoIdentifiers.removeAll()
        writeBehindBuffer.withState { $0.savedVersions.forgetAll() }
        hasTemporaryIDs = false
        pendingRecords = [:]
        childOrigin = TransactionOrigin()
        undoManager?.removeAllActions()
        if objects.isEmpty {
            notifyObservers(ContextChange(concernsAll: true))
        } else {
            didEndEvent(EventChanges(invalidated: objects, isReset: true))
        }
    }

    private func detach(_ object: ManagedObject) {
        if retainedObjects != nil { retainedObjects?.remove(object) }
        unregister(ObjectIdentifier(object), object.objectID.bits)
        if !assignedStores.isEmpty { assignedStores[object.objectID.bits] = nil }
        object.announceLifeChange()
        if object.state.contains(.observed) { observation?.forget(ObjectIdentifier(object)) }
        object.state.subtract([.live, .persisted, .tracked, .observable, .observed, .discarded])
        object.context = nil
    }

    func reportFault(_ error: any Error) {
        let error =
            error as? QuireError
            ?? QuireError(
                .storeUnavailable, "An object could not be read: \(error).", underlying: error)
        Self.report(error, in: self)
    }

    /// Logs an error, and keeps it as the last of a context, if its object has one.
    static func report(_ error: QuireError, in context: ManagedObjectContext?) {
        context?.lastFaultError = error
        logger.error("\(error.message)")
    }
}

extension EntityDescription {
    /// Inserts a new object of an entity into a context, as ``ManagedObjectContext/insertObject(entityName:)``.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `invalidValue` if the entity is abstract, or `invalidState` if the
    ///   context belongs to a closed document.
    public static func insertNewObject(
        forEntityName entityName: String, into context: ManagedObjectContext
    ) throws -> ManagedObject {
        try context.insertObject(entityName: entityName)
    }
}

@available(
    *, unavailable, message: "Use a context only on its queue; share its QueueConfinedContext."
)
extension ManagedObjectContext: Sendable {}
