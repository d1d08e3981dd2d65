import ArgumentParser
import Quire

/// The space of a store's values as `stats` prints it.
struct StatisticsListing {
    /// A part of the output.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        case entities, empty, largest
    }

    let statistics: StoreStatistics
    /// The part that is asked for; `nil` for all.
    let only: Part?

    func print(_ output: Output) throws {
        if let only { return try print(only, output) }
        switch output.format {
        case .table: try printAll(output)
        case .json: try output.print(json, levels: 2)
        case .csv, .tsv, .jsonl, .markdown: try print(.entities, output)
        }
    }

    // MARK: - Parts

    private func print(_ part: Part, _ output: Output) throws {
        switch part {
        case .entities: try printEntities(output)
        case .empty: try printEmpty(output)
        case .largest: try printLargest(output)
        }
    }

    private func printEntities(_ output: Output) throws {
        var rows = RowOutput(
            [
                ("entity", .left), ("objects", .right), ("bytes", .right), ("external", .right),
                ("database", .right),
            ],
            members: ["entity", "objects", "bytes", "external", "database"],
            ifEmpty: "No entities.", to: output)
        for use in statistics.entities {
            try rows.add(
                [
                    use.entity.name, "\(use.objects)", "\(use.bytes)", "\(use.external)",
                    use.database.map { "\($0)" } ?? "",
                ], Self.json(use))
        }
        try rows.finish()
    }

    private func printEmpty(_ output: Output) throws {
        var rows = RowOutput(
            [("entity", .left), ("key", .left), ("empty", .right), ("objects", .right)],
            members: ["entity", "key", "empty", "objects"], ifEmpty: "No empty values.",
            to: output)
        for attribute in statistics.empty {
            try rows.add(
                [
                    attribute.entity, attribute.key, "\(attribute.empty)", "\(attribute.objects)",
                ], Self.json(attribute))
        }
        try rows.finish()
    }

    private func printLargest(_ output: Output) throws {
        var rows = RowOutput(
            [("id", .left), ("key", .left), ("bytes", .right), ("", .left)],
            members: ["id", "entity", "key", "bytes", "external"], ifEmpty: "No values.",
            to: output)
        for value in statistics.largest {
            try rows.add(
                [
                    value.id.shortDescription, value.key, "\(value.bytes)",
                    value.isExternal ? "external" : "",
                ], Self.json(value))
        }
        try rows.finish()
    }

    private func printAll(_ output: Output) throws {
        try printEntities(output)
        if !statistics.empty.isEmpty {
            try output.print("")
            try output.print("Empty in at least half of the objects", .bold)
            try printEmpty(output)
        }
        if !statistics.largest.isEmpty {
            try output.print("")
            try output.print("Largest values", .bold)
            try printLargest(output)
        }
        if let use = statistics.database {
            let parts = [
                (use.relationships, "in relationships"), (use.history, "in the history"),
                (use.other, "in other tables"), (use.free, "free"),
            ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
            try output.print("")
            try output.print(
                (["Database: \(use.database) bytes"] + parts).joined(separator: ", ") + ".")
        }
    }

    // MARK: - JSON

    private var json: JSONValue {
        .object([
            "entities": .array(statistics.entities.map(Self.json)),
            "empty": .array(statistics.empty.map(Self.json)),
            "largest": .array(statistics.largest.map(Self.json)),
            "database": statistics.database.map { use in
                .object([
                    "bytes": .integer(use.database), "free": .integer(use.free),
                    "relationships": .integer(use.relationships),
                    "history": .integer(use.history), "other": .integer(use.other),
                ])
            } ?? .null,
        ])
    }

    private static func json(_ use: StoreStatistics.EntityUse) -> JSONValue {
        .object([
            "entity": .string(use.entity.name), "objects": .integer(Int64(use.objects)),
            "bytes": .integer(use.bytes), "external": .integer(use.external),
            "database": use.database.map { .integer($0) } ?? .null,
        ])
    }

    private static func json(_ attribute: StoreStatistics.EmptyAttribute) -> JSONValue {
        .object([
            "entity": .string(attribute.entity), "key": .string(attribute.key),
            "empty": .integer(Int64(attribute.empty)),
            "objects": .integer(Int64(attribute.objects)),
        ])
    }

    private static func json(_ value: StoreStatistics.LargeValue) -> JSONValue {
        .object([
            "id": .string(value.id.uriRepresentation), "entity": .string(value.id.entityName),
            "key": .string(value.key), "bytes": .integer(value.bytes),
            "external": .boolean(value.isExternal),
        ])
    }
}
