internal import Dispatch
internal import Foundation
internal import Logging
internal import OrderedCollections
internal import Synchronization

/// A place to work with objects: it fetches them, tracks what changes, and saves that as a whole.
///
/// A context has one object per identifier. It is used on one queue only, and so are its objects: a main-queue
/// context on the main queue (the main actor), a private-queue context within the closures given to
/// ``ConfinedContext/perform(schedule:_:)`` and ``ConfinedContext/performAndWait(_:)``. The compiler checks what
/// it can; in debug builds, and in others if the environment has `QUIRE_CONCURRENCY_DEBUG=1`, the first use
/// on a wrong queue stops the program with a sentence.
///
/// A context saves to its parent, if it has one, else to the store. Saving a child moves its changes up and
/// touches no file; only the parent's save writes them.
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
        /// A queue of its own.
        case privateQueue
    }

    /// Whether the context only stands between its children and the stores, as a document's parent context does.
    ///
    /// It posts no notifications: an edit, and its save, are announced where the edit was made. Its children learn what it
    /// changes itself when the event ends, not when it saves, so that a save has nothing new for them.
    package var isWriteBehindParent = false
    /// What the children of a relay have saved to it, and what is known of what was saved here.
    let writeBehindBuffer: WriteBehindBuffer
    /// What a relay's child has saved by the present event, which that announces to its siblings itself.
    var savedByChild: Set<UInt64> = []
    /// Why the context takes no new objects, and no changes from its children, any more; `nil` while it does.
    package var saveBlock: QuireError?
    /// The queue the context is used on.
    public let concurrencyType: ConcurrencyType
    /// The context that this one reads from and saves to; `nil` if it does so with the store.
    public let parent: ConfinedContext?
    /// The coordinator of the store that the context, or the topmost of its parents, saves to.
    public let persistentStoreCoordinator: PersistentStoreCoordinator
    /// A name, to tell contexts apart when debugging.
    public var name: String?
    /// The model.
    public let layout: ResolvedModel
    /// Registers what takes changes back, if there is one. A new context has none. Setting one, or `nil`,
    /// leaves what the old one has registered.
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
                    hasPending: { [weak self] in self?.eventLog.isEmpty == false },
                    isAlive: { [weak self] in self != nil }))
            changeLogger = undoManager
        }
    }
    /// The undo manager again, for the check that every change makes.
    @exclusivity(unchecked) private var changeLogger: UndoManager?
    /// What a save does about objects that others have changed meanwhile; ``MergePolicy/error`` at first.
    public var mergePolicy = MergePolicy.error
    /// How old, in seconds, the values may be that a fault gets without asking the store: those which the coordinator
    /// has kept since it read them last. Negative, the usual: of any age. 0: none, so that every fault asks.
    ///
    /// See ``PersistentStoreCoordinator`` for when kept values can be out of date. Values that objects have already,
    /// and what fetches find, have nothing to do with it.
    public var stalenessInterval: Double = -1
    /// The error of the last fault that could not be read, of the last change that was refused because an object is gone, or
    /// of the last object that was made here although the context's document is closed; see ``ManagedObject``.
    public internal(set) var lastFaultError: QuireError?

    /// The error of the last fault that could not be read, which is then forgotten: what comes after it can be
    /// told apart.
    public func takeFaultError() -> QuireError? {
        checkQueue()
        defer { lastFaultError = nil }
        return lastFaultError
    }
    /// Called at the end of every user event that changed anything. For documents.
    package var changeHandler: (() -> Void)?
    /// Whether undo can take back what the user event changed that ended last.
    package private(set) var lastEventIsUndoable = false

    /// What is known about derived attributes, if the model has any.
    let derived: DerivedValueTracker?
    let source: any ObjectSource
    /// What the identifiers of stored objects share; as ``source`` has it, which is slower to ask.
    let storeIdentity: StoreIdentity
    /// What the identifiers of new objects share.
    let temporaryIdentity: StoreIdentity
    let queueMarker: QueueMarker
    /// The contexts that read from this one and save to it.
    let children = ContextChildren()
    /// Those who want to know what is saved to this context: its children.
    let saveObservers = SaveObservers()
    /// Set while the context merges what others save by itself.
    var parentSaveMerger: ParentSaveMerger?
    /// Whether children may know identifiers of objects that are new here.
    var isParent = false
    /// Whether there may be new objects with temporary identifiers.
    @exclusivity(unchecked) var hasTemporaryIDs = false
    /// Whether undo must reckon with changes that came from elsewhere since.
    var undoRequiresInverseRepair = false
    /// The objects that ``retainsRegisteredObjects`` keeps.
    @exclusivity(unchecked) var retainedObjects: Set<ManagedObject>?
    /// Whether an object whose row turns out to be gone counts as deleted. True for a new context.
    ///
    /// Such an object has no values, ``ManagedObject/isDeleted`` is true, it is among the ``deletedObjects``, and no part
    /// of any save: the next one only has the context forget it. If false, it goes on as an object without values whose changes cannot be saved. In neither case does
    /// asking it stop the program; ``ManagedObject/isInaccessible`` tells it apart.
    public var shouldDeleteInaccessibleFaults = true
    /// Whether there may be such objects.
    var hasInaccessibleFaults = false
    @exclusivity(unchecked) var identityMap = IdentityMap()
    /// Which rows in fetch results must not make objects any more.
    @exclusivity(unchecked) var staleRows = StaleRowTracker()
    /// What fetches whose results are held have read ahead; each takes itself out.
    @exclusivity(unchecked) var prefetches: ContiguousArray<Unmanaged<PrefetchedObjects>> = []
    /// The members of the to-many relationship whose objects were asked for last, which are read together.
    @exclusivity(unchecked) var prefetchWindow: OrderedSet<ManagedObjectID> = []
    /// What fetched properties have found, by the identifiers of their objects.
    @exclusivity(unchecked) var fetchedPropertyValues: [UInt64: [String: [ManagedObjectID]]] = [:]
    /// Changed objects, in the order they were first changed. Retains them.
    @exclusivity(unchecked) var tracked: ContiguousArray<ManagedObject> = []
    /// What takes back the changes of the present user event.
    @exclusivity(unchecked) private(set) var eventLog: [UndoOperation] = []
    /// How long ``eventLog`` may grow before it is looked through for steps that others make void.
    @exclusivity(unchecked) private var logLimit = ManagedObjectContext.minimumLogLimit
    private static let minimumLogLimit = 1024
    /// The objects that the present user event has changed, in the order of their first change.
    @exclusivity(unchecked) private var eventObjects: ContiguousArray<ManagedObject> = []
    private var isEndingEvent = false
    /// Whether a block that ends the user event is on its way to the queue.
    private var eventEndIsScheduled = false
    /// Whether observers are being told that a save begins.
    var isAnnouncingSave = false
    /// Those who keep in step with the objects.
    var followers = ContextObservers()
    /// What becomes of the sequences of changes.
    let changeBroadcast = Broadcast<ObjectIDChanges>()
    /// What becomes of the sequences of saves.
    let saveBroadcast = Broadcast<ObjectIDChanges>()
    /// What Swift's Observation knows of the objects, from when ``isObservable`` was first true.
    var observation: ContextObservation?
    /// What every object of the context has in its state: whether reading it checks the queue, and whether it is
    /// noted for Swift's Observation.
    @exclusivity(unchecked) var stateOfObjects: ManagedObject.State =
        QueueMarker.isChecking ? [] : .unguarded
    /// How many methods of the life cycle run that must not change anything.
    @exclusivity(unchecked) private var awakeningDepth = 0
    /// Objects without changes in which such a method has set something.
    private var awakened: [ManagedObject] = []
    /// Objects that the present user event has deleted before they were ever saved.
    var deletedUnsaved: [ManagedObject] = []
    /// The objects that the running deletion has told of it.
    var preparedForDeletion: Set<ObjectIdentifier> = []
    /// The permanent identifiers of objects that a log may know by temporary ones.
    var undoIdentifiers = UndoIdentifiers()
    /// Tells this context from others that save to the same parent.
    let number = ManagedObjectContext.lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
    /// Whether the present user event is logged for undo.
    private var eventIsLogged = false
    var hasUnfinishedLog: Bool { !eventLog.isEmpty }
    /// The stores that new objects were assigned to, by their temporary identifiers.
    var assignedStores: [UInt64: StoreIdentity] = [:]
    /// What the next save records beside the objects.
    var pendingRecords: [String: String?] = [:]
    private static let temporarySerial = Atomic<UInt64>(0)
    private static let lastNumber = Atomic<UInt32>(0)
    private static let logger = Logger(label: "quire.context")

    init(
        concurrencyType: ConcurrencyType, source: any ObjectSource, parent: ConfinedContext?,
        coordinator: PersistentStoreCoordinator, queueMarker: QueueMarker
    ) {
        persistentStoreCoordinator = coordinator
        self.concurrencyType = concurrencyType
        self.source = source
        layout = source.layout
        storeIdentity = source.storeIdentity
        temporaryIdentity = source.temporaryIdentity
        self.parent = parent
        self.queueMarker = queueMarker
        derived = DerivedValueTracker(layout: source.layout, parent: parent)
        writeBehindBuffer = WriteBehindBuffer(
            coordinator: coordinator, dirtyDerivationSources: derived?.unsaved)
        parent?.children.add(self)
    }

    /// Makes a context for the main queue that saves to the store.
    @MainActor
    public static func mainQueue(coordinator: PersistentStoreCoordinator) -> ManagedObjectContext {
        ManagedObjectContext(
            concurrencyType: .mainQueue, source: coordinator, parent: nil,
            coordinator: coordinator, queueMarker: .main)
    }

    /// Makes a context for the main queue that reads from another context, its unsaved changes included, and
    /// saves to it. If that is on a private queue, it writes off the main queue.
    ///
    /// A child that goes unsaved leaves no trace in its parent.
    @MainActor
    public static func mainQueue(parent: ConfinedContext) -> ManagedObjectContext {
        ManagedObjectContext(
            concurrencyType: .mainQueue, source: parent, parent: parent,
            coordinator: parent.coordinator, queueMarker: .main)
    }

    /// Makes a context for the main queue that reads from another such context and saves to it: a scratch pad.
    @MainActor
    public static func mainQueue(parent: ManagedObjectContext) -> ManagedObjectContext {
        mainQueue(parent: MainQueueContext(parent))
    }

    deinit {
        identityMap.forEach { $0.context = nil }
        parent?.children.remove(number)
    }

    // MARK: Queue

    @inline(__always)
    func checkQueue() {
        if QueueMarker.isChecking { queueMarker.check() }
    }

    // MARK: Tracking

    /// Call before a public operation changes an object: checks the queue and reads the object.
    @inline(__always)
    func willChange(_ object: ManagedObject) {
        checkQueue()
        object.realize()
    }

    @inline(__always)
    var logsChanges: Bool { changeLogger?.isUndoRegistrationEnabled == true }

    func log(_ operation: UndoOperation) {
        eventLog.append(operation)
        if eventLog.count >= logLimit { compactLog() }
    }

    /// Has a long event cost no more memory than what it changes, however often.
    @inline(never)
    private func compactLog() {
        if eventLog.count > 8 * eventObjects.count { eventLog.dropOverwritten() }
        logLimit = max(Self.minimumLogLimit, 2 * eventLog.count)
    }

    /// Counts an object among the changed ones, and among those that the user event has changed. `wasLive`
    /// tells whether it was live before this change, if the change is about that.
    @inline(__always)
    func track(_ object: ManagedObject, wasLive: Bool? = nil) {
        if !object.state.contains(.tracked) {
            if awakeningDepth > 0 { return didSetWhileAwakening(object) }
            object.state.insert(.tracked)
            tracked.append(object)
            derived?.unsaved.note(object.entity.number)
        }
        if !object.state.contains(.inEvent) {
            let wasLive = wasLive ?? object.state.contains(.live)
            object.state.formUnion(wasLive ? [.inEvent, .wasLive] : .inEvent)
            if eventObjects.isEmpty { beginEvent() }
            eventObjects.append(object)
        }
    }

    /// Counts an object among the changed ones only.
    func trackSilently(_ object: ManagedObject) {
        if object.state.contains(.tracked) { return }
        if awakeningDepth > 0 { return didSetWhileAwakening(object) }
        object.state.insert(.tracked)
        tracked.append(object)
        derived?.unsaved.note(object.entity.number)
    }

    // MARK: Awakening

    func beginAwakening() {
        awakeningDepth += 1
        changeLogger = nil
    }

    /// Gives the objects without changes that were set something, once the outermost method has ended.
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

    /// Stops the program if a method of the life cycle changes more than values.
    @inline(__always)
    func checkMayChangeGraph() {
        precondition(
            awakeningDepth == 0,
            "awakeFromFetch() and awake(fromSnapshotEvents:) must not change relationships, nor insert or delete objects."
        )
    }

    private func beginEvent() {
        eventIsLogged = logsChanges
        // A block on a private queue ends the event itself, unless that is what it is doing.
        guard concurrencyType == .mainQueue || isEndingEvent, !eventEndIsScheduled else { return }
        eventEndIsScheduled = true
        let reference = WeakContext(context: self)
        queueMarker.queue.async { reference.context?.endScheduledEvent() }
    }

    private func endScheduledEvent() {
        eventEndIsScheduled = false
        processPendingChanges()
    }

    /// Sends a context to its own queue.
    private struct WeakContext: @unchecked Sendable {
        // Only dereferenced on the context's queue.
        weak var context: ManagedObjectContext?
    }

    /// Ends the user event: what changed becomes one step of undo.
    ///
    /// Happens by itself at the next turn of the main queue, or when a `perform` block ends, and before a save,
    /// an undo and a redo.
    public func processPendingChanges() {
        checkQueue()
        registerPendingChanges()
        undoManager?.closeEventGroup()
        endEvent()
    }

    private func endEvent() {
        guard !eventObjects.isEmpty, !isEndingEvent else { return }
        isEndingEvent = true
        defer { isEndingEvent = false }
        lastEventIsUndoable = eventIsLogged
        let changes = takeEventChanges()
        announceDerivedValues(after: changes)
        didEndEvent(changes)
        changeHandler?()
    }

    /// What the user event did to objects; afterwards the next one begins.
    func takeEventChanges() -> EventChanges {
        var changes = EventChanges()
        for object in eventObjects {
            switch (object.state.contains(.wasLive), object.state.contains(.live)) {
            case (true, true): changes.updated.append(object)
            case (false, true): changes.inserted.append(object)
            case (true, false): changes.deleted.append(object)
            case (false, false): break
            }
            object.state.subtract([.inEvent, .wasLive])
            if object.state.contains(.observed) && !object.isUnsaved {
                object.announceStateChange()
            }
        }
        eventObjects.removeAll()
        return changes
    }

    /// Registers what a round of `willSave()` changed, as one step of undo with other rounds, and gives the objects.
    func endSavingRound(_ hasChanged: inout Bool) -> [ManagedObject] {
        registerPendingChanges()
        guard !eventObjects.isEmpty else { return [] }
        hasChanged = true
        lastEventIsUndoable = eventIsLogged
        let objects = Array(eventObjects)
        let changes = takeEventChanges()
        if !isEndingEvent {
            isEndingEvent = true
            defer { isEndingEvent = false }
            didEndEvent(changes)
        }
        return objects
    }

    private func registerPendingChanges() {
        dropReferencesToDeletedUnsaved()
        guard !eventLog.isEmpty else { return }
        let log = UndoLog(eventLog, number: undoIdentifiers.addLog(), context: self)
        eventLog = []
        logLimit = Self.minimumLogLimit
        undoManager?.registerUndo(withTarget: self) { $0.restore(log.operations) }
    }

    /// Takes back the last user event, if there is an undo manager and anything to undo.
    public func undo() {
        checkQueue()
        undoManager?.undo()
    }

    /// Does again what was undone last, if there is anything.
    public func redo() {
        checkQueue()
        undoManager?.redo()
    }

    // MARK: Changes

    /// New objects.
    public var insertedObjects: [ManagedObject] {
        checkQueue()
        noteAccessOfChanges()
        return newObjects
    }
    /// As ``insertedObjects``, without being noted for Observation; for what the context does itself.
    var newObjects: [ManagedObject] { tracked.filter(\.isNew) }
    /// Saved objects with changes.
    public var updatedObjects: [ManagedObject] {
        checkQueue()
        noteAccessOfChanges()
        return tracked.filter(\.isModified)
    }
    /// Saved objects that were deleted, and faults whose rows turned out to be gone; see
    /// ``shouldDeleteInaccessibleFaults``.
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
    /// As ``hasChanges``, without being noted for Observation; for what the context does itself.
    var isUnsaved: Bool {
        !pendingRecords.isEmpty || tracked.contains(where: \.isUnsaved)
            || !writeBehindBuffer.isEmpty
    }

    /// Makes a new object.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `invalidValue` if the entity is abstract, or `invalidState` if the
    ///   context is that of a document which is closed.
    public func insertObject(entityName: String) throws -> ManagedObject {
        try insertObject(layout.requireEntity(named: entityName))
    }

    /// Makes a new object.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the entity is abstract, or `invalidState` if the context is that
    ///   of a document which is closed.
    public func insertObject(_ entity: ResolvedEntity) throws -> ManagedObject {
        if let saveBlock { throw saveBlock }
        let place = try placeForNewObject(of: entity)
        let object = instance(place.objectID, entity, state: place.state)
        didInsert(object)
        return object
    }

    /// A place for a new object, with a temporary identifier.
    func placeForNewObject(of entity: ResolvedEntity) throws -> ObjectPlace {
        checkQueue()
        checkMayChangeGraph()
        guard !entity.isAbstract else {
            throw QuireError(
                .invalidValue,
                "\(entity.name) is abstract; insert an object of one of its sub-entities.",
                subject: .init(entity: entity.name))
        }
        return ObjectPlace(
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
        object.edits = ObjectEdits(defaultValuesOf: object.entity)
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
        lastEventIsUndoable = false
        observation?.contextDidChange(self)
        changeHandler?()
    }

    /// Whether the present user event has made changes that the undo manager does not have yet, or that it is not to have.
    package var hasUnregisteredChanges: Bool {
        checkQueue()
        return !eventLog.isEmpty || !pendingRecords.isEmpty
            || !eventIsLogged && eventObjects.contains(where: \.isUnsaved)
    }

    // MARK: Forgetting

    /// Takes back all changes since the last save. What could be undone is forgotten.
    ///
    /// New objects leave the context; deleted ones are back; changed ones have their saved values.
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
                // A child's deletion may have come without the values.
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
        undoManager?.removeAllActions()
        lastEventIsUndoable = false
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

    /// Forgets all objects and changes. Objects still held belong to no context afterwards.
    public func reset() {
        processPendingChanges()
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
        undoManager?.removeAllActions()
        if objects.isEmpty {
            notifyObservers(ContextChange(concernsAll: true))
        } else {
            didEndEvent(EventChanges(invalidated: objects, isReset: true))
        }
    }

    private func detach(_ object: ManagedObject) {
        if retainedObjects != nil { retainedObjects?.remove(object) }
        identityMap.remove(object.objectID.bits, object)
        object.announceLifeChange()
        if object.state.contains(.observed) { observation?.forget(object) }
        object.state.subtract([.live, .tracked, .observable, .observed, .discarded])
        object.context = nil
    }

    /// Takes an object that is being freed out of the identity map. The queue is always checked: two threads in the
    /// identity map would damage it.
    @inline(__always)
    func forget(_ object: ManagedObject) {
        if object.state.contains(.unguarded) { queueMarker.checkCheaply() } else { checkQueue() }
        identityMap.remove(object.objectID.bits, object)
        if !fetchedPropertyValues.isEmpty {
            fetchedPropertyValues[object.objectID.bits] = nil
            fetchedPropertyValues.giveBackMemory()
        }
        if object.state.contains(.observed) { observation?.forget(object) }
    }

    func reportFault(_ error: any Error) {
        let error =
            error as? QuireError
            ?? QuireError(
                .storeUnavailable, "An object could not be read: \(error).", underlying: error)
        lastFaultError = error
        Self.logger.error("\(error.message)")
    }
}

@available(*, unavailable, message: "A context is used on its queue; share its ConfinedContext.")
extension ManagedObjectContext: Sendable {}
