import ArgumentParser
import Foundation
import Quire
import QuireSQLite
import QuireStore

/// `quire log PATH`
struct LogVerb: DocumentVerb {
    static let name = "log"
    static let abstract = "Prints a store's history, newest first: who saved what, and when."
    static let discussion = """
        A store has a history if its app tracks one, as Core Data does for extensions, widgets and CloudKit. Each \
        save is a transaction; saves by quire have the author “quire”.

        EXAMPLES:
          quire log Recipes.sqlite --limit 10
          quire log Recipes.sqlite --stat
          quire log Recipes.sqlite --entity Recipe --author app --since 2026-11-01T00:00:00Z
          quire log Recipes.sqlite --object Recipe/p12 --json
        """
    typealias Printing = RowOptions

    @Option(help: ArgumentHelp("The maximum number of transactions.", valueName: "N"))
    var limit: Int?

    @OptionGroup var selection: HistorySelection

    @Option(
        help: ArgumentHelp(
            "Only changes to this object, even if it was deleted.", valueName: "ID"))
    var object: String?

    @Option(
        help: ArgumentHelp("Only transactions after this time.", valueName: "DATE"),
        transform: { text in
            do { return try Date(text, strategy: .iso8601) } catch {
                throw ValidationError("--since accepts a time such as 2026-11-01T00:00:00Z.")
            }
        })
    var since: Date?

    @Flag(help: "Only count the changed objects of each entity.")
    var stat = false

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let request =
            since.map { PersistentHistoryChangeRequest.fetchHistory(after: $0) }
            ?? .fetchHistory(after: nil)
        let filter = try HistoryFilter(selection, object: object, in: document)
        var found: [HistoryEntry] = []
        for transaction in try document.context.execute(request).transactions.reversed() {
            if let limit, found.count == limit { break }
            guard var entry = filter.entry(of: transaction) else { continue }
            entry.isStatistic = stat
            found.append(entry)
        }
        let columns = HistoryEntry.columns(isStatistic: stat)
        return Reply { output in
            if output.format == .table {
                if found.isEmpty { return try output.print("No transactions.") }
                for entry in found { try entry.print(output) }
                return
            }
            try output.printRows(of: found, columns, members: columns.map(\.name)) {
                ($0.texts, $0.json)
            }
        }
    }
}

// MARK: - Transactions

/// A transaction of a store's history, with those of its changes that are asked for.
struct HistoryEntry {
    let transaction: PersistentHistoryTransaction
    let changes: [PersistentHistoryChange]
    /// Whether changes are only counted.
    var isStatistic = false

    var json: JSONValue {
        var members: [String: JSONValue] = [
            "number": .integer(transaction.number),
            "date": PrintedDate.json(transaction.date),
            "author": JSONValue(transaction.author),
            "context": JSONValue(transaction.contextName),
            "process": JSONValue(transaction.processName),
            "bundle": JSONValue(transaction.bundleID),
        ]
        if isStatistic {
            members["entities"] = .object(counts.mapValues(\.json))
        } else {
            members["changes"] = .array(changes.map(Self.json))
        }
        return .object(members)
    }

    private static func json(_ change: PersistentHistoryChange) -> JSONValue {
        .object([
            "kind": .string("\(change.kind)"),
            "id": .string(change.objectID.uriRepresentation),
            "properties": change.updatedProperties.map { .array($0.map { .string($0) }) } ?? .null,
            "values": .object(change.preservedValues.mapValues { PrintedValue($0).json }),
        ])
    }

    /// The columns of a list of transactions.
    static func columns(isStatistic: Bool) -> [TextTable.Column] {
        [
            ("number", .right), ("date", .left), ("author", .left), ("context", .left),
            ("process", .left), ("bundle", .left), (isStatistic ? "entities" : "changes", .left),
        ]
    }

    /// The texts of the columns.
    var texts: [String] {
        [
            "\(transaction.number)", PrintedDate.text(transaction.date), transaction.author ?? "",
            transaction.contextName ?? "", transaction.processName ?? "",
            transaction.bundleID ?? "",
            (isStatistic ? countLines : changes.map(Self.line)).joined(separator: "\n"),
        ]
    }

    /// The numbers of changed objects by entity.
    private var counts: [String: ChangeCounts] {
        var counts: [String: ChangeCounts] = [:]
        for change in changes {
            guard let kind = ObjectDifference.Kind(rawValue: "\(change.kind)") else { continue }
            counts[change.objectID.entityName, default: ChangeCounts()].add(kind)
        }
        return counts
    }

