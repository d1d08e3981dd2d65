internal import Foundation

/// A fetch that reads on another thread: what is read is rows and identifiers, which may go to any queue; on the
/// context's queue the unsaved changes are laid over them, and objects are made.
///
/// Made and finished on the context's queue.
final class BackgroundFetch: RowHolder {
    private let context: ManagedObjectContext
    private let request: FetchRequest
    private let keyPaths: [QueryKeyPath]
    private let plan: ManagedObjectContext.ChangeOverlay.Plan?
    /// When the reading began, as ``OutdatedRows`` counts.
    private let serial: UInt64
    let monitor: FetchMonitor

    /// What is read.
    enum Payload: Sendable {
        case rows(RowSet)
        case identifiers(ObjectIDList)
        case dictionaries(FetchedDictionaries)
        case count(Int)
    }

    /// Checks a request.
    ///
    /// - Throws: As ``ManagedObjectContext/fetch(_:)-(FetchRequest)``.
    init(
        _ request: FetchRequest, context: ManagedObjectContext,
        report: @escaping @Sendable (_ rows: Int) -> Void
    ) throws {
        context.checkQueue()
        self.context = context
        monitor = FetchMonitor(report: report)
        var request = request
        request.watch.monitor = monitor
        keyPaths = try context.prefetchPaths(of: request)
        plan = try Self.plan(for: request, in: context)
        self.request = request
        serial = context.outdatedRows.serial
        super.init()
        context.outdatedRows.addHolder(self)
    }

    deinit {
        context.queueMarker.checkRelease()
        context.outdatedRows.removeHolder(self)
        context.answerQuestions()
    }

    /// What is being read is with the thread that reads it.
    override var isComplete: Bool { false }

    private static func plan(
        for request: FetchRequest, in context: ManagedObjectContext
    ) throws -> ManagedObjectContext.ChangeOverlay.Plan? {
        guard request.resultType != .dictionaries, context.overlayIsNeeded(for: request) else {
            return nil
        }
        let plan = try context.overlay(for: request).plan()
        return plan.isComplete ? nil : plan
    }

    /// Reads; to be called on another thread.
    var reading: @Sendable () throws -> Payload {
        let (request, source, monitor) = (request, context.source, monitor)
        let store = context.persistentStoreCoordinator.store
        let wide = plan?.source
        let counts = request.resultType == .count && plan?.testsAll(request) != true
        let readsIdentifiers = context.readsIdentifiers(request, keyPaths)
        return {
            try monitor.check()
            if counts { return .count(try source.count(matching: wide ?? request)) }
            if let wide { return .rows(try source.rows(matching: wide)) }
            switch request.resultType {
            case .objects where !readsIdentifiers:
                return .rows(try source.rows(matching: request))
            case .objects, .objectIDs:
                return .identifiers(try source.objectIDs(matching: request))
            case .dictionaries: return .dictionaries(try store.dictionaries(matching: request))
            case .count: return .count(try source.count(matching: wide ?? request))
            }
        }
    }

    /// Makes the result of what was read. If the context has saved meanwhile, or has other changes, so that something
    /// else should have been read, it is read now.
    func finish(_ payload: Payload) throws -> FetchResult {
        context.checkQueue()
        try monitor.check()
        if case .dictionaries(let dictionaries) = payload { return .dictionaries(dictionaries) }
        let overlay = try context.overlay(for: request)
        let present = try Self.plan(for: request, in: context)
        guard serial == context.outdatedRows.serial, present?.source == plan?.source,
            !request.shouldRefreshRefetchedObjects
        else {
            var request = request
            request.watch.monitor = nil
            return try context.execute(request)
        }
        switch payload {
        case .rows(let found):
            let rows = try present.map { try overlay.rows($0, found: found) } ?? found
            switch request.resultType {
            case .count: return .count(rows.count)
            case .objectIDs:
                return .objectIDs(
                    rows.indices.map { context.objectID(bits: rows.identifierBits(at: $0)) })
            default: return .objects(try context.fetched(rows, request, keyPaths))
            }
        case .identifiers(let list) where request.resultType == .objects:
            return .objects(context.fetched(list.bits, request, keyPaths))
        case .identifiers(let list):
            return .objectIDs(list.bits.map { context.objectID(bits: $0) })
        case .dictionaries(let dictionaries): return .dictionaries(dictionaries)
        case .count(let count):
            return .count(try present.map { try overlay.count($0, stored: count) } ?? count)
        }
    }
}
