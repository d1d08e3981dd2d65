import Foundation
import Quire
import QuireStore
import QuireTestSupport
import Testing

@testable import QuireSQLite

/// Fetch requests for history: predicates and orders over transactions and changes.
@MainActor @Suite struct HistoryFetchRequestTests {
    private static let model = ManagedObjectModel {
        Entity("Book") {
            Attribute("title", .string).preservedInHistoryOnDeletion()
            Attribute("year", .integer16)
            Attribute("code", .integer16).preservedInHistoryOnDeletion()
        }
        Entity("Tag") {
            Attribute("name", .string)
            Attribute("code", .string).preservedInHistoryOnDeletion()
        }
        ModelConfiguration("Books", entities: ["Book"])
        ModelConfiguration("Tags", entities: ["Tag"])
    }

    /// A store, or one for each entity, with six transactions.
    @MainActor private final class Scene {
        let folder: TemporaryFolder
        let coordinator: PersistentStoreCoordinator
        let context: ManagedObjectContext
        let emma: ManagedObject
        let middle: PersistentHistoryToken

        init(severalStores: Bool = false) throws {
            folder = try TemporaryFolder()
            coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
            for configuration in severalStores ? ["Books", "Tags"] : [nil] {
                var description = PersistentStoreDescription(
                    path: folder.path((configuration ?? "All") + ".sqlite"))
                description.configuration = configuration
                description.tracksHistory = true
                try coordinator.addPersistentStore(description)
            }
            context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            context.transactionAuthor = "app"
            emma = try context.insertObject(entityName: "Book")
            emma["title"] = "Emma"
            try context.save()
            context.transactionAuthor = nil
            let tag = try context.insertObject(entityName: "Tag")
            tag["name"] = "red"
            try context.save()
            context.transactionAuthor = "importer"
            for title in ["Persuasion", "Sanditon"] {
                try context.insertObject(entityName: "Book")["title"] = title
            }
            try context.save()
            middle = try #require(try coordinator.currentPersistentHistoryToken())
            context.transactionAuthor = "app"
            emma["title"] = "Emma!"
            emma["year"] = 1815
            try context.save()
            context.name = "window"
            emma["year"] = 1816
            try context.save()
            context.delete(emma)
            try context.save()
        }

        /// The changes of the transactions found, each transaction with its author.
        func transactions(
            _ format: String, _ arguments: (any QueryArgument)?...,
            change: (inout FetchRequest<ManagedObject>) -> Void = { _ in }
        ) throws -> [String] {
            var request = PersistentHistoryTransaction.fetchRequest
            request.predicate = try QueryPredicate(format: format, arguments: arguments)
            change(&request)
            return try context.execute(.fetchHistory(matching: request)).transactions.map {
                "\($0.author ?? "-") \($0.changes.map { "\($0.kind)" }.joined(separator: ","))"
            }
        }

        func changes(
            _ format: String, _ arguments: (any QueryArgument)?...,
            type: PersistentHistoryChangeRequest.ResultType = .changesOnly,
            change: (inout FetchRequest<ManagedObject>) -> Void = { _ in }
        ) throws -> PersistentHistoryResult {
            var fetch = PersistentHistoryChange.fetchRequest
            fetch.predicate = try QueryPredicate(format: format, arguments: arguments)
            change(&fetch)
            var request = PersistentHistoryChangeRequest.fetchHistory(matching: fetch)
            request.resultType = type
            return try context.execute(request)
        }

        func lines(
            _ format: String, _ arguments: (any QueryArgument)?...,
            change: (inout FetchRequest<ManagedObject>) -> Void = { _ in }
        ) throws -> [String] {
            var fetch = PersistentHistoryChange.fetchRequest
            fetch.predicate = try QueryPredicate(format: format, arguments: arguments)
            change(&fetch)
            var request = PersistentHistoryChangeRequest.fetchHistory(matching: fetch)
            request.resultType = .changesOnly
            return try context.execute(request).changes.map {
                "\($0.kind) \($0.objectID.entityName)"
            }
        }
    }

