internal import QuireStore
internal import Synchronization

/// An object of a context: its values by key and its relationships.
///
/// ```swift
/// let book = try context.insertObject(entityName: "Book")
/// book["title"] = "Emma"
/// book["author"] = austen        // austen.objects("books") now has it too
/// print(book["title", as: String.self] ?? "untitled")
/// ```
///
/// An object belongs to one context and is used on that context's queue only; pass its ``objectID`` to other queues. An object
/// read from a store may be a fault: it reads its values at the first access. If its row no longer exists, or cannot be read,
/// every value is missing, ``isInaccessible`` is true, and the context's ``ManagedObjectContext/lastFaultError`` has the
/// reason; ``ManagedObjectContext/existingObject(with:)`` throws instead. While protected data are locked such an object stays
/// a fault, and reads its values after they were unlocked.
///
/// A key that names no property, or a value of the wrong type, is a programmer error and traps; ``value(forKey:)`` and
/// ``setValue(_:forKey:)`` throw instead, for keys from external input.
///
/// An entity's objects are of the class its description names (``EntityDescription/objectClass``), a subclass of this one. A
/// subclass may have stored properties with initial values, override life-cycle methods such as ``awakeFromInsert()``, and
/// create objects by `init(context:)`.
open class ManagedObject: EntityClass {
    struct State: OptionSet {
        let rawValue: UInt16
        /// The parent or the store has the object.
        static let persisted = State(rawValue: 1)
        /// The object has not been deleted.
        static let live = State(rawValue: 2)
        /// The object is in the context's list of changed objects.
        static let tracked = State(rawValue: 4)
        /// The values have been read: not a fault.
        static let realized = State(rawValue: 8)
        /// Its row could not be read.
        static let inaccessible = State(rawValue: 16)
        /// It was saved in this context, so its row may be older than what the parent has.
        static let savedHere = State(rawValue: 32)
        /// The object is of a subclass, which may override life-cycle methods.
        static let hasHooks = State(rawValue: 64)
        /// The present user event has changed it.
        static let inEvent = State(rawValue: 128)
        /// It was live when the present user event first changed it.
        static let wasLive = State(rawValue: 256)
        /// The deletion is saved, or was merged: the context keeps the object for undo only, and no lookup finds it.
        static let discarded = State(rawValue: 512)
        /// The changes last collected for a save write its row, as in ``ObjectChange/writesRow``.
        static let rowChanges = State(rawValue: 1 << 10)
        /// The object has derived attributes.
        static let derives = State(rawValue: 1 << 12)
        /// A property has been observed; the context's ``ContextObservation`` has its registrar.
        static let observed = State(rawValue: 1 << 13)
        /// Reading its properties is noted for Swift's Observation.
        static let observable = State(rawValue: 1 << 14)
        /// Reading it does not check the queue. All objects have it, or none; see ``QueueMarker/isChecking``.
        static let unguarded = State(rawValue: 1 << 15)
    }

    // Exclusivity is not checked at run time in an object and its edits: they are used on one queue, and no
    // access to a property spans a call that could come back to it.

    /// The object's identifier: temporary until it is saved.
    @exclusivity(unchecked) public final internal(set) var objectID: ManagedObjectID
    /// The object's entity, with inheritance resolved.
    @usableFromInline package final let resolvedEntity: ResolvedEntity
    /// The description of the object's entity.
    public final var entity: EntityDescription { resolvedEntity.description }
    /// Not retained: the context clears it in its deinit, and outlives every other use of the object but its end, for which see
    /// ``leaveContext()``.
    final let contextReference: Atomic<Unmanaged<ManagedObjectContext>?>
    @inline(__always)
    final var context: ManagedObjectContext? {
        get { contextReference.load(ordering: .relaxed)?.takeUnretainedValue() }
        set { contextReference.store(newValue.map(Unmanaged.passUnretained), ordering: .relaxed) }
    }
    /// The row of the values that `edits` lacks.
    @exclusivity(unchecked) final var chunk: RowChunk?
    @exclusivity(unchecked) final var rowOffset: UInt32 = 0
    /// The version of the row; the optimistic lock.
    @exclusivity(unchecked) final var version: UInt32 = 0
    @exclusivity(unchecked) final var state: State
    @exclusivity(unchecked) final var edits: ObjectEdits?

