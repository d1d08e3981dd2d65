import Quire

/// The numbers of objects of an entity that were inserted, updated and deleted.
struct ChangeCounts {
    var inserted = 0
    var updated = 0
    var deleted = 0

    mutating func add(_ kind: ObjectDifference.Kind) {
        switch kind {
        case .insert: inserted += 1
        case .update: updated += 1
        case .delete: deleted += 1
        }
    }

    var json: JSONValue {
        .object([
            "inserted": .integer(Int64(inserted)), "updated": .integer(Int64(updated)),
            "deleted": .integer(Int64(deleted)),
        ])
    }

    /// “1 inserted, 3 changed”; empty if there are none.
    var text: String {
        [(inserted, "inserted"), (updated, "changed"), (deleted, "deleted")]
            .filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }
}

/// The differences between two states of a document as `diff` prints them, each when it is found.
@MainActor
struct DifferenceListing {
    typealias Unmatched = (ComparedModel.Unmatched, count: Int?)
    typealias Source = (_ body: (String, ObjectDifference) throws -> Void) throws -> Void

    let output: Output
    /// Whether only numbers are printed.
    let isStatistic: Bool
    /// Whether only one entity is compared, and nothing beside the objects.
    let isFiltered: Bool
    /// Whether there was any difference.
    private(set) var differs = false

    /// Prints all differences.
    mutating func print(
        old: String, new: String, unmatched: [Unmatched], files: [ContentDifference],
        _ forEachDifference: Source
    ) throws {
        differs = !unmatched.isEmpty || !files.isEmpty
        if output.json {
            try printJSON(old, new, unmatched, files, forEachDifference)
        } else {
            try printText(old, new, unmatched, files, forEachDifference)
        }
    }

    // MARK: - JSON

    private mutating func printJSON(
        _ old: String, _ new: String, _ unmatched: [Unmatched], _ files: [ContentDifference],
        _ forEachDifference: Source
    ) throws {
        var counts: [String: ChangeCounts] = [:]
        try output.print(raw: "{\n  \"additionalContent\": ")
        try output.printList(indentation: 2, ending: "") { element in
            for file in files {
                try element(
                    .object([
                        "path": .string(file.path), "old": file.old?.json ?? .null,
                        "new": file.new?.json ?? .null,
                    ]))
            }
        }
        if isStatistic {
            try forEachDifference { counts[$0, default: ChangeCounts()].add($1.kind) }
        } else {
            try output.print(raw: ",\n  \"changes\": ")
            try output.printList(indentation: 2, ending: "") { element in
                try withoutActuallyEscaping(element) { element in
                    try forEachDifference { entity, difference in
                        counts[entity, default: ChangeCounts()].add(difference.kind)
                        try element(Self.json(difference, entity))
                    }
                }
            }
        }
        if !counts.isEmpty { differs = true }
        let rest: [(String, JSONValue)] = [
            ("entities", .object(counts.mapValues(\.json))), ("new", .string(new)),
            ("old", .string(old)),
        ]
        for (name, value) in rest { try output.print(raw: ",\n  \"\(name)\": \(value.text())") }
        try output.print(raw: ",\n  \"unmatched\": ")
        try output.printList(indentation: 2, ending: "\n}\n") { element in
            for (unmatched, count) in unmatched {
                try element(
                    .object([
                        "entity": .string(unmatched.entity),
                        "property": JSONValue(unmatched.property),
                        "model": .string(unmatched.place.rawValue),
                        "objects": count.map { .integer(Int64($0)) } ?? .null,
                    ]))
            }
        }
    }

    static func json(_ difference: ObjectDifference, _ entity: String) -> JSONValue {
        var members: [String: JSONValue] = [:]
        for (property, change) in difference.changes { members[property] = json(change) }
        return .object([
            "id": .string(difference.objectID.uriRepresentation), "entity": .string(entity),
            "kind": .string(difference.kind.rawValue),
            "properties": difference.knowsProperties ? .object(members) : .null,
        ])
    }

    private static func json(_ change: ObjectDifference.Change) -> JSONValue {
        func list(_ ids: [ManagedObjectID]) -> JSONValue {
            .array(ids.map { .string($0.uriRepresentation) })
        }
        switch change {
        case .value(let old, let new):
            var members: [String: JSONValue] = [:]
            members["old"] = old?.json
            members["new"] = new?.json
            return .object(members)
        case .members(let removed, let added):
            return .object(["removed": list(removed), "added": list(added)])
        case .order(let old, let new, let removed, let added):
            return .object([
                "old": list(old), "new": list(new), "removed": list(removed), "added": list(added),
            ])
        case .unknown: return .object([:])
        }
    }

