/// What a context is to its children: where they read and save.
///
/// A child asks the values that wait to be saved, on its own thread, or else the context's objects, on its queue; see
/// ``PendingChanges``.
extension ConfinedContext: ObjectSource {
    var layout: ModelLayout { coordinator.layout }
    var storeIdentity: StoreIdentity { coordinator.storeIdentity }
    var temporaryIdentity: StoreIdentity { coordinator.temporaryIdentity }

    func rows(matching request: FetchRequest) throws -> RowSet {
        try read {
            try $0.rows(matching: request)
        } orAsk: {
            try $0.rowsForChild(matching: request)
        }
    }

    func count(matching request: FetchRequest) throws -> Int {
        try read {
            try $0.count(matching: request)
        } orAsk: {
            try $0.countForChild(matching: request)
        }
    }

    func objectIDs(matching request: FetchRequest) throws -> ObjectIDList {
        try read {
            try $0.objectIDs(matching: request)
        } orAsk: {
            try $0.objectIDsForChild(matching: request)
        }
    }

    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot? {
        try read {
            try $0.row(for: objectID, maximumAge: maximumAge)
        } orAsk: {
            try $0.row(for: objectID, maximumAge: maximumAge)
        }
    }

    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet {
        try read {
            try $0.rows(for: objectIDs, maximumAge: maximumAge)
        } orAsk: {
            try $0.rows(for: objectIDs, maximumAge: maximumAge)
        }
    }

    func relatedRows(
        of objectID: ManagedObjectID, through relationship: EntityLayout.Relationship
    ) throws -> RowSet {
        try read {
            try $0.relatedRows(of: objectID, through: relationship)
        } orAsk: {
            try $0.relatedRows(of: objectID, through: relationship)
        }
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: EntityLayout.Relationship
    ) throws -> RelatedObjects {
        try read {
            try $0.relatedObjects(of: objectIDs, through: relationship)
        } orAsk: {
            try $0.relatedObjects(of: objectIDs, through: relationship)
        }
    }

    func forgetRows(of objectIDs: [ManagedObjectID]?) { coordinator.forgetRows(of: objectIDs) }

    func outdated(_ rows: [SeenRow], by child: UInt32) -> Set<UInt64> {
        if let outdated = pendingChanges.outdated(rows, by: child) { return outdated }
        return performAndWait { $0.outdated(rows, by: child) }
    }

    func reserveObjectIDs(
        for entity: EntityLayout, count: Int, durably: Bool, in store: StoreIdentity?
    ) throws -> [ManagedObjectID] {
        try coordinator.reserveObjectIDs(
            for: entity, count: count, durably: durably, in: store)
    }

    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID? {
        // The context has no new objects of its own then.
        if pendingChanges.areValues { return coordinator.permanentID(for: temporary) }
        return performAndWait { context in
            try? context.prepareForChild()
            return context.permanentID(for: temporary)
        }
    }

    func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        try save(changes, isNoted: true) { try $0.apply(changes) }
        return []
    }

    /// Takes what a child saves.
    ///
    /// - Parameters:
    ///   - isNoted: Whether whoever follows the changes of the context is told, if the values are kept.
    ///   - apply: Has the context's objects take them over.
    package func save(
        _ changes: ChangeSet, isNoted: Bool, orElse apply: (ManagedObjectContext) throws -> Void
    ) throws {
        if pendingChanges.take(changes, isNoted: isNoted) {
            changeBroadcast.send(changes.objectIDs)
            return
        }
        try performAndWait { context in
            try context.prepareForChild()
            try apply(context)
        }
    }

    /// Merges what others have saved by now, if the context merges automatically.
    func mergePendingSaves() {
        let isUpToDate = pendingChanges.withState { state in
            state.areValues && state.automaticMerge?.isEmpty != false
        }
        if isUpToDate { return }
        performWithoutObjectsAndWait { $0.mergePendingSaves() }
    }

    /// How often a child reads again because there was a save meanwhile, before it waits for the next to end.
    private static var greatestTryCount: Int { 4 }

    private func read<Result>(
        _ body: (PendingChangeView) throws -> sending Result,
        orAsk ask: (ManagedObjectContext) throws -> sending Result
    ) throws -> sending Result {
        for _ in 0..<Self.greatestTryCount {
            guard let view = pendingChanges.view else { break }
            do {
                let result = try body(view)
                if pendingChanges.isCurrent(view) { return result }
            } catch {
                // Where the store was exchanged for another, what is read of the old one fails.
                if pendingChanges.isCurrent(view) { throw error }
            }
        }
        return try performWithoutObjectsAndWait { context in
            if let view = pendingChanges.view { return try body(view) }
            try context.prepareForChild()
            return try ask(context)
        }
    }
}