    @Test(arguments: [false, true])
    func aPredicateSelectsTransactionsWithAllTheirChanges(severalStores: Bool) throws {
        let scene = try Scene(severalStores: severalStores)
        let all = [
            "app insert", "- insert", "importer insert,insert", "app update", "app update",
            "app delete",
        ]
        #expect(try scene.transactions("TRUEPREDICATE") == all)
        #expect(
            try scene.transactions("%K != %@", "author", "app") == [
                "- insert", "importer insert,insert",
            ])
        #expect(try scene.transactions("author == nil") == ["- insert"])
        #expect(try scene.transactions("contextName == 'window'") == Array(all.suffix(2)))
        #expect(
            try scene.transactions(
                "processID == %@ AND processName == processID AND bundleID != nil",
                ProcessInfo.processInfo.processName) == all)
        #expect(try scene.transactions("timestamp > %@", Date.distantPast) == all)
        #expect(try scene.transactions("date > %@", Date()).isEmpty)
        #expect(try scene.transactions("transactionNumber == 1 AND number == 1").first == all[0])
        #expect(
            try scene.transactions(
                "storeID == %@ AND storeUUID == storeID",
                scene.coordinator.persistentStores[0].identity.uuid)
                == (severalStores ? all.filter { $0 != "- insert" } : all))
        #expect(try scene.transactions("token > %@", scene.middle) == Array(all.suffix(3)))
        #expect(try scene.transactions("token <= %@", scene.middle) == Array(all.prefix(3)))
        #expect(
            try scene.transactions(
                "ANY changes.changeType == %@", PersistentHistoryChange.Kind.delete)
                == ["app delete"])
        #expect(try scene.transactions("changes.@count > 1") == ["importer insert,insert"])
        #expect(try scene.transactions("ANY changes.changedEntity == 'Tag'") == ["- insert"])
        #expect(
            try scene.transactions(
                "SUBQUERY(changes, $c, $c.changedObjectID == %@ AND $c.kind == 1).@count > 0",
                scene.emma.objectID)
                == ["app update", "app update"])
        try scene.coordinator.close()
    }

    @Test(arguments: [
        ("author != 'sync'", 1), ("token > %@ AND author IN {'a', 'b'}", 2),
        ("date >= CAST(0, 'NSDate') AND (author == 'a' OR contextName == 'b')", 2),
        ("author == 'a' AND changes.@count > 1", 1), ("changes.@count > 1", 0),
        ("author == 'a' OR changes.@count > 1", 0), ("author BEGINSWITH 'a'", 0),
    ])
    func conditionsOnTransactionsAreSQL(format: String, conditions: Int) throws {
        let scene = try Scene()
        let store = try #require(scene.coordinator.persistentStores[0] as? SQLiteStore)
        var fetch = PersistentHistoryTransaction.fetchRequest
        fetch.predicate = try QueryPredicate(
            format: format, arguments: format.contains("%@") ? [scene.middle] : [])
        let request = PersistentHistoryChangeRequest.fetchHistory(matching: fetch)
        var selection = try PersistentHistorySelection(request, layout: store.layout)
        var range = SQLiteHistoryRange(request, number: 0)
        let tables = try #require(try store.read { try SQLiteHistoryTables($0) })
        try range.narrow(to: &selection, store: store.identity.uuid, tables)
        #expect(range.condition.sql.components(separatedBy: " AND ").count == conditions + 1)
        try scene.coordinator.close()
    }

    /// Longer and deeper than SQLite allows.
    @Test func predicatesOfAnySizeAreEvaluated() throws {
        let scene = try Scene()
        let app = try QueryPredicate(format: "author == 'app'")
        let names = QueryExpression.collection(
            (0..<40_000).map { .constant(.string("\($0)")) } + [.constant(.string("app"))])
        let other = QueryPredicate.comparison(
            QueryComparison(.key("author"), .equal, .constant(.string("x"))))
        var nested = app
        for _ in 0..<100 { nested = .not(.or([.not(nested), other])) }
        for predicate in [
            .comparison(QueryComparison(.key("author"), .in, names)),
            .or(Array(repeating: other, count: 3000) + [app]),
            .and(Array(repeating: app, count: 3000)), nested,
        ] {
            let found = try scene.transactions("TRUEPREDICATE") { $0.predicate = predicate }
            #expect(found.count == 4 && found.allSatisfy { $0.hasPrefix("app ") })
        }
        try scene.coordinator.close()
    }

    /// In one store SQL leaves out transactions; with several the predicate is evaluated in memory only.
    @Test(arguments: [
        "author == 'app'", "author != 'app'", "NOT author == 'app'", "author IN {'app', 'x'}",
        "NOT author IN {'app', 'x'}", "author IN {'app', 'x', 'y', 'z', 'importer', 'a'}",
        "author == nil OR contextName != nil", "author > 'app'", "NOT author > 'app'",
        "author ==[c] 'APP'", "'app' == author", "author BEGINSWITH 'imp' AND number > 1",
        "author == 'app' AND ANY changes.kind == 1", "author == 'app' OR ANY changes.kind == 0",
        "number > 1 AND number < 6", "number > 1.5 AND number <= 5.0", "transactionNumber != 2",
        "date > CAST(0, 'NSDate') AND author == contextName", "date == nil", "date != nil",
        "NOT (author == 'app' AND number < 5)", "processName != nil AND bundleID != 'x'",
        "TRUEPREDICATE AND author == nil", "FALSEPREDICATE OR author == nil", "FALSEPREDICATE",
        "author IN {nil, 'importer'}", "number BETWEEN {2, 4}",
    ])
    func sqlLeavesOutOnlyWhatThePredicateDoes(format: String) throws {
        let one = try Scene()
        let several = try Scene(severalStores: true)
        let all = try one.transactions("TRUEPREDICATE")
        #expect(all.count == 6)
        #expect(try several.transactions("TRUEPREDICATE") == all)
        if !format.contains("umber") {
            #expect(try one.transactions(format) == several.transactions(format))
        }
        // Evaluated in memory, because it is a part of what SQL does not evaluate.
        #expect(
            try one.transactions(format)
                == one.transactions("(\(format)) OR changes.@count > 100"))
        if !format.contains("changes") {
            let inner = format.replacing(
                /\b(author|contextName|number|transactionNumber|date|processName|bundleID)\b/
            ) { "transaction.\($0.output.1)" }
            #expect(
                try one.lines(inner)
                    == one.lines("(\(inner)) OR updatedProperties.@count > 100"))
        }
        try one.coordinator.close()
        try several.coordinator.close()
    }

    @Test(arguments: [false, true])
    func aPredicateSelectsChanges(severalStores: Bool) throws {
        let scene = try Scene(severalStores: severalStores)
        let id = scene.emma.objectID
        let ofEmma = ["insert Book", "update Book", "update Book", "delete Book"]
        #expect(try scene.lines("objectID == %@", id) == ofEmma)
        #expect(try scene.lines("changedObjectID == %@ AND SELF == %@", id, id) == ofEmma)
        #expect(try scene.lines("changedObjectID IN %@", [id]) == ofEmma)
        #expect(try scene.lines("changedEntity == 'Tag'") == ["insert Tag"])
        #expect(
            try scene.lines(
                "entity == %@ AND changedObjectID.entity.name == 'Tag'",
                scene.coordinator.managedObjectModel.layout().requireEntity(named: "Tag"))
                == ["insert Tag"])
        #expect(
            try scene.lines("changeType == %@", PersistentHistoryChange.Kind.update)
                == ["update Book", "update Book"])
        #expect(try scene.lines("kind == 2 AND changeID == number") == ["delete Book"])
        #expect(
            try scene.lines("ANY updatedProperties.name == 'title'") == ["update Book"])
        #expect(try scene.lines("updatedProperties.@count == 1") == ["update Book"])
        #expect(try scene.lines("tombstone.title == 'Emma!'") == ["delete Book"])
        #expect(try scene.lines("tombstone.title != nil") == ["delete Book"])
        #expect(try scene.lines("transaction.author == nil") == ["insert Tag"])
        #expect(
            try scene.lines(
                "transaction.number == transactionNumber AND transaction.token > %@", scene.middle)
                == Array(ofEmma.suffix(3)))
        try scene.coordinator.close()
    }

    @Test(arguments: [false, true])
    func orderLimitAndOffsetAreThoseOfTransactions(severalStores: Bool) throws {
        let scene = try Scene(severalStores: severalStores)
        #expect(
            try scene.transactions("author != nil") {
                $0.sortOrderings = [
                    SortOrdering("author", ascending: false),
                    SortOrdering("date", ascending: false),
                ]
                $0.fetchLimit = 3
            } == ["importer insert,insert", "app delete", "app update"])
        #expect(
            try scene.transactions("author != nil") {
                $0.fetchOffset = 1
                $0.fetchLimit = 2
            } == ["importer insert,insert", "app update"])
        #expect(
            try scene.transactions("TRUEPREDICATE") {
                $0.sortOrderings = [SortOrdering("changes.@count", ascending: false)]
                $0.fetchLimit = 2
            } == ["importer insert,insert", "app insert"])
        #expect(try scene.transactions("TRUEPREDICATE") { $0.fetchOffset = 100 }.isEmpty)
        #expect(
            try scene.transactions("TRUEPREDICATE") {
                $0.fetchLimit = .max
                $0.fetchOffset = .max
            }.isEmpty)
        #expect(
            try scene.transactions("TRUEPREDICATE") {
                $0.affectedStores = [UUID().uuidString]
            }.isEmpty)
        try scene.coordinator.close()
    }

    @Test(arguments: [false, true])
    func ofTransactionsOnlyTheSelectedChangesAreGiven(severalStores: Bool) throws {
        let scene = try Scene(severalStores: severalStores)
        let format = "changedEntity == 'Book'"
        func latest(_ fetch: inout FetchRequest<ManagedObject>) {
            fetch.sortOrderings = [
                SortOrdering("transactionNumber", ascending: false),
                SortOrdering("number", ascending: false),
            ]
            fetch.fetchLimit = 5
        }
        let transactions = try scene.changes(format, type: .transactionsAndChanges, change: latest)
        #expect(transactions.transactions.map(\.author) == ["importer", "app", "app", "app"])
        #expect(transactions.transactions.map(\.changes.count) == [2, 1, 1, 1])
        let numbers = transactions.transactions[0].changes.map(\.number)
        #expect(numbers == numbers.sorted(by: >))
        #expect(transactions.count == 4)
        let bare = try scene.changes(format, type: .transactionsOnly, change: latest)
        #expect(bare.transactions.map(\.number) == transactions.transactions.map(\.number))
        #expect(bare.transactions.flatMap(\.changes).isEmpty)
        #expect(try scene.changes(format, type: .count, change: latest).count == 5)
        #expect(try scene.changes(format, type: .count).count == 6)
        let objects = try scene.changes(format, type: .objectIDs, change: latest)
        #expect(objects.objectIDs.first == scene.emma.objectID)
        #expect(objects.count == 3)
        #expect(try scene.changes(format, type: .statusOnly).count == 0)
        try scene.coordinator.close()
    }

    @Test(arguments: [false, true])
    func aFetchRequestIsCombinedWithAToken(severalStores: Bool) throws {
        let scene = try Scene(severalStores: severalStores)
        var request = PersistentHistoryChangeRequest.fetchHistory(after: scene.middle)
        var fetch = PersistentHistoryTransaction.fetchRequest
        fetch.predicate = try QueryPredicate(format: "contextName == nil")
        request.fetchRequest = fetch
        #expect(request.fetchRequest == fetch)
        #expect(try scene.context.execute(request).count == 1)
        request.resultType = .count
        #expect(try scene.context.execute(request).count == 1)
        request.fetchRequest = nil
        #expect(try scene.context.execute(request).count == 3)
        try scene.coordinator.close()
    }

    @Test(arguments: [false, true])
    func anInvalidFetchRequestIsAnError(severalStores: Bool) throws {
        let scene = try Scene(severalStores: severalStores)
        func error(
            _ fetch: FetchRequest<ManagedObject>, _ format: String? = nil,
            change: (inout FetchRequest<ManagedObject>) -> Void = { _ in }
        ) throws -> QuireError.Code? {
            var fetch = fetch
            fetch.predicate = try format.map { try QueryPredicate(format: $0) }
            change(&fetch)
            return #expect(throws: QuireError.self) {
                try scene.context.execute(.fetchHistory(matching: fetch))
            }?.code
        }
        let transactions = PersistentHistoryTransaction.fetchRequest
        let changes = PersistentHistoryChange.fetchRequest
        for key in ["writer", "changes.colour", "tombstone", "author.name"] {
            #expect(try error(transactions, "\(key) == nil") == .unknownKey)
        }
        // Books and tags preserve codes of different types.
        for key in ["title", "tombstone.name", "tombstone.code", "changedObjectID.title"] {
            #expect(try error(changes, "\(key) == 'x'") == .unknownKey)
        }
        for format in ["changes == nil", "date == 'yesterday'", "author > 3"] {
            #expect(try error(transactions, format) == .invalidQuery)
        }
        for format in ["updatedProperties == 'x'", "tombstone == 5", "objectID == 'Book/p1'"] {
            #expect(try error(changes, format) == .invalidQuery)
        }
        #expect(
            try error(transactions) { $0.sortOrderings = [SortOrdering("writer")] } == .unknownKey)
        #expect(
            try error(transactions) { $0.sortOrderings = [SortOrdering("changes")] }
                == .invalidQuery)
        #expect(try error(transactions) { $0.resultType = .dictionaries } == .invalidQuery)
        #expect(try error(FetchRequest("Book")) == .invalidQuery)
        #expect(try error(FetchRequest("")) == .invalidQuery)
        var deletion = PersistentHistoryChangeRequest.deleteHistory(before: Date.distantFuture)
        deletion.fetchRequest = transactions
        #expect(throws: QuireError.self) { try scene.context.execute(deletion) }
        #expect(try scene.transactions("TRUEPREDICATE").count == 6)
        try scene.coordinator.close()
    }

    @Test(arguments: [false, true])
    func aTokenInAPredicateExpires(severalStores: Bool) throws {
        let scene = try Scene(severalStores: severalStores)
        try scene.context.execute(.deleteHistory(before: Date.distantFuture))
        let error = #expect(throws: QuireError.self) {
            try scene.transactions("token > %@", scene.middle)
        }
        #expect(error?.code == .historyTokenExpired)
        try scene.coordinator.close()
    }
}