    // MARK: - Text

    private mutating func printText(
        _ old: String, _ new: String, _ unmatched: [Unmatched], _ files: [ContentDifference],
        _ forEachDifference: Source
    ) throws {
        var counts: [String: ChangeCounts] = [:]
        try output.print("--- \(old)", .bold)
        try output.print("+++ \(new)", .bold)
        for (unmatched, count) in unmatched {
            try output.print(Self.sentence(unmatched, count))
        }
        try forEachDifference { entity, difference in
            counts[entity, default: ChangeCounts()].add(difference.kind)
            if !isStatistic { try Self.print(difference, to: output) }
        }
        if !counts.isEmpty { differs = true }
        for file in files {
            let sign = file.old == nil ? "+" : file.new == nil ? "-" : "~"
            let bytes = [file.old, file.new].compactMap(\.?.text).joined(separator: " → ")
            try output.print(
                "\(sign) additional content \(JSONValue.string(file.path).text()): \(bytes)",
                file.old == nil ? .green : file.new == nil ? .red : nil)
        }
        if isStatistic, !counts.isEmpty {
            let table = TextTable(
                [
                    ("entity", .left), ("inserted", .right), ("changed", .right),
                    ("deleted", .right),
                ],
                rows: counts.sorted { $0.key < $1.key }.map {
                    [$0.key, "\($0.value.inserted)", "\($0.value.updated)", "\($0.value.deleted)"]
                })
            try output.print(raw: table.text)
        }
        let total = counts.values.reduce(into: ChangeCounts()) {
            $0.inserted += $1.inserted
            $0.updated += $1.updated
            $0.deleted += $1.deleted
        }
        let fileCount =
            files.isEmpty ? [] : ["\(Count.of(files.count, "file")) of additional content"]
        try output.print(
            total.text.isEmpty && fileCount.isEmpty
                ? "No differences\(unmatched.isEmpty ? "" : " in the parts that both models have")."
                : "Objects: \(total.text.isEmpty ? "no differences" : total.text)"
                    + (fileCount.isEmpty ? "." : "; \(fileCount[0])."))
    }

    private static func sentence(
        _ unmatched: ComparedModel.Unmatched, _ count: Int?
    ) -> String {
        let property = unmatched.property.map { ".\($0)" } ?? ""
        let objects = count.map { " (\(Count.of($0, "object")))" } ?? ""
        return switch unmatched.place {
        case .old: "! only the old model has \(unmatched.entity)\(property)\(objects)"
        case .new: "! only the new model has \(unmatched.entity)\(property)\(objects)"
        case .both: "! \(unmatched.entity)\(property) has a different type in the new model"
        }
    }

    /// Prints the difference of an object.
    static func print(_ difference: ObjectDifference, to output: Output) throws {
        let id = difference.objectID.shortDescription
        let style = difference.kind.style
        try output.print(
            "\(difference.kind.sign) \(id)\(difference.knowsProperties ? "" : ": unknown properties")",
            style)
        for (property, change) in difference.changes {
            try output.print("    \(property)\(text(change))", style)
        }
    }

    private static func text(_ change: ObjectDifference.Change) -> String {
        func list(_ sign: String, _ ids: [ManagedObjectID]) -> [String] {
            ids.map { sign + $0.shortDescription }
        }
        switch change {
        case .value(let old, let new):
            return ": " + [old, new].compactMap(\.?.text).joined(separator: " → ")
        case .members(let removed, let added):
            return ": " + (list("-", removed) + list("+", added)).joined(separator: ", ")
        case .order(let old, let new, let removed, let added):
            let edits = list("-", removed) + list("+", added)
            var parts = edits.isEmpty ? [] : [edits.joined(separator: ", ")]
            let removed = Set(removed)
            let added = Set(added)
            // If members have only gone, or come at the end, the order needs no words.
            let isMoved =
                old.filter { !removed.contains($0) }.map(\.shortDescription)
                != new.filter { !added.contains($0) }.map(\.shortDescription)
            let isAppended = new.suffix(added.count).allSatisfy(added.contains)
            if isMoved || !isAppended {
                parts.append("in the order " + list("", new).joined(separator: ", "))
            }
            return ": " + parts.joined(separator: "; ")
        case .unknown: return ""
        }
    }
}
