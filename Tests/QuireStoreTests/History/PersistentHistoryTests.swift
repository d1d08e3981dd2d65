import Foundation
import Quire
import QuireTestSupport
import Testing

/// History: every save and batch request is a transaction in Core Data's tables, which names what it changed.
@MainActor @Suite struct PersistentHistoryTests {
    private static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string).preservedInHistoryOnDeletion()
            Attribute("born", .date).preservedInHistoryOnDeletion()
            ToMany("books", "Book", inverse: "author").deleteRule(.cascade)
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("year", .integer16)
            ToOne("author", "Author", inverse: "books")
            ToMany("tags", "Tag", inverse: "books")
            Unique("title")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "tags")
        }
    }

    private static func coordinator(
        at path: String, tracking: Bool = true, model: ManagedObjectModel = model
    ) throws -> PersistentStoreCoordinator {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
        var description = PersistentStoreDescription(path: path)
        description.tracksHistory = tracking
        try coordinator.addPersistentStore(description)
        return coordinator
    }

    private static func history(
        _ context: ManagedObjectContext, after token: PersistentHistoryToken? = nil
    ) throws -> [PersistentHistoryTransaction] {
        try context.execute(.fetchHistory(after: token)).transactions
    }

    private static func request(
        _ entity: String, _ format: String
    ) throws -> FetchRequest<ManagedObject> {
        var request = FetchRequest(entity)
        request.predicate = try QueryPredicate(format: format)
        return request
    }

    /// As another program does.
    private static func execute(_ sql: String, at path: String) throws {
        let connection = try SQLiteConnection(path: path, mode: .writing)
        defer { connection.close() }
        try connection.execute(sql)
    }

    private static func lines(_ transaction: PersistentHistoryTransaction) -> [String] {
        transaction.changes.map { change in
            let properties = change.updatedProperties.map { " \($0.joined(separator: ","))" } ?? ""
            return "\(change.kind) \(change.objectID.entityName)\(properties)"
        }
    }

    @Test func aSaveIsATransactionThatNamesWhatItChanged() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        context.transactionAuthor = "editor"
        context.name = "window"
        let before = Date()
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Jane"
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        try context.save()
        context.transactionAuthor = nil
        book["year"] = 1815
        book["author"] = author
        let tag = try context.insertObject(entityName: "Tag")
        tag["books"] = Set([book])
        try context.save()
        context.delete(tag)
        try context.save()

        let history = try Self.history(context)
        #expect(history.map(\.number) == [1, 2, 3])
        #expect(history.map(\.author) == ["editor", nil, nil])
        #expect(history.map(\.contextName) == ["window", "window", "window"])
        #expect(history.allSatisfy { $0.processName == ProcessInfo.processInfo.processName })
        #expect(history.allSatisfy { $0.date >= before && $0.date <= Date() })
        #expect(Self.lines(history[0]).sorted() == ["insert Author", "insert Book"])
        #expect(
            Self.lines(history[1]).sorted() == [
                "insert Tag", "update Author books", "update Book author,tags,year",
            ])
        #expect(Self.lines(history[2]) == ["delete Tag", "update Book tags"])
        #expect(history[0].objectIDChanges.inserted.count == 2)
        #expect(history[2].objectIDChanges.deleted == [tag.objectID])
        #expect(
            try Self.history(context, after: history[1].token).map(\.number) == [3])
        try coordinator.close()
    }

    @Test func changesAndObjectsAreGivenWithoutTransactions() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        try context.save()
        let tag = try context.insertObject(entityName: "Tag")
        book["year"] = 1815
        try context.save()
        context.delete(book)
        try context.save()

        var request = PersistentHistoryChangeRequest.fetchHistory(after: nil)
        request.resultType = .changesOnly
        let changes = try context.execute(request)
        #expect(changes.changes == (try Self.history(context)).flatMap(\.changes))
        #expect(changes.changes.map(\.transactionNumber) == [1, 2, 2, 3])
        #expect(changes.count == 4)
        #expect(changes.transactions.isEmpty && changes.objectIDs.isEmpty)

        request.resultType = .objectIDs
        let objects = try context.execute(request)
        #expect(objects.objectIDs == [book.objectID, tag.objectID])
        #expect(objects.count == 2)
        #expect(objects.transactions.isEmpty && objects.changes.isEmpty)
        try coordinator.close()
    }

    @Test(arguments: PersistentHistoryChangeRequest.ResultType.allCases)
    func aResultHasWhatItsTypeSays(type: PersistentHistoryChangeRequest.ResultType) throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        for _ in 0..<2 { _ = try context.insertObject(entityName: "Tag") }
        try context.save()
        var request = PersistentHistoryChangeRequest.fetchHistory(after: nil)
        request.resultType = type
        let result = try context.execute(request)
        let (count, transactions, changes, objects, changesOfTransactions) =
            switch type {
            case .statusOnly: (0, 0, 0, 0, 0)
            case .count: (1, 0, 0, 0, 0)
            case .transactionsOnly: (1, 1, 0, 0, 0)
            case .transactionsAndChanges: (1, 1, 0, 0, 2)
            case .changesOnly: (2, 0, 2, 0, 0)
            case .objectIDs: (2, 0, 0, 2, 0)
            }
        #expect(result.count == count)
        #expect(result.transactions.count == transactions)
        #expect(result.changes.count == changes)
        #expect(result.objectIDs.count == objects)
        #expect(result.transactions.flatMap(\.changes).count == changesOfTransactions)
        try coordinator.close()
    }

    /// With the talk's recipe; the rows of a batch request are all that its history names.
    @Test func aContextMergesTheNotificationOfATransaction() throws {
        let folder = try TemporaryFolder()
        let coordinators = try (0..<2).map { _ in
            try Self.coordinator(at: folder.path("a.sqlite"))
        }
        let context = ManagedObjectContext.mainQueue(coordinator: coordinators[0])
        let other = ManagedObjectContext.mainQueue(coordinator: coordinators[1])
        let author = try context.insertObject(entityName: "Author")
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        book["author"] = author
        try context.save()
        #expect((author["books"] as? Set<ManagedObject>)?.count == 1)
        let token = try coordinators[0].currentPersistentHistoryToken()

        let same = try #require(try other.fetch(FetchRequest("Book")).first)
        same["title"] = "Persuasion"
        try other.save()
        try other.execute(
            BatchInsertRequest(
                entityName: "Book",
                objects: [["title": .string("b"), "author": .objectID(author.objectID)]]))
        let transactions = try Self.history(context, after: token)
        #expect(transactions.count == 2)
        for transaction in transactions {
            let notification = transaction.objectIDNotification
            #expect(notification.name == ManagedObjectContext.didSaveObjectIDsNotification)
            #expect(notification.objectIDChanges == transaction.objectIDChanges)
            context.mergeChanges(fromContextDidSave: notification)
        }
        #expect(book["title"] as? String == "Persuasion")
        #expect((author["books"] as? Set<ManagedObject>)?.count == 2)
        for coordinator in coordinators { try coordinator.close() }
    }

    @Test func aStoreThatHasAHistoryKeepsItWithoutTheOption() throws {
        let folder = try TemporaryFolder()
        for tracking in [true, false] {
            let coordinator = try Self.coordinator(
                at: folder.path("a.sqlite"), tracking: tracking)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            try context.insertObject(entityName: "Tag")["name"] = "\(tracking)"
            try context.save()
            #expect(try Self.history(context).count == (tracking ? 1 : 2))
            try coordinator.close()
        }
    }

    @Test func aStoreWithoutHistorySaysSo() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"), tracking: false)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try context.insertObject(entityName: "Tag")["name"] = "red"
        try context.save()
        #expect(try coordinator.currentPersistentHistoryToken() == nil)
        let error = #expect(throws: QuireError.self) { try Self.history(context) }
        #expect(error?.code == .unsupported)
        try coordinator.close()
    }

    @Test func aSaveThatFailsLeavesNoTransaction() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try context.insertObject(entityName: "Book")["title"] = "Emma"
        try context.save()
        let second = try context.insertObject(entityName: "Book")
        second["title"] = "Emma"
        #expect(throws: QuireError.self) { try context.save() }
        second["title"] = "Persuasion"
        try context.save()
        try context.save()
        #expect(try Self.history(context).map(Self.lines) == [["insert Book"], ["insert Book"]])
        try coordinator.close()
    }

    @Test func deletedObjectsLeaveTheValuesThatAreToBeKept() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let born = Date(timeIntervalSinceReferenceDate: -6_000_000_000)
        for name in ["Jane", "Mary"] {
            let author = try context.insertObject(entityName: "Author")
            author["name"] = name
            author["born"] = born
            let book = try context.insertObject(entityName: "Book")
            book["title"] = name
            book["author"] = author
        }
        try context.save()
        let jane = try #require(
            try context.fetch(Self.request("Author", "name == 'Jane'")).first)
        context.delete(jane)
        try context.save()
        try context.execute(BatchDeleteRequest(fetchRequest: FetchRequest("Author")))
        let tombstones = try Self.history(context).dropFirst().flatMap { transaction in
            transaction.changes.filter { $0.objectID.entityName == "Author" }.map(\.tombstone)
        }
        #expect(tombstones.map { $0?["name"] as? String } == ["Jane", "Mary"])
        #expect(tombstones.map { $0?["born"] as? Date } == [born, born])
        #expect(tombstones.map { $0?.count } == [2, 2])
        try coordinator.close()
    }

    @Test func batchRequestsAreTransactions() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        context.transactionAuthor = "importer"
        context.mergePolicy = .mergeByPropertyObjectTrump
        let insert = BatchInsertRequest(
            entityName: "Book", objects: ["a", "b", "c"].map { ["title": .string($0)] })
        #expect(try context.execute(insert).changes.inserted.isEmpty)
        try context.execute(
            BatchInsertRequest(
                entityName: "Book",
                objects: [["title": .string("a"), "year": .integer(1)]]))
        var update = BatchUpdateRequest(entityName: "Book")
        update.predicate = try QueryPredicate(format: "title != 'c'")
        update.propertiesToUpdate["year"] = 1815
        #expect(try context.execute(update).changes.updated.isEmpty)
        let tag = try context.insertObject(entityName: "Tag")
        tag["books"] = Set(try context.fetch(Self.request("Book", "title == 'a'")))
        try context.save()
        try context.execute(
            try BatchDeleteRequest(fetchRequest: Self.request("Book", "title == 'a'")))
        let history = try Self.history(context)
        #expect(
            history.map(Self.lines) == [
                ["insert Book", "insert Book", "insert Book"],
                ["update Book title,year"],
                ["update Book year", "update Book year"],
                ["insert Tag", "update Book tags"],
                ["delete Book"],
            ])
        #expect(history.allSatisfy { $0.author == "importer" })
        try coordinator.close()
    }

    /// Each object once, also if triggers change what the request has written.
    @Test func objectsWithChangedDerivedValuesAreUpdated() throws {
        let model = ManagedObjectModel {
            Entity("Author") {
                Attribute("name", .string)
                Attribute("bookCount", .integer64).derived("books.@count")
                ToMany("books", "Book", inverse: "author")
            }
            Entity("Book") {
                Attribute("title", .string)
                Attribute("authorName", .string).derived("author.name")
                ToOne("author", "Author", inverse: "books")
            }
        }
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"), model: model)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Jane"
        try context.insertObject(entityName: "Book")["author"] = author
        try context.save()
        author["name"] = "Ann"
        try context.save()
        try context.execute(
            BatchInsertRequest(
                entityName: "Book", objects: [["author": .objectID(author.objectID)]]))
        #expect(
            try Self.history(context).map { Self.lines($0).sorted() } == [
                ["insert Author", "insert Book"],
                ["update Author name", "update Book authorName"],
                ["insert Book", "update Author bookCount"],
            ])
        try coordinator.close()
    }

    @Test func aTokenWhoseTransactionsAreDeletedHasExpired() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        var tokens: [PersistentHistoryToken?] = []
        for number in 1...4 {
            context.transactionAuthor = "author \(number)"
            try context.insertObject(entityName: "Tag")["name"] = "\(number)"
            try context.save()
            tokens.append(try coordinator.currentPersistentHistoryToken())
        }
        #expect(try context.execute(.deleteHistory(before: tokens[2])).count == 0)
        #expect(try Self.history(context).map(\.author) == ["author 3", "author 4"])
        // Nothing is missing after the second transaction.
        #expect(try Self.history(context, after: tokens[1]).map(\.number) == [3, 4])
        let error = #expect(throws: QuireError.self) {
            try Self.history(context, after: tokens[0])
        }
        #expect(error?.code == .historyTokenExpired)

        var deleteAll = PersistentHistoryChangeRequest.deleteHistory(before: Date.distantFuture)
        deleteAll.resultType = .count
        #expect(try context.execute(deleteAll).count == 2)
        #expect(try Self.history(context).isEmpty)
        #expect(try Self.history(context, after: tokens[3]).isEmpty)
        #expect(throws: QuireError.self) { try Self.history(context, after: tokens[2]) }
        try context.insertObject(entityName: "Tag")["name"] = "5"
        try context.save()
        #expect(try Self.history(context, after: tokens[3]).map(\.number) == [5])
        #expect(try Self.history(context).map(\.author) == ["author 4"])
        try coordinator.close()
    }

    /// A request that deletes the first four of six transactions, and one that deletes all, of each form.
    private enum Deletion: String, CaseIterable {
        case date, token, transaction, age, count, size

        func request(
            keepingFrom transaction: PersistentHistoryTransaction?
        ) -> PersistentHistoryChangeRequest {
            switch self {
            case .date: .deleteHistory(before: transaction?.date ?? .distantFuture)
            case .token: .deleteHistory(before: transaction?.token)
            case .transaction:
                transaction.map { .deleteHistory(before: $0) } ?? .deleteHistory(before: nil)
            case .age:
                .deleteHistory(
                    olderThan: transaction.map { .seconds(3_600 - $0.date.timeIntervalSinceNow) }
                        ?? .seconds(-3_600))
            case .count: .deleteHistory(keepingLast: transaction == nil ? 0 : 2)
            // Each is 100 bytes.
            case .size: .deleteHistory(keepingLastBytes: transaction == nil ? 0 : 299)
            }
        }
    }

    @Test(arguments: Deletion.allCases, [false, true])
    private func afterADeletionNoTokenIsIncomplete(
        deletion: Deletion, deletesAll: Bool
    ) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        var coordinator = try Self.coordinator(at: path)
        var context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        for number in 1...6 {
            context.transactionAuthor = "author \(number)"
            try context.insertObject(entityName: "Tag")["name"] = "\(number)"
            try context.save()
        }
        // A day apart, because an age is measured a little later than the test's times.
        try Self.execute(
            "UPDATE ATRANSACTION SET ZTIMESTAMP = ZTIMESTAMP - 86400 * (6 - Z_PK) WHERE Z_PK < 6",
            at: path)
        let all = try Self.history(context)
        var request = deletion.request(keepingFrom: deletesAll ? nil : all[4])
        request.resultType = .count
        #expect(try context.execute(request).count == (deletesAll ? 6 : 4))
        #expect(try context.execute(request).count == 0)

        let remaining = deletesAll ? [] : [Int64(5), 6]
        for reopens in [false, true] {
            if reopens {
                try coordinator.close()
                coordinator = try Self.coordinator(at: path)
                context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            }
            #expect(try Self.history(context).map(\.number) == remaining)
            for transaction in all {
                let isWhole = transaction.number >= (deletesAll ? 6 : 4)
                if isWhole {
                    #expect(
                        try Self.history(context, after: transaction.token).map(\.number)
                            == remaining.filter { $0 > transaction.number })
                } else {
                    let error = #expect(throws: QuireError.self) {
                        try Self.history(context, after: transaction.token)
                    }
                    #expect(error?.code == .historyTokenExpired)
                }
            }
        }
        try context.insertObject(entityName: "Tag")["name"] = "7"
        try context.save()
        let after = try Self.history(context, after: all[5].token)
        #expect(after.map(\.number) == [7])
        #expect(after.flatMap(\.changes).map(\.number) == [7])
        try coordinator.close()
    }

    /// A clock that was set back leaves a transaction that is younger than the one after it.
    @Test func aDeletionByTimeLeavesNoHole() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        for number in 1...4 {
            try context.insertObject(entityName: "Tag")["name"] = "\(number)"
            try context.save()
        }
        try Self.execute(
            "UPDATE ATRANSACTION SET ZTIMESTAMP = CASE Z_PK WHEN 2 THEN 900 ELSE Z_PK END",
            at: folder.path("a.sqlite"))
        try context.execute(
            .deleteHistory(before: Date(timeIntervalSinceReferenceDate: 100)))
        #expect(try Self.history(context).map(\.number) == [2, 3, 4])
        try coordinator.close()
    }

    @Test func theHistoryOfAReadOnlyStoreIsReadButNotDeleted() throws {
        let folder = try TemporaryFolder()
        for isReadOnly in [false, true] {
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
            var description = PersistentStoreDescription(path: folder.path("a.sqlite"))
            description.tracksHistory = true
            description.isReadOnly = isReadOnly
            try coordinator.addPersistentStore(description)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            if isReadOnly {
                let error = #expect(throws: QuireError.self) {
                    try context.execute(.deleteHistory(keepingLast: 0))
                }
                #expect(error?.code == .readOnly)
                #expect(try Self.history(context).count == 1)
            } else {
                try context.insertObject(entityName: "Tag")["name"] = "red"
                try context.save()
            }
            try coordinator.close()
        }
    }

    @Test func deletingMoreThanThereIsIsNoError() throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try context.insertObject(entityName: "Tag")["name"] = "red"
        try context.save()
        for request: PersistentHistoryChangeRequest in [
            .deleteHistory(keepingLast: .max), .deleteHistory(olderThan: .seconds(Int64.max)),
            .deleteHistory(olderThan: .seconds(60)), .deleteHistory(keepingLastBytes: .max),
        ] {
            try context.execute(request)
            #expect(try Self.history(context).count == 1)
        }
        for request: PersistentHistoryChangeRequest in [
            .deleteHistory(keepingLast: .min), .deleteHistory(keepingLast: 0),
            .deleteHistory(keepingLastBytes: .min),
        ] {
            try context.execute(request)
            #expect(try Self.history(context).isEmpty)
        }
        try coordinator.close()
    }

    @Test func aTokenOutlivesTheProcess() throws {
        let folder = try TemporaryFolder()
        var data = Data()
        for number in 1...3 {
            let coordinator = try Self.coordinator(at: folder.path("a.sqlite"))
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            if number > 1 {
                let token = try JSONDecoder().decode(PersistentHistoryToken.self, from: data)
                #expect(try Self.history(context, after: token).isEmpty)
            }
            try context.insertObject(entityName: "Tag")["name"] = "\(number)"
            try context.save()
            data = try JSONEncoder().encode(
                #require(try coordinator.currentPersistentHistoryToken()))
            try coordinator.close()
        }
    }

    @Test func coordinatorsOfOneFileContinueOneHistory() throws {
        let folder = try TemporaryFolder()
        let coordinators = try (0..<2).map { _ in
            try Self.coordinator(at: folder.path("a.sqlite"))
        }
        let contexts = coordinators.map { ManagedObjectContext.mainQueue(coordinator: $0) }
        for round in 0..<6 {
            let context = contexts[round % 2]
            context.transactionAuthor = "author \(round % 2)"
            try context.insertObject(entityName: "Tag")["name"] = "\(round)"
            try context.save()
            if round == 3 { try contexts[0].execute(.deleteHistory(before: nil)) }
        }
        for context in contexts {
            let history = try Self.history(context)
            #expect(history.map(\.number) == [5, 6])
            #expect(history.map(\.author) == ["author 0", "author 1"])
        }
        for coordinator in coordinators { try coordinator.close() }
    }

    @Test func theHistoryOfSeveralStoresIsOneByTime() throws {
        let folder = try TemporaryFolder()
        var model = Self.model
        model.configurations = [
            ManagedObjectModel.Configuration(
                name: "Texts", entityNames: ["Author", "Book", "Tag"]),
            ManagedObjectModel.Configuration(name: "Notes", entityNames: ["Note"]),
        ]
        model.entities.append(
            Entity("Note") { Attribute("text", .string) }.description)
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
        for name in ["Texts", "Notes"] {
            var description = PersistentStoreDescription(path: folder.path(name + ".sqlite"))
            description.configuration = name
            description.tracksHistory = true
            try coordinator.addPersistentStore(description)
        }
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        context.transactionAuthor = "editor"
        for entity in ["Tag", "Note", "Tag"] {
            _ = try context.insertObject(entityName: entity)
            try context.save()
        }
        let history = try Self.history(context)
        #expect(history.flatMap(Self.lines) == ["insert Tag", "insert Note", "insert Tag"])
        #expect(history.map(\.number) == [1, 1, 2])
        #expect(history.allSatisfy { $0.author == "editor" })
        var request = PersistentHistoryChangeRequest.fetchHistory(after: nil)
        request.resultType = .changesOnly
        #expect(try context.execute(request).changes == history.flatMap(\.changes))
        request.resultType = .objectIDs
        #expect(
            try context.execute(request).objectIDs.map(\.entityName) == ["Tag", "Note", "Tag"])
        request.resultType = .count
        #expect(try context.execute(request).count == 3)
        let token = try #require(try coordinator.currentPersistentHistoryToken())
        #expect(token.transactionNumbers.values.sorted() == [1, 2])
        #expect(try Self.history(context, after: token).isEmpty)
        try coordinator.close()
    }

    /// A parent's save has its own author, or that of the child whose changes it saves.
    @Test(arguments: [ContextArrangement.nested, .inDocument])
    func theAuthorOfAChildIsThatOfItsParentsSave(arrangement: ContextArrangement) throws {
        let stack = try TestStack(Self.model)
        try stack.coordinator.close()
        let coordinator = try Self.coordinator(at: stack.path)
        let parent = QueueConfinedContext(coordinator: coordinator)
        parent.performAndWait { $0.isWriteBehindParent = arrangement == .inDocument }
        let child = ManagedObjectContext.mainQueue(parent: parent)
        for author in ["first", "second", nil] {
            child.transactionAuthor = author
            try child.insertObject(entityName: "Tag")["name"] = author
            try child.save()
            try parent.performAndWait { try $0.save() }
        }
        let authors = try Self.history(child).map(\.author)
        #expect(authors == ["first", "second", nil])
        try coordinator.close()
    }

    /// Tables of a hostile file: each is an error, and a save that cannot be recorded is none.
    @Test(arguments: [
        "DROP TABLE ACHANGE; CREATE TABLE ACHANGE (Z_PK INTEGER PRIMARY KEY)",
        "DROP TABLE ATRANSACTION; CREATE TABLE ATRANSACTION (Z_PK INTEGER PRIMARY KEY)",
        "UPDATE ATRANSACTION SET Z_PK = 9223372036854775807",
        "UPDATE ACHANGE SET Z_PK = 9223372036854775807",
        "UPDATE Z_PRIMARYKEY SET Z_MAX = 9223372036854775807 WHERE Z_ENT > 16000",
    ])
    func aDamagedHistoryIsAnErrorOfTheSave(damage: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        for isDamaged in [false, true] {
            let coordinator = try Self.coordinator(at: path)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            if isDamaged {
                try Self.execute(damage, at: path)
            }
            try context.insertObject(entityName: "Tag")["name"] = "red"
            if isDamaged {
                #expect(throws: QuireError.self) { try context.save() }
                context.rollback()
                #expect(try context.count(for: FetchRequest("Tag")) == 1)
            } else {
                try context.save()
            }
            try coordinator.close()
        }
    }

    @Test(arguments: [
        "UPDATE ATRANSACTION SET ZTIMESTAMP = NULL, ZAUTHORTS = 77, ZPROCESSIDTS = 'x'",
        "UPDATE ACHANGE SET ZCHANGETYPE = 9, ZENTITY = -3",
        "UPDATE ACHANGE SET ZENTITYPK = -9223372036854775808",
        "UPDATE ACHANGE SET ZCHANGETYPE = 1, ZCOLUMNS = x'ffffffffffffffffffffffff'",
        "UPDATE ATRANSACTION SET Z_PK = -9223372036854775808",
    ])
    func anOddHistoryIsReadAsFarAsItMakesSense(damage: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let coordinator = try Self.coordinator(at: path)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try context.insertObject(entityName: "Tag")["name"] = "red"
        try context.save()
        try Self.execute(damage, at: path)
        let history = try Self.history(context)
        #expect(history.flatMap(\.changes).allSatisfy { $0.updatedProperties == nil })
        for number in [1, Int64.max, Int64.min] {
            let token = PersistentHistoryToken(
                transactionNumbers: [coordinator.persistentStores[0].identity.uuid: number])
            do { _ = try Self.history(context, after: token) } catch let error as QuireError {
                #expect(error.code == .historyTokenExpired)
            }
        }
        try coordinator.close()
    }

    /// What is new in the store cannot be told from a place in the history of another one.
    @Test func historyAfterAPlaceOfAReplacedStoreIsAnError() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        func save() throws -> (PersistentHistoryToken?, [PersistentHistoryTransaction]) {
            let coordinator = try Self.coordinator(at: path)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            try context.insertObject(entityName: "Tag")["name"] = "red"
            try context.save()
            defer { try? coordinator.close() }
            return (try coordinator.currentPersistentHistoryToken(), try Self.history(context))
        }
        let (token, transactions) = try save()
        try StoreFile(at: path).destroy()
        _ = try save()
        let coordinator = try Self.coordinator(at: path)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let error = #expect(throws: QuireError.self) { try Self.history(context, after: token) }
        #expect(error?.code == .historyTokenExpired)
        let last = try #require(transactions.last)
        for request in [
            PersistentHistoryChangeRequest.fetchHistory(after: last),
            .deleteHistory(before: token), .deleteHistory(before: last),
        ] {
            let error = #expect(throws: QuireError.self) { try context.execute(request) }
            #expect(error?.code == .historyTokenExpired)
        }
        #expect(try Self.history(context).count == 1)
        try coordinator.close()
    }

    // MARK: - Masks of changed properties

    /// An ordered inverse adds a bit between to-one relationships and attributes, and those of a superentity come first.
    @Test(arguments: [false, true])
    func columnMaskIsInTheOrderOfCoreData(isForeign: Bool) throws {
        let model = ManagedObjectModel {
            Entity("A") {
                Attribute("name", .string)
                ToMany("bs", "B", inverse: "a").ordered()
            }
            Entity("B") {
                Attribute("name", .string)
                ToOne("a", "A", inverse: "bs")
            }
            Entity("C", inherits: "B") { Attribute("alpha", .string) }
        }
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Self.coordinator(at: path, model: model).close()
        if isForeign { try Self.execute("DROP TABLE QUIRE_MODEL", at: path) }
        let coordinator = try Self.coordinator(at: path, model: model)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let plain = try context.insertObject(entityName: "B")
        let derived = try context.insertObject(entityName: "C")
        try context.save()
        plain["name"] = "b"
        try context.save()
        derived["alpha"] = "c"
        try context.save()
        derived["name"] = "c"
        try context.save()
        let properties = try Self.history(context).flatMap(\.changes).compactMap(
            \.updatedProperties)
        #expect(properties == [["name"], ["alpha"], ["name"]])
        try coordinator.close()
        let connection = try SQLiteConnection(path: path, mode: .writing)
        defer { connection.close() }
        let masks = try connection.withStatement(
            "SELECT hex(ZCOLUMNS) FROM ACHANGE WHERE ZCHANGETYPE = 1 ORDER BY Z_PK"
        ) {
            var masks: [String] = []
            while try $0.step() { masks.append($0.text(0)) }
            return masks
        }
        #expect(masks == ["20", "10", "20"])
    }
}
