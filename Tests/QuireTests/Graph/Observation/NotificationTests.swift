import Foundation
import Quire
import QuireTestSupport
import Testing

/// Writes down the notifications of a context, one line each: `change +Emma ~Persuasion -Mansfield Park`, with
/// `^` for refreshed and `!` for invalidated objects.
private final class NotificationLog: @unchecked Sendable {
    // Only used on the context's queue, where notifications come.
    nonisolated(unsafe) private(set) var lines: [String] = []
    nonisolated(unsafe) private var tokens: [any NSObjectProtocol] = []
    nonisolated(unsafe) var onLine: ((String) -> Void)?

    init(_ context: ManagedObjectContext) {
        add("change", ManagedObjectContext.didChangeObjectsNotification, context)
        add("willSave", ManagedObjectContext.willSaveObjectsNotification, context)
        add("save", ManagedObjectContext.didSaveObjectsNotification, context)
        add("saveIDs", ManagedObjectContext.didSaveObjectIDsNotification, context)
        add("mergeIDs", ManagedObjectContext.didMergeChangesObjectIDsNotification, context)
    }

    private func add(
        _ title: String, _ name: Notification.Name, _ context: ManagedObjectContext
    ) {
        tokens.append(
            NotificationCenter.default.addObserver(forName: name, object: context, queue: nil) {
                [unowned self] in record(title, $0)
            })
    }

    private func record(_ title: String, _ notification: Notification) {
        func part(_ sign: String, _ objects: Set<ManagedObject>) -> [String] {
            objects.map { sign + Self.label($0) }.sorted()
        }
        var parts = [title]
        parts += part("+", notification.insertedObjects)
        parts += part("~", notification.updatedObjects)
        parts += part("-", notification.deletedObjects)
        parts += part("^", notification.refreshedObjects)
        parts += part("!", notification.invalidatedObjects)
        if notification.invalidatedAllObjects { parts.append("all") }
        if title.hasSuffix("IDs"), let ids = notification.objectIDChanges {
            parts += ids.inserted.map { "+\($0.shortDescription)" }
            parts += ids.updated.map { "~\($0.shortDescription)" }
            parts += ids.deleted.map { "-\($0.shortDescription)" }
        }
        let line = parts.joined(separator: " ")
        lines.append(line)
        onLine?(line)
    }

    private static func label(_ object: ManagedObject) -> String {
        object[
            object.resolvedEntity.slot(named: "title") == nil ? "name" : "title", as: String.self]
            ?? "?"
    }

    /// The lines since the last call.
    func take() -> [String] {
        defer { lines = [] }
        return lines
    }

    func stop() {
        for token in tokens { NotificationCenter.default.removeObserver(token) }
        tokens = []
    }
}

