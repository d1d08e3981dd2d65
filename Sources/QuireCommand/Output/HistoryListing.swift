import Quire

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

/// The transactions and changes that are asked for.
struct HistoryFilter {
    private let author: String?
    private let entities: ClosedRange<Int>?
    private let objectID: ManagedObjectID?

    /// Whether it leaves anything out.
    var isEmpty: Bool { author == nil && entities == nil && objectID == nil }

    /// - Throws: `QuireError` with code `unknownEntity`, or one about the identifier of the object.
    @MainActor
    init(author: String?, entity: String?, object: String? = nil, in document: DocumentSession)
        throws
    {
        self.author = author
        entities = try entity.map { try document.layout.requireEntity(named: $0).subtree }
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