    /// Instantiates an object. Called by contexts; a subclass with its own designated initializers passes the argument on.
    public required init(_ initializer: ObjectInitializer) {
        // First: set after the others, it makes the compiler retain what the initializer refers to, which costs 200 instructions.
        contextReference = Atomic(initializer.context.map(Unmanaged.passUnretained))
        objectID = initializer.objectID
        resolvedEntity = initializer.entity
        state = initializer.state.union(initializer.context?.stateOfObjects ?? .unguarded)
        if resolvedEntity.hasDerivedSlots { state.insert(.derives) }
    }

    /// Inserts a new object of the class's entity.
    ///
    /// Traps if the context's model has no such entity, or it is abstract. In the context of a closed document the object is
    /// inserted, but saving it throws, and ``ManagedObjectContext/lastFaultError`` is set at once.
    public convenience init(
        context: ManagedObjectContext, file: StaticString = #fileID, line: UInt = #line
    ) {
        guard let entity = context.layout.entity(of: Self.self) else {
            fatalError(
                "The model does not have exactly one entity whose class is \(Self.self); use init(entity:insertInto:).",
                file: file, line: line)
        }
        do {
            self.init(try context.initializerForNewObject(of: entity))
        } catch {
            fatalError("\(error)", file: file, line: line)
        }
        // Others may close a document at any time.
        if let saveBlock = context.saveBlock { context.reportFault(saveBlock) }
        context.didInsert(self)
    }

    /// Inserts a new object of an entity, for classes that several entities have.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity` if the context's model has no entity of that name, `invalidValue` if it
    ///   is abstract or its objects are of another class, or `invalidState` if the context belongs to a closed
    ///   document.
    public convenience init(
        entity: EntityDescription, insertInto context: ManagedObjectContext
    ) throws {
        let resolved = try context.layout.requireEntity(named: entity.name)
        let objectClass = resolved.objectClass ?? ManagedObject.plainClass
        guard objectClass == Self.self else {
            throw QuireError(
                .invalidValue,
                "Objects of \(entity.name) are of the class \(objectClass), not \(Self.self); create them with that class.",
                entity: entity.name)
        }
        if let saveBlock = context.saveBlock { throw saveBlock }
        self.init(try context.initializerForNewObject(of: resolved))
        context.didInsert(self)
    }

    deinit { leaveContext() }

    /// The class's declaration of its entity; `nil` here. The macro `@Entity` overrides it.
    open class var entityDeclaration: EntityDeclaration? { nil }
    /// `ManagedObject` itself.
    public static var plainClass: any EntityClass.Type { ManagedObject.self }

    // MARK: Life cycle

    // Overridden in subclasses; the context does not call them for objects of this very class.

    /// Called once in the life of an object: after its insertion, with its default values. Not called when redo reinserts it,
    /// nor in the contexts that a child saves it to, where ``awakeFromFetch()`` is called.
    ///
    /// Values set here are undone with the insertion. Core Data calls it in every context on the way to the store, so an object
    /// that inserts related ones here inserts them twice.
    open func awakeFromInsert() {}

    /// Called after the object's values were read from the store, a parent or a child, to compute values from them.
    ///
    /// It may set attributes, which makes neither the object nor the context dirty, and cannot be undone. It must not change
    /// relationships, nor insert or delete objects, which traps.
    open func awakeFromFetch() {}

    /// Called after undo, redo, a rollback, a refresh or a merge has replaced the object's values, to compute values from them.
    /// The rules of ``awakeFromFetch()`` apply.
    open func awake(fromSnapshotEvents events: SnapshotEvents) {}

