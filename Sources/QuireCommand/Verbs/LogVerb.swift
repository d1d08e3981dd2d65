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
        save is a transaction; what quire saves to such a store is one too, with the author “quire”.

        EXAMPLES:
          quire log Recipes.sqlite --limit 10
          quire log Recipes.sqlite --entity Recipe --author app --since 2026-11-01T00:00:00Z
          quire log Recipes.sqlite --object Recipe/p12 --json
        """
    static let access = DocumentSession.Access.read

    @Option(help: ArgumentHelp("At most so many transactions.", valueName: "N"))
    var limit: Int?

    @Option(help: ArgumentHelp("Only transactions of an author.", valueName: "NAME"))
    var author: String?

    @Option(
        help: ArgumentHelp(
            "Only changes of an entity's objects, and of its sub-entities'.", valueName: "ENTITY"))
    var entity: String?

    @Option(
        help: ArgumentHelp(
            "Only changes of an object, which may be deleted.", valueName: "ID"))
    var object: String?

    @Option(
        help: ArgumentHelp("Only transactions after a time.", valueName: "DATE"),
        transform: { text in
            do { return try Date(text, strategy: .iso8601) } catch {
                throw ValidationError("--since takes a time such as 2026-11-01T00:00:00Z.")
            }
        })
    var since: Date?

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit takes a number from 1 on.") }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let request =
            since.map { PersistentHistoryChangeRequest.fetchHistory(after: $0) }
            ?? .fetchHistory(after: nil)
        let entities = try entity.map { try document.layout.requireEntity(named: $0).subtree }
        let objectID = try object.map { try document.coordinator.objectID(for: $0) }
        let isFiltered = entities != nil || objectID != nil
        var found:
            [(transaction: PersistentHistoryTransaction, changes: [PersistentHistoryChange])] =
                []
        for transaction in try document.context.execute(request).transactions.reversed() {
            if let limit, found.count == limit { break }
            if let author, transaction.author != author { continue }
            let changes = transaction.changes.filter { change in
                entities.map { $0.contains(change.objectID.entityNumber) } ?? true
                    && objectID.map { $0 == change.objectID } ?? true
            }
            if isFiltered && changes.isEmpty { continue }
            found.append((transaction, changes))
        }
        return Reply { output in
            if output.json {
                try output.print(.array(found.map(Self.json)), levels: 1)
            } else if found.isEmpty {
                try output.print("No transactions.")
            } else {
                for (transaction, changes) in found { try Self.print(transaction, changes, output) }
            }
        }
    }

    private static func json(
        _ transaction: PersistentHistoryTransaction, _ changes: [PersistentHistoryChange]
    ) -> JSONValue {
        .object([
            "number": .integer(transaction.number),
            "date": PrintedDate.json(transaction.date),
            "author": JSONValue(transaction.author),
            "context": JSONValue(transaction.contextName),
            "process": JSONValue(transaction.processName),
            "bundle": JSONValue(transaction.bundleID),
            "changes": .array(
                changes.map { change in
                    .object([
                        "kind": .string("\(change.kind)"),
                        "id": .string(change.objectID.uriRepresentation),
                        "properties": change.updatedProperties.map {
                            .array($0.map { .string($0) })
                        } ?? .null,
                        "values": .object(
                            change.preservedValues.mapValues { PrintedValue($0).json }),
                    ])
                }),
        ])
    }

    private static func print(
        _ transaction: PersistentHistoryTransaction, _ changes: [PersistentHistoryChange],
        _ output: Output
    ) throws {
        let origin = [transaction.author, transaction.contextName, transaction.processName]
            .compactMap { $0 }.joined(separator: ", ")
        try output.print(
            "\(transaction.number)  \(PrintedDate.text(transaction.date))  \(origin)")
        for change in changes {
            var line = "   \(change.kind) \(change.objectID.shortDescription)"
            if let properties = change.updatedProperties, !properties.isEmpty {
                line += ": " + properties.joined(separator: ", ")
            }
            let values = change.preservedValues.sorted { $0.key < $1.key }
                .map { "\($0.key) “\(PrintedValue($0.value).text)”" }
            if !values.isEmpty { line += ": " + values.joined(separator: ", ") }
            try output.print(line)
        }
    }
}
