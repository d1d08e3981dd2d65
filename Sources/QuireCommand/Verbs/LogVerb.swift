import ArgumentParser
import Foundation
import Quire
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

    @Option(help: ArgumentHelp("Only transactions of this author.", valueName: "NAME"))
    var author: String?

    @Option(
        help: ArgumentHelp(
            "Only changes to objects of this entity and its sub-entities.", valueName: "ENTITY"))
    var entity: String?

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
        let filter = try HistoryFilter(
            author: author, entity: entity, object: object, in: document)
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