@MainActor @Suite struct NotificationTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    private func book(_ title: String, _ context: ManagedObjectContext) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    @Test func anEventHasEachObjectOnce() throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        let emma = try book("Emma", context)
        emma["year"] = 1815
        let passing = try book("Passing", context)
        context.delete(passing)
        context.processPendingChanges()
        #expect(log.take() == ["change +Emma"])
        try context.save()
        _ = log.take()
        emma["year"] = 1816
        emma["year"] = 1817
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Jane"
        emma["author"] = author
        context.processPendingChanges()
        #expect(log.take() == ["change +Jane ~Emma"])
        context.delete(emma)
        context.processPendingChanges()
        #expect(log.take() == ["change ~Jane -Emma"])
        context.processPendingChanges()
        #expect(log.take() == [])
    }

    @Test func anEventThatChangedNothingIsNotPosted() throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        context.delete(try book("Passing", context))
        context.processPendingChanges()
        #expect(log.take() == [])
    }

    @Test func undoAndRedoAreEvents() throws {
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        let log = NotificationLog(context)
        defer { log.stop() }
        let emma = try book("Emma", context)
        try context.save()
        context.delete(emma)
        context.processPendingChanges()
        _ = log.take()
        context.undo()
        #expect(log.take() == ["change +Emma"])
        context.redo()
        #expect(log.take() == ["change -Emma"])
        context.undo()
        emma["title"] = "Changed"
        context.processPendingChanges()
        _ = log.take()
        context.undo()
        #expect(log.take() == ["change ~Emma"])
        context.undo()
        // Its title was set in the same event.
        #expect(log.take() == ["change -?"])
    }

    @Test(arguments: ContextArrangement.allCases)
    func aSaveIsAnnouncedAndReported(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        let log = NotificationLog(context)
        defer { log.stop() }
        let emma = try book("Emma", context)
        let other = try book("Other", context)
        try context.save()
        #expect(
            log.take() == [
                "change +Emma +Other", "willSave", "save +Emma +Other", "saveIDs +Book/p1 +Book/p2",
            ])
        emma["year"] = 1815
        context.delete(other)
        try context.save()
        #expect(
            log.take() == [
                "change ~Emma -Other", "willSave", "save ~Emma -Other", "saveIDs ~Book/p1 -Book/p2",
            ])
        try context.save()
        #expect(log.take() == [])
    }

    @Test func aSaveThatFailsIsAnnouncedOnly() throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        _ = try context.insertObject(entityName: "Book")
        #expect(throws: QuireError.self) { try context.save() }
        #expect(log.take() == ["change +?", "willSave"])
    }

    @Test func didSaveComesAfterTheStoreHasCommitted() throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        nonisolated(unsafe) let other = stack.mainContext()
        nonisolated(unsafe) var counts: [String: Int] = [:]
        log.onLine = { line in
            let title = String(line.prefix { $0 != " " })
            counts[title] = try? other.count(for: FetchRequest("Book"))
        }
        _ = try book("Emma", context)
        try context.save()
        #expect(counts == ["change": 0, "willSave": 0, "save": 1, "saveIDs": 1])
    }

    @Test func whatAnObserverOfWillSaveChangesIsSaved() throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        nonisolated(unsafe) let emma = try book("Emma", context)
        log.onLine = { if $0 == "willSave" { emma["year"] = 1815 } }
        try context.save()
        #expect(
            log.take() == [
                "change +Emma", "willSave", "change ~Emma", "save +Emma", "saveIDs +Book/p1",
            ])
        #expect(try stack.stored("Book", "year") == ["integer(1815)"])
    }

    @Test func rollbackReportsWhatGoesAndWhatComesBack() throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        let other = try book("Other", context)
        try context.save()
        let log = NotificationLog(context)
        defer { log.stop() }
        emma["title"] = "Changed"
        context.delete(other)
        _ = try book("New", context)
        context.rollback()
        #expect(log.take() == ["change +New ~Changed -Other", "change +Other -New ^Emma"])
        context.rollback()
        #expect(log.take() == [])
    }

    @Test func resetInvalidatesAll() throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        try context.save()
        let log = NotificationLog(context)
        defer { log.stop() }
        context.reset()
        #expect(log.take() == ["change !Emma all"])
        context.reset()
        #expect(log.take() == [])
        withExtendedLifetime(emma) {}
    }

    @Test func aMergeReportsWhatItDidAndWhatItWasGiven() throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        let other = try book("Other", context)
        try context.save()
        let log = NotificationLog(context)
        defer { log.stop() }
        let elsewhere = stack.mainContext()
        elsewhere.object(with: emma.objectID)["title"] = "Changed"
        elsewhere.delete(elsewhere.object(with: other.objectID))
        let new = try book("New", elsewhere)
        try elsewhere.save()
        context.mergeChanges(
            from: ObjectIDChanges(
                inserted: [new.objectID], updated: [emma.objectID], deleted: [other.objectID]))
        #expect(
            log.take() == [
                "change +New -Other ^Changed", "mergeIDs +Book/p3 ~Book/p1 -Book/p2",
            ])
        context.refresh(emma, mergeChanges: true)
        #expect(log.take() == ["change ^Changed"])
        context.refresh(emma, mergeChanges: false)
        #expect(log.take() == ["change !Changed"])
    }

    @Test func anAutomaticMergeIsPostedInEveryContextThatMerges() async throws {
        let context = stack.mainContext()
        context.automaticallyMergesChangesFromParent = true
        let child = ManagedObjectContext.mainQueue(parent: context)
        let emma = try book("Emma", context)
        try context.save()
        let inChild = child.object(with: emma.objectID)
        #expect(inChild["title", as: String.self] == "Emma")
        let log = NotificationLog(context)
        let childLog = NotificationLog(child)
        defer {
            log.stop()
            childLog.stop()
        }
        let id = emma.objectID
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        var changes = context.changes.makeAsyncIterator()
        try await background.perform { context in
            context.object(with: id)["title"] = "Changed"
            try context.save()
        }
        _ = await changes.next()
        #expect(log.take() == ["change ^Changed", "mergeIDs ~Book/p1"])
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: ObjectIDChanges(updated: [id]),
            into: [QueueConfinedContext(context), QueueConfinedContext(child)])
        #expect(log.take() == ["change ^Changed", "mergeIDs ~Book/p1"])
        #expect(childLog.take() == ["change ^Changed", "mergeIDs ~Book/p1"])
        context.mergeChanges(from: ObjectIDChanges())
        #expect(log.take() == ["mergeIDs"])
    }

    @Test func whatAMergePolicyDecidesIsAnEventWithinTheSave() throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        let other = try book("Other", context)
        try context.save()
        let elsewhere = stack.mainContext()
        elsewhere.object(with: emma.objectID)["title"] = "Theirs"
        elsewhere.delete(elsewhere.object(with: other.objectID))
        try elsewhere.save()
        context.mergePolicy = .rollback
        emma["title"] = "Ours"
        context.processPendingChanges()
        let log = NotificationLog(context)
        defer { log.stop() }
        try context.save()
        #expect(log.take() == ["willSave", "change ^Theirs", "save", "saveIDs"])
        emma["title"] = "Again"
        other["title"] = "Lost"
        let new = try book("New", context)
        try context.save()
        #expect(
            log.take() == [
                "change +New ~Again ~Lost", "willSave", "change -Other ^Again ^New",
                "save +New ~Again", "saveIDs +Book/p3 ~Book/p1",
            ])
        withExtendedLifetime(new) {}
    }

    @Test func aChildsSaveIsAnEventOfItsParentOnItsQueue() throws {
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let emma = try book("Emma", child)
        try child.save()
        let log = parent.performAndWait { context in
            let log = NotificationLog(context)
            // Used on a wrong queue, the context stops the program.
            nonisolated(unsafe) let context = context
            log.onLine = { _ in _ = context.registeredObject(for: emma.objectID) }
            return log
        }
        defer { log.stop() }
        emma["title"] = "Changed"
        _ = try book("New", child)
        try child.save()
        #expect(log.take() == ["change +New ~Changed"])
        try parent.performAndWait { try $0.save() }
        #expect(
            log.take() == [
                "willSave", "save +Changed +New", "saveIDs +Book/p1 +Book/p2",
            ])
    }

    @Test func theEventEndsByItselfWhenNothingElseAsksForIt() async throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        let emma = try book("Emma", context)
        await withCheckedContinuation { continuation in
            log.onLine = { _ in continuation.resume() }
        }
        #expect(log.take() == ["change +Emma"])
        emma["year"] = 1815
        await withCheckedContinuation { continuation in
            log.onLine = { _ in continuation.resume() }
        }
        #expect(log.take() == ["change ~Emma"])
    }

    @Test func whatAnObserverChangesIsANewEvent() async throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        nonisolated(unsafe) let emma = try book("Emma", context)
        nonisolated(unsafe) var rounds = 0
        await withCheckedContinuation { continuation in
            log.onLine = { _ in
                rounds += 1
                if rounds == 3 { continuation.resume() } else { emma["year"] = 1 }
            }
            context.processPendingChanges()
            #expect(rounds == 1)
        }
        #expect(log.take() == ["change +Emma", "change ~Emma", "change ~Emma"])
    }

    @Test func whatAnObserverChangesOnAPrivateQueueIsANewEvent() async throws {
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        var changes = background.changes.makeAsyncIterator()
        let log = try background.performAndWait { context in
            let log = NotificationLog(context)
            nonisolated(unsafe) let context = context
            log.onLine = { line in
                guard line == "change +Emma" else { return }
                _ = try? context.fetch(FetchRequest("Book")).first.map { $0["year"] = 1815 }
            }
            let book = try context.insertObject(entityName: "Book")
            book["title"] = "Emma"
            return log
        }
        #expect(await changes.next()?.inserted.count == 1)
        #expect(await changes.next()?.updated.count == 1)
        background.performAndWait { _ in log.stop() }
        #expect(log.take() == ["change +Emma", "change ~Emma"])
    }

    @Test func anObserverOfChangesMaySave() throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        nonisolated(unsafe) let sameContext = context
        nonisolated(unsafe) var error: (any Error)?
        log.onLine = { line in
            guard line.hasPrefix("change") else { return }
            do { try sameContext.save() } catch let caught { error = caught }
        }
        let emma = try book("Emma", context)
        context.processPendingChanges()
        #expect(error == nil)
        #expect(log.take() == ["change +Emma", "willSave", "save +Emma", "saveIDs +Book/p1"])
        emma["year"] = 1815
        try context.save()
        #expect(log.take() == ["change ~Emma", "willSave", "save ~Emma", "saveIDs ~Book/p1"])
        #expect(try stack.stored("Book", "year") == ["integer(1815)"])
    }

    @Test func anObserverMaySaveWhatAMergePolicyDecided() throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        try context.save()
        let elsewhere = stack.mainContext()
        elsewhere.object(with: emma.objectID)["title"] = "Theirs"
        try elsewhere.save()
        context.mergePolicy = .mergeByPropertyObjectTrump
        emma["title"] = "Ours"
        let log = NotificationLog(context)
        defer { log.stop() }
        log.onLine = { line in
            if line == "change ^Ours" { #expect(throws: Never.self) { try context.save() } }
        }
        try context.save()
        #expect(!context.hasChanges)
        #expect(try stack.stored("Book", "title") == ["\(AttributeValue.string("Ours"))"])
        #expect(log.take().filter { $0 == "save ~Ours" }.count == 1)
        withExtendedLifetime(emma) {}
    }

    @Test func anObserverOfDidSaveMaySaveAgain() throws {
        let context = stack.mainContext()
        let log = NotificationLog(context)
        defer { log.stop() }
        nonisolated(unsafe) let sameContext = context
        nonisolated(unsafe) let emma = try book("Emma", context)
        log.onLine = { line in
            guard line == "save +Emma" else { return }
            emma["year"] = 1815
            try? sameContext.save()
        }
        try context.save()
        #expect(!context.hasChanges)
        #expect(try stack.stored("Book", "year") == ["integer(1815)"])
    }

    @Test func savingWhenASaveIsAnnouncedStopsWithASentence() async throws {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            let stack = try TestStack()
            let background = QueueConfinedContext(coordinator: stack.coordinator)
            try background.performAndWait { context in
                nonisolated(unsafe) let context = context
                let token = NotificationCenter.default.addObserver(
                    forName: ManagedObjectContext.willSaveObjectsNotification, object: nil,
                    queue: nil
                ) { _ in try? context.save() }
                defer { NotificationCenter.default.removeObserver(token) }
                _ = try context.insertObject(entityName: "Playlist")
                try context.save()
            }
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains("observer of willSaveObjectsNotification"))
    }

    @Test func contextsAndObjectsGoAlthoughObserved() throws {
        weak var weakContext: ManagedObjectContext?
        weak var weakBook: ManagedObject?
        nonisolated(unsafe) var count = 0
        let coordinator = stack.coordinator
        let token = NotificationCenter.default.addObserver(
            forName: ManagedObjectContext.didChangeObjectsNotification, object: nil, queue: nil
        ) {
            // Other tests post at the same time.
            let sender = $0.object as? ManagedObjectContext
            if sender?.persistentStoreCoordinator === coordinator {
                count += $0.insertedObjects.count
            }
        }
        defer { NotificationCenter.default.removeObserver(token) }
        do {
            let context = stack.mainContext()
            weakContext = context
            let emma = try book("Emma", context)
            weakBook = emma
            try context.save()
        }
        #expect(count >= 1)
        #expect(weakContext == nil)
        #expect(weakBook == nil)
    }

    @Test func anObserverOfOneContextDoesNotKeepIt() throws {
        weak var weakContext: ManagedObjectContext?
        let log: NotificationLog
        do {
            let context = stack.mainContext()
            weakContext = context
            log = NotificationLog(context)
        }
        #expect(weakContext == nil)
        log.stop()
    }
}