    /// A line for each entity: “Book: 1 inserted, 3 changed”.
    private var countLines: [String] {
        counts.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.text)" }
    }

    /// Prints a line about the transaction, and one for each change, or for each entity.
    func print(_ output: Output) throws {
        let origin = [transaction.author, transaction.contextName, transaction.processName]
            .compactMap { $0 }.joined(separator: ", ")
        try output.print(
            "\(transaction.number)  \(PrintedDate.text(transaction.date))  \(origin)", .bold)
        if isStatistic {
            for line in countLines { try output.print("   " + line) }
            return
        }
        for change in changes {
            try output.print(
                "   " + Self.line(change),
                ObjectDifference.Kind(rawValue: "\(change.kind)")?.style)
        }
    }

    private static func line(_ change: PersistentHistoryChange) -> String {
        var line = "\(change.kind) \(change.objectID.shortDescription)"
        if let properties = change.updatedProperties, !properties.isEmpty {
            line += ": " + properties.joined(separator: ", ")
        }
        let values = change.preservedValues.sorted { $0.key < $1.key }
            .map { "\($0.key) “\(PrintedValue($0.value).text)”" }
        if !values.isEmpty { line += ": " + values.joined(separator: ", ") }
        return line
    }
}

/// The options that select transactions and changes.
struct HistorySelection: ParsableArguments {
    @Option(help: ArgumentHelp("Only transactions of this author.", valueName: "NAME"))
    var author: String?

    @Option(
        help: ArgumentHelp(
            "Only changes to objects of this entity and its sub-entities.", valueName: "ENTITY"))
    var entity: String?
}

/// The transactions and changes that are asked for.
struct HistoryFilter {
    private let author: String?
    private let entities: ClosedRange<Int>?
    private let objectID: ManagedObjectID?

    /// Whether it leaves anything out.
    var isEmpty: Bool { author == nil && entities == nil && objectID == nil }

    /// - Throws: `QuireError` with code `unknownEntity`, or one about the identifier of the object.
    @MainActor
    init(
        _ selection: HistorySelection, object: String? = nil, in document: DocumentSession
    ) throws {
        author = selection.author
        entities = try selection.entity.map { try document.layout.requireEntity(named: $0).subtree }
        objectID = try object.map { try document.coordinator.objectID(for: $0) }
    }

    /// The selected part of a transaction; `nil` if nothing of it is selected.
    func entry(of transaction: PersistentHistoryTransaction) -> HistoryEntry? {
        if let author, transaction.author != author { return nil }
        let changes = transaction.changes.filter { change in
            entities.map { $0.contains(change.objectID.entityNumber) } ?? true
                && objectID.map { $0 == change.objectID } ?? true
        }
        if changes.isEmpty, entities != nil || objectID != nil { return nil }
        return HistoryEntry(transaction: transaction, changes: changes)
    }
}