    /// Called before an inserted, updated or deleted object is validated and saved.
    ///
    /// Its changes become part of the save, and it is called again for them, so it must set only values that differ: after
    /// 1,000 rounds the save fails with ``QuireError`` code `invalidState`. ``setPrimitiveValue(_:forKey:)`` does not cause
    /// another call.
    open func willSave() {}

    /// Called after the object was saved. ``isDeleted`` is false then, also for a deleted object.
    open func didSave() {}

    /// Called before the object is deleted, also by a cascade, while its relationships are unchanged.
    open func prepareForDeletion() {}

    /// Called before the object becomes a fault, while it has its values.
    open func willTurnIntoFault() {}

    /// Called after the object has become a fault. It must not read a value, which would fire the fault.
    open func didTurnIntoFault() {}

    // MARK: Validation

    /// Validates a value for a key, and may replace it. The method of this class validates it against the model, and normalizes
    /// it to the attribute's stored form.
    ///
    /// A save calls it for every attribute and to-one relationship of a new object, and every changed one of other objects; an
    /// element of a composite has a dotted key. An error thrown by an override becomes a failure that names the object and the
    /// property; any other error than a ``QuireError`` becomes its ``QuireError/underlying`` error.
    ///
    /// ```swift
    /// override func validateValue(_ value: inout AttributeValue, forKey key: String) throws {
    ///     try super.validateValue(&value, forKey: key)
    ///     if key == "isbn", case .string(let text) = value, !isISBN(text) { throw ISBNError(text) }
    /// }
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `validation`, or `invalidValue` if the value is of the wrong type.
    open func validateValue(_ value: inout AttributeValue, forKey key: String) throws {
        try validateByModel(&value, forKey: key)
    }

    /// Validates a new object before it is saved: all its values and relationships. An override calls this method, and checks
    /// rules about several properties.
    ///
    /// - Throws: ``QuireError`` with code `validation` and all failures in ``QuireError/failures``.
    open func validateForInsert() throws { try throwIfAny(validationFailures(all: true)) }

    /// Checks a changed object before it is saved: its changed values and relationships.
    ///
    /// - Throws: As ``validateForInsert()``.
    open func validateForUpdate() throws { try throwIfAny(validationFailures(all: false)) }

    /// Validates a deletion: relationships with the delete rule deny must have no destinations.
    ///
    /// - Throws: ``QuireError`` with code `deleteDenied`, with a ``DeletionDenial`` that lists the blocking objects.
    open func validateForDelete() throws {
        try throwIfAny(requireContext().denials(of: self))
    }

    /// The context the object belongs to; `nil` after its deletion was saved, a reset, a rollback of its insertion, or
    /// the context's end.
    public final var managedObjectContext: ManagedObjectContext? {
        state.contains(.discarded) ? nil : context
    }

    /// Whether the object is new and not saved yet.
    public final var isInserted: Bool {
        noteAccess(.state)
        return isNew
    }
    /// Whether the object's deletion is unsaved, or its row does not exist; see
    /// ``ManagedObjectContext/shouldDeleteInaccessibleFaults``.
    public final var isDeleted: Bool {
        noteAccess(.state)
        // A new object that was deleted is tracked until the save, which forgets it.
        return isGone && !hasLeftContext
            || (state.contains(.tracked)
                && state.isDisjoint(with: [.live, .persisted, .discarded]))
    }
    /// Whether the object has been saved before and has changes that are not.
    public final var isUpdated: Bool {
        noteAccess(.state)
        return isModified
    }
    /// Whether the object is inserted, updated or deleted.
    public final var hasChanges: Bool {
        noteAccess(.state)
        return isUnsaved
    }
    /// As ``isInserted``, without being noted for Observation; for loops over many objects.
    final var isNew: Bool { state.contains(.live) && !state.contains(.persisted) }
    /// Whether the object's deletion is saved, or a rollback or reset has taken it out of its context.
    @inline(__always)
    final var hasLeftContext: Bool {
        if state.intersection([.live, .discarded]) == .live { return false }
        return state.contains(.discarded) || (!state.contains(.persisted) && context == nil)
    }
    /// As ``isDeleted``.
    final var isGone: Bool {
        state.isDisjoint(with: [.live, .discarded])
            && !state.isDisjoint(with: [.persisted, .inaccessible])
    }
    /// As ``isUpdated``.
    final var isModified: Bool {
        state.isSuperset(of: [.live, .persisted]) && edits?.hasChanges == true
    }
    /// As ``hasChanges``.
    final var isUnsaved: Bool {
        state.contains(.live)
            ? !state.contains(.persisted) || edits?.hasChanges == true : state.contains(.persisted)
    }
    /// Whether the object's values have not been read yet.
    public final var isFault: Bool {
        willRead()
        return !state.contains(.realized)
    }
    /// Whether the object's row does not exist or could not be read.
    public final var isInaccessible: Bool {
        willRead()
        return state.contains(.inaccessible)
    }
}

