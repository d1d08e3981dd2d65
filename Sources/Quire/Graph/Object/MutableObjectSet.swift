internal import OrderedCollections

/// The objects in a to-many relationship, as a view that changes it; see ``ManagedObject/mutableSetValue(forKey:)``.
///
/// ```swift
/// let books = try author.mutableSetValue(forKey: "books")
/// books.add(emma)                          // emma["author"] is author now.
/// print(books.count, books.contains(emma))
/// for book in books { print(book["title"] ?? "") }
/// ```
///
/// It does not copy the contents: reads return the current members of the relationship, and an iteration visits the members
/// at its beginning. Changes set the inverse and can be undone. An object of another entity or context is a
/// programmer error and traps; an object that was deleted, or whose row does not exist, is not added, and reported as the
/// context's ``ManagedObjectContext/lastFaultError``. Use it on the context's queue.
public struct MutableObjectSet: Sequence {
    private let owner: ManagedObject
    private let relationship: ResolvedEntity.Relationship

    init(_ owner: ManagedObject, _ relationship: ResolvedEntity.Relationship) {
        self.owner = owner
        self.relationship = relationship
    }

    /// The number of objects.
    ///
    /// - Complexity: O(1), and one fetch if the relationship is a fault.
    public var count: Int { owner.notedMembers(of: relationship).count }

    /// Whether the relationship is empty.
    public var isEmpty: Bool { count == 0 }

    /// The objects, by primary key with those added since last.
    ///
    /// - Complexity: O(*n*), and one fetch if the relationship is a fault.
    public var allObjects: [ManagedObject] { owner.objects(through: relationship) }

    /// Iterates over ``allObjects``.
    public func makeIterator() -> IndexingIterator<[ManagedObject]> { allObjects.makeIterator() }

    /// Whether an object is a member.
    public func contains(_ object: ManagedObject) -> Bool {
        object.context === owner.context
            && owner.notedMembers(of: relationship).contains(object.objectID)
    }

    /// Adds an object, and sets the inverse.
    public func add(_ object: ManagedObject) {
        owner.trapping { try owner.add(object, through: relationship) }
    }

    /// Removes an object, if it is a member, and clears the inverse.
    public func remove(_ object: ManagedObject) {
        owner.trapping { try owner.remove(object, through: relationship) }
    }

    /// Removes all objects, and clears their inverses.
    public func removeAllObjects() {
        owner.trapping { try owner.setObjects([], through: relationship) }
    }
}

/// The objects in an ordered to-many relationship, as a view that changes it; see
/// ``ManagedObject/mutableOrderedSetValue(forKey:)``.
///
/// ```swift
/// let chapters = try book.mutableOrderedSetValue(forKey: "chapters")
/// chapters.insert(preface, at: 0)
/// chapters.moveObject(at: 3, to: 1)
/// print(chapters[0]["title"] ?? "")
/// ```
///
/// It does not copy the contents: reads return the current members of the relationship. Changes set the inverse and can be
/// undone. An object of another entity or context, or a position out of bounds, is a programmer error and traps; an object
/// that was deleted, or whose row does not exist, is not added, and reported as the context's
/// ``ManagedObjectContext/lastFaultError``. Use it on the context's queue.
///
/// - Complexity: Reading a position is O(1), and one fetch if the relationship is a fault; changes are O(*n*).
public struct MutableOrderedObjectSet: RandomAccessCollection {
    private let owner: ManagedObject
    private let relationship: ResolvedEntity.Relationship

    init(_ owner: ManagedObject, _ relationship: ResolvedEntity.Relationship) {
        self.owner = owner
        self.relationship = relationship
    }

    private var members: OrderedSet<ManagedObjectID> { owner.notedMembers(of: relationship) }

    /// The first position, 0.
    public var startIndex: Int { 0 }

    /// The position after the last, the number of objects.
    public var endIndex: Int { members.count }

    /// The object at a position. Setting it replaces that object; a member moves there.
    public subscript(index: Int) -> ManagedObject {
        get { owner.requireContext().object(with: members[index]) }
        nonmutating set {
            owner.trapping {
                try owner.replaceObject(through: relationship, at: index, with: newValue)
            }
        }
    }

    /// Iterates over the objects that are there now.
    public func makeIterator() -> IndexingIterator<[ManagedObject]> {
        owner.objects(through: relationship).makeIterator()
    }

    /// Whether an object is a member.
    public func contains(_ object: ManagedObject) -> Bool { firstIndex(of: object) != nil }

    /// The position of an object; `nil` if it is not a member.
    public func firstIndex(of object: ManagedObject) -> Int? {
        object.context === owner.context ? members.firstIndex(of: object.objectID) : nil
    }

    /// Adds an object at the end, and sets the inverse. A member stays where it is.
    public func add(_ object: ManagedObject) {
        owner.trapping { try owner.add(object, through: relationship) }
    }

    /// Inserts an object at a position, and sets the inverse. A member moves.
    public func insert(_ object: ManagedObject, at index: Int) {
        owner.trapping { try owner.add(object, through: relationship, at: index) }
    }

    /// Removes an object, if it is a member, and clears the inverse.
    public func remove(_ object: ManagedObject) {
        owner.trapping { try owner.remove(object, through: relationship) }
    }

    /// Removes the object at a position, and clears the inverse.
    public func removeObject(at index: Int) {
        owner.trapping { try owner.removeObject(through: relationship, at: index) }
    }

    /// Removes all objects, and clears their inverses.
    public func removeAllObjects() {
        owner.trapping { try owner.setObjects([], through: relationship) }
    }

    /// Moves the object at a position; `target` is its position afterwards.
    public func moveObject(at index: Int, to target: Int) {
        owner.trapping { try owner.moveObjects(through: relationship, at: [index], to: target) }
    }

    /// Moves the objects at positions together, in the order given; `target` is the position of the first of them afterwards.
    public func moveObjects(at indices: [Int], to target: Int) {
        owner.trapping { try owner.moveObjects(through: relationship, at: indices, to: target) }
    }
}