/// `quire watch PATH`
struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Prints other programs' saves to a document as they happen.",
        discussion: """
            Prints the transactions of the store's history as log does, oldest first, until Ctrl-C, SIGTERM or \
            SIGHUP, which end it with exit code 0. With --json, each transaction is one line. “Watching” on \
            standard error means that all later saves are printed.

            For a store without a history, only the time of each save is printed (with --json, an \
            object with only “date”); quick saves may be combined. A history starts when an app \
            opens the store with tracksHistory (Core Data's NSPersistentHistoryTrackingKey); from \
            then on all programs record it. Writes that a program does not record are not printed.

            The document is only read, and not locked. The write-ahead log of the store exists \
            meanwhile, so its folder must be writable. Programs that repair or replace the store \
            must wait, or the command ends. XML and binary stores cannot be watched.

            EXAMPLES:
              quire watch Recipes.sqlite
              quire watch Recipes.quire --entity Recipe --author app
              quire watch Recipes.sqlite --since 120 --json | jq --unbuffered .number
              quire watch Recipes.quire --count 1 && ./publish
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Option(
        help: ArgumentHelp(
            "Stop after N transactions, or after N saves without a history.", valueName: "N"))
    var count: Int?

    @Option(
        help: ArgumentHelp(
            "Start after the transaction with this number; 0 for all.",
            valueName: "TRANSACTION"))
    var since: Int64?

    @OptionGroup var selection: HistorySelection
    @OptionGroup var options: DocumentOptions

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count must be at least 1.") }
        if let since, since < 0 { throw ValidationError("--since must be at least 0.") }
    }

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        if try DocumentPath.kind(of: path) == .store, try StoreFile(at: path).type != .sqlite {
            throw unsupported
        }
        let document = try await DocumentSession.open(
            path, modelPath: options.model, access: .follow)
        if let note = document.modelNote { Output.report(note) }
        try await document.untilInterrupted { try await watch(document) }
    }

    private var unsupported: QuireError {
        QuireError(
            .unsupported,
            "“\(path)” cannot be watched, because each save rewrites the whole file; convert it to SQLite.",
            file: path)
    }

    /// Prints changes until the task is cancelled, or as many are printed as were asked for.
    @MainActor
    private func watch(_ document: DocumentSession) async throws {
        guard let store = document.store as? SQLiteStore else { throw unsupported }
        guard store.seesCommitsOfOthers else {
            throw QuireError(
                .readOnly,
                "Cannot watch “\(path)”: its folder is not writable, and watching needs a write-ahead log there.",
                file: path)
        }
        // Before the number of the last transaction is read, so that none is missed between.
        let changes = document.coordinator.remoteChanges
        var report = WatchReport(
            path: path, store: store, last: try store.lastHistoryTransactionNumber(),
            filter: try HistoryFilter(selection, in: document),
            remaining: count ?? .max, output: Output(json: options.json))
        if let since { try report.begin(after: since) } else { try report.checkFilter() }
        Output.report(report.beginning)
        if since != nil { try report.printTransactions() }
        if report.remaining == 0 { return }
        for await _ in changes {
            try report.printNews()
            if report.remaining == 0 { return }
        }
    }
}

/// Prints a store's changes, and keeps the position in its history.
private struct WatchReport {
    let path: String
    let store: SQLiteStore
    /// The number of the last transaction that was read; `nil` without a history.
    private(set) var last: Int64?
    let filter: HistoryFilter
    /// The maximum number of transactions, or lines, still to print.
    private(set) var remaining: Int
    let output: Output

    /// The line that says that it begins.
    var beginning: String {
        last == nil
            ? "Watching “\(path)”, which has no history; only the time of each save is printed."
            : "Watching “\(path)”."
    }

    /// - Throws: `QuireError` with code `unsupported` if there is something to select from a history, but no history.
    func checkFilter() throws {
        if last == nil, !filter.isEmpty { throw store.noHistory() }
    }

    /// Begins with the transactions after a number.
    ///
    /// - Throws: `QuireError` with code `unsupported` without a history, or `notFound` if it has no such transaction yet.
    mutating func begin(after number: Int64) throws {
        guard let last else { throw store.noHistory() }
        if number > last {
            throw QuireError(
                .notFound, "“\(path)” has no transaction \(number); the last one is \(last).",
                file: path, value: String(number))
        }
        self.last = number
    }

    /// Prints what has been saved since the last time.
    ///
    /// - Throws: `QuireError` with code `storeReplaced` if another file is at the store's path, or none.
    mutating func printNews() throws {
        if store.fileReplacement != nil {
            throw QuireError(
                .storeReplaced,
                "Another program has replaced or removed “\(path)”; later saves are not printed. Watch it again.",
                file: path)
        }
        if last != nil { return try printTransactions() }
        if try store.lastHistoryTransactionNumber() != nil {
            // It has been begun since.
            last = 0
            return try printTransactions()
        }
        if !filter.isEmpty { return }
        let date = Date()
        try output.printResult(levels: 0, ["\(PrintedDate.text(date))  saved"]) {
            .object(["date": PrintedDate.json(date)])
        }
        try output.flush()
        remaining -= 1
    }

    /// Prints the transactions since the last one that was read.
    mutating func printTransactions() throws {
        guard let known = last else { return }
        let token = PersistentHistoryToken(transactionNumbers: [store.identity.uuid: known])
        let transactions: [PersistentHistoryTransaction]
        do {
            transactions = try store.execute(.fetchHistory(after: token)).transactions
        } catch let error as QuireError where error.code == .historyTokenExpired {
            last = try store.lastHistoryTransactionNumber()
            Output.report(
                "The history of “\(path)” after transaction \(known) has been deleted, in whole or in part; saves from now on are printed."
            )
            return
        }
        for transaction in transactions {
            last = transaction.number
            guard let entry = filter.entry(of: transaction) else { continue }
            if output.json {
                try output.print(entry.json, levels: 0)
            } else {
                try entry.print(output)
            }
            try output.flush()
            remaining -= 1
            if remaining == 0 { return }
        }
    }
}