@available(
    *, unavailable, message: "Use a ManagedObject only on its context's queue; pass its objectID."
)
extension ManagedObject: Sendable {}

extension ManagedObject: Hashable {
    /// Whether both are the same object. A context has one object per identifier.
    public static func == (left: ManagedObject, right: ManagedObject) -> Bool { left === right }

    /// Feeds the object's identity into a hasher.
    public final func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension ManagedObject: CustomStringConvertible {
    /// The entity, the identifier and the state.
    public var description: String {
        let change =
            isNew ? ", inserted" : isGone ? ", deleted" : isModified ? ", updated" : ""
        return
            "<\(resolvedEntity.name) \(objectID.shortDescription)\(isFault ? ", fault" : "")\(change)>"
    }
}

// MARK: - Faults

extension ManagedObject {
    /// Fulfills a fault with a row.
    @inline(__always)
    final func adopt(_ snapshot: ObjectSnapshot) {
        guard !state.contains(.realized), snapshot.entity === resolvedEntity else { return }
        chunk = snapshot.chunk
        rowOffset = UInt32(truncatingIfNeeded: snapshot.offset)
        version = snapshot.version
        state.insert(.realized)
        state.remove(.inaccessible)
        if state.contains(.hasHooks) { didArrive() }
    }

    /// Call before a public operation reads the object: checks the queue, if queues are checked.
    @inline(__always)
    final func willRead() {
        if !state.contains(.unguarded) { checkUse() }
    }

    @inline(never)
    private final func checkUse() { context?.checkQueue(of: self) }

    /// Fires the fault, if the object is one.
    @inline(__always)
    final func realize() {
        if !state.contains(.realized) { fire() }
    }

    private final func fire() {
        guard let context, !state.contains(.discarded) else {
            state.formUnion([.realized, .inaccessible])
            return
        }
        context.checkQueue(of: self)
        // The replacement of a deleted object is not known to exist.
        let isKnown = state.contains(.persisted)
        do {
            if let snapshot = try context.rowForFault(of: self), snapshot.entity === resolvedEntity
            {
                state.formUnion(isKnown ? [] : [.live, .persisted])
                adopt(snapshot)
                return
            }
            context.reportFault(
                QuireError(
                    .notFound,
                    "The object \(objectID.shortDescription) no longer exists in the store.",
                    entity: resolvedEntity.name, object: objectID.uriRepresentation)
            )
            if context.shouldDeleteInaccessibleFaults || objectID.isTemporaryID {
                announceStateChange()
                state.subtract([.live, .persisted])
                context.hasInaccessibleFaults = true
            } else {
                state.formUnion([.live, .persisted])
            }
        } catch {
            context.reportFault(error)
            if (error as? QuireError)?.code == .protectedDataUnavailable {
                // Stays a fault, which can be fulfilled after the protected data have been unlocked.
                state.insert(.inaccessible)
                return
            }
        }
        state.formUnion([.realized, .inaccessible])
    }

