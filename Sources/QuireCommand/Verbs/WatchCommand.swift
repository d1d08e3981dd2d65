import ArgumentParser
import Foundation
import Quire
import QuireSQLite

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

    @Option(help: ArgumentHelp("Only transactions of this author.", valueName: "NAME"))
    var author: String?

    @Option(
        help: ArgumentHelp(
            "Only changes to objects of this entity and its sub-entities.", valueName: "ENTITY"))
    var entity: String?

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
            filter: try HistoryFilter(author: author, entity: entity, in: document),
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
    /// The number of the last transaction that has been looked at; `nil` without a history.
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

    /// Prints the transactions since the last one that has been looked at.
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
