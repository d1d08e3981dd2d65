public import Observation

extension ManagedObjectContext: Observable {
    /// Whether Swift's Observation follows the properties of the context's objects.
    ///
    /// ```swift
    /// withObservationTracking {
    ///     label.text = book.string("title") ?? ""
    /// } onChange: {
    ///     Task { @MainActor in redraw() }
    /// }
    /// ```
    ///
    /// `onChange` is called before the first change of a property that the closure read, by whatever way: set,
    /// undone, redone, rolled back, refreshed, merged, decided by a merge policy, saved by a child, kept in step with an
    /// inverse, or gone with the object's deletion. Where many objects become faults, or a merge policy decides about
    /// relationships, it may be called although the property then is what it was. Properties are attributes and
    /// relationships, read by key, by slot or by a typed accessor, and whether the object is inserted, updated or
    /// deleted. Of the context, ``hasChanges``, ``insertedObjects``, ``updatedObjects`` and ``deletedObjects`` can be
    /// followed; they are told at the end of a user event and after a save. Whether an object is a fault, what
    /// ``ManagedObject/changedValues()`` says, and which objects a fetch or a fetched property finds, cannot.
    /// What a context reads for itself, to save or to fetch for one, is not followed.
    /// Like every `onChange`, it should only schedule work.
    ///
    /// It is true for `PersistentContainer.viewContext` and a document's context, which views show, and false
    /// for others: asking Swift whether a read is recorded takes 33 to 38 ns, beside 10 to 40 ns for reading a value by
    /// slot and 70 by key. False costs nothing. Only objects that were read while recording have a registrar, which
    /// takes 90 ns to make. Setting it false ends the recording of what is read from then on.
    public var isObservable: Bool {
        get { stateOfObjects.contains(.observable) }
        set {
            checkQueue()
            if newValue == isObservable { return }
            if newValue {
                if observation == nil { observation = ContextObservation() }
                stateOfObjects.insert(.observable)
                identityMap.forEach { $0.state.insert(.observable) }
            } else {
                stateOfObjects.remove(.observable)
                identityMap.forEach { $0.state.remove(.observable) }
            }
        }
    }

    /// The subscript that stands for the changed objects in key paths.
    subscript(observedChanges number: Int) -> Void { () }

    /// Notes that the changed objects are asked for.
    @inline(__always)
    func noteAccessOfChanges() {
        if isObservable { observation?.accessChanges(of: self) }
    }

    /// Runs a closure whose reads are not followed.
    func withoutNoting<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard let observation, !observation.isSuspended else { return try body() }
        observation.isSuspended = true
        defer { observation.isSuspended = false }
        return try body()
    }
}