    /// Becomes a fault again. Only without changes.
    final func turnIntoFault() {
        announceRefresh(to: nil)
        let tells = state.isSuperset(of: [.hasHooks, .realized])
        if tells { willTurnIntoFault() }
        context?.forgetRows(of: self)
        chunk = nil
        edits = nil
        state.subtract([.realized, .inaccessible, .savedHere, .discarded])
        if tells { didTurnIntoFault() }
    }

    /// The object's row, if it has one.
    final var snapshot: ObjectSnapshot? {
        guard let chunk else { return nil }
        return ObjectSnapshot(
            chunk: chunk, offset: Int(rowOffset), entity: resolvedEntity, store: rowIdentity)
    }

    /// The store identity of the identifiers in the object's row.
    final var rowIdentity: StoreIdentity { context?.storeIdentity ?? objectID.store }
}

// MARK: - In predicates

extension ManagedObject: QueryArgument {
    /// The object as a constant, as in `author == %@`: its ``objectID`` at this time.
    public final var queryExpression: QueryExpression { .constant(.objectID(objectID)) }
}

extension ManagedObject: QuerySubject {
    /// The model of the object's context.
    package final var queryLayout: ResolvedModel { requireContext().layout }

    /// The value of a property, for predicates evaluated in memory.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, or the store's read errors.
    package func queryValue(forKey key: String) throws -> QueryValue {
        let index: Int
        switch try resolvedEntity.requireProperty(key) {
        case .relationship(let found): index = found
        // Of a value in a file only its presence matters.
        case .attribute(let slot): return .value(try readNotedValue(at: slot))
        default: return .value(try attributeValue(forKey: key))
        }
        let relationship = resolvedEntity.relationships[index]
        let context = requireContext()
        guard let slot = relationship.slot else {
            return .objects(objects(through: relationship))
        }
        return objectID(at: slot).map { .object(context.object(with: $0)) } ?? .value(.null)
    }
}

extension QueryPredicate {
    /// Whether an object satisfies the condition, as a fetch of its entity would.
    ///
    /// Unlike a fetch it may read transient attributes.
    ///
    /// - Complexity: The predicate is resolved once per entity, unless it depends on the time.
    /// - Throws: As a fetch: ``QuireError`` with code `invalidQuery` if the predicate is not valid for the object,
    ///   `unknownKey` if a property is missing, `unsupported`; `notFound` if the object's context no longer exists; or an error
    ///   reading the store.
    public func evaluate(with object: ManagedObject) throws -> Bool {
        try isSatisfied(by: object)
    }
}

extension Array where Element: ManagedObject {
    /// The objects sorted by orderings, then by primary key, new objects last.
    ///
    /// - Throws: As a fetch: ``QuireError`` with code `invalidQuery` if a key path traverses a to-many relationship,
    ///   `unknownKey` or `unsupported`; `notFound` if an object's context no longer exists; or an error reading the store.
    public func sorted(by orderings: [SortOrdering]) throws -> [Element] {
        try orderings.sorted(self)
    }
}

extension ManagedObject: ContextBoundSubject {
    package final var boundStoreUUID: String? {
        objectID.storeUUID ?? context?.storeForNewObject(self)?.uuid
    }

    package final func requireStoreIdentity() throws -> StoreIdentity {
        if let context { return context.storeIdentity }
        throw QuireError(
            .notFound,
            "\(objectID.shortDescription) no longer belongs to a context; a query cannot evaluate it.",
            entity: resolvedEntity.name, object: objectID.uriRepresentation)
    }
}

// MARK: - Making objects

/// The arguments of an instantiation: an identifier, an entity and a context. Only contexts create them; passed to
/// ``ManagedObject/init(_:)``.
public struct ObjectInitializer {
    let objectID: ManagedObjectID
    let entity: ResolvedEntity
    /// `nil` only for the probe of a key path; see ``PropertyProbe``.
    let context: ManagedObjectContext?
    let state: ManagedObject.State
}
