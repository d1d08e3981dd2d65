import Quire
import QuireSync

extension SyncResult {
    /// Whether nothing was sent or merged.
    var isEmpty: Bool {
        sentCount == 0 && receivedCount == 0 && changes.isEmpty && conflictCount == 0
            && !changesFiles
    }

    /// The members of the JSON object.
    var members: [String: JSONValue] {
        func number(_ count: Int) -> JSONValue { .integer(Int64(count)) }
        return [
            "sent": number(sentCount), "received": number(receivedCount),
            "inserted": number(changes.inserted.count), "updated": number(changes.updated.count),
            "deleted": number(changes.deleted.count), "conflicts": number(conflictCount),
            "missingFiles": number(missingFileCount), "changesFiles": .boolean(changesFiles),
            "problems": .array(
                problems.map {
                    .object(["file": .string($0.fileName), "message": .string($0.error.message)])
                }),
        ]
    }

    /// A summary, as the end of a sentence: “sent 1 file, received 2 files: 3 objects inserted; 1 conflict”.
    var text: String {
        if isEmpty, missingFileCount == 0, problems.isEmpty {
            return "nothing to send or receive"
        }
        var text =
            "sent \(Count.of(sentCount, "file")), received \(Count.of(receivedCount, "file"))"
        var counts: [String] = []
        for (ids, participle) in [
            (changes.inserted, "inserted"), (changes.updated, "changed"),
            (changes.deleted, "deleted"),
        ] where !ids.isEmpty {
            let count = counts.isEmpty ? Count.of(ids.count, "object") : "\(ids.count)"
            counts.append("\(count) \(participle)")
        }
        if changesFiles { counts.append("additional content changed") }
        if !counts.isEmpty { text += ": " + counts.joined(separator: ", ") }
        if conflictCount > 0 { text += "; " + Count.of(conflictCount, "conflict") }
        if missingFileCount > 0 {
            text += "; \(Count.of(missingFileCount, "file")) with large values not yet received"
        }
        if !problems.isEmpty { text += "; \(Count.of(problems.count, "file")) not merged" }
        return text
    }

    /// The text as a sentence.
    var sentence: String { text.prefix(1).uppercased() + text.dropFirst() + "." }
}

extension SyncProblem {
    /// The problem as a sentence, with the name of the file.
    var sentence: String {
        error.message.contains(fileName)
            || error.message.contains(fileName.split(separator: "/").last ?? "")
            ? error.message : "“\(fileName)”: \(error.message)"
    }
}

extension [SyncProblem] {
    /// The maximum number of problems with the same error code in one folder that are listed one by one.
    private static var maximumListCount: Int { 3 }

    /// The problems as sentences. Many problems with the same error code in one folder become one sentence, which quotes the first.
    var sentences: [String] {
        var kinds: [[String]: [SyncProblem]] = [:]
        var order: [[String]] = []
        for problem in self {
            let folder = problem.fileName.split(separator: "/").first.map(String.init) ?? ""
            let kind = [folder, problem.error.code.rawValue]
            if kinds[kind] == nil { order.append(kind) }
            kinds[kind, default: []].append(problem)
        }
        return order.flatMap { kind in
            let problems = kinds[kind] ?? []
            if problems.count <= Self.maximumListCount { return problems.map(\.sentence) }
            return [
                "\(problems.count) files in “\(kind[0])” were not merged. The first: \(problems[0].sentence)"
            ]
        }
    }
}

extension SyncPeerStatus {
    var json: JSONValue {
        .object([
            "peer": .string(id.description), "files": .integer(Int64(mergedCount)),
            "missing": .integer(Int64(missingCount)), "unseen": .integer(Int64(unseenCount)),
            "date": PrintedDate.json(lastDate), "retired": .boolean(isRetired),
        ])
    }

    /// Describes the replica for the user of another one.
    func sentence(for own: SyncIdentifier) -> String {
        if id == own { return "This replica has written \(Count.of(mergedCount, "file"))." }
        var text = "Replica \(id): \(Count.of(mergedCount, "file")) merged"
        if missingCount > 0 { text += ", \(missingCount) not yet received" }
        text += ", last \(PrintedDate.text(lastDate))"
        return text + (isRetired ? ", retired." : ".")
    }
}

extension SyncConflict {
    /// The object's name.
    var objectName: String {
        if entityName == Self.additionalContent {
            return kind == .deletion ? "file (deleted)" : "file"
        }
        return objectID?.shortDescription
            ?? "\(entityName) (\(kind == .hidden ? "hidden" : "deleted"))"
    }

    var json: JSONValue {
        var members: [String: JSONValue] = [
            "number": .integer(number), "id": JSONValue(objectID?.uriRepresentation),
            "entity": .string(entityName), "property": .string(propertyName),
            "kind": .string(kind.rawValue), "lost": Self.json(lost, lostByteCount),
            "kept": Self.json(kept, keptByteCount), "date": PrintedDate.json(date),
        ]
        if kind == .hidden {
            members["lost"] = .object(values.mapValues { PrintedValue($0).json })
            members["kept"] = JSONValue(hiddenBy?.uriRepresentation)
        }
        return .object(members)
    }

    private static func json(_ value: AttributeValue, _ byteCount: Int64?) -> JSONValue {
        byteCount.map { .object(["bytes": .integer($0)]) } ?? PrintedValue(value).json
    }

    /// The value that was lost, or all values of a hidden object.
    var lostText: String {
        if kind != .hidden { return Self.text(lost, lostByteCount) }
        return values.sorted { $0.key < $1.key }
            .map { "\($0.key)=\(PrintedValue($0.value).text)" }.joined(separator: " ")
    }

    /// The value that was kept, or the object that hides this one.
    var keptText: String {
        switch kind {
        case .value: Self.text(kept, keptByteCount)
        case .deletion: "(deleted)"
        case .hidden: hiddenBy?.shortDescription ?? "(missing)"
        }
    }

    private static func text(_ value: AttributeValue, _ byteCount: Int64?) -> String {
        byteCount.map { "<\($0) bytes>" } ?? PrintedValue(value).text
    }

    /// The texts of a table's row.
    var texts: [String] {
        [String(number), objectName, propertyName, lostText, keptText, PrintedDate.text(date)]
    }

    static let columns: [TextTable.Column] = [
        ("number", .right), ("object", .left), ("property", .left), ("lost", .left),
        ("kept", .left), ("set", .left),
    ]
}
