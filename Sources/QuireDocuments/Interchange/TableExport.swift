package import Foundation
import Quire
package import QuireStore

/// The format of exported tables.
public enum TableFormat: String, Sendable, Hashable, CaseIterable {
    /// Comma-separated values (RFC 4180).
    case csv
    /// One JSON object per line.
    case jsonLines = "jsonl"
}

/// Writes the objects of a store to a folder of text files, one for each entity, with a description that tools read:
/// `datapackage.json`, a Frictionless Data Package (version 1).
///
/// Invariants
/// ==========
///
/// - The folder is built beside its destination and synchronized before it gets its name, so it appears whole or not at all.
/// - Equal objects with equal keys produce equal files.
/// - One batch of objects is in memory at a time.
/// - Only an earlier export is ever replaced: a folder that has a `datapackage.json` and nothing else that an export does not have.
///
/// A binary value of at most 100 KiB is base64 in its place. A larger one is a file, `data/Book/12.cover`, and in its place is
/// that path, which contains a dot as base64 never does; see ``CSVTables`` and ``JSONLinesTables``.
package struct TableExport {
    /// The store, which must not change meanwhile.
    package var store: any PersistentStore
    /// The folder to create.
    package var destination: String
    package var format: TableFormat
    /// Whether an earlier export may be replaced.
    package var replacesExisting: Bool
    /// Counts the objects, for CSV each one twice, and is checked for cancellation. Without one the export cannot be cancelled.
    package var progress: Progress?
    /// The maximum permissions of a file with the content; `nil` for those of any new file.
    package var permissions: UInt32?

    /// The maximum size of a binary value in a table.
    static let maximumInlineSize = 100 * 1024
    private static let descriptionName = "datapackage.json"
    private static let dataName = "data"

    package init(
        store: any PersistentStore, destination: String, format: TableFormat,
        replacesExisting: Bool = false, progress: Progress? = nil, permissions: UInt32? = nil
    ) {
        self.store = store
        self.destination = FileSystem.absolute(destination)
        self.format = format
        self.replacesExisting = replacesExisting
        self.progress = progress
        self.permissions = permissions
    }

    /// Writes the folder.
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists`, also if the folder to replace is not an export, `cancelled`, or errors of
    ///   reading and writing. No folder is left then.
    package func run() throws {
        let place = replacesExisting ? FileSystem.resolvingLink(destination) : destination
        let isTaken = FileSystem.exists(place)
        if isTaken { try checkReplaceable(place) }
        let sibling = try TemporarySibling.makeFolder(beside: place)
        defer { sibling.remove() }
        try sibling.building {
            let resources =
                switch format {
                case .csv: try CSVTables(self, folder: sibling.path).write()
                case .jsonLines: try JSONLinesTables(self, folder: sibling.path).write()
                }
            let package = JSONValue.object([
                "profile": .string(
                    format == .csv ? "tabular-data-package" : "data-package"),
                "resources": .array(resources),
            ])
            try FileSystem.writeNewFile(
                Data((package.text(levels: 6) + "\n").utf8),
                at: FileSystem.path(sibling.path, Self.descriptionName))
            let readers = permissions ?? 0o777
            try sibling.file.setPermissionsIfPossible(
                sibling.defaultPermissions & (readers | (readers & 0o444) >> 2 | 0o7700))
            try FileSystem.synchronizeTree(sibling.path)
            try checkCancelled()
            guard isTaken else { return try sibling.publish() }
            try exchange(sibling, with: place)
        }
    }

    /// Puts the folder in the place of an older one, which gets the temporary name and is removed.
    private func exchange(_ sibling: TemporarySibling, with place: String) throws {
        // Other processes must not consider it abandoned while it has the temporary name.
        let claim = try OpenFile.open(place, for: .folder)
        defer { claim.close() }
        _ = try claim.claim()
        try TerminationCleanup.uninterrupted {
            try FileSystem.exchange(sibling.path, place)
            do {
                try FileSystem.synchronizeFolder(containing: place)
            } catch {
                try? FileSystem.exchange(sibling.path, place)
                throw error
            }
        }
    }

    /// Throws if anything but an earlier export would be replaced.
    private func checkReplaceable(_ place: String) throws {
        guard replacesExisting else { throw FileSystem.failure("create", place, errno: EEXIST) }
        let isFolder = try FileSystem.information(at: place)?.kind == .folder
        let names = isFolder ? try FileSystem.names(in: place) : []
        let other = names.first { name in
            name != Self.descriptionName && name != Self.dataName
                && !TableFormat.allCases.contains { name.hasSuffix(".\($0.rawValue)") }
        }
        guard names.contains(Self.descriptionName), other == nil else {
            let reason = other.map { "it contains “\($0)”" } ?? "it has no \(Self.descriptionName)"
            throw QuireError(
                .alreadyExists,
                "“\(place)” was not replaced, because it is not an export of tables: \(reason). Choose another name.",
                file: place)
        }
    }

    /// The error if the export is cancelled.
    func checkCancelled() throws {
        try progress?.checkCancelled(
            "The export to “\(destination)” was cancelled.", file: destination)
    }

    /// Writes a large value to a file of its own.
    ///
    /// - Parameters:
    ///   - table: The name of the table's file, without extension.
    ///   - body: Calls the closure that it is given with the bytes, block by block.
    /// - Returns: The path in the folder.
    func writeValue(
        of column: String, row: Int64, table: String, in folder: String,
        _ body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void
    ) throws -> String {
        let name = "\(Self.dataName)/\(table)/\(row).\(column)"
        let path = FileSystem.path(folder, name)
        let parent = FileSystem.folder(of: path)
        if !FileSystem.exists(parent) {
            try FileSystem.makeFolder(parent, withIntermediates: true)
        }
        let file = try OpenFile.open(path, for: .creating)
        defer { file.close() }
        try body { block in
            try checkCancelled()
            try file.write(block)
        }
        return name
    }

    /// The entities that have a file, with its name without extension.
    func files(_ names: inout UniqueNames) throws -> [(entity: ResolvedEntity, name: String)] {
        let numbers = try store.layout.entityNumbers(ofConfiguration: store.configurationName)
        return store.layout.entities.filter { numbers.contains($0.number) && !$0.isAbstract }
            .map { ($0, names.add($0.name)) }
    }
}

// MARK: - Files

/// A new text file, written in blocks.
final class TableFile {
    private let file: OpenFile
    private var buffer: [UInt8] = []
    private static let blockSize = 1 << 16

    init(at path: String) throws { file = try OpenFile.open(path, for: .creating) }

    /// Adds bytes.
    func write(_ body: (inout [UInt8]) throws -> Void) throws {
        try body(&buffer)
        if buffer.count >= Self.blockSize { try flush() }
    }

    private func flush() throws {
        try buffer.withUnsafeBytes { try file.write($0) }
        buffer.removeAll(keepingCapacity: true)
    }

    /// Writes the rest, and closes the file.
    func finish() throws {
        try flush()
        file.close()
    }
}

// MARK: - Descriptions

/// The parts of a Data Package's description.
enum TableDescription {
    /// A field of a table.
    static func field(
        _ name: String, _ type: String, format: String? = nil, description: String? = nil
    ) -> JSONValue {
        var members: [String: JSONValue] = ["name": .string(name), "type": .string(type)]
        if let format { members["format"] = .string(format) }
        if let description { members["description"] = .string(description) }
        return .object(members)
    }

    /// A field of an attribute, whose values are as in JSON.
    static func field(_ name: String, _ type: AttributeType) -> JSONValue {
        switch type {
        case .integer16, .integer32, .integer64: field(name, "integer")
        case .double, .float: field(name, "number")
        case .boolean: field(name, "boolean")
        // Any ISO 8601: the default format has no fractions of seconds.
        case .date: field(name, "datetime", format: "any")
        case .uuid: field(name, "string", format: "uuid")
        case .uri: field(name, "string", format: "uri")
        case .binary, .transformable:
            field(
                name, "string",
                description: "Base64, or the path of a file with the bytes of a large value.")
        case .decimal, .string, .undefined, .objectID, .composite: field(name, "string")
        }
    }

    /// A foreign key to the `id` of another table; `nil` if objects of the entity are in several tables, or in none.
    static func foreignKey(
        _ field: String, to entity: ResolvedEntity, _ resources: [Int: String]
    ) -> JSONValue? {
        let candidates = entity.subtree.compactMap { resources[$0] }
        guard candidates.count == 1, let resource = candidates.first else { return nil }
        return .object([
            "fields": .string(field),
            "reference": .object(["resource": .string(resource), "fields": .string("id")]),
        ])
    }

    /// The names of resources, which are limited to small letters, digits, `.`, `_` and `-`, by the names of their files.
    static func resourceNames(_ files: [String]) -> [String: String] {
        var names = UniqueNames()
        var result: [String: String] = [:]
        for file in files {
            let name = file.lowercased().map { character in
                character.isASCII
                    && (character.isLetter || character.isNumber || "._-".contains(character))
                    ? character : "-"
            }
            result[file] = names.add(String(name))
        }
        return result
    }

    /// The description of a table.
    static func resource(
        _ name: String, file: String, format: TableFormat, title: String, fields: [JSONValue],
        primaryKey: JSONValue, foreignKeys: [JSONValue]
    ) -> JSONValue {
        var schema: [String: JSONValue] = ["fields": .array(fields), "primaryKey": primaryKey]
        if !foreignKeys.isEmpty { schema["foreignKeys"] = .array(foreignKeys) }
        if format == .csv { schema["missingValues"] = .array([.string("")]) }
        return .object([
            "name": .string(name), "path": .string("\(file).\(format.rawValue)"),
            "title": .string(title), "encoding": .string("utf-8"),
            "format": .string(format.rawValue),
            "mediatype": .string(format == .csv ? "text/csv" : "application/jsonl"),
            "profile": .string(format == .csv ? "tabular-data-resource" : "data-resource"),
            "schema": .object(schema),
        ])
    }
}
