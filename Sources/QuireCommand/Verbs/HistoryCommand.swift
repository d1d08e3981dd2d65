import ArgumentParser
import Foundation
import Quire

/// `quire history …`
struct HistoryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "Removes old transactions from a store's history.",
        discussion: """
            EXAMPLES:
              quire history purge Recipes.sqlite --older-than 30d --dry-run
              quire history purge Recipes.sqlite --keep 1000
            """,
        subcommands: [HistoryPurgeCommand.self])
}

/// `quire history purge PATH`
struct HistoryPurgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Removes the oldest transactions of a store's history.",
        discussion: """
            A program that has not yet read the removed transactions gets an error, and reads the \
            whole store again. The objects do not change. quire log prints the transactions with their numbers.

            EXAMPLES:
              quire history purge Recipes.sqlite --before 2026-11-01T00:00:00Z
              quire history purge Recipes.sqlite --before 120
              quire history purge Recipes.quire --older-than 30d --dry-run
              quire history purge Recipes.sqlite --keep 1000
            """)

    /// The first transaction that stays.
    enum End: Equatable {
        case date(Date)
        case number(Int64)
        case token(PersistentHistoryToken)

        init(_ text: String) throws {
            if let number = Int64(text) {
                self = .number(number)
            } else if text.hasPrefix("{") {
                do {
                    self = .token(
                        try JSONDecoder().decode(
                            PersistentHistoryToken.self, from: Data(text.utf8)))
                } catch { throw ValidationError("--before accepts a token encoded as JSON.") }
            } else {
                do { self = .date(try Date(text, strategy: .iso8601)) } catch {
                    throw ValidationError(
                        "--before accepts a time such as 2026-11-01T00:00:00Z, the number of a transaction, or a token."
                    )
                }
            }
        }
    }

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Option(
        help: ArgumentHelp(
            "Remove transactions before a time, a transaction or a token.",
            valueName: "DATE|NUMBER|TOKEN"),
        transform: { try End($0) })
    var before: End?

    @Option(
        help: ArgumentHelp(
            "Remove transactions older than N seconds, minutes, hours, days or weeks.",
            valueName: "N(s|m|h|d|w)"),
        transform: { try Self.age($0) })
    var olderThan: Duration?

    @Option(help: ArgumentHelp("Keep the last N transactions.", valueName: "N"))
    var keep: Int?

    @Flag(help: "Print how many transactions would be removed, without removing them.")
    var dryRun = false

    @OptionGroup var options: DocumentOptions
    @OptionGroup var wait: WaitOption

    func validate() throws {
        let count = [before != nil, olderThan != nil, keep != nil].count { $0 }
        guard count == 1 else {
            throw ValidationError("Specify one of --before, --older-than and --keep.")
        }
        if let keep, keep < 0 { throw ValidationError("--keep must be at least 0.") }
    }

    /// The age that a text such as `30d` means.
    static func age(_ text: String) throws -> Duration {
        let seconds: [Character: Int64] = [
            "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800,
        ]
        guard let unit = text.last.flatMap({ seconds[$0] }),
            let count = Int64(text.dropLast()), (0...100_000_000).contains(count)
        else {
            throw ValidationError("--older-than accepts a number and a unit, such as 30d or 12h.")
        }
        return .seconds(count * unit)
    }

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let document = try await DocumentSession.open(
            path, modelPath: options.model, access: dryRun ? .read : .write, waiting: wait)
        let (removed, kept) = try await document.closing {
            if let note = document.modelNote { Output.report(note) }
            let (removed, kept) = try purge(document)
            if removed > 0, try document.isMirrored {
                Output.report(
                    "“\(path)” is mirrored to CloudKit: changes in the removed transactions that its app has not uploaded yet "
                        + "will not reach iCloud.")
            }
            return (removed, kept)
        }
        try options.printResult(
            reportsChanges: !dryRun,
            [
                "\(dryRun ? "Would remove" : "Removed") \(Count.of(removed, "transaction")); \(kept) \(kept == 1 ? "remains" : "remain")."
            ]
        ) { .object(["kept": .integer(Int64(kept)), "removed": .integer(Int64(removed))]) }
    }

    /// Removes transactions, unless that is only tried.
    ///
    /// - Returns: The numbers of transactions that are removed and that stay.
    @MainActor
    private func purge(_ document: DocumentSession) throws -> (removed: Int, kept: Int) {
        var all = PersistentHistoryChangeRequest.fetchHistory(after: nil)
        guard dryRun else {
            var request = deletion(in: document.store)
            request.resultType = .count
            all.resultType = .count
            let removed = try document.context.execute(request).count
            return (removed, try document.context.execute(all).count)
        }
        all.resultType = .transactionsOnly
        let transactions = try document.context.execute(all).transactions
        let removed =
            switch (before, olderThan, keep) {
            case (.date(let date), _, _): transactions.prefix { $0.date < date }.count
            case (.number(let number), _, _): transactions.count { $0.number < number }
            case (.token(let token), _, _):
                transactions.count {
                    $0.number < token.transactionNumbers[$0.storeUUID] ?? 0
                }
            case (nil, let age?, _):
                transactions.prefix { -$0.date.timeIntervalSinceNow > age / .seconds(1) }.count
            case (nil, nil, let keep): max(transactions.count - (keep ?? 0), 0)
            }
        return (removed, transactions.count - removed)
    }

    private func deletion(in store: any PersistentStore) -> PersistentHistoryChangeRequest {
        switch (before, olderThan) {
        case (.date(let date), _): .deleteHistory(before: date)
        case (.number(let number), _):
            .deleteHistory(
                before: PersistentHistoryToken(transactionNumbers: [store.identity.uuid: number]))
        case (.token(let token), _): .deleteHistory(before: token)
        case (nil, let age?): .deleteHistory(olderThan: age)
        case (nil, nil): .deleteHistory(keepingLast: keep ?? .max)
        }
    }
}
